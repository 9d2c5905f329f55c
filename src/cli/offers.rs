//! What this program serves over HTTP: the one place where toolsets and resources come together.

use std::path::Path;
use std::sync::Arc;

use crate::mcp::Bridge;
use crate::mcp::copilot::Copilot;

/// The server with all that it offers in a workspace.
///
/// # Errors
/// In words, if something that is set up cannot be offered.
pub(super) fn all(bridge: Bridge, workspace: &Path) -> Result<Bridge, String> {
    Ok(bridge.with_tools(Arc::new(Copilot::new(workspace))))
}
