//! The workbench of those who write policies: what policies do is known before they bite.
//!
//! Nothing here decides anything that happens: events and recorded requests are judged through the
//! same gate and engine as in a hook, and nothing is recorded.

pub mod diff;
pub mod format;
pub mod lint;
pub mod props;
pub mod prove;
pub mod replay;
pub mod scene;
pub mod schema;
pub mod show;
pub mod suggest;
pub mod suite;
pub mod templates;
