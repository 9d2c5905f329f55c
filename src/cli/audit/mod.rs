//! `audit`: the record, for those who have to look at it.

mod lookup;
mod query;
mod report;
mod row;
mod show;
mod time;
mod verify;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::Outcome;
use super::place::Place;
use crate::audit::read;
use crate::audit::report::text::{counted, grouped};
use crate::facts::paths::words;

/// Verify, search and read the record
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say whether a record is whole: no line edited, missing, made up or out of order
    Verify(verify::Args),
    /// Show lines of the record, by what they are about
    Query(Box<query::Args>),
    /// Show all that the record says of one decision
    Show(show::Args),
    /// Show a period as a page: what was decided, by what, how fast, and where the guard was off
    Report(report::Args),
    /// Find a value that the record hides, by its HMAC with this installation's key
    Lookup(lookup::Args),
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.verb {
        Verb::Verify(args) => verify::run(args, out),
        Verb::Query(args) => query::run(args, out),
        Verb::Show(args) => show::run(args, out),
        Verb::Report(args) => report::run(args, out),
        Verb::Lookup(args) => lookup::run(args, out),
    }
}

/// The days of an installation's record, the oldest first.
fn days(state: Option<&Path>) -> Result<Vec<PathBuf>, String> {
    let dir = directory(state);
    let days = read::days(&dir).map_err(|error| error.0)?;
    if days.is_empty() {
        let dir = dir.display();
        return Err(format!(
            "there is no record in `{dir}`\nhelp: name the directory of the installation with `--state`"
        ));
    }
    Ok(days)
}

/// The folder of an installation's record.
fn directory(state: Option<&Path>) -> PathBuf {
    let place = Place {
        state: state.map(Path::to_path_buf),
        ..Place::default()
    };
    place.state().join("audit")
}

/// A day of the record.
fn open(day: &Path) -> Result<File, String> {
    read::open(day).map_err(|error| format!("cannot read `{}`: {}", day.display(), words(&error)))
}
