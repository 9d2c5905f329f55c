//! Appending a line: under a lock, in one write, chained to the line before.

mod end;
mod retention;
mod tip;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::checkpoint::{self, Checkpoint, Signer};
use super::key::{self, Key};
use super::origin::{boot, host, monotonic, uid};
use super::private::{check_owner, create_private_dir, lock_file, private};
use super::record::v1::{self, Entry, Kind, Stamp};
use super::tree::Tree;
use super::{AuditError, read};
use crate::engine::bundle::{AuditSettings, Durability};
use crate::engine::decision::Effect;
use end::End;
use tip::Tip;
pub use tip::last_written;

/// A checkpoint is due after so many lines.
const CHECKPOINT_LINES: u64 = 256;

/// And after so many seconds.
const CHECKPOINT_SECONDS: u64 = 60;

/// How long one waits before looking again whether the lock is free: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// The event after which a session writes nothing more.
const LAST_EVENT: &str = "session_end";

/// The most bytes of notes about late answers that are read.
const NOTE_BYTES: u64 = 64 << 10;

/// Where notes about late answers wait, below the state directory.
const NOTES: &str = "audit/superseded";

/// So many of them are taken into the record at once.
const NOTES_AT_ONCE: usize = 64;

/// Whose turn it is among the threads of this process.
static TURN: Mutex<()> = Mutex::new(());

/// The record of one installation.
#[derive(Debug)]
pub struct Log {
    state: PathBuf,
    dir: PathBuf,
    key: Key,
    settings: AuditSettings,
    patience: Option<Duration>,
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

impl Log {
    /// The record below a state directory, or in a directory of its own.
    ///
    /// # Errors
    /// If its directory or the installation's key cannot be made or used.
    pub fn open(
        state: &Path,
        dir: Option<PathBuf>,
        settings: AuditSettings,
    ) -> Result<Self, AuditError> {
        Self::open_with(Key::of(state)?, state, dir, settings)
    }

