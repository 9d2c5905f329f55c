//! From a text to the secrets in it: keyword, window, matcher, conditions.

use std::ops::Range;

use regex_automata::Input;

use super::assignment::{Assigned, Nothing, assigned, identifier};
use super::chars::normalised;
use super::rule::{Rule, Shape, Value};
use super::sets::Sets;
use super::shape::{Matched, tokens, userinfo};
use super::view::View;
use super::{Encoding, Fault, Finding, block, decode, placeholder};

/// What an expression matches at most, seen from its keyword: before and behind.
const WINDOW: (usize, usize) = (256, 2048);

/// Encodings are undone so often, one within the other.
const DEPTH: usize = 3;

/// The other readings of a text may have so many times its bytes, and some more.
const BUDGET: (usize, usize) = (12, 1 << 20);

/// A text to be looked at.
#[derive(Debug, Clone)]
pub(super) struct Subject<'t> {
    /// The text.
    pub(super) text: &'t [u8],
    /// The part of it that is one value, where it is a name and its value made for this purpose.
    /// Nothing is found outside of it.
    pub(super) value: Option<Range<usize>>,
}

/// The secrets that expressions find in a text as it stands, across whatever it is made of, and
/// where keywords stand in it, in order.
pub(super) fn across(sets: Sets<'_>, text: &[u8]) -> Result<(Vec<Finding>, Vec<usize>), Fault> {
    let mut pass = Pass::new(sets, &Subject { text, value: None });
    pass.run(|rule| matches!(rule.shape, Shape::Pattern(_)))?;
    Ok((pass.findings, pass.hits))
}

/// What was found in a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The secrets, by where they begin; no two overlap.
    pub(super) findings: Vec<Finding>,
    /// From here on, more text could have changed the answer.
    pub(super) open: Option<usize>,
}

/// How much may still be looked at.
#[derive(Debug)]
pub(super) struct Budget {
    /// So many encodings within one another.
    pub(super) depth: usize,
    /// So many bytes of other readings.
    pub(super) bytes: usize,
}

impl Budget {
    /// What a text of that length may take.
    pub(super) const fn of(length: usize) -> Self {
        Self {
            depth: DEPTH,
            bytes: length.saturating_mul(BUDGET.0).saturating_add(BUDGET.1),
        }
    }

    /// Takes so many bytes for a reading that is one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        bytes: usize,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Fault::TooMuch)?;
        self.depth = self.depth.saturating_sub(1);
        let result = read(self);
        self.depth += 1;
        result
    }
}

/// The secrets in a text, in every reading of it.
pub(super) fn scan(
    sets: Sets<'_>,
    subject: &Subject<'_>,
    budget: &mut Budget,
) -> Result<Found, Fault> {
    let mut pass = Pass::new(sets, subject);
    pass.run(|_| true)?;
    let (mut findings, mut open) = (pass.findings, pass.open);
    if budget.depth > 0 {
        let known = findings.len();
        let readings = decode::readings(subject.text, &pass.hits);
        if let Some(start) = readings.open {
            open = earlier(open, start);
        }
        for view in readings.views {
            let inner = Subject {
                text: &view.bytes,
                value: None,
            };
            let size = view.bytes.len();
            let inner = budget.deeper(size, |budget| scan(sets, &inner, budget))?;
            if let Some(at) = inner.open.filter(|_| view.end() == subject.text.len()) {
                open = earlier(open, view.original(&(at..at + 1)).start);
            }
            for finding in inner.findings {
                let finding = outside(finding, &view);
                let seen = findings.get(..known).unwrap_or_default();
                if is_new(&finding, &view, subject, seen) {
                    findings.push(finding);
                }
            }
        }
    }
    if let Some(value) = &subject.value {
        findings
            .retain(|finding| value.start <= finding.span.start && finding.span.end <= value.end);
    }
    Ok(Found {
        findings: merged(findings, sets, subject.text),
        open,
    })
}

