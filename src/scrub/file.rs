//! One file: read whole, and replaced in one step if it is still the one that was read.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::SystemTime;

use super::LARGEST;
use crate::facts::paths::words;

/// So many bytes show whether a file that is too large is one that nobody wants to look at.
const HEAD: usize = 8 << 10;

/// A file that was read.
#[derive(Debug)]
pub struct Opened {
    /// The file itself, at its beginning or behind what was read of it.
    pub file: File,
    /// What it was when it was opened.
    pub was: Identity,
}

/// What tells a file, and the state that it is in, from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    file: Option<(u64, u64)>,
    length: u64,
    modified: Option<SystemTime>,
}

/// Why a file was not read, or not replaced.
#[derive(Debug)]
pub enum Refusal {
    /// The system says no: to what, and why.
    Io(&'static str, io::Error),
    /// It is no plain file, and was not opened.
    Special,
    /// It is a link, which nobody follows here.
    Link,
    /// It has more bytes than are looked at.
    TooLarge,
    /// It has other names, under which it would stay as it is.
    OtherNames,
    /// It is not the one any more that was read.
    Changed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "it cannot be {what}: {}", words(error)),
            Self::Special => f.write_str("it is no plain file"),
            Self::Link => f.write_str("it is a link, which is not followed: name what it leads to"),
            Self::TooLarge => write!(
                f,
                "it has more than {} MiB, and was not looked at",
                LARGEST >> 20
            ),
            Self::OtherNames => {
                f.write_str("it has other names (hard links), and would stay as it is under them")
            }
            Self::Changed => f.write_str("it changed in the meantime"),
        }
    }
}

impl Refusal {
    fn read(error: io::Error) -> Self {
        Self::Io("read", error)
    }

    fn write(error: io::Error) -> Self {
        Self::Io("replaced", error)
    }
}

/// Opens a plain file, and nothing else: where the last name is a link, only if it may be one.
///
/// # Errors
/// If it is something else, or the system refuses.
pub fn open(path: &Path, may_be_link: bool) -> Result<Opened, Refusal> {
    let found = fs::symlink_metadata(path).map_err(Refusal::read)?;
    let found = match found.is_symlink() {
        true if may_be_link => fs::metadata(path).map_err(Refusal::read)?,
        true => return Err(Refusal::Link),
        false => found,
    };
    // Opening a pipe or a device may already do something.
    if !found.is_file() {
        return Err(Refusal::Special);
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use nix::fcntl::OFlag;
        use std::os::unix::fs::OpenOptionsExt;
        let mut flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        flags.set(OFlag::O_NOFOLLOW, !may_be_link);
        options.custom_flags(flags.bits());
    }
    let file = options.open(path).map_err(Refusal::read)?;
    let metadata = file.metadata().map_err(Refusal::read)?;
    if !metadata.is_file() {
        return Err(Refusal::Special);
    }
    let was = Identity::of(&metadata);
    Ok(Opened { file, was })
}

/// The bytes of a file. `None`: it is too large, but no text anyway.
///
/// # Errors
/// If it cannot be read, or is too large.
pub fn bytes(opened: &mut Opened) -> Result<Option<Vec<u8>>, Refusal> {
    let mut bytes = Vec::new();
    let most = LARGEST as u64 + 1;
    let large = opened.was.length > LARGEST as u64;
    let wanted = if large { HEAD as u64 } else { most };
    (&opened.file)
        .take(wanted)
        .read_to_end(&mut bytes)
        .map_err(Refusal::read)?;
    if large || bytes.len() > LARGEST {
        return if super::text::is_binary(&bytes) {
            Ok(None)
        } else {
            Err(Refusal::TooLarge)
        };
    }
    Ok(Some(bytes))
}

/// A new text for a file, beside it until it is complete.
#[derive(Debug)]
pub struct Fresh(tempfile::NamedTempFile);

impl Fresh {
    /// An empty one, which nobody else may read yet.
    ///
    /// # Errors
    /// If there cannot be a file beside that one, or it has other names.
    pub fn beside(path: &Path, opened: &Opened) -> Result<Self, Refusal> {
        let metadata = opened.file.metadata().map_err(Refusal::read)?;
        if names(&metadata) > 1 {
            return Err(Refusal::OtherNames);
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        tempfile::Builder::new()
            .prefix(".copilot-bridge-")
            .tempfile_in(folder)
            .map(Self)
            .map_err(Refusal::write)
    }

    /// Adds to it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.0.write_all(bytes).map_err(Refusal::write)
    }

