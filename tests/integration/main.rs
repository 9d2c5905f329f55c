//! The program as a person or a host runs it; one file for each room.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a broken expectation is what a test reports"
)]

mod audit;
mod command_lines;
mod explain;
mod export;
mod fixtures;
mod hook;
mod identity;
mod mirrors;
mod operational_log;
mod parity;
mod policies;
mod policy_import;
mod program;
mod record;
mod redact;
mod redaction;
mod requirements;
mod samples;
mod sandbox;
mod scrub;
mod setup;
#[cfg(all(unix, feature = "serve"))]
mod ship;
mod stress;
