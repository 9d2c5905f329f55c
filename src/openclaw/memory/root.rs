//! One folder, and the files that may be read in it. Names lead nowhere else, whatever they hold, and
//! whatever links are put in their way in the meantime (R-000-40).

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::fault::{Fault, is_circle};
use super::places::PREFERENCES;
use crate::facts::beneath::Beneath;
use crate::facts::paths::lexical;

/// No file that is larger is read, in bytes.
pub(super) const FILE_LIMIT: u64 = 4 << 20;

/// No more names of a folder are looked at.
const MOST_NAMES: usize = 20_000;

/// What of a folder may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// It is a workspace: `MEMORY.md`, `USER.md`, and everything below `memory/`.
    Workspace,
    /// It is all memory.
    Memory,
    /// Its `USER.md`, which may be a link to the workspace's.
    Preferences,
}

impl Holds {
    /// Whether a path within the folder may be read; `.` is the folder.
    fn reads(self, inner: &Path) -> bool {
        let top = inner.components().next();
        let top = top.and_then(|name| name.as_os_str().to_str());
        let alone = inner.components().count() == 1;
        match self {
            Self::Memory => true,
            Self::Workspace => match top {
                None | Some("memory") => true,
                Some(name) => alone && [super::DEFAULT_FILE, PREFERENCES].contains(&name),
            },
            Self::Preferences => {
                inner == Path::new(PREFERENCES) || inner == Path::new("workspace").join(PREFERENCES)
            }
        }
    }
}

/// A folder.
#[derive(Debug, Clone)]
pub(super) struct Root {
    /// Absolute, without `.` and `..`.
    dir: PathBuf,
    holds: Holds,
}

/// A path without links, and the folder that it is in.
struct Inside {
    root: PathBuf,
    inner: PathBuf,
}

impl Root {
    pub(super) fn new(dir: &Path, holds: Holds) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self {
            dir: lexical(&dir),
            holds,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn is_there(&self) -> bool {
        self.dir.is_dir()
    }

    /// The text of a file; what is no UTF-8 in it is replaced.
    pub(super) fn read(&self, file: &str) -> Result<String, Fault> {
        let bytes = self.bytes(file)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// The names in a folder that end in `.md`, in the order of their bytes.
    pub(super) fn notes(&self, folder: &str) -> Vec<String> {
        let Ok(Inside { root, inner }) = self.find(folder) else {
            return Vec::new();
        };
        let entries = fs::read_dir(root.join(inner)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .take(MOST_NAMES)
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.ends_with(".md"))
            .collect();
        names.sort_unstable();
        names
    }

    fn bytes(&self, file: &str) -> Result<Vec<u8>, Fault> {
        let Inside { root, inner } = self.find(file)?;
        let opened = Beneath::new(&root).and_then(|root| root.open_straight(&inner));
        let opened = opened.map_err(|error| {
            if is_circle(&error) {
                // The path had no links a moment ago.
                return Fault::OutsideByLink(file.to_owned());
            }
            Fault::of(&error, "open", &self.dir.join(file))
        })?;
        let failed = |error: io::Error| Fault::of(&error, "read", &self.dir.join(file));
        let metadata = opened.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Fault::Folder);
        }
        if !metadata.is_file() {
            return Err(Fault::NoFile);
        }
        let mut bytes = Vec::new();
        if metadata.len() <= FILE_LIMIT {
            let mut some = opened.take(FILE_LIMIT + 1);
            some.read_to_end(&mut bytes).map_err(failed)?;
        }
        if metadata.len() > FILE_LIMIT || bytes.len() as u64 > FILE_LIMIT {
            return Err(Fault::TooLarge(FILE_LIMIT));
        }
        Ok(bytes)
    }

    /// Where a name leads, if that is inside, both as it is written and with its links followed.
    fn find(&self, file: &str) -> Result<Inside, Fault> {
        if file.contains('\0') {
            return Err(Fault::NullByte);
        }
        let written = lexical(&self.dir.join(file));
        let Ok(inner) = written.strip_prefix(&self.dir) else {
            return Err(Fault::Outside(file.to_owned()));
        };
        if !self.holds.reads(inner) {
            return Err(Fault::NoMemory(file.to_owned()));
        }
        let failed = |error: io::Error| Fault::of(&error, "realpath", &written);
        let root = self.dir.canonicalize().map_err(failed)?;
        let real = written.canonicalize().map_err(failed)?;
        let inner = real.strip_prefix(&root).ok();
        match inner.filter(|inner| self.holds.reads(inner)) {
            Some(inner) => Ok(Inside {
                inner: inner.to_owned(),
                root,
            }),
            None => Err(Fault::OutsideByLink(file.to_owned())),
        }
    }
}
