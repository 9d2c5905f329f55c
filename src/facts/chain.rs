//! How many agents stand above the one that calls.
//!
//! The host tells, when it starts a sub-agent, which agent started it. That is kept in the state
//! directory, so that a later call of the child finds its depth.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// No chain is followed further than this; it is far beyond any limit.
const DEPTH_MAX: u32 = 64;

/// The lineage of sub-agents, in `<state>/lineage`.
#[derive(Debug, Clone)]
pub struct Lineage {
    dir: PathBuf,
}

impl Lineage {
    /// The lineage that is kept below that state directory.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self {
            dir: state.join("lineage"),
        }
    }

    /// The depth of an agent: what was recorded when it was started, but at least 1 for one that
    /// has a parent and at least 0 for any other.
    #[must_use]
    pub fn depth(&self, agent: Option<&str>, parent: Option<&str>) -> u32 {
        let recorded = agent.and_then(|agent| self.recorded(agent));
        let by_parent = parent.map(|parent| self.recorded(parent).unwrap_or(0) + 1);
        recorded
            .into_iter()
            .chain(by_parent)
            .max()
            .unwrap_or(0)
            .min(DEPTH_MAX)
    }

    /// Records that `parent` started `agent`.
    ///
    /// # Errors
    /// If the state directory cannot be written.
    pub fn record(&self, agent: &str, parent: Option<&str>) -> io::Result<()> {
        let depth = self.depth(Some(agent), Some(parent.unwrap_or_default()));
        fs::create_dir_all(&self.dir)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        write!(file, "{depth}")?;
        file.persist(self.file(agent))
            .map_err(|error| error.error)?;
        Ok(())
    }

    fn recorded(&self, agent: &str) -> Option<u32> {
        fs::read_to_string(self.file(agent))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Ids are the host's; a digest makes any of them a file name.
    fn file(&self, agent: &str) -> PathBuf {
        let digest = Sha256::digest(agent.as_bytes());
        self.dir.join(HEXLOWER.encode(&digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_grows_along_the_chain_and_never_shrinks() {
        let dir = tempfile::tempdir().unwrap();
        let lineage = Lineage::new(dir.path());
        assert_eq!(lineage.depth(None, None), 0);
        assert_eq!(lineage.depth(Some("child"), Some("main")), 1);
        lineage.record("child", Some("main")).unwrap();
        lineage.record("grandchild", Some("child")).unwrap();
        lineage.record("great", Some("grandchild")).unwrap();
        assert_eq!(lineage.depth(Some("great"), Some("grandchild")), 3);
        assert_eq!(lineage.depth(Some("great"), None), 3);
        lineage.record("great", None).unwrap();
        assert_eq!(lineage.depth(Some("great"), None), 3);
    }
}
