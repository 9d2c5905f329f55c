//! What the record costs: a line more, and to verify and search what is there.
//!
//! `cargo bench --bench record`, and with `-- 10000000` for a record of ten million lines (7 GB on the
//! disk, in `$TMPDIR`). Appending is measured in the record as it is at first and as it is in the end.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use copilot_bridge::audit::query::{Filter, lines};
use copilot_bridge::audit::read;
use copilot_bridge::audit::record::v1::{Entry, Kind};
use copilot_bridge::audit::verify::Verifier;
use copilot_bridge::audit::verify::cover::Cover;
use copilot_bridge::audit::verify::files;
use copilot_bridge::audit::writer::Log;
use copilot_bridge::engine::action::Action;
use copilot_bridge::engine::bundle::AuditSettings;
use copilot_bridge::engine::decision::{Effect, Reason};
use copilot_bridge::engine::request::{Agent, Context, PathFacts, Request, Resource, ToolFacts};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

/// So many lines, unless the command line says otherwise.
const LINES: u64 = 200_000;

/// So many appends are measured.
const MEASURED: usize = 5_000;

/// The targets: CPU and wall time of an append, in microseconds, and MB per second of one core.
const APPEND: (f64, f64) = (60.0, 200.0);
const BULK: f64 = 300.0;

fn main() -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let wanted = std::env::args().find_map(|word| word.parse().ok());
    let wanted: u64 = wanted.unwrap_or(LINES);
    let dir = tempfile::tempdir()?;
    let requests = requests();
    let reasons = [Reason {
        id: "default:workspace-read".to_owned(),
        file: "<embedded>/permission.cedar".to_owned(),
        line: 30,
        text: String::new(),
        fact: String::new(),
        help: String::new(),
    }];
    let args = json!({"path": "src/audit/writer.rs", "view_range": [1, 200]});
    let entry = entry(&requests, &reasons, &args);
    append(&mut out, dir.path(), &entry, 1)?;
    let log = Log::open(dir.path(), None, AuditSettings::default())?;
    let started = Instant::now();
    let mut seq = MEASURED as u64;
    while seq < wanted {
        seq = log.append(&entry, false)?.seq;
    }
    writeln!(out, "{seq} lines, {:.0} s", started.elapsed().as_secs_f64())?;
    append(&mut out, dir.path(), &entry, seq)?;
    bulk(&mut out, dir.path())
}

/// What one append takes, each with the log opened anew as a hook does.
fn append(out: &mut impl Write, state: &Path, entry: &Entry<'_>, at: u64) -> Result<(), Failure> {
    let (mut busy, mut wall) = (Vec::new(), Vec::new());
    for _ in 0..MEASURED {
        let (started, before) = (Instant::now(), cpu()?);
        Log::open(state, None, AuditSettings::default())?.append(entry, false)?;
        busy.push(cpu()? - before);
        wall.push(started.elapsed());
    }
    let mean = busy.iter().sum::<Duration>() / u32::try_from(busy.len())?;
    wall.sort();
    let median = wall.get(wall.len() / 2).copied().unwrap_or_default();
    let (busy, median) = (micros(mean), micros(median));
    writeln!(
        out,
        "append at {at}: {busy:.0} µs of CPU on average ({} {}), {median:.0} µs of wall time in the median ({} {})",
        mark(busy <= APPEND.0),
        APPEND.0,
        mark(median <= APPEND.1),
        APPEND.1,
    )?;
    Ok(())
}

/// How much of the record is verified and searched in a second of one core, and with how much memory.
fn bulk(out: &mut impl Write, state: &Path) -> Result<(), Failure> {
    let listed = files::list(&[state.join("audit")])?;
    let before = cpu()?;
    let cover = Cover::new(listed.checkpoints.clone(), Vec::new(), None);
    let mut verifier = Verifier::new(listed.whole).covered_by(cover);
    for path in &listed.files {
        let name = path.display().to_string();
        verifier.file(&name, read::day_of(path), File::open(path)?, &mut |_| ())?;
    }
    let report = verifier.finish(listed.open);
    if report.problems > 0 {
        return Err(format!("{} problems", report.problems).into());
    }
    rate(out, "verify", report.bytes, cpu()? - before)?;
    for (name, filter) in [
        ("query, all", Filter::default()),
        (
            "query, denied",
            Filter {
                decision: Some(Effect::Deny),
                ..Filter::default()
            },
        ),
        (
            "query, one path",
            Filter {
                path: Some("nowhere/at/all".to_owned()),
                ..Filter::default()
            },
        ),
    ] {
        let before = cpu()?;
        let found = search(&listed.files, &filter)?;
        rate(
            out,
            &format!("{name}, {found} found"),
            report.bytes,
            cpu()? - before,
        )?;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    writeln!(out, "{}", peak.unwrap_or("VmHWM: unknown here"))?;
    Ok(())
}

fn search(files: &[PathBuf], filter: &Filter) -> io::Result<u64> {
    let mut found = 0;
    for path in files {
        lines(File::open(path)?, &mut |line| {
            found += u64::from(filter.wants(line));
            Ok(())
        })?;
    }
    Ok(found)
}

fn rate(out: &mut impl Write, name: &str, bytes: u64, took: Duration) -> io::Result<()> {
    let rate = bytes as f64 / 1e6 / took.as_secs_f64();
    writeln!(
        out,
        "{name}: {rate:.0} MB/s of one core ({} {BULK})",
        mark(rate >= BULK)
    )
}

const fn mark(reached: bool) -> &'static str {
    if reached { "target" } else { "! target" }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The time that this process was computing.
fn cpu() -> Result<Duration, Failure> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(Duration::new(
        time.tv_sec().try_into()?,
        time.tv_nsec().try_into()?,
    ))
}

fn requests() -> [Request; 2] {
    let of = |action, resource| Request {
        principal: Agent::default(),
        action,
        resource,
        context: Context::default(),
    };
    [
        of(
            Action::CustomTool,
            Resource::Tool(ToolFacts {
                name: "view".to_owned(),
                known: true,
                ..ToolFacts::default()
            }),
        ),
        of(
            Action::Read,
            Resource::Path(PathFacts {
                given: "src/audit/writer.rs".to_owned(),
                resolved: "/home/somebody/project/src/audit/writer.rs".to_owned(),
                inside: true,
                exists: true,
                ..PathFacts::default()
            }),
        ),
    ]
}

fn entry<'a>(requests: &'a [Request], reasons: &'a [Reason], args: &'a Value) -> Entry<'a> {
    Entry {
        kind: Kind::ToolUse,
        event: "pre_tool_use",
        dialect: "copilot",
        session: Some("5f3b5be4-85f3-4df7-b02b-79f67e6f486a"),
        call: Some("call-1"),
        agent: None,
        parent: None,
        depth: 0,
        entity: None,
        cwd: Some("/home/somebody/project"),
        tool: Some("view"),
        args: Some(args),
        args_redacted: Some(args),
        data_keys: &[],
        requests: requests.iter().map(Cow::Borrowed).collect(),
        redactions: Vec::new(),
        decision: Effect::Allow,
        reasons,
        would_decide: Effect::Allow,
        obligations: Vec::new(),
        policy_digest: Some("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
        latency_us: 1500,
        error_class: None,
        trace: None,
        prompt: None,
        detail: json!({}),
    }
}
