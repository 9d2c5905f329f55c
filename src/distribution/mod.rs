//! Policies for many machines: one signed file with all of them, and the way from where it lies to
//! where hooks read.
//!
//! A bundle counts by who signed it, never by where it came from. What it takes to be put in force
//! stands in [`pin`]; what is in force goes on being so until all of it holds for another.

pub mod address;
pub mod bundle;
pub mod fetch;
mod memory;
pub mod pin;
#[cfg(feature = "serve")]
mod remote;
pub mod sealed;
pub mod status;

use std::fmt;

use crate::audit::AuditError;
use crate::policy::Problem;

/// Why a bundle is not made, not signed, not believed or not put in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence; a line that begins with `help: ` may follow.
    pub message: String,
    /// What is wrong in which file, where that is why.
    pub problems: Vec<Problem>,
}

impl Refusal {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            problems: Vec::new(),
        }
    }

    fn of(message: impl Into<String>, problems: Vec<Problem>) -> Self {
        Self {
            message: message.into(),
            problems,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl From<AuditError> for Refusal {
    fn from(error: AuditError) -> Self {
        Self::new(error.0)
    }
}

/// Text of others in a sentence of ours: nothing that a terminal would obey, and not too much of it.
fn printable(text: &str) -> String {
    const MOST: usize = 300;
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(MOST).map(plain).collect()
}
