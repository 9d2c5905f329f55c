//! Texts that come in pieces: what is surely no part of a secret goes on at once, the rest waits.

use super::placeholder::{fingerprint, placeholder};
use super::redactor::{Hits, Redacted, Redactor};
use super::scan::{Budget, earlier};
use super::sets::Sets;
use super::{Fault, Finding, document, table};

/// The last line waits, but no more of it than this.
const LINE: usize = 256;

/// What may be a secret, or is an unfinished document, waits until there are so many bytes of it.
/// No secret that is found in a whole text is longer.
const CAP: usize = 512 << 10;

/// So much of what went on already is kept: a name and its value may be lines apart.
const CONTEXT: usize = 512;

/// Where more than this waits, it is looked at again only when a quarter more has come.
const PATIENCE: usize = 4 << 10;

/// The longest first line that is kept as the head of a table.
const HEAD: usize = 4 << 10;

/// What a text is replaced by that is too long to wait for.
const WITHHELD: &str = "withheld";

/// A redactor for one text that comes in pieces.
///
/// Wherever the text is cut, at least what would be replaced in the whole text is replaced.
#[derive(Debug)]
pub struct Stream<'a> {
    redactor: Redactor<'a>,
    /// The head of a table, the end of what went on, as they came, and all that waits.
    text: String,
    /// Where what waits begins.
    waits: usize,
    /// The bytes of the table's head; `None` while the first line is not whole.
    head: Option<usize>,
    /// So much has to wait before it is looked at again.
    patience: usize,
    /// More of what was too long to wait for may follow.
    swallows: bool,
    hits: Hits,
    /// How many bytes of the whole text are not in `text` any more.
    gone: usize,
    /// What was replaced since somebody asked, if anybody does.
    findings: Option<Vec<Finding>>,
}

impl<'a> Stream<'a> {
    /// A stream without any text yet.
    #[must_use]
    pub fn new(redactor: Redactor<'a>) -> Self {
        Self {
            redactor,
            text: String::new(),
            waits: 0,
            head: None,
            patience: 0,
            swallows: false,
            hits: Hits::default(),
            gone: 0,
            findings: None,
        }
    }

    /// The same, for somebody who asks for its [findings](Self::findings).
    #[must_use]
    pub fn watched(redactor: Redactor<'a>) -> Self {
        let mut stream = Self::new(redactor);
        stream.findings = Some(Vec::new());
        stream
    }

    /// What was replaced since this was last asked, by its place in the whole text.
    pub fn findings(&mut self) -> Vec<Finding> {
        self.findings
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Takes the next piece, and gives what may go on.
    ///
    /// # Errors
    /// If not all of it can be looked at. Nothing more of this text may go on then.
    pub fn push(&mut self, piece: &str) -> Result<String, Fault> {
        let piece = self.swallow(piece);
        self.text.push_str(piece);
        if self.waiting() < self.patience {
            return Ok(String::new());
        }
        let (mut findings, open) = self.look()?;
        let mut end = self.text.len() - self.last_line();
        if let Some(open) = open {
            end = end.min(open);
        }
        for finding in findings.iter().rev() {
            if finding.span.end > end {
                end = end.min(finding.span.start);
            }
        }
        let end = boundary(&self.text, end).max(self.waits);
        if end == self.waits && self.waiting() > CAP {
            return Ok(self.give_up());
        }
        findings.retain(|finding| finding.span.end <= end);
        let released = self.release(end, &findings)?;
        let waiting = self.waiting();
        self.patience = if waiting > PATIENCE {
            waiting + waiting / 4
        } else {
            0
        };
        Ok(released)
    }

    /// Gives what waits, and says what was replaced.
    ///
    /// # Errors
    /// If not all of it can be looked at.
    pub fn finish(mut self) -> Result<Redacted<String>, Fault> {
        Ok(Redacted {
            value: self.flush("")?,
            hits: self.hits.list,
        })
    }

    /// Takes a last piece, and gives all that waits, as if nothing followed.
    ///
    /// # Errors
    /// If not all of it can be looked at.
    pub fn flush(&mut self, piece: &str) -> Result<String, Fault> {
        let piece = self.swallow(piece);
        self.text.push_str(piece);
        let (findings, _) = self.look()?;
        self.release(self.text.len(), &findings)
    }

    /// How many bytes wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.text.len() - self.waits
    }

    /// What is found in the text at hand, and from where on more text could change that.
    fn look(&self) -> Result<(Vec<Finding>, Option<usize>), Fault> {
        let bytes = self.text.as_bytes();
        let sets = Sets(self.redactor.rules());
        let mut budget = Budget::of(bytes.len());
        let found = document::read(sets, bytes, &mut budget)?;
        let mut findings = found.findings;
        // Of a secret that went on in part, the rest is replaced.
        findings.retain(|finding| finding.span.end > self.waits);
        for finding in &mut findings {
            finding.span.start = finding.span.start.max(self.waits);
        }
        let unfinished = [
            document::unfinished(bytes, self.waits),
            table::unfinished(sets, bytes),
        ];
        let open = unfinished.into_iter().flatten().fold(found.open, earlier);
        Ok((findings, open))
    }

    /// How many bytes of the last line wait.
    fn last_line(&self) -> usize {
        let bytes = self.text.as_bytes();
        let start = memchr::memrchr(b'\n', bytes).map_or(0, |newline| newline + 1);
        let line = bytes.get(start..).unwrap_or_default();
        if line.len() <= LINE {
            return line.len();
        }
        // A word is not cut.
        let cut = line.len() - LINE;
        let before = line.get(..cut).unwrap_or_default();
        let word = before
            .iter()
            .rev()
            .take_while(|byte| !byte.is_ascii_whitespace());
        LINE + word.count()
    }

