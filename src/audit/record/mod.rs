//! The form of a line, by version.

pub mod v1;
