//! The record: what was judged, written before the answer leaves.
//!
//! `<state>/audit/audit-YYYY-MM-DD.jsonl`, one line an event, chained over lines, processes and
//! days by SHA-256. `audit/README.md` explains every field.

pub mod asked;
pub mod checkpoint;
pub mod export;
pub mod key;
pub mod line;
pub mod lines;
pub mod mirror;
mod origin;
pub(crate) mod private;
pub mod prove;
pub mod query;
pub mod read;
pub mod record;
pub mod report;
pub mod tree;
pub mod verify;
pub mod writer;

use std::fmt;

/// Why the record cannot be written or read, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditError(pub String);

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AuditError {}

impl AuditError {
    /// What failed, on which file, and the system's word for it.
    pub(crate) fn io(what: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        // Without the system's number, and what a library adds behind it.
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or(&text);
        Self(format!("cannot {what} `{}`: {text}", path.display()))
    }
}
