//! A text of any length, in at one end and out at the other without its secrets.
//!
//! Documents of JSON that begin a line are taken whole, so that they stay documents; what is in
//! between goes through a [`Stream`]. Bytes that are no UTF-8 pass as they are.

use std::io::{self, Read};

use super::place::{Follower, Place, Seen};
use super::source::{Document, Source};
use super::{LARGEST, text};
use crate::engine::redaction::{Fault, Redactor, Stream, find};

/// Texts go into the stream in pieces of this size: more would wait too long for the rest.
const PIECE: usize = 32 << 10;

/// When the stream holds so much back, it is something long, and gets the rest of it at once.
const LONG: usize = 16 << 10;

/// But no more of it than this.
const LONGEST: usize = 4 << 20;

/// Documents that follow one another are looked at together.
const DOCUMENTS: usize = 256 << 10;

/// What comes out of a pipe.
#[derive(Debug)]
pub enum Part<'p, 'a> {
    /// The next bytes of the text without its secrets.
    Text(&'p [u8]),
    /// A secret that was in it.
    Seen(Seen<'a>),
}

/// What is wanted of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The text.
    Text,
    /// What was found in it.
    Findings,
}

/// Why not all of a text went through.
#[derive(Debug)]
pub enum Broken {
    /// It could not be read, or what came out could not be written.
    Io(io::Error),
    /// It could not be looked at, from about this line on.
    Fault(Place, Fault),
    /// There is a document that begins here and is too large to be taken whole.
    TooLarge(Place),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Lets a text through. With `whole`, up to the size of a document all of it is looked at together,
/// as rules for columns need it.
///
/// # Errors
/// If it cannot be read, looked at or written. Nothing of it was let through that was not looked at.
pub fn run<'a>(
    redactor: Redactor<'a>,
    wanted: Wanted,
    whole: bool,
    input: &mut dyn Read,
    out: &mut dyn FnMut(Part<'_, 'a>) -> io::Result<()>,
) -> Result<(), Broken> {
    let mut source = Source::new(input);
    let mut pipe = Pipe {
        redactor,
        wanted,
        out,
        place: Place::default(),
        section: None,
    };
    while source.rest().len() < text::MARK.len() && source.fill()? {}
    let wide = text::is_wide(source.rest());
    if whole || wide {
        while source.rest().len() <= LARGEST && source.fill()? {}
        if source.has_ended() {
            return pipe.all(source.rest());
        }
        if wide {
            return Err(Broken::TooLarge(pipe.place));
        }
    }
    if source.rest().starts_with(text::MARK) {
        pipe.emit(text::MARK)?;
        source.take(text::MARK.len());
    }
    pipe.lines(&mut source)
}

struct Pipe<'a, 'o> {
    redactor: Redactor<'a>,
    wanted: Wanted,
    out: &'o mut dyn FnMut(Part<'_, 'a>) -> io::Result<()>,
    /// Where what is no part of the section begins.
    place: Place,
    section: Option<Section<'a>>,
}

/// A run of UTF-8 between documents and other bytes.
struct Section<'a> {
    stream: Stream<'a>,
    follower: Follower<'a>,
    /// The bytes that the follower did not pass yet.
    behind: Vec<u8>,
    /// So many bytes went in.
    pushed: usize,
}

