//! `audit policy`: the policies that were in force.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::time::{since, until};
use super::{counted, days, directory, open};
use crate::audit::query::{Filter, lines};
use crate::cli::progress::Progress;
use crate::cli::{Format, Outcome};
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::policy::archive::{self, Archived};
use crate::scrub::report::printable;

/// Show the policies that were in force on a day, or at a time
///
/// By the digest that every line names: the files are kept beside the record, and what is shown is
/// what that digest was taken of.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 shown · 1 the record names none, or they are not kept · 64 usage.\n\
    copilot-bridge audit policy 2026-01-02 --output then && copilot-bridge policy check then/default"
)]
pub(super) struct Args {
    /// `2026-01-02`, `2026-01-02T03:04:05Z`, or how long ago: `90m`, `7d`
    #[arg(value_name = "DATE", value_parser = date)]
    date: String,
    /// Print this file of theirs: `permission.cedar`
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    file: Option<String>,
    /// Write all files into this new directory, a folder for each layer
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Only the policies whose digest begins so, where several were in force
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// How to list them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The directory that record and keys are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// A day or a time, as it was written: the end of a day is another time than its beginning.
fn date(text: &str) -> Result<String, String> {
    since(text).map(|_| text.to_owned())
}

/// When policies were in force, by the record.
#[derive(Debug)]
struct Use {
    digest: String,
    first: String,
    last: String,
    lines: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    ts: std::borrow::Cow<'a, str>,
    policy_digest: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let used: Vec<Use> = used(args)?
        .into_iter()
        .filter(|one| {
            args.digest
                .as_ref()
                .is_none_or(|digest| one.digest.starts_with(digest))
        })
        .collect();
    if used.is_empty() {
        return Err(format!(
            "the record names no policies that were in force at `{}`",
            args.date
        )
        .into());
    }
    let dir = directory(args.state.as_deref()).join(archive::DIR);
    let read = |one: &Use| archive::read(&dir, &one.digest);
    if args.file.is_none() && args.output.is_none() {
        return list(args, &used, &read, out);
    }
    let [one] = used.as_slice() else {
        return Err(format!(
            "{} sets of policies were in force then\nhelp: name one with `--digest`, or a time instead of a day",
            used.len()
        )
        .into());
    };
    let archived = read(one)?;
    match (&args.file, &args.output) {
        (Some(name), _) => print(&archived, name, out)?,
        (_, Some(dir)) => write_all(&archived, dir)?,
        (None, None) => {}
    }
    Ok(Exit::Ok)
}

/// Those that a day's lines name; at a time, those that the last line before it names.
fn used(args: &Args) -> Result<Vec<Use>, Box<dyn std::error::Error>> {
    let from = since(&args.date)?;
    // The end of a day is another time than its beginning; a moment is over at once.
    let to = until(&args.date)?;
    let is_day = to.duration_since(from).as_hours() > 0;
    let mut found: BTreeMap<String, Use> = BTreeMap::new();
    let mut before: Option<Use> = None;
    let all = days(args.state.as_deref())?;
    let filter = Filter {
        until: Some(if is_day { to } else { from }),
        ..Filter::default()
    };
    let wanted: Vec<_> = all.iter().filter(|day| filter.wants_day(day)).collect();
    let bytes = wanted
        .iter()
        .map(|day| day.metadata().map_or(0, |file| file.len()));
    let mut progress = Progress::bytes(bytes.sum());
    let mut done = 0;
    // The newest first: what was in force before is named by the last line before.
    for day in wanted.into_iter().rev() {
        let mut last = None;
        lines(open(day)?, &mut |line| {
            done += line.len() + 1;
            progress.at(done);
            let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
                return Ok(());
            };
            let (Some(digest), Ok(ts)) = (line.policy_digest, line.ts.parse::<Timestamp>()) else {
                return Ok(());
            };
            let ts_text = line.ts.into_owned();
            let new = |digest: String| Use {
                digest,
                first: ts_text.clone(),
                last: ts_text.clone(),
                lines: 0,
            };
            if is_day && ts >= from && ts < to {
                let one = found.entry(digest.clone()).or_insert_with(|| new(digest));
                one.last = one.last.clone().max(ts_text.clone());
                one.first = one.first.clone().min(ts_text.clone());
                one.lines += 1;
            } else if !is_day && ts <= from {
                last = Some(Use {
                    lines: 1,
                    ..new(digest)
                });
            }
            Ok(())
        })?;
        if !is_day && last.is_some() {
            before = last;
            break;
        }
        if is_day && crate::audit::read::day_of(day).is_some_and(|day| *day < *day_text(from)) {
            break;
        }
    }
    let mut used: Vec<Use> = found.into_values().chain(before).collect();
    used.sort_by(|a, b| a.first.cmp(&b.first));
    Ok(used)
}

fn day_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

fn list(
    args: &Args,
    used: &[Use],
    read: &dyn Fn(&Use) -> Result<Archived, String>,
    out: &mut dyn Write,
) -> Outcome {
    let mut kept = true;
    for one in used {
        let archived = read(one);
        kept &= archived.is_ok();
        match args.format {
            Format::Json => {
                let layers = archived.as_ref().ok().map(|archived| &archived.layers);
                let problem = archived.as_ref().err();
                writeln!(
                    out,
                    "{}",
                    json!({
                        "digest": one.digest, "first": one.first, "last": one.last, "lines": one.lines,
                        "layers": layers, "problem": problem,
                    })
                )?;
            }
            Format::Text => text(one, &archived, out)?,
        }
    }
    Ok(if kept { Exit::Ok } else { Exit::Failed })
}

fn text(one: &Use, archived: &Result<Archived, String>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", one.digest)?;
    let when = match one.first == one.last {
        true => one.first.clone(),
        false => format!("{} to {}", one.first, one.last),
    };
    writeln!(
        out,
        "  named by {}, {}",
        counted(one.lines, "line"),
        printable(&when)
    )?;
    match archived {
        Err(problem) => writeln!(out, "  not kept: {}", printable(problem)),
        Ok(archived) => {
            for layer in &archived.layers {
                writeln!(out, "  {} {}", layer.layer, printable(&layer.dir))?;
                for file in &layer.files {
                    let bytes = counted(file.text.len() as u64, "byte");
                    writeln!(out, "    {}, {bytes}", printable(&file.name))?;
                }
            }
            Ok(())
        }
    }
}

/// The file of that name, of every layer that has one.
fn print(
    archived: &Archived,
    name: &str,
    out: &mut dyn Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut found = false;
    for layer in &archived.layers {
        for file in layer.files.iter().filter(|file| file.name == name) {
            found = true;
            if archived.layers.len() > 1 {
                writeln!(out, "# {}", layer.layer)?;
            }
            out.write_all(file.text.as_bytes())?;
        }
    }
    if found {
        return Ok(());
    }
    Err(format!("these policies have no file `{name}`").into())
}

fn write_all(archived: &Archived, dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir(dir)
        .map_err(|error| format!("cannot make `{}`: {}", dir.display(), words(&error)))?;
    for layer in &archived.layers {
        for file in &layer.files {
            let name = Path::new(&file.name);
            if !name
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
            {
                return Err(format!("`{}` is no name of a file", file.name).into());
            }
            let path = dir.join(&layer.layer).join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, &file.text)?;
        }
    }
    Ok(())
}
