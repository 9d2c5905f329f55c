//! Which policies came, went or changed, by their ids. Where a policy stands and how its text is laid
//! out says nothing about it.

use std::collections::BTreeMap;
use std::str::FromStr;

use cedar_policy::PolicySet;
use cedar_policy_formatter::{Config, policies_str_to_pretty};
use similar::{ChangeTag, TextDiff};

use super::Side;
use crate::engine::bundle::Policy;

/// A policy that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChange {
    /// Its id.
    pub id: String,
    /// Where it stands in the old policies, as `file:line`.
    pub old: Option<String>,
    /// Where it stands in the new ones.
    pub new: Option<String>,
    /// What of it is not the same, in words; empty if it came or went.
    pub parts: Vec<&'static str>,
    /// Whether its obligations are among that.
    pub obligations: bool,
    /// Its text, line by line.
    pub lines: Vec<Line>,
}

/// A line of a text that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `-`, `+`, or a blank.
    pub sign: char,
    /// The line.
    pub text: String,
}

/// What of a policy has no say in an answer.
const WORDS: [&str; 4] = ["reason", "help", "severity", "waivable"];

impl PolicyChange {
    /// Whether an answer may be another one for it.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|part| !WORDS.contains(part))
    }

    /// The word for what happened to it.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match (&self.old, &self.new) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        }
    }
}

/// The policies that are not the same, in the order of their ids.
pub(super) fn changes(old: &Side, new: &Side) -> Vec<PolicyChange> {
    let [before, after] = [old, new].map(by_id);
    let [texts, new_texts] = [old, new].map(texts);
    let mut ids: Vec<&String> = before.keys().chain(after.keys()).collect();
    ids.sort();
    ids.dedup();
    let changed = ids.into_iter().filter_map(|id| {
        let (a, b) = (before.get(id), after.get(id));
        let parts = match (a, b) {
            (Some(a), Some(b)) => {
                let parts = parts(a, b);
                if parts.is_empty() {
                    return None;
                }
                parts
            }
            _ => Vec::new(),
        };
        let owed = |policy: Option<&&Policy>| policy.is_some_and(|p| !p.obligations.is_empty());
        let text = |texts: &BTreeMap<String, String>| texts.get(id).cloned().unwrap_or_default();
        Some(PolicyChange {
            id: id.clone(),
            old: a.map(|policy| place(policy)),
            new: b.map(|policy| place(policy)),
            obligations: match (a, b) {
                (Some(a), Some(b)) => a.obligations != b.obligations,
                (a, b) => owed(a) || owed(b),
            },
            parts,
            lines: lines(&text(&texts), &text(&new_texts)),
        })
    });
    changed.collect()
}

/// The policies by their ids. The base layer of one side is that of the other, whoever owns it.
fn by_id(side: &Side) -> BTreeMap<String, &Policy> {
    let policies = side.bundle.policies.iter();
    policies
        .map(|policy| (key(side, &policy.id), policy))
        .collect()
}

fn key(side: &Side, id: &str) -> String {
    let base = side.sources.first().map(|source| source.layer.prefix());
    match id.split_once(':') {
        Some((layer, bare)) if Some(layer) == base => bare.to_owned(),
        _ => id.to_owned(),
    }
}

fn place(policy: &Policy) -> String {
    format!("{}:{}", policy.file, policy.line)
}

fn parts(a: &Policy, b: &Policy) -> Vec<&'static str> {
    let same = [
        ("conditions or scope", a.body == b.body),
        ("decision", a.verdict == b.verdict),
        ("mode", a.monitor == b.monitor),
        ("obligations", a.obligations == b.obligations),
        ("severity", a.severity == b.severity),
        ("waivable", a.waivable == b.waivable),
        ("reason", a.reason == b.reason),
        ("help", a.help == b.help),
    ];
    let changed = same.into_iter().filter(|(_, same)| !same);
    changed.map(|(part, _)| part).collect()
}

/// The text of each policy, laid out as Cedar's formatter does it, without comments.
fn texts(side: &Side) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for source in &side.sources {
        for file in source
            .files
            .iter()
            .filter(|file| file.name.ends_with(".cedar"))
        {
            let Ok(set) = PolicySet::from_str(&file.text) else {
                continue;
            };
            for policy in set.policies() {
                let (Some(id), Some(text)) = (policy.annotation("id"), policy.to_cedar()) else {
                    continue;
                };
                let id = format!("{}:{id}", source.layer.prefix());
                let config = Config {
                    line_width: 100,
                    indent_width: 2,
                };
                let text = policies_str_to_pretty(&text, &config).unwrap_or(text);
                found.insert(key(side, &id), text);
            }
        }
    }
    found
}

/// The lines of two texts, with what is the same around what is not.
fn lines(old: &str, new: &str) -> Vec<Line> {
    let diff = TextDiff::from_lines(old, new);
    diff.iter_all_changes()
        .map(|change| Line {
            sign: match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            },
            text: change.value().trim_end().to_owned(),
        })
        .filter(|line| !line.text.is_empty())
        .collect()
}
