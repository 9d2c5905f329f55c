//! Documents of JSON: their leaves, decoded, under the names of their keys.
//!
//! Only the bytes of a secret are replaced, where they stand: whitespace, order, escapes and
//! numbers stay as they were written.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::chars::{is_identifier, normalised};
use super::decode::unescape_into;
use super::scan::{Budget, Found, Subject, across, merged, outside, scan};
use super::sets::Sets;
use super::table;
use super::view::View;
use super::{Encoding, Fault, Finding};

/// Keys whose value names another one: `{"name": "X", "value": "…"}`.
const NAMING: [&str; 3] = ["name", "key", "variable"];

/// Keys whose value is that of the name beside it.
const NAMED: [&str; 4] = ["value", "default", "val", "defaultvalue"];

/// Documents in a text are looked for until so many times its bytes were read.
const ATTEMPTS: usize = 3;

/// The secrets of a text, which may be a document, hold documents, or neither.
pub(super) fn read(sets: Sets<'_>, text: &[u8], budget: &mut Budget) -> Result<Found, Fault> {
    let documents = documents(text);
    let mut findings = Vec::new();
    for document in &documents {
        findings.extend(leaves_of(sets, text, document, budget)?);
    }
    let mut open = None;
    let starts = std::iter::once(0).chain(documents.iter().map(|document| document.end));
    let ends = documents.iter().map(|document| document.start);
    for (start, end) in starts.zip(ends.chain([text.len()])) {
        let gap = text.get(start..end).unwrap_or_default();
        if gap.trim_ascii().is_empty() {
            continue;
        }
        let subject = Subject {
            text: gap,
            value: None,
        };
        let found = scan(sets, &subject, budget)?;
        open = found
            .open
            .map(|at| at + start)
            .filter(|_| end == text.len());
        let cells = table::cells(sets, gap);
        for mut finding in found.findings.into_iter().chain(cells) {
            finding.span = finding.span.start + start..finding.span.end + start;
            findings.push(finding);
        }
    }
    Ok(Found {
        findings: merged(findings, sets, text),
        open,
    })
}

/// The documents of JSON that begin a line and end one, in order.
fn documents(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut attempts = text.len().saturating_mul(ATTEMPTS);
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let blanks = rest.len() - rest.trim_ascii_start().len();
        let start = at + blanks;
        let rest = text.get(start..).unwrap_or_default();
        if matches!(rest.first(), Some(b'{' | b'[')) && attempts > 0 {
            let (length, tried) = document_length(rest);
            attempts = attempts.saturating_sub(tried);
            if let Some(length) = length {
                found.push(start..start + length);
                at = start + length;
                continue;
            }
        }
        match memchr::memchr(b'\n', rest) {
            Some(newline) => at = start + newline + 1,
            None => break,
        }
    }
    found
}

/// Where a document begins that has no end yet, in a line from that one on.
pub(super) fn unfinished(text: &[u8], from: usize) -> Option<usize> {
    let before = text.get(..from).unwrap_or_default();
    let mut at = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    loop {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let start = at + rest.len() - rest.trim_ascii_start().len();
        let rest = text.get(start..).unwrap_or_default();
        if matches!(rest.first(), Some(b'{' | b'[')) {
            let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
            match values.next() {
                Some(Err(error)) if error.is_eof() => return Some(start),
                Some(Ok(_)) => {
                    at = start + values.byte_offset();
                    continue;
                }
                _ => {}
            }
        }
        at = start + memchr::memchr(b'\n', rest)? + 1;
    }
}

/// The length of the document that the text begins with, and how much was read to know it.
fn document_length(text: &[u8]) -> (Option<usize>, usize) {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => {
            let length = values.byte_offset();
            let behind = text.get(length..).unwrap_or_default();
            let line = behind.split(|byte| *byte == b'\n').next();
            let ends = line.is_none_or(|line| line.trim_ascii().is_empty());
            (ends.then_some(length), length)
        }
        Some(Err(error)) => {
            let lines = memchr::memchr_iter(b'\n', text).nth(error.line().saturating_sub(2));
            (
                None,
                lines.filter(|_| error.line() > 1).unwrap_or(0) + error.column(),
            )
        }
        None => (None, text.len()),
    }
}

/// A text of fewer bytes holds no secret that is encoded without any sign of it.
const ENCODED_MIN: usize = 20;

/// What a leaf is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Text,
    Number,
}

/// A step from a document's top to a leaf.
enum Step {
    Key(Range<usize>),
    Index(usize),
}

/// An array or object that is being read.
struct Container {
    /// The place among the nodes.
    node: usize,
    object: bool,
    index: usize,
    /// The key of the next value; an array's elements have the array's own.
    key: Option<Range<usize>>,
    /// The value beside it that names it.
    name: Option<Range<usize>>,
    /// The rule that takes everything below here.
    field: Option<usize>,
}

