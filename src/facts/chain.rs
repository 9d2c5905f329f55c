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

/// How many agents stand above the one whose hook this is, as the system's own list of processes
/// has it: no variable that a command unsets or sets changes it. Linux only; elsewhere 0.
///
/// `names` are the programs that are agents. Processes of one program in a row are one agent: some
/// hosts start themselves once more.
#[must_use]
pub fn agents_above(names: &[String]) -> u32 {
    let mut agents: Vec<String> = Vec::new();
    let mut last = None;
    for program in ancestors() {
        let agent = names.contains(&program).then_some(program);
        if agent != last {
            agents.extend(agent.clone());
        }
        last = agent;
    }
    // The nearest is the one that calls.
    u32::try_from(agents.len())
        .unwrap_or(u32::MAX)
        .saturating_sub(1)
}

/// The nearest agent above this process, as far as the system's own list of processes shows. Linux
/// only; elsewhere none.
#[must_use]
pub fn agent_above(names: &[String]) -> Option<String> {
    ancestors().find(|program| names.contains(program))
}

/// The programs of the processes above this one, the nearest first.
#[cfg(target_os = "linux")]
fn ancestors() -> impl Iterator<Item = String> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything.
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse().ok().filter(|pid| *pid > 1)
    };
    let first = Some(std::os::unix::process::parent_id()).filter(|pid| *pid > 1);
    std::iter::successors(first, move |pid| parent(*pid))
        .take(DEPTH_MAX as usize)
        .filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some(program(&line))
        })
}

#[cfg(not(target_os = "linux"))]
fn ancestors() -> impl Iterator<Item = String> {
    std::iter::empty()
}

/// The program of a command line whose words end with NUL: its name, or that of the script that a
/// runtime was given.
#[cfg(target_os = "linux")]
fn program(line: &[u8]) -> String {
    let mut names = line.split(|byte| *byte == 0).map(|word| {
        let word = String::from_utf8_lossy(word);
        word.rsplit('/').next().unwrap_or_default().to_owned()
    });
    let first = names.next().unwrap_or_default();
    if matches!(
        first.as_str(),
        "node" | "bun" | "deno" | "python3" | "python"
    ) {
        names.find(|name| !name.starts_with('-')).unwrap_or(first)
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_runtime_is_called_by_its_script() {
        assert_eq!(program(b"/usr/bin/copilot\0-p\0x\0"), "copilot");
        assert_eq!(program(b"node\0--flag\0/opt/x/bin/claude\0"), "claude");
        assert_eq!(program(b""), "");
        assert_eq!(agents_above(&["no such agent".to_owned()]), 0);
    }

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
