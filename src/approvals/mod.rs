//! Approvals out of band: a call that policies ask about is left as a question in the state
//! directory, and a person answers it there, with a key that the agent cannot use.
//!
//! Whatever stands below the state directory may have been written by the agent. So what a person
//! signs is what the person was shown, bound to the call by a keyed hash, and the gate makes both
//! anew from the call that it is about to let through. `docs/approvals.md` has the reasoning.

pub mod desk;
pub mod question;
pub mod statement;
pub mod weigh;

use std::fmt;

/// Why a question or an answer cannot be kept or read, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeskError(pub String);

impl fmt::Display for DeskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeskError {}
