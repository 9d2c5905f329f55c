//! The numbers, over records in the form that the writer gives them.

use serde_json::{Value, json};

use crate as bridge;
use crate::audit::record::v1::Kind;
use crate::audit::report::numbers::{NeverMatched, Report, Signs, Unused};
use crate::audit::report::{Collector, Known, html, markdown};
use crate::engine::action::ActionSet;
use crate::engine::bundle::{Bundle, Policy, Settings, Verdict};
use crate::engine::decision::{Effect, FaultClass};
use crate::engine::exception::{Exception, Scope};
use crate::engine::request::ResourceSet;
use made_record::{Maker, What, busy};

#[path = "../../../tests/made_record.rs"]
mod made_record;

fn collect(bytes: &[u8], since: Option<&str>, until: Option<&str>, known: &Known<'_>) -> Report {
    let time = |text: &str| text.parse().unwrap();
    let mut collector = Collector::new(since.map(time), until.map(time), known);
    collector.file(bytes, &mut |_| {}).unwrap();
    collector.finish()
}

fn bytes(maker: Maker) -> Vec<u8> {
    maker.days().into_values().flatten().collect()
}

fn report(maker: Maker) -> Report {
    collect(&bytes(maker), None, None, &Known::NotGiven)
}

const START: &str = "2026-03-02T08:00:00Z";

const RESULT: What<'_> = What {
    kind: Kind::Result,
    event: "post_tool_use",
    session: "session-1",
    call: None,
    tool: "bash",
    path: None,
    command: None,
    decision: Effect::Allow,
    would_decide: None,
    policy: "default:results",
    rule: None,
    digest: "d1",
    latency_us: 2_000,
    fault: None,
    unbound: false,
};

#[test]
fn every_line_is_counted_once() {
    let mut maker = Maker::new(START);
    maker.call(&What::default());
    maker.line(&What {
        path: Some("/etc/shadow"),
        decision: Effect::Deny,
        policy: "default:outside",
        latency_us: 9_000,
        rule: Some("private-key"),
        ..What::default()
    });
    maker.line(&What {
        tool: "bash",
        command: Some("git push"),
        decision: Effect::Ask,
        policy: "default:unlisted",
        ..What::default()
    });
    maker.line(&What {
        kind: Kind::Recovered,
        decision: Effect::Deny,
        ..What::default()
    });
    maker.line(&What {
        fault: Some(FaultClass::Deadline),
        decision: Effect::Deny,
        policy: "deadline",
        ..What::default()
    });
    let report = report(maker);
    assert_eq!((report.lines, report.events, report.sessions), (6, 5, 1));
    let all = report.decisions;
    assert_eq!((all.allow, all.ask, all.deny), (2, 1, 2));
    assert_eq!(report.hosts.rows[0].name, "build-7");
    assert_eq!(report.hosts.rows[0].value.count, 6);
    assert_eq!(report.denied_paths.rows.len(), 1);
    assert_eq!(report.denied_paths.rows[0].name, "/etc/shadow");
    assert_eq!(report.denied_paths.rows[0].value.policy, "default:outside");
    assert_eq!(report.asked.rows[0].name, "shell git push");
    assert_eq!(
        (report.taken_out, report.redactions.rows[0].value.count),
        (2, 2)
    );
    assert_eq!(report.faults.rows[0].name, "deadline");
    assert_eq!(report.record.recovered, 1);
    assert_eq!(report.latency.unwrap().max, 9_000);
    assert_eq!(report.latency.unwrap().p50, 2_000);
    let kinds = |name: &str| {
        let row = report.kinds.rows.iter().find(|row| row.name == name);
        row.map(|row| (row.value.lines, row.value.decisions.total()))
    };
    assert_eq!(kinds("tool_use"), Some((4, 4)));
    assert_eq!(kinds("recovered"), Some((1, 0)));
    let policy = &report.policies.rows[0];
    assert_eq!(policy.name, "default:read-workspace");
    assert_eq!(
        (policy.value.file.as_str(), policy.value.line),
        ("policies/containment.cedar", 7)
    );
    assert_eq!(report.over_time.steps.len(), 1);
    assert_eq!(report.over_time.steps[0].decisions, all);
}

