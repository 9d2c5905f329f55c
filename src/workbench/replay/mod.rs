//! What policies would have said of the calls that are in a record.
//!
//! A line is judged again by the engine that hooks ask, from the facts that the line tells. What it
//! does not tell is never guessed: where a policy asks for such a fact, the line is not judged, and
//! counted by the reason.

mod line;
mod past;
mod reads;
pub mod run;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

pub use line::{Recorded, Told};
pub use past::{Archive, Differs, Gone, Past};
pub use reads::{Facts, Owner, Reads};

use crate::audit::record::v1::Kind;
use crate::engine::containment::Places;
use crate::engine::decision::Effect;
use crate::engine::request::Request;
use crate::engine::{Engine, REQUEST_LIMIT, describe};

/// No memory holds more answers: it then begins anew.
const ANSWERS: usize = 1 << 15;

/// New policies, and a record to try them on.
#[derive(Debug)]
pub struct Replay<'a> {
    engine: &'a Engine,
    reads: Reads,
    archive: Archive,
    before: Option<Past>,
    places: Option<Places>,
}

/// What becomes of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What was found.
    pub found: Found,
    /// Tables that differ, but whose facts are as they were recorded.
    pub as_recorded: BTreeSet<&'static str>,
    /// Why the policies of the time are not known, where they are not.
    pub unknown_past: Option<Gone>,
    /// Layers that were in force besides the base.
    pub other_layers: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The answer stays.
    Same(Effect),
    /// The answer is another one.
    Changed(Change),
    /// It was a fault that denied, and no policy.
    Fault(String),
    /// Nothing was judged: the line is about the record itself.
    NoRequests,
    /// What it was about cannot be told from the line.
    NotJudged(Unjudged),
}

/// An answer that would be another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What was answered.
    pub from: Effect,
    /// What would be.
    pub to: Effect,
    /// The policies that decided then.
    pub because_of: Vec<String>,
    /// The policies that would decide.
    pub by: Vec<String>,
    /// What was asked, in words: the request that decides.
    pub asked: String,
}

impl Change {
    /// Whether more is let through than was.
    #[must_use]
    pub fn is_looser(&self) -> bool {
        self.to < self.from
    }
}

/// Why a line is not judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unjudged {
    /// The record left requests of it out.
    Truncated,
    /// It is no line of a form that this version reads.
    Unreadable,
    /// Policies ask for facts that the record hides or does not hold.
    Unknown(String),
    /// What was answered came from a later step than the policies, and those are not known.
    LaterStep,
}

/// Answers that were given already, for one thread.
#[derive(Debug, Default)]
pub struct Memory {
    new: HashMap<Vec<u8>, Arc<Answer>>,
    key: Vec<u8>,
}

/// What policies say of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    effect: Effect,
    by: Vec<String>,
}

/// What policies say of one line, and which of its requests decides.
struct Said {
    effect: Effect,
    by: Vec<String>,
    deciding: usize,
}

impl<'a> Replay<'a> {
    /// A replay by those policies. What policies said at the time is taken from the record.
    #[must_use]
    pub fn new(engine: &'a Engine) -> Self {
        Self {
            reads: Reads::of(engine.bundle()),
            engine,
            archive: Archive::default(),
            before: None,
            places: None,
        }
    }

    /// The same, with the archive of policies beside the record: it tells which facts the new tables
    /// would state otherwise, and which answers came from a later step than the policies.
    #[must_use]
    pub fn with_archive(self, dir: PathBuf) -> Self {
        Self {
            archive: Archive::new(Some(dir)),
            ..self
        }
    }

    /// The same, compared with what these policies say, whatever was answered.
    #[must_use]
    pub fn against(self, before: crate::engine::bundle::Bundle) -> Self {
        let before = Past::new(before, Vec::new(), self.engine.bundle());
        Self {
            before: Some(before),
            ..self
        }
    }

    /// The same, for a record of this machine: paths are labelled anew where the tables differ.
    #[must_use]
    pub fn at(self, places: Places) -> Self {
        Self {
            places: Some(places),
            ..self
        }
    }

