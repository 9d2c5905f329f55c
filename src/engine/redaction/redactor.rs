//! The redactor: texts and values in, the same without their secrets out.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use super::placeholder::{fingerprint, placeholder};
use super::ruleset::{About, Ruleset};
use super::scan::{Budget, Subject, scan};
use super::sets::Sets;
use super::{Fault, Finding, document};

/// What replaces a secret may make another one visible, but not so often.
const ROUNDS: usize = 8;

/// The secrets in a text: in a document of JSON, in lines of JSON, in any other text.
///
/// # Errors
/// If not all of it can be looked at.
pub fn find(rules: &[&Ruleset], text: &str) -> Result<Vec<Finding>, Fault> {
    if rules.iter().all(|set| set.is_empty()) {
        return Ok(Vec::new());
    }
    let mut budget = Budget::of(text.len());
    Ok(document::read(Sets(rules), text.as_bytes(), &mut budget)?.findings)
}

/// The same, in the text as it stands: nothing is decoded, and no document is read.
///
/// # Errors
/// If the rules are broken.
pub fn find_as_written(rules: &[&Ruleset], text: &str) -> Result<Vec<Finding>, Fault> {
    let mut budget = Budget { depth: 0, bytes: 0 };
    let subject = Subject {
        text: text.as_bytes(),
        value: None,
    };
    Ok(scan(Sets(rules), &subject, &mut budget)?.findings)
}

/// Replaces secrets by placeholders that depend on a key.
#[derive(Clone, Copy)]
pub struct Redactor<'a> {
    rules: &'a [&'a Ruleset],
    key: &'a [u8],
}

impl fmt::Debug for Redactor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays out of every log.
        f.debug_struct("Redactor")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// A text or value without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<T> {
    /// The text or value; without hits it is what it was, byte for byte.
    pub value: T,
    /// What was replaced, in the order of the text.
    pub hits: Vec<Hit>,
}

/// One secret that was replaced, perhaps several times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// The rule's id.
    pub rule: String,
    /// Where it stood in a document of JSON; else empty.
    pub pointer: String,
    /// How often it stood there.
    pub count: u32,
    /// The same for the same secret, and nothing to anybody without the key.
    pub fingerprint: String,
}

/// What was replaced so far.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// Each secret at each place.
    pub(super) list: Vec<Hit>,
    /// Where each is in the list, by its pointer and fingerprint, which the rule is a part of.
    places: HashMap<(String, String), usize>,
}

impl Hits {
    /// Adds a secret of a rule.
    pub(super) fn add(&mut self, rule: &str, pointer: &str, fingerprint: String) {
        let next = self.list.len();
        let place = self.places.entry((pointer.to_owned(), fingerprint.clone()));
        let place = *place.or_insert(next);
        match self.list.get_mut(place) {
            Some(hit) => hit.count = hit.count.saturating_add(1),
            None => self.list.push(Hit {
                rule: rule.to_owned(),
                pointer: pointer.to_owned(),
                count: 1,
                fingerprint,
            }),
        }
    }
}

impl<'a> Redactor<'a> {
    /// A redactor with those rulesets, looked for together, and the installation's key.
    #[must_use]
    pub const fn new(rules: &'a [&'a Ruleset], key: &'a [u8]) -> Self {
        Self { rules, key }
    }

    /// The rulesets.
    #[must_use]
    pub const fn rules(&self) -> &'a [&'a Ruleset] {
        self.rules
    }

    /// The rule of a finding, and what tells its secret from others: the same as in a placeholder.
    ///
    /// # Errors
    /// If it was found by other rules.
    pub fn mark(&self, finding: &Finding) -> Result<(&'a About, String), Fault> {
        let rule = Sets(self.rules).about(finding.rule)?;
        let mark = fingerprint(self.key, &rule.id, &finding.secret, 0);
        Ok((rule, mark))
    }

    /// The installation's key.
    pub(super) const fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The text without its secrets.
    ///
    /// # Errors
    /// If not all of it can be looked at.
    pub fn text(&self, text: &str) -> Result<Redacted<String>, Fault> {
        let mut hits = Hits::default();
        let mut now = text.to_owned();
        for _ in 0..ROUNDS {
            let findings = find(self.rules, &now)?;
            if findings.is_empty() {
                return Ok(Redacted {
                    value: now,
                    hits: hits.list,
                });
            }
            now = self.replace(&now, &findings, &mut hits)?;
        }
        Err(Fault::TooMuch)
    }

    /// The value without its secrets: in its texts, its keys and its numbers.
    ///
    /// # Errors
    /// If not all of it can be looked at.
    pub fn value(&self, value: &Value) -> Result<Redacted<Value>, Fault> {
        let redacted = self.text(&value.to_string())?;
        if redacted.hits.is_empty() {
            return Ok(Redacted {
                value: value.clone(),
                hits: Vec::new(),
            });
        }
        let mut new = serde_json::from_str(&redacted.value).map_err(|_| Fault::Broken)?;
        restore_numbers(&mut new, value);
        Ok(Redacted {
            value: new,
            hits: redacted.hits,
        })
    }

    /// The text with those findings replaced, which do not overlap and are in order.
    pub(super) fn replace(
        &self,
        text: &str,
        findings: &[Finding],
        hits: &mut Hits,
    ) -> Result<String, Fault> {
        let mut new = String::with_capacity(text.len());
        let mut done = 0;
        let mut keys: HashMap<(usize, String), u32> = HashMap::new();
        for finding in findings {
            let rule = Sets(self.rules).rule(finding.rule)?;
            let mark = fingerprint(self.key, &rule.id, &finding.secret, 0);
            let mut shown = mark.clone();
            if let Some(object) = finding.key_of {
                // Two keys of one object that hold the same secret stay two keys.
                let copies = keys.entry((object, mark.clone())).or_default();
                shown = fingerprint(self.key, &rule.id, &finding.secret, *copies);
                *copies += 1;
            }
            let (start, end) = whole_characters(text, finding);
            new.push_str(text.get(done..start).ok_or(Fault::Broken)?);
            let quotes = finding
                .wrap
                .map(|level| format!("{}\"", "\\".repeat(usize::from(level))))
                .unwrap_or_default();
            new.push_str(&quotes);
            new.push_str(&placeholder(&rule.id, &shown));
            new.push_str(&quotes);
            done = end;
            hits.add(&rule.id, &finding.pointer, mark);
        }
        new.push_str(text.get(done..).ok_or(Fault::Broken)?);
        Ok(new)
    }
}

/// A finding's bytes, and what else belongs to a character that they are a part of.
fn whole_characters(text: &str, finding: &Finding) -> (usize, usize) {
    let (mut start, mut end) = (finding.span.start, finding.span.end.min(text.len()));
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    (start, end)
}

/// A number that was written and read again may not be the same one.
fn restore_numbers(new: &mut Value, old: &Value) {
    match (new, old) {
        (new @ Value::Number(_), Value::Number(_)) => new.clone_from(old),
        (Value::Array(new), Value::Array(old)) => {
            for (new, old) in new.iter_mut().zip(old) {
                restore_numbers(new, old);
            }
        }
        (Value::Object(new), Value::Object(old)) => {
            for (new, old) in new.values_mut().zip(old.values()) {
                restore_numbers(new, old);
            }
        }
        _ => {}
    }
}
