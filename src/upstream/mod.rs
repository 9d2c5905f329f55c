//! What stands behind this program, from our side: HTTP services whose routes are tools, and other MCP
//! servers (R-003-09…14, R-003-65). What is sent is checked before, and what comes back is bounded in
//! bytes and in time. Whoever calls has asked the gate before.

mod arguments;
mod client;
mod place;
#[cfg(unix)]
pub mod server;

pub use client::{Answer, Client, Fault, Route};