    /// What becomes of a line of the record, without its line feed.
    pub fn judge(&self, memory: &mut Memory, line: &[u8]) -> Verdict {
        let found = match serde_json::from_slice::<Recorded<'_>>(line) {
            Ok(recorded) => return self.judge_recorded(memory, &recorded),
            Err(_) => Found::NotJudged(Unjudged::Unreadable),
        };
        Verdict::of(found)
    }

    /// The same, of a line that was read already.
    pub fn judge_recorded(&self, memory: &mut Memory, recorded: &Recorded<'_>) -> Verdict {
        if recorded.v != 1 || recorded.kind().is_none() {
            return Verdict::of(Found::NotJudged(Unjudged::Unreadable));
        }
        if let Some(class) = recorded.error_class.plain() {
            return Verdict::of(Found::Fault(class.to_owned()));
        }
        if recorded.truncated {
            return Verdict::of(Found::NotJudged(Unjudged::Truncated));
        }
        if recorded.requests.is_empty() {
            return Verdict::of(Found::NoRequests);
        }
        self.judge_whole(memory, recorded)
    }

    fn judge_whole(&self, memory: &mut Memory, recorded: &Recorded<'_>) -> Verdict {
        let bundle = self.engine.bundle();
        let mut told = recorded.requests(&bundle.settings);
        if told.len() < recorded.requests.len() {
            return Verdict::of(Found::NotJudged(Unjudged::Unreadable));
        }
        let digest = recorded.policy_digest.plain().unwrap_or_default();
        let archived;
        let (past, unknown_past) = match &self.before {
            Some(before) => (Some(before), None),
            None if digest == bundle.digest => (None, None),
            None => match self.archive.past(digest, bundle) {
                Ok(past) => {
                    archived = past;
                    (Some(&*archived), None)
                }
                Err(gone) => (None, Some(gone)),
            },
        };
        let as_recorded = past.map_or_else(BTreeSet::new, |past| {
            let settings = (&past.engine.bundle().settings, &bundle.settings);
            let places = self.places.as_ref();
            past.differs.restate(&mut told, settings, places)
        });
        if unknown_past.is_some() {
            for one in &mut told {
                one.request.context.depth_limit = bundle.settings.limits.depth;
            }
        }
        Verdict {
            found: match self.say(memory, &told) {
                Ok(new) => self.compare(recorded, new, &told, past, unknown_past),
                Err(unjudged) => Found::NotJudged(unjudged),
            },
            as_recorded,
            unknown_past,
            other_layers: past.is_some_and(|past| past.layers.len() > 1),
        }
    }

    /// What the new policies say.
    fn say(&self, memory: &mut Memory, told: &[Told]) -> Result<Said, Unjudged> {
        let Memory { new, key } = memory;
        say(told, |one| {
            let facts = self.reads.about(&one.request);
            if one.unknown.meets(facts) {
                lacking(&self.reads, self.engine, one)?;
            }
            reads::key(&one.request, facts, key);
            if let Some(known) = new.get(key.as_slice()) {
                return Ok(Arc::clone(known));
            }
            let answer = Arc::new(answer(self.engine, &one.request));
            // With a fact that is not known, another request may look like this one.
            if !one.unknown.meets(facts) {
                if new.len() >= ANSWERS {
                    new.clear();
                }
                new.insert(key.clone(), Arc::clone(&answer));
            }
            Ok(answer)
        })
    }

    fn compare(
        &self,
        recorded: &Recorded<'_>,
        new: Said,
        told: &[Told],
        past: Option<&Past>,
        unknown_past: Option<Gone>,
    ) -> Found {
        let was = recorded.decision;
        let reasons = || {
            let ids = recorded.reasons.iter();
            ids.map(|reason| reason.id.shown().into_owned()).collect()
        };
        let compared = self.before.is_some();
        if new.effect == was && !compared {
            return Found::Same(was);
        }
        // What the policies said at the time, from the same facts.
        let then = match past {
            Some(past) => said_then(&past.engine, &past.reads, recorded),
            None if unknown_past.is_none() => said_then(self.engine, &self.reads, recorded),
            None => Err(Unjudged::LaterStep),
        };
        // Where more is let through, what stood in the way tells more than what did not.
        let deciding = match &then {
            Ok(then) if then.effect > new.effect => then.deciding,
            Err(_) if new.effect < was => told.len().min(2).saturating_sub(1),
            _ => new.deciding,
        };
        let asked = || {
            let request = told.get(deciding).map(|one| &one.request);
            request.map(describe).unwrap_or_default()
        };
        match then {
            Ok(then) if compared || then.effect != was => {
                if then.effect == new.effect {
                    return Found::Same(then.effect);
                }
                Found::Changed(new.changed(then.effect, then.by, asked()))
            }
            Err(unjudged) if compared => Found::NotJudged(unjudged),
            // The host had asked already: nobody knows whether it would have.
            Err(_) if recorded.kind() == Some(Kind::Permission) && new.effect == Effect::Ask => {
                Found::NotJudged(Unjudged::LaterStep)
            }
            _ => Found::Changed(new.changed(was, reasons(), asked())),
        }
    }
}

