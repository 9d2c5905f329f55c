//! `audit checkpoint` and `audit key`: what has to be kept elsewhere.

use std::io::Write;
use std::path::PathBuf;

use super::directory;
use crate::audit::checkpoint::Signer;
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
    super::days(args.state.as_deref())?;
    let log = Log::open(
        &state(args.state.clone()),
        Some(dir.clone()),
        AuditSettings::default(),
    )
    .map_err(|error| error.0)?;
    let Some(made) = log.seal().map_err(|error| error.0)? else {
        return Err(format!("the record in `{}` has no line yet", dir.display()).into());
    };
    write!(out, "{}", made.note)?;
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
    let signer = Signer::of(&state(args.state.clone())).map_err(|error| error.0)?;
    writeln!(out, "{}", signer.verifier())?;
    Ok(Exit::Ok)
}

fn state(state: Option<PathBuf>) -> PathBuf {
    Place {
        state,
        ..Place::default()
    }
    .state()
}
