//! The result of a call that must not happen (C-21): an error that says why, by whom, and what next.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use crate::engine::decision::Reason;
use crate::gate::outcome::sentences;

/// What a client and its model are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocked {
    /// The sentences that model and person read.
    pub(super) text: String,
    /// The policy or the fault that decided.
    pub(super) reason_code: String,
    /// The call.
    pub(super) blocked_action: String,
    /// What a person does next; may be empty.
    pub(super) next_safe_step: String,
}

impl Blocked {
    /// As the reasons say.
    pub(super) fn new(action: &str, reasons: &[Reason]) -> Self {
        let first = reasons.first();
        Self {
            text: format!("BLOCKED: {}", sentences(reasons)),
            reason_code: first.map_or_else(|| "default-deny".to_owned(), |one| one.id.clone()),
            blocked_action: action.to_owned(),
            next_safe_step: first.map(|one| one.help.clone()).unwrap_or_default(),
        }
    }

    /// The same where a person would have to be asked, and is not here.
    pub(super) fn waiting(action: &str, reasons: &[Reason]) -> Self {
        let blocked = Self::new(action, reasons);
        Self {
            text: format!(
                "{} (a person has to approve this, and nobody can be asked here)",
                blocked.text
            ),
            ..blocked
        }
    }

    /// The text of a chain that is too long (R-000-64).
    pub(super) fn too_deep(self, depth: u32, limit: u32) -> Self {
        Self {
            text: format!(
                "Maximum call depth exceeded (cycle detected). Depth: {depth}, max: {limit}"
            ),
            ..self
        }
    }

    pub(super) fn result(self) -> CallToolResult {
        let mut result = CallToolResult::error(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(json!({
            "blocked": true,
            "reason_code": self.reason_code,
            "blocked_action": self.blocked_action,
            "next_safe_step": self.next_safe_step,
        }));
        result
    }
}