#[test]
fn a_result_without_a_judgement_is_told_by_call_or_by_order() {
    let judged = |lines: &[What<'_>]| {
        let mut maker = Maker::new(START);
        for line in lines {
            maker.line(line);
        }
        let results = report(maker).results;
        (results.unjudged, results.denied, results.unknown)
    };
    let bash = What {
        tool: "bash",
        ..What::default()
    };
    let call = |call, what: &What<'static>| What {
        call: Some(call),
        ..what.clone()
    };
    let deny = What {
        decision: Effect::Deny,
        ..bash.clone()
    };
    let ask = What {
        decision: Effect::Ask,
        ..bash.clone()
    };
    for (lines, expected) in [
        (vec![bash.clone(), RESULT], (0, 0, 0)),
        (vec![ask, RESULT], (0, 0, 0)),
        (vec![RESULT], (1, 0, 0)),
        (vec![RESULT, bash.clone()], (1, 0, 0)),
        (vec![bash.clone(), RESULT, RESULT], (1, 0, 0)),
        (vec![What::default(), RESULT], (1, 0, 0)),
        (vec![deny.clone(), RESULT], (0, 1, 0)),
        (vec![deny.clone(), bash.clone(), RESULT], (0, 0, 0)),
        (
            vec![
                call("1", &bash),
                call("2", &bash),
                call("2", &RESULT),
                call("1", &RESULT),
            ],
            (0, 0, 0),
        ),
        (vec![call("1", &bash), call("2", &RESULT)], (1, 0, 0)),
        (
            vec![call("1", &deny), call("2", &bash), call("1", &RESULT)],
            (0, 1, 0),
        ),
        // A host that names the call only once.
        (vec![bash.clone(), call("1", &RESULT)], (0, 0, 0)),
        (
            vec![
                bash.clone(),
                What {
                    session: "session-2",
                    ..RESULT
                },
            ],
            (1, 0, 0),
        ),
    ] {
        assert_eq!(judged(&lines), expected, "{lines:?}");
    }
}

#[test]
fn a_judgement_before_what_is_read_is_looked_for_or_said_to_be_unknown() {
    let mut maker = Maker::new("2026-03-02T23:59:59.900Z");
    maker.line(&What {
        tool: "bash",
        digest: "d0",
        ..What::default()
    });
    maker.wait(500);
    maker.line(&RESULT);
    maker.line(&RESULT);
    maker.wait(86_400_000);
    maker.line(&What {
        session: "session-2",
        ..RESULT
    });
    let bytes = bytes(maker);
    let since = Some("2026-03-03T00:00:00Z");
    let whole = collect(&bytes, since, None, &Known::NotGiven);
    assert_eq!((whole.lines, whole.sessions), (3, 2));
    assert_eq!((whole.results.unjudged, whole.results.unknown), (2, 0));
    // The change lies in the period, although what it was changed from does not.
    assert_eq!(whole.marked.signs.policy_changes, 1);
    let (_, part) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1);
    let part = collect(part, since, None, &Known::NotGiven);
    assert_eq!((part.results.unjudged, part.results.unknown), (1, 2));
    let before = collect(&bytes, None, since, &Known::NotGiven);
    assert_eq!((before.lines, before.results.total), (1, 0));
}

