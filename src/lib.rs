//! lib
pub mod engine;
