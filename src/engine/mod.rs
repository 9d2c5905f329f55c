//! The policy decision point: requests and a bundle in, a decision out.
//!
//! Pure: no file, clock, environment, network, thread or global is touched here, and no word of
//! any protocol is known. `clippy.toml` lists what that forbids; this room turns it on.
#![deny(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types
)]

pub mod action;
pub mod approver;
pub mod attribute;
pub mod bundle;
pub mod codec;
pub mod containment;
pub mod decision;
pub mod entity;
pub mod exception;
pub mod explain;
pub mod injection;
pub mod pattern;
pub mod permission;
pub mod program;
pub mod redaction;
pub mod request;
pub mod schema;
pub mod sleeping;
pub mod upstream;

use std::collections::HashSet;
use std::fmt;

use action::Action;
use approver::Demand;
use bundle::{Bundle, Mode, Policy};
use containment::Places;
use decision::{Decision, Effect, FaultClass, Obligation, Reason};
use exception::{Used, Waiver};
use permission::{Decoded, EvaluationError, Judge, Judged};
use request::{Request, Resource};

/// More distinct requests than this in one event are at least a question for a person. They are
/// all judged nevertheless: what hides behind many others is denied as if it came alone.
pub const REQUEST_LIMIT: usize = 128;

/// A stack that Cedar's evaluator never finds too small, wherever the caller runs.
///
/// Cedar refuses to recurse on a stack that it believes to be short, and musl reports the main
/// thread's as such; the refusal would be an error in one run and none in the next.
pub fn on_known_stack<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(4 << 20, 16 << 20, run)
}

/// A decision, and how it came about.
#[derive(Debug)]
pub struct Judgement {
    /// The answer.
    pub decision: Decision,
    /// What the answer would be if nothing were only monitored, and without any exception.
    pub would_decide: Effect,
    /// What was judged, and how, in the order of the requests; equal ones once.
    pub verdicts: Vec<(Request, Result<Judged, EvaluationError>)>,
    /// What would have decided more strictly, if it were not only monitored; each policy once.
    pub monitored: Vec<Reason>,
    /// The exceptions without which a request would have had a stricter answer; each once.
    pub exceptions: Vec<Used>,
}

/// A bundle, and what was decoded of it so far.
pub struct Engine {
    bundle: Bundle,
    decoded: Decoded,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.bundle).finish()
    }
}

impl Engine {
    /// An engine that judges by a bundle.
    #[must_use]
    pub fn new(bundle: Bundle) -> Self {
        Self {
            bundle,
            decoded: Decoded::default(),
        }
    }

    /// What it judges by.
    #[must_use]
    pub const fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Judges one event: the strictest answer to any of its requests wins.
    pub fn decide(&self, requests: &[Request]) -> Judgement {
        on_known_stack(|| judge_all(&self.bundle, &self.decoded, requests))
    }

    /// Where exceptions fit that would leave out something of what was judged. Whether they are still
    /// in force is not for the engine to know.
    #[must_use]
    pub fn waivers(&self, judgement: &Judgement, places: &Places) -> Vec<Waiver> {
        exception::waivers(&self.bundle, judgement, places)
    }

    /// The judgement with those exceptions, of which somebody knows that they are in force. No policy is
    /// asked anew: what erred stays a fault, and what nothing permitted stays denied.
    pub fn waive(&self, judgement: Judgement, waivers: &[Waiver]) -> Judgement {
        if waivers.is_empty() {
            return judgement;
        }
        let mut verdicts = judgement.verdicts;
        for (index, (request, judged)) in verdicts.iter_mut().enumerate() {
            if let Ok(judged) = judged
                && !guarded(request)
            {
                judged.waive(&self.bundle, exception::of_verdict(waivers, index));
            }
        }
        combine(&self.bundle, verdicts)
    }
}

