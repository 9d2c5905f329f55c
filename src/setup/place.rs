//! Where everything is: from flags, and else from the passwd entry.
//!
//! `HOME` and `XDG_*` are never asked, because whoever starts the agent could set them. Only
//! `COPILOT_HOME` counts, since Copilot CLI itself looks for its hooks there.

use std::path::{Path, PathBuf, absolute};

use clap::Args;

use super::hooks::Call;
use super::{Host, Scope, SetupError, files};

/// The flags that say where things are.
#[derive(Debug, Clone, Default, Args)]
pub struct Overrides {
    /// The folder of the policies
    #[arg(long, value_name = "DIR")]
    pub policies: Option<PathBuf>,
    /// The folder of the record, the key and the compiled policies
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Where Copilot CLI keeps its settings, `~/.copilot` by default
    #[arg(long, value_name = "DIR")]
    pub copilot_home: Option<PathBuf>,
    /// Where Claude Code keeps its settings, `~/.claude` by default
    #[arg(long, value_name = "DIR")]
    pub claude_home: Option<PathBuf>,
    /// The program that the hooks call, this one by default
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Instead of the home of the passwd entry
    #[arg(long, value_name = "DIR", hide = true)]
    pub home: Option<PathBuf>,
    /// What stands before `/etc` and `/var`
    #[arg(long, value_name = "DIR", hide = true)]
    pub etc: Option<PathBuf>,
}

/// Where everything is.
///
/// A machine install has policies in `/etc/copilot-bridge/policies`, which root owns, and keeps
/// the compiled policies and its list of files in `/var/lib/copilot-bridge`. Its hooks name no
/// state directory: a hook runs as the agent's user and has to write the record, so each user's
/// record is in that user's own state directory. One directory that all of them may write would
/// let every user change the record of the others.
#[derive(Debug, Clone)]
pub struct Places {
    /// The caller's home.
    pub home: PathBuf,
    /// Where Copilot CLI keeps its settings.
    pub copilot_home: PathBuf,
    /// Whether `COPILOT_HOME` said so.
    pub copilot_home_is_from_variable: bool,
    /// Where Claude Code keeps its settings.
    pub claude_home: PathBuf,
    /// This program.
    pub binary: PathBuf,
    /// The folder that the agent works in.
    pub workspace: PathBuf,
    /// The git repository around the workspace.
    pub repo: Option<PathBuf>,
    root: PathBuf,
    policies: Option<PathBuf>,
    state: Option<PathBuf>,
}

/// A file of a host that setup writes, or writes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A hook file, ours alone.
    HookFile(PathBuf),
    /// Settings that hold hooks, in the form of Claude Code.
    Settings(PathBuf),
    /// Managed settings without hooks in them.
    Managed(PathBuf),
}

impl Target {
    pub(super) fn path(&self) -> &Path {
        let (Self::HookFile(path) | Self::Settings(path) | Self::Managed(path)) = self;
        path
    }

    /// The file to edit. Settings may be a link into somebody's collection, and stay one; a hook
    /// file that is a link is not ours.
    pub(super) fn real(&self) -> PathBuf {
        let path = self.path();
        match self {
            Self::Settings(_) | Self::Managed(_) if files::is_link(path) => {
                path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
            }
            _ => path.to_path_buf(),
        }
    }
}

impl Places {
    /// Finds all that the flags leave open.
    ///
    /// # Errors
    /// If the home, this program or the current folder cannot be told.
    pub fn find(flags: &Overrides) -> Result<Self, SetupError> {
        let home = match &flags.home {
            Some(home) => full(home)?,
            None => home_of_caller()?,
        };
        let variable = std::env::var_os("COPILOT_HOME").filter(|value| !value.is_empty());
        let (copilot_home, from_variable) = match (&flags.copilot_home, variable) {
            (Some(flag), _) => (full(flag)?, false),
            (None, Some(variable)) => (full(Path::new(&variable))?, true),
            (None, None) => (home.join(".copilot"), false),
        };
        let workspace = std::env::current_dir().map_err(|error| {
            SetupError::new(
                format!("the current folder cannot be told: {}", error.kind()),
                "",
            )
        })?;
        Ok(Self {
            claude_home: flags
                .claude_home
                .as_deref()
                .map_or_else(|| Ok(home.join(".claude")), full)?,
            copilot_home,
            copilot_home_is_from_variable: from_variable,
            binary: flags.binary.as_deref().map_or_else(this_program, full)?,
            repo: repo_around(&workspace),
            workspace,
            root: flags.etc.as_deref().map_or_else(|| Ok("/".into()), full)?,
            policies: flags.policies.as_deref().map(full).transpose()?,
            state: flags.state.as_deref().map(full).transpose()?,
            home,
        })
    }

