//! What is true about a call: where its paths lead, what its command line runs, who makes it.
//!
//! Facts hold no judgement. What they are good for is for the policy files to say.

pub mod arguments;
pub mod beneath;
pub mod chain;
pub mod globs;
pub mod names;
pub mod patch;
pub mod paths;
pub mod pins;
pub mod readings;
pub mod scripts;
pub mod shell;
pub mod tools;
pub mod url;
