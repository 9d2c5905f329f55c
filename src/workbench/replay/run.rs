//! A whole record judged again: in constant memory, by several threads, and the same each time.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use jiff::Timestamp;
use serde::Serialize;

use super::{Change, Found, Gone, Memory, Recorded, Replay, Unjudged};
use crate::audit::lines::Lines;
use crate::audit::query::Filter;
use crate::audit::read;
use crate::engine::decision::Effect;

/// So many bytes of lines are handed to a thread at once.
const BLOCK: usize = 256 << 10;

/// More groups of changes than this are put together as one.
const GROUPS: usize = 4096;

/// Threads beyond these wait for the one that reads.
const THREADS: usize = 8;

/// What a replay found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The lines in the range.
    pub lines: u64,
    /// Those whose answer stays: allow, ask, deny.
    pub same: BTreeMap<Effect, u64>,
    /// Those whose answer would be another one.
    pub changes: BTreeMap<Kind, Group>,
    /// Those where a fault denied, by its class.
    pub faults: BTreeMap<String, u64>,
    /// Those about the record itself.
    pub no_requests: u64,
    /// Those that were not judged.
    pub not_judged: BTreeMap<Unjudged, u64>,
    /// Of so many, the facts of that table are as they were recorded.
    pub as_recorded: BTreeMap<&'static str, u64>,
    /// Of so many, the policies of the time are not known.
    pub unknown_past: BTreeMap<Gone, u64>,
    /// So many were judged by further layers besides the base.
    pub other_layers: u64,
}

/// Changes of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// What was answered.
    pub from: Effect,
    /// What would be.
    pub to: Effect,
    /// The policies that make it so: those that would decide, or where more is let through, those
    /// that decided then.
    pub policies: Vec<String>,
}

/// What changes in one way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// How many lines.
    pub lines: u64,
    /// The first ones.
    pub samples: Vec<Changed>,
}

/// A line whose answer would be another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The file of the record.
    pub file: String,
    /// The line in that file, from 1.
    pub line: u64,
    /// Its number in the record.
    pub seq: u64,
    /// When it was written.
    pub ts: String,
    /// The session, as far as it is shown.
    pub session: String,
    /// The tool, as far as it is shown.
    pub tool: String,
    /// What was asked, in words.
    pub asked: String,
    /// What was answered.
    pub from: Effect,
    /// What would be.
    pub to: Effect,
    /// The policies that decided then.
    pub because_of: Vec<String>,
    /// The policies that would decide.
    pub by: Vec<String>,
}

/// Which changes count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Only {
    /// All of them.
    #[default]
    All,
    /// Those that let more through.
    Looser,
    /// Those that let less through.
    Stricter,
}

/// What is replayed, and how.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// The files of the record, in their order.
    pub files: Vec<PathBuf>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// So many samples of each kind of change.
    pub samples: usize,
    /// Which changes count.
    pub only: Only,
}

impl Kind {
    fn of(changed: &Changed) -> Self {
        let policies = match changed.to < changed.from {
            true => &changed.because_of,
            false => &changed.by,
        };
        let mut policies = policies.clone();
        policies.sort();
        policies.dedup();
        Self {
            from: changed.from,
            to: changed.to,
            policies,
        }
    }

    /// Whether more is let through.
    #[must_use]
    pub fn is_looser(&self) -> bool {
        self.to < self.from
    }
}

impl Summary {
    /// The lines that were judged.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.same.values().sum::<u64>() + self.changed()
    }

    /// The lines whose answer would be another one.
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.changes.values().map(|group| group.lines).sum()
    }

    /// The lines of which more would be let through.
    #[must_use]
    pub fn looser(&self) -> u64 {
        let changes = self.changes.iter().filter(|(kind, _)| kind.is_looser());
        changes.map(|(_, group)| group.lines).sum()
    }

    fn add(&mut self, other: Self, samples: usize, each: &mut Each<'_>) -> io::Result<()> {
        self.lines += other.lines;
        self.no_requests += other.no_requests;
        self.other_layers += other.other_layers;
        add_all(&mut self.same, other.same);
        add_all(&mut self.faults, other.faults);
        add_all(&mut self.not_judged, other.not_judged);
        add_all(&mut self.as_recorded, other.as_recorded);
        add_all(&mut self.unknown_past, other.unknown_past);
        let mut changed: Vec<(Kind, Changed)> = Vec::new();
        for (kind, group) in other.changes {
            let of = |line: Changed| (kind.clone(), line);
            changed.extend(group.samples.into_iter().map(of));
        }
        changed.sort_by_key(|(_, line)| line.line);
        for (mut kind, line) in changed {
            each(&line)?;
            if self.changes.len() >= GROUPS && !self.changes.contains_key(&kind) {
                kind.policies = vec!["others".to_owned()];
            }
            let group = self.changes.entry(kind).or_default();
            group.lines += 1;
            if group.samples.len() < samples {
                group.samples.push(line);
            }
        }
        Ok(())
    }
}

