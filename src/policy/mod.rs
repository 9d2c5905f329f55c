//! The policy administration point: from files to one validated bundle, or to every problem.
//!
//! [`load()`] reads text; [`open`] is the hot path, which reads the compiled form where there is one.

pub mod archive;
pub mod cedar;
pub mod compile;
pub mod diagnostic;
mod disk;
pub mod edit;
pub mod import;
pub mod layer;
mod load;
pub mod published;
pub mod settings;
pub mod source;
#[cfg(test)]
mod testing;

pub use cedar::Written;
pub use compile::{open, open_sources};
pub use diagnostic::{Code, Problem, Severity};
pub use layer::{Base, Layer, Locations};
pub use load::{Checked, Reading, bridge, check, check_sources, load, load_sources, read};
pub use source::{Source, SourceFile, digest};
