//! `mcp memory`: what OpenClaw remembers, as tools.

use std::path::PathBuf;
use std::sync::Arc;

use super::Served;
use crate::cli::Outcome;
use crate::cli::place::home;
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
    let variable = |name: &'static str| std::env::var(name).ok();
    let places = match &args.workspace_dir {
        Some(dir) => Places::only(dir.clone()),
        None => Places::usual(&home().ok_or("this user has no home")?, variable)?,
    };
    let gateway = match openclaw::gateway(variable)? {
        Some(address) => Some((address, Device::of(&args.served.place.state())?)),
        None => None,
    };
    let about = "What OpenClaw remembers: search first, then read the file that a hit names. Nothing can be \
        written. Every call is judged by policies; what is blocked says why, and what a person can do.";
    args.served.serve("openclaw-memory", about, |bridge, _| {
        let remembered = Remembered::new(Memory::new(places), gateway);
        Ok(bridge.with_tools(Arc::new(remembered)))
    })
}
