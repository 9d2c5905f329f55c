//! Labels: what `containment.toml` says about a path or a program, as facts for the policies.

use std::collections::BTreeSet;

use globset::{Glob, GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::pattern::{Haystack, required_literals};

/// The label of what protects this program itself. Monitor mode never covers it.
pub const GUARD: &str = "guard";

/// The tables of `containment.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    /// The workspace root, where it is not to be found from the working directory.
    pub workspace_root: Option<String>,
    /// Labels of paths.
    pub labels: Vec<PathLabel>,
    /// Labels of programs.
    pub programs: Vec<Program>,
    /// Argument keys whose values are data and no paths.
    pub data_keys: Vec<String>,
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

/// What is known about a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its names.
    pub names: Vec<String>,
    /// Only with one of these subcommands; empty: with any.
    pub subcommands: Vec<String>,
    /// Only with one of these words among the arguments; empty: with any.
    pub with: Vec<String>,
    /// Only without all of these words.
    pub without: Vec<String>,
    /// The labels that it then carries.
    pub labels: Vec<String>,
    /// What it does to the paths that it is given.
    pub operands: Operands,
}

/// What a program does to the paths that it is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operands {
    /// Its operands are no paths.
    None,
    /// Nobody said: what looks like a path is taken for one that is read.
    #[default]
    Guess,
    /// It looks at them.
    Read,
    /// It changes them.
    Write,
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
    /// If it is empty, relative, names an unknown place or is no glob.
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

    /// The pattern with `~` and the place filled in. A place may be several folders, or none.
    fn expand(&self, places: &Places) -> Vec<String> {
        let one = |place: &Option<String>, rest: &str| -> Vec<String> {
            place.iter().map(|dir| format!("{dir}{rest}")).collect()
        };
        if let Some(rest) = self.source.strip_prefix('~') {
            return one(&places.home, rest);
        }
        let Some((name, rest)) = self
            .source
            .strip_prefix("${")
            .and_then(|inner| inner.split_once('}'))
        else {
            return vec![self.source.clone()];
        };
        match name {
            "workspace" => one(&places.workspace, rest),
            "state" => one(&places.state, rest),
            "binary" => one(&places.binary, rest),
            "temp" => places
                .temp
                .iter()
                .map(|dir| format!("{dir}{rest}"))
                .collect(),
            _ => places
                .policies
                .iter()
                .map(|dir| format!("{dir}{rest}"))
                .collect(),
        }
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

    /// The labels of a command, and what it does to its path operands.
    #[must_use]
    pub fn program_labels(
        &self,
        program: &str,
        subcommand: &str,
        arguments: &[String],
    ) -> (BTreeSet<String>, Operands) {
        let mut labels = BTreeSet::new();
        let mut operands = None;
        for entry in &self.programs {
            if entry.applies(program, subcommand, arguments) {
                labels.extend(entry.labels.iter().cloned());
                operands = operands.max(Some(entry.operands));
            }
        }
        (labels, operands.unwrap_or_default())
    }
}

impl Program {
    /// Whether the entry speaks of that command.
    #[must_use]
    pub fn applies(&self, program: &str, subcommand: &str, arguments: &[String]) -> bool {
        let has = |word: &String| arguments.iter().any(|argument| is_word(argument, word));
        self.names.iter().any(|name| name == program)
            && (self.subcommands.is_empty() || self.subcommands.iter().any(|s| s == subcommand))
            && (self.with.is_empty() || self.with.iter().any(has))
            && !self.without.iter().any(has)
    }
}

/// Whether `argument` is the word, `--word=value`, or a cluster of short options that holds `-w`.
fn is_word(argument: &str, word: &str) -> bool {
    if argument == word {
        return true;
    }
    if word.starts_with("--") {
        return argument
            .strip_prefix(word)
            .is_some_and(|rest| rest.starts_with('='));
    }
    match word.strip_prefix('-') {
        Some(letter) if letter.chars().count() == 1 => argument
            .strip_prefix('-')
            .is_some_and(|cluster| !cluster.starts_with('-') && cluster.contains(letter)),
        _ => false,
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
    }

    #[test]
    fn options_are_found_in_clusters() {
        assert!(is_word("-rf", "-f"));
        assert!(is_word("--force=now", "--force"));
        assert!(!is_word("--force-with-lease", "--force"));
        assert!(!is_word("--f", "-f"));
    }
}
