//! Whether the lines are those that checkpoints were made of.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Read, Take};

use jiff::Timestamp;
use tlog_tiles::tlog::Hash as Root;

use super::finding::{Place, What};
use crate::audit::checkpoint::{Checkpoint, Signed, Stored, VerifierKey};
use crate::audit::lines::{Hash, Lines};
use crate::audit::tree::Tree;
use crate::audit::{AuditError, read};

/// A writer that makes checkpoints lets no more lines pass, nor more time; a little more for one that
/// was killed before it came to it.
const LINES: u64 = 2 * 256;
const SECONDS: i64 = 90;

/// Something to be told, and where; no place for the line at hand.
pub(super) type Told = (What, Option<Place>, String);

/// A checkpoint that was kept elsewhere.
#[derive(Debug)]
pub struct Kept {
    /// The file, as it was named.
    pub name: String,
    /// What it says.
    pub signed: Signed,
}

/// Checkpoints of a record, and what the record is so far.
#[derive(Debug, Default)]
pub struct Cover {
    files: std::vec::IntoIter<Stored>,
    open: Option<(String, Lines<Take<File>>)>,
    next: Option<Checkpoint>,
    key: Option<VerifierKey>,
    /// The key that handed over to this one; it may sign until that is in use.
    former: Option<VerifierKey>,
    known: bool,
    kept: Vec<Kept>,
    tree: Option<Tree>,
    reached: u64,
    covered: u64,
    since: Option<Timestamp>,
    overdue: u64,
    count: u64,
    problems: u64,
}

/// What checkpoints cover of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covered {
    /// How many checkpoints were read.
    pub checkpoints: u64,
    /// The number of the last line that one of them covers; 0 for none.
    pub seq: u64,
    /// The key that they were signed with.
    pub key: Option<String>,
}

impl Cover {
    /// By the checkpoints in those files, the oldest first, and by some that were kept elsewhere. With
    /// a key, no other one counts.
    #[must_use]
    pub fn new(files: Vec<Stored>, mut kept: Vec<Kept>, key: Option<VerifierKey>) -> Self {
        kept.sort_by_key(|one| std::cmp::Reverse(one.signed.size));
        Self {
            files: files.into_iter(),
            known: key.is_some(),
            key,
            kept,
            ..Self::default()
        }
    }

    /// The next line of the chain. `problems` is how many were found so far.
    pub(super) fn line(
        &mut self,
        (seq, digest): (u64, &Hash),
        (text, ts): (&str, Option<Timestamp>),
        problems: u64,
    ) -> Vec<Told> {
        let mut told = Vec::new();
        if seq <= self.reached {
            return told;
        }
        // Those of lines that are not here, and the one that was made before the first that is.
        while let Some(before) = self.take(seq - 1, &mut told) {
            if before.tree.size() == seq - 1 && self.size() != Some(seq - 1) {
                self.tree = Some(before.tree);
                self.covered = seq - 1;
            }
        }
        if seq == 1 {
            self.tree = Some(Tree::default());
        }
        match &mut self.tree {
            Some(tree) if tree.size() == seq - 1 => tree.push(digest),
            tree => *tree = None,
        }
        self.reached = seq;
        self.since = self.since.or(ts);
        let late = |since: Timestamp| Some(ts?.duration_since(since).as_secs() > SECONDS);
        self.overdue += u64::from(self.since.and_then(late).unwrap_or(false));
        while let Some(checkpoint) = self.take(seq, &mut told) {
            let same = self
                .tree
                .as_ref()
                .is_none_or(|tree| *tree == checkpoint.tree);
            let stands = checkpoint.line == *digest && checkpoint.ts == text;
            // What breaks the chain was told already.
            if !(same && stands) && problems == self.problems {
                let text = format!(
                    "the lines from number {} to this one are not those that the checkpoint of {} was made of",
                    self.covered + 1,
                    checkpoint.ts
                );
                told.push((What::Checkpoint, None, text));
            }
            self.tree = Some(checkpoint.tree);
            self.covered = seq;
            self.since = ts;
            self.overdue = 0;
            self.problems = problems + told.len() as u64;
        }
        self.hold_against_kept(seq, &mut told);
        told
    }

