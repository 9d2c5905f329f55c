//! Files that only their owner may use.

use std::fs::{self, File, Metadata, OpenOptions};
use std::path::Path;

use super::AuditError;
use super::origin::uid;

/// A file that only its owner may use, and that is never reached through a link.
#[cfg(unix)]
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options
        .mode(0o600)
        .custom_flags((nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits())
}

#[cfg(not(unix))]
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Opens a file to append to it, and makes it if need be. It is a plain file that only its owner may
/// use, or nothing is opened; nobody waits for a reader.
pub(crate) fn append_privately(path: &Path) -> Result<File, AuditError> {
    let file = private(OpenOptions::new().create(true).append(true))
        .open(path)
        .map_err(|error| AuditError::io("open", path, &error))?;
    check_owner(&file, path)?;
    Ok(file)
}

/// Makes a directory, and those above it, that only its owner may use.
pub(crate) fn create_private_dir(dir: &Path) -> Result<(), AuditError> {
    // It is there but for the first time.
    if dir.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(dir)
        .map_err(|error| AuditError::io("make", dir, &error))
}

/// A file that is there to be locked, made if there is none yet.
pub(crate) fn lock_file(path: &Path) -> Result<File, AuditError> {
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).truncate(false);
    let file = private(&mut options)
        .open(path)
        .map_err(|error| AuditError::io("open", path, &error))?;
    check_owner(&file, path)?;
    Ok(file)
}

/// A file that belongs to the caller or root, is a plain file, and that nobody else can use.
#[cfg(unix)]
pub(crate) fn check_owner(file: &File, path: &Path) -> Result<Metadata, AuditError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file
        .metadata()
        .map_err(|error| AuditError::io("look at", path, &error))?;
    let refuse = |why: &str| Err(AuditError(format!("`{}` {why}", path.display())));
    if !metadata.is_file() {
        return refuse("is no plain file");
    }
    if metadata.uid() != uid() && metadata.uid() != 0 {
        return refuse("belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse("can be used by others than its owner");
    }
    Ok(metadata)
}

#[cfg(not(unix))]
pub(crate) fn check_owner(file: &File, path: &Path) -> Result<Metadata, AuditError> {
    file.metadata()
        .map_err(|error| AuditError::io("look at", path, &error))
}
