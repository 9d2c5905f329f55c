//! Texts in files and pipes, without their secrets: what `redact` and `scrub` do.
//!
//! A text is bytes here: what is no UTF-8 stays as it is, and the text around it is looked at. A
//! file is read whole and looked at whole, or named as one that was not; it is replaced in one
//! step, and only if nobody else changed it. What a pipe brings goes on as soon as it surely holds
//! no secret, but a JSON document goes on as one.

pub mod file;
pub mod files;
pub mod hosts;
pub mod live;
pub mod pipe;
pub mod place;
pub mod report;
pub mod sarif;
mod source;
#[cfg(test)]
mod testing;
pub mod text;
pub mod transcript;

use std::fmt;
use std::path::Path;

use crate::audit::{AuditError, key};
use crate::engine::redaction::{Fault, Redaction, Ruleset};

/// What is larger is not looked at as a whole.
pub const LARGEST: usize = 64 << 20;

/// The rules to look for, and the key that placeholders depend on.
pub struct Rules {
    secrets: Ruleset,
    phi: Option<Ruleset>,
    /// The key for placeholders.
    pub key: [u8; 32],
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of every log.
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}

impl Rules {
    /// Opens the rules of a bundle, those for health information only where they are wanted.
    ///
    /// # Errors
    /// If the compiled rules cannot be read.
    pub fn open(rules: &Redaction, phi: bool, key: [u8; 32]) -> Result<Self, Fault> {
        Ok(Self {
            secrets: rules.secrets.open()?,
            phi: phi.then(|| rules.phi.open()).transpose()?,
            key,
        })
    }

    /// The rules that are looked for together.
    #[must_use]
    pub fn sets(&self) -> Vec<&Ruleset> {
        std::iter::once(&self.secrets).chain(&self.phi).collect()
    }

    /// Whether there is no rule at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets().iter().all(|set| set.is_empty())
    }
}

/// The key of an installation for placeholders. Where there is none, one that is forgotten: who
/// only looks at a text shall not find a state directory afterwards.
///
/// # Errors
/// If there is a key and it cannot be used, or no random bytes.
pub fn key(state: &Path) -> Result<[u8; 32], AuditError> {
    if key::path(state).symlink_metadata().is_ok() {
        return key::Key::of(state).map(|key| key.for_placeholders());
    }
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| AuditError(format!("no random bytes for a key: {error}")))?;
    Ok(bytes)
}
