//! `audit verify`: is the record whole?

use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::{counted, open};
use crate::audit::verify::cover::{Cover, Kept};
use crate::audit::verify::finding::{Finding, Level};
use crate::audit::verify::{Report, Verifier, files};
use crate::audit::{checkpoint, read};
use crate::cli::place::Place;
use crate::cli::progress::Progress;
use crate::cli::{Format, Outcome};
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::scrub::report::printable;

/// Say whether a record is whole: no line edited, missing, made up or out of order
///
/// Needs neither the installation's keys nor its policies: a copy can be verified on any machine, with
/// the checkpoints beside it. What comes behind the last checkpoint is only as good as its chain; and
/// who has the signing key can make all of it anew: only a checkpoint that was kept elsewhere tells.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 whole · 1 problems · 2 it cannot be read · 64 usage.\n\
    Each word for what is found, and the form for programs: see audit/README.md."
)]
pub(super) struct Args {
    /// Files of a record, in any order, or its directory [default: this installation's record]
    paths: Vec<PathBuf>,
    /// The key that checkpoints have to be signed with, or a file with it (see `audit key`)
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A checkpoint that was kept elsewhere: the record has to go on from it
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    /// The directory that record and key are kept in
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    state: Option<PathBuf>,
    /// How to show what is found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let place = Place {
        state: args.state.clone(),
        ..Place::default()
    };
    let paths = if args.paths.is_empty() {
        vec![place.state().join("audit")]
    } else {
        args.paths.clone()
    };
    let (report, whole) = match look(&paths, args) {
        Ok(looked) => looked,
        // 1 would say that something is wrong with the record.
        Err(message) => {
            writeln!(anstream::stderr(), "error: {message}")?;
            return Ok(Exit::Withheld);
        }
    };
    match args.format {
        Format::Text => text(&report, out)?,
        Format::Json => writeln!(out, "{:#}", document(&report, whole))?,
    }
    Ok(if report.problems > 0 {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

fn look(paths: &[PathBuf], args: &Args) -> Result<(Report, bool), String> {
    let listed = files::list(paths).map_err(|error| error.0)?;
    let mut key = args
        .key
        .as_deref()
        .map(checkpoint::verifier_key)
        .transpose()?;
    let mut kept = Vec::new();
    for path in &args.checkpoint {
        let name = path.display().to_string();
        let (signed, own) = checkpoint::signed(path)?;
        // What was kept elsewhere tells whose the record is.
        key = key.or(own);
        if let Some(key) = &key {
            let wrong = |why| format!("`{name}` is not to be trusted: {why}");
            signed.verify(key).map_err(wrong)?;
        }
        kept.push(Kept { name, signed });
    }
    let cover = Cover::new(listed.checkpoints, kept, key);
    let mut verifier = Verifier::new(listed.whole).covered_by(cover);
    let mut progress = Progress::bytes(listed.bytes);
    for path in &listed.files {
        let failed =
            |error: io::Error| format!("cannot read `{}`: {}", path.display(), words(&error));
        let file = open(path)?;
        let name = path.display().to_string();
        verifier
            .file(&name, read::day_of(path), file, &mut |bytes| {
                progress.at(usize::try_from(bytes).unwrap_or(usize::MAX));
            })
            .map_err(failed)?;
    }
    Ok((verifier.finish(listed.open), listed.whole))
}

fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        line(finding, out)?;
    }
    let shown = report.findings.len() as u64;
    let problems = report.findings.iter();
    let problems = problems
        .filter(|one| one.what.level() == Level::Problem)
        .count() as u64;
    if problems < report.problems {
        writeln!(
            out,
            "only the first {} findings are shown",
            super::grouped(shown)
        )?;
    }
    writeln!(out, "{}", summary(report))?;
    writeln!(out, "{}", covered(report))
}

/// `49 checkpoints cover it up to number 12,480, signed by NAME+HASH+KEY`
fn covered(report: &Report) -> String {
    let covered = &report.covered;
    let Some(key) = covered.key.as_ref().filter(|_| covered.checkpoints > 0) else {
        return "no checkpoint covers it: only its chain was looked at".to_owned();
    };
    let verb = if covered.checkpoints == 1 {
        "covers"
    } else {
        "cover"
    };
    format!(
        "{} {verb} it up to number {}, signed with {}",
        counted(covered.checkpoints, "checkpoint"),
        super::grouped(covered.seq),
        printable(key)
    )
}

/// `path:line: problem: what is wrong, expected …, found … [edited]`
fn line(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let level = finding.what.level();
    let colour = match level {
        Level::Problem => AnsiColor::Red,
        Level::Warning => AnsiColor::Yellow,
        Level::Note => AnsiColor::Cyan,
    };
    let style = Style::new().bold().fg_color(Some(colour.into()));
    write!(
        out,
        "{}:{}: {style}{level}{style:#}: ",
        printable(&finding.place.file),
        finding.place.line
    )?;
    if let Some(seq) = finding.seq {
        write!(out, "number {seq}: ")?;
    }
    write!(out, "{}", printable(&finding.text))?;
    if let (Some(expected), Some(found)) = (&finding.expected, &finding.found) {
        write!(out, " (expected {expected}, found {found})")?;
    }
    writeln!(out, " [{}]", finding.what.name())
}

/// `12,480 lines in 31 files, 2026-01-02 to 2026-02-01: whole`
fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} in {}",
        counted(report.lines, "line"),
        counted(report.files as u64, "file")
    );
    if let (Some((_, first)), Some((_, last))) = (&report.first, &report.last) {
        let day = |ts: &str| ts.get(..10).unwrap_or_default().to_owned();
        text.push_str(&match (day(first), day(last)) {
            (first, last) if first == last => format!(", {first}"),
            (first, last) => format!(", {first} to {last}"),
        });
    }
    text.push_str(": ");
    text.push_str(&match report.problems {
        0 => "whole".to_owned(),
        problems => counted(problems, "problem"),
    });
    if report.warnings > 0 {
        text.push_str(", ");
        text.push_str(&counted(report.warnings, "warning"));
    }
    text
}

fn document(report: &Report, whole: bool) -> Value {
    let end =
        |end: &Option<(u64, String)>| end.as_ref().map(|(seq, ts)| json!({"seq": seq, "ts": ts}));
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|one| {
            json!({
                "level": one.what.level(),
                "kind": one.what,
                "file": one.place.file,
                "line": one.place.line,
                "seq": one.seq,
                "message": one.text,
                "expected": one.expected,
                "found": one.found,
            })
        })
        .collect();
    json!({
        "version": 1,
        "whole": report.problems == 0,
        "from_the_start": whole,
        "files": report.files,
        "lines": report.lines,
        "bytes": report.bytes,
        "first": end(&report.first),
        "last": end(&report.last),
        "superseded": report.superseded,
        "checkpoints": report.covered.checkpoints,
        "covered": report.covered.seq,
        "key": report.covered.key,
        "problems": report.problems,
        "warnings": report.warnings,
        "findings": findings,
    })
}
