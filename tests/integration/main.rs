//! The program as a person or a host runs it; one file for each room.

mod explain;
mod fixtures;
mod hook;
mod policies;
mod policy_import;
mod program;
mod record;
mod requirements;
mod setup;
mod stress;
