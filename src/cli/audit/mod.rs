//! `audit`: the record, for those who have to look at it.

mod checkpoint;
mod export;
mod filter;
mod lookup;
mod policy;
mod prove;
mod query;
mod report;
mod row;
#[cfg(feature = "serve")]
mod ship;
mod show;
pub(super) mod time;
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

/// Verify, search, read and export the record
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
    /// Show the policies that were in force on a day, or at a time
    Policy(policy::Args),
    /// Prove that one line is in the record, to somebody who must not see the others
    Prove(prove::Args),
    /// Sign what the record is now, and print it: keep it where the agent cannot write
    Checkpoint(checkpoint::Args),
    /// Print the key that checkpoints of this installation are verified with
    Key(checkpoint::KeyArgs),
    /// Make new keys: one to sign checkpoints with, and one to hide values with
    RotateKeys(checkpoint::RotateArgs),
    /// Show a period as a page: what was decided, by what, how fast, and where the guard was off
    Report(report::Args),
    /// Find a value that the record hides, by its HMAC with this installation's key
    Lookup(lookup::Args),
    /// Hand the record on in the form of another system
    Export(Box<export::Args>),
    /// Send the record on, to where an agent cannot change it
    #[cfg(feature = "serve")]
    Ship(Box<ship::Args>),
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.verb {
        Verb::Verify(args) => verify::run(args, out),
        Verb::Query(args) => query::run(args, out),
        Verb::Show(args) => show::run(args, out),
        Verb::Policy(args) => policy::run(args, out),
        Verb::Prove(args) => prove::run(args, out),
        Verb::Checkpoint(args) => checkpoint::run(args, out),
        Verb::Key(args) => checkpoint::key(args, out),
        Verb::RotateKeys(args) => checkpoint::rotate(args, out),
        Verb::Report(args) => report::run(args, out),
        Verb::Lookup(args) => lookup::run(args, out),
        Verb::Export(args) => export::run(args, out),
        #[cfg(feature = "serve")]
        Verb::Ship(args) => ship::run(args, out),
    }
}

/// The days of an installation's record, the oldest first.
pub(super) fn days(state: Option<&Path>) -> Result<Vec<PathBuf>, String> {
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
pub(super) fn directory(state: Option<&Path>) -> PathBuf {
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
