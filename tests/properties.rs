//! What holds for every input, looked for with random ones.
//!
//! The models in here are written from the design, not from the code: where the two disagree, one
//! of them has a defect.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

#[path = "properties/bundles.rs"]
mod bundles;
#[cfg(unix)]
#[path = "properties/checkpoints.rs"]
mod checkpoints;
#[path = "properties/codec.rs"]
mod codec;
#[cfg(target_os = "linux")]
#[path = "properties/containment.rs"]
mod containment;
#[path = "properties/events.rs"]
mod events;
#[path = "properties/exceptions.rs"]
mod exceptions;
#[path = "properties/gate.rs"]
mod gate;
#[path = "properties/judgement.rs"]
mod judgement;
#[path = "properties/labels.rs"]
mod labels;
#[path = "properties/model.rs"]
mod model;
#[path = "properties/paths.rs"]
mod paths;
#[path = "properties/patterns.rs"]
mod patterns;
#[path = "properties/redaction.rs"]
mod redaction;
#[path = "properties/shell.rs"]
mod shell;
#[path = "properties/world.rs"]
mod world;

/// So many random inputs. Failures are printed whole, so that no file has to keep them.
fn cases(count: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: count,
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}