#[test]
fn sessions_are_marked_by_what_changed_in_them() {
    let mut maker = Maker::new(START);
    let with = |session, change: &dyn Fn(&mut What<'static>)| {
        let mut what = What {
            session,
            ..What::default()
        };
        change(&mut what);
        what
    };
    maker.line(&with("quiet", &|_| {}));
    maker.line(&with("quiet", &|_| {}));
    maker.line(&with("changed", &|_| {}));
    maker.line(&with("changed", &|one| one.digest = "d2"));
    maker.line(&with("changed", &|one| one.digest = "d2"));
    maker.line(&with("watched", &|one| {
        one.would_decide = Some(Effect::Deny)
    }));
    // A fault denies whatever the policies say: nothing was only watched.
    maker.line(&with("broken", &|one| {
        one.decision = Effect::Deny;
        one.would_decide = Some(Effect::Allow);
        one.fault = Some(FaultClass::PolicyError);
    }));
    maker.line(&with("unbound", &|one| {
        one.decision = Effect::Deny;
        one.unbound = true;
    }));
    maker.line(&with("off", &|one| one.kind = Kind::Result));
    let mut bytes = bytes(maker);
    let newer = String::from_utf8(bytes.clone()).unwrap();
    let last = newer.lines().next().unwrap().replace(
        concat!("\"engine_version\":\"", env!("CARGO_PKG_VERSION")),
        "\"engine_version\":\"99.0",
    );
    bytes.extend(last.bytes());
    bytes.push(b'\n');
    let report = collect(&bytes, None, None, &Known::NotGiven);
    let marked = &report.marked;
    assert_eq!((report.sessions, marked.sessions), (6, 6));
    let rows: Vec<(&str, Signs)> = marked
        .rows
        .iter()
        .map(|row| (row.id.as_str(), row.signs))
        .collect();
    let none = Signs::default();
    assert_eq!(
        rows,
        [
            (
                "off",
                Signs {
                    unjudged: 1,
                    ..none
                }
            ),
            (
                "broken",
                Signs {
                    policy_errors: 1,
                    ..none
                }
            ),
            ("unbound", Signs { unbound: 1, ..none }),
            (
                "watched",
                Signs {
                    monitored: 1,
                    ..none
                }
            ),
            (
                "changed",
                Signs {
                    policy_changes: 1,
                    ..none
                }
            ),
            (
                "quiet",
                Signs {
                    engine_changes: 1,
                    ..none
                }
            ),
        ]
    );
    assert_eq!(marked.with.monitored, 1);
}

#[test]
fn silence_is_good_news_only_where_results_were_recorded() {
    let said = |maker: Maker| {
        let report = report(maker);
        let page = html::render(&report);
        let good = page.contains("<li class=\"quiet good\">");
        (good, markdown::render(&report).contains("cannot be told"))
    };
    let mut maker = Maker::new(START);
    assert_eq!(said(Maker::new(START)), (false, false));
    maker.line(&What::default());
    assert_eq!(said(maker), (false, true));
    let mut maker = Maker::new(START);
    maker.call(&What::default());
    assert_eq!(said(maker), (true, false));
}

fn blank(id: &str) -> Policy {
    Policy {
        id: id.to_owned(),
        file: "a.cedar".to_owned(),
        line: 3,
        reason: String::new(),
        help: String::new(),
        verdict: Verdict::Forbid,
        monitor: false,
        severity: String::new(),
        waivable: false,
        approvals: None,
        obligations: Vec::new(),
        actions: ActionSet::EVERY,
        resources: ResourceSet::EVERY,
        requires: Vec::new(),
        body: Vec::new(),
    }
}

#[test]
fn policies_that_never_decided_are_told_by_name() {
    let policy = |id: &str, monitor| Policy {
        monitor,
        ..blank(id)
    };
    let policies = vec![
        policy("user:read-workspace", false),
        policy("user:unused", false),
        policy("user:watching", true),
    ];
    let mut maker = Maker::new(START);
    maker.line(&What::default());
    maker.line(&What::default());
    let bundle = Bundle {
        digest: String::new(),
        policies,
        settings: Settings::default(),
    };
    let known = Known::Policies(&bundle);
    let report = collect(&bytes(maker), None, None, &known);
    let NeverMatched::Known {
        in_force,
        unmatched,
    } = report.never_matched
    else {
        panic!("the policies were given");
    };
    assert_eq!(in_force, 3);
    let ids: Vec<(&str, bool)> = unmatched
        .iter()
        .map(|one| (one.id.as_str(), one.monitor))
        .collect();
    assert_eq!(ids, [("user:unused", false), ("user:watching", true)]);
}

