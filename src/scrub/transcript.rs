//! One transcript: what is found in it, and the same file without it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::de::IgnoredAny;

use super::file::{self, Fresh, Opened, Refusal};
use super::hosts::{Transcript, Treatment};
use super::live::Sessions;
use super::{LARGEST, text};
use crate::engine::redaction::Redactor;

/// How often each rule found something.
pub type Hits = BTreeMap<String, usize>;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It is as it was; a dry run would leave it so too if nothing was found.
    Unchanged,
    /// It holds no secret any more.
    Cleaned,
    /// It still holds secrets, or was not looked at: why.
    Left(String),
}

/// What was found in a file, and what became of it.
#[derive(Debug)]
pub struct Examined {
    /// What was found.
    pub hits: Hits,
    /// What became of it.
    pub ending: Ending,
}

/// Looks at a transcript and takes out what is found, unless this is a dry run.
pub fn scrub(
    redactor: Redactor<'_>,
    transcript: &Transcript,
    sessions: &mut Sessions,
    dry_run: bool,
) -> Examined {
    let mut hits = Hits::new();
    let ending = examine(redactor, transcript, sessions, dry_run, &mut hits)
        .unwrap_or_else(|refusal| Ending::Left(refusal.to_string()));
    Examined { hits, ending }
}

fn examine(
    redactor: Redactor<'_>,
    Transcript { path, treatment }: &Transcript,
    sessions: &mut Sessions,
    dry_run: bool,
    hits: &mut Hits,
) -> Result<Ending, Refusal> {
    let mut opened = file::open(path, false)?;
    let lines = is_lines(path) && *treatment == Treatment::Clean;
    let mut job = Job {
        redactor,
        path,
        sessions,
        fresh: None,
        writes: !dry_run,
        busy: None,
        hits,
        failed: Vec::new(),
    };
    if lines {
        job.lines(&mut opened)?;
    } else if let Some(why) = job.whole(&mut opened, *treatment)? {
        return Ok(Ending::Left(why));
    }
    // What goes on may have begun in the meantime.
    job.check(&opened);
    let Job {
        fresh,
        failed,
        busy,
        hits,
        ..
    } = job;
    if let Some(why) = busy.filter(|_| !hits.is_empty()) {
        return Ok(Ending::Left(why));
    }
    let changed = fresh.is_some();
    if let Some(fresh) = fresh {
        fresh.replace(path, &opened, true)?;
    }
    if !failed.is_empty() {
        return Ok(Ending::Left(failed_lines(&failed)));
    }
    Ok(if changed {
        Ending::Cleaned
    } else {
        Ending::Unchanged
    })
}

/// Whether each line of the file is a text of its own.
fn is_lines(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".jsonl") || name.contains(".jsonl.")
}

fn failed_lines(lines: &[u64]) -> String {
    let first: Vec<String> = lines.iter().take(3).map(u64::to_string).collect();
    let more = if lines.len() > 3 { " …" } else { "" };
    format!(
        "not all of it can be looked at: line {}{more}",
        first.join(", ")
    )
}

struct Job<'a, 'j> {
    redactor: Redactor<'a>,
    path: &'j Path,
    sessions: &'j mut Sessions,
    /// The new text, as soon as it is another one.
    fresh: Option<Fresh>,
    /// Whether there will be a new text.
    writes: bool,
    /// Why the file is not to be touched.
    busy: Option<String>,
    hits: &'j mut Hits,
    /// Lines that could not be looked at, and stay as they are.
    failed: Vec<u64>,
}

impl Job<'_, '_> {
    /// Looks at each line for itself, so that a transcript of any length can be cleaned.
    fn lines(&mut self, opened: &mut Opened) -> Result<(), Refusal> {
        let read = |error| Refusal::Io("read", error);
        let mut reader = BufReader::new(opened.file.try_clone().map_err(read)?);
        let (mut number, mut passed) = (0, 0);
        let mut line = Vec::new();
        loop {
            line.clear();
            let most = LARGEST as u64 + 1;
            let length = (&mut reader).take(most).read_until(b'\n', &mut line);
            let length = length.map_err(read)?;
            if length == 0 {
                return Ok(());
            }
            if length > LARGEST {
                return Err(Refusal::TooLarge);
            }
            number += 1;
            match self.line(&line, number) {
                Some(new) => {
                    self.begin(opened, passed)?;
                    self.write(&new)?;
                }
                None => self.write(&line)?,
            }
            passed += length as u64;
        }
    }

