//! What an installation remembers of bundles, outside of the directory that they are put into.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bundle::Name;
use super::{Refusal, printable};
use crate::audit::AuditError;
use crate::audit::private::lock_file;
use crate::policy::compile::Readers;

/// The directory, below that of the state.
const DIR: &str = "bundles";

/// The largest file, in bytes.
const LIMIT: u64 = 64 << 10;

/// Of one name, what was put in force last and what happened since. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    /// The last one that was put in force: no lower version is.
    pub(super) last: Option<Last>,
    /// When somebody last looked whether there is another, and all was well.
    pub(super) checked: Option<i64>,
    /// The last failure, if all was well before it only.
    pub(super) failed: Option<Failure>,
}

/// What was put in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Last {
    pub(super) version: u64,
    pub(super) identity: String,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    pub(super) at: i64,
    pub(super) why: String,
}

/// The folder of what is remembered.
pub(super) struct Folder {
    dir: PathBuf,
    mode: u32,
}

impl Folder {
    pub(super) fn of(state: &Path, readers: Readers) -> Self {
        Self {
            dir: state.join(DIR),
            mode: match readers {
                Readers::Owner => 0o600,
                Readers::Everyone => 0o644,
            },
        }
    }

    /// Makes the folder, and takes its lock.
    pub(super) fn lock(&self) -> Result<File, Refusal> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, self.mode | (self.mode & 0o444) >> 2);
        builder
            .create(&self.dir)
            .map_err(|error| AuditError::io("make", &self.dir, &error))?;
        let path = self.dir.join("lock");
        let lock = lock_file(&path)?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => {
                Err(Refusal::new("another process is putting a bundle in force"))
            }
            Err(TryLockError::Error(error)) => Err(AuditError::io("lock", &path, &error).into()),
        }
    }

    /// What is remembered of that name.
    ///
    /// # Errors
    /// If it is there but cannot be read: nobody knows then which versions are too old.
    pub(super) fn read(&self, name: &Name) -> Result<Memory, Refusal> {
        let path = self.memory(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memory::default()),
            Err(error) => return Err(AuditError::io("read", &path, &error).into()),
        };
        let mut text = Vec::new();
        let read = io::Read::read_to_end(&mut io::Read::take(file, LIMIT), &mut text);
        read.map_err(|error| AuditError::io("read", &path, &error))?;
        serde_json::from_slice(&text).map_err(|_| {
            Refusal::new(format!(
                "`{}` does not say which version was the last one\nhelp: remove it, if any version may be put in force",
                printable(&path.display().to_string())
            ))
        })
    }

    pub(super) fn write(&self, name: &Name, memory: &Memory) -> Result<(), Refusal> {
        let bytes = serde_json::to_vec(memory).unwrap_or_default();
        self.put(&self.memory(name), &bytes)
    }

    /// Keeps the file of the bundle that is in force.
    pub(super) fn keep(&self, name: &Name, bytes: &[u8]) -> Result<(), Refusal> {
        self.put(&self.kept(name), bytes)
    }

    /// Where the file of the bundle that is in force is kept.
    pub(super) fn kept(&self, name: &Name) -> PathBuf {
        self.dir.join(format!("{name}.bundle"))
    }

    /// Copies a directory that is about to be replaced, and says where to.
    pub(super) fn set_aside(&self, policies: &Path, now: i64) -> Result<PathBuf, Refusal> {
        let to = self.dir.join("replaced").join(now.to_string());
        copy(policies, &to).map_err(|error| AuditError::io("copy", policies, &error))?;
        Ok(to)
    }

    fn memory(&self, name: &Name) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
        let put = || -> io::Result<()> {
            let mut builder = tempfile::Builder::new();
            builder.prefix(".new-");
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(self.mode));
            let mut file = builder.tempfile_in(&self.dir)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        put().map_err(|error| AuditError::io("write", path, &error).into())
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
