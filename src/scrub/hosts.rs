//! Where hosts write down what was said in a session.
//!
//! What is listed was seen with Copilot CLI 1.0.102, or is documented for the other hosts. Settings
//! and sign-ins of the hosts are never among it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;

use super::files::Unread;

/// A program whose agents leave transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// GitHub Copilot CLI.
    Copilot,
    /// Claude Code.
    Claude,
    /// OpenClaw.
    Openclaw,
}

/// What may be done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Secrets are taken out of it.
    Clean,
    /// It is only looked at. Why it stays as it is.
    Look(&'static str),
}

const DATABASE: Treatment = Treatment::Look("it is a database, which only its owner can change");
const BACKUP: Treatment =
    Treatment::Look("it is a copy of a file of yours, which the host may put back");
const ARCHIVE: Treatment = Treatment::Look("it is compressed, and was not looked at");

/// The paths below a host's folder; the first row that fits a file counts.
type Table = &'static [(&'static str, Treatment)];

const COPILOT: Table = &[
    ("session-state/*/{files,rewind-file-snapshots}/**", BACKUP),
    ("session-state/**/*.{db,sqlite}*", DATABASE),
    ("session-state/**", Treatment::Clean),
    ("history-session-state/**", Treatment::Clean),
    ("logs/**", Treatment::Clean),
    ("sidebar-sessions-state/**", Treatment::Clean),
    (
        "{command-history,open-sessions}-state.json",
        Treatment::Clean,
    ),
    ("session-store.db*", DATABASE),
];

const CLAUDE: Table = &[
    ("projects/**/*.{db,sqlite}*", DATABASE),
    ("projects/**", Treatment::Clean),
    ("history.jsonl", Treatment::Clean),
    (
        "{todos,tasks,shell-snapshots,debug,paste-cache,plans}/**",
        Treatment::Clean,
    ),
    ("file-history/**", BACKUP),
];

const OPENCLAW: Table = &[
    ("agents/*/sessions/**/*.{zst,gz}", ARCHIVE),
    ("agents/**/*.{db,sqlite}*", DATABASE),
    ("agents/*/sessions/**", Treatment::Clean),
    ("{logs,cron/runs}/**", Treatment::Clean),
    ("memory/*.sqlite*", DATABASE),
];

/// What counts in a folder that is no host's.
const ANY: Table = &[
    ("**/*.jsonl*", Treatment::Clean),
    ("**/*.log", Treatment::Clean),
];

/// A file that a host wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// Where it is.
    pub path: PathBuf,
    /// What may be done with it.
    pub treatment: Treatment,
}

impl Host {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Copilot, Self::Claude, Self::Openclaw];

    /// Its folders in a home.
    #[must_use]
    pub fn folders(self, home: &Path) -> Vec<PathBuf> {
        let names: &[&str] = match self {
            Self::Copilot => &[".copilot"],
            Self::Claude => &[".claude"],
            Self::Openclaw => &[".openclaw", ".clawdbot"],
        };
        names.iter().map(|name| home.join(name)).collect()
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copilot => "copilot",
            Self::Claude => "claude",
            Self::Openclaw => "openclaw",
        }
    }

    /// The variable by which a user moves that folder.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Copilot => "COPILOT_HOME",
            Self::Claude => "CLAUDE_CONFIG_DIR",
            Self::Openclaw => "OPENCLAW_STATE_DIR",
        }
    }

    const fn table(self) -> Table {
        match self {
            Self::Copilot => COPILOT,
            Self::Claude => CLAUDE,
            Self::Openclaw => OPENCLAW,
        }
    }
}

