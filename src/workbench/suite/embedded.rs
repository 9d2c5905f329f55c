//! The tests of the policies that this program carries.

use std::sync::Arc;

use crate::policy::layer::Layer;
use crate::policy::{Source, SourceFile};

/// Their names beside the policies, and their texts.
pub const EMBEDDED: &[(&str, &str)] = &[
    (
        "tests/commands.toml",
        include_str!("../../../policies/tests/commands.toml"),
    ),
    (
        "tests/injection.toml",
        include_str!("../../../policies/tests/injection.toml"),
    ),
    (
        "tests/paths.toml",
        include_str!("../../../policies/tests/paths.toml"),
    ),
    (
        "tests/redaction.toml",
        include_str!("../../../policies/tests/redaction.toml"),
    ),
    (
        "tests/tools.toml",
        include_str!("../../../policies/tests/tools.toml"),
    ),
    (
        "tests/upstreams.toml",
        include_str!("../../../policies/tests/upstreams.toml"),
    ),
];

/// The same, as files of the embedded layer.
#[must_use]
pub fn files() -> Vec<Arc<SourceFile>> {
    let files = EMBEDDED.iter();
    let files = files.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Source::new(Layer::Embedded, "<embedded>", files).files
}
