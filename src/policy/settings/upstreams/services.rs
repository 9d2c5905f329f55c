//! `[[service]]`: HTTP services whose routes are tools (R-003-09…14).

use crate::engine::upstream::Upstreams;
use crate::policy::settings::table::{Reader, Table};

/// Adds the file's services.
pub(super) fn apply(_: &mut Upstreams, _: &Table<'_>, _: &mut Reader<'_>) {}
