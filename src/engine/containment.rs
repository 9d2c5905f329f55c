//! Labels: what `containment.toml` says about a path or a program, as facts for the policies.

use std::collections::BTreeSet;

use globset::{Glob, GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::pattern::{Haystack, required_literals};
use super::program::{Front, Interpreter, Leading, Program, Variable, Wrapper, labels_of};
use super::sleeping::Sleeping;

/// The label of what protects this program itself. Monitor mode never covers it.
pub const GUARD: &str = "guard";

/// The labels of a path that no file has to give: what is there, by the file system.
pub const FOUND: [&str; 6] = [
    HARD_LINK,
    MOUNT,
    "fifo",
    "device",
    "socket",
    PRIVATE_ADDRESS,
];

/// A file that has another name.
pub const HARD_LINK: &str = "hard_link";

/// The label of a command that is to fetch from an address inside the network.
pub const PRIVATE_ADDRESS: &str = "private_address";

/// What lies on another mount than the workspace root above it.
pub const MOUNT: &str = "mount";

/// The tables of `containment.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    /// The workspace root, where it is not to be found from the working directory.
    pub workspace_root: Option<String>,
    /// Labels of paths.
    pub labels: Vec<PathLabel>,
    /// Labels of programs.
    pub programs: Sleeping<Program>,
    /// The names of the programs that are agents.
    pub agents: Vec<String>,
    /// Programs that run the command among their words.
    pub wrappers: Vec<Wrapper>,
    /// Programs that run code.
    pub interpreters: Vec<Interpreter>,
    /// Variables that change what programs do.
    pub variables: Vec<Variable>,
    /// Options that stand before a subcommand.
    pub leading: Vec<Leading>,
    /// Argument keys whose values are data and no paths.
    pub data_keys: Vec<String>,
    /// Programs that do the same whichever shell starts them.
    pub any_shell: Vec<String>,
    /// Whether what lies on another mount below the workspace root is inside of it.
    pub mounts: Inside,
    /// Whether a file of the workspace that has another name, maybe elsewhere, is inside of it.
    pub hard_links: Inside,
}

/// Where something counts that is inside the workspace by its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inside {
    /// Where its name says.
    #[default]
    Inside,
    /// Nowhere in the workspace.
    Outside,
}

/// A label and the paths that carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathLabel {
    /// The label, as policies name it.
    pub name: String,
    /// Whether the path as written counts too: right for labels that forbid, wrong for labels that allow.
    pub as_written: bool,
    /// Where it holds.
    pub paths: Vec<PathPattern>,
}

/// A path or a glob, and everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPattern {
    /// As the policy file has it. It may start with `~/` or `${workspace}`, `${state}`, …
    pub source: String,
    /// Whether it holds wildcards.
    pub glob: bool,
    /// Lower-case texts, one of which every match holds; none if there are no such texts.
    pub literals: Vec<String>,
}

/// Where the things are that patterns can name. Resolved, absolute, without a final slash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The user's home: `~`.
    pub home: Option<String>,
    /// `${workspace}`
    pub workspace: Option<String>,
    /// `${policies}`: every directory that policies were read from.
    pub policies: Vec<String>,
    /// `${state}`
    pub state: Option<String>,
    /// `${binary}`: this program's own file.
    pub binary: Option<String>,
    /// `${temp}`: the per-user temporary root.
    pub temp: Vec<String>,
}

/// A pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobError(pub String);

/// The names that a pattern may put into `${…}`.
pub const PLACES: [&str; 5] = ["workspace", "policies", "state", "binary", "temp"];