#[test]
fn exceptions_and_what_is_only_monitored_are_told() {
    const TEXT: &str = "<b>|`x`\u{1b}[2J";
    let mut maker = Maker::new(START);
    maker.line(&What::default());
    maker.line(&What::default());
    maker.line(&What::default());
    let monitored = json!([{"id": "user:watching", "file": TEXT, "line": 3}]);
    let exceptions = json!([{
        "id": "user:e", "owner": TEXT, "expires": "2026-12-31T00:00:00Z", "policies": ["user:waived", TEXT],
    }]);
    let details = [
        json!({"monitored": monitored}),
        json!({"exceptions": exceptions}),
        json!({}),
    ];
    let text = String::from_utf8(bytes(maker)).unwrap();
    let lines = text.lines().zip(details).map(|(line, detail)| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["detail"] = detail;
        format!("{line}\n")
    });
    let policy = |id: &str| Policy {
        monitor: id == "user:watching",
        ..blank(id)
    };
    let exception = |id: &str| Exception {
        id: id.to_owned(),
        file: "exceptions.toml".to_owned(),
        line: 9,
        policies: Vec::new(),
        reason: String::new(),
        owner: "team".to_owned(),
        expires: 1_800_000_000,
        scope: Scope::default(),
    };
    let bundle = Bundle {
        digest: String::new(),
        policies: ["user:watching", "user:waived", "user:unused"]
            .map(policy)
            .to_vec(),
        settings: Settings {
            exceptions: ["user:e", "user:f"].map(exception).to_vec(),
            ..Settings::default()
        },
    };
    let lines: String = lines.collect();
    let report = collect(lines.as_bytes(), None, None, &Known::Policies(&bundle));
    assert_eq!(report.monitored.rows[0].name, "user:watching");
    let used = &report.exceptions.rows[0];
    assert_eq!((used.name.as_str(), used.value.count), ("user:e", 1));
    assert_eq!(used.value.expires, "2026-12-31T00:00:00Z");
    let Unused::Known {
        in_force: 2,
        unused,
    } = &report.unused_exceptions
    else {
        panic!("{:?}", report.unused_exceptions);
    };
    assert_eq!((unused.len(), unused[0].id.as_str()), (1, "user:f"));
    assert_eq!(unused[0].expires, "2027-01-15T08:00:00Z");
    let NeverMatched::Known { unmatched, .. } = &report.never_matched else {
        panic!("the policies were given");
    };
    assert_eq!(
        unmatched.len(),
        1,
        "what was left out or watched did match: {unmatched:?}"
    );
    for page in [markdown::render(&report), html::render(&report)] {
        assert!(!page.contains(TEXT) && !page.contains("<b>|"), "{page}");
        assert!(
            page.contains("user:f") && page.contains("\\u{1b}[2J"),
            "{page}"
        );
    }
    assert_eq!(markup(&markdown::render(&report)), "");
}

#[test]
fn what_is_no_line_and_what_nobody_knows_yet_breaks_nothing() {
    let mut maker = Maker::new(START);
    maker.line(&What::default());
    let mut bytes = bytes(maker);
    let known = String::from_utf8(bytes.clone()).unwrap();
    for kind in ["later", "removed"] {
        bytes.extend(
            known
                .replace("\"tool_use\"", &format!("\"{kind}\""))
                .bytes(),
        );
    }
    bytes.extend(b"garbage\n{\"ts\":1}\n{\"ts\":\"soon\"}\n\n\xff\xfe\n");
    bytes.extend(vec![b'x'; 40_000]);
    bytes.extend(b"\n{\"torn\":");
    let report = collect(&bytes, None, None, &Known::NotGiven);
    assert_eq!((report.lines, report.events), (3, 1));
    assert_eq!(report.record.unreadable, 6);
    assert_eq!(report.kinds.names, 3);
    assert_eq!(report.decisions.total(), 1);
}

#[test]
fn more_sessions_and_paths_than_are_kept_are_counted_all_the_same() {
    let mut maker = Maker::new(START);
    maker.line(&What {
        tool: "bash",
        session: "first",
        ..What::default()
    });
    for n in 0..20_000 {
        let path = format!("/tmp/{n}");
        maker.line(&What {
            session: &format!("s-{n}"),
            path: Some(if n % 4 == 0 { "/etc/shadow" } else { &path }),
            decision: Effect::Deny,
            ..What::default()
        });
    }
    // It was let go long ago: nobody knows whether this was judged.
    maker.line(&What {
        session: "first",
        ..RESULT
    });
    let report = report(maker);
    assert_eq!(report.sessions, 20_001);
    assert_eq!((report.results.unjudged, report.results.unknown), (0, 1));
    let path = &report.denied_paths.rows[0];
    assert_eq!(path.name, "/etc/shadow");
    assert!(path.value.count <= 5_000 && path.value.count + report.denied_paths.missed >= 5_000);
}

