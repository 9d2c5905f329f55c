//! Reading the record from where a sink has it to: over days, parts of days, and what retention removed.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::Deserialize;

use super::position::Mark;
use crate::audit::lines::{Lines, Raw};
use crate::audit::private::private;
use crate::audit::{AuditError, read};

/// So many lines are looked at for the number that the record begins with.
const FEW: usize = 8;

/// A line that is to be sent.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: String,
    /// Only the first ones of a line that is longer than any of the record.
    pub(super) bytes: Vec<u8>,
    pub(super) length: u64,
    /// How many lines are missing before it.
    pub(super) missing: u64,
    seq: u64,
    file: Arc<str>,
    end: u64,
}

impl Line {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            file: self.file.to_string(),
            offset: self.end,
            length: self.length,
            seq: self.seq,
            id: self.id.clone(),
        }
    }
}

/// What was found on the way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Missing { count: u64, before: u64 },
    Changed(Mark),
    Torn { file: String, bytes: u64 },
}

/// The record behind a line.
#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    /// The last line that was read.
    last: Option<Mark>,
    at: Option<Place>,
    /// The number of the last line that had one; nothing if any number may come.
    seq: Option<u64>,
    findings: Vec<Finding>,
}

/// Where in which file to go on.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    name: Arc<str>,
    offset: u64,
    /// What is read to its end even if it is removed meanwhile.
    file: Option<File>,
}

impl Place {
    fn new(path: PathBuf, offset: u64) -> Self {
        Self {
            name: name(&path).into(),
            path,
            offset,
            file: None,
        }
    }
}

impl Spool {
    /// Begins behind a line, or with the first one that there is.
    pub(super) fn behind(dir: PathBuf, last: Option<Mark>) -> Self {
        Self {
            at: last
                .as_ref()
                .map(|mark| Place::new(dir.join(&mark.file), mark.offset)),
            // A record begins with number 1: what is gone before a sink's first run is gone as well.
            seq: Some(last.as_ref().map_or(0, |mark| mark.seq)),
            dir,
            last,
            findings: Vec::new(),
        }
    }

    /// What was found since it was asked last.
    pub(super) fn findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// The next whole lines, until they are so many or have so many bytes. None if there are none yet.
    pub(super) fn read(&mut self, lines: usize, bytes: usize) -> Result<Vec<Line>, AuditError> {
        let mut batch = Vec::new();
        loop {
            // Listed first: once there is a later file, nothing is added to this one.
            let days = read::days(&self.dir)?;
            if !self.ready(&days)? {
                return Ok(batch);
            }
            let torn = match self.fill(&mut batch, lines, bytes)? {
                End::Full => return Ok(batch),
                End::File { torn } => torn,
            };
            let Some(at) = &self.at else { return Ok(batch) };
            let next = match days.iter().position(|day| *day == at.path) {
                Some(index) => days.get(index + 1).cloned(),
                // Removed while it was read: where it goes on is found out anew.
                None if days.is_empty() => return Ok(batch),
                None => None,
            };
            let removed = !days.contains(&at.path);
            if next.is_none() && !removed {
                return Ok(batch);
            }
            if torn > 0 {
                self.findings.push(Finding::Torn {
                    file: at.name.to_string(),
                    bytes: torn,
                });
            }
            match next {
                Some(path) => self.at = Some(Place::new(path, 0)),
                None => self.find(&days)?,
            }
        }
    }

