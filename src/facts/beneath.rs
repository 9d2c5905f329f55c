//! Files below a folder, whatever links somebody puts there while we look.
//!
//! The system itself refuses to leave the folder (`openat2`, Linux 5.6). Elsewhere a path is resolved
//! first, which a link that is made in that moment can deceive.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};

/// A folder that nothing is opened outside of.
#[derive(Debug)]
pub struct Beneath {
    #[cfg(target_os = "linux")]
    root: File,
    #[cfg(not(target_os = "linux"))]
    root: std::path::PathBuf,
}

impl Beneath {
    /// That folder.
    ///
    /// # Errors
    /// If it is none, or may not be read.
    pub fn new(root: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            let root = File::open(root)?;
            if !root.metadata()?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            Ok(Self { root })
        }
        #[cfg(not(target_os = "linux"))]
        {
            Ok(Self {
                root: root.canonicalize()?,
            })
        }
    }

    /// Opens a file or folder for reading. Links are followed as long as they stay below.
    ///
    /// # Errors
    /// If it is not there, or leads outside.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.at(path, false)
    }

    /// The same for a path that has no links: none is followed, wherever it leads.
    ///
    /// # Errors
    /// If it is not there, leads outside, or a link is on the way.
    pub fn open_straight(&self, path: &Path) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            self.resolving(path, false, ResolveFlags::NO_SYMLINKS)
        }
        #[cfg(not(target_os = "linux"))]
        self.at(path, false)
    }

    /// Makes a file, with the folders above it, or empties the one that is there.
    ///
    /// # Errors
    /// If that cannot be done, or leads outside.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !path.components().all(plain) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut above = std::path::PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            above.push(part);
            self.make_dir(&above)?;
        }
        self.at(path, true)
    }

    #[cfg(target_os = "linux")]
    fn at(&self, path: &Path, create: bool) -> io::Result<File> {
        self.resolving(path, create, rustix::fs::ResolveFlags::empty())
    }

    #[cfg(target_os = "linux")]
    fn resolving(
        &self,
        path: &Path,
        create: bool,
        more: rustix::fs::ResolveFlags,
    ) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        // Without NONBLOCK, a pipe that somebody left there would be waited for.
        let flags = if create {
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC
        } else {
            OFlags::RDONLY
        };
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let mode = if create {
            Mode::from_raw_mode(0o666)
        } else {
            Mode::empty()
        };
        let file = openat2(
            &self.root,
            path,
            flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY,
            mode,
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more,
        )?;
        Ok(File::from(file))
    }

    #[cfg(target_os = "linux")]
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        use rustix::fs::{Mode, mkdirat};
        let above = match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => self.at(above, false)?,
            _ => self.root.try_clone()?,
        };
        let Some(name) = path.file_name() else {
            return Ok(());
        };
        match mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn at(&self, path: &Path, create: bool) -> io::Result<File> {
        let full = self.root.join(path);
        let (above, name) = match (full.parent(), full.file_name()) {
            (Some(above), Some(name)) if !full.exists() => (above.canonicalize()?, Some(name)),
            _ => (full.canonicalize()?, None),
        };
        let full = name.map_or_else(|| above.clone(), |name| above.join(name));
        if !full.starts_with(&self.root) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        if create {
            File::create(full)
        } else {
            File::open(full)
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(self.root.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// The names in a folder that was opened, folders with a `/` behind them, in order.
///
/// # Errors
/// If it is no folder, or may not be read.
pub fn names(dir: &File, most: usize) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in read_dir(dir)?.take(most) {
        let entry = entry?;
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            name.push('/');
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(target_os = "linux")]
fn read_dir(dir: &File) -> io::Result<fs::ReadDir> {
    use std::os::fd::AsRawFd;
    // By its descriptor: the path may lead elsewhere by now.
    fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn read_dir(_: &File) -> io::Result<fs::ReadDir> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_leads_out() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("in/a"), "hello").unwrap();
        symlink("in/a", dir.path().join("good")).unwrap();
        symlink(outside.path(), dir.path().join("bad")).unwrap();
        symlink("/proc/self/fd/0", dir.path().join("magic")).unwrap();
        let beneath = Beneath::new(dir.path()).unwrap();
        let mut text = String::new();
        let mut file = beneath.open(Path::new("good")).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        for path in ["bad/secret", "../x", "/etc/hostname", "magic", "in/../../x"] {
            assert!(beneath.open(Path::new(path)).is_err(), "{path}");
            assert!(beneath.create(Path::new(path)).is_err(), "{path}");
        }
        assert!(!outside.path().join("new").exists());
        let mut file = beneath.create(Path::new("new/deep/file")).unwrap();
        file.write_all(b"y").unwrap();
        assert_eq!(fs::read(dir.path().join("new/deep/file")).unwrap(), b"y");
        let root = beneath.open(Path::new("")).unwrap();
        assert_eq!(
            names(&root, 9).unwrap(),
            ["bad", "good", "in/", "magic", "new/"]
        );
    }
    #[test]
    fn a_straight_path_has_no_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("in/a"), "hello").unwrap();
        symlink("in/a", dir.path().join("file")).unwrap();
        symlink("in", dir.path().join("folder")).unwrap();
        let beneath = Beneath::new(dir.path()).unwrap();
        assert!(beneath.open_straight(Path::new("in/a")).is_ok());
        for path in ["file", "folder/a", "in/../../x", "/etc/hostname"] {
            assert!(beneath.open_straight(Path::new(path)).is_err(), "{path}");
        }
    }
}
