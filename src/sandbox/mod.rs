//! What a command may reach: the labels of the policies as a list of folders and files.
//!
//! The kernel grants whole subtrees and knows no exceptions. A folder that holds something guarded
//! is therefore granted entry by entry, and nothing can be made, removed or renamed directly in it.
//! This file only plans; `landlock` makes the kernel hold to it.

mod holes;
#[cfg(target_os = "linux")]
pub mod landlock;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::engine::containment::{Containment, PathLabel, Places};
use crate::engine::pattern::Haystack;
use crate::facts::paths::Workspace;
use holes::{Holes, Link};
pub use tree::{Disk, Kind, Tree};

/// What may be read and executed.
const READ: [&str; 2] = ["system", "toolchain"];
/// What may also be written.
const WRITE: [&str; 3] = ["temp", "session", "sink"];

/// What a command may do with a path and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    Nothing,
    /// See the names in it.
    List,
    /// List, read and execute.
    Read,
    /// Whatever can be done with files and folders.
    Write,
}

/// Who gets what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What each path gets, with everything below it. All else is refused.
    pub grants: BTreeMap<PathBuf, Access>,
    /// Patterns that grant nothing, and why.
    pub left_out: Vec<(String, &'static str)>,
}

/// Why nothing is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxError {
    /// What is wrong.
    pub message: String,
    /// What a person can do.
    pub help: String,
}

/// What a command that runs in the workspace may reach.
///
/// # Errors
/// If the working directory has no workspace.
pub fn plan(
    containment: &Containment,
    places: &Places,
    workspace: &Workspace,
    tree: &dyn Tree,
) -> Result<Plan, SandboxError> {
    let root = workspace.root.as_deref().ok_or_else(|| SandboxError {
        message: format!("`{}` is in no workspace", workspace.cwd.display()),
        help: "a home, `/`, or a folder above the policies is none: change into a project".into(),
    })?;
    let mut plan = Plan::default();
    let mut roots = vec![(root.to_path_buf(), Access::Write)];
    for (names, access) in [(&WRITE[..], Access::Write), (&READ[..], Access::Read)] {
        for label in &containment.labels {
            if names.contains(&label.name.as_str()) {
                let found = subtrees(label, places, tree, &mut plan.left_out);
                roots.extend(found.into_iter().map(|path| (path, access)));
            }
        }
    }
    let mut holes = Holes::new(containment, places, workspace, tree);
    loop {
        let mut walk = Walk {
            holes: &holes,
            tree,
            root,
            thorough: true,
            links: Vec::new(),
        };
        let mut grants = BTreeMap::new();
        for (path, access) in &roots {
            // What is still a link is a standard stream, and open already.
            let Some(kind) = tree.kind(path).filter(|kind| *kind != Kind::Link) else {
                continue;
            };
            walk.thorough = *access == Access::Write;
            let shape = walk.visit(path, kind, *access);
            for (path, access) in shape.grants(path) {
                let most = grants.entry(path).or_insert(access);
                *most = access.max(*most);
            }
        }
        let links = walk.links;
        // Behind a guarded link lies another hole, perhaps in what was already granted.
        if !holes.learn(links) {
            plan.grants = without_implied(&grants);
            return Ok(plan);
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "nothing",
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhelp: {}", self.message, self.help)
    }
}

impl std::error::Error for SandboxError {}

/// The subtrees that a label names. As at the gate, a link does not take its label along.
fn subtrees(
    label: &PathLabel,
    places: &Places,
    tree: &dyn Tree,
    left_out: &mut Vec<(String, &'static str)>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pattern in &label.paths {
        if pattern.glob {
            left_out.push((pattern.source.clone(), "wildcards grant nothing"));
            continue;
        }
        for (dir, rest) in pattern.anchored(places) {
            let path = PathBuf::from(format!("{dir}{rest}"));
            if tree.kind(&path).is_none() {
                continue;
            }
            let target = tree.target(&path);
            let text = target.to_string_lossy();
            let text = Haystack::new(&text);
            if label.paths.iter().any(|other| other.covers(&text, places)) {
                found.push(target);
            } else {
                left_out.push((pattern.source.clone(), "it leads out of its label"));
            }
        }
    }
    found
}

/// Without what an ancestor grants already.
fn without_implied(grants: &BTreeMap<PathBuf, Access>) -> BTreeMap<PathBuf, Access> {
    let implied = |path: &Path, access: Access| {
        path.ancestors()
            .skip(1)
            .any(|above| grants.get(above).is_some_and(|given| *given >= access))
    };
    grants
        .iter()
        .filter(|(path, access)| !implied(path, **access))
        .map(|(path, access)| (path.clone(), *access))
        .collect()
}

/// What was found at and below a path.
enum Shape {
    /// Everything may have the same.
    Whole(Access),
    /// It has to be granted in parts. `least` is what the most guarded of them may have.
    Parts {
        least: Access,
        grants: Vec<(PathBuf, Access)>,
    },
}

impl Shape {
    const fn least(&self) -> Access {
        match self {
            Self::Whole(access) => *access,
            Self::Parts { least, .. } => *least,
        }
    }

    fn grants(self, path: &Path) -> Vec<(PathBuf, Access)> {
        match self {
            Self::Whole(Access::Nothing) => Vec::new(),
            Self::Whole(access) => vec![(path.to_path_buf(), access)],
            Self::Parts { grants, .. } => grants,
        }
    }
}

struct Walk<'a> {
    holes: &'a Holes<'a>,
    tree: &'a dyn Tree,
    root: &'a Path,
    thorough: bool,
    links: Vec<Link>,
}

impl Walk<'_> {
    fn visit(&mut self, path: &Path, kind: Kind, above: Access) -> Shape {
        let most = above.min(self.holes.ceiling(path));
        match kind {
            Kind::Folder => self.folder(path, most),
            Kind::File => Shape::Whole(most),
            Kind::Link => {
                if most < above {
                    self.links.push(Link {
                        target: self.tree.target(path),
                        ceiling: most,
                    });
                }
                Shape::Whole(most)
            }
        }
    }

    fn folder(&mut self, path: &Path, most: Access) -> Shape {
        let reserved = self.holes.below(path);
        // Toolchains are large: they are searched only where a hole has its place.
        let searched = self.thorough || reserved < most || path.starts_with(self.root);
        if most <= Access::List || !searched {
            return Shape::Whole(most);
        }
        // Who cannot see what is in there cannot grant it.
        let Some(children) = self.tree.list(path) else {
            return Shape::Whole(Access::Nothing);
        };
        let mut shapes = Vec::new();
        let mut least = most;
        for (name, kind) in children {
            let path = path.join(name);
            let shape = self.visit(&path, kind, most);
            least = least.min(shape.least());
            shapes.push((path, kind, shape));
        }
        // What is guarded is guarded before it is there: nobody may make it.
        let may_make = most == Access::Write && reserved == Access::Write;
        if least == most && (most < Access::Write || may_make) {
            return Shape::Whole(most);
        }
        let own = if least >= Access::Read {
            Access::Read
        } else {
            Access::List
        };
        let mut grants = vec![(path.to_path_buf(), own)];
        for (path, kind, shape) in shapes {
            // The kernel would grant what a link leads to.
            if kind != Kind::Link {
                let more = shape.grants(&path);
                grants.extend(more.into_iter().filter(|(_, access)| *access > own));
            }
        }
        Shape::Parts {
            least: least.min(Access::Read),
            grants,
        }
    }
}

#[cfg(test)]
mod tests;
