//! What the engine judges by: validated policies and settings, as plain data.
//!
//! A bundle is made in `policy/`, from text or from the compiled form; both hold the same values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::action::ActionSet;
use super::approver::{Approvers, Demand};
use super::containment::Containment;
use super::decision::{Effect, Obligation};
use super::entity::Entities;
use super::exception::Exception;
use super::injection::Injection;
use super::pattern::Pattern;
use super::redaction::Redaction;
use super::request::ResourceSet;
use super::upstream::Upstreams;

/// Validated policies and settings of all layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// SHA-256 over all sources, the engine's version and the format, in hexadecimal.
    pub digest: String,
    /// The policies of all layers.
    pub policies: Vec<Policy>,
    /// What the TOML files say.
    pub settings: Settings,
}

/// One Cedar policy with its annotations read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// `layer:id`.
    pub id: String,
    /// The file as a person finds it.
    pub file: String,
    /// The line where the policy starts, counted from 1.
    pub line: u32,
    /// The sentence of `@reason`.
    pub reason: String,
    /// The sentence of `@help`, or empty.
    pub help: String,
    /// What it says when it holds.
    pub verdict: Verdict,
    /// `@mode("monitor")`: it is recorded, but decides nothing.
    pub monitor: bool,
    /// `@severity`, or empty.
    pub severity: String,
    /// `@waivable("user")`: layers below may make exceptions.
    pub waivable: bool,
    /// `@approvals`: whose approvals it takes, where the host's own question is not enough.
    pub approvals: Option<Demand>,
    /// The `@obligation`s of a permit.
    pub obligations: Vec<Obligation>,
    /// The actions that its scope admits.
    pub actions: ActionSet,
    /// The resource types that its scope admits.
    pub resources: ResourceSet,
    /// Labels, one of which the resource carries wherever the policy holds; empty: none are known.
    pub requires: Vec<String>,
    /// The policy itself, see [`super::codec`].
    pub body: Vec<u8>,
}

/// What a policy says when it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// `permit`
    Permit,
    /// `forbid` with `@decision("ask")`
    Ask,
    /// `forbid`
    Forbid,
}

impl Verdict {
    /// How strict it is.
    #[must_use]
    pub const fn effect(self) -> Effect {
        match self {
            Self::Permit => Effect::Allow,
            Self::Ask => Effect::Ask,
            Self::Forbid => Effect::Deny,
        }
    }
}

/// Whether judgements bind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They do.
    #[default]
    Enforce,
    /// They are recorded as `would_decide`; only faults and the guard bind.
    Monitor,
}

/// What the TOML files of all layers say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether judgements bind.
    pub mode: Mode,
    /// The limits.
    pub limits: Limits,
    /// Tools of each host that do nothing outside the host.
    pub harmless_tools: Vec<String>,
    /// How sessions are accompanied.
    pub session: SessionSettings,
    /// How errors that a host reports are classified, first match first.
    pub errors: Vec<ErrorRule>,
    /// How the record is kept.
    pub audit: AuditSettings,
    /// Labels of paths and programs.
    pub containment: Containment,
    /// Patterns over tool arguments.
    pub patterns: Vec<Pattern>,
    /// Whose data agents work with.
    pub entities: Entities,
    /// Who may approve what is asked.
    pub approvers: Approvers,
    /// Which texts are secrets.
    pub redaction: Redaction,
    /// Which policies are left out, where, and until when.
    pub exceptions: Vec<Exception>,
    /// What looks like an injection.
    pub injection: Injection,
    /// What stands behind this program.
    pub upstreams: Upstreams,
    /// Which layer set a key, by its dotted name.
    pub origins: BTreeMap<String, String>,
}

/// The limits of `bridge.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How many agents may stand above one another.
    pub depth: u32,
    /// How many bytes an event may have.
    pub event_bytes: u32,
    /// How many milliseconds a hook may take before it answers deny.
    pub deadline_ms: u32,
    /// How many bytes of a tool's result go to the model, where a policy says `truncate`.
    pub result_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 3,
            event_bytes: 8 << 20,
            deadline_ms: 1000,
            result_bytes: 10_000,
        }
    }
}

