//! Where the record ends and what it was checkpointed at, kept in the lock file from line to line.
//!
//! It only saves time, but for one thing: a record that ends before it was cut.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::audit::lines::Hash;
use crate::audit::private::check_owner;
use crate::audit::tree::Tree;
use crate::audit::{AuditError, read};

/// No tip is longer.
const TIP_BYTES: u64 = 8 << 10;

/// Hardly any is longer.
const USUAL: usize = 1 << 10;

/// No record has more lines.
pub(super) const MOST: u64 = u64::MAX >> 1;

/// So many digits tell that it was written whole.
const SUM: usize = 16;

/// The end of the record, as the last writer left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tip {
    /// The name of the file.
    pub(super) file: String,
    /// How many bytes it had.
    pub(super) length: u64,
    /// The number of the last line.
    pub(super) seq: u64,
    /// Its SHA-256.
    pub(super) line: Hash,
    /// When it was written.
    pub(super) ts: String,
    /// The tree over all lines; nothing where it was lost.
    pub(super) tree: Option<Tree>,
    /// How many lines the last checkpoint covers.
    pub(super) covered: u64,
    /// When it was made, or should have been: seconds since 1970.
    pub(super) checked: i64,
}

#[derive(Serialize, Deserialize)]
struct Written {
    file: String,
    length: u64,
    seq: u64,
    line: String,
    ts: String,
    tree: Option<String>,
    covered: u64,
    checked: i64,
}

impl Tip {
    /// What the last writer left; nothing if there is none, or it was not written whole.
    pub(super) fn read(lock: &mut File) -> Option<Self> {
        // Room for a whole one, else it is read in many pieces.
        let mut text = String::with_capacity(USUAL);
        Read::by_ref(lock)
            .take(TIP_BYTES)
            .read_to_string(&mut text)
            .ok()?;
        let (json, rest) = text.split_once('\n')?;
        if rest.split('\n').next()? != sum(json) {
            return None;
        }
        let written: Written = serde_json::from_str(json).ok()?;
        let line = HEXLOWER.decode(written.line.as_bytes()).ok()?;
        // No writer leaves a name with a folder in it, nor comes that far.
        let named =
            read::part_of(Path::new(&written.file)).is_some() && !written.file.contains('/');
        if !named || written.seq > MOST {
            return None;
        }
        Some(Self {
            tree: written
                .tree
                .and_then(|tree| Tree::decode(written.seq, &tree)),
            file: written.file,
            length: written.length,
            seq: written.seq,
            line: line.try_into().ok()?,
            ts: written.ts,
            covered: written.covered,
            checked: written.checked,
        })
    }

    /// Leaves it to the next writer.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&self, lock: &mut File) -> io::Result<()> {
        let written = Written {
            file: self.file.clone(),
            length: self.length,
            seq: self.seq,
            line: HEXLOWER.encode(&self.line),
            ts: self.ts.clone(),
            tree: self.tree.as_ref().map(Tree::encode),
            covered: self.covered,
            checked: self.checked,
        };
        let json = serde_json::to_string(&written)?;
        // What an older, longer one leaves behind it is not read.
        let text = format!("{json}\n{}\n", sum(&json));
        lock.seek(SeekFrom::Start(0))?;
        lock.write_all(text.as_bytes())
    }
}

/// How long one waits for a writer before looking again.
const PAUSE: Duration = Duration::from_micros(200);

/// When the last line of the record in that directory was written; nothing if there is no record yet.
///
/// # Errors
/// If it cannot be told.
pub fn last_written(dir: &Path) -> Result<Option<Timestamp>, AuditError> {
    let path = dir.join("lock");
    let failed = |what: &str, error: &io::Error| AuditError::io(what, &path, error);
    let mut lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return none_yet(dir),
        Err(error) => return Err(failed("open", &error)),
    };
    check_owner(&lock, &path)?;
    // Half of what a writer leaves would be nothing. The door's watchdog bounds the wait.
    loop {
        match lock.try_lock_shared() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed("lock", &error)),
        }
    }
    match Tip::read(&mut lock) {
        Some(tip) => {
            let ts = tip.ts.parse();
            ts.map(Some).map_err(|_| unknown(dir))
        }
        None => none_yet(dir),
    }
}

/// Nothing, if there is no line indeed.
fn none_yet(dir: &Path) -> Result<Option<Timestamp>, AuditError> {
    if !dir.is_dir() || read::days(dir)?.is_empty() {
        return Ok(None);
    }
    Err(unknown(dir))
}

fn unknown(dir: &Path) -> AuditError {
    AuditError(format!(
        "when the last line in `{}` was written cannot be told",
        dir.display()
    ))
}

fn sum(json: &str) -> String {
    let mut sum = HEXLOWER.encode(&Sha256::digest(json));
    sum.truncate(SUM);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tip_is_read_whole_or_not_at_all() {
        let mut lock = tempfile::tempfile().unwrap();
        let read = |lock: &mut File| {
            lock.seek(SeekFrom::Start(0)).unwrap();
            Tip::read(lock)
        };
        assert_eq!(read(&mut lock), None);
        let mut tree = Tree::default();
        (0..99).for_each(|n| tree.push(&[n; 32]));
        let long = Tip {
            file: "audit-2026-01-02.jsonl".to_owned(),
            length: 7,
            seq: 99,
            line: [9; 32],
            ts: "2026-01-02T03:04:05.000006Z".to_owned(),
            tree: Some(tree),
            covered: 3,
            checked: 1_767_323_045,
        };
        let short = Tip {
            tree: None,
            ..long.clone()
        };
        for tip in [&long, &short, &long, &short] {
            tip.write(&mut lock).unwrap();
            assert_eq!(read(&mut lock).as_ref(), Some(tip));
        }
        let length = lock.metadata().unwrap().len();
        lock.seek(SeekFrom::Start(20)).unwrap();
        lock.write_all(b"x").unwrap();
        assert_eq!(read(&mut lock), None);
        assert!(length < TIP_BYTES);
    }
}