fn add_all<K: Ord>(to: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
    for (key, lines) in from {
        *to.entry(key).or_default() += lines;
    }
}

/// What is told of each line that changes, in the order of the record.
pub type Each<'e> = dyn FnMut(&Changed) -> io::Result<()> + 'e;

/// Some lines of one file.
struct Block {
    number: usize,
    file: usize,
    /// The number of the first line.
    first: u64,
    bytes: Vec<u8>,
}

/// What is found in a block: every changed line is among the samples.
struct Part {
    number: usize,
    found: Summary,
    bytes: usize,
}

impl Run {
    /// Judges the record again. `each` is told every line that changes, `progress` how many bytes
    /// are done.
    ///
    /// # Errors
    /// If a file cannot be read, or `each` fails.
    pub fn replay(
        &self,
        replay: &Replay<'_>,
        each: &mut Each<'_>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Summary, Box<dyn std::error::Error>> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.replay_on(threads.min(THREADS), replay, each, progress)
    }

    fn replay_on(
        &self,
        threads: usize,
        replay: &Replay<'_>,
        each: &mut Each<'_>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Summary, Box<dyn std::error::Error>> {
        let (hand_out, blocks) = channel::<Block>();
        let (give_back, parts) = channel::<Part>();
        let blocks = Mutex::new(blocks);
        thread::scope(|scope| {
            for _ in 0..threads {
                let give_back = give_back.clone();
                scope.spawn(|| self.work(replay, &blocks, give_back));
            }
            drop(give_back);
            let mut merger = Merger {
                summary: Summary::default(),
                parts,
                waiting: BTreeMap::new(),
                next: 0,
                bytes: 0,
                samples: self.samples,
                each,
                progress,
            };
            let read = self.read(&hand_out, threads * 3, &mut merger);
            drop(hand_out);
            read.and_then(|handed| {
                while merger.next < handed {
                    merger.take()?;
                }
                Ok(merger.summary)
            })
        })
    }

    /// Hands the record out in blocks. No more than `most` are on their way at once.
    fn read(
        &self,
        hand_out: &Sender<Block>,
        most: usize,
        merger: &mut Merger<'_, '_>,
    ) -> Result<usize, Box<dyn std::error::Error>> {
        let days = Filter {
            since: self.since,
            until: self.until,
            ..Filter::default()
        };
        let mut number = 0;
        for (file, path) in self.files.iter().enumerate() {
            if !days.wants_day(path) {
                continue;
            }
            let failed = |error: io::Error| unreadable(path, &error);
            let mut lines = Lines::new(read::open(path).map_err(failed)?);
            let mut block = Block::new(number, file, 1);
            let mut send = |block: &mut Block, next: u64| -> io::Result<()> {
                number += 1;
                let full = std::mem::replace(block, Block::new(number, file, next));
                while full.number >= merger.next + most {
                    merger.take()?;
                }
                let gone = |_| io::Error::other("a thread of the replay is gone");
                hand_out.send(full).map_err(gone)
            };
            // A line without its end is one that is being written, or never will be.
            while let Some(line) = lines.line().map_err(failed)?.filter(|line| line.ended) {
                if !line.is_too_long() {
                    block.bytes.extend_from_slice(line.bytes);
                }
                block.bytes.push(b'\n');
                let next = line.number + 1;
                if block.bytes.len() >= BLOCK {
                    send(&mut block, next)?;
                }
            }
            if !block.bytes.is_empty() {
                send(&mut block, 0)?;
            }
        }
        Ok(number)
    }

