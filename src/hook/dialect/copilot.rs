//! GitHub Copilot CLI 1.0.102, camelCase events. Its ways were measured.
//!
//! Before a tool, a denial is JSON and exit 2; anything but exactly one JSON object with exit 0 lets
//! the tool run, and so does `"allow"`, which also skips the host's own prompts: it is never said.
//! After a tool and before a prompt it is the other way round: only exit 0 is read.

use serde_json::{Value, json};

use super::{Answer, fields, object, reason, silent};
use crate::gate::event::{Capabilities, EventName};
use crate::gate::outcome::{Advice, Outcome};

/// In `-p` mode and over ACP an *ask* is a denial; a hook cannot tell where it runs.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    interactive: "unknown",
    replaces_results: true,
    replaces_prompts: true,
};

pub(super) fn render(name: EventName, outcome: &Outcome) -> Answer {
    match (name, outcome) {
        (_, Outcome::Pass(cleared)) => passed(name, cleared.advice()),
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
                ("permissionDecisionReason", reason(outcome)),
            ]),
            2,
        ),
        // The host has no way to ask from here: what needs a person is denied.
        (EventName::PermissionRequest, _) => object(
            fields([("behavior", json!("deny")), ("message", reason(outcome))]),
            2,
        ),
        // The host does not stop for this one, but takes another text.
        (EventName::UserPromptTransformed, _) => object(
            fields([
                ("decision", json!("block")),
                ("reason", reason(outcome)),
                ("modifiedTransformedPrompt", reason(outcome)),
            ]),
            0,
        ),
        (name, _) if name.can_block() => object(
            fields([("decision", json!("block")), ("reason", reason(outcome))]),
            0,
        ),
        _ => silent(),
    }
}

fn passed(name: EventName, advice: &Advice) -> Answer {
    let replacement = advice.replacement.as_ref();
    match name {
        EventName::SessionStart | EventName::UserPromptSubmitted => {
            let prompt = replacement.map(|text| ("modifiedPrompt", text));
            let context = advice.context.as_ref();
            let context = context.map(|text| ("additionalContext", text));
            let all = prompt.into_iter().chain(context);
            object(
                all.map(|(key, text)| (key.to_owned(), json!(text)))
                    .collect(),
                0,
            )
        }
        EventName::UserPromptTransformed => match replacement {
            Some(text) => object(fields([("modifiedTransformedPrompt", json!(text))]), 0),
            None => silent(),
        },
        EventName::PostToolUse => match replacement {
            Some(text) => object(
                fields([("modifiedResult", json!({"textResultForLlm": text}))]),
                0,
            ),
            None => silent(),
        },
        EventName::SessionEnd => match &advice.summary {
            Some(summary) => object(fields([("sessionSummary", json!(summary))]), 0),
            None => silent(),
        },
        EventName::ErrorOccurred => match &advice.error {
            Some(error) => {
                let mut answer = fields([("errorHandling", json!(error.handling.name()))]);
                if let Some(retries) = error.retries {
                    answer.insert("retryCount".to_owned(), json!(retries));
                }
                if let Some(text) = &error.notification {
                    answer.insert("userNotification".to_owned(), Value::String(text.clone()));
                }
                object(answer, 0)
            }
            None => silent(),
        },
        _ => silent(),
    }
}

/// What an answer before a tool decides.
pub(super) fn decision(answer: &Value) -> Option<&str> {
    answer.get("permissionDecision")?.as_str()
}
