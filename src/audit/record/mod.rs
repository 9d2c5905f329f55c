//! The form of a line, by version.

mod asked;
pub mod fields;
pub mod schema;
pub mod v1;
