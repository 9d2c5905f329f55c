//! What setup wrote, so that it can be told from what others wrote.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings::Merge;
use super::{Scope, SetupError, files};

/// The file's name in the state directory.
const NAME: &str = "installed.json";

/// The format of the file.
const FORMAT: u32 = 1;

/// The list of what setup wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    v: u32,
    pub(super) entries: Vec<Entry>,
}

/// One file or folder that setup wrote, or wrote in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) scope: Scope,
    /// The digest of the text that was written; empty for a folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) sha256: String,
    /// The version of this program that wrote it.
    pub(super) version: String,
    /// What was added to a file that is not ours alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) merge: Option<Merge>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// A hook file, ours alone.
    Hook,
    /// A policy file, written as a default for people to edit.
    Policy,
    /// A settings file of the host, which holds things of ours.
    Settings,
    /// The settings of OpenClaw, which hold things of ours.
    Openclaw,
    /// A file of the plugin for OpenClaw, ours alone.
    Plugin,
    /// Settings as they were before they were changed.
    Backup,
    /// A folder that had to be made.
    Folder,
}

impl Entry {
    pub(super) fn new(path: &Path, kind: Kind, scope: Scope, text: &str) -> Self {
        Self {
            path: path.to_path_buf(),
            kind,
            scope,
            sha256: if kind == Kind::Folder {
                String::new()
            } else {
                files::digest(text)
            },
            version: env!("CARGO_PKG_VERSION").to_owned(),
            merge: None,
        }
    }

    /// Whether the text is what was written.
    pub(super) fn wrote(&self, text: &str) -> bool {
        self.sha256 == files::digest(text)
    }
}

impl Manifest {
    /// The manifest of a state directory; an empty one if there is none.
    pub(super) fn load(state: &Path) -> Result<Self, SetupError> {
        let path = state.join(NAME);
        let Some(text) = files::read(&path)? else {
            return Ok(Self {
                v: FORMAT,
                entries: Vec::new(),
            });
        };
        let refused = |why: &str| {
            SetupError::new(
                format!("`{}` cannot be used: {why}", path.display()),
                "move it away: files that were installed then stay where they are",
            )
        };
        let manifest: Self =
            serde_json::from_str(&text).map_err(|error| refused(&error.to_string()))?;
        if manifest.v != FORMAT {
            return Err(refused("another version of this program wrote it"));
        }
        Ok(manifest)
    }

    /// Writes it down; an empty one is removed.
    pub(super) fn save(&self, state: &Path, mode: u32) -> Result<(), SetupError> {
        let path = state.join(NAME);
        let before = files::read(&path)?;
        if self.entries.is_empty() {
            return before.map_or(Ok(()), |_| files::remove(&path));
        }
        let text = serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|_| SetupError::new("the list of what was installed cannot be written", ""))?;
        if before.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        files::write(&path, &text, before.as_deref(), mode)
    }

    pub(super) fn find(&self, path: &Path) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.path == path)
    }

    /// Notes an entry instead of an earlier one for the same path.
    pub(super) fn put(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|old| old.path == entry.path) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    pub(super) fn forget(&mut self, path: &Path) {
        self.entries.retain(|entry| entry.path != path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::load(folder.path()).unwrap();
        let entry = Entry::new(Path::new("/a"), Kind::Hook, Scope::User, "text");
        manifest.put(entry.clone());
        manifest.put(entry);
        manifest.save(folder.path(), files::PRIVATE).unwrap();
        let again = Manifest::load(folder.path()).unwrap();
        assert_eq!(again, manifest);
        assert_eq!(again.entries.len(), 1);
        assert!(again.find(Path::new("/a")).unwrap().wrote("text"));
        manifest.forget(Path::new("/a"));
        manifest.save(folder.path(), files::PRIVATE).unwrap();
        assert!(!folder.path().join(NAME).exists());
    }

    #[test]
    fn one_of_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        for text in ["{}", "", r#"{"v":2,"entries":[]}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(Manifest::load(folder.path()).is_err(), "{text}");
        }
    }
}
