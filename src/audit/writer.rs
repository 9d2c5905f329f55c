//! Appending a line: under a lock, in one write, chained to the line before.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::key::Key;
use super::origin::{boot, host, monotonic, uid};
use super::private::{check_owner, create_private_dir, private};
use super::record::v1::{self, Entry, Kind, Stamp};
use super::{AuditError, read};
use crate::engine::bundle::Durability;
use crate::engine::decision::Effect;

/// What the first line of all is chained to.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// How far back the last line is looked for at first: few lines are longer.
const TAIL: u64 = 8 << 10;

/// The most bytes of notes about late answers that are read.
const NOTE_BYTES: u64 = 64 << 10;

/// Where notes about late answers wait, below the state directory.
const NOTES: &str = "audit/superseded";

/// So many of them are taken into the record at once.
const NOTES_AT_ONCE: usize = 64;

/// The record of one installation.
#[derive(Debug)]
pub struct Log {
    state: PathBuf,
    dir: PathBuf,
    key: Key,
    durability: Durability,
}

/// Where a line ended up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The line's number.
    pub seq: u64,
    /// The file.
    pub file: PathBuf,
}

/// A note that a denial went out before its line was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// The process that answered.
    pub pid: u32,
    /// The event.
    pub event: String,
    /// When, as in the record.
    pub ts: String,
    /// How long it had taken, in microseconds.
    pub latency_us: u64,
}

/// The end of the record, as the next line needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    seq: u64,
    prev: String,
    /// The bytes of a line that was cut short.
    torn: Option<Vec<u8>>,
}

impl Log {
    /// The record below a state directory, or in a directory of its own.
    ///
    /// # Errors
    /// If its directory or the installation's key cannot be made or used.
    pub fn open(
        state: &Path,
        dir: Option<PathBuf>,
        durability: Durability,
    ) -> Result<Self, AuditError> {
        let dir = match dir {
            Some(dir) => dir,
            None => {
                let dir = state.join("audit");
                create_private_dir(&dir)?;
                dir
            }
        };
        Ok(Self {
            key: Key::of(state)?,
            state: state.to_path_buf(),
            dir,
            durability,
        })
    }

    /// The installation's key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Appends one line. When this returns, it is written; with `sync`, it is on the disk itself.
    ///
    /// # Errors
    /// If the line is not in the record whole. What was written of it is taken back.
    pub fn append(&self, entry: &Entry<'_>, sync: bool) -> Result<Position, AuditError> {
        let mut lock = self.lock()?;
        let now = jiff::Timestamp::now();
        let path = self.day(&mut lock, now)?;
        let mut file = private(OpenOptions::new().create(true).append(true).read(true))
            .open(&path)
            .map_err(|error| AuditError::io("open", &path, &error))?;
        check_owner(&file, &path)?;
        let mut end = self.end(&mut file, &path)?;
        let mut pen = Pen {
            file: &mut file,
            path: &path,
            key: &self.key,
            stamp: stamp(now),
        };
        if let Some(torn) = end.torn.take() {
            pen.recover(&mut end, &torn)?;
        }
        let notes = self.state.join(NOTES);
        if notes.symlink_metadata().is_ok() {
            pen.supersede(&mut end, &notes)?;
        }
        pen.write(&mut end, entry)?;
        // Whoever waits for the lock need not wait for the disk as well.
        drop(lock);
        if (sync || self.durability == Durability::Sync)
            && let Err(error) = file.sync_data()
        {
            // The line stands in the file, but what it says is not what the host is told.
            let _ = note_late(&self.state, entry.event, entry.latency_us);
            return Err(AuditError::io("sync", &path, &error));
        }
        Ok(Position {
            seq: end.seq,
            file: path,
        })
    }

    /// Waits for the lock. The door's watchdog bounds the wait.
    fn lock(&self) -> Result<File, AuditError> {
        let path = self.dir.join("lock");
        let file = private(
            OpenOptions::new()
                .create(true)
                .read(true)
                .write(true)
                .truncate(false),
        )
        .open(&path)
        .map_err(|error| AuditError::io("open", &path, &error))?;
        check_owner(&file, &path)?;
        file.lock()
            .map_err(|error| AuditError::io("lock", &path, &error))?;
        Ok(file)
    }