    fn release(&mut self, end: usize, findings: &[Finding]) -> Result<String, Fault> {
        let text = self.text.get(self.waits..end).ok_or(Fault::Broken)?;
        let findings: Vec<Finding> = findings
            .iter()
            .cloned()
            .map(|mut finding| {
                finding.span = finding.span.start - self.waits..finding.span.end - self.waits;
                finding
            })
            .collect();
        let new = self.redactor.replace(text, &findings, &mut self.hits)?;
        if let Some(all) = &mut self.findings {
            let before = self.gone + self.waits;
            all.extend(findings.into_iter().map(|mut finding| {
                finding.span = finding.span.start + before..finding.span.end + before;
                finding
            }));
        }
        self.waits = end;
        self.forget();
        Ok(new)
    }

    /// Forgets what went on, but for its end and the head of a table.
    fn forget(&mut self) {
        let bytes = self.text.as_bytes();
        if self.head.is_none() {
            let first = memchr::memchr(b'\n', bytes.get(..bytes.len().min(HEAD)).unwrap_or(bytes));
            let sets = Sets(self.redactor.rules());
            self.head = match first {
                Some(end) if table::is_head(sets, bytes.get(..end).unwrap_or_default()) => {
                    Some(end + 1)
                }
                None if bytes.len() < HEAD => None,
                _ => Some(0),
            };
        }
        let Some(head) = self.head else { return };
        let keep = boundary(&self.text, self.waits.saturating_sub(CONTEXT));
        // From the beginning of a line, unless that is far.
        let before = self.text.as_bytes().get(head..keep).unwrap_or_default();
        let near = before.len().saturating_sub(CONTEXT);
        let before = before.get(near..).unwrap_or_default();
        let keep = match memchr::memrchr(b'\n', before) {
            Some(newline) => head + near + newline + 1,
            None => keep,
        };
        if keep > head {
            self.text.drain(head..keep);
            self.waits -= keep - head;
            self.gone += keep - head;
        }
    }

    /// Replaces all that waits: it is too long, and may be a secret.
    fn give_up(&mut self) -> String {
        let secret = self.text.as_bytes().get(self.waits..).unwrap_or_default();
        let mark = fingerprint(self.redactor.key(), WITHHELD, secret, 0);
        let new = placeholder(WITHHELD, &mark);
        self.hits.add(WITHHELD, "", mark);
        self.gone += self.waiting();
        self.text.truncate(self.waits);
        self.swallows = true;
        self.patience = 0;
        new
    }

    /// The piece without what goes on with a text that was too long to wait for.
    fn swallow<'p>(&mut self, piece: &'p str) -> &'p str {
        if !self.swallows {
            return piece;
        }
        let end = match piece.find([' ', '\t']) {
            Some(end) => {
                self.swallows = false;
                end
            }
            None => piece.len(),
        };
        self.gone += end;
        piece.get(end..).unwrap_or_default()
    }
}

fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Conditions, Length, Rule, Severity, Shape, Token};
    use super::super::{Chars, Ruleset};
    use super::*;

    fn rules() -> Ruleset {
        let token = Token {
            prefixes: vec!["tok_".to_owned()],
            chars: Chars::parse("alnum").unwrap(),
            length: Length { min: 8, max: 64 },
            suffixes: Vec::new(),
            ignore_case: false,
        };
        let rule = Rule {
            id: "tok".to_owned(),
            description: String::new(),
            severity: Severity::High,
            kind: String::new(),
            pack: String::new(),
            keywords: vec!["tok_".to_owned()],
            shape: Shape::Token(token),
            conditions: Conditions::default(),
        };
        Ruleset::new(&[rule], &[]).unwrap()
    }

    /// What goes on after each piece, and at the end.
    fn through(pieces: &[&str]) -> (Vec<String>, String) {
        let rules = rules();
        let sets = [&rules];
        let mut stream = Stream::new(Redactor::new(&sets, b"k"));
        let released = pieces
            .iter()
            .map(|piece| stream.push(piece).unwrap())
            .collect();
        (released, stream.finish().unwrap().value)
    }

    #[test]
    fn a_secret_in_two_pieces_is_one() {
        let (released, rest) = through(&["a\nb tok_1234", "56789 c\n", "d"]);
        assert_eq!(released[0], "a\n");
        assert!(released[1].starts_with("b «redacted:tok#"), "{released:?}");
        assert_eq!(rest, "d");
    }

    #[test]
    fn lines_without_candidates_go_on_at_once() {
        let (released, rest) = through(&["one\ntwo", " three\nfour\n", "end"]);
        assert_eq!(released, ["one\n", "two three\nfour\n", ""]);
        assert_eq!(rest, "end");
        let long = "some words ".repeat(100);
        let (released, rest) = through(&[&long]);
        assert!(rest.len() < LINE + 12 && released[0].len() + rest.len() == long.len());
    }

    #[test]
    fn what_is_too_long_to_wait_for_is_replaced() {
        let run = "a".repeat(CAP);
        let (released, rest) = through(&["x ", &run, &run, &run, " y\n", "z"]);
        let all = released.concat() + &rest;
        assert!(
            all.starts_with("x «redacted:withheld#") && all.ends_with("» y\nz"),
            "{}",
            all.len()
        );
        assert!(!all.contains("aaaa"));
    }

    #[test]
    fn a_document_waits_for_its_end() {
        let (released, rest) = through(&["{\"a\": [1,\n", "2,\n", "3]}\n", "x"]);
        assert_eq!(released, ["", "", "{\"a\": [1,\n2,\n3]}\n", ""]);
        assert_eq!(rest, "x");
    }
}