/// Reads the leaves of one document.
struct Reader<'a> {
    sets: Sets<'a>,
    text: &'a [u8],
    start: usize,
    at: usize,
    end: usize,
    /// Each value's parent and the step from there.
    nodes: Vec<(usize, Step)>,
    /// Each leaf: where it stands, what it is, its node.
    leaves: Vec<(Range<usize>, Kind, usize)>,
    /// Where keywords stand in the document, in order.
    hits: Vec<usize>,
    /// Each finding, and the node of its leaf.
    findings: Vec<(Finding, usize)>,
}

fn leaves_of(
    sets: Sets<'_>,
    text: &[u8],
    document: &Range<usize>,
    budget: &mut Budget,
) -> Result<Vec<Finding>, Fault> {
    let mut reader = Reader {
        sets,
        text,
        start: document.start,
        at: document.start,
        end: document.end,
        nodes: Vec::new(),
        leaves: Vec::new(),
        hits: Vec::new(),
        findings: Vec::new(),
    };
    let bytes = text.get(document.clone()).unwrap_or_default();
    let (found, hits) = across(sets, bytes)?;
    reader.hits = hits.iter().map(|hit| hit + document.start).collect();
    reader.read(budget)?;
    reader.take(found);
    Ok(reader.finish())
}

impl Reader<'_> {
    fn read(&mut self, budget: &mut Budget) -> Result<(), Fault> {
        let mut stack: Vec<Container> = Vec::new();
        while self.at < self.end {
            let byte = self.text.get(self.at).copied().unwrap_or_default();
            match byte {
                b'{' | b'[' => {
                    let container = self.enter(stack.last_mut(), byte == b'{');
                    stack.push(container);
                    self.at += 1;
                }
                b'}' | b']' => {
                    stack.pop();
                    self.at += 1;
                }
                b'"' => {
                    let content = self.string();
                    let behind = self.text.get(self.at..self.end).unwrap_or_default();
                    let is_key = stack.last().is_some_and(|top| top.object)
                        && behind.trim_ascii_start().first() == Some(&b':');
                    self.leaf(stack.last_mut(), content, is_key, budget)?;
                }
                b'-' | b'0'..=b'9' => {
                    let rest = self.text.get(self.at..self.end).unwrap_or_default();
                    let digits = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
                    let length = rest.iter().take_while(|b| digits(b)).count();
                    let number = self.at..self.at + length;
                    self.at = number.end;
                    self.value(stack.last_mut(), number, Kind::Number, budget)?;
                }
                b't' | b'f' | b'n' => {
                    self.step(stack.last_mut());
                    let rest = self.text.get(self.at..self.end).unwrap_or_default();
                    self.at += rest.iter().take_while(|b| b.is_ascii_lowercase()).count();
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    /// Takes what expressions find from one leaf to another, as far as it is in one leaf.
    fn take(&mut self, found: Vec<Finding>) {
        for mut finding in found {
            let span = finding.span.start + self.start..finding.span.end + self.start;
            let at = self
                .leaves
                .partition_point(|(leaf, ..)| leaf.end < span.end);
            let Some((leaf, kind, node)) = self.leaves.get(at) else {
                continue;
            };
            if leaf.start > span.start {
                continue;
            }
            finding.span = match kind {
                Kind::Number => leaf.clone(),
                Kind::Key | Kind::Text => span,
            };
            self.push(finding, *kind, *node);
        }
    }

    /// Whether a leaf under its name says nothing that a rule could look at.
    fn is_quiet(&self, name: Option<&Range<usize>>, content: &Range<usize>) -> bool {
        let start = name.map_or(content.start, |name| name.start.min(content.start));
        // A keyword may begin with the quote before the name.
        let next = self.hits.partition_point(|hit| hit + 2 < start);
        let bytes = self.text.get(content.clone()).unwrap_or_default();
        self.hits.get(next).is_none_or(|hit| *hit > content.end)
            && bytes.len() < ENCODED_MIN
            && !bytes.iter().any(|byte| matches!(byte, b'\\' | b'%' | 0x1b))
    }

    /// The content of the string that begins here.
    fn string(&mut self) -> Range<usize> {
        let start = self.at + 1;
        let mut at = start;
        while at < self.end {
            let rest = self.text.get(at..self.end).unwrap_or_default();
            let Some(next) = memchr::memchr2(b'"', b'\\', rest) else {
                break;
            };
            at += next;
            if self.text.get(at) == Some(&b'"') {
                self.at = at + 1;
                return start..at;
            }
            at += 2;
        }
        self.at = self.end;
        start..self.end
    }

    /// The node of the next value of a container.
    fn step(&mut self, container: Option<&mut Container>) -> usize {
        let (parent, step) = match container {
            Some(container) if container.object => {
                let key = container.key.clone().unwrap_or_default();
                (container.node, Step::Key(key))
            }
            Some(container) => {
                container.index += 1;
                (container.node, Step::Index(container.index - 1))
            }
            None => (usize::MAX, Step::Index(0)),
        };
        self.nodes.push((parent, step));
        self.nodes.len() - 1
    }

    fn enter(&mut self, mut parent: Option<&mut Container>, object: bool) -> Container {
        let node = self.step(parent.as_deref_mut());
        let (key, field) = match parent {
            Some(parent) => (parent.key.clone(), self.field(parent)),
            None => (None, None),
        };
        Container {
            node,
            object,
            index: 0,
            key: if object { None } else { key },
            name: None,
            field,
        }
    }

    /// The rule that takes the next value of a container, whatever it is.
    fn field(&self, container: &Container) -> Option<usize> {
        container.field.or_else(|| {
            let key = self.text.get(container.key.clone()?)?;
            self.sets.field(&normalised(key))
        })
    }

    fn leaf(
        &mut self,
        container: Option<&mut Container>,
        content: Range<usize>,
        is_key: bool,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        match container {
            Some(container) if is_key => {
                container.key = Some(content.clone());
                let node = container.node;
                self.nodes.push((node, Step::Key(content.clone())));
                let place = self.nodes.len() - 1;
                self.look(None, None, content, (Kind::Key, place), budget)
            }
            container => self.value(container, content, Kind::Text, budget),
        }
    }

    fn value(
        &mut self,
        mut container: Option<&mut Container>,
        content: Range<usize>,
        kind: Kind,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        let node = self.step(container.as_deref_mut());
        let (mut name, mut field) = (None, None);
        if let Some(container) = container {
            field = self.field(container);
            name.clone_from(&container.key);
            let key = container.key.clone().and_then(|key| self.text.get(key));
            let key = key.map(normalised).unwrap_or_default();
            if container.object && NAMING.contains(&key.as_str()) {
                container.name = Some(content.clone());
            }
            if container.name.is_some() && NAMED.contains(&key.as_str()) {
                name.clone_from(&container.name);
            }
        }
        self.look(name, field, content, (kind, node), budget)
    }

    /// Looks at one leaf, under its name.
    fn look(
        &mut self,
        name: Option<Range<usize>>,
        field: Option<usize>,
        content: Range<usize>,
        (kind, node): (Kind, usize),
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        self.leaves.push((content.clone(), kind, node));
        if field.is_none() && self.is_quiet(name.as_ref(), &content) {
            return Ok(());
        }
        let mut view = View::new(Encoding::Json);
        let name = name
            .and_then(|name| self.text.get(name))
            .unwrap_or_default();
        if !name.is_empty() {
            let mut prefix = vec![b'"'];
            let letters = name.iter().take(128);
            prefix.extend(letters.map(|b| if is_identifier(*b) { *b } else { b'_' }));
            prefix.extend(b"\": \"");
            view.decoded(&prefix, content.start..content.start);
        }
        let start = view.bytes.len();
        unescape_into(&mut view, self.text, content.clone());
        let value = start..view.bytes.len();
        let bytes = view.bytes.get(value.clone()).unwrap_or_default();
        if let Some(rule) = field
            && let Some(finding) = self.sets.cell(rule, bytes, content.clone())?
        {
            self.push(finding, kind, node);
            return Ok(());
        }
        let nested = matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['));
        let size = view.bytes.len();
        let found = if nested && budget.depth > 0 && !documents(bytes).is_empty() {
            let found = budget.deeper(size, |budget| read(self.sets, bytes, budget))?;
            let found = found.findings.into_iter().map(|mut finding| {
                finding.span = finding.span.start + start..finding.span.end + start;
                finding
            });
            found.collect()
        } else {
            if !name.is_empty() {
                view.decoded(b"\"", content.end..content.end);
            }
            let subject = Subject {
                text: &view.bytes,
                value: (!name.is_empty()).then_some(value),
            };
            budget.bytes = budget.bytes.checked_sub(size).ok_or(Fault::TooMuch)?;
            let mut found = scan(self.sets, &subject, budget)?.findings;
            if name.is_empty() {
                found.extend(table::cells(self.sets, &view.bytes));
            }
            found
        };
        for finding in found {
            let mut finding = outside(finding, &view);
            if kind == Kind::Number {
                finding.span = content.clone();
            }
            self.push(finding, kind, node);
        }
        Ok(())
    }

    fn push(&mut self, mut finding: Finding, kind: Kind, node: usize) {
        if kind == Kind::Number {
            // No part of a number can be replaced by a text.
            finding.wrap = Some(0);
        }
        if kind == Kind::Key {
            finding.key_of = self.nodes.get(node).map(|(object, _)| *object);
        }
        self.findings.push((finding, node));
    }

    /// The findings, each with the pointer to its leaf.
    fn finish(self) -> Vec<Finding> {
        let mut secret: Vec<Range<usize>> = self
            .findings
            .iter()
            .filter(|(finding, _)| finding.key_of.is_some())
            .map(|(finding, _)| finding.span.clone())
            .collect();
        secret.sort_by_key(|span| span.end);
        let pointer = |node| pointer(self.text, &self.nodes, &secret, node);
        let findings = self.findings.iter().cloned();
        findings
            .map(|(mut finding, node)| {
                finding.pointer = format!("{}{}", pointer(node), finding.pointer);
                finding
            })
            .collect()
    }
}

/// The pointer to a node. A key that is a secret is not told.
fn pointer(text: &[u8], nodes: &[(usize, Step)], secret: &[Range<usize>], node: usize) -> String {
    let is_secret = |key: &Range<usize>| {
        let first = secret.partition_point(|span| span.end <= key.start);
        secret.get(first).is_some_and(|span| span.start < key.end)
    };
    let mut steps = Vec::new();
    let mut next = nodes.get(node);
    while let Some((parent, step)) = next {
        // The step to the top itself has no name.
        if *parent != usize::MAX {
            steps.push(match step {
                Step::Index(index) => index.to_string(),
                Step::Key(key) if is_secret(key) => "redacted".to_owned(),
                Step::Key(key) => {
                    let mut view = View::new(Encoding::Json);
                    unescape_into(&mut view, text, key.clone());
                    let key = String::from_utf8_lossy(&view.bytes).into_owned();
                    key.replace('~', "~0").replace('/', "~1")
                }
            });
        }
        next = nodes.get(*parent);
    }
    steps.iter().rev().map(|step| format!("/{step}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Conditions, Length, Rule, Severity, Shape, Token};
    use super::super::{Chars, Ruleset};
    use super::*;

    fn token() -> Ruleset {
        let token = Token {
            prefixes: vec!["tok_".to_owned()],
            chars: Chars::parse("digit").unwrap(),
            length: Length { min: 4, max: 8 },
            suffixes: Vec::new(),
            ignore_case: false,
        };
        let rule = |shape, keywords: &[&str]| Rule {
            id: "r".to_owned(),
            description: String::new(),
            severity: Severity::High,
            kind: String::new(),
            pack: String::new(),
            keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
            shape,
            conditions: Conditions::default(),
        };
        let rules = [
            rule(Shape::Token(token), &["tok_"]),
            rule(Shape::Fields(vec!["dob".to_owned()]), &[]),
            rule(
                Shape::Pattern("pin\": \"(?<secret>[0-9]{2})".to_owned()),
                &["pin"],
            ),
        ];
        Ruleset::new(&rules, &[]).unwrap()
    }

    /// The pointer and the text of each finding.
    fn found(text: &str) -> Vec<(String, &str)> {
        let rules = token();
        let mut budget = Budget::of(text.len());
        let found = read(Sets(&[&rules]), text.as_bytes(), &mut budget).unwrap();
        let findings = found.findings.into_iter();
        findings
            .filter_map(|finding| Some((finding.pointer, text.get(finding.span)?)))
            .collect()
    }

    #[test]
    fn leaves_are_found_under_their_pointers() {
        for (text, wanted) in [
            (r#"{"a": ["x", "tok_1234"]}"#, &[("/a/1", "tok_1234")][..]),
            (r#"{"a/~\u0062": "tok_1234"}"#, &[("/a~1~0b", "tok_1234")]),
            (r#"["{\"k\": \"tok_1234\"}"]"#, &[("/0/k", "tok_1234")]),
            (
                "[1]\n{\"a\": \"tok_1234\"}\nx tok_4321",
                &[("/a", "tok_1234"), ("", "tok_4321")],
            ),
            (r#""tok_1234""#, &[("", "tok_1234")]),
        ] {
            let wanted: Vec<_> = wanted.iter().map(|(p, t)| ((*p).to_owned(), *t)).collect();
            assert_eq!(found(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_key_that_is_a_secret_is_in_no_pointer() {
        let text = r#"{"tok_1234": {"dob": [1931, null]}}"#;
        let wanted = [("/redacted", "tok_1234"), ("/redacted/dob/0", "1931")];
        assert_eq!(found(text), wanted.map(|(p, t)| (p.to_owned(), t)));
    }

    #[test]
    fn no_part_of_a_number_is_found() {
        assert_eq!(found(r#"{"pin": 1234.5}"#), [("/pin".to_owned(), "1234.5")]);
    }
}
