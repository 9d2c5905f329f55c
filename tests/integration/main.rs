//! The program as a person or a host runs it; one file for each room.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a broken expectation is what a test reports"
)]

use copilot_bridge as bridge;

#[cfg(unix)]
mod approvals;
mod audit;
mod bundles;
mod ci_pieces;
mod command_lines;
mod completions;
mod defects;
mod exceptions;
mod explain;
mod export;
mod fixtures;
mod hook;
mod identity;
mod injection;
#[path = "../made_record.rs"]
mod made_record;
#[cfg(all(unix, feature = "serve"))]
mod mcp;
#[cfg(all(unix, feature = "serve"))]
mod mcp_memory;
#[cfg(all(unix, feature = "serve"))]
mod mcp_proxy;
mod mirrors;
#[cfg(unix)]
mod openclaw;
mod operational_log;
mod parity;
mod policies;
mod policy_diff;
mod policy_fmt;
#[cfg(unix)]
mod policy_guide;
mod policy_import;
mod policy_lint;
mod policy_new;
mod policy_prove;
mod policy_replay;
mod policy_show;
mod policy_suggest;
mod policy_test;
mod program;
mod record;
mod redact;
mod redaction;
mod report;
mod requirements;
mod samples;
mod sandbox;
mod scrub;
#[cfg(all(unix, feature = "serve"))]
mod serve;
#[cfg(all(unix, feature = "serve"))]
mod services;
mod setup;
#[cfg(all(unix, feature = "serve"))]
mod ship;
mod stress;
mod toml_schemas;
