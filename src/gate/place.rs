//! Where this installation keeps its things.

use std::path::{Path, PathBuf};

use crate::engine::containment::Places;
use crate::facts::paths::Workspace;

/// Where this installation keeps its things. Nothing here comes from an environment variable, but for
/// [`Self::said_home`], which can only make a judgement stricter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// The home of the user, from the passwd entry.
    pub home: Option<PathBuf>,
    /// The home by the environment, if that is another one: some programs mean it by `~`.
    pub said_home: Option<PathBuf>,
    /// The numeric id of the user.
    pub uid: u32,
    /// Every directory that policies are read from, and what says where they come from.
    pub policies: Vec<PathBuf>,
    /// The state directory.
    pub state: PathBuf,
    /// This program's own file.
    pub binary: Option<PathBuf>,
    /// A depth that the caller vouches for; it can only raise what is recorded.
    pub depth: u32,
    /// Whether the agents among the processes above this one count: so for a hook, which the agent
    /// starts, and not for a server, which anybody may have started.
    pub count_ancestors: bool,
    /// The workspace root that the session began with, if its beginning was told.
    pub pinned: Option<PathBuf>,
}

impl Installation {
    /// The workspace of an agent that works in `cwd`.
    ///
    /// # Errors
    /// If the directory cannot be used, in words.
    pub fn workspace(&self, cwd: &str, configured: Option<&str>) -> Result<Workspace, String> {
        let kept_out: Vec<PathBuf> = self.policies.iter().chain([&self.state]).cloned().collect();
        let mut found = Workspace::find(cwd, configured, self.home.as_deref(), &kept_out)?;
        if let (None, Some(pinned)) = (configured, &self.pinned) {
            found.root = Some(pinned.clone());
        }
        Ok(found)
    }

    /// The places that path patterns may name.
    #[must_use]
    pub fn places(&self, workspace: &Workspace) -> Places {
        Places {
            home: self.home.as_deref().map(text),
            workspace: workspace.root.as_deref().map(text),
            policies: self.policies.iter().map(|dir| text(dir)).collect(),
            state: Some(text(&self.state)),
            binary: self.binary.as_deref().map(text),
            temp: vec![format!("/tmp/agent-{}", self.uid)],
        }
    }
}

fn text(path: &Path) -> String {
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    resolved.to_string_lossy().into_owned()
}