    /// The file of the day. The lock file holds the newest day, so that a clock that went back
    /// does not put a line behind an older one.
    fn day(&self, lock: &mut File, now: jiff::Timestamp) -> Result<PathBuf, AuditError> {
        let today = now.strftime("%Y-%m-%d").to_string();
        let mut newest = String::new();
        let failed = |error: std::io::Error| AuditError::io("read the lock in", &self.dir, &error);
        Read::by_ref(lock)
            .take(16)
            .read_to_string(&mut newest)
            .map_err(failed)?;
        let newest = newest.trim();
        let day = if newest > today.as_str() && newest.parse::<jiff::civil::Date>().is_ok() {
            newest.to_owned()
        } else {
            today
        };
        if day != newest {
            lock.seek(SeekFrom::Start(0)).map_err(failed)?;
            // A lock file that cannot be written costs the protection, not the record.
            let _ = lock.write_all(day.as_bytes());
        }
        Ok(self.dir.join(format!("audit-{day}.jsonl")))
    }

    fn end(&self, file: &mut File, path: &Path) -> Result<End, AuditError> {
        let failed = |error: std::io::Error| AuditError::io("read", path, &error);
        let length = file.metadata().map_err(failed)?.len();
        let torn = match end_of(file, length).map_err(failed)? {
            end if end.seq > 0 => return Ok(end),
            end => end.torn,
        };
        // No whole line stands here: the chain goes on from the last one of an earlier day, whose
        // own torn line stays as it is.
        for day in read::days(&self.dir)?.into_iter().rev() {
            if day.as_path() >= path {
                continue;
            }
            let failed = |error: std::io::Error| AuditError::io("read", &day, &error);
            let mut file = read::open(&day).map_err(failed)?;
            let length = file.metadata().map_err(failed)?.len();
            let end = end_of(&mut file, length).map_err(failed)?;
            if end.seq > 0 {
                return Ok(End { torn, ..end });
            }
        }
        Ok(End {
            seq: 0,
            prev: GENESIS.to_owned(),
            torn,
        })
    }
}

/// Leaves a note that a denial went out before the line was written. Never waits for the lock.
///
/// # Errors
/// If the note cannot be written; there is then nobody left to tell.
pub fn note_late(state: &Path, event: &str, latency_us: u64) -> Result<(), AuditError> {
    let path = state.join(NOTES);
    let late = Late {
        pid: std::process::id(),
        event: event.to_owned(),
        ts: time(jiff::Timestamp::now()),
        latency_us,
    };
    let line = format!("{}\n", json!(late));
    private(OpenOptions::new().create(true).append(true))
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| AuditError::io("write", &path, &error))
}

/// Writes lines while the lock is held.
struct Pen<'a> {
    file: &'a mut File,
    path: &'a Path,
    key: &'a Key,
    stamp: Stamp,
}

