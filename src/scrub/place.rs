//! Where a secret stands, as an editor counts.

use crate::engine::redaction::{About, Fault, Finding, Redactor};

/// A line and a column, both from 1; a column is a character, and so is a byte that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl Default for Place {
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

impl Place {
    /// The place behind those bytes, which begin here.
    pub fn pass(&mut self, bytes: &[u8]) {
        let newlines = memchr::memchr_iter(b'\n', bytes).count();
        let line = match memchr::memrchr(b'\n', bytes) {
            Some(newline) => {
                self.column = 1;
                bytes.get(newline + 1..).unwrap_or_default()
            }
            None => bytes,
        };
        let goes_on = |byte: &&u8| **byte & 0xC0 == 0x80;
        let characters = line.len() - line.iter().filter(goes_on).count();
        self.line += newlines as u64;
        self.column += characters as u64;
    }
}

/// A secret that was found: where, by what rule, and what tells it from others. Not the secret.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// Where it begins.
    pub start: Place,
    /// Where it ends.
    pub end: Place,
    /// The rule.
    pub rule: &'a About,
    /// The same for the same secret and key, and nothing to anybody without the key.
    pub fingerprint: String,
}

/// Follows a text from its beginning, and says where what is found there stands.
#[derive(Debug, Clone, Copy)]
pub struct Follower<'a> {
    redactor: Redactor<'a>,
    place: Place,
    /// So many bytes of the text were passed.
    passed: usize,
}

impl<'a> Follower<'a> {
    /// At the beginning of a text, which stands there.
    #[must_use]
    pub const fn new(redactor: Redactor<'a>, place: Place) -> Self {
        Self {
            redactor,
            place,
            passed: 0,
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Goes on to a finding. `rest` is the text from where the last one began.
    ///
    /// # Errors
    /// If the finding is not one of that text and those rules.
    pub fn find(&mut self, finding: &Finding, rest: &mut &[u8]) -> Result<Seen<'a>, Fault> {
        let (rule, fingerprint) = self.redactor.mark(finding)?;
        self.go_to(finding.span.start, rest)?;
        let mut end = self.place;
        let length = finding.span.len();
        end.pass(rest.get(..length).ok_or(Fault::Broken)?);
        Ok(Seen {
            start: self.place,
            end,
            rule,
            fingerprint,
        })
    }

    /// Goes on to a byte of the text.
    ///
    /// # Errors
    /// If it was passed already, or is not there.
    pub fn go_to(&mut self, at: usize, rest: &mut &[u8]) -> Result<Place, Fault> {
        let length = at.checked_sub(self.passed).ok_or(Fault::Broken)?;
        let (before, behind) = rest.split_at_checked(length).ok_or(Fault::Broken)?;
        self.place.pass(before);
        self.passed = at;
        *rest = behind;
        Ok(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_editors_do() {
        for (text, line, column) in [
            (&b""[..], 1, 1),
            (b"abc", 1, 4),
            (b"abc\n", 2, 1),
            (b"a\r\nbc", 2, 3),
            ("é€😀".as_bytes(), 1, 4),
            (b"\n\xff\xfe", 2, 3),
        ] {
            let mut place = Place::default();
            place.pass(text);
            assert_eq!(place, Place { line, column }, "{text:?}");
            let mut place = Place::default();
            for byte in text {
                place.pass(&[*byte]);
            }
            assert_eq!(place, Place { line, column }, "{text:?}, byte by byte");
        }
    }
}
