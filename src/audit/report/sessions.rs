//! What is known of each session while its lines go by: whether results were judged, and what changed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use jiff::Timestamp;

use super::numbers::{Marked, Session, Signs};
use crate::audit::line::{Line, Text};
use crate::audit::record::v1::Kind;
use crate::engine::decision::Effect;

/// So many sessions are followed at a time, or twice as many. Of one that is silent while that many
/// others speak, and then goes on, results without a judgement are no longer told.
const FOLLOWED: usize = 4096;

/// So many of those that were let go are remembered. One that goes on after that is taken for another.
const GONE: usize = 1 << 17;

/// So many calls of a session are kept that have no result yet.
const OPEN: usize = 64;

/// So many marked sessions are kept, or twice as many; the others are counted.
const MARKED: usize = 500;

/// So many of them are told.
const TOLD: usize = 50;

/// A call that stands before what was read is not looked for longer, in seconds.
const EARLIER: i64 = 24 * 3600;

/// Whether a result's call had been judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// It had.
    Yes,
    /// It had been denied.
    Denied,
    /// It had not.
    No,
    /// Its judgement may stand before what was read.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    id: Option<u64>,
    tool: u64,
    denied: bool,
}

#[derive(Debug, Default)]
struct Followed {
    session: Session,
    /// Its first line was read, wherever the period begins.
    begun: bool,
    /// It was let go, and went on.
    returned: bool,
    open: VecDeque<Call>,
    forgot: bool,
    digest: Option<u64>,
    engine: Option<u64>,
    touched: u64,
}

/// The sessions of a record.
#[derive(Debug)]
pub(super) struct Sessions {
    hasher: RandomState,
    followed: HashMap<u64, Followed>,
    gone: HashSet<u64>,
    lines: u64,
    seen: u64,
    /// When what was read begins, unless that is the first line of all.
    from: Option<Timestamp>,
    marked: Marked,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            followed: HashMap::new(),
            gone: HashSet::new(),
            lines: 0,
            seen: 0,
            from: None,
            marked: Marked::default(),
        }
    }

    /// Takes a line in; `counted` if it is of the period. Says of a result whether it was judged.
    pub(super) fn add(&mut self, line: &Line<'_>, at: Timestamp, counted: bool) -> Option<Judged> {
        self.lines += 1;
        if self.lines == 1 && line.seq != 1 {
            self.from = Some(at);
        }
        // An event that cannot be read does not say whose it is.
        let kind = line.kind().filter(|kind| *kind != Kind::Fault)?;
        if !line.is_event() {
            return None;
        }
        let key = self.hasher.hash_one((&line.host, &line.session));
        if !self.followed.contains_key(&key) {
            self.make_room();
        }
        let earlier = self
            .from
            .is_some_and(|from| at.as_second() < from.as_second().saturating_add(EARLIER));
        let hasher = &self.hasher;
        let one = self.followed.entry(key).or_insert_with(|| Followed {
            returned: self.gone.contains(&key),
            ..Followed::default()
        });
        one.touched = self.lines;
        let judged = match kind {
            Kind::ToolUse => {
                one.open(line, hasher);
                None
            }
            Kind::Result => Some(one.judged(line, hasher, earlier)),
            Kind::Session if line.event.plain() == Some("session_start") => {
                one.begun = true;
                None
            }
            _ => None,
        };
        let before = one.session.signs;
        one.notice(line, hasher);
        if !counted {
            one.session.signs = before;
            return judged;
        }
        one.count(line, judged);
        if one.session.lines == 1 && !one.returned {
            self.seen += 1;
        }
        judged
    }

    /// How many sessions there were, and the ones with a sign.
    pub(super) fn finish(mut self) -> (u64, Marked) {
        let all: Vec<Followed> = self.followed.drain().map(|(_, one)| one).collect();
        for one in all {
            mark(&mut self.marked, one.session);
        }
        sort(&mut self.marked.rows);
        self.marked.rows.truncate(TOLD);
        (self.seen, self.marked)
    }

    /// Lets go of the sessions that were silent longest.
    fn make_room(&mut self) {
        if self.followed.len() < FOLLOWED * 2 {
            return;
        }
        let mut touched: Vec<u64> = self.followed.values().map(|one| one.touched).collect();
        let (_, bar, _) = touched.select_nth_unstable(FOLLOWED);
        let bar = *bar;
        let (marked, gone) = (&mut self.marked, &mut self.gone);
        if gone.len() >= GONE {
            gone.clear();
        }
        self.followed.retain(|key, one| {
            let stays = one.touched >= bar;
            if !stays {
                // One of which only what stands before the period was read does not count yet.
                if one.session.lines > 0 || one.returned {
                    gone.insert(*key);
                }
                mark(marked, std::mem::take(&mut one.session));
            }
            stays
        });
    }
}

