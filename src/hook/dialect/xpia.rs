//! The amplihack XPIA hook's form (R-004-14, R-004-15, R-004-28).

use serde_json::json;

use super::{Answer, copilot, fields, object, reason};
use crate::gate::event::{Capabilities, EventName};
use crate::gate::outcome::Outcome;

pub(super) const CAPABILITIES: Capabilities = Capabilities {
    interactive: "unknown",
    replaces_results: false,
    replaces_prompts: false,
};

pub(super) fn render(name: EventName, outcome: &Outcome, legacy_exit: bool) -> Answer {
    match (name, outcome) {
        (EventName::PreToolUse, Outcome::Ask(_)) => object(
            fields([
                ("permissionDecision", json!("ask")),
                ("permissionDecisionReason", reason(outcome)),
            ]),
            0,
        ),
        (EventName::PreToolUse, Outcome::Deny(_)) => object(
            fields([
                ("permissionDecision", json!("deny")),
                ("message", reason(outcome)),
                ("permissionDecisionReason", reason(outcome)),
            ]),
            if legacy_exit { 0 } else { 2 },
        ),
        _ => copilot::render(name, outcome),
    }
}