impl Pen<'_> {
    /// One line in one write. What is not written whole is taken back.
    fn write(&mut self, end: &mut End, entry: &Entry<'_>) -> Result<(), AuditError> {
        self.append(end, entry, b"")
    }

    fn append(
        &mut self,
        end: &mut End,
        entry: &Entry<'_>,
        before: &[u8],
    ) -> Result<(), AuditError> {
        self.stamp.seq = end.seq + 1;
        self.stamp.prev.clone_from(&end.prev);
        let line = v1::line(entry, &self.stamp, self.key);
        let body = line.strip_suffix(b"\n").unwrap_or(&line);
        let prev = HEXLOWER.encode(&Sha256::digest(body));
        self.put(&[before, &line].concat())?;
        *end = End {
            seq: end.seq + 1,
            prev,
            torn: None,
        };
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), AuditError> {
        let failed = |error: &std::io::Error| AuditError::io("write", self.path, error);
        let before = self.file.metadata().map_err(|error| failed(&error))?.len();
        let written = self.file.write(bytes);
        let error = match written {
            Ok(written) if written == bytes.len() => return Ok(()),
            Ok(_) => std::io::Error::from(std::io::ErrorKind::StorageFull),
            Err(error) => error,
        };
        // If this fails too, the next writer ends the torn line.
        let _ = self.file.set_len(before);
        Err(failed(&error))
    }

    /// Ends a torn line and says so.
    fn recover(&mut self, end: &mut End, torn: &[u8]) -> Result<(), AuditError> {
        let digest = HEXLOWER.encode(&Sha256::digest(torn));
        // Chained to the last whole line: chained to the torn bytes, nothing would cover that one.
        let detail = json!({"bytes": torn.len(), "sha256": digest});
        // In one write with the line feed: what ends the torn line tells of it.
        self.append(end, &notice(Kind::Recovered, "recovered", detail), b"\n")
    }

    /// Takes the notes about late answers into the record.
    fn supersede(&mut self, end: &mut End, notes: &Path) -> Result<(), AuditError> {
        // Taken away first: a note that comes now starts a file of its own.
        let taken = notes.with_extension("taken");
        if fs::rename(notes, &taken).is_err() {
            return Ok(());
        }
        let mut text = String::new();
        let read = private(OpenOptions::new().read(true))
            .open(&taken)
            .and_then(|file| file.take(NOTE_BYTES).read_to_string(&mut text));
        if read.is_ok() {
            for late in text.lines().take(NOTES_AT_ONCE) {
                if let Ok(late) = serde_json::from_str::<Late>(late) {
                    self.write(end, &notice(Kind::Superseded, "superseded", json!(late)))?;
                }
            }
        }
        let _ = fs::remove_file(taken);
        Ok(())
    }
}

pub(super) fn notice(kind: Kind, event: &'static str, detail: serde_json::Value) -> Entry<'static> {
    Entry {
        kind,
        event,
        dialect: "",
        session: None,
        call: None,
        agent: None,
        parent: None,
        depth: 0,
        cwd: None,
        tool: None,
        args: None,
        args_redacted: None,
        data_keys: &[],
        redactions: Vec::new(),
        entity: None,
        requests: Vec::new(),
        decision: Effect::Deny,
        reasons: &[],
        would_decide: Effect::Deny,
        obligations: Vec::new(),
        policy_digest: None,
        latency_us: 0,
        error_class: None,
        detail,
    }
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

/// The last line's number and hash, and what stands behind it without a line feed.
fn end_of(file: &mut File, length: u64) -> std::io::Result<End> {
    let mut window = TAIL;
    loop {
        let from = length.saturating_sub(window);
        file.seek(SeekFrom::Start(from))?;
        let room = usize::try_from(length - from).unwrap_or(0);
        let mut bytes = Vec::with_capacity(room + 1);
        Read::by_ref(file).take(window).read_to_end(&mut bytes)?;
        let torn = bytes
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let whole = bytes.len() - torn.len();
        let mut lines = bytes
            .get(..whole.saturating_sub(1))
            .unwrap_or_default()
            .rsplit(|byte| *byte == b'\n');
        let last = lines.next().unwrap_or_default();
        // The oldest piece in the window may lack its beginning.
        let complete = from == 0 || last.len() + torn.len() + 2 < bytes.len();
        if !complete {
            window *= 2;
            continue;
        }
        let seq = std::iter::once(last)
            .chain(lines)
            .find_map(|line| serde_json::from_slice::<Numbered>(line).ok())
            .map_or(0, |line| line.seq);
        return Ok(End {
            seq,
            prev: if last.is_empty() {
                GENESIS.to_owned()
            } else {
                HEXLOWER.encode(&Sha256::digest(last))
            },
            torn: (!torn.is_empty()).then(|| torn.to_vec()),
        });
    }
}

fn stamp(now: jiff::Timestamp) -> Stamp {
    Stamp {
        seq: 0,
        ts: time(now),
        mono: monotonic(),
        boot: boot(),
        host: host(),
        uid: uid(),
        pid: std::process::id(),
        prev: String::new(),
    }
}

fn time(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
