//! What two sets of policies do otherwise: by their text, for every call that there can be, and for
//! calls that somebody made or made up.

pub mod policies;
pub mod report;
#[cfg(feature = "analysis")]
mod semantic;
pub mod settings;

use std::cmp::Ordering;
use std::time::Duration;

use crate::engine::bundle::{Bundle, Mode, OnFailure};
use crate::engine::decision::Effect;
use crate::engine::request::Request;
use crate::policy::Source;
use crate::workbench::prove::{Means, Unprovable};
use policies::PolicyChange;
use settings::SettingChange;

/// One of the two.
#[derive(Debug)]
pub struct Side {
    /// What it is called: a directory, `embedded` or `in-force`.
    pub name: String,
    /// The files of its layers.
    pub sources: Vec<Source>,
    /// What they make.
    pub bundle: Bundle,
}

/// What two sets of policies do otherwise.
#[derive(Debug)]
pub struct Diff {
    /// The policies that are not the same.
    pub policies: Vec<PolicyChange>,
    /// The settings that are not the same.
    pub settings: Vec<SettingChange>,
    /// What differs whatever is called.
    pub general: Vec<General>,
    /// What was proved, or why nothing was.
    pub proofs: Result<Proofs, Unprovable>,
    /// What became of calls that somebody made or made up.
    pub observed: Vec<Observed>,
}

/// Which way an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// More is let through.
    Looser,
    /// Less is.
    Stricter,
}

impl Direction {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Looser => "looser",
            Self::Stricter => "stricter",
        }
    }

    /// Which way it goes from one answer to another; nothing if they are the same.
    #[must_use]
    pub fn of(from: Effect, to: Effect) -> Option<Self> {
        Self::between(&from, &to)
    }

    /// The same of whatever is the stricter the greater it is.
    fn between<T: Ord>(from: &T, to: &T) -> Option<Self> {
        match from.cmp(to) {
            Ordering::Less => Some(Self::Stricter),
            Ordering::Equal => None,
            Ordering::Greater => Some(Self::Looser),
        }
    }
}

/// A difference that no single call shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct General {
    /// Which way it goes.
    pub direction: Direction,
    /// What it is.
    pub text: &'static str,
}

/// What a solver found out about each kind of request.
#[derive(Debug)]
pub struct Proofs {
    /// The solver, as `cvc5 1.0.3`.
    pub solver: String,
    /// The kinds of requests.
    pub environments: Vec<Compared>,
    /// How long it took.
    pub took: Duration,
}

/// What was found out about one kind of request.
#[derive(Debug)]
pub struct Compared {
    /// The kind, as `write Path`.
    pub environment: String,
    /// Answers that are others.
    pub shifts: Vec<Shift>,
    /// What could not be found out.
    pub doubts: Vec<String>,
}

/// A call that is answered otherwise.
#[derive(Debug)]
pub struct Shift {
    /// The answer of the old policies.
    pub from: Effect,
    /// The answer of the new ones.
    pub to: Effect,
    /// The policies that decide it in the old ones.
    pub old: Vec<String>,
    /// The policies that decide it in the new ones.
    pub new: Vec<String>,
    /// What is asked.
    pub request: Request,
}

/// Calls that somebody made, or made up, under both sets of policies.
#[derive(Debug, Default)]
pub struct Observed {
    /// Where the calls come from: `tests` or `record`.
    pub source: &'static str,
    /// How many were judged.
    pub judged: usize,
    /// How many of them are let through and were not, or were asked about and are not.
    pub looser: usize,
    /// How many of them go the other way.
    pub stricter: usize,
    /// How many could not be judged, by the reason.
    pub left_out: Vec<(String, usize)>,
    /// The first of those that are answered otherwise.
    pub flips: Vec<Flip>,
}

/// One call that is answered otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flip {
    /// The call, in words.
    pub call: String,
    /// Where it stands, as `file:line`.
    pub place: String,
    /// The answer of the old policies.
    pub from: Effect,
    /// The answer of the new ones.
    pub to: Effect,
    /// The policies that decide it in the new ones.
    pub by: Vec<String>,
}

impl Observed {
    /// The most flips that are kept: a record may have millions.
    const KEPT: usize = 20;

    /// Counts a call that is answered otherwise, and keeps it if it is one of the first.
    pub fn add(&mut self, flip: impl FnOnce() -> Flip, from: Effect, to: Effect) {
        match Direction::of(from, to) {
            Some(Direction::Looser) => self.looser += 1,
            Some(Direction::Stricter) => self.stricter += 1,
            None => return,
        }
        if self.flips.len() < Self::KEPT {
            self.flips.push(flip());
        }
    }
}

