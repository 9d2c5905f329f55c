//! What of the policies the tests ever came to: a part that decided nothing in any of them may say
//! anything.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::places::{self, Place};
use crate::engine::Engine;
use crate::engine::bundle::{Bundle, Verdict};
use crate::engine::decision::Effect;
use crate::engine::permission::Judged;
use crate::engine::request::{Request, Resource};
use crate::gate::Passage;
use crate::gate::outcome::Outcome;
use crate::policy::{Source, cedar};

/// What kind of part it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A policy of a `.cedar` file.
    Policy,
    /// A pattern of permission.toml.
    Pattern,
    /// A label of containment.toml that a policy names.
    Label,
    /// An `[[error]]` of bridge.toml.
    ErrorRule,
    /// A rule of a redaction pack.
    RedactionRule,
}

/// A part of the policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What kind of part it is.
    pub kind: Kind,
    /// Its name or id.
    pub name: String,
    /// The file where it stands, as a person finds it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// Whether it decided something in a test. Of a redaction rule: or has examples of its own, which
    /// were tried when the policies were read.
    pub covered: bool,
}

/// Every part of the policies, and whether tests came to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The parts, by kind and in the order of the files.
    pub parts: Vec<Part>,
}

/// Looks at what becomes of events, and notes what decided.
#[derive(Debug)]
pub struct Observer<'b> {
    bundle: &'b Bundle,
    engine: Engine,
    policies: BTreeSet<usize>,
    labels: BTreeSet<String>,
    patterns: BTreeSet<String>,
    errors: BTreeSet<String>,
    rules: BTreeSet<String>,
    /// The labels that policies name: no other decides anything.
    named: BTreeSet<String>,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Policy,
        Self::Pattern,
        Self::Label,
        Self::ErrorRule,
        Self::RedactionRule,
    ];

    /// One of the kind, in words.
    #[must_use]
    pub const fn one(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Pattern => "pattern",
            Self::Label => "label",
            Self::ErrorRule => "error rule",
            Self::RedactionRule => "redaction rule",
        }
    }

    /// Several of the kind, in words.
    #[must_use]
    pub const fn several(self) -> &'static str {
        match self {
            Self::Policy => "policies",
            Self::Pattern => "patterns",
            Self::Label => "labels",
            Self::ErrorRule => "error rules",
            Self::RedactionRule => "redaction rules",
        }
    }
}

impl<'b> Observer<'b> {
    /// Nothing was seen yet of that bundle.
    ///
    /// # Errors
    /// If a policy of it is none that this version compiled.
    pub fn new(bundle: &'b Bundle) -> Result<Self, String> {
        let mut named = BTreeSet::new();
        for policy in &bundle.policies {
            named.extend(cedar::labels(policy)?);
        }
        Ok(Self {
            bundle,
            engine: Engine::new(bundle.clone()),
            policies: BTreeSet::new(),
            labels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            errors: BTreeSet::new(),
            rules: BTreeSet::new(),
            named,
        })
    }

    /// Notes what decided about an event.
    pub fn see(&mut self, passage: &Passage) {
        if let Outcome::Pass(cleared) = &passage.outcome
            && let Some(error) = &cleared.advice().error
        {
            self.errors.insert(error.class.clone());
        }
        let verdicts = passage.judgement.iter().flat_map(|trace| &trace.verdicts);
        for (request, judged) in verdicts {
            let context = &request.context;
            let hits = context.secrets.iter().chain(&context.health);
            self.rules.extend(hits.cloned());
            let Ok(judged) = judged else { continue };
            self.decisive_policies(judged);
            self.decisive_facts(request, judged);
        }
    }

    fn decisive_policies(&mut self, judged: &Judged) {
        self.policies.extend(&judged.deciding);
        for index in &judged.held {
            let Some(policy) = self.bundle.policies.get(*index) else {
                continue;
            };
            let decides = match policy.verdict {
                // Without it, what a person is asked for would be denied.
                Verdict::Permit => judged.effect == Effect::Ask,
                verdict => policy.monitor && judged.would == verdict.effect(),
            };
            if decides {
                self.policies.insert(*index);
            }
        }
    }

