//! `policy replay`: what other policies would have said of the calls in a record.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::show_problems;
use crate::audit::report::text::{counted, grouped, visible};
use crate::cli::Outcome;
use crate::cli::audit::time::{since, until};
use crate::cli::audit::{days, directory};
use crate::cli::place::Place;
use crate::cli::progress::Progress;
use crate::engine::Engine;
use crate::engine::bundle::Bundle;
use crate::exit::Exit;
use crate::facts::paths::{Workspace, words};
use crate::policy::diagnostic::render::{command_data, command_property};
use crate::policy::{self, Locations, Problem, archive};
use crate::workbench::replay::run::{Changed, Group, Kind, Only, Run, Summary};
use crate::workbench::replay::{Gone, Replay, Unjudged};

/// So many samples of each change, unless the command line says otherwise.
const SAMPLES: usize = 3;

/// Judge the calls of a record again, and show what other policies would change
///
/// Nothing is recorded and no answer changes. What the record does not tell is not guessed: such
/// lines are counted, with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Files of a record [default: this installation's]
    files: Vec<PathBuf>,
    /// The policies to try: a directory [default: the ones that are in force here]
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// Not older
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Older; a day counts as a whole
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// Only what would be let through, or only what no longer would
    #[arg(long, value_enum)]
    only: Option<Direction>,
    /// So many examples of each change
    #[arg(long, value_name = "N", default_value_t = SAMPLES)]
    samples: usize,
    /// Exit with 1 if something changes that way
    #[arg(long, value_enum, default_value_t = FailOn::Any)]
    fail_on: FailOn,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write every line that changes into this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The directory that record and archived policies are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

const HELP: &str = "Times are UTC: `2026-01-02`, `2026-01-02T03:04:05Z`, or how long ago: `90m`, `7d`, `2w`.\n\
    Exit codes: 0 nothing changes · 1 something changes, see --fail-on, or nothing could be judged · \
    3 policy invalid.";

/// What is said of a record that tells nothing.
pub(super) const NOTHING_JUDGED: &str = "no line of the record could be judged\n\
    help: look at `--since` and `--state`, and at what was not judged";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Direction {
    /// What would be let through
    Looser,
    /// What no longer would
    Stricter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Any change
    Any,
    /// A change that lets more through
    Looser,
    /// A change that lets less through
    Stricter,
    /// No change
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// Annotations for a run of GitHub Actions
    Github,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let bundle = match policies(args) {
        Ok(bundle) => bundle,
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let started = Instant::now();
    let engine = Engine::new(bundle);
    let record = Record::of(&args.files, args.state.as_deref())?;
    let replay = record.replay(&engine, args.state.as_deref());
    let run = Run {
        since: args.since,
        until: args.until,
        samples: args.samples,
        only: match args.only {
            None => Only::All,
            Some(Direction::Looser) => Only::Looser,
            Some(Direction::Stricter) => Only::Stricter,
        },
        files: record.files,
    };
    let summary = replayed(&run, &replay, args.out.as_deref())?;
    let took = started.elapsed();
    match args.format {
        Format::Text => text(&summary, took, out)?,
        Format::Json => writeln!(out, "{:#}", document(&summary, took))?,
        Format::Github => annotations(&summary, engine.bundle(), out)?,
    }
    if summary.judged() == 0 {
        return Err(NOTHING_JUDGED.into());
    }
    let (changed, looser) = (summary.changed(), summary.looser());
    let fails = match args.fail_on {
        FailOn::Any => changed > 0,
        FailOn::Looser => looser > 0,
        FailOn::Stricter => changed > looser,
        FailOn::None => false,
    };
    Ok(if fails { Exit::Failed } else { Exit::Ok })
}

fn policies(args: &Args) -> Result<Bundle, Vec<Problem>> {
    match &args.policies {
        Some(dir) => policy::load(&Locations::only(dir)),
        None => {
            let place = Place {
                state: args.state.clone(),
                ..Place::default()
            };
            place.policies(std::env::current_dir().ok().as_deref())
        }
    }
}

/// The record that is asked about.
pub(super) struct Record {
    /// Its files.
    pub(super) files: Vec<PathBuf>,
    /// Where the policies of the time are kept.
    archive: PathBuf,
    /// Whether it is this machine's own.
    own: bool,
}

impl Record {
    /// Those files, or this installation's record.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn of(files: &[PathBuf], state: Option<&Path>) -> Result<Self, String> {
        let own = directory(state);
        let Some(first) = files.first() else {
            return Ok(Self {
                files: days(state)?,
                archive: own.join(archive::DIR),
                own: true,
            });
        };
        let beside = first.parent().map(|dir| dir.join(archive::DIR));
        let beside = beside.filter(|dir| dir.is_dir());
        let is_own = |file: &PathBuf| {
            let dir = file.parent().and_then(|dir| dir.canonicalize().ok());
            dir.is_some() && dir == own.canonicalize().ok()
        };
        Ok(Self {
            files: files.to_vec(),
            own: files.iter().all(is_own),
            archive: beside.unwrap_or_else(|| own.join(archive::DIR)),
        })
    }

    /// A replay of it by those policies.
    pub(super) fn replay<'e>(&self, engine: &'e Engine, state: Option<&Path>) -> Replay<'e> {
        let replay = Replay::new(engine).with_archive(self.archive.clone());
        if !self.own {
            return replay;
        }
        let place = Place {
            state: state.map(Path::to_path_buf),
            ..Place::default()
        };
        let nowhere = Workspace {
            cwd: PathBuf::from("/"),
            root: None,
        };
        replay.at(place.installation().places(&nowhere))
    }
}

