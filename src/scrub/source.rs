//! What a pipe brings, and the documents of JSON in it.

use std::io::{self, Read};

use serde::de::IgnoredAny;

use super::LARGEST;

/// So much is read at once.
const READ: usize = 64 << 10;

/// Documents are looked for until so many times what came was read, and a bit more.
const ATTEMPTS: usize = 3;

/// While it is no larger, a document is tried with each piece that comes.
const SMALL: usize = 64 << 10;

/// A reader, and what was read ahead.
pub(super) struct Source<'r> {
    input: &'r mut dyn Read,
    buffer: Vec<u8>,
    /// So much of the buffer is gone.
    start: usize,
    ended: bool,
    /// Bytes that may still be read in vain.
    attempts: usize,
}

/// Whether a document of JSON begins somewhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Document {
    /// None does.
    None,
    /// One of that length, with the blanks before it and the line's end behind it.
    Length(usize),
    /// One that is too large.
    TooLarge,
}

impl<'r> Source<'r> {
    pub(super) fn new(input: &'r mut dyn Read) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            ended: false,
            attempts: LARGEST,
        }
    }

    /// What was read and not taken.
    pub(super) fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Whether nothing follows the rest.
    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes so many bytes of the rest.
    pub(super) fn take(&mut self, length: usize) {
        self.start = (self.start + length).min(self.buffer.len());
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
    }

    /// Reads on. False: nothing follows.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.start > READ {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let length = self.buffer.len();
        self.buffer.resize(length + READ, 0);
        let read = loop {
            let room = self.buffer.get_mut(length..).unwrap_or_default();
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer
            .truncate(length + read.as_ref().copied().unwrap_or(0));
        let read = read?;
        self.ended = read == 0;
        self.attempts = self.attempts.saturating_add(read.saturating_mul(ATTEMPTS));
        Ok(read > 0)
    }

    /// The document that begins the line at that place of the rest. Reads on as long as it may
    /// become one.
    pub(super) fn document(&mut self, at: usize) -> io::Result<Document> {
        let (mut tried, mut looked) = (0, 0);
        loop {
            let line = self.rest().get(at..).unwrap_or_default();
            let length = line.len();
            match line.trim_ascii_start().first() {
                Some(b'{' | b'[') if self.attempts > 0 => {}
                None if !self.ended && length < SMALL => {
                    self.fill()?;
                    continue;
                }
                _ => return Ok(Document::None),
            }
            // Trying again has to be worth it: only the end of a line ends a document.
            let more = line.get(looked..).unwrap_or_default();
            let worth = tried == 0
                || self.ended
                || length >= 2 * tried
                || length > LARGEST
                || length <= SMALL && memchr::memchr(b'\n', more).is_some();
            if worth {
                tried = length;
                match self.tried(at) {
                    Tried::Whole(length) => return Ok(Document::Length(length)),
                    Tried::No => return Ok(Document::None),
                    Tried::Begun if length > LARGEST => return Ok(Document::TooLarge),
                    Tried::Begun => {}
                }
            }
            looked = length;
            self.fill()?;
        }
    }

    fn tried(&mut self, at: usize) -> Tried {
        let line = self.rest().get(at..).unwrap_or_default();
        let text = line.trim_ascii_start();
        let blanks = line.len() - text.len();
        let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
        let cost;
        let tried = match values.next() {
            Some(Ok(_)) => {
                let end = values.byte_offset();
                cost = end;
                let behind = text.get(end..).unwrap_or_default();
                match memchr::memchr(b'\n', behind) {
                    Some(newline) if is_blank(behind, newline) => {
                        Tried::Whole(blanks + end + newline + 1)
                    }
                    None if is_blank(behind, behind.len()) => {
                        if self.ended {
                            Tried::Whole(line.len())
                        } else {
                            Tried::Begun
                        }
                    }
                    _ => Tried::No,
                }
            }
            Some(Err(error)) if error.is_eof() => {
                cost = 0;
                Tried::Begun
            }
            Some(Err(error)) => {
                cost = offset(text, &error);
                Tried::No
            }
            None => {
                cost = 0;
                Tried::No
            }
        };
        // At the end, what only began is none.
        let (tried, cost) = match tried {
            Tried::Begun if self.ended => (Tried::No, text.len()),
            tried => (tried, cost),
        };
        if tried == Tried::No {
            self.attempts = self.attempts.saturating_sub(cost + 1);
        }
        tried
    }
}

#[derive(PartialEq, Eq)]
enum Tried {
    Whole(usize),
    Begun,
    No,
}

fn is_blank(bytes: &[u8], length: usize) -> bool {
    bytes
        .get(..length)
        .is_some_and(|bytes| bytes.trim_ascii().is_empty())
}

/// About where reading failed.
fn offset(text: &[u8], error: &serde_json::Error) -> usize {
    let line = error.line().saturating_sub(1);
    let before = match line {
        0 => 0,
        line => memchr::memchr_iter(b'\n', text)
            .nth(line - 1)
            .unwrap_or(text.len()),
    };
    before + error.column()
}
