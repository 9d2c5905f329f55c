//! A whole text as bytes: in UTF-8 with whatever else is in between, or in UTF-16 with its mark.

use super::place::{Follower, Place, Seen};
use crate::engine::redaction::{Fault, Redactor, find};

/// What a text in UTF-8 may begin with.
pub const MARK: &[u8] = "\u{feff}".as_bytes();

/// Whether the bytes are no text: there is a NUL among them, and no mark of UTF-16 before them.
#[must_use]
pub fn is_binary(bytes: &[u8]) -> bool {
    !is_wide(bytes) && memchr::memchr(0, bytes).is_some()
}

/// Whether a mark says that this is UTF-16.
#[must_use]
pub fn is_wide(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xFE, 0xFF]) || bytes.starts_with(&[0xFF, 0xFE])
}

/// What is found in a text, in its order.
///
/// # Errors
/// If not all of it can be looked at.
pub fn look<'a>(redactor: Redactor<'a>, bytes: &[u8]) -> Result<Vec<Seen<'a>>, Fault> {
    if let Some(wide) = Wide::of(bytes) {
        return look(redactor, wide.text.as_bytes());
    }
    let mut seen = Vec::new();
    let mut place = Place::default();
    let (mark, rest) = split_mark(bytes);
    // An editor does not show it.
    let _ = mark;
    for chunk in rest.utf8_chunks() {
        let text = chunk.valid();
        if !text.is_empty() {
            let mut follower = Follower::new(redactor, place);
            let mut behind = text.as_bytes();
            for finding in find(redactor.rules(), text)? {
                seen.push(follower.find(&finding, &mut behind)?);
            }
            place = follower.go_to(text.len(), &mut behind)?;
        }
        place.pass(chunk.invalid());
    }
    Ok(seen)
}

/// The text without its secrets, if it holds any.
///
/// # Errors
/// If not all of it can be looked at, or it cannot be written as it was read.
pub fn clean(redactor: Redactor<'_>, bytes: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    if let Some(wide) = Wide::of(bytes) {
        let redacted = redactor.text(&wide.text)?;
        return match (redacted.hits.is_empty(), wide.whole) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(wide.write(&redacted.value))),
            (false, false) => Err(Fault::Broken),
        };
    }
    let (mark, rest) = split_mark(bytes);
    let mut new = mark.to_vec();
    let mut any = false;
    for chunk in rest.utf8_chunks() {
        if !chunk.valid().is_empty() {
            let redacted = redactor.text(chunk.valid())?;
            any |= !redacted.hits.is_empty();
            new.extend_from_slice(redacted.value.as_bytes());
        }
        new.extend_from_slice(chunk.invalid());
    }
    Ok(any.then_some(new))
}

fn split_mark(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = if bytes.starts_with(MARK) {
        MARK.len()
    } else {
        0
    };
    bytes.split_at_checked(length).unwrap_or((&[], bytes))
}

/// A text that was written in UTF-16.
struct Wide {
    text: String,
    big: bool,
    /// Nothing was lost when it was read.
    whole: bool,
}

impl Wide {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (big, rest) = match bytes {
            [0xFE, 0xFF, rest @ ..] => (true, rest),
            [0xFF, 0xFE, rest @ ..] => (false, rest),
            _ => return None,
        };
        let (pairs, odd) = rest.as_chunks::<2>();
        let read = if big {
            u16::from_be_bytes
        } else {
            u16::from_le_bytes
        };
        let units: Vec<u16> = pairs.iter().map(|pair| read(*pair)).collect();
        let text = String::from_utf16(&units);
        Some(Self {
            whole: text.is_ok() && odd.is_empty(),
            text: text.unwrap_or_else(|_| String::from_utf16_lossy(&units)),
            big,
        })
    }

    fn write(&self, text: &str) -> Vec<u8> {
        let write = if self.big {
            u16::to_be_bytes
        } else {
            u16::to_le_bytes
        };
        std::iter::once(0xFEFF)
            .chain(text.encode_utf16())
            .flat_map(write)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::testing::{Trial, token};

    #[test]
    fn what_is_no_text_stays_and_the_rest_is_looked_at() {
        let trial = Trial::new();
        let sets = trial.sets();
        let redactor = Redactor::new(&sets, &[7; 32]);
        let mut text = b"\xff\xfa latin \xe9\r\nT=".to_vec();
        text.extend_from_slice(token().as_bytes());
        text.extend_from_slice(b"\r\n\x80 end \xe9");
        let new = clean(redactor, &text).unwrap().unwrap();
        assert!(new.starts_with(b"\xff\xfa latin \xe9\r\nT=\xc2\xabredacted:test-token#"));
        assert!(new.ends_with(b"\xc2\xbb\r\n\x80 end \xe9"));
        assert_eq!(clean(redactor, &new).unwrap(), None);
        let seen = look(redactor, &text).unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].start, Place { line: 2, column: 3 });
        assert_eq!(seen[0].end.column, 3 + token().len() as u64);
    }

    #[test]
    fn wide_texts_are_read_and_written_as_such() {
        let trial = Trial::new();
        let sets = trial.sets();
        let redactor = Redactor::new(&sets, &[7; 32]);
        let text = format!("é😀\r\nT={}\r\n", token());
        for big in [true, false] {
            let wide = Wide {
                text: String::new(),
                big,
                whole: true,
            };
            let bytes = wide.write(&text);
            assert!(!is_binary(&bytes));
            assert_eq!(look(redactor, &bytes).unwrap()[0].start.line, 2);
            let new = clean(redactor, &bytes).unwrap().unwrap();
            let read = Wide::of(&new).unwrap();
            assert!(read.whole && read.big == big);
            assert!(read.text.starts_with("é😀\r\nT=«redacted:test-token#"));
            assert!(read.text.ends_with("»\r\n"));
        }
        assert!(is_binary(b"a\0b"));
    }

    #[test]
    fn a_marked_document_stays_one() {
        let trial = Trial::new();
        let sets = trial.sets();
        let redactor = Redactor::new(&sets, &[7; 32]);
        let text = format!("\u{feff}{{\"a\": \"x\\n{}\"}}", token());
        let new = clean(redactor, text.as_bytes()).unwrap().unwrap();
        let new = new.strip_prefix(MARK).unwrap();
        serde_json::from_slice::<serde_json::Value>(new).unwrap();
    }
}
