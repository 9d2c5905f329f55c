//! What to answer, in our words. A door renders it, and cannot make an allowing one itself.

use serde_json::Value;

use crate::engine::bundle::Handling;
use crate::engine::decision::{Denial, Effect, FaultClass, Obligation, Pending, Permit, Reason};

/// The answer to one event.
#[must_use]
#[derive(Debug)]
pub enum Outcome {
    /// The call goes on.
    Pass(Cleared),
    /// A person has to be asked.
    Ask(Pending),
    /// The call must not happen.
    Deny(Refusal),
}

/// What a permit cleared: the proof, and what may go out with it.
#[must_use]
#[derive(Debug)]
pub struct Cleared {
    permit: Permit,
    advice: Advice,
}

impl Cleared {
    pub(super) const fn new(permit: Permit, advice: Advice) -> Self {
        Self { permit, advice }
    }

    /// What the host may do with the answer, or leave.
    #[must_use]
    pub const fn advice(&self) -> &Advice {
        &self.advice
    }

    /// The permits that held.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        self.permit.reasons()
    }

    /// What is owed with the answer.
    #[must_use]
    pub fn obligations(&self) -> &[Obligation] {
        self.permit.obligations()
    }
}

/// Why a call must not happen.
#[must_use]
#[derive(Debug, Clone)]
pub struct Refusal {
    reasons: Vec<Reason>,
    fault: Option<FaultClass>,
    instead: Option<String>,
}

impl Refusal {
    /// A refusal because something is broken. Anyone may refuse.
    pub fn fault(class: FaultClass, text: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            reasons: vec![Reason::fault(class, text, help)],
            fault: Some(class),
            instead: None,
        }
    }

    /// With a text that a host may show in the place of the one that is refused, if it can.
    pub(super) fn with_text(self, text: Option<String>) -> Self {
        Self {
            instead: text,
            ..self
        }
    }

    /// The text that may be shown in the place of the one that is refused.
    #[must_use]
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }

    /// The policies that deny, or the fault.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// What is broken, where it was no policy that denied.
    #[must_use]
    pub const fn class(&self) -> Option<FaultClass> {
        self.fault
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self {
            reasons: denial.reasons().to_vec(),
            fault: denial.fault(),
            instead: None,
        }
    }
}

/// What a host may do with an answer, or leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// A text for the model.
    pub context: Option<String>,
    /// The text that takes the place of the result or the prompt: no host may leave this one.
    pub replacement: Option<String>,
    /// The content that takes the place of an MCP tool's: nobody may leave this one either.
    pub content: Option<Value>,
    /// What to do about an error.
    pub error: Option<ErrorAdvice>,
    /// One line about a session that ends.
    pub summary: Option<String>,
}

/// What to do about an error (R-000-35, R-000-62).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorAdvice {
    /// The class that the error was put into.
    pub class: String,
    /// Try again, go on without, or stop.
    pub handling: Handling,
    /// How often to try again; only with [`Handling::Retry`].
    pub retries: Option<u32>,
    /// What the user is told.
    pub notification: Option<String>,
}

impl Outcome {
    /// How strict the answer is.
    #[must_use]
    pub const fn effect(&self) -> Effect {
        match self {
            Self::Pass(_) => Effect::Allow,
            Self::Ask(_) => Effect::Ask,
            Self::Deny(_) => Effect::Deny,
        }
    }

    /// What is owed with the answer.
    #[must_use]
    pub fn obligations(&self) -> &[Obligation] {
        match self {
            Self::Pass(cleared) => cleared.permit.obligations(),
            Self::Ask(pending) => pending.obligations(),
            Self::Deny(_) => &[],
        }
    }

    /// The policies that decided.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Pass(cleared) => cleared.reasons(),
            Self::Ask(pending) => pending.reasons(),
            Self::Deny(refusal) => refusal.reasons(),
        }
    }
}

/// The sentences that agent and person read: what, by which policy, and what next.
#[must_use]
pub fn sentences(reasons: &[Reason]) -> String {
    /// More reasons than this do not help.
    const MOST: usize = 3;
    let mut parts: Vec<String> = reasons.iter().take(MOST).map(sentence).collect();
    if reasons.len() > MOST {
        parts.push(format!("and {} more", reasons.len() - MOST));
    }
    parts.join("; ")
}

fn sentence(reason: &Reason) -> String {
    let mut text = reason.text.clone();
    if !reason.fact.is_empty() && reason.id != "default-deny" && !reason.text.contains('`') {
        text = format!("{text} ({})", reason.fact);
    } else if reason.id == "default-deny" {
        text = format!("{text}: {}", reason.fact);
    }
    let place = match (reason.file.is_empty(), reason.line) {
        (true, _) => reason.id.clone(),
        (false, line) => format!("{} at {}:{line}", reason.id, reason.file),
    };
    text = format!("{text} [{place}]");
    if reason.help.is_empty() {
        text
    } else {
        format!("{text}. Next: {}", reason.help)
    }
}
