//! Setup: what `init` writes for a host, what `uninstall` takes back, what `doctor` looks for.
//!
//! Three scopes, and only one of them enforces:
//!
//! * [`Scope::User`] writes below the caller's home. A workspace's `disableAllHooks` switches it
//!   off, and a later workspace hook may answer `allow` with other arguments.
//! * [`Scope::Machine`] writes below `/etc`, beside managed settings that shut out every hook but
//!   the managed ones.
//! * [`Scope::Repo`] writes into a repository, which a checkout can take away again.
//!
//! What was written stands in a manifest in the state directory; nothing else is ever overwritten
//! or removed.
//!
//! The other rooms come in through [`Rooms`], so that setup can be tested without them.

pub mod doctor;
pub mod install;
pub mod openclaw;
pub mod place;
pub mod uninstall;

mod files;
mod hooks;
mod json;
mod json5;
mod manifest;
mod plan;
mod remarks;
mod settings;

use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What setup needs of the rooms below it.
pub trait Rooms {
    /// The default policy files: a relative name with `/` between folders, and the text.
    fn defaults(&self) -> &[(&str, &str)];

    /// Makes the key that values in the record are hashed with, and the one that checkpoints are signed
    /// with; existing ones stay.
    ///
    /// # Errors
    /// In one sentence, if there is no key afterwards.
    fn create_key(&self, state: &Path) -> Result<KeyState, String>;

    /// Compiles the policies into the state directory, and returns the digest of the bundle.
    ///
    /// # Errors
    /// A sentence with file and line for each problem, if the policies cannot be used.
    fn compile(&self, policies: &Path, state: &Path) -> Result<String, Vec<String>>;

    /// What the policies say that setup wants to know.
    fn inspect(&self, policies: &Path) -> Inspection;

    /// Whether the record would be written to `dir` because a variable says so.
    ///
    /// # Errors
    /// The reason in a few words, if the variable is ignored.
    fn honours_audit_dir(&self, dir: &Path) -> Result<(), String>;

    /// What a host of this dialect would send before its agent reads `target` from `workspace`.
    fn probe(&self, dialect: &str, target: &Path, workspace: &Path) -> String;

    /// Whether a host of this dialect would block the call, given this exit code and output.
    fn is_denial(&self, dialect: &str, exit: Option<i32>, stdout: &[u8]) -> bool;
}

/// Whether the key was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It was made now.
    Created,
    /// It was there.
    Kept,
}

/// What the policies say that setup wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// A sentence with file and line for each problem.
    pub problems: Vec<String>,
    /// After so many milliseconds the hook answers by itself.
    pub deadline_ms: u64,
    /// `on_failure = "allow"`: a call passes although it could not be recorded.
    pub passes_unrecorded: bool,
    /// `unverified = "accept"`: an approval counts that no key signed.
    pub approves_unverified: bool,
    /// What is taken out of texts.
    pub coverage: Coverage,
}

/// What the redaction rules look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// How many rules look for secrets.
    pub secret_rules: usize,
    /// Of how many kinds these are.
    pub secret_kinds: usize,
    /// Whether an entity is named, so that health information is looked for.
    pub entities: bool,
    /// For each field of health information, how many rules look for it.
    pub fields: Vec<(String, usize)>,
    /// Whether rosters say whose names are looked for.
    pub rosters: bool,
}

/// Whose hooks are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The caller's own.
    User,
    /// Those of everybody on this machine.
    Machine,
    /// Those of everybody who works in this repository.
    Repo,
}

/// A program that runs agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host {
    /// GitHub Copilot CLI.
    Copilot,
    /// Claude Code.
    Claude,
    /// Visual Studio Code.
    Vscode,
}

impl Host {
    /// Its name in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copilot => "Copilot CLI",
            Self::Claude => "Claude Code",
            Self::Vscode => "VS Code",
        }
    }
}

/// How a verb of setup ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All is as it was asked for.
    Done,
    /// It ran to its end, and a person has to look at what it said.
    Trouble,
}

/// Why setup did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupError {
    /// One sentence.
    pub message: String,
    /// What a person can do about it, or empty.
    pub help: String,
}

impl SetupError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
        }
    }

    fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(
            format!("cannot {what} `{}`: {}", path.display(), error.kind()),
            "",
        )
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for SetupError {}

impl From<io::Error> for SetupError {
    fn from(error: io::Error) -> Self {
        Self::new(format!("cannot print: {}", error.kind()), "")
    }
}

#[cfg(test)]
mod testing;
