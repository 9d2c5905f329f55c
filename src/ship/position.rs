//! How far a sink has acknowledged the record: `<sink id>.json`.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ShipError;
use super::sink::Sink;
use crate::audit::AuditError;
use crate::audit::private::{check_owner, create_private_dir, lock_file, private};

/// No position is longer.
const LARGEST: u64 = 16 << 10;

/// A line of the record, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The file's name.
    pub file: String,
    /// Where the next line begins, in bytes.
    pub offset: u64,
    /// How many bytes the line has, without its line feed.
    pub length: u64,
    /// Its number, or that of the last line before it that had one.
    pub seq: u64,
    /// Its id.
    pub id: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    version: u8,
    /// For people: which sink it is.
    sink: String,
    last: Mark,
    /// Since the first run.
    lines: u64,
    missing: u64,
    rejected: u64,
}

/// The position of a sink that no other process ships to meanwhile.
#[derive(Debug)]
pub(super) struct Held {
    /// The last line that was acknowledged.
    pub(super) mark: Option<Mark>,
    totals: [u64; 3],
    sink: String,
    dir: PathBuf,
    path: PathBuf,
    _lock: File,
}

impl Held {
    /// Takes the position, unless another process has it.
    pub(super) fn take(dir: &Path, sink: &Sink) -> Result<Self, ShipError> {
        create_private_dir(dir)?;
        let id = sink.id();
        let path = dir.join(format!("{id}.lock"));
        let lock = lock_file(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ShipError(format!(
                    "another process ships to `{}` already\nhelp: it holds `{}`",
                    sink.place(),
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => {
                return Err(AuditError::io("lock", &path, &error).into());
            }
        }
        let path = dir.join(format!("{id}.json"));
        let position = open(&path)?;
        let totals = position
            .as_ref()
            .map_or([0; 3], |one| [one.lines, one.missing, one.rejected]);
        Ok(Self {
            mark: position.map(|position| position.last),
            totals,
            sink: sink.place(),
            dir: dir.to_path_buf(),
            path,
            _lock: lock,
        })
    }

    /// Remembers the last line that was acknowledged, whole or not at all.
    pub(super) fn advance(
        &mut self,
        mark: Mark,
        lines: u64,
        missing: u64,
        rejected: u64,
    ) -> Result<(), ShipError> {
        for (total, more) in self.totals.iter_mut().zip([lines, missing, rejected]) {
            *total = total.saturating_add(more);
        }
        let [lines, missing, rejected] = self.totals;
        let position = Position {
            version: 1,
            sink: self.sink.clone(),
            last: mark.clone(),
            lines,
            missing,
            rejected,
        };
        self.write(&position)
            .map_err(|error| AuditError::io("write", &self.path, &error))?;
        self.mark = Some(mark);
        Ok(())
    }

    fn write(&self, position: &Position) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        let mut text = serde_json::to_vec(position)?;
        text.push(b'\n');
        file.write_all(&text)?;
        // Renamed before it is on the disk, it could be empty after a power cut.
        file.as_file().sync_data()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

/// The last line that a sink acknowledged.
pub(super) fn read(dir: &Path, sink: &Sink) -> Result<Option<Mark>, ShipError> {
    let path = dir.join(format!("{}.json", sink.id()));
    Ok(open(&path)?.map(|position| position.last))
}

fn open(path: &Path) -> Result<Option<Position>, ShipError> {
    let file = match private(OpenOptions::new().read(true)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(AuditError::io("open", path, &error).into()),
    };
    check_owner(&file, path)?;
    let mut text = Vec::new();
    file.take(LARGEST)
        .read_to_end(&mut text)
        .map_err(|error| AuditError::io("read", path, &error))?;
    match serde_json::from_slice::<Position>(&text) {
        Ok(position) if position.version == 1 && is_name(&position.last.file) => Ok(Some(position)),
        _ => Err(ShipError(format!(
            "`{}` is no position\nhelp: without that file, all that is in the record is sent again",
            path.display()
        ))),
    }
}

/// Whether it leads nowhere but to a file in the folder at hand.
fn is_name(text: &str) -> bool {
    Path::new(text).file_name() == Some(text.as_ref())
}
