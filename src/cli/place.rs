//! Where this user's installation is: from the command line, else from the passwd entry. Never
//! from an environment variable: the agent may have set it.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::distribution::pin;
use crate::engine::bundle::Bundle;
use crate::facts::paths::Workspace;
use crate::gate::place::Installation;
use crate::policy::archive;
use crate::policy::compile::Compiled;
use crate::policy::layer::{ORGANISATION_DIR, USER_DIR, WORKSPACE_DIR};
use crate::policy::{self, Base, Locations, Problem};

/// Where policies and state are, unless the default places are meant.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Place {
    /// The directory that policies are read from
    #[arg(long, value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// The directory that record, key and compiled policies are kept in
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// The folder that a verb was called in, and what is in force there.
#[derive(Debug)]
pub(crate) struct Here {
    /// As the system names it.
    pub(crate) cwd: String,
    /// The policies.
    pub(crate) bundle: Bundle,
    /// Where the installation is.
    pub(crate) installation: Installation,
    /// The workspace.
    pub(crate) workspace: Workspace,
}

/// The compiled default policies.
const BUILT_IN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/default.bundle"));

/// The redaction rules of those, by themselves.
const SHIPPED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/default.redaction"));

/// Where a machine install keeps its compiled policies.
pub(crate) const MACHINE_STATE: &str = "/var/lib/copilot-bridge";

impl Place {
    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.state.as_deref().map(absolute).unwrap_or_else(|| {
            home()
                .unwrap_or_else(|| PathBuf::from("/"))
                .join(".local/state/copilot-bridge")
        })
    }

    /// Where this installation keeps its things.
    pub(crate) fn installation(&self) -> Installation {
        let home = home();
        let user = home.as_ref().map(|home| home.join(USER_DIR));
        let mut policies: Vec<PathBuf> = self.policies.iter().map(|dir| absolute(dir)).collect();
        // Who could write that file could say where policies come from.
        let pins: Vec<PathBuf> = policies.iter().map(|dir| pin::path(dir)).collect();
        policies.extend(pins);
        policies.push(PathBuf::from(ORGANISATION_DIR));
        policies.extend(user);
        let said = std::env::var_os("HOME").map(PathBuf::from);
        Installation {
            said_home: said.filter(|said| said.is_absolute() && Some(said) != home.as_ref()),
            policies,
            state: self.state(),
            binary: std::env::current_exe().ok(),
            uid: uid(),
            depth: 0,
            count_ancestors: false,
            pinned: None,
            home,
        }
    }

    /// The policies that are in force for an agent that works in `cwd`.
    pub(crate) fn policies(&self, cwd: Option<&Path>) -> Result<Bundle, Vec<Problem>> {
        self.open(cwd, None)
    }

    /// The same, and they are kept for auditors: the record is going to name them.
    pub(crate) fn judging_policies(&self, cwd: Option<&Path>) -> Result<Bundle, Vec<Problem>> {
        self.open(cwd, Some(&self.state().join("audit").join(archive::DIR)))
    }

    fn open(&self, cwd: Option<&Path>, archive: Option<&Path>) -> Result<Bundle, Vec<Problem>> {
        let compiled = Compiled {
            states: &[&self.state(), Path::new(MACHINE_STATE)],
            built_in: BUILT_IN,
            shipped: SHIPPED,
            archive,
        };
        policy::open(&self.locations(cwd), compiled)
    }

    /// What is in force in the folder at hand, or what is wrong with the policies.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub(crate) fn here(&self) -> Result<Result<Here, Vec<Problem>>, Box<dyn Error>> {
        let cwd = std::env::current_dir()?;
        let bundle = match self.policies(Some(&cwd)) {
            Ok(bundle) => bundle,
            Err(problems) => return Ok(Err(problems)),
        };
        let installation = self.installation();
        let cwd = cwd.to_str().ok_or("the working directory is no UTF-8")?;
        let root = bundle.settings.containment.workspace_root.as_deref();
        let workspace = installation.workspace(cwd, root)?;
        Ok(Ok(Here {
            cwd: cwd.to_owned(),
            bundle,
            installation,
            workspace,
        }))
    }

    /// Where the layers of policies are, for an agent that works in `cwd`.
    pub(crate) fn locations(&self, cwd: Option<&Path>) -> Locations {
        let organisation = Path::new(ORGANISATION_DIR);
        Locations {
            organisation: Some(organisation.to_path_buf()),
            base: match self.policies.as_deref().map(absolute) {
                // The hooks of a machine install name the organisation's: they are that layer, and
                // no layer below it besides; but they have to be there.
                Some(dir) if dir == organisation && dir.is_dir() => Base::Default(None),
                Some(dir) => Base::Configured(dir),
                None => Base::Default(home().map(|home| home.join(USER_DIR))),
            },
            workspace: cwd.and_then(workspace_layer),
        }
    }
}

/// The policies that a workspace brings along: the nearest at or above the working directory, but
/// not above the git root. What stands further up belongs to nobody in particular.
fn workspace_layer(cwd: &Path) -> Option<PathBuf> {
    let root = cwd
        .ancestors()
        .find(|dir| dir.join(".git").symlink_metadata().is_ok())
        .unwrap_or(cwd);
    cwd.ancestors()
        .take_while(|dir| dir.starts_with(root))
        .map(|dir| dir.join(WORKSPACE_DIR))
        .find(|dir| dir.symlink_metadata().is_ok())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(unix)]
pub(crate) fn home() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::geteuid())
        .ok()
        .flatten()
        .map(|user| user.dir)
}

#[cfg(not(unix))]
pub(crate) fn home() -> Option<PathBuf> {
    std::env::home_dir()
}

#[cfg(unix)]
fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(not(unix))]
const fn uid() -> u32 {
    0
}
