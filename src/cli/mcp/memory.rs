//! `mcp memory`: what OpenClaw remembers, as tools.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Served;
use crate::cli::Outcome;
use crate::cli::place::{Place, home};
use crate::config::openclaw;
use crate::mcp::memory::Remembered;
use crate::openclaw::gateway::Device;
use crate::openclaw::memory::{Memory, Places};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// OpenClaw's workspace, and no other place of its memory, instead of those that OpenClaw uses by
    /// itself
    #[arg(long, value_name = "DIR")]
    workspace_dir: Option<PathBuf>,
    #[command(flatten)]
    served: Served,
}

pub(super) fn run(args: &Args) -> Outcome {
    let remembered = remembered(args.workspace_dir.as_deref(), &args.served.place)?;
    let about = "What OpenClaw remembers: search first, then read the file that a hit names. Nothing can be \
        written. Every call is judged by policies; what is blocked says why, and what a person can do.";
    args.served.serve("openclaw-memory", about, |bridge, _| {
        Ok(bridge.with_tools(Arc::new(remembered)))
    })
}

/// The memory of this user's OpenClaw, or of one workspace of it.
///
/// # Errors
/// In words, if what says where it is cannot be used.
pub(in crate::cli) fn remembered(
    workspace: Option<&Path>,
    place: &Place,
) -> Result<Remembered, Box<dyn Error>> {
    let variable = |name: &'static str| std::env::var(name).ok();
    let places = match workspace {
        Some(dir) => Places::only(dir.to_path_buf()),
        None => Places::usual(&home().ok_or("this user has no home")?, variable)?,
    };
    let gateway = match openclaw::gateway(variable)? {
        Some(address) => Some((address, Device::of(&place.state())?)),
        None => None,
    };
    Ok(Remembered::new(Memory::new(places), gateway))
}
