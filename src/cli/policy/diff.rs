//! `policy diff`: what two sets of policies do otherwise.

use std::io::Write;
use std::path::PathBuf;

use super::prove::{Format, Solver, invalid};
use super::replay::{Record, watched};
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::policy::{self, Base, Locations, Problem, layer};
use crate::workbench::diff::{Flip, Known, Observed, Side, compare, report};
use crate::workbench::replay::run::Run;
use crate::workbench::suite::{self, Report, Suite};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "OLD and NEW are directories of policies, `embedded` for the policies that this \
    program carries, or `in-force` for those that count here.\n\
    Exit codes: 0 no call is answered otherwise · 1 some are, as --fail-on says · 3 policy invalid · \
    4 it could not be found out · 64 usage."
)]
pub(super) struct Args {
    /// The policies that it is compared with
    old: String,
    /// The policies that are looked at
    new: String,
    /// What is a failure
    #[arg(long, value_enum, default_value_t = FailOn::Any)]
    fail_on: FailOn,
    /// Do not try the tests beside the policies
    #[arg(long)]
    no_tests: bool,
    /// Files of a record whose calls are judged by both, too
    #[arg(long, value_name = "FILE", num_args = 1..)]
    records: Vec<PathBuf>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    solver: Solver,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Any call that is answered otherwise, and a difference that could not be ruled out
    Any,
    /// A call that is let through and was not, and one that could not be ruled out
    Looser,
    /// A call that is not let through and was, and one that could not be ruled out
    Stricter,
    /// Nothing
    None,
}

/// The policies that this program carries.
const EMBEDDED: &str = "embedded";

/// The policies that count here.
const IN_FORCE: &str = "in-force";

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let sides =
        side(&args.old, &args.place).and_then(|old| Ok((old, side(&args.new, &args.place)?)));
    let (old, new) = match sides {
        Ok(sides) => sides,
        Err(problems) => return invalid(&problems, args.format, out),
    };
    let mut observed = Vec::new();
    if !args.no_tests {
        match tests(args, &old, &new) {
            Ok(tried) => observed.extend(tried?),
            Err(problems) => return invalid(&problems, args.format, out),
        }
    }
    if !args.records.is_empty() {
        observed.push(records(args, &old, &new)?);
    }
    let diff = compare(&old, &new, &args.solver.means(), observed);
    match args.format {
        Format::Text => report::text(&diff, &old, &new, out)?,
        Format::Json => writeln!(out, "{:#}", report::json(&diff, &old, &new))?,
        Format::Github => out.write_all(report::github(&diff).as_bytes())?,
    }
    Ok(match (diff.known(), args.fail_on) {
        (_, FailOn::None) | (Known::Same, _) => Exit::Ok,
        (Known::Unknown, _) => Exit::Unknown,
        (Known::Different { .. }, FailOn::Any)
        | (Known::Different { looser: true, .. }, FailOn::Looser)
        | (Known::Different { stricter: true, .. }, FailOn::Stricter) => Exit::Failed,
        // The other way was found; this one is ruled out only where all was looked at.
        (Known::Different { .. }, _) if diff.whole() => Exit::Ok,
        (Known::Different { .. }, _) => Exit::Unknown,
    })
}

fn locations(name: &str, place: &Place) -> Locations {
    match name {
        EMBEDDED => Locations::default(),
        IN_FORCE => place.locations(std::env::current_dir().ok().as_deref()),
        dir => Locations {
            base: Base::Configured(PathBuf::from(dir)),
            ..Locations::default()
        },
    }
}

fn side(name: &str, place: &Place) -> Result<Side, Vec<Problem>> {
    let sources = layer::read(&locations(name, place))?;
    Ok(Side {
        name: name.to_owned(),
        bundle: policy::load_sources(&sources)?,
        sources,
    })
}

type Tried = Result<Vec<Observed>, Box<dyn std::error::Error>>;

/// The tests of both sides, under both.
fn tests(args: &Args, old: &Side, new: &Side) -> Result<Tried, Vec<Problem>> {
    let mut files = Vec::new();
    for name in [&args.old, &args.new] {
        for file in suite::files(&locations(name, &args.place))? {
            // The same test beside both says the same.
            let known = |known: &std::sync::Arc<policy::SourceFile>| {
                known.name == file.name && known.text == file.text
            };
            if !files.iter().any(known) {
                files.push(file);
            }
        }
    }
    if files.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let suite = Suite::load(&files, &super::test::parse)?;
    let run = || -> Tried {
        let (before, after) = (suite.run(&old.bundle)?, suite.run(&new.bundle)?);
        Ok(vec![flips(&before, &after)])
    };
    Ok(run())
}

fn flips(before: &Report, after: &Report) -> Observed {
    let mut observed = Observed {
        source: "tests",
        judged: after.tried.len(),
        ..Observed::default()
    };
    for (old, new) in before.tried.iter().zip(&after.tried) {
        let flip = || Flip {
            call: new.name.clone(),
            place: format!("{}:{}", new.file, new.line),
            from: old.decision,
            to: new.decision,
            by: new.deciding.clone(),
        };
        observed.add(flip, old.decision, new.decision);
    }
    observed
}

/// The calls of a record, under both.
fn records(args: &Args, old: &Side, new: &Side) -> Result<Observed, Box<dyn std::error::Error>> {
    let state = args.place.state.as_deref();
    let record = Record::of(&args.records, state)?;
    let engine = Engine::new(new.bundle.clone());
    let replay = record.replay(&engine, state).against(old.bundle.clone());
    let run = Run {
        files: record.files,
        ..Run::default()
    };
    let mut observed = Observed {
        source: "record",
        ..Observed::default()
    };
    let summary = watched(&run, &replay, &mut |line| {
        let flip = || Flip {
            call: line.asked.clone(),
            place: format!("{}:{}", line.file, line.line),
            from: line.from,
            to: line.to,
            by: line.by.clone(),
        };
        observed.add(flip, line.from, line.to);
        Ok(())
    })?;
    let count = |lines: u64| usize::try_from(lines).unwrap_or(usize::MAX);
    observed.judged = count(summary.judged());
    let faults = summary.faults.values().sum::<u64>();
    let unjudged = summary.not_judged.iter();
    observed.left_out = unjudged
        .map(|(why, lines)| (super::replay::reason(why), count(*lines)))
        .collect();
    if faults > 0 {
        let why = "a fault denied, and no policy".to_owned();
        observed.left_out.push((why, count(faults)));
    }
    for (table, lines) in &summary.as_recorded {
        let why = format!("judged, but by the facts of the record, not by the new `{table}`");
        observed.left_out.push((why, count(*lines)));
    }
    Ok(observed)
}
