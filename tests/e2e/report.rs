//! A report in a real browser: headless Chromium, without a network.
//!
//! The browser is looked up in `COPILOT_BRIDGE_E2E_CHROMIUM`. Without it the cases say that they were
//! skipped, unless `COPILOT_BRIDGE_E2E_CHROMIUM_REQUIRED=1`. What was rendered stays below the target
//! directory, in `tmp/report`, for a person to look at.

use std::env;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bridge::audit::record::v1::Kind;
use crate::bridge::engine::decision::Effect;
use crate::client::skip;
use crate::made_record::{Maker, What, busy};

/// Where to look for the browser.
const PATH_VARIABLE: &str = "COPILOT_BRIDGE_E2E_CHROMIUM";
/// Set to `1` where a missing browser must not go unnoticed.
const REQUIRED_VARIABLE: &str = "COPILOT_BRIDGE_E2E_CHROMIUM_REQUIRED";

/// The browser, or `None` after saying that `case` is skipped.
fn browser(case: &str) -> Option<PathBuf> {
    let path = env::var_os(PATH_VARIABLE).map(PathBuf::from);
    let path = path.filter(|path| path.is_file());
    if path.is_none() {
        assert!(
            env::var_os(REQUIRED_VARIABLE).is_none_or(|value| value != "1"),
            "{REQUIRED_VARIABLE}=1, but {PATH_VARIABLE} does not name Chromium"
        );
        skip(
            case,
            &format!("the page is rendered by Chromium; set {PATH_VARIABLE}"),
        );
    }
    path
}

/// A page in the browser: what its log said, the document, and whether anything was asked of a server.
struct Rendered {
    log: String,
    dom: String,
    fetched: usize,
}

/// Serves nothing, and counts who asks: whatever a page could reach is sent here.
fn proxy() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut connection = connection;
            let mut first = [0; 512];
            let length = connection.read(&mut first).unwrap_or(0);
            let text = String::from_utf8_lossy(first.get(..length).unwrap_or_default());
            // The browser's own upkeep goes to its maker; a page's would go to these names.
            if text.contains("e2e.example") {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (port, asked)
}

fn chromium(program: &Path, home: &Path, port: u16) -> Command {
    let mut command = Command::new(program);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--v=0",
        ])
        .arg(format!("--user-data-dir={}", home.display()))
        .arg(format!("--proxy-server=127.0.0.1:{port}"))
        // Files are pages of one origin: a frame can be asked about.
        .arg("--allow-file-access-from-files")
        .stdin(Stdio::null());
    command
}

/// Opens `page` in a frame of that size, beside a script that measures its charts.
fn render(program: &Path, page: &Path, width: u32) -> Rendered {
    let home = tempfile::tempdir().expect("there is room");
    let (port, asked) = proxy();
    let frame = home.path().join("frame.html");
    let text = format!(
        r#"<!DOCTYPE html><body style="margin:0"><pre id="said">waiting</pre>
<iframe id="page" style="border:0;width:{width}px;height:3000px"></iframe>
<script>
const page = document.getElementById("page");
page.onload = () => {{
  const inner = page.contentDocument;
  const box = node => node.getBoundingClientRect();
  const charts = [...inner.querySelectorAll("svg.chart")].map(chart => ({{
    title: chart.querySelector("title").textContent,
    width: Math.round(box(chart).width), height: Math.round(box(chart).height),
    shapes: [...chart.querySelectorAll("rect:not(.hit),circle,line:not(.gridline)")].filter(one => box(one).width > 0).length,
    outside: [...chart.querySelectorAll("text")].filter(one => box(one).right > {width} || box(one).left < 0).length,
    overlapping: [...chart.querySelectorAll("text")].map(box).filter(one => one.width > 0).filter((one, index, all) =>
      all.some((two, other) => other > index && one.left < two.right && two.left < one.right
        && one.top < two.bottom && two.top < one.bottom)).length,
    painted: [...chart.querySelectorAll("rect:not(.hit),line")].map(one => inner.defaultView.getComputedStyle(one))
      .filter(one => one.fill == "rgb(0, 0, 0)" && one.stroke == "none").length == 0,
  }}));
  document.getElementById("said").textContent = JSON.stringify({{
    charts, bars: inner.querySelectorAll("svg.bar rect").length,
    across: inner.documentElement.scrollWidth, scripts: inner.scripts.length,
    tables: inner.querySelectorAll("table").length,
    resources: inner.defaultView.performance.getEntriesByType("resource").length,
    styled: inner.defaultView.getComputedStyle(inner.querySelector("main")).maxWidth,
    images: inner.images.length, heading: inner.querySelector("h1").textContent,
  }});
}};
page.src = "{}";
</script>"#,
        page.display()
    );
    fs::write(&frame, text).expect("there is room");
    let output = chromium(program, home.path(), port)
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{}", frame.display()))
        .output()
        .expect("Chromium starts");
    assert!(output.status.success(), "{output:?}");
    Rendered {
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        fetched: asked.load(Ordering::SeqCst),
    }
}

