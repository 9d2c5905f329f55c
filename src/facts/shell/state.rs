//! What a shell knows at one place of a line: where it is, and what its variables hold.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::glob::{self, Budget};
use crate::facts::paths::lexical;

/// More values of one variable, or words of one expansion, are not followed.
pub(super) const ALTERNATIVES: usize = 64;

/// More folders that a shell may be in are not followed.
pub(super) const FOLDERS: usize = 8;

/// Where a text came from, the least trusted last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Known, or made here.
    #[default]
    Here,
    /// Nobody knows.
    Unknown,
    /// It was encoded.
    Decoded,
    /// It came over the network.
    Download,
}

/// What a variable may hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Value {
    /// The texts that it may be.
    pub(super) texts: Vec<String>,
    /// Whether it may be something else as well.
    pub(super) open: bool,
    /// Whether the texts are patterns, and it is one of the files that match.
    pub(super) globs: bool,
    /// Where it came from.
    pub(super) origin: Origin,
}

/// One word of a command, expanded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Arg {
    /// The word; where it is not known, what is known of it.
    pub(super) text: String,
    /// Whether `text` is all of it.
    pub(super) known: bool,
    /// Whether the shell looks for files that match it.
    pub(super) glob: bool,
    /// Whether it is the name of a pipe to another command.
    pub(super) pipe: bool,
    /// Whether it is a folder, and stands for files below it: those with a name like this.
    pub(super) below: Option<Below>,
    /// Where it came from.
    pub(super) origin: Origin,
}

/// Files below a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Below {
    /// The pattern that their name matches, or their path.
    pub(super) named: String,
    /// Whether hidden files are among them.
    pub(super) hidden: bool,
}

/// What a command finds on its standard input.
#[derive(Debug, Clone, Default)]
pub(super) struct Input {
    /// Whether anything is connected.
    pub(super) present: bool,
    /// Its text, where it is known.
    pub(super) text: Option<String>,
    /// Where it came from.
    pub(super) origin: Origin,
    /// The folders whose files it lists, if that is what it holds.
    pub(super) lists: Option<Vec<Arg>>,
}

/// What a shell knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Where it may be.
    pub(super) cwds: BTreeSet<PathBuf>,
    /// Whether it may be somewhere else as well.
    pub(super) lost: bool,
    /// Its variables.
    pub(super) variables: HashMap<String, Value>,
    /// Its functions: the text of each body.
    pub(super) functions: HashMap<String, String>,
    /// Where it is if the last command failed.
    pub(super) failed: BTreeSet<PathBuf>,
    /// Where it was before the last `cd`.
    pub(super) previous: BTreeSet<PathBuf>,
}

impl Value {
    pub(super) fn known(text: impl Into<String>) -> Self {
        Self {
            texts: vec![text.into()],
            ..Self::default()
        }
    }

    pub(super) fn unknown(origin: Origin) -> Self {
        Self {
            texts: Vec::new(),
            open: true,
            origin: origin.max(Origin::Unknown),
            ..Self::default()
        }
    }

    fn or(&mut self, other: &Self) {
        for text in &other.texts {
            if !self.texts.contains(text) {
                self.texts.push(text.clone());
            }
        }
        self.open |= other.open || self.texts.len() > ALTERNATIVES;
        self.globs |= other.globs;
        self.texts.truncate(ALTERNATIVES);
        self.origin = self.origin.max(other.origin);
    }
}

impl Arg {
    pub(super) fn known(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            known: true,
            ..Self::default()
        }
    }

    pub(super) fn unknown(origin: Origin) -> Self {
        Self {
            origin,
            ..Self::default()
        }
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.known && self.text == text
    }

    pub(super) fn is_option(&self) -> bool {
        self.known && self.text.len() > 1 && self.text.starts_with('-')
    }
}

impl State {
    pub(super) fn at(cwd: &Path) -> Self {
        Self {
            cwds: BTreeSet::from([cwd.to_path_buf()]),
            ..Self::default()
        }
    }

    /// After two ways that may both have been taken.
    pub(super) fn or(&mut self, other: &Self) {
        self.cwds.extend(other.cwds.iter().cloned());
        self.failed.extend(other.failed.iter().cloned());
        self.previous.extend(other.previous.iter().cloned());
        self.lost |= other.lost;
        self.bound();
        for (name, value) in &other.variables {
            match self.variables.get_mut(name) {
                Some(known) => known.or(value),
                None => {
                    let mut value = value.clone();
                    value.open = true;
                    self.variables.insert(name.clone(), value);
                }
            }
        }
        for (name, value) in &mut self.variables {
            value.open |= !other.variables.contains_key(name);
        }
        for (name, body) in &other.functions {
            self.functions
                .entry(name.clone())
                .or_insert_with(|| body.clone());
        }
    }

    /// The next command runs whether the last one failed or not.
    pub(super) fn settle(&mut self) {
        self.cwds.append(&mut self.failed);
        self.bound();
    }

    fn bound(&mut self) {
        self.lost |= self.cwds.len() > FOLDERS;
        while self.cwds.len() > FOLDERS {
            self.cwds.pop_last();
        }
    }

    /// Follows `cd`. A folder that is not there may be made by then, or the step may fail.
    pub(super) fn change_dir(&mut self, target: &Arg, home: Option<&Path>, globs: &mut Budget) {
        if target.text == "-" && !self.previous.is_empty() {
            self.cwds = std::mem::take(&mut self.previous);
            return;
        }
        if !target.known || target.below.is_some() || target.text == "-" {
            self.lost = true;
            return;
        }
        self.previous.clone_from(&self.cwds);
        if target.glob {
            return self.change_to_one_of(&target.text, globs);
        }
        let given = match (target.text.strip_prefix('~'), home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(&target.text),
        };
        let before = std::mem::take(&mut self.cwds);
        for cwd in before {
            let new = lexical(&cwd.join(&given));
            // The shell steps by text first, the kernel through links: both count.
            match new.canonicalize() {
                Ok(real) if real.is_dir() => {
                    self.cwds.insert(real);
                }
                _ => {
                    self.failed.insert(cwd);
                    self.cwds.insert(new);
                }
            }
        }
        self.bound();
    }

    /// Any of the folders that match, or none.
    fn change_to_one_of(&mut self, pattern: &str, globs: &mut Budget) {
        let before = std::mem::take(&mut self.cwds);
        for cwd in before {
            let Some(matches) = glob::expand(pattern, &cwd, globs) else {
                self.lost = true;
                continue;
            };
            let folders = matches
                .iter()
                .filter_map(|name| cwd.join(name).canonicalize().ok())
                .filter(|real| real.is_dir());
            self.cwds.extend(folders);
            self.cwds.insert(cwd);
        }
        self.bound();
    }
}
