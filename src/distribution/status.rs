//! Which bundle is in force, and whether it still is what it was.

use std::path::Path;

use super::fetch::is_untouched;
use super::memory::Folder;
use crate::policy::compile::Readers;
use crate::policy::published::{self, Published, Validity};
use crate::policy::{Layer, Problem};

/// A bundle that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What its directory says.
    pub published: Published,
    /// Whether its time is over.
    pub validity: Validity,
    /// Whether the files are those that it came with.
    pub untouched: bool,
    /// When somebody last looked whether there is another, and all was well: seconds since 1970.
    pub checked: Option<i64>,
    /// When that failed since, and why.
    pub failed: Option<(i64, String)>,
}

impl Status {
    /// Whether nothing has to be looked at.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.validity == Validity::Valid && self.untouched && self.failed.is_none()
    }
}

/// The bundle in a directory of policies; nothing if none was published there.
///
/// # Errors
/// If what the directory says cannot be read.
pub fn status(layer: Layer, policies: &Path, state: &Path) -> Result<Option<Status>, Problem> {
    let Some(published) = published::read(layer, policies)? else {
        return Ok(None);
    };
    let there = published::content(layer, policies);
    let name = published.name.parse().ok();
    let memory = name.and_then(|name| Folder::of(state, Readers::Owner).read(&name).ok());
    let memory = memory.unwrap_or_default();
    Ok(Some(Status {
        validity: published.validity(published::now()),
        untouched: there.is_ok_and(|there| is_untouched(&published, &there)),
        checked: memory.checked,
        failed: memory.failed.map(|failure| (failure.at, failure.why)),
        published,
    }))
}