/// The earlier of two places.
pub(super) fn earlier(known: Option<usize>, at: usize) -> Option<usize> {
    Some(known.map_or(at, |known| known.min(at)))
}

/// A finding of another reading, as it stands in the text that was read so.
pub(super) fn outside(mut finding: Finding, view: &View) -> Finding {
    finding.span = view.original(&finding.span);
    finding.encoding.insert(0, view.encoding);
    finding.wrap = match view.encoding {
        // A quote within quotes: `"` becomes `\"`, and `\"` becomes `\\\"`.
        Encoding::Json | Encoding::Escaped => {
            let level = finding.wrap;
            level.map(|level| level.saturating_mul(2).saturating_add(1))
        }
        Encoding::Ansi | Encoding::Wrapped => finding.wrap,
        Encoding::Percent | Encoding::Base64 | Encoding::Hex => None,
    };
    finding
}

/// Whether a finding of another reading says more than the text itself.
fn is_new(finding: &Finding, view: &View, subject: &Subject<'_>, seen: &[Finding]) -> bool {
    if view.encoding != Encoding::Wrapped || finding.encoding.len() > 1 {
        return true;
    }
    // Lines that only look wrapped: what ends in its own line is whole.
    let bytes = subject.text.get(finding.span.clone()).unwrap_or_default();
    memchr::memchr(b'\n', bytes).is_some()
        && !seen
            .iter()
            .any(|known| known.span.start == finding.span.start)
}

/// One look at one reading.
struct Pass<'a> {
    sets: Sets<'a>,
    text: &'a [u8],
    lower: Vec<u8>,
    value: Option<Range<usize>>,
    findings: Vec<Finding>,
    hits: Vec<usize>,
    open: Option<usize>,
    /// Where the last block ends.
    block: usize,
    /// The identifier that was read last: several names may stand in one.
    last: Option<(Range<usize>, String, Result<Assigned, Nothing>)>,
    windows: Vec<(usize, Range<usize>)>,
    /// For each rule, its last window; empty until there is one.
    newest: Vec<usize>,
}

impl<'a> Pass<'a> {
    fn new(sets: Sets<'a>, subject: &Subject<'a>) -> Self {
        Self {
            sets,
            text: subject.text,
            lower: subject.text.to_ascii_lowercase(),
            value: subject.value.clone(),
            findings: Vec::new(),
            hits: Vec::new(),
            open: None,
            block: 0,
            last: None,
            windows: Vec::new(),
            newest: Vec::new(),
        }
    }

    fn run(&mut self, looks_for: impl Fn(&Rule) -> bool) -> Result<(), Fault> {
        let lower = std::mem::take(&mut self.lower);
        let mut hits = Vec::new();
        for (set, first) in self.sets.each() {
            set.keywords
                .find(&lower, |hit| hits.push((set, first, hit)));
        }
        self.lower = lower;
        self.hits = hits.iter().map(|(_, _, hit)| hit.start).collect();
        self.hits.sort_unstable();
        for (set, first, hit) in hits {
            for index in set.keywords.rules(hit) {
                let index = usize::from(*index);
                let rule = set.rule(index)?;
                if looks_for(rule) {
                    self.wake(first + index, rule, &(hit.start..hit.end))?;
                }
            }
        }
        for (index, window) in std::mem::take(&mut self.windows) {
            self.search(index, window)?;
        }
        Ok(())
    }

