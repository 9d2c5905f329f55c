//! The annotations of one policy: `@id`, `@reason`, and what else may stand in front of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::PLACEHOLDERS;
use crate::engine::approver::Demand;
use crate::engine::decision::Obligation;
use crate::policy::diagnostic::{Code, Problem, alternatives, quote, suggest};
use crate::policy::layer::Layer;
use crate::policy::source::SourceFile;

/// Every annotation that a policy may have.
pub const KEYS: [&str; 9] = [
    "id",
    "reason",
    "help",
    "decision",
    "mode",
    "obligation",
    "severity",
    "waivable",
    "approvals",
];

/// The values of `@severity`.
pub const SEVERITIES: [&str; 4] = ["low", "medium", "high", "critical"];

/// The longest `@id`, `@reason` and `@help`, in characters.
const LONGEST: usize = 500;

/// One policy as its text has it.
pub(super) struct Head<'a> {
    /// The file that it stands in.
    pub(super) file: &'a Arc<SourceFile>,
    /// Whether its layer is the base.
    pub(super) base: bool,
    /// Whether it is a `forbid`.
    pub(super) forbid: bool,
    /// Where the policy stands.
    pub(super) span: Range<usize>,
    /// Its annotations with their places.
    pub(super) annotations: BTreeMap<String, (String, Range<usize>)>,
}

/// What the annotations say.
pub(super) struct Annotations {
    /// `@id`
    pub(super) id: String,
    /// `@reason`, quoted where the workspace says it
    pub(super) reason: String,
    /// `@help`, likewise
    pub(super) help: String,
    /// `@decision("ask")`
    pub(super) ask: bool,
    /// `@mode("monitor")`
    pub(super) monitor: bool,
    /// `@severity`
    pub(super) severity: String,
    /// `@waivable("user")`
    pub(super) waivable: bool,
    /// `@approvals`
    pub(super) approvals: Option<Demand>,
    /// `@obligation`
    pub(super) obligations: Vec<Obligation>,
}

