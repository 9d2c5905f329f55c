//! Other names of a file: by device and inode, as the file system has it, not by text.
//!
//! A bind mount, a hard link or a file system that does not tell upper from lower case gives one
//! file several names. Policies name it by one of them.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// Folders further down than this are not searched for a hard link's other name.
const DEEP: usize = 3;

/// Nor more entries than this.
const MOST: usize = 512;

/// The files and folders that policies name, by what they are.
#[derive(Debug, Clone, Default)]
pub struct Names {
    known: Vec<(Id, PathBuf)>,
}

/// A device and an inode on it.
type Id = (u64, u64);

impl Names {
    /// What stands at these paths now. Links are followed; what is not there has no other name.
    #[must_use]
    pub fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let known = paths
            .into_iter()
            .filter_map(|path| Some((id(&path.metadata().ok()?)?, path)))
            .collect();
        Self { known }
    }

    /// The paths by which policies know `target`, or a folder above it, besides its own. `target` is
    /// resolved; `hard_link` tells that it is a file that has another name.
    #[must_use]
    pub fn others(&self, target: &Path, hard_link: bool) -> Vec<PathBuf> {
        let mut others = Vec::new();
        for above in target.ancestors() {
            let Some(id) = above.symlink_metadata().ok().as_ref().and_then(id) else {
                continue;
            };
            for (_, path) in self.known.iter().filter(|known| known.0 == id) {
                let Ok(rest) = target.strip_prefix(above) else {
                    continue;
                };
                let other = match rest.as_os_str().is_empty() {
                    true => path.clone(),
                    false => path.join(rest),
                };
                if other != target && !others.contains(&other) {
                    others.push(other);
                }
            }
        }
        if hard_link && let Some(id) = target.symlink_metadata().ok().as_ref().and_then(id) {
            let mut left = MOST;
            let apart = |path: &&PathBuf| !target.starts_with(path);
            for path in self.known.iter().map(|known| &known.1).filter(apart) {
                find(path, id, DEEP, &mut left, &mut others);
            }
            others.retain(|other| other != target);
        }
        others
    }
}

/// The files below `folder` that are `wanted`.
fn find(folder: &Path, wanted: Id, deep: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        // Of the entry itself: a link is not followed.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() && deep > 1 {
            find(&entry.path(), wanted, deep - 1, left, found);
        } else if id(&metadata) == Some(wanted) && !found.contains(&entry.path()) {
            found.push(entry.path());
        }
    }
}

#[cfg(unix)]
fn id(metadata: &Metadata) -> Option<Id> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn id(_: &Metadata) -> Option<Id> {
    None
}

/// Which mount a path lies on: where it does not exist, the nearest folder above it. Linux only.
#[cfg(target_os = "linux")]
#[must_use]
pub fn mount(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    path.ancestors().find_map(|path| {
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID).ok()?;
        let told = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        // A kernel before 5.8 tells the device alone.
        let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
        Some(if told { found.stx_mnt_id } else { device })
    })
}

#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn mount(_: &Path) -> Option<u64> {
    None
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hard_link_is_known_by_its_other_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("keys/deep")).unwrap();
        fs::create_dir(root.join("ws")).unwrap();
        fs::write(root.join("keys/deep/id"), "x").unwrap();
        fs::hard_link(root.join("keys/deep/id"), root.join("ws/notes")).unwrap();
        fs::write(root.join("ws/other"), "x").unwrap();
        let names = Names::of([root.join("keys"), root.join("gone")]);
        let others = |name: &str| names.others(&root.join(name), true);
        assert_eq!(others("ws/notes"), [root.join("keys/deep/id")]);
        assert_eq!(others("ws/other"), Vec::<PathBuf>::new());
        assert_eq!(others("keys/deep/id"), Vec::<PathBuf>::new());
        let whole = Names::of([root.join("ws")]);
        assert_eq!(
            whole.others(&root.join("ws/notes"), true),
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn what_is_named_through_a_link_is_known_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let names = Names::of([root.join("link")]);
        let others = names.others(&root.join("real/a/b"), false);
        assert_eq!(others, [root.join("link/a/b")]);
    }
}
