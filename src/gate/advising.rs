//! What a host is told besides the decision: context, a summary, what to do about an error.

use super::Gate;
use super::event::{Body, Event, EventName};
use super::outcome::{Advice, ErrorAdvice};
use crate::config;
use crate::engine::bundle::{Bundle, Handling};
use crate::engine::pattern::Haystack;

impl Gate {
    /// What an event is answered besides.
    ///
    /// # Errors
    /// If a variable of the environment says what it may not say.
    pub(super) fn advice(&self, event: &Event) -> Result<Advice, config::ConfigError> {
        let Some(bundle) = self.bundle() else {
            return Ok(Advice::default());
        };
        let effective = || config::effective(&bundle.settings, self.environment);
        Ok(match &event.body {
            Body::Start { .. } => Advice {
                context: some_text(effective()?.project_context.value),
                ..Advice::default()
            },
            Body::Prompt { .. } if event.name == EventName::UserPromptSubmitted => Advice {
                context: some_text(effective()?.project_context.value),
                ..Advice::default()
            },
            Body::End { reason } => {
                let reason = if reason.is_empty() { "unknown" } else { reason };
                Advice {
                    summary: Some(format!("Session ended: {reason}")),
                    ..Advice::default()
                }
            }
            Body::Error {
                message,
                recoverable,
                ..
            } => Advice {
                error: classify(
                    bundle,
                    message,
                    *recoverable,
                    effective()?.max_retries.value,
                ),
                ..Advice::default()
            },
            _ => Advice::default(),
        })
    }
}

fn some_text(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}

/// The first rule of `bridge.toml` that fits (R-000-35, R-000-62).
fn classify(bundle: &Bundle, message: &str, recoverable: bool, most: u32) -> Option<ErrorAdvice> {
    let rule = bundle.settings.errors.iter().find(|rule| {
        (recoverable || !rule.recoverable_only)
            && rule
                .pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(&[Haystack::new(message)]) == Ok(true))
    })?;
    Some(ErrorAdvice {
        class: rule.class.clone(),
        handling: rule.handling,
        retries: (rule.handling == Handling::Retry).then(|| rule.retries.min(most)),
        notification: some_text(rule.notification.replace("{message}", message)),
    })
}