    fn wake(&mut self, index: usize, rule: &Rule, keyword: &Range<usize>) -> Result<(), Fault> {
        match &rule.shape {
            Shape::Token(token) => {
                let mut all = Vec::new();
                tokens(self.text, &self.lower, token, keyword, |matched| {
                    all.push(matched);
                });
                for matched in all {
                    self.matched(index, rule, keyword.start, matched)?;
                }
                Ok(())
            }
            Shape::Value(value) => self.value(index, rule, value, keyword),
            Shape::Block(block) => {
                for begin in &block.begin {
                    let word = self.lower.get(keyword.clone()).unwrap_or_default();
                    let offset = memchr::memmem::find(begin.to_ascii_lowercase().as_bytes(), word);
                    let start = offset.and_then(|offset| keyword.start.checked_sub(offset));
                    // What begins within a block belongs to it.
                    if let Some(start) = start.filter(|start| *start >= self.block) {
                        let matched = block::block_at(self.text, block, start);
                        if let Some(span) = &matched.span {
                            self.block = span.end;
                        }
                        self.matched(index, rule, start, matched)?;
                    }
                }
                Ok(())
            }
            Shape::Userinfo(length) => {
                let matched = userinfo(self.text, keyword, *length);
                self.matched(index, rule, keyword.start, matched)
            }
            Shape::Words(words) => {
                let matched = words.at(self.text, &self.lower, keyword);
                self.matched(index, rule, keyword.start, matched)
            }
            Shape::Pattern(_) => self.window(index, keyword),
            // Fields are read where documents and tables are.
            Shape::Fields(_) => Ok(()),
        }
    }

    fn open_from(&mut self, start: usize) {
        self.open = earlier(self.open, start);
    }

    fn matched(
        &mut self,
        index: usize,
        rule: &Rule,
        start: usize,
        matched: Matched,
    ) -> Result<(), Fault> {
        if matched.open {
            self.open_from(
                matched
                    .span
                    .as_ref()
                    .map_or(start, |span| span.start.min(start)),
            );
        }
        match matched.span {
            Some(span) => self.consider(index, rule, span, None),
            None => Ok(()),
        }
    }

    fn value(
        &mut self,
        index: usize,
        rule: &Rule,
        value: &Value,
        keyword: &Range<usize>,
    ) -> Result<(), Fault> {
        let name = identifier(self.text, keyword);
        if !self.last.as_ref().is_some_and(|last| last.0 == name) {
            let text = self.text.get(name.clone()).unwrap_or_default();
            let given = assigned(self.text, &name);
            self.last = Some((name, normalised(text), given));
        }
        let Some((name, identifier, given)) = &self.last else {
            return Ok(());
        };
        let (start, open) = match given {
            Ok(found) => (name.start, found.open),
            Err(nothing) => (name.start, nothing.open),
        };
        let named = value.names.iter().any(|name| name.is_in(identifier))
            && !value
                .not_names
                .iter()
                .any(|name| identifier.contains(name.as_str()));
        let found = given.as_ref().ok().filter(|_| named).cloned();
        // A value within a value that this rule found is a part of it.
        let found = found.filter(|found| {
            let within = |known: &Finding| known.rule == index && known.span.contains(&found.start);
            !self.findings.iter().rev().take(4).any(within)
        });
        if open {
            self.open_from(start);
        }
        let Some(found) = found else { return Ok(()) };
        let Some((span, open)) = self.given(value, &found) else {
            return Ok(());
        };
        if open {
            self.open_from(start);
        }
        match span {
            Some(span) => self.consider(index, rule, span, found.wrap),
            None => Ok(()),
        }
    }

    /// The value as a rule sees it, and whether it meets the end of the text.
    fn given(&self, value: &Value, found: &Assigned) -> Option<(Option<Range<usize>>, bool)> {
        // The name of a leaf is given the whole of it; a name within it what follows there.
        let closes = match &self.value {
            Some(whole) if whole.start == found.start => Some(whole.end),
            _ => found.closes,
        };
        if let Some(end) = closes {
            let text = self.text.get(found.start..end)?;
            let fits = value.quoted.run(text) == text.len() && value.length.admits(text.len());
            return Some((fits.then_some(found.start..end), false));
        }
        let rest = self.text.get(found.start..)?;
        let run = value.chars.run(value.length.enough(rest));
        let open = run == rest.len();
        let behind = rest.get(run..).unwrap_or_default();
        let cut = behind
            .first()
            .is_some_and(|byte| super::chars::is_word(*byte) || matches!(byte, b'(' | b'['));
        let refers = matches!(rest, [b'$' | b'{' | b'<', ..] | [b'%', b'(', ..])
            || rest.starts_with("«".as_bytes());
        let fits = value.length.admits(run) && !cut && !refers;
        Some((fits.then_some(found.start..found.start + run), open))
    }