/// `[session]` of `bridge.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// A text that goes in front of a session and with each prompt (R-000-50).
    pub project_context: String,
    /// How often a host may retry (R-000-51), at least 1.
    pub max_retries: u32,
    /// How much the operational log says (R-000-47).
    pub log_level: LogLevel,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            project_context: String::new(),
            max_retries: 3,
            log_level: LogLevel::Info,
        }
    }
}

/// How much the operational log says (R-000-47).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    All,
    /// What helps to find a defect.
    Debug,
    /// What happened.
    #[default]
    Info,
    /// What may be wrong.
    Warning,
    /// What is wrong.
    Error,
    /// Nothing.
    None,
}

impl LogLevel {
    /// The names that a person may write.
    pub const NAMES: [&'static str; 6] = ["debug", "info", "warning", "error", "none", "all"];

    /// The level of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "all" => Self::All,
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warning" => Self::Warning,
            "error" => Self::Error,
            "none" => Self::None,
            _ => return None,
        })
    }

    /// The level's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::None => "none",
        }
    }
}

/// One `[[error]]` of `bridge.toml` (R-000-35, R-000-62).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRule {
    /// The class's name, for the record.
    pub class: String,
    /// What the message must match; nothing matches everything.
    pub pattern: Option<Pattern>,
    /// Whether only errors that the host calls recoverable belong to it.
    pub recoverable_only: bool,
    /// What the host is advised to do.
    pub handling: Handling,
    /// At most so many retries; `max_retries` bounds it in any case.
    pub retries: u32,
    /// What the user is told; `{message}` is the error's message. Empty: nothing.
    pub notification: String,
}

/// What a host is advised to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handling {
    /// Try again.
    Retry,
    /// Go on without it.
    Skip,
    /// Stop.
    Abort,
}

impl Handling {
    /// The word that hosts use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::Abort => "abort",
        }
    }
}

/// `[audit]` of `bridge.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSettings {
    /// Whether each append waits for the disk.
    pub durability: Durability,
    /// What happens to a call whose record cannot be written.
    pub on_failure: OnFailure,
    /// A file of the record that has so many MiB is followed by another.
    pub file_mib: u32,
    /// Files that are so many days old are removed; 0 for never.
    pub retention_days: u32,
    /// The logs of older programs that are written besides the record.
    pub mirrors: Vec<Mirror>,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            durability: Durability::Os,
            on_failure: OnFailure::Deny,
            file_mib: 64,
            retention_days: 0,
            mirrors: Vec::new(),
        }
    }
}

/// The log of an older program, written besides the record for those who read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Whose log it is.
    pub shape: MirrorShape,
    /// Its directory, absolute or below `~/`; nothing is the usual one.
    pub dir: Option<String>,
}

/// Whose log a mirror is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MirrorShape {
    /// The first bridge's: `audit-YYYY-MM-DD.jsonl`, with six kinds of hook (R-000-61).
    Seed,
    /// The XPIA hook's: `rust_security_YYYYMMDD.log` (R-004-17, R-004-31).
    Xpia,
}

impl MirrorShape {
    /// The name that a policy file has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Xpia => "xpia",
        }
    }

    /// The usual directory: of the XPIA hook that of its own, so that what reads it finds it.
    #[must_use]
    pub const fn usual_dir(self) -> &'static str {
        match self {
            Self::Seed => "${state}/mirror/seed",
            Self::Xpia => "~/.claude/logs/xpia",
        }
    }
}

/// Whether each append waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The operating system writes it out in its own time.
    Os,
    /// `fdatasync` before the answer leaves.
    Sync,
}

/// What happens to a call whose record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It is denied.
    Deny,
    /// It goes on unrecorded.
    Allow,
}
