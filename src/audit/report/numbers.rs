//! The numbers of a report, as `--format json` writes them.

use serde::Serialize;

use super::tally::Weight;
use crate::engine::decision::Effect;

/// What a record says of a period.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The version of this form: 1.
    pub version: u8,
    /// When.
    pub period: Period,
    /// How many lines.
    pub lines: u64,
    /// How many of them are about something that a host did.
    pub events: u64,
    /// How many sessions.
    pub sessions: u64,
    /// What was decided.
    pub decisions: Decisions,
    /// What was decided, and how fast, over time.
    pub over_time: OverTime,
    /// Lines by machine.
    pub hosts: Top<Amount>,
    /// Lines by kind.
    pub kinds: Top<Kinds>,
    /// Decisions by tool.
    pub tools: Top<Decisions>,
    /// The policies that decided.
    pub policies: Top<Deciding>,
    /// The paths of calls that were denied.
    pub denied_paths: Top<Denied>,
    /// What a person was asked about.
    pub asked: Top<Denied>,
    /// How many values were taken out.
    pub taken_out: u64,
    /// What was taken out, by rule.
    pub redactions: Top<Amount>,
    /// What was broken, by class.
    pub faults: Top<Amount>,
    /// How long an answer took.
    pub latency: Option<Latency>,
    /// The policies in force that never decided.
    pub never_matched: NeverMatched,
    /// What policies that are only monitored would have decided.
    pub monitored: Top<Deciding>,
    /// The exceptions that were used.
    pub exceptions: Top<Excepted>,
    /// The exceptions in force that were not used.
    pub unused_exceptions: Unused,
    /// Results, and whether their calls had been judged.
    pub results: Results,
    /// Sessions whose guard was off or changed.
    pub marked: Marked,
    /// The digests of the policies that were in force, by lines.
    pub policy_digests: Top<Amount>,
    /// The versions of this program, by lines.
    pub engine_versions: Top<Amount>,
    /// What the record says of itself.
    pub record: Gaps,
}

/// The period.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Period {
    /// Not before, if that was asked.
    pub since: Option<String>,
    /// Before, if that was asked.
    pub until: Option<String>,
    /// When the first line was written.
    pub first: Option<String>,
    /// When the last line was written.
    pub last: Option<String>,
}

/// How often each decision was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Decisions {
    /// The call may go on.
    pub allow: u64,
    /// A person had to say yes first.
    pub ask: u64,
    /// The call must not happen.
    pub deny: u64,
}

impl Decisions {
    /// All of them.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.allow + self.ask + self.deny
    }

    pub(super) const fn add(&mut self, effect: Effect) {
        match effect {
            Effect::Allow => self.allow += 1,
            Effect::Ask => self.ask += 1,
            Effect::Deny => self.deny += 1,
        }
    }

    pub(super) const fn merge(&mut self, other: Self) {
        self.allow += other.allow;
        self.ask += other.ask;
        self.deny += other.deny;
    }
}

impl Weight for Decisions {
    fn weight(&self) -> u64 {
        self.total()
    }
}

/// Lines of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// How many.
    pub lines: u64,
    /// What they say was decided; nothing for what the record says of itself.
    #[serde(flatten)]
    pub decisions: Decisions,
}

impl Weight for Kinds {
    fn weight(&self) -> u64 {
        self.lines
    }
}

/// The most frequent of something.
#[derive(Debug, Clone, Serialize)]
pub struct Top<V> {
    /// The most frequent first.
    pub rows: Vec<Row<V>>,
    /// How many different ones there are; at least so many where `missed` is not 0.
    pub names: u64,
    /// By how much a count may be too low, because there were too many to keep.
    pub missed: u64,
}

impl<V> Top<V> {
    /// How many there are that no row shows.
    #[must_use]
    pub const fn others(&self) -> u64 {
        self.names.saturating_sub(self.rows.len() as u64)
    }
}

/// One of them.
#[derive(Debug, Clone, Serialize)]
pub struct Row<V> {
    /// Its name, as the record has it.
    pub name: String,
    /// What was counted.
    #[serde(flatten)]
    pub value: V,
}

/// How many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// How many.
    pub count: u64,
}

impl Weight for Amount {
    fn weight(&self) -> u64 {
        self.count
    }
}

/// What was denied or asked, and by what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Denied {
    /// How often.
    pub count: u64,
    /// The first policy that the last such line names.
    pub policy: String,
}

impl Weight for Denied {
    fn weight(&self) -> u64 {
        self.count
    }
}

/// A policy that decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Deciding {
    /// The decisions of the lines that name it.
    #[serde(flatten)]
    pub decisions: Decisions,
    /// The file that it stood in last, or empty.
    pub file: String,
    /// Its line there, or 0.
    pub line: u32,
}

impl Weight for Deciding {
    fn weight(&self) -> u64 {
        self.decisions.total()
    }
}

/// Decisions and latency over time, in steps of equal length without a gap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OverTime {
    /// The length of a step, in hours.
    pub hours: i64,
    /// The steps, the oldest first.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Step {
    /// When it begins, RFC 3339, UTC.
    pub start: String,
    /// What was decided.
    #[serde(flatten)]
    pub decisions: Decisions,
    /// How long an answer took.
    pub latency: Option<Latency>,
}

