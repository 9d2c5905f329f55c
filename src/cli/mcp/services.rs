//! `mcp services`: the HTTP services of `upstreams.toml`, as tools and resources.

use std::path::Path;
use std::sync::Arc;

use super::Served;
use super::books::Shelf;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::mcp::bridge_resources::BridgeResources;
use crate::mcp::services::Services;
use crate::mcp::{Bridge, Gates};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve that service only
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    served: Served,
}

pub(super) fn run(args: &Args) -> Outcome {
    let about = "Services behind copilot-bridge. Every call is judged by policies; what is blocked says \
        why, and what a person can do. `bridge://autonomy` says what each tool may do by itself.";
    let name = args.name.as_deref();
    let place = &args.served.place;
    args.served.serve_by(
        name.unwrap_or("services"),
        about,
        |bridge, workspace, gates| with_services(bridge, &gates, place, workspace, name),
    )
}

/// A server that offers the services as well, all of them or one, and what governs agents.
///
/// # Errors
/// If there is no service of that name, or one cannot be made ready.
pub(crate) fn with_services(
    bridge: Bridge,
    gates: &Arc<dyn Gates>,
    place: &Place,
    workspace: &Path,
    only: Option<&str>,
) -> Result<Bridge, String> {
    let services = Arc::new(Services::new(Arc::clone(gates), only)?);
    let shelf = Arc::new(Shelf::new(place, workspace));
    let books = BridgeResources::new(Arc::clone(gates), shelf);
    Ok(bridge
        .with_tools(Arc::clone(&services) as _)
        .with_resources(services)
        .with_resources(Arc::new(books)))
}
