//! `upstreams.toml`: what stands behind this program.

pub mod servers;
pub mod services;

use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::bundle::Settings;

/// The keys of the file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("service", Merge::BaseOnly),
    key("server", Merge::BaseOnly),
];

/// Adds the file's upstreams.
pub(super) fn apply(settings: &mut Settings, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    services::apply(&mut settings.upstreams, &root, reader);
    servers::apply(&mut settings.upstreams, &root, reader);
}
