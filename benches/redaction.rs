//! What redaction costs: in bulk, for one tool result, and to start with.
//!
//! `cargo bench --bench redaction`. The texts are this program's own source, and logs and lock
//! files that are made up here, with secrets planted in them.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use copilot_bridge::engine::redaction::{Redactor, Ruleset, Stream, find, find_as_written};
use copilot_bridge::policy;

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

    let mut numbers = Numbers(1);
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

/// This program's own source.
fn source() -> Result<String, Failure> {
    let mut text = String::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                text.push_str(&fs::read_to_string(path)?);
            }
        }
    }
    Ok(text)
}

/// Logs and lock files of so many bytes, with a secret here and there.
fn logs(numbers: &mut Numbers, bytes: usize) -> String {
    let mut text = String::new();
    let mut line = 0_u64;
    while text.len() < bytes {
        line += 1;
        let (a, b) = (numbers.next(), numbers.text("0123456789abcdef", 40));
        let _ = match line % 7 {
            0 => writeln!(
                text,
                "2026-03-11T10:22:{:02}Z INFO  request id={b} path=/v1/items/{} status=200 took={}ms",
                a % 60,
                a % 9999,
                a % 80
            ),
            1 => writeln!(
                text,
                "{{\"level\":\"info\",\"ts\":{a},\"msg\":\"token refreshed\",\"user\":{},\"trace\":\"{b}\"}}",
                a % 5000
            ),
            2 => writeln!(
                text,
                "\tat com.example.service.Handler.process(Handler.java:{})",
                a % 400
            ),
            3 => writeln!(
                text,
                "checksum = \"{b}{}\"",
                numbers.text("0123456789abcdef", 24)
            ),
            4 => writeln!(
                text,
                "    \"integrity\": \"sha512-{}==\",",
                numbers.text(BASE64, 86)
            ),
            5 => writeln!(
                text,
                "GET /assets/app-{}.js?v={} HTTP/1.1 200 {}",
                numbers.text("0123456789abcdef", 8),
                a % 100,
                a % 90_000
            ),
            _ => writeln!(
                text,
                "warning: key `{}` was not found in the cache, password prompt skipped",
                numbers.text("abcdefghij", 6)
            ),
        };
        if line.is_multiple_of(997) {
            let _ = writeln!(text, "DEPLOY_TOKEN={}", numbers.token());
        }
    }
    text
}

/// 10 KB with 60 secrets.
fn secrets(numbers: &mut Numbers) -> String {
    let mut text = String::new();
    for index in 0..60 {
        let token = numbers.token();
        let _ = match index % 4 {
            0 => writeln!(text, "SERVICE_{index}_TOKEN={token}"),
            1 => writeln!(text, "  service_{index}_token: \"{token}\""),
            2 => writeln!(
                text,
                "{{\"name\": \"svc-{index}\", \"token\": \"{token}\", \"retries\": 3}}"
            ),
            _ => writeln!(
                text,
                "curl -H 'Authorization: Bearer {token}' https://api.example.com/{index}"
            ),
        };
        let _ = writeln!(
            text,
            "# {}",
            numbers.text("abcdefghij klmnopqrs tuvwxyz", 80)
        );
    }
    text
}

const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Numbers that look random, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length)
            .filter_map(|_| {
                let index = self.next() as usize % letters.len().max(1);
                letters.get(index).copied()
            })
            .collect()
    }

    fn token(&mut self) -> String {
        let letters = BASE64.trim_end_matches(['+', '/']);
        format!("{}{}", ["gh", "p_"].concat(), self.text(letters, 36))
    }
}
