//! A period of the record in numbers: one pass over the lines, and no more memory for a year than for a
//! day.
//!
//! What could grow without end is bounded. Of names the most frequent are kept (see [`Top::missed`]), of
//! sessions the 4,096 that spoke last, of times no more than 1,000 steps.

pub mod html;
pub mod markdown;
pub mod numbers;
mod sessions;
mod tally;
#[cfg(test)]
mod tests;
pub mod text;
mod timeline;
mod words;

use std::io::{self, Read};

use jiff::{SignedDuration, Timestamp};

use super::line::{Exception, Line, Reason};
use super::lines::Lines;
use super::record::v1::Kind;
use crate::engine::bundle::{Bundle, Policy};
use crate::engine::decision::Effect;

use numbers::{
    Amount, Deciding, Decisions, Denied, Excepted, Gaps, Kinds, NeverMatched, Period, Report,
    Results, Row, Top, Unmatched, Unused, UnusedException,
};
use sessions::{Judged, Sessions};
use tally::{Tally, Weight};
use timeline::{Latencies, Timeline};

/// So many names of a small set are kept.
const FEW: usize = 1024;

/// So many paths, requests and policies are kept.
const MANY: usize = 8192;

/// So many rows are told.
const ROWS: usize = 20;

/// Which policies are in force, for those that never decided.
#[derive(Debug)]
pub enum Known<'a> {
    /// These.
    Policies(&'a Bundle),
    /// Nobody named them.
    NotGiven,
    /// They cannot be loaded.
    Broken,
}

/// Takes the lines of a record in, and counts those of a period.
#[derive(Debug)]
pub struct Collector {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    never: NeverMatched,
    bytes: u64,
    period: Period,
    lines: u64,
    events: u64,
    decisions: Decisions,
    timeline: Timeline,
    latencies: Latencies,
    hosts: Tally<Amount>,
    kinds: Tally<Kinds>,
    tools: Tally<Decisions>,
    policies: Tally<Deciding>,
    monitored: Tally<Deciding>,
    exceptions: Tally<Excepted>,
    unused: Unused,
    denied_paths: Tally<Denied>,
    asked: Tally<Denied>,
    taken_out: u64,
    redactions: Tally<Amount>,
    faults: Tally<Amount>,
    unjudged: Tally<Amount>,
    digests: Tally<Amount>,
    versions: Tally<Amount>,
    results: (u64, u64, u64, u64),
    sessions: Sessions,
    record: Gaps,
}

impl Collector {
    /// For the lines from `since` on and before `until`.
    #[must_use]
    pub fn new(since: Option<Timestamp>, until: Option<Timestamp>, known: &Known<'_>) -> Self {
        Self {
            since,
            until,
            never: match known {
                Known::NotGiven => NeverMatched::NotGiven,
                Known::Broken => NeverMatched::Broken,
                Known::Policies(bundle) => NeverMatched::Known {
                    in_force: bundle.policies.len() as u64,
                    unmatched: bundle.policies.iter().map(unmatched).collect(),
                },
            },
            unused: match known {
                Known::NotGiven => Unused::NotGiven,
                Known::Broken => Unused::Broken,
                Known::Policies(bundle) => unused(bundle),
            },
            bytes: 0,
            period: Period {
                since: since.map(|time| time.to_string()),
                until: until.map(|time| time.to_string()),
                ..Period::default()
            },
            lines: 0,
            events: 0,
            decisions: Decisions::default(),
            timeline: Timeline::new(),
            latencies: Latencies::new(3),
            hosts: Tally::keeping(FEW),
            kinds: Tally::keeping(FEW),
            tools: Tally::keeping(FEW),
            policies: Tally::keeping(MANY),
            monitored: Tally::keeping(MANY),
            exceptions: Tally::keeping(MANY),
            denied_paths: Tally::keeping(MANY),
            asked: Tally::keeping(MANY),
            taken_out: 0,
            redactions: Tally::keeping(FEW),
            faults: Tally::keeping(FEW),
            unjudged: Tally::keeping(FEW),
            digests: Tally::keeping(FEW),
            versions: Tally::keeping(FEW),
            results: (0, 0, 0, 0),
            sessions: Sessions::new(),
            record: Gaps::default(),
        }
    }

    /// From when on lines are wanted: a day before the period, because a result may stand in it whose
    /// judgement does not.
    #[must_use]
    pub fn wants_since(&self) -> Option<Timestamp> {
        let day = SignedDuration::from_hours(24);
        self.since
            .map(|since| since.checked_sub(day).unwrap_or(Timestamp::MIN))
    }