    fn work(&self, replay: &Replay<'_>, blocks: &Mutex<Receiver<Block>>, give_back: Sender<Part>) {
        let mut memory = Memory::default();
        loop {
            let block = {
                let blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
                blocks.recv()
            };
            let Ok(block) = block else { return };
            let part = Part {
                number: block.number,
                bytes: block.bytes.len(),
                found: self.judge(replay, &mut memory, &block),
            };
            if give_back.send(part).is_err() {
                return;
            }
        }
    }

    fn judge(&self, replay: &Replay<'_>, memory: &mut Memory, block: &Block) -> Summary {
        let mut found = Summary::default();
        let bytes = block.bytes.strip_suffix(b"\n").unwrap_or(&block.bytes);
        for (number, line) in (block.first..).zip(bytes.split(|byte| *byte == b'\n')) {
            let Ok(recorded) = serde_json::from_slice::<Recorded<'_>>(line) else {
                found.lines += 1;
                *found.not_judged.entry(Unjudged::Unreadable).or_default() += 1;
                continue;
            };
            if !self.is_timely(&recorded) {
                continue;
            }
            found.lines += 1;
            let verdict = replay.judge_recorded(memory, &recorded);
            for table in verdict.as_recorded {
                *found.as_recorded.entry(table).or_default() += 1;
            }
            if let Some(gone) = verdict.unknown_past {
                *found.unknown_past.entry(gone).or_default() += 1;
            }
            found.other_layers += u64::from(verdict.other_layers);
            match verdict.found {
                Found::Same(effect) => *found.same.entry(effect).or_default() += 1,
                Found::Fault(class) => *found.faults.entry(class).or_default() += 1,
                Found::NoRequests => found.no_requests += 1,
                Found::NotJudged(why) => *found.not_judged.entry(why).or_default() += 1,
                Found::Changed(change) if !self.only.counts(&change) => {
                    *found.same.entry(change.from).or_default() += 1;
                }
                Found::Changed(change) => {
                    let file = self.files.get(block.file);
                    let line = changed(&recorded, change, file, number);
                    let group = found.changes.entry(Kind::of(&line)).or_default();
                    group.lines += 1;
                    group.samples.push(line);
                }
            }
        }
        found
    }

    fn is_timely(&self, recorded: &Recorded<'_>) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        let ts = recorded
            .ts
            .plain()
            .and_then(|ts| ts.parse::<Timestamp>().ok());
        ts.is_some_and(|ts| {
            self.since.is_none_or(|since| ts >= since) && self.until.is_none_or(|until| ts < until)
        })
    }
}

impl Only {
    fn counts(self, change: &Change) -> bool {
        match self {
            Self::All => true,
            Self::Looser => change.is_looser(),
            Self::Stricter => !change.is_looser(),
        }
    }
}

impl Block {
    fn new(number: usize, file: usize, first: u64) -> Self {
        Self {
            number,
            file,
            first,
            bytes: Vec::with_capacity(BLOCK + (16 << 10)),
        }
    }
}

/// Puts together what the threads found, in the order of the record.
struct Merger<'m, 'e> {
    summary: Summary,
    parts: Receiver<Part>,
    waiting: BTreeMap<usize, Part>,
    next: usize,
    bytes: usize,
    samples: usize,
    each: &'m mut Each<'e>,
    progress: &'m mut dyn FnMut(usize),
}

impl Merger<'_, '_> {
    /// Waits for one more part.
    fn take(&mut self) -> io::Result<()> {
        let gone = |_| io::Error::other("a thread of the replay is gone");
        let part = self.parts.recv().map_err(gone)?;
        self.waiting.insert(part.number, part);
        while let Some(part) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.bytes += part.bytes;
            self.summary.add(part.found, self.samples, self.each)?;
            (self.progress)(self.bytes);
        }
        Ok(())
    }
}