fn mark(marked: &mut Marked, session: Session) {
    if !session.signs.any() {
        return;
    }
    marked.sessions += 1;
    marked.signs.merge(session.signs);
    marked.with.merge(session.signs.found());
    marked.rows.push(session);
    if marked.rows.len() >= MARKED * 2 {
        sort(&mut marked.rows);
        marked.rows.truncate(MARKED);
    }
}

/// The most serious signs first, then the newest.
fn sort(rows: &mut [Session]) {
    let rank = |one: &Session| one.signs.found().each();
    rows.sort_by(|a, b| {
        rank(b)
            .cmp(&rank(a))
            .then_with(|| b.last.cmp(&a.last))
            .then_with(|| a.id.cmp(&b.id))
    });
}

impl Followed {
    fn open(&mut self, line: &Line<'_>, hasher: &RandomState) {
        if self.open.len() >= OPEN {
            self.open.pop_front();
            self.forgot = true;
        }
        self.open.push_back(Call {
            id: id(&line.call, hasher),
            tool: hasher.hash_one(&line.tool),
            denied: line.decision == Effect::Deny,
        });
    }

    /// Finds the call of a result: by its id, or where a host gives none, the first of that tool.
    fn judged(&mut self, line: &Line<'_>, hasher: &RandomState, earlier: bool) -> Judged {
        let (call, tool) = (id(&line.call, hasher), hasher.hash_one(&line.tool));
        let fits = |one: &Call| match (one.id, call) {
            (Some(one), Some(call)) => one == call,
            _ => one.tool == tool,
        };
        let granted = |one: &Call| !one.denied && fits(one);
        let found = self
            .open
            .iter()
            .position(granted)
            .or_else(|| self.open.iter().position(fits));
        match found.and_then(|index| self.open.remove(index)) {
            Some(call) if call.denied => Judged::Denied,
            Some(_) => Judged::Yes,
            None if self.forgot || self.returned || (earlier && !self.begun) => Judged::Unknown,
            None => Judged::No,
        }
    }

    /// Sees what changed since the session's line before.
    fn notice(&mut self, line: &Line<'_>, hasher: &RandomState) {
        let signs = &mut self.session.signs;
        for (text, kept, changes) in [
            (
                &line.policy_digest,
                &mut self.digest,
                &mut signs.policy_changes,
            ),
            (
                &line.engine_version,
                &mut self.engine,
                &mut signs.engine_changes,
            ),
        ] {
            if text.is_empty() {
                continue;
            }
            let now = hasher.hash_one(text);
            if kept.replace(now).is_some_and(|before| before != now) {
                *changes += 1;
            }
        }
    }

    fn count(&mut self, line: &Line<'_>, judged: Option<Judged>) {
        let session = &mut self.session;
        if session.lines == 0 {
            session.id = line.session.shown().into_owned();
            session.host = line.host.shown().into_owned();
            session.first = line.ts.shown().into_owned();
        }
        session.lines += 1;
        session.last.clear();
        session.last.push_str(&line.ts.shown());
        let unbound = line
            .detail
            .as_ref()
            .is_some_and(|detail| detail.host_cannot_block);
        let signs = &mut session.signs;
        signs.merge(Signs {
            unjudged: u64::from(judged == Some(Judged::No)),
            denied: u64::from(judged == Some(Judged::Denied)),
            monitored: u64::from(only_monitored(line)),
            unbound: u64::from(unbound),
            policy_errors: u64::from(line.error_class.plain() == Some("policy_error")),
            ..Signs::default()
        });
    }
}

/// Whether it went on because a policy was only monitored, and not because of an exception.
fn only_monitored(line: &Line<'_>) -> bool {
    let excepted = line.exceptions().next().is_some() && line.monitored().next().is_none();
    line.would_decide > line.decision && !excepted
}

fn id(call: &Text<'_>, hasher: &RandomState) -> Option<u64> {
    (!call.is_empty()).then(|| hasher.hash_one(call))
}
