//! `policy suggest`: the rules that recorded calls would need, for a person to look at.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use similar::TextDiff;

use super::replay::{NOTHING_JUDGED, Record, watched};
use super::show_problems;
use crate::audit::line::Text;
use crate::audit::query::{Filter, lines};
use crate::audit::read;
use crate::audit::report::text::{counted, visible};
use crate::cli::Outcome;
use crate::cli::audit::time::{since, until};
use crate::cli::place::Place;
use crate::engine::Engine;
use crate::engine::bundle::Bundle;
use crate::engine::decision::Effect;
use crate::exit::Exit;
use crate::facts::paths::{Workspace, words};
use crate::policy::edit::{Files, publish};
use crate::policy::{Layer, Problem, Source, check_sources, layer};
use crate::workbench::replay::run::{Changed, Only, Run, Summary};
use crate::workbench::replay::{Recorded, Replay};
use crate::workbench::suggest::{Proposals, Seen, Suggest, Wanted, changed_canary};

/// Propose the rules that recorded calls would need in order to be allowed
///
/// Looks at calls that were let through because policies were only monitored; with --asked and
/// --denied, at those that were stopped. Nothing is applied: a person reads the proposals, takes
/// what is right, and says who looks after it.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Files of a record [default: this installation's]
    files: Vec<PathBuf>,
    /// Calls that a person was asked about, instead
    #[arg(long)]
    asked: bool,
    /// Calls that were denied, instead
    #[arg(long)]
    denied: bool,
    /// Not older
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Older; a day counts as a whole
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// Write the policies with the proposals into this directory, which must not be there; or,
    /// where the name ends in `.patch` or `.diff`, the difference into this file
    #[arg(long, value_name = "DIR|FILE")]
    out: Option<PathBuf>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = crate::cli::Format::Text)]
    format: crate::cli::Format,
    #[command(flatten)]
    place: Place,
}