impl PathPattern {
    /// A pattern that is known to compile.
    ///
    /// # Errors
    /// If it is empty, relative, holds `.` or `..`, names an unknown place or is no glob.
    pub fn new(source: &str) -> Result<Self, GlobError> {
        let rest = match source.strip_prefix("${") {
            Some(inner) => {
                let (name, rest) = inner
                    .split_once('}')
                    .ok_or_else(|| GlobError("`${` without `}`".to_owned()))?;
                if !PLACES.contains(&name) {
                    return Err(GlobError(format!("unknown place `${{{name}}}`")));
                }
                rest
            }
            None => source.strip_prefix('~').unwrap_or(source),
        };
        let anchored =
            source.starts_with('/') || source.starts_with("**/") || rest.len() < source.len();
        if !anchored {
            return Err(GlobError(
                "a path starts with `/`, `~`, `**/` or a place such as `${workspace}`".to_owned(),
            ));
        }
        // What is judged is resolved: no such name is ever met.
        if let Some(name) = rest.split('/').find(|name| matches!(*name, "." | "..")) {
            return Err(GlobError(format!("`{name}` is not resolved here")));
        }
        let glob = rest.contains(['*', '?', '[', '{']);
        let literals = if glob {
            parse(rest, true)?;
            glob_literals(rest)
        } else {
            vec![rest.trim_end_matches('/').to_ascii_lowercase()]
        };
        Ok(Self {
            source: source.to_owned(),
            glob,
            literals,
        })
    }

    /// Whether the path, or a folder above it, is what the pattern names.
    #[must_use]
    pub fn covers(&self, path: &Haystack<'_>, places: &Places) -> bool {
        path.holds_one_of(&self.literals)
            && self
                .expand(places)
                .iter()
                .any(|expanded| covers(expanded, self.glob, path.text()))
    }

    /// As [`Self::covers`], for what loosens: letters count with their case, in wildcards too.
    #[must_use]
    pub fn covers_exactly(&self, path: &str, places: &Places) -> bool {
        self.expand(places)
            .iter()
            .any(|expanded| match (self.glob, parse(expanded, false)) {
                (false, _) => is_below(path, expanded),
                (true, Ok(glob)) => {
                    let matcher = glob.compile_matcher();
                    ancestors(path).any(|ancestor| matcher.is_match(ancestor))
                }
                (true, Err(_)) => false,
            })
    }

    /// As [`Self::covers`], whatever the case of the letters.
    #[must_use]
    pub fn covers_in_any_case(&self, path: &Haystack<'_>, places: &Places) -> bool {
        self.covers(path, places)
            || (!self.glob && path.holds_one_of(&self.literals) && {
                let path = path.text().to_lowercase();
                self.expand(places)
                    .iter()
                    .any(|expanded| is_below(&path, &expanded.to_lowercase()))
            })
    }

    /// The folder that stands for `~` or the place, empty without one, and the pattern that follows
    /// it. A place may be several folders, or none.
    #[must_use]
    pub fn anchored<'a>(&'a self, places: &'a Places) -> Vec<(&'a str, &'a str)> {
        fn each<'a>(
            dirs: impl IntoIterator<Item = &'a String>,
            rest: &'a str,
        ) -> Vec<(&'a str, &'a str)> {
            dirs.into_iter().map(|dir| (dir.as_str(), rest)).collect()
        }
        if let Some(rest) = self.source.strip_prefix('~') {
            return each(&places.home, rest);
        }
        let Some((name, rest)) = self
            .source
            .strip_prefix("${")
            .and_then(|inner| inner.split_once('}'))
        else {
            return vec![("", self.source.as_str())];
        };
        match name {
            "workspace" => each(&places.workspace, rest),
            "state" => each(&places.state, rest),
            "binary" => each(&places.binary, rest),
            "temp" => each(&places.temp, rest),
            _ => each(&places.policies, rest),
        }
    }

    fn expand(&self, places: &Places) -> Vec<String> {
        self.anchored(places)
            .into_iter()
            .map(|(dir, rest)| match self.glob {
                // What a folder is called is no wildcard.
                true => format!("{}{rest}", globset::escape(dir)),
                false => format!("{dir}{rest}"),
            })
            .collect()
    }
}

