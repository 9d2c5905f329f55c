//! The form of a line, by version.

pub mod fields;
pub mod schema;
pub mod v1;