/// The transcripts in a folder, in the order of their paths: of the hosts whose folder it is, else
/// whatever looks like one. A folder that is not there has none.
///
/// # Errors
/// If a list of paths here is broken.
pub fn transcripts(
    hosts: &[Host],
    folder: &Path,
    unread: &mut Vec<Unread>,
) -> Result<Vec<Transcript>, globset::Error> {
    match std::fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            unread.push(Unread {
                path: folder.to_path_buf(),
                message: "it is a link or no folder, and not followed: name the folder".to_owned(),
            });
            return Ok(Vec::new());
        }
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                unread.push(Unread {
                    path: folder.to_path_buf(),
                    message: format!("it cannot be read: {}", crate::facts::paths::words(&error)),
                });
            }
            return Ok(Vec::new());
        }
    }
    let tables: Vec<Table> = match hosts {
        [] => vec![ANY],
        hosts => hosts.iter().map(|host| host.table()).collect(),
    };
    let rows: Vec<(&str, Treatment)> = tables.into_iter().flatten().copied().collect();
    let globs = globs(&rows)?;
    let mut found = BTreeMap::new();
    let walk = WalkBuilder::new(folder)
        .standard_filters(false)
        .follow_links(false)
        .build();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                unread.push(Unread {
                    path: folder.to_path_buf(),
                    message: format!("not all of it can be read: {error}"),
                });
                continue;
            }
        };
        // Links lead elsewhere; pipes and devices are nobody's transcript.
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.into_path();
        let Ok(inner) = path.strip_prefix(folder) else {
            continue;
        };
        if let Some(row) = globs.matches(inner).into_iter().min()
            && let Some((_, treatment)) = rows.get(row)
        {
            found.insert(path.clone(), *treatment);
        }
    }
    Ok(found
        .into_iter()
        .map(|(path, treatment)| Transcript { path, treatment })
        .collect())
}

fn globs(rows: &[(&str, Treatment)]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for (pattern, _) in rows {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build()?);
    }
    set.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(hosts: &[Host], files: &[&str]) -> Vec<(String, bool)> {
        let folder = tempfile::tempdir().unwrap();
        for name in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let mut unread = Vec::new();
        let found = transcripts(hosts, folder.path(), &mut unread).unwrap();
        assert!(unread.is_empty());
        found
            .into_iter()
            .map(|found| {
                let name = found.path.strip_prefix(folder.path()).unwrap();
                let name = name.to_str().unwrap().to_owned();
                (name, found.treatment == Treatment::Clean)
            })
            .collect()
    }

    #[test]
    fn transcripts_are_known_and_settings_are_not() {
        let clean = |name: &str| (name.to_owned(), true);
        let look = |name: &str| (name.to_owned(), false);
        let files = [
            "config.json",
            "mcp-config.json",
            "settings.json",
            "hooks/copilot-bridge.json",
            "command-history-state.json",
            "session-store.db-wal",
            "logs/process-1.log",
            "session-state/1/events.jsonl",
            "session-state/1/checkpoints/001.md",
            "session-state/1/files/draft.md",
            "session-state/1/rewind-file-snapshots/backups/a",
            "session-state/1/session.db",
        ];
        assert_eq!(
            found(&[Host::Copilot], &files),
            [
                clean("command-history-state.json"),
                clean("logs/process-1.log"),
                clean("session-state/1/checkpoints/001.md"),
                clean("session-state/1/events.jsonl"),
                look("session-state/1/files/draft.md"),
                look("session-state/1/rewind-file-snapshots/backups/a"),
                look("session-state/1/session.db"),
                look("session-store.db-wal"),
            ]
        );
        let files = [
            ".credentials.json",
            "settings.json",
            "history.jsonl",
            "projects/-w/1.jsonl",
            "projects/-w/1/subagents/a.jsonl",
            "shell-snapshots/s.sh",
            "file-history/1/a@v1",
            "plugins/x.json",
        ];
        assert_eq!(
            found(&[Host::Claude], &files),
            [
                look("file-history/1/a@v1"),
                clean("history.jsonl"),
                clean("projects/-w/1/subagents/a.jsonl"),
                clean("projects/-w/1.jsonl"),
                clean("shell-snapshots/s.sh"),
            ]
        );
        let files = [
            "openclaw.json",
            "credentials/x.json",
            "agents/main/sessions/1.jsonl",
            "agents/main/sessions/1.jsonl.reset.2026",
            "agents/main/sessions/1.jsonl.reset.2026.zst",
            "agents/main/agent/auth-profiles.json",
            "agents/main/agent/openclaw-agent.sqlite",
            "workspace/MEMORY.md",
        ];
        assert_eq!(
            found(&[Host::Openclaw], &files),
            [
                look("agents/main/agent/openclaw-agent.sqlite"),
                clean("agents/main/sessions/1.jsonl"),
                clean("agents/main/sessions/1.jsonl.reset.2026"),
                look("agents/main/sessions/1.jsonl.reset.2026.zst"),
            ]
        );
        assert_eq!(
            found(&[], &["a.jsonl", "b/c.log", "b/d.json", ".e/f.jsonl"]),
            [clean(".e/f.jsonl"), clean("a.jsonl"), clean("b/c.log")]
        );
    }
}