/// Judges the record again, with a bar where somebody watches.
fn replayed(run: &Run, replay: &Replay<'_>, out: Option<&Path>) -> Result<Summary, Box<dyn Error>> {
    let unwritable = |path: &Path, error: &io::Error| {
        format!("cannot write `{}`: {}", path.display(), words(error))
    };
    let mut writer = match out {
        Some(path) => {
            let file = File::create(path).map_err(|error| unwritable(path, &error))?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    let mut each = |line: &Changed| -> io::Result<()> {
        if let Some(writer) = &mut writer {
            serde_json::to_writer(&mut *writer, line)?;
            writer.write_all(b"\n")?;
        }
        Ok(())
    };
    let summary = watched(run, replay, &mut each)?;
    if let (Some(mut writer), Some(path)) = (writer, out) {
        writer.flush().map_err(|error| unwritable(path, &error))?;
    }
    Ok(summary)
}

/// Judges the record again, with a bar where somebody watches.
pub(super) fn watched(
    run: &Run,
    replay: &Replay<'_>,
    each: &mut dyn FnMut(&Changed) -> io::Result<()>,
) -> Result<Summary, Box<dyn Error>> {
    let sizes = run.files.iter();
    let sizes = sizes.map(|file| file.metadata().map_or(0, |metadata| metadata.len()));
    let mut progress = Progress::bytes(sizes.sum());
    run.replay(replay, each, &mut |done| progress.at(done))
}

fn text(summary: &Summary, took: Duration, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{}, {} judged: {}",
        counted(summary.lines, "line"),
        grouped(summary.judged()),
        match summary.changed() {
            0 => "nothing would be answered otherwise".to_owned(),
            1 => "1 would be answered otherwise".to_owned(),
            many => format!("{} would be answered otherwise", grouped(many)),
        }
    )?;
    for (kind, group) in ordered(summary) {
        writeln!(out)?;
        writeln!(
            out,
            "{:<14} {:>9}  {:<8}  {}",
            format!("{} → {}", kind.from, kind.to),
            grouped(group.lines),
            direction(kind),
            visible(&kind.policies.join(", "))
        )?;
        for line in &group.samples {
            let time = line.ts.get(..19).unwrap_or(&line.ts).replace('T', " ");
            let file = Path::new(&line.file).file_name().unwrap_or_default();
            writeln!(
                out,
                "    {}:{}  {}  {}",
                visible(&file.to_string_lossy()),
                line.line,
                visible(&time),
                visible(&line.asked)
            )?;
        }
        let more = group.lines - group.samples.len() as u64;
        if more > 0 && !group.samples.is_empty() {
            writeln!(out, "    and {} more", grouped(more))?;
        }
    }
    writeln!(out)?;
    for (why, lines) in &summary.not_judged {
        writeln!(
            out,
            "not judged: {}: {}",
            counted(*lines, "line"),
            reason(why)
        )?;
    }
    for (class, lines) in &summary.faults {
        writeln!(
            out,
            "not judged: {}: denied by the fault `{}`, not by a policy",
            counted(*lines, "line"),
            visible(class)
        )?;
    }
    if summary.no_requests > 0 {
        writeln!(
            out,
            "not judged: {}: nothing was asked",
            counted(summary.no_requests, "line")
        )?;
    }
    for note in notes(summary) {
        writeln!(out, "note: {note}")?;
    }
    let rate = summary.lines as f64 / took.as_secs_f64().max(1e-6);
    writeln!(
        out,
        "took {:.1} s, {} lines a second",
        took.as_secs_f64(),
        grouped(rate as u64)
    )
}

/// The changes, those that let more through first, the most frequent first.
fn ordered(summary: &Summary) -> Vec<(&Kind, &Group)> {
    let mut changes: Vec<_> = summary.changes.iter().collect();
    changes.sort_by_key(|(kind, group)| (!kind.is_looser(), std::cmp::Reverse(group.lines)));
    changes
}

fn direction(kind: &Kind) -> &'static str {
    if kind.is_looser() {
        "looser"
    } else {
        "stricter"
    }
}

