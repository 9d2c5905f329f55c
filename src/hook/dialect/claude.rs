//! Claude Code's form, which VS Code and Copilot CLI's PascalCase events share.
//!
//! Claude Code and VS Code are documented, not measured. Copilot CLI was: it denies on exit 2, but
//! then shows its own sentence in place of ours.

use serde_json::json;

use super::{Answer, fields, object, reason, silent};
use crate::gate::event::{Capabilities, EventName};
use crate::gate::outcome::{Outcome, sentences};

pub(super) const CAPABILITIES: Capabilities = Capabilities {
    interactive: "unknown",
    replaces_results: false,
    replaces_prompts: false,
};

pub(super) fn render(name: EventName, outcome: &Outcome) -> Answer {
    match (name, outcome) {
        (EventName::SessionStart | EventName::UserPromptSubmitted, Outcome::Pass(cleared)) => {
            match &cleared.advice().context {
                Some(context) => object(
                    fields([(
                        "hookSpecificOutput",
                        json!({"hookEventName": event_name(name), "additionalContext": context}),
                    )]),
                    0,
                ),
                None => silent(),
            }
        }
        (_, Outcome::Pass(_)) => silent(),
        (EventName::PreToolUse, Outcome::Ask(_)) => object(specific("ask", outcome), 0),
        (EventName::PreToolUse, Outcome::Deny(_)) => Answer {
            stderr: sentences(outcome.reasons()),
            ..object(specific("deny", outcome), 2)
        },
        (EventName::PermissionRequest, _) => {
            let message = reason(outcome);
            // Copilot CLI reads the flat form under this name, Claude Code the nested one.
            object(
                fields([
                    ("behavior", json!("deny")),
                    ("message", message.clone()),
                    (
                        "hookSpecificOutput",
                        json!({
                            "hookEventName": event_name(name),
                            "decision": {"behavior": "deny", "message": message},
                        }),
                    ),
                ]),
                2,
            )
        }
        (name, _) if name.can_block() => {
            let mut answer = fields([("decision", json!("block")), ("reason", reason(outcome))]);
            // Documented for newer versions of Claude Code; others leave it.
            if let (EventName::PostToolUse, Outcome::Deny(refusal)) = (name, outcome)
                && let Some(text) = refusal.instead()
            {
                let output = json!({"hookEventName": "PostToolUse", "updatedToolOutput": text});
                answer.insert("hookSpecificOutput".to_owned(), output);
            }
            object(answer, 0)
        }
        _ => silent(),
    }
}

fn specific(decision: &str, outcome: &Outcome) -> serde_json::Map<String, serde_json::Value> {
    fields([(
        "hookSpecificOutput",
        json!({
            "hookEventName": event_name(EventName::PreToolUse),
            "permissionDecision": decision,
            "permissionDecisionReason": reason(outcome),
        }),
    )])
}

/// Claude Code's own name of an event.
const fn event_name(name: EventName) -> &'static str {
    match name {
        EventName::SessionStart => "SessionStart",
        EventName::UserPromptSubmitted => "UserPromptSubmit",
        EventName::PermissionRequest => "PermissionRequest",
        _ => "PreToolUse",
    }
}

/// What an answer before a tool decides.
pub(super) fn decision(answer: &serde_json::Value) -> Option<&str> {
    answer
        .get("hookSpecificOutput")?
        .get("permissionDecision")?
        .as_str()
}