    fn window(&mut self, index: usize, keyword: &Range<usize>) -> Result<(), Fault> {
        let start = keyword.start.saturating_sub(WINDOW.0);
        let end = self.text.len().min(keyword.end + WINDOW.1);
        if keyword.end + WINDOW.1 > self.text.len() {
            self.open_from(self.line_of(keyword.start).max(start));
        }
        if self.newest.is_empty() {
            self.newest.resize(self.sets.count(), usize::MAX);
        }
        let next = self.windows.len();
        let newest = self.newest.get_mut(index).ok_or(Fault::Broken)?;
        match self.windows.get_mut(*newest) {
            Some((_, window)) if window.end >= start => window.end = window.end.max(end),
            _ => {
                *newest = next;
                self.windows.push((index, start..end));
            }
        }
        Ok(())
    }

    fn line_of(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1)
    }

    fn search(&mut self, index: usize, window: Range<usize>) -> Result<(), Fault> {
        let rule = self.sets.rule(index)?;
        let regex = self.sets.pattern(index, window.len())?;
        let input = Input::new(self.text).span(window);
        let spans: Vec<Range<usize>> = match regex.group {
            Some(group) => regex
                .regex
                .captures_iter(input)
                .filter_map(|captures| captures.get_group(group))
                .map(|span| span.range())
                .collect(),
            None => regex.regex.find_iter(input).map(|m| m.range()).collect(),
        };
        for span in spans {
            if span.end == self.text.len() {
                self.open_from(span.start);
            }
            self.consider(index, rule, span, None)?;
        }
        Ok(())
    }

    /// Takes a match for a secret, unless something says that it is none.
    fn consider(
        &mut self,
        index: usize,
        rule: &Rule,
        span: Range<usize>,
        wrap: Option<u8>,
    ) -> Result<(), Fault> {
        let Some(secret) = self.text.get(span.clone()).filter(|text| !text.is_empty()) else {
            return Ok(());
        };
        let lower = self.lower.get(span.clone()).unwrap_or_default();
        let (before, behind) = (
            self.lower.get(..span.start).unwrap_or_default(),
            self.lower.get(span.end..).unwrap_or_default(),
        );
        let conditions = &rule.conditions;
        if placeholder::is_one(secret)
            || !conditions.hold(secret, lower)
            || !conditions.surroundings(before, behind)
            || self.sets.allows(index, secret, lower)?
        {
            return Ok(());
        }
        self.findings.push(Finding {
            rule: index,
            secret: secret.to_vec(),
            span,
            encoding: Vec::new(),
            pointer: String::new(),
            wrap,
            key_of: None,
        });
        Ok(())
    }
}

/// Findings that overlap become one; the rule that says most about it names it.
pub(super) fn merged(mut findings: Vec<Finding>, sets: Sets<'_>, text: &[u8]) -> Vec<Finding> {
    findings.sort_by_key(|finding| (finding.span.start, std::cmp::Reverse(finding.span.end)));
    let mut kept: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        match kept.last_mut() {
            Some(last) if finding.span.start < last.span.end => unite(last, finding, sets, text),
            _ => kept.push(finding),
        }
    }
    kept
}

fn unite(last: &mut Finding, other: Finding, sets: Sets<'_>, text: &[u8]) {
    let span = last.span.start..last.span.end.max(other.span.end);
    let wrap = last.wrap.filter(|_| last.span == span);
    let better = sets.weight(other.rule) > sets.weight(last.rule);
    if better {
        *last = other;
    }
    if last.span != span {
        last.secret = text.get(span.clone()).unwrap_or_default().to_vec();
        last.encoding.clear();
        last.span = span;
    }
    last.wrap = wrap;
}
