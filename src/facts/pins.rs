//! The workspace of a session, as it was when the session started.
//!
//! An agent that moves on to another folder takes no rights with it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// A session that starts longer after another is not the same any more.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The workspace roots of sessions, in `<state>/sessions`.
#[derive(Debug, Clone)]
pub struct Pins {
    dir: PathBuf,
}

impl Pins {
    /// The roots that are kept below that state directory.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self {
            dir: state.join("sessions"),
        }
    }

    /// Keeps the root of a session that starts.
    ///
    /// # Errors
    /// If the state directory cannot be written.
    pub fn keep(&self, session: &str, root: &Path) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.dir)?;
        for entry in self.dir.read_dir()?.flatten() {
            let old = |entry: &fs::DirEntry| entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            if old(&entry).is_some_and(|age| age > KEPT) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(root.as_os_str().as_encoded_bytes())?;
        file.persist(self.file(session))
            .map_err(|error| error.error)?;
        Ok(())
    }

    /// The root of a session; `None` if nobody told that it started.
    ///
    /// # Errors
    /// If what was kept cannot be read.
    pub fn root(&self, session: &str) -> io::Result<Option<PathBuf>> {
        let file = self.file(session);
        // A FIFO would never end.
        if file.symlink_metadata().is_ok_and(|meta| !meta.is_file()) {
            return Err(io::Error::other("it is no plain file"));
        }
        match fs::read(file) {
            Ok(bytes) => path(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ids are the host's; a digest makes any of them a file name.
    fn file(&self, session: &str) -> PathBuf {
        let digest = Sha256::digest(session.as_bytes());
        self.dir.join(HEXLOWER.encode(&digest))
    }
}

#[cfg(unix)]
fn path(bytes: &[u8]) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn path(bytes: &[u8]) -> io::Result<PathBuf> {
    std::str::from_utf8(bytes)
        .map(|text| PathBuf::from(OsStr::new(text)))
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_its_root() {
        let dir = tempfile::tempdir().unwrap();
        let pins = Pins::new(dir.path());
        assert_eq!(pins.root("s").unwrap(), None);
        pins.keep("s", Path::new("/work/ws")).unwrap();
        pins.keep("t", Path::new("/work/other")).unwrap();
        assert_eq!(pins.root("s").unwrap(), Some(PathBuf::from("/work/ws")));
        pins.keep("s", Path::new("/work/again")).unwrap();
        assert_eq!(pins.root("s").unwrap(), Some(PathBuf::from("/work/again")));
    }

    #[test]
    fn a_root_that_is_a_fifo_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let pins = Pins::new(dir.path());
        pins.keep("s", Path::new("/work/ws")).unwrap();
        let file = pins.file("s");
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(pins.root("s").is_err());
    }
}
