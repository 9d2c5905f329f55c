//! Directories and files that decide: opened by descriptor, and judged by what was opened.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// Who may be able to write what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Root or the caller, and nobody else.
    OwnerOnly,
    /// It does not matter.
    Anyone,
}

/// Why something is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The system says no.
    Io(String),
    /// Somebody else could write it, or it is no plain file. The second text is the help.
    Unsafe(String, String),
    /// It has too many bytes.
    TooLarge,
}

#[cfg(unix)]
pub(super) use unix::Directory;

#[cfg(not(unix))]
pub(super) use portable::Directory;

/// A name as a message can hold it.
pub(super) fn printable(name: &str) -> String {
    super::diagnostic::quote(name)
}

/// Makes a directory and what is above it, where they are not there yet.
pub(super) fn create_dir(dir: &Path, mode: u32) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
    #[cfg(not(unix))]
    let _ = mode;
    builder.create(dir)
}

/// The permission bits of a file.
pub(super) fn mode(path: &Path) -> Option<u32> {
    #[cfg(unix)]
    return std::fs::symlink_metadata(path)
        .ok()
        .map(|meta| std::os::unix::fs::MetadataExt::mode(&meta) & 0o7777);
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Exchanges a directory for a copy of it that `change` was applied to. False: this system, or this
/// file system, cannot do that, and nothing was changed.
///
/// # Errors
/// If the copy cannot be made or changed. The directory is then as it was.
#[cfg(target_os = "linux")]
pub(super) fn exchange(dir: &Path, change: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<bool> {
    let dir = dir.canonicalize()?;
    let Some(beside) = dir.parent() else {
        return Ok(false);
    };
    let Ok(copy) = tempfile::Builder::new()
        .prefix(".publish-")
        .tempdir_in(beside)
    else {
        return Ok(false);
    };
    copy_all(&dir, copy.path())?;
    change(copy.path())?;
    // What is left in the temporary directory, and removed with it, is the old state.
    swap(copy.path(), &dir)
}

/// Exchanges two directories. False: this system, or this file system, cannot do that.
#[cfg(target_os = "linux")]
pub(super) fn swap(one: &Path, other: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn swap(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn exchange(_: &Path, _: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&target)?;
            copy_all(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

/// Replaces a file in one step: nobody ever sees half of it, also after a power cut.
pub(super) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let dir = path
        .parent()
        .ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".new-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = builder.tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The name is on the disk only once its directory is.
    #[cfg(unix)]
    File::open(dir)?.sync_all()?;
    Ok(())
}

/// The bytes of a file that is said to have `size` of them: the room for them is made at once.
fn read_at_most(file: &File, size: usize, limit: u64) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::with_capacity(size + 1);
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Refusal::Io(error.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(Refusal::TooLarge);
    }
    Ok(bytes)
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::os::fd::AsFd;

    use nix::dir::Dir;
    use nix::errno::Errno;
    use nix::fcntl::{AtFlags, OFlag, openat};
    use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
    use nix::unistd::geteuid;

    use super::{Path, Refusal, Trust, read_at_most};

    /// A directory that was opened and judged.
    pub(in crate::policy) struct Directory {
        dir: Dir,
    }

    impl Directory {
        /// Opens a directory; `None` if there is none.
        pub(in crate::policy) fn open(path: &Path, trust: Trust) -> Result<Option<Self>, Refusal> {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let dir = match Dir::open(path, flags, Mode::empty()) {
                Ok(dir) => dir,
                Err(Errno::ENOENT) => return Ok(None),
                Err(Errno::ELOOP | Errno::ENOTDIR) => {
                    return Err(Refusal::Unsafe(
                        "this is no directory, but a link or a file".to_owned(),
                        "name the directory itself".to_owned(),
                    ));
                }
                Err(error) => return Err(Refusal::Io(error.desc().to_owned())),
            };
            let stat = fstat(&dir).map_err(|error| Refusal::Io(error.desc().to_owned()))?;
            judge(&stat, trust)?;
            Ok(Some(Self { dir }))
        }

        /// The names in it, sorted.
        pub(in crate::policy) fn names(&mut self) -> Result<Vec<String>, Refusal> {
            let mut names = Vec::new();
            for entry in self.dir.iter() {
                let entry = entry.map_err(|error| Refusal::Io(error.desc().to_owned()))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            names.sort_unstable();
            Ok(names)
        }

        /// The directory of that name in it.
        pub(in crate::policy) fn directory(
            &self,
            name: &str,
            trust: Trust,
        ) -> Result<Self, Refusal> {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let dir = Dir::openat(self.dir.as_fd(), name, flags, Mode::empty());
            let dir = dir.map_err(|error| match error {
                Errno::ELOOP | Errno::ENOTDIR => Refusal::Unsafe(
                    "this is no directory, but a link or a file".to_owned(),
                    "put the directory itself here".to_owned(),
                ),
                error => Refusal::Io(error.desc().to_owned()),
            })?;
            let stat = fstat(&dir).map_err(|error| Refusal::Io(error.desc().to_owned()))?;
            judge(&stat, trust)?;
            Ok(Self { dir })
        }

        /// Whether that name in it is a directory.
        pub(in crate::policy) fn is_directory(&self, name: &str) -> bool {
            fstatat(self.dir.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| kind(&stat) == SFlag::S_IFDIR)
        }

        /// The bytes of a plain file in it.
        pub(in crate::policy) fn read(
            &self,
            name: &str,
            trust: Trust,
            limit: u64,
        ) -> Result<Vec<u8>, Refusal> {
            // Without O_NONBLOCK, opening a FIFO would wait for a writer for ever.
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let descriptor = openat(self.dir.as_fd(), name, flags, Mode::empty()).map_err(
                |error| match error {
                    Errno::ELOOP => not_plain(),
                    error => Refusal::Io(error.desc().to_owned()),
                },
            )?;
            let file = File::from(descriptor);
            let stat = fstat(&file).map_err(|error| Refusal::Io(error.desc().to_owned()))?;
            if kind(&stat) != SFlag::S_IFREG {
                return Err(not_plain());
            }
            judge(&stat, trust)?;
            let size = usize::try_from(stat.st_size).unwrap_or(0);
            if size as u64 > limit {
                return Err(Refusal::TooLarge);
            }
            read_at_most(&file, size, limit)
        }
    }

    fn not_plain() -> Refusal {
        Refusal::Unsafe(
            "this is no plain file".to_owned(),
            "put the file itself here: links, devices and pipes are not read".to_owned(),
        )
    }

    fn kind(stat: &FileStat) -> SFlag {
        SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
    }

    fn judge(stat: &FileStat, trust: Trust) -> Result<(), Refusal> {
        if trust == Trust::Anyone {
            return Ok(());
        }
        let caller = geteuid().as_raw();
        if stat.st_uid != 0 && stat.st_uid != caller {
            return Err(Refusal::Unsafe(
                format!("this belongs to the user with the number {}", stat.st_uid),
                "only root or you may own it".to_owned(),
            ));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(Refusal::Unsafe(
                format!(
                    "others than its owner may write this: its mode is {:04o}",
                    stat.st_mode & 0o7777
                ),
                "take that right away with `chmod go-w`".to_owned(),
            ));
        }
        Ok(())
    }
}

#[cfg(not(unix))]
mod portable {
    use std::fs;
    use std::io::ErrorKind;
    use std::path::PathBuf;

    use super::{File, Path, Refusal, Trust, read_at_most};

    /// A directory. Owners and modes are not judged on this platform.
    pub(in crate::policy) struct Directory {
        path: PathBuf,
    }

    impl Directory {
        /// Opens a directory; `None` if there is none.
        pub(in crate::policy) fn open(path: &Path, _trust: Trust) -> Result<Option<Self>, Refusal> {
            match fs::metadata(path) {
                Ok(_) => Ok(Some(Self {
                    path: path.to_owned(),
                })),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Refusal::Io(error.to_string())),
            }
        }

        /// The names in it, sorted.
        pub(in crate::policy) fn names(&mut self) -> Result<Vec<String>, Refusal> {
            let mut names = fs::read_dir(&self.path)
                .and_then(|entries| {
                    entries
                        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                        .collect::<Result<Vec<_>, _>>()
                })
                .map_err(|error| Refusal::Io(error.to_string()))?;
            names.sort_unstable();
            Ok(names)
        }

        /// The directory of that name in it.
        pub(in crate::policy) fn directory(
            &self,
            name: &str,
            _trust: Trust,
        ) -> Result<Self, Refusal> {
            let path = self.path.join(name);
            let metadata =
                fs::symlink_metadata(&path).map_err(|error| Refusal::Io(error.to_string()))?;
            if !metadata.is_dir() {
                return Err(Refusal::Unsafe(
                    "this is no directory, but a link or a file".to_owned(),
                    "put the directory itself here".to_owned(),
                ));
            }
            Ok(Self { path })
        }

        /// Whether that name in it is a directory.
        pub(in crate::policy) fn is_directory(&self, name: &str) -> bool {
            fs::symlink_metadata(self.path.join(name)).is_ok_and(|meta| meta.is_dir())
        }

        /// The bytes of a plain file in it.
        pub(in crate::policy) fn read(
            &self,
            name: &str,
            _trust: Trust,
            limit: u64,
        ) -> Result<Vec<u8>, Refusal> {
            let path = self.path.join(name);
            let metadata =
                fs::symlink_metadata(&path).map_err(|error| Refusal::Io(error.to_string()))?;
            if !metadata.is_file() {
                return Err(Refusal::Unsafe(
                    "this is no plain file".to_owned(),
                    "put the file itself here".to_owned(),
                ));
            }
            let size = usize::try_from(metadata.len()).unwrap_or(0);
            if metadata.len() > limit {
                return Err(Refusal::TooLarge);
            }
            let file = File::open(&path).map_err(|error| Refusal::Io(error.to_string()))?;
            read_at_most(&file, size, limit)
        }
    }
}