    /// Puts it in the place of the file, with the same owner and mode, and perhaps the same time.
    ///
    /// # Errors
    /// If the file is not as it was when it was opened, or the system refuses.
    pub fn replace(self, path: &Path, opened: &Opened, keep_time: bool) -> Result<(), Refusal> {
        let was = opened.file.metadata().map_err(Refusal::read)?;
        let file = self.0.as_file();
        take_over(file, &was).map_err(Refusal::write)?;
        if keep_time && let Ok(modified) = was.modified() {
            let times = fs::FileTimes::new().set_modified(modified);
            file.set_times(times).map_err(Refusal::write)?;
        }
        file.sync_all().map_err(Refusal::write)?;
        let now = fs::symlink_metadata(path).map_err(|_| Refusal::Changed)?;
        if !now.is_file() || Identity::of(&now) != opened.was {
            return Err(Refusal::Changed);
        }
        self.0
            .persist(path)
            .map_err(|error| Refusal::write(error.error))?;
        // Some file systems refuse that; the rename is then as safe as they make it.
        if let Some(folder) = path.parent()
            && let Ok(folder) = File::open(folder)
        {
            drop(folder.sync_all());
        }
        Ok(())
    }
}

impl Identity {
    /// When it was last written.
    #[must_use]
    pub const fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// The numbers of device and file, where the system has such.
    #[must_use]
    pub const fn numbers(&self) -> Option<(u64, u64)> {
        self.file
    }

    fn of(metadata: &Metadata) -> Self {
        Self {
            file: numbers(metadata),
            length: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

#[cfg(unix)]
fn numbers(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(unix)]
fn names(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.nlink()
}

/// Gives a file the owner and the mode of another one.
#[cfg(unix)]
fn take_over(file: &File, was: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let is = file.metadata()?;
    if (is.uid(), is.gid()) != (was.uid(), was.gid()) {
        fchown(file, Some(was.uid()), Some(was.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(was.mode() & 0o7777))
}

#[cfg(not(unix))]
mod elsewhere {
    use std::fs::{File, Metadata};
    use std::io;

    pub(super) fn numbers(_: &Metadata) -> Option<(u64, u64)> {
        None
    }

    pub(super) fn names(_: &Metadata) -> u64 {
        1
    }

    pub(super) fn take_over(file: &File, was: &Metadata) -> io::Result<()> {
        file.set_permissions(was.permissions())
    }
}
#[cfg(not(unix))]
use elsewhere::{names, numbers, take_over};

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn mode_and_time_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut opened = open(&path, false).unwrap();
        assert_eq!(bytes(&mut opened).unwrap().unwrap(), b"old");
        let mut fresh = Fresh::beside(&path, &opened).unwrap();
        fresh.write(b"new").unwrap();
        fresh.replace(&path, &opened, true).unwrap();
        let now = fs::metadata(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(now.permissions().mode() & 0o777, 0o640);
        assert_eq!(now.modified().unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_changed_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let opened = open(&path, false).unwrap();
        let mut fresh = Fresh::beside(&path, &opened).unwrap();
        fresh.write(b"new").unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b" more").unwrap();
        let refused = fresh.replace(&path, &opened, false).unwrap_err();
        assert!(matches!(refused, Refusal::Changed));
        assert_eq!(fs::read(&path).unwrap(), b"old more");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_plain_files_of_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        symlink("a", folder.path().join("link")).unwrap();
        let link = open(&folder.path().join("link"), false).unwrap_err();
        assert!(matches!(link, Refusal::Link));
        assert!(open(&folder.path().join("link"), true).is_ok());
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(open(&pipe, true), Err(Refusal::Special)));
        fs::hard_link(&path, folder.path().join("b")).unwrap();
        let opened = open(&path, false).unwrap();
        let refused = Fresh::beside(&path, &opened).unwrap_err();
        assert!(matches!(refused, Refusal::OtherNames));
    }
}