fn changed(
    recorded: &Recorded<'_>,
    change: Change,
    file: Option<&PathBuf>,
    number: u64,
) -> Changed {
    Changed {
        file: file.map_or_else(String::new, |file| file.display().to_string()),
        line: number,
        seq: recorded.seq,
        ts: recorded.ts.shown().into_owned(),
        session: recorded.session.shown().into_owned(),
        tool: recorded.tool.shown().into_owned(),
        asked: change.asked,
        from: change.from,
        to: change.to,
        because_of: change.because_of,
        by: change.by,
    }
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    let words = crate::facts::paths::words(error);
    format!("cannot read `{}`: {words}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::policy::{layer, load_sources};
    use serde_json::json;

    fn line(seq: u64, program: &str, decision: &str) -> String {
        json!({
            "v": 1, "seq": seq, "ts": "2026-01-02T03:04:05.000000Z", "kind": "tool_use",
            "event": "pre_tool_use", "dialect": "copilot", "session": format!("s{seq}"),
            "parent": null, "depth": 0, "entity": null, "cwd": "/ws", "tool": "bash",
            "requests": [{
                "action": "shell",
                "resource": {
                    "type": "command", "text": format!("{program} {seq}"), "program": program,
                    "arguments": 1, "certain": true, "code": "", "beside": [], "labels": [],
                },
                "context": {
                    "operation": "", "workspace": "/ws", "depth_limit": 3, "interactive": "unknown",
                    "can_replace_results": true, "patterns": [], "can_replace_prompts": true,
                    "secrets": [], "health": [], "placeholder": false, "phi": false,
                },
            }],
            "decision": decision, "reasons": [{"id": "user:x", "file": "x", "line": 1}],
            "would_decide": decision, "policy_digest": "d", "error_class": null,
        })
        .to_string()
    }

    #[test]
    fn so_many_threads_find_the_same_in_the_same_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for (day, lines) in [(1, 700), (2, 0), (3, 1), (4, 1300)] {
            let path = dir.path().join(format!("audit-2026-01-0{day}.jsonl"));
            let text: String = (0..lines)
                .map(|number| {
                    let decision = ["allow", "ask", "deny"][usize::try_from(number % 3).unwrap()];
                    line(number, &format!("tool{}", number % 7), decision) + "\n"
                })
                .collect();
            // What is too long is no line of a record, and the last one is being written.
            let long = "x".repeat(20_000);
            std::fs::write(&path, format!("{text}{long}\n{{\"v\":1")).unwrap();
            files.push(path);
        }
        let engine = Engine::new(load_sources(&[layer::embedded()]).unwrap());
        let replay = Replay::new(&engine);
        let run = Run {
            files,
            samples: 2,
            ..Run::default()
        };
        let on = |threads| {
            let mut seen = Vec::new();
            let mut done = 0;
            let mut each = |line: &Changed| {
                seen.push((line.file.clone(), line.line, line.from, line.to));
                Ok(())
            };
            let summary = run
                .replay_on(threads, &replay, &mut each, &mut |bytes| done = bytes)
                .unwrap();
            (summary, seen, done)
        };
        let one = on(1);
        assert_eq!(one, on(4));
        let (summary, seen, done) = one;
        assert_eq!(summary.lines, 2001 + 4);
        assert_eq!(summary.same, [(Effect::Ask, 666)].into());
        assert_eq!(summary.not_judged, [(Unjudged::Unreadable, 4)].into());
        assert_eq!(summary.unknown_past, [(Gone::Missing, 2001)].into());
        assert_eq!(summary.changed(), seen.len() as u64);
        assert_eq!(summary.changed() - summary.looser(), 669);
        assert!(seen.is_sorted_by_key(|(file, line, ..)| (file.clone(), *line)));
        assert!(done > 1_000_000, "{done}");
        assert_eq!(seen[0].1, 1);
    }

    #[test]
    fn a_folder_that_is_gone_is_an_error_and_no_end_of_the_record() {
        let engine = Engine::new(load_sources(&[layer::embedded()]).unwrap());
        let run = Run {
            files: vec![PathBuf::from("/nowhere/audit-2026-01-01.jsonl")],
            ..Run::default()
        };
        let error = run
            .replay(&Replay::new(&engine), &mut |_| Ok(()), &mut |_| {})
            .unwrap_err();
        assert!(error.to_string().starts_with("cannot read `/nowhere/"));
    }
}
