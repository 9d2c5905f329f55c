//! Files as setup handles them: read whole, written at once, checked for owner and mode.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::SetupError;

/// Mode of a file that concerns its owner only.
pub(super) const PRIVATE: u32 = 0o600;

/// Mode of a file that everybody may read.
pub(super) const SHARED: u32 = 0o644;

/// SHA-256 in hexadecimal.
pub(super) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The text of a file, or `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, SetupError> {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| {
            SetupError::new(
                format!("`{}` is not UTF-8", path.display()),
                "move it away, then try again",
            )
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SetupError::file("read", path, &error)),
    }
}

/// Whether a link stands at the path, whatever it leads to.
pub(super) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Writes a file at once: whoever reads it finds the old text or the new one, never a part.
///
/// `before` is what the caller found there: if that is no longer so, nothing is written.
pub(super) fn write(
    path: &Path,
    text: &str,
    before: Option<&str>,
    mode: u32,
) -> Result<(), SetupError> {
    let failed = |error: &std::io::Error| SetupError::file("write", path, error);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut fresh = tempfile::Builder::new()
        .prefix(".copilot-bridge-")
        .tempfile_in(folder)
        .map_err(|error| failed(&error))?;
    fresh
        .write_all(text.as_bytes())
        .and_then(|()| keep_owner(&fresh, path))
        .and_then(|()| set_mode(fresh.path(), mode))
        .and_then(|()| fresh.as_file().sync_all())
        .map_err(|error| failed(&error))?;
    if read(path)?.as_deref() != before {
        return Err(SetupError::new(
            format!("`{}` changed in the meantime", path.display()),
            "run the command again",
        ));
    }
    let placed = if before.is_some() {
        fresh.persist(path)
    } else {
        fresh.persist_noclobber(path)
    };
    placed.map_err(|error| failed(&error.error))?;
    sync_folder(folder);
    Ok(())
}

/// Removes a file.
pub(super) fn remove(path: &Path) -> Result<(), SetupError> {
    fs::remove_file(path).map_err(|error| SetupError::file("remove", path, &error))?;
    if let Some(folder) = path.parent() {
        sync_folder(folder);
    }
    Ok(())
}

/// Makes a folder and those above it; returns those that were made, the topmost first.
pub(super) fn make_folders(path: &Path, mode: u32) -> Result<Vec<PathBuf>, SetupError> {
    let mut missing: Vec<PathBuf> = path
        .ancestors()
        .take_while(|folder| !folder.exists())
        .map(Path::to_path_buf)
        .collect();
    missing.reverse();
    for folder in &missing {
        fs::create_dir(folder)
            .and_then(|()| set_mode(folder, mode))
            .map_err(|error| SetupError::file("create", folder, &error))?;
    }
    Ok(missing)
}

/// The mode of the folders around a file of this mode.
pub(super) const fn folder_mode(file: u32) -> u32 {
    if file & 0o044 == 0 { 0o700 } else { 0o755 }
}

/// The permission bits of a file, with the sticky bit.
#[cfg(unix)]
pub(super) fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    Some(fs::metadata(path).ok()?.mode() & 0o7777)
}

/// Who owns a file.
#[cfg(unix)]
pub(super) fn owner_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    Some(fs::metadata(path).ok()?.uid())
}

/// Whether the file may be run.
#[cfg(unix)]
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && mode_of(path).is_some_and(|mode| mode & 0o111 != 0)
}

/// Gives a new file the owner and group of the one that it replaces.
#[cfg(unix)]
fn keep_owner(fresh: &tempfile::NamedTempFile, old: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (Ok(old), Ok(own)) = (fs::metadata(old), fresh.as_file().metadata()) else {
        return Ok(());
    };
    let changed = |old: u32, own: u32| (old != own).then_some(old);
    let (user, group) = (changed(old.uid(), own.uid()), changed(old.gid(), own.gid()));
    match (user, group) {
        (None, None) => Ok(()),
        _ => fchown(fresh, user, group),
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

// Windows has other permissions, which a new file inherits from its folder.
#[cfg(not(unix))]
mod elsewhere {
    use std::path::Path;

    pub(in crate::setup) fn mode_of(_: &Path) -> Option<u32> {
        None
    }

    pub(in crate::setup) fn owner_of(_: &Path) -> Option<u32> {
        None
    }

    pub(in crate::setup) fn is_executable(path: &Path) -> bool {
        path.is_file()
    }

    pub(super) fn set_mode(_: &Path, _: u32) -> std::io::Result<()> {
        Ok(())
    }

    pub(super) fn keep_owner(_: &tempfile::NamedTempFile, _: &Path) -> std::io::Result<()> {
        Ok(())
    }
}
#[cfg(not(unix))]
pub(super) use elsewhere::{is_executable, mode_of, owner_of};
#[cfg(not(unix))]
use elsewhere::{keep_owner, set_mode};

/// A rename is safe after a crash only once its folder is on disk; some file systems refuse that.
fn sync_folder(folder: &Path) {
    if let Ok(opened) = fs::File::open(folder) {
        drop(opened.sync_all());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_in_the_meantime_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, "one", None, PRIVATE).unwrap();
        assert_eq!(mode_of(&path), Some(0o600));
        assert!(write(&path, "two", None, PRIVATE).is_err());
        assert!(write(&path, "two", Some("zero"), PRIVATE).is_err());
        write(&path, "two", Some("one"), SHARED).unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_missing_folders_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        let made = make_folders(&deep, 0o700).unwrap();
        assert_eq!(made, [folder.path().join("a"), deep.clone()]);
        assert!(make_folders(&deep, 0o755).unwrap().is_empty());
        assert_eq!(mode_of(&deep), Some(0o700));
    }
}