    /// Reads the next file of the record; `read` is told how many bytes were read of all files.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn file(&mut self, reader: impl Read, read: &mut dyn FnMut(u64)) -> io::Result<()> {
        let mut lines = Lines::new(reader);
        while let Some(line) = lines.line()? {
            self.bytes += line.length + 1;
            // A line without its end is one that is being written, or never will be.
            if line.ended && !line.is_too_long() {
                self.line(line.bytes);
            } else if line.ended {
                self.record.unreadable += 1;
            }
            read(self.bytes);
        }
        Ok(())
    }

    /// What the lines amount to.
    #[must_use]
    pub fn finish(self) -> Report {
        let (sessions, marked) = self.sessions.finish();
        let (total, unjudged, denied, unknown) = self.results;
        Report {
            version: 1,
            period: self.period,
            lines: self.lines,
            events: self.events,
            sessions,
            decisions: self.decisions,
            over_time: self.timeline.finish(),
            hosts: top(self.hosts),
            kinds: top(self.kinds),
            tools: top(self.tools),
            policies: top(self.policies),
            denied_paths: top(self.denied_paths),
            asked: top(self.asked),
            taken_out: self.taken_out,
            redactions: top(self.redactions),
            faults: top(self.faults),
            latency: self.latencies.percentiles(),
            never_matched: self.never,
            monitored: top(self.monitored),
            exceptions: top(self.exceptions),
            unused_exceptions: self.unused,
            results: Results {
                total,
                unjudged,
                denied,
                unknown,
                tools: top(self.unjudged),
            },
            marked,
            policy_digests: top(self.digests),
            engine_versions: top(self.versions),
            record: self.record,
        }
    }

    fn line(&mut self, bytes: &[u8]) {
        let read = serde_json::from_slice::<Line<'_>>(bytes).ok();
        let timed = read.and_then(|line| {
            let at = line.ts.plain()?.parse::<Timestamp>().ok()?;
            Some((line, at))
        });
        // Of a line that cannot be read nobody knows when it was written.
        let Some((line, at)) = timed else {
            self.record.unreadable += 1;
            return;
        };
        let counted =
            self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until);
        let judged = self.sessions.add(&line, at, counted);
        if counted {
            self.count(&line, at, judged);
        }
    }

    fn count(&mut self, line: &Line<'_>, at: Timestamp, judged: Option<Judged>) {
        self.lines += 1;
        let ts = line.ts.shown();
        if self.period.first.is_none() {
            self.period.first = Some(ts.clone().into_owned());
        }
        let last = self.period.last.get_or_insert_default();
        last.clear();
        last.push_str(&ts);
        self.kinds.add(&line.kind.shown(), |kind| {
            kind.lines += 1;
            // What the record says of itself is no answer to anybody.
            if line.is_event() {
                kind.decisions.add(line.decision);
            }
        });
        self.hosts.add(&line.host.shown(), |host| host.count += 1);
        self.record.truncated += u64::from(line.truncated);
        match line.kind() {
            Some(Kind::Superseded) => self.record.superseded += 1,
            Some(Kind::Recovered) => self.record.recovered += 1,
            Some(Kind::Lost) => self.record.lost += 1,
            Some(Kind::Policy) if line.event.plain() == Some("bundle_refused") => {
                self.record.refused_bundles += 1;
            }
            _ => {}
        }
        if line.is_event() {
            self.event(line, at, judged);
        }
    }

    fn event(&mut self, line: &Line<'_>, at: Timestamp, judged: Option<Judged>) {
        self.events += 1;
        self.decisions.add(line.decision);
        self.timeline.add(at, line.decision, line.latency_us);
        self.latencies.add(line.latency_us);
        for (text, tally) in [
            (&line.error_class, &mut self.faults),
            (&line.policy_digest, &mut self.digests),
            (&line.engine_version, &mut self.versions),
        ] {
            if !text.is_empty() {
                tally.add(&text.shown(), |amount| amount.count += 1);
            }
        }
        if !line.tool.is_empty() {
            let tool = line.tool.shown();
            self.tools.add(&tool, |tool| tool.add(line.decision));
        }
        for reason in &line.reasons {
            self.reason(reason, line.decision);
        }
        for reason in line.monitored() {
            self.monitored(reason, line.would_decide);
        }
        for exception in line.exceptions() {
            self.exception(exception, &line.ts.shown());
        }
        for redaction in &line.redactions {
            let rule = redaction.rule.shown();
            self.taken_out = self.taken_out.saturating_add(redaction.count);
            self.redactions.add(&rule, |amount| {
                amount.count = amount.count.saturating_add(redaction.count)
            });
        }
        let policy = || {
            let first = line.reasons.first();
            first
                .map(|reason| reason.id.shown().into_owned())
                .unwrap_or_default()
        };
        let denied = |row: &mut Denied| {
            row.count += 1;
            row.policy = policy();
        };
        match line.decision {
            Effect::Allow => {}
            Effect::Ask => {
                if let Some(asked) = line.asked() {
                    self.asked.add(&asked, denied);
                }
            }
            Effect::Deny => {
                for path in line.paths() {
                    self.denied_paths.add(&path, denied);
                }
            }
        }
        if let Some(judged) = judged {
            self.result(line, judged);
        }
    }

    fn reason(&mut self, reason: &Reason<'_>, effect: Effect) {
        let id = reason.id.shown();
        let mut new = false;
        self.policies.add(&id, |policy| {
            new = policy.decisions.total() == 0;
            policy.decisions.add(effect);
            policy.line = reason.line;
            let file = reason.file.shown();
            if policy.file != file {
                policy.file = file.into_owned();
            }
        });
        if new {
            self.matched(&id);
        }
    }

    /// Takes a policy out of those that never matched.
    fn matched(&mut self, id: &str) {
        if let NeverMatched::Known { unmatched, .. } = &mut self.never {
            // By name: the same policy had another layer before `init` copied it.
            unmatched.retain(|policy| name(&policy.id) != name(id));
        }
    }

    fn monitored(&mut self, reason: &Reason<'_>, would: Effect) {
        let id = reason.id.shown();
        let mut new = false;
        self.monitored.add(&id, |policy| {
            new = policy.decisions.total() == 0;
            policy.decisions.add(would);
            policy.line = reason.line;
            policy.file = reason.file.shown().into_owned();
        });
        if new {
            self.matched(&id);
        }
    }

    fn exception(&mut self, exception: &Exception<'_>, ts: &str) {
        let id = exception.id.shown();
        for policy in &exception.policies {
            self.matched(&policy.shown());
        }
        let policies = exception.policies.iter();
        let policies = policies.map(|policy| policy.shown().into_owned()).collect();
        self.exceptions.add(&id, |row| {
            row.count += 1;
            row.owner = exception.owner.shown().into_owned();
            row.expires = exception.expires.shown().into_owned();
            row.last = ts.to_owned();
            row.policies = policies;
        });
        if let Unused::Known { unused, .. } = &mut self.unused {
            unused.retain(|known| known.id != id);
        }
    }

    fn result(&mut self, line: &Line<'_>, judged: Judged) {
        let (total, unjudged, denied, unknown) = &mut self.results;
        *total += 1;
        match judged {
            Judged::Yes => {}
            Judged::Denied => *denied += 1,
            Judged::Unknown => *unknown += 1,
            Judged::No => {
                *unjudged += 1;
                self.unjudged
                    .add(&line.tool.shown(), |amount| amount.count += 1);
            }
        }
    }
}

/// A policy's name without its layer.
fn name(id: &str) -> &str {
    id.split_once(':').map_or(id, |(_, name)| name)
}

fn unmatched(policy: &Policy) -> Unmatched {
    Unmatched {
        id: policy.id.clone(),
        file: policy.file.clone(),
        line: policy.line,
        verdict: policy.verdict.effect(),
        monitor: policy.monitor,
    }
}

fn unused(bundle: &Bundle) -> Unused {
    let exceptions = &bundle.settings.exceptions;
    let time = |seconds| Timestamp::from_second(seconds).map(|time| time.to_string());
    Unused::Known {
        in_force: exceptions.len() as u64,
        unused: exceptions
            .iter()
            .map(|one| UnusedException {
                id: one.id.clone(),
                file: one.file.clone(),
                line: one.line,
                owner: one.owner.clone(),
                expires: time(one.expires).unwrap_or_default(),
            })
            .collect(),
    }
}

fn top<V: Weight + Default>(tally: Tally<V>) -> Top<V> {
    let (names, missed) = (tally.names(), tally.missed());
    let rows = tally.ranked().into_iter().take(ROWS);
    Top {
        rows: rows.map(|(name, value)| Row { name, value }).collect(),
        names,
        missed,
    }
}
