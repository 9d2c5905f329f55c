//! The tree of files that a plan is made from.

use std::ffi::OsString;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use crate::facts::paths;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// Anything else.
    File,
}

/// The files that a plan looks at.
pub trait Tree {
    /// What stands there, without following a link at its end.
    fn kind(&self, path: &Path) -> Option<Kind>;
    /// What is in a folder, or `None` if it cannot be seen.
    fn list(&self, dir: &Path) -> Option<Vec<(OsString, Kind)>>;
    /// Where a path leads, every link followed, be there something or not.
    fn target(&self, path: &Path) -> PathBuf;
}

/// The file system.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Tree for Disk {
    fn kind(&self, path: &Path) -> Option<Kind> {
        path.symlink_metadata()
            .ok()
            .map(|metadata| kind(metadata.file_type()))
    }

    fn list(&self, dir: &Path) -> Option<Vec<(OsString, Kind)>> {
        fs::read_dir(dir)
            .ok()?
            .map(|entry| {
                let entry = entry.ok()?;
                Some((entry.file_name(), kind(entry.file_type().ok()?)))
            })
            .collect()
    }

    fn target(&self, path: &Path) -> PathBuf {
        path.to_str()
            .map(|text| paths::resolve(text, Path::new("/"), None))
            .filter(|resolved| resolved.fault.is_none())
            .map_or_else(|| path.to_path_buf(), |resolved| resolved.target)
    }
}

fn kind(kind: FileType) -> Kind {
    if kind.is_dir() {
        Kind::Folder
    } else if kind.is_symlink() {
        Kind::Link
    } else {
        Kind::File
    }
}