const HELP: &str = "Times are UTC: `2026-01-02`, `2026-01-02T03:04:05Z`, or how long ago: `90m`, `7d`, `2w`.\n\
    Nothing is ever proposed for what protects the bridge, credentials, destructive commands, or code \
    that nobody judged.";

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let cwd = std::env::current_dir().ok();
    let (layers, bundle) = match in_force(&args.place, cwd.as_deref()) {
        Ok(found) => found,
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let nowhere = Workspace {
        cwd: PathBuf::from("/"),
        root: None,
    };
    let places = args.place.installation().places(&nowhere);
    let wanted = Wanted {
        monitored: !args.asked && !args.denied,
        asked: args.asked,
        denied: args.denied,
    };
    let digest = bundle.digest.clone();
    let mut suggest = Suggest::new(layers, bundle, wanted, Some(places.clone()));
    let record = Record::of(&args.files, args.place.state.as_deref())?;
    let others = observe(args, &record.files, &digest, &mut suggest)?;
    let before = suggest.bundle().clone();
    let counts = Counts {
        calls: suggest.calls,
        allowed: suggest.allowed,
        truncated: suggest.truncated,
        others,
    };
    let proposals = match suggest.propose() {
        Ok(proposals) => proposals,
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    if let Some(call) = changed_canary(before.clone(), proposals.bundle.clone())? {
        return Err(format!(
            "with the proposals `{call}` would be answered otherwise, which none of them may do"
        )
        .into());
    }
    let run = Run {
        files: record.files.clone(),
        since: args.since,
        until: args.until,
        samples: 3,
        only: Only::All,
    };
    let engine = Engine::new(proposals.bundle.clone());
    let replay = Replay::new(&engine).against(before).at(places);
    let effect = watched(&run, &replay, &mut |_: &Changed| Ok(()))?;
    let written = match &args.out {
        Some(path) if !proposals.proposed.is_empty() => Some(write(path, &proposals, out)?),
        _ => None,
    };
    if written == Some(false) {
        return Ok(Exit::Failed);
    }
    match args.format {
        crate::cli::Format::Text => text(args, &counts, &proposals, &effect, out)?,
        crate::cli::Format::Json => {
            writeln!(out, "{:#}", document(&counts, &proposals, &effect))?;
        }
    }
    // A record that nobody can read asks for nothing, and is no week without calls.
    if effect.lines > 0 && effect.judged() == 0 {
        return Err(NOTHING_JUDGED.into());
    }
    Ok(Exit::Ok)
}

/// What was looked at.
struct Counts {
    calls: u64,
    allowed: u64,
    truncated: u64,
    /// Those that other policies judged than the ones in force.
    others: u64,
}

/// The layers that are in force here, and what they come to.
fn in_force(place: &Place, cwd: Option<&Path>) -> Result<(Vec<Source>, Bundle), Vec<Problem>> {
    let layers = layer::read(&place.locations(cwd))?;
    let checked = check_sources(&layers);
    match checked.bundle {
        Some(bundle) => Ok((layers, bundle)),
        None => Err(checked.problems),
    }
}

fn observe(
    args: &Args,
    files: &[PathBuf],
    digest: &str,
    suggest: &mut Suggest,
) -> Result<u64, Box<dyn Error>> {
    let filter = Filter {
        since: args.since,
        until: args.until,
        ..Filter::default()
    };
    let mut others = 0;
    for file in files.iter().filter(|file| filter.wants_day(file)) {
        let unreadable =
            |error: &io::Error| format!("cannot read `{}`: {}", file.display(), words(error));
        let open = read::open(file).map_err(|error| unreadable(&error))?;
        let looked = lines(open, &mut |line| {
            let Ok(line) = serde_json::from_slice::<Recorded<'_>>(line) else {
                return Ok(());
            };
            if !is_timely(args, &line.ts) {
                return Ok(());
            }
            let before = suggest.calls;
            suggest.observe(&line);
            let other = line.policy_digest.plain() != Some(digest);
            others += u64::from(suggest.calls > before && other);
            Ok(())
        });
        looked.map_err(|error| unreadable(&error))?;
    }
    Ok(others)
}

fn is_timely(args: &Args, ts: &Text<'_>) -> bool {
    if args.since.is_none() && args.until.is_none() {
        return true;
    }
    let ts = ts.plain().and_then(|ts| ts.parse::<Timestamp>().ok());
    ts.is_some_and(|ts| {
        args.since.is_none_or(|since| ts >= since) && args.until.is_none_or(|until| ts < until)
    })
}

/// Writes the proposals where a person looks at them, and says whether it could.
fn write(path: &Path, proposals: &Proposals, out: &mut dyn Write) -> Result<bool, Box<dyn Error>> {
    if path
        .extension()
        .is_some_and(|end| end == "patch" || end == "diff")
    {
        std::fs::write(path, difference(proposals))
            .map_err(|error| format!("cannot write `{}`: {}", path.display(), words(&error)))?;
        return Ok(true);
    }
    if path.symlink_metadata().is_ok() {
        return Err(format!(
            "`{}` is there already\nhelp: name a directory that is not there yet",
            path.display()
        )
        .into());
    }
    let files = proposals.after.files.iter();
    let files: Files = files
        .map(|file| (file.name.clone(), file.text.clone()))
        .collect();
    match publish(Layer::User, path, &Files::new(), &files) {
        Ok(_) => Ok(true),
        Err(problem) => {
            show_problems(&[problem], out)?;
            Ok(false)
        }
    }
}

/// What the proposals change, file by file.
fn difference(proposals: &Proposals) -> String {
    let mut text = String::new();
    for after in &proposals.after.files {
        let before = proposals.before.file(&after.name);
        let before = before.map_or("", |file| file.text.as_str());
        if before != after.text {
            let names = (format!("a/{}", after.name), format!("b/{}", after.name));
            let diff = TextDiff::from_lines(before, &after.text);
            let unified = diff.unified_diff().header(&names.0, &names.1).to_string();
            text.push_str(&unified);
        }
    }
    text
}