fn judge_all(bundle: &Bundle, decoded: &Decoded, requests: &[Request]) -> Judgement {
    let mut seen = HashSet::new();
    let distinct: Vec<&Request> = requests
        .iter()
        .filter(|request| seen.insert(*request))
        .collect();
    let judge = match Judge::new(bundle, decoded) {
        Ok(judge) => judge,
        Err(error) => return broken(bundle, &error),
    };
    let verdicts: Vec<_> = distinct
        .into_iter()
        .map(|request| (request.clone(), judge.judge(request)))
        .collect();
    combine(bundle, verdicts)
}

fn combine(
    bundle: &Bundle,
    verdicts: Vec<(Request, Result<Judged, EvaluationError>)>,
) -> Judgement {
    let too_many = verdicts.len() > REQUEST_LIMIT;
    if verdicts.is_empty() {
        return Judgement {
            decision: Decision::fault(
                FaultClass::InputError,
                "the event asks for nothing that could be judged",
                "",
            ),
            would_decide: Effect::Deny,
            verdicts,
            monitored: Vec::new(),
            exceptions: Vec::new(),
        };
    }
    let failed = verdicts
        .iter()
        .find_map(|(_, verdict)| verdict.as_ref().err().cloned());
    if let Some(error) = failed {
        return Judgement {
            verdicts,
            ..broken(bundle, &error)
        };
    }
    let mut tally = Tally::default();
    for (request, judged) in &verdicts {
        if let Ok(judged) = judged {
            tally.add(bundle, request, judged);
        }
    }
    if too_many {
        tally.ask(Reason {
            id: "too-many-requests".to_owned(),
            file: String::new(),
            line: 0,
            text: format!("more than {REQUEST_LIMIT} separate things in one call"),
            fact: String::new(),
            help: "split the call".to_owned(),
        });
    }
    let (monitored, exceptions) = (
        std::mem::take(&mut tally.monitored),
        std::mem::take(&mut tally.exceptions),
    );
    Judgement {
        would_decide: tally.would,
        decision: tally.decide(),
        verdicts,
        monitored,
        exceptions,
    }
}

/// The answers of several requests, added up.
#[derive(Default)]
struct Tally {
    effect: Option<Effect>,
    would: Effect,
    reasons: Vec<Reason>,
    obligations: Vec<Obligation>,
    monitored: Vec<Reason>,
    exceptions: Vec<Used>,
    demand: Option<Demand>,
}

impl Tally {
    fn add(&mut self, bundle: &Bundle, request: &Request, judged: &Judged) {
        self.would = self.would.max(judged.would);
        let watched = bundle.settings.mode == Mode::Monitor && !guarded(request);
        self.note(bundle, request, judged, watched);
        let effect = if watched {
            Effect::Allow
        } else {
            judged.effect
        };
        let policies = || {
            judged
                .deciding
                .iter()
                .filter_map(|index| bundle.policies.get(*index))
        };
        if effect != Effect::Deny {
            self.obligations.extend(
                judged
                    .held
                    .iter()
                    .filter_map(|index| bundle.policies.get(*index))
                    .flat_map(|policy| policy.obligations.iter().copied()),
            );
        }
        if Some(effect) > self.effect {
            self.reasons.clear();
            self.effect = Some(effect);
        }
        if Some(effect) < self.effect {
            return;
        }
        if effect == Effect::Ask {
            for demand in policies().filter_map(|policy| policy.approvals.as_ref()) {
                self.demand = Some(self.demand.take().unwrap_or_default().and(demand));
            }
        }
        let reasons = policies().map(|policy| reason(policy, request));
        self.reasons.extend(reasons);
        if effect == Effect::Deny && judged.deciding.is_empty() {
            self.reasons.push(default_deny(request));
        }
    }

    /// Notes what would have decided more strictly.
    fn note(&mut self, bundle: &Bundle, request: &Request, judged: &Judged, watched: bool) {
        let mut add = |reason: Reason| {
            if !self.monitored.iter().any(|known| known.id == reason.id) {
                self.monitored.push(reason);
            }
        };
        if watched && judged.effect == Effect::Deny && judged.deciding.is_empty() {
            add(default_deny(request));
        }
        let decided = judged.deciding.iter();
        let decided = decided.filter(|_| watched && judged.effect > Effect::Allow);
        for index in decided.chain(&judged.monitored) {
            if let Some(policy) = bundle.policies.get(*index) {
                add(reason(policy, request));
            }
        }
        for used in exception::used(bundle, judged) {
            let known = self.exceptions.iter_mut();
            let known = known
                .into_iter()
                .find(|one| one.exception == used.exception);
            match known {
                Some(known) => {
                    known.policies.extend(used.policies);
                    known.policies.sort_unstable();
                    known.policies.dedup();
                }
                None => self.exceptions.push(used),
            }
        }
    }

