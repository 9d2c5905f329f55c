//! Lines of a file, one at a time and in constant memory, however long they are.

use std::io::{self, BufRead, BufReader, Read};

use sha2::{Digest, Sha256};

use super::record::v1::LINE_LIMIT;

/// How much is read at once.
const BLOCK: usize = 256 << 10;

/// A SHA-256.
pub type Hash = [u8; 32];

/// The lines of one file.
#[derive(Debug)]
pub struct Lines<R> {
    reader: BufReader<R>,
    kept: Vec<u8>,
    number: u64,
}

/// One line, without its line feed.
#[derive(Debug)]
pub struct Raw<'a> {
    /// Its bytes; of a line that is longer than any in the record, only the first ones.
    pub bytes: &'a [u8],
    /// How many bytes it has.
    pub length: u64,
    /// Its number in the file, from 1.
    pub number: u64,
    /// Whether a line feed ends it.
    pub ended: bool,
    long: Option<Hash>,
}

impl Raw<'_> {
    /// The SHA-256 of the whole line.
    #[must_use]
    pub fn digest(&self) -> Hash {
        self.long
            .unwrap_or_else(|| Sha256::digest(self.bytes).into())
    }

    /// Whether it is longer than any line of the record.
    #[must_use]
    pub const fn is_too_long(&self) -> bool {
        self.long.is_some()
    }
}

impl<R: Read> Lines<R> {
    /// The lines that a reader gives.
    pub fn new(reader: R) -> Self {
        Self {
            reader: BufReader::with_capacity(BLOCK, reader),
            kept: Vec::new(),
            number: 0,
        }
    }

    /// The next line.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn line(&mut self) -> io::Result<Option<Raw<'_>>> {
        self.kept.clear();
        let mut long: Option<Sha256> = None;
        let mut length = 0_u64;
        let ended = loop {
            let block = match self.reader.fill_buf() {
                Ok(block) => block,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if block.is_empty() {
                break false;
            }
            let feed = memchr::memchr(b'\n', block);
            let part = block.get(..feed.unwrap_or(block.len())).unwrap_or(block);
            length += part.len() as u64;
            if let Some(hash) = &mut long {
                hash.update(part);
            } else if self.kept.len() + part.len() >= LINE_LIMIT {
                let mut hash = Sha256::new();
                hash.update(&self.kept);
                hash.update(part);
                long = Some(hash);
            } else {
                self.kept.extend_from_slice(part);
            }
            let used = part.len() + usize::from(feed.is_some());
            self.reader.consume(used);
            if feed.is_some() {
                break true;
            }
        };
        if !ended && length == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(Raw {
            bytes: &self.kept,
            length,
            number: self.number,
            ended,
            long: long.map(|hash| hash.finalize().into()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_any_length_are_told_with_their_hash() {
        let long = "x".repeat(700_000);
        let text = format!("a\n\n{long}\nend");
        let mut lines = Lines::new(text.as_bytes());
        for (number, (expected, ended)) in [("a", true), ("", true), (&*long, true), ("end", false)]
            .into_iter()
            .enumerate()
        {
            let line = lines.line().unwrap().unwrap();
            assert_eq!(line.number, number as u64 + 1);
            assert_eq!(line.length, expected.len() as u64);
            assert_eq!(line.ended, ended);
            assert_eq!(line.digest(), Hash::from(Sha256::digest(expected)));
            assert_eq!(line.is_too_long(), expected.len() > LINE_LIMIT);
        }
        assert!(lines.line().unwrap().is_none());
    }
}
