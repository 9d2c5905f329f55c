//! Which layers of policies there are, and which of them count.
//!
//! The highest layer that is present is the base. The layers below it may only tighten.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::diagnostic::{Code, Problem};
use super::published;
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

impl Locations {
    /// That directory alone, as the base.
    #[must_use]
    pub fn only(dir: &Path) -> Self {
        Self {
            base: Base::Configured(dir.to_path_buf()),
            ..Self::default()
        }
    }
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

/// Whether only the embedded policies count: no directory of any layer is there.
pub(super) fn is_embedded(locations: &Locations) -> bool {
    let absent = |path: &Option<PathBuf>| {
        path.as_ref().is_none_or(|path| {
            path.symlink_metadata()
                .is_err_and(|error| error.kind() == ErrorKind::NotFound)
        })
    };
    let base = match &locations.base {
        Base::Configured(_) => false,
        Base::Default(path) => absent(path),
    };
    base && absent(&locations.organisation) && absent(&locations.workspace)
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
        published::look(Layer::Organisation, path, &mut problems);
    }
    if let Base::Configured(path) | Base::Default(Some(path)) = &locations.base {
        published::look(Layer::User, path, &mut problems);
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

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::policy::testing::PERMIT;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new(dirs: &[&str]) -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            for name in dirs {
                let none = Default::default();
                let files = [("a.cedar".to_owned(), PERMIT.to_owned())].into();
                crate::policy::edit::publish(Layer::User, &home.dir(name), &none, &files).unwrap();
            }
            home
        }

        fn dir(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn layers(&self, base: Base) -> Result<Vec<Layer>, Vec<&'static str>> {
            let locations = Locations {
                organisation: Some(self.dir("org")),
                base,
                workspace: Some(self.dir("ws")),
            };
            match read(&locations) {
                Ok(sources) => Ok(sources.iter().map(|source| source.layer).collect()),
                Err(problems) => Err(problems.iter().map(|p| p.code.name()).collect()),
            }
        }
    }

    #[test]
    fn the_highest_layer_is_the_base() {
        for (dirs, layers) in [
            (&[][..], &[Layer::Embedded][..]),
            (&["ws"], &[Layer::Embedded, Layer::Workspace]),
            (&["user"], &[Layer::User]),
            (&["org", "ws"], &[Layer::Organisation, Layer::Workspace]),
            (
                &["org", "user", "ws"],
                &[Layer::Organisation, Layer::User, Layer::Workspace],
            ),
        ] {
            let home = Home::new(dirs);
            let base = Base::Default(Some(home.dir("user")));
            assert_eq!(home.layers(base).unwrap(), layers, "{dirs:?}");
        }
    }

    #[test]
    fn what_was_configured_has_to_be_there() {
        let home = Home::new(&["ws"]);
        let gone = Base::Configured(home.dir("user"));
        assert_eq!(home.layers(gone.clone()).unwrap_err(), ["missing-policies"]);
        fs::write(home.dir("user"), "").unwrap();
        assert_eq!(home.layers(gone).unwrap_err(), ["unsafe-file"]);
    }

    #[test]
    fn a_broken_or_empty_directory_is_not_replaced_by_the_embedded_policies() {
        let home = Home::new(&[]);
        fs::create_dir(home.dir("org")).unwrap();
        let locations = Locations {
            organisation: Some(home.dir("org")),
            ..Locations::default()
        };
        let problems = crate::policy::load(&locations).unwrap_err();
        assert_eq!(problems[0].code, Code::MissingPolicies);
        fs::write(home.dir("org/lim.toml"), "").unwrap();
        let problems = crate::policy::load(&locations).unwrap_err();
        assert_eq!(problems[0].code, Code::UnknownFile);
    }
}