#[test]
fn the_totals_of_a_busy_month_agree() {
    let bytes = bytes(busy("2026-03-02T00:00:00Z", 28, 6));
    let report = collect(&bytes, None, None, &Known::NotGiven);
    assert_eq!(
        report.lines,
        bytes.iter().filter(|byte| **byte == b'\n').count() as u64
    );
    assert_eq!(report.over_time.hours, 24);
    let total = report.decisions.total();
    assert_eq!(
        total,
        report
            .over_time
            .steps
            .iter()
            .map(|one| one.decisions.total())
            .sum::<u64>()
    );
    assert_eq!(
        total,
        report
            .kinds
            .rows
            .iter()
            .map(|one| one.value.decisions.total())
            .sum::<u64>()
    );
    assert_eq!(
        report.lines,
        report
            .hosts
            .rows
            .iter()
            .map(|one| one.value.count)
            .sum::<u64>()
    );
    assert!(report.results.unjudged > 0 && report.results.denied == 0);
    assert_eq!(report.results.unjudged, report.marked.signs.unjudged);
    let value: Value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["version"], 1);
    assert_eq!(
        value["policies"]["rows"][0]["allow"],
        report.policies.rows[0].value.decisions.allow
    );
}

#[test]
fn nothing_of_the_record_is_markup_anywhere() {
    const TEXTS: [&str; 4] = [
        "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><style>*{}</style>",
        "](https://e.example) | x | `` ` `` \n\n# head\n- [x]: <b>",
        "\u{1b}[2J\u{1b}]8;;https://e.example\u{7}\u{9b}31m\u{202e}gpj.exe\u{0}\r",
        "</title></code></svg>&lt;&#x3c;script&#x3e;",
    ];
    let mut maker = Maker::new(START);
    for text in TEXTS {
        maker.host = text.to_owned();
        for (decision, kind) in [
            (Effect::Allow, Kind::Result),
            (Effect::Deny, Kind::ToolUse),
            (Effect::Ask, Kind::ToolUse),
        ] {
            maker.line(&What {
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
    let report = report(maker);
    assert!(report.marked.rows.iter().any(|row| row.id == TEXTS[0]));
    let markdown = markdown::render(&report);
    let page = html::render(&report);
    for shown in [&markdown, &page] {
        let unseen = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(unseen), "{shown}");
        assert!(shown.contains("\\u{1b}[2J"), "{shown}");
    }
    assert_eq!(markup(&markdown), "", "{markdown}");
    assert_ne!(markup("[x](y)\n"), "");
    let lines: Vec<&str> = markdown.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].starts_with('|')) {
        let pipes = |line: &str| line.matches('|').count();
        assert!(
            pair[0].is_empty() || pipes(pair[0]) == pipes(pair[1]),
            "{pair:?}"
        );
    }
    for part in [
        "<script",
        "<img",
        "</title></code>",
        "&lt;&#x3c;script&#x3e;</code>",
    ] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{page}"
    );
    assert_eq!(page.matches("<style>").count(), 1);
}

/// What stands in a page of Markdown besides texts, code and tables.
fn markup(page: &str) -> String {
    use pulldown_cmark::{Event, Options, Parser, Tag};
    let mut found = String::new();
    for event in Parser::new_ext(page, Options::all()) {
        match event {
            Event::Start(
                Tag::Paragraph
                | Tag::Heading { .. }
                | Tag::List(None)
                | Tag::Item
                | Tag::Strong
                | Tag::Table(_)
                | Tag::TableHead
                | Tag::TableRow
                | Tag::TableCell,
            )
            | Event::Text(_)
            | Event::Code(_)
            | Event::SoftBreak
            | Event::End(_) => {}
            other => found += &format!("{other:?} "),
        }
    }
    found
}