impl Verdict {
    const fn of(found: Found) -> Self {
        Self {
            found,
            as_recorded: BTreeSet::new(),
            unknown_past: None,
            other_layers: false,
        }
    }
}

impl Said {
    fn changed(self, from: Effect, because_of: Vec<String>, asked: String) -> Change {
        Change {
            from,
            to: self.effect,
            because_of,
            by: self.by,
            asked,
        }
    }
}

/// What the policies of the time say of the facts as they were recorded.
fn said_then(engine: &Engine, reads: &Reads, recorded: &Recorded<'_>) -> Result<Said, Unjudged> {
    let told = recorded.requests(&engine.bundle().settings);
    say(&told, |one| {
        if one.unknown != Facts::NONE {
            lacking(reads, engine, one)?;
        }
        Ok(Arc::new(answer(engine, &one.request)))
    })
}

/// The strictest answer to any of the requests. Where one denies, it does not matter what is not
/// known of another.
fn say(
    told: &[Told],
    mut each: impl FnMut(&Told) -> Result<Arc<Answer>, Unjudged>,
) -> Result<Said, Unjudged> {
    let mut said: Option<Said> = None;
    let mut lacking = None;
    for (deciding, one) in told.iter().enumerate() {
        let answer = match each(one) {
            Ok(answer) => answer,
            Err(unjudged) => {
                lacking = Some(unjudged);
                continue;
            }
        };
        match &mut said {
            Some(said) if answer.effect < said.effect => {}
            Some(said) if answer.effect == said.effect => {
                for id in &answer.by {
                    if !said.by.contains(id) {
                        said.by.push(id.clone());
                    }
                }
            }
            _ => {
                said = Some(Said {
                    effect: answer.effect,
                    by: answer.by.clone(),
                    deciding,
                });
            }
        }
    }
    let mut said = match (said, lacking) {
        (Some(said), Some(_)) if said.effect == Effect::Deny => said,
        (_, Some(unjudged)) => return Err(unjudged),
        (Some(said), None) => said,
        (None, None) => return Err(Unjudged::Unreadable),
    };
    if told.len() > REQUEST_LIMIT && said.effect < Effect::Ask {
        said.effect = Effect::Ask;
        said.by = vec!["too-many-requests".to_owned()];
    }
    Ok(said)
}

/// # Errors
/// If a policy that may hold asks for a fact that is not known.
fn lacking(reads: &Reads, engine: &Engine, told: &Told) -> Result<(), Unjudged> {
    let asked = reads.surely_about(engine.bundle(), &told.request, told.unknown);
    if asked.meets(told.unknown) {
        return Err(Unjudged::Unknown(asked.common(told.unknown).join(", ")));
    }
    Ok(())
}

fn answer(engine: &Engine, request: &Request) -> Answer {
    let judgement = engine.decide(std::slice::from_ref(request));
    let mut by: Vec<String> = Vec::new();
    for reason in judgement.decision.reasons() {
        if !by.contains(&reason.id) {
            by.push(reason.id.clone());
        }
    }
    Answer {
        effect: judgement.decision.effect(),
        by,
    }
}