    /// The policies that hooks of this scope are given.
    #[must_use]
    pub fn policies(&self, scope: Scope) -> PathBuf {
        let machine = self.root.join("etc/copilot-bridge/policies");
        self.policies.clone().unwrap_or_else(|| match scope {
            // Below the organisation's, a user's own policies may only forbid: the defaults, which
            // permit, would be refused, and every call with them.
            Scope::User | Scope::Repo if !machine.is_dir() => {
                self.home.join(".config/copilot-bridge/policies")
            }
            _ => machine,
        })
    }

    /// Where the compiled policies and the list of what was written are.
    #[must_use]
    pub fn state(&self, scope: Scope) -> PathBuf {
        self.state.clone().unwrap_or_else(|| match scope {
            Scope::User | Scope::Repo => self.home.join(".local/state/copilot-bridge"),
            Scope::Machine => self.root.join("var/lib/copilot-bridge"),
        })
    }

    /// Whether machine files are looked for below another root, as tests do.
    #[must_use]
    pub fn is_rerooted(&self) -> bool {
        self.root != Path::new("/")
    }

    /// The folder of Copilot CLI's machine-wide files.
    pub(super) fn copilot_etc(&self) -> PathBuf {
        self.root.join("etc/github-copilot")
    }

    /// What hooks of this scope are called with.
    pub(super) fn call<'a>(
        &'a self,
        policies: &'a Path,
        state: &'a Path,
        scope: Scope,
    ) -> Call<'a> {
        let named = scope != Scope::Machine || self.state.is_some();
        Call {
            program: &self.binary,
            policies,
            state: named.then_some(state),
        }
    }

    /// The files of a host in this scope, those that let it run a hook last.
    ///
    /// # Errors
    /// If the scope does not exist here, or not for this host.
    pub(super) fn targets(&self, scope: Scope, host: Host) -> Result<Vec<Target>, SetupError> {
        let repo = || {
            self.repo.as_deref().ok_or_else(|| {
                SetupError::new(
                    format!("`{}` is in no git repository", self.workspace.display()),
                    "go to the repository, or leave out `--repo`",
                )
            })
        };
        Ok(match (scope, host) {
            (Scope::User, Host::Copilot) => vec![hook_file(&self.copilot_home.join("hooks"))],
            (Scope::User, _) => vec![Target::Settings(self.claude_home.join("settings.json"))],
            (Scope::Machine, Host::Copilot) => vec![
                hook_file(&self.copilot_etc().join("policy.d")),
                Target::Managed(self.copilot_etc().join("managed-settings.json")),
            ],
            (Scope::Machine, Host::Claude) => vec![Target::Settings(
                self.root.join("etc/claude-code/managed-settings.json"),
            )],
            (Scope::Machine, Host::Vscode) => {
                return Err(SetupError::new(
                    "VS Code documents no machine-wide hooks",
                    "install for each user, or for the repository with `--repo`",
                ));
            }
            (Scope::Repo, Host::Copilot) => vec![hook_file(&repo()?.join(".github/hooks"))],
            (Scope::Repo, _) => vec![Target::Settings(repo()?.join(".claude/settings.json"))],
        })
    }
}

fn hook_file(folder: &Path) -> Target {
    Target::HookFile(folder.join("copilot-bridge.json"))
}

fn full(path: &Path) -> Result<PathBuf, SetupError> {
    absolute(path).map_err(|error| SetupError::file("find", path, &error))
}

fn this_program() -> Result<PathBuf, SetupError> {
    std::env::current_exe().map_err(|error| {
        SetupError::new(
            format!("the path of this program cannot be told: {}", error.kind()),
            "name it with `--binary`",
        )
    })
}

fn repo_around(workspace: &Path) -> Option<PathBuf> {
    workspace
        .ancestors()
        .find(|folder| folder.join(".git").exists())
        .map(Path::to_path_buf)
}

#[cfg(unix)]
fn home_of_caller() -> Result<PathBuf, SetupError> {
    use nix::unistd::{Uid, User};
    let user = Uid::effective();
    match User::from_uid(user) {
        Ok(Some(entry)) if entry.dir.is_absolute() => Ok(entry.dir),
        _ => Err(SetupError::new(
            format!("user {user} has no home in the passwd database"),
            "name it with `--home`",
        )),
    }
}

// The counterpart of the passwd entry on Windows needs a call that no crate here offers.
#[cfg(not(unix))]
fn home_of_caller() -> Result<PathBuf, SetupError> {
    Err(SetupError::new(
        "the caller's home cannot be told on this system",
        "name it with `--home`",
    ))
}