pub(super) fn reason(why: &Unjudged) -> String {
    match why {
        Unjudged::Truncated => "the record left a part of what was asked out".to_owned(),
        Unjudged::Unreadable => "no line of a form that this version reads".to_owned(),
        Unjudged::Unknown(facts) => {
            format!("policies ask for what the record does not tell: {facts}")
        }
        Unjudged::LaterStep => {
            "the host had asked already, and the policies of the time are not known".to_owned()
        }
    }
}

/// What a reader has to know besides.
fn notes(summary: &Summary) -> Vec<String> {
    let mut notes = Vec::new();
    for (table, lines) in &summary.as_recorded {
        notes.push(format!(
            "`{table}` differs from the policies of the time: of {}, what it states is as it was recorded",
            counted(*lines, "line")
        ));
    }
    for (gone, lines) in &summary.unknown_past {
        let lines = counted(*lines, "line");
        notes.push(match gone {
            Gone::Missing => format!(
                "{lines} name policies that are not archived here: labels, patterns and findings are as they were recorded"
            ),
            Gone::Unreadable => format!(
                "{lines} were judged by another version: labels, patterns and findings are as they were recorded"
            ),
        });
    }
    if summary.other_layers > 0 {
        notes.push(format!(
            "{} were judged by further layers besides the base",
            counted(summary.other_layers, "line")
        ));
    }
    notes
}

fn document(summary: &Summary, took: Duration) -> Value {
    let changes: Vec<Value> = ordered(summary)
        .into_iter()
        .map(|(kind, group)| {
            json!({
                "from": kind.from,
                "to": kind.to,
                "direction": direction(kind),
                "policies": kind.policies,
                "lines": group.lines,
                "samples": group.samples,
            })
        })
        .collect();
    let not_judged: Vec<Value> = summary
        .not_judged
        .iter()
        .map(|(why, lines)| json!({"reason": reason(why), "lines": lines}))
        .collect();
    let same: serde_json::Map<String, Value> = summary
        .same
        .iter()
        .map(|(effect, lines)| (effect.to_string(), json!(lines)))
        .collect();
    json!({
        "lines": summary.lines,
        "judged": summary.judged(),
        "changed": summary.changed(),
        "looser": summary.looser(),
        "stricter": summary.changed() - summary.looser(),
        "same": same,
        "changes": changes,
        "not_judged": not_judged,
        "faults": summary.faults,
        "nothing_asked": summary.no_requests,
        "as_recorded": summary.as_recorded,
        "notes": notes(summary),
        "seconds": took.as_secs_f64(),
    })
}

/// One annotation for each change, at the policy that makes it where there is one.
fn annotations(summary: &Summary, bundle: &Bundle, out: &mut dyn Write) -> io::Result<()> {
    for (kind, group) in ordered(summary) {
        let level = if kind.is_looser() {
            "warning"
        } else {
            "notice"
        };
        let policy = bundle
            .policies
            .iter()
            .find(|policy| kind.policies.contains(&policy.id));
        let place = policy.map_or_else(String::new, |policy| {
            format!(
                "file={},line={},",
                command_property(&policy.file),
                policy.line
            )
        });
        let sample = group.samples.first().map_or_else(String::new, |line| {
            format!(", such as {} ({}:{})", line.asked, line.file, line.line)
        });
        writeln!(
            out,
            "::{level} {place}title={}::{}",
            command_property(&format!("{} → {}", kind.from, kind.to)),
            command_data(&format!(
                "{} by {}{sample}",
                counted(group.lines, "recorded call"),
                kind.policies.join(", ")
            ))
        )?;
    }
    let left: u64 = summary.not_judged.values().sum();
    if left > 0 {
        writeln!(
            out,
            "::notice title=not judged::{}",
            command_data(&format!("{} could not be judged", counted(left, "line")))
        )?;
    }
    Ok(())
}