    fn ask(&mut self, reason: Reason) {
        self.would = self.would.max(Effect::Ask);
        if self.effect < Some(Effect::Deny) {
            if self.effect < Some(Effect::Ask) {
                self.reasons.clear();
            }
            self.effect = Some(Effect::Ask);
            self.reasons.push(reason);
        }
    }

    fn decide(mut self) -> Decision {
        self.obligations.sort_unstable();
        self.obligations.dedup();
        self.reasons.dedup();
        match self.effect {
            Some(Effect::Allow) => Decision::allow(self.reasons, self.obligations),
            Some(Effect::Ask) => Decision::ask(self.reasons, self.obligations, self.demand),
            Some(Effect::Deny) | None => Decision::deny(self.reasons, None),
        }
    }
}

/// Whether the request would change what protects this program, or is about a text that may have to
/// be redacted. Neither monitor mode nor an exception covers those.
fn guarded(request: &Request) -> bool {
    matches!(request.action, Action::Prompt | Action::Result) || changes_guard(request)
}

/// Whether the request would change what protects this program.
fn changes_guard(request: &Request) -> bool {
    request.action != Action::Read && request.resource.has_label(containment::GUARD)
}

fn reason(policy: &Policy, request: &Request) -> Reason {
    Reason {
        id: policy.id.clone(),
        file: policy.file.clone(),
        line: policy.line,
        text: fill(&policy.reason, request),
        fact: describe(request),
        help: fill(&policy.help, request),
    }
}

fn default_deny(request: &Request) -> Reason {
    Reason {
        id: "default-deny".to_owned(),
        file: String::new(),
        line: 0,
        text: "no policy permits this".to_owned(),
        fact: describe(request),
        help: "a person can add a permit to the policies".to_owned(),
    }
}

fn broken(bundle: &Bundle, error: &EvaluationError) -> Judgement {
    let named = error
        .policy
        .and_then(|index| bundle.policies.get(index))
        .map(|policy| {
            format!(
                "policy `{}` ({}:{}) failed: ",
                policy.id, policy.file, policy.line
            )
        })
        .unwrap_or_default();
    Judgement {
        decision: Decision::fault(
            FaultClass::EvaluationError,
            format!("{named}{}", error.message.replace('\n', " ")),
            "a person has to correct the policy",
        ),
        would_decide: Effect::Deny,
        verdicts: Vec::new(),
        monitored: Vec::new(),
        exceptions: Vec::new(),
    }
}

/// The placeholders that `@reason` and `@help` may hold.
pub const PLACEHOLDERS: [&str; 2] = ["{tool}", "{resource}"];

fn fill(template: &str, request: &Request) -> String {
    if !template.contains('{') {
        return template.to_owned();
    }
    template
        .replace("{tool}", &request.context.tool)
        .replace("{resource}", &shorten(&request.resource.id()))
}

/// The request in a few words: ``write `/etc/passwd` ``.
#[must_use]
pub fn describe(request: &Request) -> String {
    let action = request.action.name();
    match &request.resource {
        Resource::Path(path) if !path.fault.is_empty() => {
            format!("{action} `{}`: {}", shorten(&path.given), path.fault)
        }
        Resource::Path(path) if path.given != path.resolved => format!(
            "{action} `{}`, which is `{}`",
            shorten(&path.given),
            shorten(&path.resolved)
        ),
        resource => format!("{action} `{}`", shorten(&resource.id())),
    }
}

/// The longest quotation in a reason, in characters.
const QUOTE: usize = 160;

fn shorten(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(QUOTE)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(QUOTE).is_some() {
        short.push('…');
    }
    short
}