/// What is known of two sets of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// No answer is another one.
    Same,
    /// Some are.
    Different {
        /// Something is let through that was not.
        looser: bool,
        /// Something is not let through that was.
        stricter: bool,
    },
    /// No difference was found, but there may be one.
    Unknown,
}

/// Compares two sets of policies. `observed` are the calls that were tried under both.
#[must_use]
pub fn compare(old: &Side, new: &Side, means: &Means, observed: Vec<Observed>) -> Diff {
    Diff {
        policies: policies::changes(old, new),
        settings: settings::changes(old, new),
        general: general(&old.bundle, &new.bundle),
        proofs: prove(&old.bundle, &new.bundle, means),
        observed,
    }
}

#[cfg(feature = "analysis")]
fn prove(old: &Bundle, new: &Bundle, means: &Means) -> Result<Proofs, Unprovable> {
    semantic::prove(old, new, means)
}

#[cfg(not(feature = "analysis"))]
fn prove(_: &Bundle, _: &Bundle, _: &Means) -> Result<Proofs, Unprovable> {
    Err(Unprovable::NotBuilt)
}

fn general(old: &Bundle, new: &Bundle) -> Vec<General> {
    let mut found = Vec::new();
    let mut note = |direction, text| found.push(General { direction, text });
    match (old.settings.mode, new.settings.mode) {
        (Mode::Enforce, Mode::Monitor) => note(
            Direction::Looser,
            "the new policies only watch: nothing but faults and the guard binds",
        ),
        (Mode::Monitor, Mode::Enforce) => note(
            Direction::Stricter,
            "the old policies only watched: now their answers bind",
        ),
        _ => {}
    }
    match (old.settings.audit.on_failure, new.settings.audit.on_failure) {
        (OnFailure::Deny, OnFailure::Allow) => note(
            Direction::Looser,
            "a call whose record cannot be written is let through",
        ),
        (OnFailure::Allow, OnFailure::Deny) => note(
            Direction::Stricter,
            "a call whose record cannot be written is denied",
        ),
        _ => {}
    }
    match Direction::between(
        &new.settings.limits.event_bytes,
        &old.settings.limits.event_bytes,
    ) {
        Some(Direction::Looser) => note(
            Direction::Looser,
            "events are judged that were refused for their size",
        ),
        Some(Direction::Stricter) => note(
            Direction::Stricter,
            "events are refused for their size that were judged",
        ),
        None => {}
    }
    found
}

impl Diff {
    /// What no proof covers, though it is not the same: the tables that say what a call is, because a
    /// proof takes the facts as they come, and obligations.
    #[must_use]
    pub fn uncovered(&self) -> Vec<String> {
        let facts = self
            .settings
            .iter()
            .filter(|change| change.is_about_facts());
        let mut found: Vec<String> = facts.map(|change| change.file.clone()).collect();
        found.dedup();
        let owing = self.policies.iter().filter(|change| change.obligations);
        found.extend(owing.map(|change| format!("the obligations of `{}`", change.id)));
        found
    }

    /// Whether policies or settings differ in anything that could change an answer.
    #[must_use]
    pub fn may_differ(&self) -> bool {
        self.policies.iter().any(PolicyChange::decides)
            || self.settings.iter().any(SettingChange::decides)
            || !self.general.is_empty()
    }

    /// What is known, all in all.
    #[must_use]
    pub fn known(&self) -> Known {
        let proofs = self.proofs.iter();
        let shifts = proofs
            .flat_map(|proofs| &proofs.environments)
            .flat_map(|compared| &compared.shifts)
            .filter_map(|shift| Direction::of(shift.from, shift.to));
        let observed = self.observed.iter().flat_map(|observed| {
            let looser = (observed.looser > 0).then_some(Direction::Looser);
            looser
                .into_iter()
                .chain((observed.stricter > 0).then_some(Direction::Stricter))
        });
        let general = self.general.iter().map(|general| general.direction);
        let all: Vec<Direction> = shifts.chain(observed).chain(general).collect();
        if !all.is_empty() {
            return Known::Different {
                looser: all.contains(&Direction::Looser),
                stricter: all.contains(&Direction::Stricter),
            };
        }
        if self.may_differ() && !self.whole() {
            return Known::Unknown;
        }
        Known::Same
    }

    /// Whether every difference that there is was found: all was proved, and proofs cover all.
    #[must_use]
    pub fn whole(&self) -> bool {
        let doubtless = |proofs: &Proofs| proofs.environments.iter().all(|c| c.doubts.is_empty());
        self.proofs.as_ref().is_ok_and(doubtless) && self.uncovered().is_empty()
    }
}
