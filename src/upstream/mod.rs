//! Calls the HTTP services behind this program (R-003-09…14): what a route takes is checked before
//! anything is sent, and what comes back is bounded in bytes and in time.

mod arguments;
mod client;
mod place;

pub use client::{Answer, Client, Fault, Route};