    /// The same, for whoever has the installation's key already.
    ///
    /// # Errors
    /// If its directory cannot be made or used.
    pub fn open_with(
        key: Key,
        state: &Path,
        dir: Option<PathBuf>,
        settings: AuditSettings,
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
            key,
            state: state.to_path_buf(),
            dir,
            settings,
            patience: None,
        })
    }

    /// The same, and nobody waits longer for those who write to it.
    #[must_use]
    pub fn patient_for(self, patience: Duration) -> Self {
        Self {
            patience: Some(patience),
            ..self
        }
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
        // A server has many threads: those that wait for one another need not poll the file's lock.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lock = self.lock()?;
        let now = jiff::Timestamp::now();
        let tip = Tip::read(&mut lock);
        let path = self.file(tip.as_ref(), now)?;
        let mut file = private(OpenOptions::new().create(true).append(true).read(true))
            .open(&path)
            .map_err(|error| AuditError::io("open", &path, &error))?;
        let length = check_owner(&file, &path)?.len();
        let fresh = length == 0;
        let mut end = self.end(&mut file, &path, length, tip, now)?;
        let day = read::day_of(&path).unwrap_or_default();
        let checkpoints = checkpoint::file(&self.dir, day);
        if fresh && end.covered < end.seq {
            // Each file can be verified by itself, and those before it removed.
            self.checkpoint(&mut end, &checkpoints);
        }
        let mut pen = Pen {
            file: &mut file,
            path: &path,
            length,
            key: &self.key,
            stamp: stamp(now),
        };
        if let Some(torn) = end.torn.take() {
            pen.recover(&mut end, &torn)?;
        }
        if let Some(lost) = end.lost.take() {
            pen.lost(&mut end, lost)?;
        }
        if fresh {
            retention::apply(&self.dir, &self.settings, &path, |removed| {
                pen.write(&mut end, &notice(Kind::Removed, "removed", json!(removed)))
            })?;
        }
        let notes = self.state.join(NOTES);
        if notes.symlink_metadata().is_ok() {
            pen.supersede(&mut end, &notes)?;
        }
        pen.write(&mut end, entry)?;
        // A clock that was set, either way, makes one due.
        let due = end.seq.saturating_sub(end.covered) >= CHECKPOINT_LINES
            || now.as_second().abs_diff(end.checked) >= CHECKPOINT_SECONDS
            || entry.event == LAST_EVENT;
        if due {
            self.checkpoint(&mut end, &checkpoints);
        }
        // Without it the next writer looks for the end itself.
        let _ = tip_of(&path, pen.length, &end).write(&mut lock);
        // Whoever waits for the lock need not wait for the disk as well.
        drop(lock);
        drop(turn);
        if (sync || self.settings.durability == Durability::Sync)
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

    /// Appends a line about what this program did by itself, to the disk itself.
    ///
    /// # Errors
    /// If the line is not in the record whole.
    pub fn note(
        &self,
        kind: Kind,
        event: &'static str,
        decision: Effect,
        detail: serde_json::Value,
    ) -> Result<Position, AuditError> {
        let entry = Entry {
            decision,
            would_decide: decision,
            ..notice(kind, event, detail)
        };
        self.append(&entry, true)
    }

    /// Signs what the record is now, however long it takes to know. Nothing for an empty record.
    ///
    /// # Errors
    /// If the record cannot be read, or the checkpoint cannot be signed or written.
    pub fn seal(&self) -> Result<Option<Checkpoint>, AuditError> {
        self.sealed(&Signer::of(&self.state)?, &[])
    }

    fn sealed(
        &self,
        signer: &Signer,
        others: &[&Signer],
    ) -> Result<Option<Checkpoint>, AuditError> {
        let mut lock = self.lock()?;
        let now = jiff::Timestamp::now();
        let tip = Tip::read(&mut lock);
        let Some(path) = read::days(&self.dir)?.pop() else {
            return Ok(None);
        };
        let mut file = private(OpenOptions::new().append(true).read(true))
            .open(&path)
            .map_err(|error| AuditError::io("open", &path, &error))?;
        let length = check_owner(&file, &path)?.len();
        let mut end = self.end(&mut file, &path, length, tip, now)?;
        if end.seq == 0 {
            return Ok(None);
        }
        if end.tree.is_none() {
            end.tree = end::read_on(&self.dir, None, Tree::default(), end.seq, u64::MAX)?;
        }
        let Some(tree) = &end.tree else {
            return Err(AuditError(format!(
                "the record in `{}` lacks lines that no checkpoint covers",
                self.dir.display()
            )));
        };
        let made = Checkpoint::sign_together(signer, others, tree, end.line, &end.ts)?;
        let day = read::day_of(&path).unwrap_or_default();
        checkpoint::append(&checkpoint::file(&self.dir, day), &made)?;
        end.covered = end.seq;
        end.checked = now.as_second();
        if end.torn.is_none() && end.lost.is_none() {
            let _ = tip_of(&path, length, &end).write(&mut lock);
        }
        Ok(Some(made))
    }

    /// Puts new keys in place of those in use, and says so in the record. The old signing key hands
    /// over by a checkpoint that both sign; the old key for values is kept, to look older ones up.
    ///
    /// # Errors
    /// If a key cannot be made, or the record cannot be read or written.
    pub fn rotate_keys(&self) -> Result<String, AuditError> {
        // What cannot be signed is not said to be.
        self.seal()?;
        let old = Signer::of(&self.state)?;
        let (new, text) = old.successor()?;
        let detail = json!({"key": new.verifier()});
        self.append(&notice(Kind::Rotated, "keys_rotated", detail), true)?;
        let made = self.sealed(&new, &[&old])?;
        if made.is_none() {
            return Err(AuditError("the record has no line".to_owned()));
        }
        let ts = time(jiff::Timestamp::now());
        key::rotate(&self.state, &ts)?;
        checkpoint::replace(&self.state, &text)?;
        Ok(new.verifier().to_owned())
    }

    /// Waits for the lock. Where no patience is set, the door's watchdog bounds the wait.
    ///
    /// It is held for microseconds, so whoever looks again soon finds it free. Those who sleep on it are
    /// all woken at once for one of them to get it, and of two hundred some wait for a second.
    fn lock(&self) -> Result<File, AuditError> {
        let path = self.dir.join("lock");
        let file = lock_file(&path)?;
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => {
                    if self.patience.is_some_and(|most| began.elapsed() >= most) {
                        let text = format!("`{}` is locked by somebody else", path.display());
                        return Err(AuditError(text));
                    }
                    std::thread::sleep(pause);
                }
                Err(TryLockError::Error(error)) => {
                    return Err(AuditError::io("lock", &path, &error));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The file that the next line goes to. Never an older one than that of the last line: a clock that
    /// went back does not put a line before another.
    fn file(&self, tip: Option<&Tip>, now: jiff::Timestamp) -> Result<PathBuf, AuditError> {
        let today = now.strftime("%Y-%m-%d").to_string();
        let newest = match tip {
            Some(tip) => Some(self.dir.join(&tip.file)),
            None => read::days(&self.dir)?.pop(),
        };
        let first = self.dir.join(format!("audit-{today}.jsonl"));
        let Some(newest) = newest else {
            return Ok(first);
        };
        let Some((day, part)) = read::part_of(&newest).filter(|(day, _)| *day >= &*today) else {
            return Ok(first);
        };
        let length = newest.metadata().map_or(0, |metadata| metadata.len());
        if length < u64::from(self.settings.file_mib) << 20 {
            return Ok(newest);
        }
        let next = format!("audit-{day}.{}.jsonl", part + 1);
        Ok(self.dir.join(next))
    }

    /// Where the record ends: as the last writer left it, or as its files are.
    fn end(
        &self,
        file: &mut File,
        path: &Path,
        length: u64,
        tip: Option<Tip>,
        now: jiff::Timestamp,
    ) -> Result<End, AuditError> {
        if let Some(tip) = &tip {
            let same = path.ends_with(&tip.file);
            let before = match same {
                true => length,
                false => fs::metadata(self.dir.join(&tip.file)).map_or(0, |file| file.len()),
            };
            if before == tip.length && (same || length == 0) {
                return Ok(End {
                    seq: tip.seq,
                    line: tip.line,
                    ts: tip.ts.clone(),
                    tree: tip.tree.clone(),
                    covered: tip.covered,
                    checked: tip.checked,
                    ..End::default()
                });
            }
        }
        end::find(&self.dir, file, path, tip.as_ref(), now.as_second())
    }

    /// Signs what the record is. One that cannot be signed or written is due again with the next line:
    /// the line is in the record all the same.
    fn checkpoint(&self, end: &mut End, path: &Path) {
        let Some(tree) = &end.tree else {
            return;
        };
        let made = Signer::of(&self.state)
            .and_then(|signer| Checkpoint::sign(&signer, tree, end.line, &end.ts))
            .and_then(|made| checkpoint::append(path, &made));
        if made.is_ok() {
            end.covered = end.seq;
            end.checked = jiff::Timestamp::now().as_second();
        }
    }
}

/// What the next writer has to know.
fn tip_of(path: &Path, length: u64, end: &End) -> Tip {
    let name = path.file_name().unwrap_or_default();
    Tip {
        file: name.to_string_lossy().into_owned(),
        length,
        seq: end.seq,
        line: end.line,
        ts: end.ts.clone(),
        tree: end.tree.clone(),
        covered: end.covered,
        checked: end.checked,
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
    /// What the file has, in bytes: nobody else writes to it while the lock is held.
    length: u64,
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
        self.stamp.prev = HEXLOWER.encode(&end.line);
        let line = v1::line(entry, &self.stamp, self.key);
        let body = line.strip_suffix(b"\n").unwrap_or(&line);
        let digest = Sha256::digest(body).into();
        self.put(&[before, &line].concat())?;
        end.seq += 1;
        end.line = digest;
        end.ts.clone_from(&self.stamp.ts);
        if let Some(tree) = &mut end.tree {
            tree.push(&digest);
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), AuditError> {
        let error = match self.file.write(bytes) {
            Ok(written) if written == bytes.len() => {
                self.length += bytes.len() as u64;
                return Ok(());
            }
            Ok(_) => std::io::Error::from(std::io::ErrorKind::StorageFull),
            Err(error) => error,
        };
        // If this fails too, the next writer ends the torn line.
        let _ = self.file.set_len(self.length);
        Err(AuditError::io("write", self.path, &error))
    }

    /// Ends a torn line and says so.
    fn recover(&mut self, end: &mut End, torn: &[u8]) -> Result<(), AuditError> {
        let digest = HEXLOWER.encode(&Sha256::digest(torn));
        // Chained to the last whole line: chained to the torn bytes, nothing would cover that one.
        let detail = json!({"bytes": torn.len(), "sha256": digest});
        // In one write with the line feed: what ends the torn line tells of it.
        self.append(end, &notice(Kind::Recovered, "recovered", detail), b"\n")
    }

    /// Says that lines which were written are gone. Their numbers stay theirs.
    fn lost(&mut self, end: &mut End, (first, last): (u64, u64)) -> Result<(), AuditError> {
        let detail = json!({"first": first, "last": last});
        self.write(end, &notice(Kind::Lost, "lost", detail))
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

/// A line that is about no event of a host.
pub(crate) fn notice(kind: Kind, event: &'static str, detail: serde_json::Value) -> Entry<'static> {
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
        trace: None,
        prompt: None,
        detail,
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
