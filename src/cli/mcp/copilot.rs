//! `mcp copilot`: the files of a workspace, as tools.

use std::sync::Arc;

use super::Served;
use crate::cli::Outcome;
use crate::mcp::copilot::Copilot;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    served: Served,
}

pub(super) fn run(args: &Args) -> Outcome {
    let about = "Files of the workspace that Copilot works in. Every call is judged by policies; what is \
        blocked says why, and what a person can do.";
    args.served.serve("copilot", about, |bridge, workspace| {
        Ok(bridge.with_tools(Arc::new(Copilot::new(workspace))))
    })
}