    /// The line without what is found in it, if that is another one.
    fn line(&mut self, line: &[u8], number: u64) -> Option<Vec<u8>> {
        let is_json = |line: &[u8]| serde_json::from_slice::<IgnoredAny>(line).is_ok();
        let new = match text::clean(self.redactor, line) {
            Ok(new) => new?,
            Err(_) => {
                self.failed.push(number);
                return None;
            }
        };
        // What was a document has to stay one: else it was not read as the host reads it.
        let counted = count(self.redactor, line, self.hits);
        if counted.is_err() || is_json(line) && !is_json(&new) {
            self.failed.push(number);
            return None;
        }
        Some(new)
    }

    /// Looks at all of a file at once. Says why it stays as it is, if it should not.
    fn whole(
        &mut self,
        opened: &mut Opened,
        treatment: Treatment,
    ) -> Result<Option<String>, Refusal> {
        let path = self.path.to_string_lossy();
        if path.ends_with(".zst") || path.ends_with(".gz") {
            return Ok(Some("it is compressed, and was not looked at".to_owned()));
        }
        let Some(bytes) = file::bytes(opened)? else {
            return Err(Refusal::TooLarge);
        };
        let binary = text::is_binary(&bytes);
        let lossy;
        let bytes = if binary {
            // Between the bytes of a database or an image, texts are in one piece.
            lossy = String::from_utf8_lossy(&bytes);
            lossy.as_bytes()
        } else {
            &bytes
        };
        let fault = "not all of it can be looked at";
        if count(self.redactor, bytes, self.hits).is_err() {
            return Ok(Some(fault.to_owned()));
        }
        if self.hits.is_empty() {
            return Ok(None);
        }
        match treatment {
            Treatment::Look(why) => Ok(Some(why.to_owned())),
            Treatment::Clean if binary => Ok(Some("it is no text".to_owned())),
            Treatment::Clean => match text::clean(self.redactor, bytes) {
                Ok(Some(new)) => {
                    self.begin(opened, 0)?;
                    self.write(&new)?;
                    Ok(None)
                }
                Ok(None) => Ok(None),
                Err(_) => Ok(Some(fault.to_owned())),
            },
        }
    }

    /// Begins the new text with what was passed of the old one.
    fn begin(&mut self, opened: &Opened, passed: u64) -> Result<(), Refusal> {
        if self.fresh.is_some() {
            return Ok(());
        }
        self.check(opened);
        if !self.writes {
            return Ok(());
        }
        let read = |error| Refusal::Io("read", error);
        let mut fresh = Fresh::beside(self.path, opened)?;
        // A descriptor of its own: the reader goes on from where it is.
        let mut again = file::open(self.path, false)?;
        if again.was != opened.was {
            return Err(Refusal::Changed);
        }
        again.file.seek(SeekFrom::Start(0)).map_err(read)?;
        let mut left = again.file.take(passed);
        let mut piece = vec![0; 1 << 20];
        loop {
            let length = left.read(&mut piece).map_err(read)?;
            if length == 0 {
                break;
            }
            fresh.write(piece.get(..length).unwrap_or_default())?;
        }
        self.fresh = Some(fresh);
        Ok(())
    }

    /// Sees whether somebody else writes to the file.
    fn check(&mut self, opened: &Opened) {
        if self.busy.is_none() && (self.fresh.is_some() || !self.hits.is_empty()) {
            self.busy = self.sessions.going_on(self.path, &opened.was);
            self.writes &= self.busy.is_none();
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        match &mut self.fresh {
            Some(fresh) => fresh.write(bytes),
            None => Ok(()),
        }
    }
}

/// Counts what is found in a text.
fn count(
    redactor: Redactor<'_>,
    bytes: &[u8],
    hits: &mut Hits,
) -> Result<(), crate::engine::redaction::Fault> {
    for seen in text::look(redactor, bytes)? {
        *hits.entry(seen.rule.id.clone()).or_default() += 1;
    }
    Ok(())
}
