//! How the record ends, where no writer left word of it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::tip::{MOST, Tip};
use crate::audit::lines::{Hash, Lines};
use crate::audit::tree::Tree;
use crate::audit::{AuditError, checkpoint, read};

/// How far back the last line is looked for at first: few lines are longer.
const TAIL: u64 = 8 << 10;

/// A hook that has to read more to know the tree does without it: more than a file of the usual size.
const READ_BYTES: u64 = 72 << 20;

/// What a line begins with, before its number.
const BEGINNING: &[u8] = b"{\"v\":1,\"seq\":";

/// So many lines are looked at for the number that a file begins with.
const FIRST_LINES: usize = 8;

/// The end of the record, as the next line needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct End {
    /// The last line's number.
    pub(super) seq: u64,
    /// Its SHA-256; zeros before the first line.
    pub(super) line: Hash,
    /// When it was written.
    pub(super) ts: String,
    /// The bytes of a line that was cut short.
    pub(super) torn: Option<Vec<u8>>,
    /// The first and last number of lines that were written and are gone.
    pub(super) lost: Option<(u64, u64)>,
    /// The tree over all lines; nothing where it cannot be known.
    pub(super) tree: Option<Tree>,
    /// How many lines the last checkpoint covers.
    pub(super) covered: u64,
    /// When it was made, or should have been: seconds since 1970.
    pub(super) checked: i64,
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
    #[serde(default)]
    ts: String,
}

/// Looks for the end of the record in its files, of which `path` is the newest.
pub(super) fn find(
    dir: &Path,
    file: &mut File,
    path: &Path,
    known: Option<&Tip>,
    now: i64,
) -> Result<End, AuditError> {
    let mut end = last(dir, file, path)?;
    end.checked = now;
    let known = match known {
        Some(tip) => Some(tip.clone()),
        None => before(dir, now)?,
    };
    let Some(tip) = known else {
        end.tree = grow(dir, None, Tree::default(), end.seq);
        return Ok(end);
    };
    end.covered = tip.covered;
    end.checked = tip.checked;
    if tip.seq < end.seq {
        // A writer got no further than its line.
        let from = (!tip.file.is_empty()).then_some((tip.file.as_str(), tip.length));
        end.tree = tip.tree.and_then(|tree| grow(dir, from, tree, end.seq));
        return Ok(end);
    }
    let cut = |torn: &Vec<u8>| Hash::from(Sha256::digest(torn)) == tip.line;
    if tip.seq == end.seq + 1 && end.torn.as_ref().is_some_and(cut) {
        // The last line lacks nothing but its line feed.
    } else if tip.seq > end.seq {
        end.lost = Some((end.seq + 1, tip.seq));
    }
    // What was written counts, whatever stands there now.
    end.seq = tip.seq;
    end.line = tip.line;
    end.ts = tip.ts;
    end.tree = tip.tree;
    Ok(end)
}

/// What the newest checkpoint tells, where the lock file tells nothing.
fn before(dir: &Path, now: i64) -> Result<Option<Tip>, AuditError> {
    let newest = checkpoint::newest(dir)?.filter(|one| one.tree.size() <= MOST);
    Ok(newest.map(|one| Tip {
        file: String::new(),
        length: 0,
        seq: one.tree.size(),
        line: one.line,
        ts: one.ts,
        covered: one.tree.size(),
        tree: Some(one.tree),
        checked: now,
    }))
}

/// The last whole line of all files, and the torn one of the newest.
fn last(dir: &Path, file: &mut File, path: &Path) -> Result<End, AuditError> {
    let failed = |error: io::Error| AuditError::io("read", path, &error);
    let length = file.metadata().map_err(failed)?.len();
    let torn = match end_of(file, length).map_err(failed)? {
        end if end.seq > 0 => return Ok(end),
        end => end.torn,
    };
    // No whole line stands here: the chain goes on from the last one of an earlier file, whose own
    // torn line stays as it is.
    for day in read::days(dir)?.into_iter().rev() {
        if read::part_of(&day) >= read::part_of(path) {
            continue;
        }
        let failed = |error: io::Error| AuditError::io("read", &day, &error);
        let mut file = read::open(&day).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let end = end_of(&mut file, length).map_err(failed)?;
        if end.seq > 0 {
            return Ok(End { torn, ..end });
        }
    }
    Ok(End {
        torn,
        ..End::default()
    })
}

/// The last line's number and hash, and what stands behind it without a line feed.
fn end_of(file: &mut File, length: u64) -> io::Result<End> {
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
        let numbered = std::iter::once(last)
            .chain(lines)
            .filter_map(|line| serde_json::from_slice::<Numbered>(line).ok())
            .find(|line| line.seq <= MOST);
        let (seq, ts) = numbered.map_or_else(Default::default, |line| (line.seq, line.ts));
        return Ok(End {
            seq,
            ts,
            line: if last.is_empty() {
                Hash::default()
            } else {
                Sha256::digest(last).into()
            },
            torn: (!torn.is_empty()).then(|| torn.to_vec()),
            ..End::default()
        });
    }
}

/// The tree with the lines up to a number, read from where they begin; nothing if they are not there,
/// or are too many for somebody who waits.
fn grow(dir: &Path, from: Option<(&str, u64)>, tree: Tree, seq: u64) -> Option<Tree> {
    if tree.size() == seq {
        return Some(tree);
    }
    read_on(dir, from, tree, seq, READ_BYTES).ok().flatten()
}

/// As [`grow`], however long it takes.
pub(super) fn read_on(
    dir: &Path,
    from: Option<(&str, u64)>,
    mut tree: Tree,
    seq: u64,
    mut budget: u64,
) -> Result<Option<Tree>, AuditError> {
    let days = read::days(dir)?;
    let (first, skip) = match from {
        Some((name, skip)) => (days.iter().position(|day| day.ends_with(name)), skip),
        // The last file that begins with one of the lines that the tree has, or the next.
        None => (
            days.iter()
                .rposition(|day| first(day).is_some_and(|first| first <= tree.size() + 1)),
            0,
        ),
    };
    let Some(first) = first else {
        return Ok(None);
    };
    for (index, day) in days.iter().enumerate().skip(first) {
        let failed = |error: io::Error| AuditError::io("read", day, &error);
        let mut file = read::open(day).map_err(failed)?;
        if index == first {
            file.seek(SeekFrom::Start(skip)).map_err(failed)?;
        }
        let mut lines = Lines::new(file);
        while let Some(line) = lines.line().map_err(failed)? {
            budget = budget.saturating_sub(line.length);
            if budget == 0 {
                return Ok(None);
            }
            if line.ended && number(line.bytes) == Some(tree.size() + 1) {
                tree.push(&line.digest());
            }
            if tree.size() == seq {
                return Ok(Some(tree));
            }
        }
    }
    Ok(None)
}

/// The number of a line, without reading more of it than that.
fn number(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(BEGINNING)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

/// The first number in a file.
pub(super) fn first(day: &Path) -> Option<u64> {
    let mut lines = Lines::new(read::open(day).ok()?);
    for _ in 0..FIRST_LINES {
        let line = lines.line().ok()??;
        if let Some(number) = number(line.bytes) {
            return Some(number);
        }
    }
    None
}
