//! The program as a person or a host runs it; one file for each room.

mod setup;