impl Containment {
    /// The labels of a path: `resolved` is where the kernel goes, `written` what the agent wrote,
    /// made absolute without following links.
    #[must_use]
    pub fn path_labels(&self, resolved: &str, written: &str, places: &Places) -> BTreeSet<String> {
        let resolved = Haystack::new(resolved);
        // Mostly they are the same.
        let written = (written != resolved.text()).then(|| Haystack::new(written));
        self.labels
            .iter()
            .filter(|label| {
                // What forbids holds in any case of letters: the file system may not tell them apart.
                let covers = |pattern: &PathPattern, path| {
                    if label.as_written {
                        pattern.covers_in_any_case(path, places)
                    } else {
                        pattern.covers(path, places)
                    }
                };
                let written = written.as_ref().filter(|_| label.as_written);
                label.paths.iter().any(|pattern| {
                    covers(pattern, &resolved)
                        || written.is_some_and(|written| covers(pattern, written))
                })
            })
            .map(|label| label.name.clone())
            .collect()
    }

    /// The paths without wildcards that carry a label that forbids.
    pub fn forbidden<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = String> + 'a {
        self.labels
            .iter()
            .filter(|label| label.as_written)
            .flat_map(|label| &label.paths)
            .filter(|pattern| !pattern.glob)
            .flat_map(|pattern| pattern.expand(places))
    }

    /// The labels that forbid and that something below the folder carries: what would go with it.
    #[must_use]
    pub fn labels_below(
        &self,
        folder: &str,
        places: &Places,
        exists: &dyn Fn(&str) -> bool,
    ) -> BTreeSet<String> {
        self.forbidden_below(folder, places)
            .into_iter()
            .filter(|(_, path, sure)| *sure || exists(path))
            .map(|(label, ..)| label.to_owned())
            .collect()
    }

    /// Where something below the folder may carry a label that forbids: the label, the path without
    /// wildcards that leads there, and whether it counts even if nothing is there yet.
    #[must_use]
    pub fn forbidden_below(&self, folder: &str, places: &Places) -> Vec<(&str, String, bool)> {
        let mut found = Vec::new();
        for label in self.labels.iter().filter(|label| label.as_written) {
            for pattern in &label.paths {
                let Some(rest) = pattern.source.strip_prefix("**/") else {
                    let fixed = pattern.expand(places).into_iter().filter_map(|expanded| {
                        let fixed = expanded.split(['*', '?', '[', '{']).next()?;
                        let fixed = fixed.trim_end_matches('/');
                        is_below(fixed, folder).then(|| fixed.to_owned())
                    });
                    found.extend(fixed.map(|path| (label.name.as_str(), path, true)));
                    continue;
                };
                let fixed: Vec<&str> = rest
                    .split('/')
                    .take_while(|part| !part.contains(['*', '?', '[', '{']))
                    .collect();
                // The folder itself may be the first parts of it.
                for known in 0..fixed.len() {
                    let (above, below) = fixed.split_at(known);
                    let above = above.join("/");
                    if above.is_empty() || folder.ends_with(&format!("/{above}")) {
                        let path = format!("{folder}/{}", below.join("/"));
                        found.push((label.name.as_str(), path, false));
                    }
                }
            }
        }
        found
    }

    /// The labels of a command, and the entries of the tables that speak of it.
    #[must_use]
    pub fn program_labels<'a>(
        &'a self,
        program: &'a str,
        subcommand: &str,
        arguments: &[String],
    ) -> (BTreeSet<String>, Vec<&'a Program>) {
        labels_of(&self.programs, program, subcommand, arguments)
    }

    /// The labels of a command that sets this variable to a value, as it is written.
    pub fn variable_labels(&self, name: &str, value: &str) -> impl Iterator<Item = &String> {
        self.variables
            .iter()
            .filter(move |entry| entry.covers(name) && !entry.is_harmless(name, value))
            .flat_map(|entry| &entry.labels)
    }

    /// The labels of a command that is given this variable's value.
    pub fn use_labels(&self, name: &str) -> impl Iterator<Item = &String> {
        self.variables
            .iter()
            .filter(move |entry| !entry.used.is_empty() && entry.covers(name))
            .flat_map(|entry| &entry.used)
    }

    /// What stands before the subcommand of a program.
    pub fn front<'w>(&self, program: &str, words: impl Iterator<Item = Option<&'w str>>) -> Front {
        let none = Leading::default();
        let named = |entry: &&Leading| entry.names.iter().any(|name| name == program);
        let entry = self.leading.iter().find(named);
        entry.unwrap_or(&none).front(words)
    }
}