fn text(
    args: &Args,
    counts: &Counts,
    proposals: &Proposals,
    effect: &Summary,
    out: &mut dyn Write,
) -> io::Result<()> {
    let what = match (args.asked, args.denied) {
        (false, false) => "let through because policies were only monitored",
        (true, false) => "asked about",
        (false, true) => "denied",
        (true, true) => "asked about or denied",
    };
    writeln!(out, "{} {what}", counted(counts.calls, "call"))?;
    for (number, note) in [
        (counts.allowed, "the policies allow by now"),
        (counts.truncated, "the record holds in part only"),
        (counts.others, "other policies than these judged"),
    ] {
        if number > 0 {
            writeln!(out, "{} of them {note}", counted(number, "call"))?;
        }
    }
    if proposals.proposed.is_empty() {
        writeln!(out, "\nnothing is proposed")?;
    } else {
        writeln!(out, "\nproposed:")?;
    }
    for proposal in &proposals.proposed {
        writeln!(out, "  {}", visible(&proposal.title))?;
        seen(&proposal.seen, out)?;
    }
    if !proposals.refused.is_empty() {
        writeln!(out, "\nnot proposed:")?;
    }
    for (why, policies, calls) in &proposals.refused {
        match policies.as_str() {
            "" => writeln!(out, "  {}", visible(why))?,
            ids => writeln!(out, "  {} ({})", visible(why), visible(ids))?,
        }
        seen(calls, out)?;
    }
    if proposals.proposed.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for ((from, to), lines) in ways(effect) {
        writeln!(
            out,
            "with all of them, {} of the record {} from {from} to {to}",
            counted(lines, "line"),
            if lines == 1 { "goes" } else { "go" }
        )?;
    }
    if effect.changes.is_empty() {
        writeln!(
            out,
            "none of them alone, nor all together, lets a call of the record through: something else stops each"
        )?;
    }
    match &args.out {
        Some(path) => writeln!(
            out,
            "written to `{}`: read it, then `copilot-bridge policy check`, and put it in force yourself",
            path.display()
        ),
        None => {
            let diff = difference(proposals);
            // It is copied: what a terminal would take for an order is shown.
            writeln!(out)?;
            diff.lines()
                .try_for_each(|line| writeln!(out, "{}", visible(line)))
        }
    }
}

/// How many lines go from one answer to another.
fn ways(effect: &Summary) -> BTreeMap<(Effect, Effect), u64> {
    let mut ways = BTreeMap::new();
    for (kind, group) in &effect.changes {
        *ways.entry((kind.from, kind.to)).or_default() += group.lines;
    }
    ways
}

fn seen(seen: &Seen, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "      {}", seen.span())?;
    for sample in &seen.samples {
        writeln!(out, "      {}", visible(sample))?;
    }
    Ok(())
}

fn document(counts: &Counts, proposals: &Proposals, effect: &Summary) -> Value {
    let of = |seen: &Seen| json!({"calls": seen.calls, "first": seen.first, "last": seen.last, "samples": seen.samples});
    let proposed = proposals.proposed.iter();
    let proposed: Vec<Value> = proposed
        .map(|one| json!({"title": one.title, "seen": of(&one.seen)}))
        .collect();
    let refused = proposals.refused.iter();
    let refused: Vec<Value> = refused
        .map(|(why, policies, seen)| json!({"reason": why, "policies": policies, "seen": of(seen)}))
        .collect();
    let changes: Vec<Value> = ways(effect)
        .into_iter()
        .map(|((from, to), lines)| json!({"from": from, "to": to, "lines": lines}))
        .collect();
    json!({
        "calls": counts.calls,
        "allowed_now": counts.allowed,
        "truncated": counts.truncated,
        "judged_by_others": counts.others,
        "proposed": proposed,
        "not_proposed": refused,
        "changes": changes,
        "difference": difference(proposals),
    })
}