    /// Labels and patterns without which something else would have been decided.
    fn decisive_facts(&mut self, request: &Request, judged: &Judged) {
        let beside = match &request.resource {
            Resource::Command(command) => Some(&command.beside),
            _ => None,
        };
        let labels = request.resource.labels().into_iter().chain(beside);
        let labels: BTreeSet<&String> = labels
            .flatten()
            .filter(|label| self.named.contains(*label) && !self.labels.contains(*label))
            .collect();
        let mut found = Vec::new();
        for label in labels {
            let mut without = request.clone();
            match &mut without.resource {
                Resource::Path(path) => {
                    path.labels.remove(label);
                }
                Resource::Command(command) => {
                    command.labels.remove(label);
                    command.beside.remove(label);
                }
                Resource::Url(_) | Resource::Tool(_) | Resource::Text(_) => {}
            }
            if self.differs(without, judged) {
                found.push(label.clone());
            }
        }
        self.labels.extend(found);
        for pattern in &request.context.patterns {
            if self.patterns.contains(pattern) {
                continue;
            }
            let mut without = request.clone();
            without.context.patterns.remove(pattern);
            if self.differs(without, judged) {
                self.patterns.insert(pattern.clone());
            }
        }
    }

    fn differs(&self, request: Request, judged: &Judged) -> bool {
        let judgement = self.engine.decide(&[request]);
        let other = judgement.verdicts.first().map(|(_, other)| other);
        match other {
            Some(Ok(other)) => {
                (other.effect, other.would) != (judged.effect, judged.would)
                    || other.deciding != judged.deciding
            }
            Some(Err(_)) | None => true,
        }
    }

    /// What was seen of all that these layers say.
    #[must_use]
    pub fn coverage(&self, sources: &[Source]) -> Coverage {
        let mut parts = Vec::new();
        for (index, policy) in self.bundle.policies.iter().enumerate() {
            parts.push(Part {
                kind: Kind::Policy,
                name: policy.id.clone(),
                file: policy.file.clone(),
                line: policy.line,
                covered: self.policies.contains(&index),
            });
        }
        let mut written = Vec::new();
        for file in sources.iter().flat_map(|source| &source.files) {
            places::of(file, &mut written);
        }
        let rules = self.redaction_rules();
        let mut seen = BTreeSet::new();
        for place in written {
            let (counts, covered) = match place.kind {
                Kind::Policy => (false, false),
                Kind::Pattern => (true, self.patterns.contains(&place.name)),
                Kind::Label => (
                    self.named.contains(&place.name),
                    self.labels.contains(&place.name),
                ),
                Kind::ErrorRule => (true, self.errors.contains(&place.name)),
                Kind::RedactionRule => (
                    rules.contains(&place.name),
                    place.examples || self.rules.contains(&place.name),
                ),
            };
            if counts && seen.insert((place.kind, place.name.clone())) {
                parts.push(place.part(covered));
            }
        }
        parts.sort_by_key(|part| part.kind);
        Coverage { parts }
    }

    /// The rules that are in force; packs may be switched off.
    fn redaction_rules(&self) -> BTreeSet<String> {
        let redaction = &self.bundle.settings.redaction;
        let mut ids = BTreeSet::new();
        for packed in [&redaction.secrets, &redaction.phi] {
            if let Ok(rules) = packed.open()
                && let Ok(about) = rules.about()
            {
                ids.extend(about.iter().map(|rule| rule.id.clone()));
            }
        }
        ids
    }
}

impl Place {
    fn part(self, covered: bool) -> Part {
        Part {
            kind: self.kind,
            name: self.name,
            file: self.file,
            line: self.line,
            covered,
        }
    }
}

impl Coverage {
    /// How many parts of a kind there are, and how many of them tests came to.
    #[must_use]
    pub fn count(&self, kind: Kind) -> (usize, usize) {
        let of_kind = || self.parts.iter().filter(|part| part.kind == kind);
        let covered = of_kind().filter(|part| part.covered).count();
        (covered, of_kind().count())
    }

    /// The parts that no test came to.
    pub fn uncovered(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| !part.covered)
    }

    /// The share of covered parts, in hundredths, rounded down; 100 if there are none.
    #[must_use]
    pub fn percent(&self) -> u8 {
        let all = self.parts.len();
        let covered = all - self.uncovered().count();
        let percent = (covered * 100).checked_div(all).unwrap_or(100);
        u8::try_from(percent).unwrap_or(100)
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let kinds: serde_json::Map<String, Value> = Kind::ALL
            .into_iter()
            .map(|kind| {
                let (covered, all) = self.count(kind);
                let counts = json!({"covered": covered, "all": all});
                (kind.several().replace(' ', "_"), counts)
            })
            .collect();
        let uncovered: Vec<Value> = self
            .uncovered()
            .map(|part| {
                json!({
                    "kind": part.kind.one(),
                    "name": part.name,
                    "file": part.file,
                    "line": part.line,
                })
            })
            .collect();
        json!({"percent": self.percent(), "kinds": kinds, "uncovered": uncovered})
    }
}
