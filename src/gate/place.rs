//! Where this installation keeps its things.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::audit::AuditError;
use crate::audit::key::Key;
use crate::engine::containment::Places;
use crate::facts::names::Names;
use crate::facts::paths::Workspace;

/// What a program that stays has seen of its surroundings counts for so long.
const PAUSE: Duration = Duration::from_secs(1);

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

/// What stands around a workspace at the moment.
#[derive(Debug)]
pub(super) struct Surroundings {
    root: Option<PathBuf>,
    seen: Instant,
    /// The places that path patterns may name.
    pub(super) places: Places,
    /// What policies name and what it is; looked up with the first path.
    pub(super) names: OnceLock<Names>,
}

/// Who looks at the surroundings: for each event, or once in a while.
#[derive(Debug)]
pub(super) enum Lookout {
    /// For each event, as a hook does.
    Always,
    /// Once in a while, as a program that stays does; with what was seen last.
    Sometimes(Mutex<Seen>),
}

/// What a program that stays has seen last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    around: Option<Arc<Surroundings>>,
    key: Option<(Instant, Key)>,
}

impl Lookout {
    /// That of a program that stays.
    pub(super) fn sometimes() -> Self {
        Self::Sometimes(Mutex::default())
    }

    /// Whether the program stays.
    pub(super) const fn stays(&self) -> bool {
        matches!(self, Self::Sometimes(..))
    }

    /// What stands around that workspace.
    pub(super) fn around(&self, here: &Installation, workspace: &Workspace) -> Arc<Surroundings> {
        let look = || {
            Arc::new(Surroundings {
                root: workspace.root.clone(),
                seen: Instant::now(),
                places: here.places(workspace),
                names: OnceLock::new(),
            })
        };
        let Self::Sometimes(seen) = self else {
            return look();
        };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &seen.around {
            Some(known) if known.root == workspace.root && known.seen.elapsed() < PAUSE => {
                Arc::clone(known)
            }
            _ => Arc::clone(seen.around.insert(look())),
        }
    }

    /// The installation's key.
    ///
    /// # Errors
    /// If it cannot be read or made.
    pub(super) fn key(&self, here: &Installation) -> Result<Key, AuditError> {
        let Self::Sometimes(seen) = self else {
            return Key::of(&here.state);
        };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &seen.key {
            Some((since, key)) if since.elapsed() < PAUSE => Ok(key.clone()),
            _ => {
                let key = Key::of(&here.state)?;
                seen.key = Some((Instant::now(), key.clone()));
                Ok(key)
            }
        }
    }
}

fn text(path: &Path) -> String {
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    resolved.to_string_lossy().into_owned()
}
