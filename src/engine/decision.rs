//! What the engine answers.
//!
//! A [`Permit`] is a proof: its fields are private, only this module makes one, and what a door
//! may let through is what a permit cleared.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::approver::Demand;

/// How strict an answer is. The strictest of several wins: `max`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The call may go on.
    #[default]
    Allow,
    /// A person has to say yes first.
    Ask,
    /// The call must not happen.
    Deny,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// The judgement of one event.
#[must_use]
#[derive(Debug)]
pub enum Decision {
    /// Every request is permitted.
    Allow(Permit),
    /// Every request is permitted once a person approves.
    Ask(Pending),
    /// At least one request is not permitted.
    Deny(Denial),
}

impl Decision {
    /// How strict the decision is.
    #[must_use]
    pub const fn effect(&self) -> Effect {
        match self {
            Self::Allow(_) => Effect::Allow,
            Self::Ask(_) => Effect::Ask,
            Self::Deny(_) => Effect::Deny,
        }
    }

    /// The policies that decided.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Allow(permit) => permit.reasons(),
            Self::Ask(pending) => pending.reasons(),
            Self::Deny(denial) => denial.reasons(),
        }
    }

    /// A denial that no policy pronounced: something is broken, so nothing is allowed.
    pub fn fault(class: FaultClass, text: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Deny(Denial {
            reasons: vec![Reason::fault(class, text, help)],
            fault: Some(class),
        })
    }

    pub(super) const fn allow(reasons: Vec<Reason>, obligations: Vec<Obligation>) -> Self {
        Self::Allow(Permit {
            reasons,
            obligations,
        })
    }

    pub(super) const fn ask(
        reasons: Vec<Reason>,
        obligations: Vec<Obligation>,
        demand: Option<Demand>,
    ) -> Self {
        Self::Ask(Pending {
            reasons,
            obligations,
            demand,
        })
    }

    pub(super) const fn deny(reasons: Vec<Reason>, fault: Option<FaultClass>) -> Self {
        Self::Deny(Denial { reasons, fault })
    }
}

/// The proof that the engine allowed a call.
#[must_use]
#[derive(Debug)]
pub struct Permit {
    reasons: Vec<Reason>,
    obligations: Vec<Obligation>,
}

impl Permit {
    /// The permits that held.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// What has to be done before, or with the result.
    #[must_use]
    pub fn obligations(&self) -> &[Obligation] {
        &self.obligations
    }
}

/// A call that a person has to approve.
#[must_use]
#[derive(Debug)]
pub struct Pending {
    reasons: Vec<Reason>,
    obligations: Vec<Obligation>,
    demand: Option<Demand>,
}

impl Pending {
    /// The policies that ask.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// What has to be done once it is approved.
    #[must_use]
    pub fn obligations(&self) -> &[Obligation] {
        &self.obligations
    }

    /// Whose approvals the policies demand; `None` where any person's yes will do, the host's too.
    #[must_use]
    pub const fn demand(&self) -> Option<&Demand> {
        self.demand.as_ref()
    }

    /// The same, with another next step for the person.
    pub fn with_help(mut self, help: &str) -> Self {
        add_help(&mut self.reasons, help);
        self
    }

    /// The denial that becomes of this where nobody can be asked, for a reason of its own if there
    /// is one.
    pub fn refuse(self, because: Option<Reason>) -> Denial {
        Denial {
            reasons: because.map_or(self.reasons, |reason| vec![reason]),
            fault: None,
        }
    }

    /// The permit that a person's approval makes of this.
    pub fn approve(self, approval: Approval) -> Permit {
        let Approval { by: _ } = approval;
        Permit {
            reasons: self.reasons,
            obligations: self.obligations,
        }
    }
}

/// The next step stands behind the first reason: no more than a few of them are shown.
fn add_help(reasons: &mut [Reason], help: &str) {
    if let Some(first) = reasons.first_mut() {
        if !first.help.is_empty() {
            first.help.push_str("; ");
        }
        first.help.push_str(help);
    }
}

/// A person said yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Who, or through what: `host` where the host's own prompt asked, else the names of people.
    pub by: String,
}

/// A call that must not happen.
#[must_use]
#[derive(Debug)]
pub struct Denial {
    reasons: Vec<Reason>,
    fault: Option<FaultClass>,
}

impl Denial {
    /// The policies that deny, or the fault.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// What is broken, where it was no policy that denied.
    #[must_use]
    pub const fn fault(&self) -> Option<FaultClass> {
        self.fault
    }
}

/// What can be broken (design: the fail-closed table).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// What the host sent cannot be understood.
    InputError,
    /// The policies cannot be used.
    PolicyError,
    /// A policy, or the question to it, failed while it was evaluated.
    EvaluationError,
    /// The record cannot be written.
    AuditUnavailable,
    /// No answer was found in time.
    Deadline,
    /// A defect of this program.
    InternalError,
    /// A permit's obligation cannot be met.
    ObligationError,
}

impl FaultClass {
    /// The name that the record and the reasons use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InputError => "input_error",
            Self::PolicyError => "policy_error",
            Self::EvaluationError => "evaluation_error",
            Self::AuditUnavailable => "audit_unavailable",
            Self::Deadline => "deadline",
            Self::InternalError => "internal_error",
            Self::ObligationError => "obligation_error",
        }
    }
}

/// One policy that decided, and the sentence that agent and person read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The policy's id with its layer, `default-deny`, or the name of a fault.
    pub id: String,
    /// The policy file, or empty.
    pub file: String,
    /// The line of the policy in that file, counted from 1; 0 where there is no file.
    pub line: u32,
    /// What the policy says.
    pub text: String,
    /// The fact that decided: the request, in words.
    pub fact: String,
    /// What a person can do next.
    pub help: String,
}

impl Reason {
    /// The reason of a denial that is a fault.
    pub fn fault(class: FaultClass, text: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            id: class.name().to_owned(),
            file: String::new(),
            line: 0,
            text: text.into(),
            fact: String::new(),
            help: help.into(),
        }
    }
}

/// When an obligation is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the call is let through.
    Request,
    /// When its result arrives.
    Result,
}

/// What a permit's `@obligation` demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Obligation {
    /// The record is on the disk itself (`fdatasync`) before the answer leaves.
    #[serde(rename = "record:sync")]
    RecordSync,
    /// Secrets leave the text before it goes on (R-000-33, R-000-34).
    #[serde(rename = "redact:secrets")]
    RedactSecrets,
    /// Health information leaves the text before it goes on (R-003-38).
    #[serde(rename = "redact:phi")]
    RedactPhi,
    /// The text is cut at `limits.result_bytes` (R-000-58).
    #[serde(rename = "truncate")]
    Truncate,
    /// The result says that it is a draft, which a person has to send or apply (R-003-10). Only what
    /// this program serves over MCP can meet it.
    #[serde(rename = "mark:draft")]
    MarkDraft,
}

impl Obligation {
    /// Every obligation that this version can meet.
    pub const ALL: [Self; 5] = [
        Self::RecordSync,
        Self::RedactSecrets,
        Self::RedactPhi,
        Self::Truncate,
        Self::MarkDraft,
    ];

    /// The name, as policies write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RecordSync => "record:sync",
            Self::RedactSecrets => "redact:secrets",
            Self::RedactPhi => "redact:phi",
            Self::Truncate => "truncate",
            Self::MarkDraft => "mark:draft",
        }
    }

    /// The obligation of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// When it is due.
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self {
            Self::RecordSync => Phase::Request,
            Self::RedactSecrets | Self::RedactPhi | Self::Truncate | Self::MarkDraft => {
                Phase::Result
            }
        }
    }
}
