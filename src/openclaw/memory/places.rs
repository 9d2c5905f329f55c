//! Where an OpenClaw keeps what it remembers.

use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::config::openclaw::{STATE_DIR, WORKSPACE_DIR, folder};

use super::root::{Holds, Root};

/// The preferences' name.
pub(super) const PREFERENCES: &str = "USER.md";

/// The folders that hold one OpenClaw's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The workspace of today's OpenClaw.
    workspace: PathBuf,
    /// OpenClaw's folder, where an older one kept them; not where a workspace was named.
    state: Option<PathBuf>,
    /// How the older preferences are called in a sentence.
    shown: String,
}

impl Places {
    /// That workspace and nothing else.
    #[must_use]
    pub fn only(workspace: PathBuf) -> Self {
        Self {
            shown: workspace.join(PREFERENCES).display().to_string(),
            workspace,
            state: None,
        }
    }

    /// What OpenClaw itself would use: `OPENCLAW_WORKSPACE_DIR`, else `workspace` in
    /// `OPENCLAW_STATE_DIR`, else `~/.openclaw/workspace`; and the older places in the latter two.
    ///
    /// # Errors
    /// If a variable names no absolute path.
    pub fn usual(
        home: &Path,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let own = home.join(".openclaw");
        let state = folder(STATE_DIR, &variable)?.unwrap_or_else(|| own.clone());
        let workspace = folder(WORKSPACE_DIR, &variable)?;
        let shown = if state == own {
            format!("~/.openclaw/{PREFERENCES}")
        } else {
            state.join(PREFERENCES).display().to_string()
        };
        Ok(Self {
            workspace: workspace.unwrap_or_else(|| state.join("workspace")),
            state: Some(state),
            shown,
        })
    }

    /// The workspace.
    pub(super) fn workspace(&self) -> Root {
        Root::new(&self.workspace, Holds::Workspace)
    }

    /// The older folder.
    pub(super) fn older(&self) -> Option<Root> {
        let state = self.state.as_ref()?;
        Some(Root::new(&state.join("memory"), Holds::Memory))
    }

    /// Where memory is, of what is there.
    pub(super) fn memory_that_is_there(&self) -> impl Iterator<Item = Root> {
        let all = [Some(self.workspace()), self.older()];
        all.into_iter().flatten().filter(Root::is_there)
    }

    /// Where memory would be, in a sentence about its absence.
    pub(super) fn named(&self) -> Root {
        self.older().unwrap_or_else(|| self.workspace())
    }

    /// Where preferences are.
    pub(super) fn preferences(&self) -> impl Iterator<Item = Root> {
        let older = self.state.as_ref();
        let older = older.map(|state| Root::new(state, Holds::Preferences));
        [Some(self.workspace()), older].into_iter().flatten()
    }

    pub(super) fn preferences_shown(&self) -> String {
        self.shown.clone()
    }
}
