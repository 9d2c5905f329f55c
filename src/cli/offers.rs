//! What this program serves over HTTP: the one place where toolsets and resources come together.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use super::mcp::{memory, services};
use super::place::Place;
use crate::mcp::copilot::Copilot;
use crate::mcp::{Bridge, Gates};

/// The server with all that it offers in a workspace.
///
/// # Errors
/// In words, if something that is set up cannot be offered.
pub(super) fn all(
    bridge: Bridge,
    gates: &Arc<dyn Gates>,
    workspace: &Path,
    place: &Place,
) -> Result<Bridge, Box<dyn Error>> {
    let bridge = bridge
        .with_tools(Arc::new(Copilot::new(workspace)))
        .with_tools(Arc::new(memory::remembered(None, place)?));
    Ok(services::with_services(
        bridge, gates, place, workspace, None,
    )?)
}