/// How long answers took, in microseconds from the start of the process to the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half of them were not slower.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p99_9: u64,
    /// The slowest.
    pub max: u64,
}

impl Latency {
    /// Each with its name.
    #[must_use]
    pub const fn each(self) -> [(&'static str, u64); 5] {
        [
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p99_9),
            ("max", self.max),
        ]
    }
}

/// The policies in force that never decided in the period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "policies")]
pub enum NeverMatched {
    /// Nobody named the policies.
    NotGiven,
    /// They cannot be loaded.
    Broken,
    /// The policies are known.
    Known {
        /// How many there are.
        in_force: u64,
        /// Those that no line names.
        unmatched: Vec<Unmatched>,
    },
}

/// A policy in force that no line names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// Its id with its layer.
    pub id: String,
    /// Its file.
    pub file: String,
    /// Its line there.
    pub line: u32,
    /// What it says when it holds.
    pub verdict: Effect,
    /// It only watches: no line names such a policy.
    pub monitor: bool,
}

/// An exception that was used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Excepted {
    /// How many calls it let through, or made less strict.
    pub count: u64,
    /// Who answers for it, as the last such line says.
    pub owner: String,
    /// From when on it means nothing, likewise.
    pub expires: String,
    /// When the last such line was written.
    pub last: String,
    /// The policies that it left out, in the last such line.
    pub policies: Vec<String>,
}

impl Weight for Excepted {
    fn weight(&self) -> u64 {
        self.count
    }
}

/// The exceptions of the policies in force that no line names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "policies")]
pub enum Unused {
    /// Nobody named the policies.
    NotGiven,
    /// They cannot be loaded.
    Broken,
    /// The policies are known.
    Known {
        /// How many exceptions they have.
        in_force: u64,
        /// Those that no line names.
        unused: Vec<UnusedException>,
    },
}

/// An exception that no line names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusedException {
    /// Its id with its layer.
    pub id: String,
    /// Its file.
    pub file: String,
    /// Its line there.
    pub line: u32,
    /// Who answers for it.
    pub owner: String,
    /// From when on it means nothing, RFC 3339, UTC.
    pub expires: String,
}

/// Results, by whether their calls were judged.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// All of them.
    pub total: u64,
    /// Of calls that nobody had judged.
    pub unjudged: u64,
    /// Of calls that had been denied.
    pub denied: u64,
    /// Whose call may stand before what was read.
    pub unknown: u64,
    /// The unjudged ones by tool.
    pub tools: Top<Amount>,
}

/// Sessions with a sign that the guard was off or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Marked {
    /// How many.
    pub sessions: u64,
    /// What was found in all of them.
    pub signs: Signs,
    /// How many sessions have each sign.
    pub with: Signs,
    /// The ones with the most serious signs.
    pub rows: Vec<Session>,
}

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Session {
    /// Its id, as the record has it.
    pub id: String,
    /// The machine.
    pub host: String,
    /// When its first line in the period was written.
    pub first: String,
    /// When its last one was.
    pub last: String,
    /// How many lines it has there.
    pub lines: u64,
    /// What was found.
    pub signs: Signs,
}

/// How often each sign was found that a guard was off or changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Signs {
    /// Results of calls that nobody had judged.
    pub unjudged: u64,
    /// Results of calls that had been denied.
    pub denied: u64,
    /// Calls that went on only because a policy was only monitored.
    pub monitored: u64,
    /// Denials that could not bind the host.
    pub unbound: u64,
    /// Times that the policies could not be used.
    pub policy_errors: u64,
    /// Changes of the policies.
    pub policy_changes: u64,
    /// Changes of this program's version.
    pub engine_changes: u64,
}

impl Signs {
    /// Each of them, the most serious first.
    #[must_use]
    pub const fn each(self) -> [u64; 7] {
        [
            self.unjudged,
            self.denied,
            self.policy_errors,
            self.unbound,
            self.monitored,
            self.policy_changes,
            self.engine_changes,
        ]
    }

    pub(super) fn any(self) -> bool {
        self.each().into_iter().any(|count| count > 0)
    }

    pub(super) const fn merge(&mut self, other: Self) {
        self.unjudged += other.unjudged;
        self.denied += other.denied;
        self.monitored += other.monitored;
        self.unbound += other.unbound;
        self.policy_errors += other.policy_errors;
        self.policy_changes += other.policy_changes;
        self.engine_changes += other.engine_changes;
    }

    /// 1 for each sign that was found.
    pub(super) const fn found(self) -> Self {
        const fn one(count: u64) -> u64 {
            if count > 0 { 1 } else { 0 }
        }
        Self {
            unjudged: one(self.unjudged),
            denied: one(self.denied),
            monitored: one(self.monitored),
            unbound: one(self.unbound),
            policy_errors: one(self.policy_errors),
            policy_changes: one(self.policy_changes),
            engine_changes: one(self.engine_changes),
        }
    }
}

/// What the record says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// Denials that went out before their line.
    pub superseded: u64,
    /// Torn lines that were found and ended.
    pub recovered: u64,
    /// How often lines that were written were gone.
    pub lost: u64,
    /// Lines that cannot be read.
    pub unreadable: u64,
    /// Lines that something was left out of.
    pub truncated: u64,
    /// Bundles of policies that could not be had, or were refused.
    pub refused_bundles: u64,
}
