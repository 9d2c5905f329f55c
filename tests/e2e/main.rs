//! End to end: the real Copilot CLI, offline, in front of a scripted model, with
//! `copilot-bridge` as its hook.
//!
//! A case sets a [`stage`] (a workspace, the host's home, policies and state), lets a
//! [`mock_model`] ask for tool calls, drives the client ([`copilot`] for `-p`, [`acp`] for an
//! editor, [`terminal`] for a person) and then asserts three things: what the model was told,
//! what ran, and what the record says.
//!
//! The client is looked up in `COPILOT_BRIDGE_E2E_COPILOT`. Without it each case prints that it
//! was skipped and passes, unless `COPILOT_BRIDGE_E2E_REQUIRED=1`. Some cases need more, and say
//! so in the same way: root (a file system of their own, the machine's installation), or `script`
//! of util-linux (a terminal), or Chromium ([`report`]). What the host does by itself was measured with version 1.0.102.
#![cfg(unix)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a broken expectation is what a test reports"
)]

use copilot_bridge as bridge;

mod acp;
mod client;
mod copilot;
#[expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a record that cannot be made up is a broken test"
)]
#[path = "../made_record.rs"]
mod made_record;
mod mcp_server;
mod mock_model;
mod stage;
mod terminal;
mod wire;

mod acp_sessions;
mod commands;
mod faults;
mod files;
mod installs;
mod machine_install;
mod mcp_tools;
mod openclaw;
mod redaction;
mod report;
mod scrub;
mod served;
mod served_tools;
mod sessions;
mod sub_agents;
mod terminal_sessions;
