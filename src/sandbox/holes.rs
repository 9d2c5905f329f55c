//! What a grant must leave out, whether it is there or not.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::{Access, Tree};
use crate::engine::containment::{Containment, GUARD, PathLabel, Places};
use crate::engine::pattern::Haystack;
use crate::facts::paths::Workspace;

/// Nobody needs it to write code: it is not even read.
const CREDENTIALS: &str = "credentials";

/// A guarded link that was found, and what may be done with what it leads to.
pub(super) struct Link {
    pub(super) target: PathBuf,
    pub(super) ceiling: Access,
}

/// What a grant must leave out.
pub(super) struct Holes<'a> {
    labels: Vec<(&'a PathLabel, Access)>,
    places: &'a Places,
    ways: Vec<Way>,
}

/// The way to a hole from `/`, step by step.
#[derive(Clone)]
struct Way {
    steps: Vec<Step>,
    ceiling: Access,
}

#[derive(Clone)]
enum Step {
    Name(String),
    Glob(String, GlobMatcher),
    /// `**`, or what is no glob by itself.
    Anything(String),
}

impl<'a> Holes<'a> {
    pub(super) fn new(
        containment: &'a Containment,
        places: &'a Places,
        workspace: &Workspace,
        tree: &dyn Tree,
    ) -> Self {
        let labels: Vec<_> = containment
            .labels
            .iter()
            .filter_map(|label| match label.name.as_str() {
                GUARD => Some((label, Access::Read)),
                CREDENTIALS => Some((label, Access::Nothing)),
                _ => None,
            })
            .collect();
        let mut ways = Vec::new();
        for (label, ceiling) in &labels {
            for pattern in &label.paths {
                for (dir, rest) in pattern.anchored(places) {
                    let mut anchors = vec![names(Path::new(dir))];
                    let mut rest = rest;
                    if let Some(floating) = rest.strip_prefix("**/") {
                        // Hosts look where they work, and above it up to the root.
                        anchors = between(workspace).map(names).collect();
                        rest = floating;
                    }
                    ways.extend(anchors.into_iter().map(|mut steps| {
                        steps.extend(pattern_steps(rest, pattern.glob));
                        Way {
                            steps,
                            ceiling: *ceiling,
                        }
                    }));
                }
            }
        }
        let behind: Vec<Way> = ways.iter().filter_map(|way| way.resolved(tree)).collect();
        ways.extend(behind);
        Self {
            labels,
            places,
            ways,
        }
    }

    /// What may be done with a path at most, for what it is or stands below.
    pub(super) fn ceiling(&self, path: &Path) -> Access {
        let text = path.to_string_lossy();
        let text = Haystack::new(&text);
        let labelled = self
            .labels
            .iter()
            .filter(|(label, _)| {
                let mut patterns = label.paths.iter();
                patterns.any(|pattern| pattern.covers(&text, self.places))
            })
            .map(|(_, ceiling)| *ceiling);
        let given = names_of(path);
        let learnt = self
            .ways
            .iter()
            .filter(|way| way.steps.len() <= given.len() && way.agrees(&given))
            .map(|way| way.ceiling);
        labelled.chain(learnt).min().unwrap_or(Access::Write)
    }

    /// What may be done at most with what could come to be somewhere below a folder.
    pub(super) fn below(&self, dir: &Path) -> Access {
        let given = names_of(dir);
        self.ways
            .iter()
            .filter(|way| way.steps.len() > given.len() && way.agrees(&given))
            .map(|way| way.ceiling)
            .min()
            .unwrap_or(Access::Write)
    }

    /// Takes in where guarded links lead. Whether one of them is news.
    pub(super) fn learn(&mut self, links: Vec<Link>) -> bool {
        let before = self.ways.len();
        for link in links {
            let way = Way {
                steps: names(&link.target),
                ceiling: link.ceiling,
            };
            if !self.ways.iter().any(|known| known.same(&way)) {
                self.ways.push(way);
            }
        }
        self.ways.len() > before
    }
}

impl Way {
    /// Whether the way and a path do not part as far as both go. A `**` is not followed: what it
    /// matches is found where it is there.
    fn agrees(&self, given: &[&OsStr]) -> bool {
        self.steps.iter().zip(given).all(|(step, name)| match step {
            // Some file systems take both for the same, and so do globs at the gate.
            Step::Name(own) => name.eq_ignore_ascii_case(own),
            Step::Glob(_, matcher) => matcher.is_match(name),
            Step::Anything(_) => false,
        })
    }

    /// The same way where its fixed part leads elsewhere.
    fn resolved(&self, tree: &dyn Tree) -> Option<Self> {
        let fixed = self
            .steps
            .iter()
            .take_while(|step| matches!(step, Step::Name(_)));
        let fixed: Vec<&str> = fixed.map(Step::text).collect();
        let path = Path::new("/").join(fixed.join("/"));
        let target = tree.target(&path);
        (target != path).then(|| {
            let mut steps = names(&target);
            steps.extend(self.steps.iter().skip(fixed.len()).cloned());
            Self {
                steps,
                ceiling: self.ceiling,
            }
        })
    }

    fn same(&self, other: &Self) -> bool {
        self.ceiling == other.ceiling
            && self.steps.len() == other.steps.len()
            && self
                .steps
                .iter()
                .zip(&other.steps)
                .all(|(one, two)| one.text() == two.text())
    }
}

impl Step {
    fn text(&self) -> &str {
        match self {
            Self::Name(text) | Self::Glob(text, _) | Self::Anything(text) => text,
        }
    }
}

/// The working directory and what is above it, up to the root.
fn between(workspace: &Workspace) -> impl Iterator<Item = &Path> {
    let root = workspace.root.as_deref();
    let inside = workspace
        .cwd
        .ancestors()
        .take_while(move |dir| root.is_some_and(|root| dir.starts_with(root)));
    // A configured root may be elsewhere.
    let apart = root.filter(|root| !workspace.cwd.starts_with(root));
    inside.chain(apart)
}

fn names(path: &Path) -> Vec<Step> {
    names_of(path)
        .into_iter()
        .map(|name| Step::Name(name.to_string_lossy().into_owned()))
        .collect()
}

fn names_of(path: &Path) -> Vec<&OsStr> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect()
}

fn pattern_steps(pattern: &str, glob: bool) -> Vec<Step> {
    let parts = pattern.split('/').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            if !glob || !part.contains(['*', '?', '[', ']', '{', '}', '\\']) {
                return Step::Name(part.to_owned());
            }
            let built = (part != "**")
                .then(|| GlobBuilder::new(part).case_insensitive(true).build().ok())
                .flatten();
            built.map_or_else(
                || Step::Anything(part.to_owned()),
                |built| Step::Glob(part.to_owned(), built.compile_matcher()),
            )
        })
        .collect()
}
