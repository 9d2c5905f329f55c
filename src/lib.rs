//! lib
pub mod engine;
pub mod facts;
