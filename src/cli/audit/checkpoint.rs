//! `audit checkpoint`, `audit key` and `audit rotate-keys`: what has to be kept elsewhere.

use std::io::Write;
use std::path::PathBuf;

use super::directory;
use crate::audit::checkpoint::{self, Signer};
use crate::audit::writer::Log;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::engine::bundle::AuditSettings;
use crate::exit::Exit;

/// Sign what the record is now, and print it: keep it where the agent cannot write
///
/// A signed note (C2SP tlog-checkpoint) over the number of lines and the root of the tree over them.
/// `audit verify --checkpoint FILE` tells later whether the record still goes on from it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The directory that record and keys are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let dir = directory(args.state.as_deref());
    let log = log(args.state.as_ref())?;
    let Some(made) = log.seal().map_err(|error| error.0)? else {
        return Err(format!("the record in `{}` has no line yet", dir.display()).into());
    };
    write!(out, "{}", made.note)?;
    Ok(Exit::Ok)
}

/// Make new keys: one to sign checkpoints with, and one to hide values with
///
/// The record says so, and the old signing key hands over to the new one: `audit verify` goes on from one to
/// the other, and `audit key` prints the new one. Values that are hidden with the old key are still found by
/// `audit lookup`; placeholders in texts get new fingerprints.
#[derive(Debug, clap::Args)]
pub(super) struct RotateArgs {
    /// The directory that record and keys are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

pub(super) fn rotate(args: &RotateArgs, out: &mut dyn Write) -> Outcome {
    let key = log(args.state.as_ref())?
        .rotate_keys()
        .map_err(|error| error.0)?;
    writeln!(out, "{key}")?;
    Ok(Exit::Ok)
}

/// Print the key that checkpoints of this installation are verified with
///
/// `audit verify --key KEY` lets no other one count. It is public: give it to whoever verifies.
#[derive(Debug, clap::Args)]
pub(super) struct KeyArgs {
    /// The directory that record and keys are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

pub(super) fn key(args: &KeyArgs, out: &mut dyn Write) -> Outcome {
    let state = state(args.state.clone());
    // Who looks makes none.
    let path = checkpoint::path(&state);
    if !path.try_exists()? {
        return Err(format!(
            "there is no key `{}`\nhelp: `copilot-bridge init` and the first checkpoint make it, or name the directory of the installation with `--state`",
            path.display()
        )
        .into());
    }
    let signer = Signer::of(&state).map_err(|error| error.0)?;
    writeln!(out, "{}", signer.verifier())?;
    Ok(Exit::Ok)
}

/// The record, which has to be there.
fn log(dir: Option<&PathBuf>) -> Result<Log, String> {
    super::days(dir.map(PathBuf::as_path))?;
    Log::open(&state(dir.cloned()), None, AuditSettings::default()).map_err(|error| error.0)
}

fn state(state: Option<PathBuf>) -> PathBuf {
    Place {
        state,
        ..Place::default()
    }
    .state()
}