impl Rendered {
    /// What the script measured.
    fn measured(&self) -> serde_json::Value {
        let said = self.dom.split("<pre id=\"said\">").nth(1);
        let said = said.and_then(|rest| rest.split("</pre>").next());
        let said = said.unwrap_or_else(|| panic!("no answer: {}", self.dom));
        serde_json::from_str(
            &said
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&"),
        )
        .unwrap_or_else(|error| panic!("{error}: {said}: {}", self.log))
    }

    /// Nothing was refused, nothing was asked for, and nothing was said on the console.
    fn assert_quiet(&self) {
        for word in ["CONSOLE", "Refused to", "Content Security Policy"] {
            assert!(!self.log.contains(word), "{}", self.log);
        }
        assert_eq!(self.fetched, 0, "{}", self.log);
    }
}

/// A picture of the page, for a person, and as proof that it is not blank.
fn picture(program: &Path, page: &Path, size: (u32, u32), dark: bool) {
    let home = tempfile::tempdir().expect("there is room");
    let (port, _) = proxy();
    let name = page
        .file_stem()
        .and_then(|name| name.to_str())
        .unwrap_or("page");
    let shade = if dark { "dark" } else { "light" };
    let file = page.with_file_name(format!("{name}-{}-{shade}.png", size.0));
    let mut command = chromium(program, home.path(), port);
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let output = command
        .arg(format!("--window-size={},{}", size.0, size.1))
        .arg(format!("--screenshot={}", file.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("Chromium starts");
    assert!(output.status.success(), "{output:?}");
    // One colour alone takes a hundredth of that.
    let bytes = fs::metadata(&file).map_or(0, |metadata| metadata.len());
    assert!(bytes > 20_000, "{} has {bytes} bytes", file.display());
}

/// The page of a record, written by the program itself.
fn page(name: &str, record: Maker, more: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    let from = folder.join(name);
    let _ = fs::remove_dir_all(&from);
    fs::create_dir_all(&from).expect("the target directory is writable");
    let page = folder.join(format!("{name}.html"));
    for (day, lines) in record.days() {
        fs::write(from.join(format!("audit-{day}.jsonl")), lines).expect("there is room");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_copilot-bridge"))
        .args(["audit", "report"])
        .arg(&from)
        .arg("--output")
        .arg(&page)
        .args(more)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    page
}

#[test]
fn a_busy_record_is_drawn_in_every_window() {
    let Some(program) = browser("a_busy_record_is_drawn_in_every_window") else {
        return;
    };
    let policies = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");
    for (name, days, sessions) in [("busy", 28, 24), ("hours", 2, 24), ("weeks", 200, 1)] {
        let record = busy("2026-03-02T00:00:00Z", days, sessions);
        let page = page(name, record, &["--policies", policies]);
        for width in [1400, 800, 360] {
            let rendered = render(&program, &page, width);
            rendered.assert_quiet();
            let measured = rendered.measured();
            let charts = measured["charts"].as_array().expect("a list");
            assert_eq!(charts.len(), 2, "{measured:#}");
            for chart in charts {
                let number = |name: &str| chart[name].as_u64().unwrap_or(0);
                assert!(number("width") > 300 && number("height") > 150, "{chart:#}");
                assert!(number("shapes") >= 20, "{chart:#}");
                assert_eq!(number("outside"), 0, "{chart:#}");
                assert_eq!(number("overlapping"), 0, "{name} at {width}: {chart:#}");
                assert_eq!(chart["painted"], true, "{chart:#}");
            }
            assert_eq!(charts[0]["title"], "Decisions over time");
            assert_eq!(charts[1]["title"], "Latency over time");
            assert!(measured["bars"].as_u64() > Some(20), "{measured:#}");
            assert_eq!(
                measured["styled"], "1200px",
                "the style applies: {measured:#}"
            );
            // Nothing runs over the side of the window.
            assert!(
                measured["across"].as_u64() <= Some(width.into()),
                "{measured:#}"
            );
            assert_eq!(measured["scripts"], 0);
            assert_eq!(measured["resources"], 0);
        }
        for dark in [false, true] {
            picture(&program, &page, (1400, 4200), dark);
            picture(&program, &page, (500, 6000), dark);
        }
    }
}

#[test]
fn an_empty_period_and_one_line_are_pages_too() {
    let Some(program) = browser("an_empty_period_and_one_line_are_pages_too") else {
        return;
    };
    for (name, more, charts) in [
        ("one", &[][..], 2),
        ("empty", &["--until", "2020-01-01"][..], 0),
    ] {
        let mut maker = Maker::new("2026-03-02T08:00:00Z");
        maker.line(&What::default());
        let page = page(name, maker, more);
        let rendered = render(&program, &page, 1000);
        rendered.assert_quiet();
        let measured = rendered.measured();
        assert_eq!(measured["charts"].as_array().map(Vec::len), Some(charts));
        assert_eq!(measured["heading"], "The record in short");
        picture(&program, &page, (1200, 2400), false);
    }
}

#[test]
fn what_an_agent_wrote_stays_text() {
    let Some(program) = browser("what_an_agent_wrote_stays_text") else {
        return;
    };
    const TEXTS: [&str; 3] = [
        "</title></code></svg><script>document.title='run'</script><img src=\"http://e2e.example/a.png\">",
        "\"><link rel=stylesheet href=http://e2e.example/a.css><style>*{display:none}</style>",
        "<svg onload=\"fetch('http://e2e.example/')\"><iframe src=http://e2e.example>",
    ];
    let mut maker = Maker::new("2026-03-02T08:00:00Z");
    for text in TEXTS {
        maker.host = text.to_owned();
        for (kind, decision) in [
            (Kind::Result, Effect::Allow),
            (Kind::ToolUse, Effect::Deny),
            (Kind::ToolUse, Effect::Ask),
        ] {
            maker.call(&What {
                kind,
                event: text,
                session: text,
                tool: text,
                path: Some(text),
                command: Some(text),
                decision,
                policy: text,
                rule: Some(text),
                digest: text,
                ..What::default()
            });
        }
    }
    let page = page("hostile", maker, &[]);
    let rendered = render(&program, &page, 1400);
    rendered.assert_quiet();
    let measured = rendered.measured();
    for nothing in ["scripts", "images", "resources"] {
        assert_eq!(measured[nothing], 0, "{measured:#}");
    }
    assert_eq!(measured["charts"].as_array().map(Vec::len), Some(2));
    assert_eq!(measured["styled"], "1200px");
    // And were a tag to get through: the page's policy refuses what it wants.
    let text = fs::read_to_string(&page).expect("it was written");
    let text = text.replacen("<main>", &format!("<main>{}", TEXTS.concat()), 1);
    fs::write(&page, text).expect("there is room");
    let rendered = render(&program, &page, 1400);
    assert!(
        rendered.log.contains("Content Security Policy"),
        "{}",
        rendered.log
    );
    assert_eq!(rendered.fetched, 0, "{}", rendered.log);
    picture(&program, &page, (1400, 2400), false);
}
