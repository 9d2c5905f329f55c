//! Which layers of policies there are, and which of them count.
//!
//! The highest layer that is present is the base. The layers below it may only tighten.

use std::fmt;
use std::path::{Path, PathBuf};

use super::diagnostic::{Code, Problem};
use super::source::{self, EMBEDDED, Source, SourceFile};

/// Who wrote the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The organisation: a directory that the machine's administrator owns.
    Organisation,
    /// The user: what `init` writes.
    User,
    /// The workspace: text that nobody vouches for.
    Workspace,
    /// This program: what it judges by where nothing was ever configured.
    Embedded,
}

impl Layer {
    /// What the ids of its policies start with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Organisation => "org",
            Self::User => "user",
            Self::Workspace => "workspace",
            Self::Embedded => "default",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix())
    }
}

/// Where the organisation's policies are on this platform.
pub const ORGANISATION_DIR: &str = "/etc/copilot-bridge/policies";

/// Where a user's policies are, below the home directory of the passwd entry.
pub const USER_DIR: &str = ".config/copilot-bridge/policies";

/// Where a workspace's policies are, below its root.
pub const WORKSPACE_DIR: &str = ".copilot-bridge/policies";

/// Where to look for policies. Nothing here comes from an environment variable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locations {
    /// The organisation's directory; it counts where it exists.
    pub organisation: Option<PathBuf>,
    /// The user's directory.
    pub base: Base,
    /// The workspace's directory; it counts where it exists.
    pub workspace: Option<PathBuf>,
}

/// Where the user's policies are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// Somebody named this directory (`--policies`): it has to be there.
    Configured(PathBuf),
    /// The directory that `init` would write; where it was never made, the embedded policies serve.
    Default(Option<PathBuf>),
}

impl Default for Base {
    fn default() -> Self {
        Self::Default(None)
    }
}

/// The layers that count, the base first.
///
/// # Errors
/// Every problem of every directory. A directory that somebody configured and that is gone is one.
pub fn read(locations: &Locations) -> Result<Vec<Source>, Vec<Problem>> {
    let (sources, problems) = read_with_warnings(locations);
    if problems.iter().any(Problem::is_error) {
        return Err(problems);
    }
    Ok(sources)
}

/// The layers that could be read, and every problem, also those that refuse nothing.
pub(super) fn read_with_warnings(locations: &Locations) -> (Vec<Source>, Vec<Problem>) {
    let mut sources = Vec::new();
    let mut problems = Vec::new();
    if let Some(path) = &locations.organisation {
        sources.extend(source::read_directory(
            Layer::Organisation,
            path,
            &mut problems,
        ));
    }
    match &locations.base {
        Base::Configured(path) => {
            let found = source::read_directory(Layer::User, path, &mut problems);
            if found.is_none() {
                problems.push(gone(path));
            }
            sources.extend(found);
        }
        Base::Default(Some(path)) => {
            sources.extend(source::read_directory(Layer::User, path, &mut problems));
        }
        Base::Default(None) => {}
    }
    // A directory that is there but broken is in `problems`: the embedded policies do not replace it.
    if sources.is_empty() && problems.is_empty() {
        sources.push(embedded());
    }
    if let Some(path) = &locations.workspace {
        sources.extend(source::read_directory(
            Layer::Workspace,
            path,
            &mut problems,
        ));
    }
    (sources, problems)
}

/// The directory of a layer, if it has one.
#[must_use]
pub fn dir(locations: &Locations, layer: Layer) -> Option<&Path> {
    match layer {
        Layer::Organisation => locations.organisation.as_deref(),
        Layer::User => match &locations.base {
            Base::Configured(path) => Some(path),
            Base::Default(path) => path.as_deref(),
        },
        Layer::Workspace => locations.workspace.as_deref(),
        Layer::Embedded => None,
    }
}

/// The policies that this program carries.
#[must_use]
pub fn embedded() -> Source {
    Source::new(
        Layer::Embedded,
        "<embedded>",
        EMBEDDED
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned())),
    )
}

fn gone(path: &Path) -> Problem {
    Problem::error(
        Code::MissingPolicies,
        "this directory was configured, but it is not there",
    )
    .of(&SourceFile::unread(Layer::User, path))
    .help("bring it back, or run `copilot-bridge init` again")
}
