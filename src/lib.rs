//! A fail-closed policy gate for coding agents.
//!
//! Whatever an agent wants to do passes one gate ([`gate::Gate`]); the gate asks one engine
//! ([`engine::Engine::decide`]); the engine judges by policy files; the record is on disk before the answer
//! leaves. Rust computes facts, policy files hold the judgement.
//!
//! The rooms, from the ground up. A room imports only from floors below it
//! (`tests/architecture.rs`).
//!
//! | floor | rooms | what they are |
//! |---|---|---|
//! | 0 law | [`engine`] [`wire`] | requests and a bundle in, a decision out; pure. What an address and a schema are |
//! | 1 books | [`facts`] [`audit`] [`log`] [`config`] [`keys`] [`approvals`] [`policy`] | what is true, what happened, what goes on, what is set, who signs, who approved, what is ruled |
//! | 2 gate | [`gate`] | event in, outcome out: the road that every door shares |
//! | 3 hands | [`distribution`] `http` [`openclaw`] [`sandbox`] [`scrub`] `ship` `upstream` [`workbench`] | brings policies to many machines, listens on this one, reads what OpenClaw remembers, what holds a program that runs, takes secrets out of files, sends the record on, asks servers on callers' behalf, tells what policies do |
//! | 4 doors | [`hook`] `mcp` | what calls us |
//! | 5 threshold | [`setup`] [`cli`] [`exit`] | how we are installed and used |

pub mod approvals;
pub mod audit;
pub mod cli;
pub mod config;
pub mod distribution;
pub mod engine;
pub mod exit;
pub mod facts;
pub mod gate;
pub mod hook;
#[cfg(feature = "serve")]
pub mod http;
pub mod keys;
pub mod log;
#[cfg(feature = "serve")]
pub mod mcp;
pub mod openclaw;
pub mod policy;
pub mod sandbox;
pub mod scrub;
pub mod setup;
#[cfg(feature = "serve")]
pub mod ship;
#[cfg(feature = "serve")]
pub mod upstream;
pub mod wire;
pub mod workbench;