    /// Opens the file to go on with. False if there is none yet.
    fn ready(&mut self, days: &[PathBuf]) -> Result<bool, AuditError> {
        let Some(at) = &mut self.at else {
            let Some(first) = days.first() else {
                return Ok(false);
            };
            self.at = Some(Place::new(first.clone(), 0));
            return self.ready(days);
        };
        let failed = |error: &io::Error, path: &Path| AuditError::io("read", path, error);
        match open(&at.path) {
            Ok(mut file) => {
                let whole = at.offset == 0
                    || self
                        .last
                        .as_ref()
                        .is_some_and(|mark| stands(&mut file, mark, at.offset).unwrap_or_default());
                if whole {
                    at.file = Some(file);
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if at.file.is_some() {
                    return Ok(true);
                }
            }
            Err(error) => return Err(failed(&error, &at.path)),
        }
        if days.is_empty() {
            return Ok(false);
        }
        self.find(days)?;
        self.ready(days)
    }

    /// Finds the line behind the last one, wherever it stands now.
    fn find(&mut self, days: &[PathBuf]) -> Result<(), AuditError> {
        let Some(first) = days.first() else {
            return Ok(());
        };
        self.at = Some(Place::new(first.clone(), 0));
        let Some(last) = self.last.clone() else {
            return Ok(());
        };
        if begins_with(first)?.is_some_and(|seq| seq > last.seq) {
            // All that is there is newer: the lines between are counted when it is read.
            return Ok(());
        }
        for day in days {
            if let Some(offset) = behind(day, &last)? {
                self.at = Some(Place::new(day.clone(), offset));
                return Ok(());
            }
        }
        self.findings.push(Finding::Changed(last));
        self.last = None;
        self.seq = None;
        Ok(())
    }

    fn fill(
        &mut self,
        batch: &mut Vec<Line>,
        most: usize,
        bytes: usize,
    ) -> Result<End, AuditError> {
        let Some(Place {
            path,
            name,
            offset,
            file: Some(file),
        }) = &mut self.at
        else {
            return Ok(End::File { torn: 0 });
        };
        let failed = |error: io::Error| AuditError::io("read", path, &error);
        file.seek(SeekFrom::Start(*offset)).map_err(failed)?;
        let mut size: usize = batch.iter().map(|line| line.bytes.len()).sum();
        let mut lines = Lines::new(&*file);
        while batch.len() < most && size < bytes {
            let Some(raw) = lines.line().map_err(failed)? else {
                return Ok(End::File { torn: 0 });
            };
            if !raw.ended {
                return Ok(End::File { torn: raw.length });
            }
            *offset += raw.length + 1;
            size += raw.bytes.len();
            let number = number(&raw);
            let mut missing = 0;
            if let Some(number) = number {
                let expected = self.seq.map_or(number, |seq| seq.saturating_add(1));
                missing = number.saturating_sub(expected);
                if missing > 0 {
                    self.findings.push(Finding::Missing {
                        count: missing,
                        before: number,
                    });
                }
                self.seq = Some(number);
            }
            let line = Line {
                id: HEXLOWER.encode(&raw.digest()),
                bytes: raw.bytes.to_vec(),
                length: raw.length,
                missing,
                seq: self.seq.unwrap_or(0),
                file: Arc::clone(name),
                end: *offset,
            };
            self.last = Some(line.mark());
            batch.push(line);
        }
        Ok(End::Full)
    }
}

/// Why no more lines were read.
enum End {
    Full,
    File { torn: u64 },
}

/// How many bytes of the record stand behind a line, as far as its file is still there.
pub(super) fn left(dir: &Path, mark: Option<&Mark>) -> Result<u64, AuditError> {
    let days = read::days(dir)?;
    let size = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let at = mark.and_then(|mark| {
        let index = days.iter().position(|day| name(day) == mark.file)?;
        Some((index, mark.offset))
    });
    let (index, offset) = at.unwrap_or((0, 0));
    let bytes: u64 = days.iter().skip(index).map(size).sum();
    Ok(bytes.saturating_sub(offset))
}

#[derive(Deserialize)]
struct Numbered {
    seq: u64,
}

fn number(raw: &Raw<'_>) -> Option<u64> {
    if raw.is_too_long() {
        return None;
    }
    serde_json::from_slice::<Numbered>(raw.bytes)
        .ok()
        .map(|line| line.seq)
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

/// A file of the record. Who ships another user's record must not be led elsewhere by a link.
fn open(path: &Path) -> io::Result<File> {
    let refused = |why: &str| Err(io::Error::other(why));
    if path.symlink_metadata()?.is_symlink() {
        return refused("it is a link");
    }
    let file = private(OpenOptions::new().read(true)).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        refused("it is no plain file")
    }
}

/// Whether the line still stands before that place.
fn stands(file: &mut File, mark: &Mark, offset: u64) -> io::Result<bool> {
    let Some(start) = offset.checked_sub(mark.length + 1) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(start))?;
    let mut lines = Lines::new(&*file);
    Ok(lines.line()?.is_some_and(|raw| is(&raw, mark)))
}

fn is(raw: &Raw<'_>, mark: &Mark) -> bool {
    raw.ended && raw.length == mark.length && HEXLOWER.encode(&raw.digest()) == mark.id
}

/// The first number in a file.
fn begins_with(path: &Path) -> Result<Option<u64>, AuditError> {
    let failed = |error: io::Error| AuditError::io("read", path, &error);
    let mut lines = Lines::new(open(path).map_err(failed)?);
    for _ in 0..FEW {
        match lines.line().map_err(failed)? {
            Some(raw) => {
                if let Some(number) = number(&raw) {
                    return Ok(Some(number));
                }
            }
            None => break,
        }
    }
    Ok(None)
}

/// Where the line behind that one begins, if it is in the file.
fn behind(path: &Path, mark: &Mark) -> Result<Option<u64>, AuditError> {
    let failed = |error: io::Error| AuditError::io("read", path, &error);
    let mut lines = Lines::new(open(path).map_err(failed)?);
    let mut offset = 0;
    while let Some(raw) = lines.line().map_err(failed)? {
        offset += raw.length + 1;
        if raw.length == mark.length && is(&raw, mark) {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