impl<'a> Pipe<'a, '_> {
    /// A text that is there as a whole.
    fn all(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let at = self.place;
        let fault = |fault| Broken::Fault(at, fault);
        match self.wanted {
            Wanted::Text => {
                let new = text::clean(self.redactor, bytes).map_err(fault)?;
                (self.out)(Part::Text(new.as_deref().unwrap_or(bytes)))?;
            }
            Wanted::Findings => {
                for seen in text::look(self.redactor, bytes).map_err(fault)? {
                    (self.out)(Part::Seen(seen))?;
                }
            }
        }
        Ok(())
    }

    fn lines(&mut self, source: &mut Source<'_>) -> Result<(), Broken> {
        // Text that was looked at for documents, from the beginning of the source's rest on.
        let mut seen = 0;
        let mut head = true;
        loop {
            let rest = source.rest().get(seen..).unwrap_or_default();
            if rest.is_empty() {
                seen -= self.push(source, seen)?;
                if !source.fill()? {
                    return self.end(source);
                }
                continue;
            }
            if head {
                match source.document(seen)? {
                    Document::None => {}
                    Document::Length(length) => {
                        self.text(source, seen)?;
                        seen = 0;
                        self.documents(source, length)?;
                        continue;
                    }
                    Document::TooLarge => {
                        self.text(source, seen)?;
                        return Err(Broken::TooLarge(self.place));
                    }
                }
            }
            let rest = source.rest().get(seen..).unwrap_or_default();
            match memchr::memchr(b'\n', rest) {
                Some(newline) => {
                    seen += newline + 1;
                    head = true;
                }
                None => {
                    seen += rest.len();
                    head = false;
                }
            }
            if seen >= PIECE {
                seen -= self.push(source, seen)?;
            }
        }
    }

    /// The documents that follow one another, the first of which has that length.
    fn documents(&mut self, source: &mut Source<'_>, first: usize) -> Result<(), Broken> {
        let mut length = first;
        while length < DOCUMENTS && length < source.rest().len() {
            match source.document(length)? {
                Document::Length(next) => length += next,
                Document::None | Document::TooLarge => break,
            }
        }
        let bytes = source.rest().get(..length).unwrap_or_default();
        let fault = |place| move |fault| Broken::Fault(place, fault);
        let Ok(text) = std::str::from_utf8(bytes) else {
            return self.text(source, length);
        };
        match self.wanted {
            Wanted::Text => {
                let new = self.redactor.text(text).map_err(fault(self.place))?;
                (self.out)(Part::Text(new.value.as_bytes()))?;
            }
            Wanted::Findings => {
                let mut follower = Follower::new(self.redactor, self.place);
                let mut behind = bytes;
                for finding in find(self.redactor.rules(), text).map_err(fault(self.place))? {
                    let seen = follower.find(&finding, &mut behind);
                    (self.out)(Part::Seen(seen.map_err(fault(self.place))?))?;
                }
            }
        }
        self.place.pass(bytes);
        source.take(length);
        Ok(())
    }

    /// Looks at text up to there, and lets all of it through: it ends.
    fn text(&mut self, source: &mut Source<'_>, length: usize) -> Result<(), Broken> {
        let bytes = source.rest().get(..length).unwrap_or_default().to_vec();
        source.take(length);
        self.feed(&bytes, true)
    }

    /// Looks at text up to there, as far as that can be done yet. Says how much it took.
    fn push(&mut self, source: &mut Source<'_>, length: usize) -> Result<usize, Broken> {
        let mut taken = 0;
        while taken < length {
            let waiting = self.section.as_ref().map_or(0, |s| s.stream.waiting());
            let ready = length - taken;
            let size = if waiting < LONG { PIECE } else { LONGEST };
            if waiting >= LONG && ready < size {
                break;
            }
            let piece = source.rest().get(..size.min(ready)).unwrap_or_default();
            let size = whole_characters(piece);
            if size == 0 {
                break;
            }
            let piece = piece.get(..size).unwrap_or_default().to_vec();
            self.feed(&piece, false)?;
            source.take(size);
            taken += size;
        }
        Ok(taken)
    }

    fn end(&mut self, source: &mut Source<'_>) -> Result<(), Broken> {
        let length = source.rest().len();
        self.text(source, length)
    }

    /// Looks at bytes, which are the last ones of a section or not.
    fn feed(&mut self, bytes: &[u8], last: bool) -> Result<(), Broken> {
        let mut left = bytes.len();
        for chunk in bytes.utf8_chunks() {
            left -= chunk.valid().len() + chunk.invalid().len();
            let ends = !chunk.invalid().is_empty() || last && left == 0;
            self.feed_text(chunk.valid(), ends)?;
            if !chunk.invalid().is_empty() {
                self.emit(chunk.invalid())?;
            }
        }
        if last {
            self.feed_text("", true)?;
        }
        Ok(())
    }

    fn feed_text(&mut self, piece: &str, ends: bool) -> Result<(), Broken> {
        if piece.is_empty() && self.section.is_none() {
            return Ok(());
        }
        let section = self.section.get_or_insert_with(|| Section {
            stream: Stream::watched(self.redactor),
            follower: Follower::new(self.redactor, self.place),
            behind: Vec::new(),
            pushed: 0,
        });
        section.behind.extend_from_slice(piece.as_bytes());
        section.pushed += piece.len();
        let new = if ends {
            section.stream.flush(piece)
        } else {
            section.stream.push(piece)
        };
        let place = section.follower.place();
        self.release(&new.map_err(|fault| Broken::Fault(place, fault))?)?;
        if ends && let Some(section) = self.section.take() {
            self.place = section.follower.place();
        }
        Ok(())
    }

    /// Hands on what the stream gave.
    fn release(&mut self, new: &str) -> Result<(), Broken> {
        let Some(section) = &mut self.section else {
            return Ok(());
        };
        let place = section.follower.place();
        let fault = |fault| Broken::Fault(place, fault);
        let mut behind = section.behind.as_slice();
        for finding in section.stream.findings() {
            let seen = section
                .follower
                .find(&finding, &mut behind)
                .map_err(fault)?;
            if self.wanted == Wanted::Findings {
                (self.out)(Part::Seen(seen))?;
            }
        }
        let gone = section.pushed - section.stream.waiting();
        section.follower.go_to(gone, &mut behind).map_err(fault)?;
        let left = behind.len();
        section.behind.drain(..section.behind.len() - left);
        if self.wanted == Wanted::Text {
            (self.out)(Part::Text(new.as_bytes()))?;
        }
        Ok(())
    }

    /// Bytes that are no text.
    fn emit(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        if bytes != text::MARK {
            self.place.pass(bytes);
        }
        if self.wanted == Wanted::Text {
            (self.out)(Part::Text(bytes))?;
        }
        Ok(())
    }
}

/// How many bytes there are before a character whose end is still to come.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let last = bytes.get(tail..).unwrap_or_default();
    // A character that is cut begins with one of the last three bytes.
    last.iter()
        .position(|byte| *byte >= 0xC0)
        .filter(|at| {
            let character = last.get(*at..).unwrap_or_default();
            std::str::from_utf8(character).is_err_and(|error| error.error_len().is_none())
        })
        .map_or(bytes.len(), |at| tail + at)
}

#[cfg(test)]
mod tests;