impl Head<'_> {
    /// Reads the annotations. Every problem is noted; a policy without id has no answer.
    pub(super) fn read(&self, problems: &mut Vec<Problem>) -> Option<Annotations> {
        for (key, (_, span)) in &self.annotations {
            if !KEYS.contains(&key.as_str()) {
                let help =
                    suggest(key, KEYS).unwrap_or_else(|| format!("known: {}", alternatives(KEYS)));
                let problem = Problem::error(
                    Code::UnknownAnnotation,
                    format!("unknown annotation `@{}`", quote(key)),
                );
                problems.push(problem.help(help).at(self.file, span.clone()));
            }
        }
        let id = self.id(problems);
        let reason = self.sentence("reason", problems);
        if reason.is_none() && !self.annotations.contains_key("reason") {
            problems.push(self.missing("reason", "the sentence that agent and person read"));
        }
        let help = self.sentence("help", problems).unwrap_or_default();
        let read = Annotations {
            id: id?,
            reason: self.quoted(reason?),
            help: self.quoted(help),
            ask: self.only("decision", "ask", "a forbid", self.forbid, problems),
            monitor: self.monitor(problems),
            severity: self.severity(problems),
            waivable: self.only("waivable", "user", "a forbid", self.forbid, problems),
            approvals: self.approvals(problems),
            obligations: self.obligations(problems),
        };
        Some(read)
    }

    /// Where that annotation stands, or the policy.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.annotations
            .get(key)
            .map_or_else(|| self.span.clone(), |(_, span)| span.clone())
    }

    fn id(&self, problems: &mut Vec<Problem>) -> Option<String> {
        let Some((id, span)) = self.annotations.get("id") else {
            problems.push(self.missing("id", "the name that reasons and records give"));
            return None;
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if id.is_empty() || id.len() > LONGEST || !id.chars().all(plain) {
            let problem = Problem::error(
                Code::BadAnnotation,
                "an id is made of letters, digits, `-`, `_` and `.`",
            );
            problems.push(problem.at(self.file, span.clone()));
            return None;
        }
        Some(id.clone())
    }

    fn sentence(&self, key: &str, problems: &mut Vec<Problem>) -> Option<String> {
        let (text, span) = self.annotations.get(key)?;
        let wrong = if text.trim().is_empty() {
            Some(format!("`@{key}` says nothing"))
        } else if text.contains(char::is_control) {
            Some(format!("`@{key}` has to be one line of plain text"))
        } else if text.chars().count() > LONGEST {
            Some(format!("`@{key}` may have {LONGEST} characters"))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let problem = Problem::error(Code::BadAnnotation, wrong);
            problems.push(problem.at(self.file, span.clone()));
            return None;
        }
        for word in placeholders(text) {
            if !PLACEHOLDERS.contains(&word) {
                let problem = Problem::error(
                    Code::UnknownPlaceholder,
                    format!("nothing fills `{}`", quote(word)),
                )
                .help(format!("it is {}", alternatives(PLACEHOLDERS)));
                problems.push(problem.at(self.file, self.inside(span, word)));
            }
        }
        Some(text.clone())
    }

    /// The sentence of a workspace is text of a stranger: it is quoted as such.
    fn quoted(&self, text: String) -> String {
        if self.file.layer != Layer::Workspace || text.is_empty() {
            return text;
        }
        format!(
            "the workspace's policy says: \"{}\"",
            text.replace('"', "'")
        )
    }

    fn monitor(&self, problems: &mut Vec<Problem>) -> bool {
        let monitor = self.only("mode", "monitor", "a forbid", self.forbid, problems);
        if monitor && !self.base {
            let problem = Problem::error(
                Code::Loosens,
                "only the base layer may have policies that are merely watched",
            );
            problems.push(problem.at(self.file, self.span_of("mode")));
        }
        monitor
    }

    fn severity(&self, problems: &mut Vec<Problem>) -> String {
        let Some((value, span)) = self.annotations.get("severity") else {
            return String::new();
        };
        if !SEVERITIES.contains(&value.as_str()) {
            problems.push(self.bad_value("severity", value, span, SEVERITIES));
        }
        value.clone()
    }

    fn obligations(&self, problems: &mut Vec<Problem>) -> Vec<Obligation> {
        let Some((value, span)) = self.annotations.get("obligation") else {
            return Vec::new();
        };
        if self.forbid {
            problems.push(self.misplaced("obligation", "a permit", span));
        }
        if value.trim().is_empty() {
            problems.push(self.bad_value("obligation", value, span, obligation_names()));
        }
        let mut obligations = Vec::new();
        for name in value.split_whitespace() {
            match Obligation::from_name(name) {
                Some(obligation) => obligations.push(obligation),
                None => problems.push(self.bad_value("obligation", name, span, obligation_names())),
            }
        }
        obligations
    }

    /// How many people, and groups of people: `2`, `security`, `2 security`.
    fn approvals(&self, problems: &mut Vec<Problem>) -> Option<Demand> {
        let (value, span) = self.annotations.get("approvals")?;
        let asks = self
            .annotations
            .get("decision")
            .is_some_and(|(word, _)| word == "ask");
        if !asks || !self.forbid {
            problems.push(self.misplaced("approvals", "a forbid with `@decision(\"ask\")`", span));
        }
        let mut demand = Demand::default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        for word in value.split_whitespace() {
            match word.parse::<u8>() {
                Ok(people) if (1..=Demand::MOST).contains(&people) && demand.people == 0 => {
                    demand.people = people;
                }
                Err(_)
                    if word.starts_with(|c: char| c.is_ascii_alphabetic())
                        && word.chars().all(plain) =>
                {
                    demand.groups.push(word.to_owned());
                }
                _ => {
                    problems.push(self.no_demand(word, span));
                    return None;
                }
            }
        }
        if demand == Demand::default() {
            problems.push(self.no_demand(value, span));
        }
        Some(Demand::default().and(&demand))
    }

    fn no_demand(&self, word: &str, span: &Range<usize>) -> Problem {
        let most = Demand::MOST;
        Problem::error(
            Code::BadAnnotation,
            format!("`{}` is no value of `@approvals`", quote(word)),
        )
        .help(format!("it is how many people, 1 to {most}, and groups of approvers: `2`, `security`, `2 security`"))
        .at(self.file, span.clone())
    }

    /// Whether an annotation with one legal value is there.
    fn only(
        &self,
        key: &str,
        legal: &str,
        on: &str,
        allowed: bool,
        problems: &mut Vec<Problem>,
    ) -> bool {
        let Some((value, span)) = self.annotations.get(key) else {
            return false;
        };
        if value != legal {
            problems.push(self.bad_value(key, value, span, [legal]));
        } else if !allowed {
            problems.push(self.misplaced(key, on, span));
        }
        true
    }

    fn missing(&self, key: &str, meaning: &str) -> Problem {
        Problem::error(
            Code::MissingAnnotation,
            format!("the policy has no `@{key}`: {meaning}"),
        )
        .at(self.file, self.span.clone())
    }

    fn misplaced(&self, key: &str, on: &str, span: &Range<usize>) -> Problem {
        Problem::error(
            Code::BadAnnotation,
            format!("`@{key}` may stand on {on} only"),
        )
        .at(self.file, span.clone())
    }

    fn bad_value<'k>(
        &self,
        key: &str,
        value: &str,
        span: &Range<usize>,
        legal: impl IntoIterator<Item = &'k str>,
    ) -> Problem {
        Problem::error(
            Code::BadAnnotation,
            format!("`{}` is no value of `@{key}`", quote(value)),
        )
        .help(format!("it is {}", alternatives(legal)))
        .at(self.file, span.clone())
    }

    /// The place of a word within a wider place.
    fn inside(&self, span: &Range<usize>, word: &str) -> Range<usize> {
        self.file
            .text
            .get(span.clone())
            .and_then(|text| text.find(word))
            .map_or_else(
                || span.clone(),
                |at| span.start + at..span.start + at + word.len(),
            )
    }
}

fn obligation_names() -> impl Iterator<Item = &'static str> {
    Obligation::ALL.into_iter().map(Obligation::name)
}

/// Each `{word}` of a sentence.
pub(in crate::policy) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(start, _)| {
        let rest = text.get(start..)?;
        let end = rest.find('}')?;
        let word = rest.get(1..end)?;
        let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        plain.then(|| rest.get(..=end)).flatten()
    })
}
