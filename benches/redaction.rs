//! What redaction costs: in bulk, for one tool result, and to start with.
//!
//! `cargo bench --bench redaction`. The texts are this program's own source, and logs and lock
//! files that are made up here, with secrets planted in them.

mod texts;

use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use copilot_bridge::engine::redaction::{Redactor, Ruleset, Stream, find, find_as_written};
use copilot_bridge::policy;

use texts::{Numbers, logs, secrets, source};

type Failure = Box<dyn std::error::Error>;

/// Text of one kind is looked at in pieces of this size, as tools give results.
const PIECE: usize = 10_000;

/// How long each figure is measured.
const TIME: Duration = Duration::from_secs(2);

/// MB per second of one core that are to be reached as written, and decoded.
const TARGETS: (f64, f64) = (200.0, 120.0);

fn main() -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let bundle = policy::load_sources(&[policy::layer::embedded()]).map_err(|problems| {
        problems
            .iter()
            .map(policy::Problem::one_line)
            .collect::<String>()
    })?;
    let packed = bundle.settings.redaction.secrets;
    writeln!(
        out,
        "packed {} KB, opened in {:.0} µs",
        packed.len() / 1024,
        seconds(|| drop(black_box(packed.open()))) * 1e6,
    )?;
    let rules = packed.open()?;
    writeln!(out, "{} rules", rules.len())?;
    let sets = [&rules];

    let mut numbers = Numbers::new();
    let source = source()?;
    let logs = logs(&mut numbers, source.len());
    for (name, text) in [("source", &source), ("logs", &logs)] {
        let pieces = pieces(text);
        bulk(&mut out, name, &pieces, &sets)?;
    }
    let mut mixed = pieces(&source);
    mixed.extend(pieces(&logs));
    bulk(&mut out, "mixed", &mixed, &sets)?;

    let secrets = secrets(&mut numbers);
    for (name, text) in [
        (
            "10 KB of source",
            mixed.first().copied().unwrap_or_default(),
        ),
        ("10 KB of logs", mixed.last().copied().unwrap_or_default()),
        ("60 secrets", secrets.as_str()),
    ] {
        one(&mut out, name, text, &sets)?;
    }
    cold(&mut out, &packed, &secrets)
}

/// How much of many pieces is looked at in a second.
fn bulk(out: &mut impl Write, name: &str, pieces: &[&str], sets: &[&Ruleset]) -> io::Result<()> {
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    let rate = |run: &dyn Fn(&str) -> usize| {
        bytes as f64
            / 1e6
            / seconds(|| {
                for piece in pieces {
                    black_box(run(piece));
                }
            })
    };
    let plain = rate(&|text| find_as_written(sets, text).map_or(0, |found| found.len()));
    let decoded = rate(&|text| find(sets, text).map_or(0, |found| found.len()));
    let mark = |reached: bool| if reached { "≥" } else { "! <" };
    writeln!(
        out,
        "{name:<16} {plain:>6.0} MB/s as written ({} {})  {decoded:>6.0} MB/s decoded ({} {})",
        mark(plain >= TARGETS.0),
        TARGETS.0,
        mark(decoded >= TARGETS.1),
        TARGETS.1,
    )
}

/// What one tool result takes, with everything that is cached warm.
fn one(out: &mut impl Write, name: &str, text: &str, sets: &[&Ruleset]) -> Result<(), Failure> {
    let redactor = Redactor::new(sets, b"a key of this installation");
    let hits = redactor.text(text)?.hits.len();
    let whole = seconds(|| drop(black_box(redactor.text(text)))) * 1e6;
    let stream = seconds(|| {
        let mut stream = Stream::new(redactor);
        for line in text.split_inclusive('\n') {
            drop(black_box(stream.push(line)));
        }
        drop(black_box(stream.finish()));
    });
    writeln!(
        out,
        "{name:<16} {whole:>6.0} µs for {} bytes, {hits} hits; {:.0} µs as a stream of lines",
        text.len(),
        stream * 1e6,
    )?;
    Ok(())
}

/// What the first text of a process takes, the rules included.
fn cold(
    out: &mut impl Write,
    packed: &copilot_bridge::engine::redaction::Packed,
    text: &str,
) -> Result<(), Failure> {
    let first = seconds(|| {
        if let Ok(rules) = packed.open() {
            drop(black_box(Redactor::new(&[&rules], b"key").text(text)));
        }
    });
    writeln!(out, "60 secrets, rules opened anew: {:.0} µs", first * 1e6)?;
    Ok(())
}

/// The time that this thread was computing, in seconds: what others do meanwhile does not count.
#[cfg(unix)]
fn now() -> f64 {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0.0, |time| {
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    })
}

#[cfg(not(unix))]
fn now() -> f64 {
    static BEGUN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    BEGUN.elapsed().as_secs_f64()
}

/// The median time of one run.
fn seconds(mut run: impl FnMut()) -> f64 {
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < TIME || times.len() < 3 {
        let started = now();
        run();
        times.push(now() - started);
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .map(|(at, c)| at + c.len_utf8())
            .take_while(|end| *end <= PIECE)
            .last()
            .unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}
