//! The files below folders, as ripgrep would search them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

/// A file to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Where it is, as the caller named it or the folder above.
    pub path: PathBuf,
    /// It was named itself, so it is looked at whatever it is.
    pub named: bool,
}

/// A path that could not be looked at, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The path.
    pub path: PathBuf,
    /// Why, in one sentence.
    pub message: String,
}

/// The files of those names, and those in folders of those names that no ignore rule and no hidden
/// name leaves out; each once, in the order of the names, then of the paths.
#[must_use]
pub fn list(paths: &[PathBuf], hidden: bool) -> (Vec<Listed>, Vec<Unread>) {
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for path in paths {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => below(path, hidden, &mut files, &mut unread),
            Ok(_) => files.push(Listed {
                path: path.clone(),
                named: true,
            }),
            Err(error) => unread.push(Unread {
                path: path.clone(),
                message: format!("it cannot be read: {}", crate::facts::paths::words(&error)),
            }),
        }
    }
    let mut known = HashSet::new();
    files.retain(|file| known.insert(file.path.clone()));
    (files, unread)
}

fn below(folder: &Path, hidden: bool, files: &mut Vec<Listed>, unread: &mut Vec<Unread>) {
    let walk = WalkBuilder::new(folder)
        .hidden(!hidden)
        .follow_links(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        // Also where hidden names count, a repository's own files are nobody's text.
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .build();
    for entry in walk {
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                let path = entry.path();
                let path = path.strip_prefix("./").unwrap_or(path).to_path_buf();
                files.push(Listed { path, named: false });
            }
            Ok(_) => {}
            Err(error) => unread.push(Unread {
                path: folder.to_path_buf(),
                message: format!("not all of it can be read: {error}"),
            }),
        }
    }
}