    /// What is left to say when all lines were read. `open` is whether lines may follow that were not
    /// looked at.
    pub(super) fn finish(&mut self, open: bool) -> (Vec<Told>, Covered) {
        let mut told = Vec::new();
        let mut last = None;
        while let Some(checkpoint) = self.take(u64::MAX, &mut told) {
            last = Some((
                checkpoint.tree.size(),
                format!("the checkpoint of {}", checkpoint.ts),
            ));
        }
        let kept = self
            .kept
            .first()
            .map(|one| (one.signed.size, format!("`{}`", one.name)));
        let last = last.filter(|_| !open).max(kept);
        if let Some((size, name)) = last
            && size > self.reached
        {
            let text = match size - self.reached {
                1 => format!("number {size}, which {name} has, is missing behind it"),
                count => format!(
                    "{count} lines that {name} has are missing behind it, numbers {} to {size}",
                    self.reached + 1
                ),
            };
            told.push((What::Missing, None, text));
        }
        let tail = self.reached - self.covered.min(self.reached);
        if self.count > 0 && (tail > LINES || self.overdue > 1) {
            let text = format!("no checkpoint covers the {tail} lines up to this one");
            told.push((What::Uncovered, None, text));
        }
        let covered = Covered {
            checkpoints: self.count,
            seq: self.covered,
            key: self.key.as_ref().map(|key| key.as_str().to_owned()),
        };
        (told, covered)
    }

    fn size(&self) -> Option<u64> {
        self.tree.as_ref().map(Tree::size)
    }

    fn hold_against_kept(&mut self, seq: u64, told: &mut Vec<Told>) {
        while let Some(one) = self.kept.pop_if(|one| one.signed.size <= seq) {
            let root: Option<Root> = self
                .tree
                .as_ref()
                .filter(|tree| tree.size() == one.signed.size)
                .map(Tree::root);
            let text = match root {
                Some(root) if root == one.signed.root => continue,
                Some(_) => format!(
                    "the record up to here is not the one that `{}` was signed for: it was changed, and \
                     maybe signed anew, since then",
                    one.name
                ),
                None => format!(
                    "the record cannot be held against `{}`, which was signed for {} lines: not all of \
                     them are here",
                    one.name, one.signed.size
                ),
            };
            told.push((What::Rewritten, None, text));
        }
    }

    /// The next checkpoint over no more than so many lines.
    fn take(&mut self, most: u64, told: &mut Vec<Told>) -> Option<Checkpoint> {
        if self.next.is_none() {
            self.next = self.read(told);
        }
        self.next.take_if(|next| next.tree.size() <= most)
    }

    /// The next checkpoint that can be read and is signed as it should be.
    fn read(&mut self, told: &mut Vec<Told>) -> Option<Checkpoint> {
        loop {
            let (name, lines) = match &mut self.open {
                Some(open) => open,
                open => {
                    let Stored { path, length } = self.files.next()?;
                    let name = path.display().to_string();
                    match read::open(&path) {
                        Ok(file) => open.insert((name, Lines::new(file.take(length)))),
                        Err(error) => {
                            let place = Place {
                                file: name,
                                line: 0,
                            };
                            let text = AuditError::io("read", &path, &error).0;
                            told.push((What::Checkpoint, Some(place), text));
                            continue;
                        }
                    }
                }
            };
            let Ok(Some(line)) = lines.line() else {
                self.open = None;
                continue;
            };
            let place = Some(Place {
                file: name.clone(),
                line: line.number,
            });
            if !line.ended {
                let text = "the last checkpoint was cut short".to_owned();
                told.push((What::Torn, place, text));
                continue;
            }
            match Checkpoint::parse(line.bytes) {
                Ok(checkpoint) => {
                    self.count += 1;
                    if let Some(text) = self.signer(&checkpoint) {
                        told.push((What::Key, place, text));
                        continue;
                    }
                    return Some(checkpoint);
                }
                Err(why) => {
                    let text = format!("it is no checkpoint: {why}");
                    told.push((What::Checkpoint, place, text));
                }
            }
        }
    }

    /// What is wrong with the key that signed it. A key may hand over to another by signing together.
    fn signer(&mut self, checkpoint: &Checkpoint) -> Option<String> {
        let Some(key) = &self.key else {
            self.key = VerifierKey::parse(&checkpoint.key).ok();
            return None;
        };
        let is = |key: &VerifierKey| key.as_str() == checkpoint.key;
        if is(key) {
            // It is in use.
            self.former = None;
            return None;
        }
        if self.former.as_ref().is_some_and(is) {
            return None;
        }
        let signed = Signed::parse(checkpoint.note.as_bytes()).and_then(|one| one.verify(key));
        if signed.is_ok() {
            let new = VerifierKey::parse(&checkpoint.key).ok();
            self.former = std::mem::replace(&mut self.key, new);
            return None;
        }
        let known = if self.known {
            "that you know"
        } else {
            "of those before it"
        };
        Some(format!(
            "it is signed with another key than the one {known}: `{}`",
            checkpoint.key
        ))
    }
}