fn covers(pattern: &str, glob: bool, path: &str) -> bool {
    if !glob {
        return is_below(path, pattern);
    }
    let Ok(matcher) = matcher(pattern) else {
        // `PathPattern::new` compiled it. Should it fail all the same, the label holds.
        return true;
    };
    ancestors(path).any(|ancestor| matcher.is_match(ancestor))
}

/// Whether `path` is `root` or below it, by component.
#[must_use]
pub fn is_below(path: &str, root: &str) -> bool {
    let root = root.trim_end_matches('/');
    path.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        path.rsplit_once('/')
            .map(|(parent, _)| parent)
            .filter(|parent| !parent.is_empty())
    })
}

/// What every path that the glob matches holds. Globs match without case, as these are compared.
fn glob_literals(pattern: &str) -> Vec<String> {
    parse(pattern, false)
        .map(|glob| required_literals(glob.regex()))
        .unwrap_or_default()
}

fn matcher(pattern: &str) -> Result<GlobMatcher, GlobError> {
    parse(pattern, true).map(|glob| glob.compile_matcher())
}

fn parse(pattern: &str, ignore_case: bool) -> Result<Glob, GlobError> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(ignore_case)
        .build()
        .map_err(|error| GlobError(error.kind().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            home: Some("/home/dev".into()),
            workspace: Some("/work/ws".into()),
            ..Places::default()
        }
    }

    fn covers(pattern: &str, path: &str) -> bool {
        PathPattern::new(pattern)
            .unwrap()
            .covers(&Haystack::new(path), &places())
    }

    #[test]
    fn a_path_covers_itself_and_what_is_below() {
        assert!(covers("/usr", "/usr"));
        assert!(covers("/usr", "/usr/bin/ls"));
        assert!(!covers("/usr", "/usr-evil/bin"));
        assert!(covers("~/.ssh", "/home/dev/.ssh/id_rsa"));
        assert!(!covers("~/.ssh", "/home/other/.ssh/id_rsa"));
        assert!(covers(
            "${workspace}/.git/hooks",
            "/work/ws/.git/hooks/pre-commit"
        ));
        assert!(!covers("${state}/audit", "/work/ws/audit"));
    }

    #[test]
    fn what_forbids_holds_in_any_case() {
        let pattern = PathPattern::new("${workspace}/.copilot-bridge").unwrap();
        let path = Haystack::new("/Work/ws/.COPILOT-BRIDGE/policy.toml");
        assert!(!pattern.covers(&path, &places()));
        assert!(pattern.covers_in_any_case(&path, &places()));
        let path = Haystack::new("/work/ws/.copilot-bridges");
        assert!(!pattern.covers_in_any_case(&path, &places()));
    }

    #[test]
    fn a_glob_covers_by_component() {
        assert!(covers("**/.env", "/a/b/.env"));
        assert!(covers("**/.env", "/a/b/.ENV"));
        assert!(!covers("**/.env", "/a/b/.envrc"));
        assert!(covers("**/.ssh", "/a/.ssh/id"));
        assert!(covers("~/.config/*/token", "/home/dev/.config/gh/token"));
        assert!(!covers("~/.config/*/token", "/home/dev/.config/a/b/token"));
        assert!(covers("**/*.{pem,key}", "/x/server.key"));
    }

    #[test]
    fn a_pattern_without_an_anchor_is_refused() {
        assert!(PathPattern::new("src").is_err());
        assert!(PathPattern::new("").is_err());
        assert!(PathPattern::new("${home}/x").is_err());
        assert!(PathPattern::new("/a/[").is_err());
        assert!(PathPattern::new("~/a/../b").is_err());
        assert!(PathPattern::new("/./a").is_err());
    }
}
