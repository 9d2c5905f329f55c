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

/// So often is a record looked at anew that changes while it is looked at.
const TRIES: usize = 8;

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
        let mut tries = 0;
        loop {
            // Listed first: once there is a later file, nothing is added to this one.
            let days = read::days(&self.dir)?;
            match self.more(&days, &mut batch, lines, bytes) {
                Ok(Next::Nothing) => return Ok(batch),
                Ok(Next::Here) => tries = 0,
                Ok(Next::Elsewhere) if tries < TRIES => tries += 1,
                // Removed since it was listed.
                Err(Unread(_, error)) if error.kind() == ErrorKind::NotFound && tries < TRIES => {
                    tries += 1;
                }
                Err(Unread(path, error)) => return Err(AuditError::io("read", &path, &error)),
                Ok(Next::Elsewhere) => {
                    return Err(AuditError(format!(
                        "the record in `{}` changes while it is read",
                        self.dir.display()
                    )));
                }
            }
        }
    }

    fn more(
        &mut self,
        days: &[PathBuf],
        batch: &mut Vec<Line>,
        lines: usize,
        bytes: usize,
    ) -> Result<Next, Unread> {
        match self.ready(days)? {
            Next::Here => {}
            next => return Ok(next),
        }
        let torn = match self.fill(batch, lines, bytes)? {
            End::Full => return Ok(Next::Nothing),
            End::File { torn } => torn,
        };
        let Some(at) = &self.at else {
            return Ok(Next::Nothing);
        };
        let index = days.iter().position(|day| *day == at.path);
        let next = index.map(|index| days.get(index + 1));
        if days.is_empty() || next == Some(None) {
            return Ok(Next::Nothing);
        }
        if torn > 0 {
            self.findings.push(Finding::Torn {
                file: at.name.to_string(),
                bytes: torn,
            });
        }
        match next.flatten() {
            Some(path) => {
                self.at = Some(Place::new(path.clone(), 0));
                Ok(Next::Here)
            }
            // Removed while it was read: where it goes on is found out anew.
            None => self.find(days),
        }
    }

    /// Opens the file to go on with.
    fn ready(&mut self, days: &[PathBuf]) -> Result<Next, Unread> {
        let at = match (&mut self.at, days.first()) {
            (Some(at), _) => at,
            (at, Some(first)) => at.insert(Place::new(first.clone(), 0)),
            (None, None) => return Ok(Next::Nothing),
        };
        let unread = |error| Unread(at.path.clone(), error);
        match open(&at.path) {
            Ok(mut file) => {
                let whole = match &self.last {
                    Some(mark) if at.offset > 0 => {
                        stands(&mut file, mark, at.offset).map_err(unread)?
                    }
                    _ => at.offset == 0,
                };
                if whole {
                    at.file = Some(file);
                    return Ok(Next::Here);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if at.file.is_some() {
                    return Ok(Next::Here);
                }
            }
            Err(error) => return Err(unread(error)),
        }
        self.find(days)
    }

    /// Finds the line behind the last one, wherever it stands now.
    fn find(&mut self, days: &[PathBuf]) -> Result<Next, Unread> {
        let Some(first) = days.first() else {
            return Ok(Next::Nothing);
        };
        if let Some(last) = self.last.clone() {
            let mut begins = None;
            for day in days {
                begins = begins_with(day)?;
                if begins.is_some() {
                    break;
                }
            }
            if begins.is_none() && !days.iter().any(|day| name(day) == last.file) {
                // Its file was removed, and the next one has no line yet.
                return Ok(Next::Nothing);
            }
            if begins.is_none_or(|seq| seq <= last.seq) {
                for day in days {
                    if let Some(offset) = behind(day, &last)? {
                        self.at = Some(Place::new(day.clone(), offset));
                        return Ok(Next::Elsewhere);
                    }
                }
                self.findings.push(Finding::Changed(last));
                self.last = None;
                self.seq = None;
            }
        }
        // All that is there is newer, or another record: missing lines are counted when it is read.
        self.at = Some(Place::new(first.clone(), 0));
        Ok(Next::Elsewhere)
    }

    fn fill(&mut self, batch: &mut Vec<Line>, most: usize, bytes: usize) -> Result<End, Unread> {
        let Some(Place {
            path,
            name,
            offset,
            file: Some(file),
        }) = &mut self.at
        else {
            return Ok(End::File { torn: 0 });
        };
        let failed = |error: io::Error| Unread(path.clone(), error);
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

/// Where to go on.
enum Next {
    Here,
    Elsewhere,
    Nothing,
}

/// A file that cannot be read, and why.
struct Unread(PathBuf, io::Error);

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
fn begins_with(path: &Path) -> Result<Option<u64>, Unread> {
    let failed = |error: io::Error| Unread(path.to_path_buf(), error);
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
fn behind(path: &Path, mark: &Mark) -> Result<Option<u64>, Unread> {
    let failed = |error: io::Error| Unread(path.to_path_buf(), error);
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
