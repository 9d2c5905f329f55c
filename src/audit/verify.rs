//! Whether a record is whole: every line has its form, and is the one that the next was chained to.
//!
//! Needs no key and no policies, and no more memory for a year than for a day.

mod chain;
pub mod cover;
pub mod files;
pub mod finding;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, Read};

use data_encoding::HEXLOWER;
use serde::Deserialize;

use super::lines::{Hash, Lines, Raw};
use super::record::fields::{self, Head};
use super::record::v1::{Kind, LINE_LIMIT};
use cover::{Cover, Covered};
use finding::{Finding, Level, Place, What};

/// So many findings are kept; the others are counted.
const FINDINGS: usize = 1000;

/// So many gaps are remembered, for lines that come later.
const GAPS: usize = 64;

/// A clock that differs by more from the one that never jumps was set.
const CLOCK_STEP: i128 = 60_000_000_000;

/// What a record turned out to be.
#[derive(Debug, Default)]
pub struct Report {
    /// What was found, in the order of the lines; not more than a thousand.
    pub findings: Vec<Finding>,
    /// How many problems there are.
    pub problems: u64,
    /// How many warnings there are.
    pub warnings: u64,
    /// How many files were read.
    pub files: usize,
    /// How many lines they have.
    pub lines: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Number and time of the first line in the chain.
    pub first: Option<(u64, String)>,
    /// Number and time of the last line in the chain.
    pub last: Option<(u64, String)>,
    /// How many answers went out before their line was written.
    pub superseded: u64,
    /// What checkpoints cover.
    pub covered: Covered,
}

/// Where a line stands in the chain.
#[derive(Debug, Clone, Copy)]
struct Link {
    seq: u64,
    prev: Hash,
    digest: Hash,
    file: usize,
    line: u64,
}

impl Link {
    fn follows(&self, earlier: &Self) -> bool {
        self.seq == earlier.seq.saturating_add(1) && self.prev == earlier.digest
    }
}

/// What the chain begins with.
const GENESIS: Link = Link {
    seq: 0,
    prev: [0; 32],
    digest: [0; 32],
    file: 0,
    line: 0,
};

/// A line that cannot be read.
#[derive(Debug)]
struct Unread {
    digest: Hash,
    length: u64,
    line: u64,
    why: String,
}

/// What a line of kind `recovered` tells.
#[derive(Deserialize)]
struct Recovered {
    detail: Torn,
}

#[derive(Deserialize)]
struct Torn {
    bytes: u64,
    sha256: String,
}

/// What a line of kind `removed` tells.
#[derive(Deserialize)]
struct Removed {
    detail: Numbers,
}

#[derive(Deserialize)]
struct Numbers {
    last: u64,
}

/// When the line before was written.
#[derive(Debug)]
struct Clock {
    ts: jiff::Timestamp,
    mono: u64,
    boot: String,
}

/// Reads a record, file by file and line by line.
#[derive(Debug)]
pub struct Verifier {
    whole: bool,
    names: Vec<String>,
    day: Option<String>,
    anchor: Link,
    before: Option<Link>,
    /// What was found at the anchor, to be named better by what the next line shows.
    suspicion: Option<usize>,
    stray: Option<Link>,
    unread: Option<Unread>,
    damaged: Option<(Option<usize>, Hash)>,
    gaps: VecDeque<(u64, u64, Option<usize>)>,
    clock: Option<Clock>,
    /// What was found to be missing before the first line.
    beginning: Option<usize>,
    cover: Cover,
    report: Report,
}

impl Verifier {
    /// For the whole of a record, which begins with line 1; or for a part of one.
    #[must_use]
    pub fn new(whole: bool) -> Self {
        Self {
            whole,
            names: Vec::new(),
            day: None,
            anchor: GENESIS,
            before: None,
            suspicion: None,
            stray: None,
            unread: None,
            damaged: None,
            gaps: VecDeque::new(),
            clock: None,
            beginning: None,
            cover: Cover::default(),
            report: Report::default(),
        }
    }

    /// Holds the record against checkpoints too.
    #[must_use]
    pub fn covered_by(self, cover: Cover) -> Self {
        Self { cover, ..self }
    }

    /// Reads the next file of the record. `day` is the day that it is named for; `read` is told how
    /// many bytes were read of all files.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn file(
        &mut self,
        name: &str,
        day: Option<&str>,
        reader: impl Read,
        read: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        self.names.push(name.to_owned());
        self.day = day.map(str::to_owned);
        self.report.files += 1;
        let mut lines = Lines::new(reader);
        while let Some(raw) = lines.line()? {
            self.line(&raw);
            self.report.bytes += raw.length + u64::from(raw.ended);
            if raw.number % 256 == 0 {
                read(self.report.bytes);
            }
        }
        // A writer ends a torn line in the same file, or never.
        self.flush();
        Ok(())
    }

    /// What was found in all files. `open` is whether lines may follow that were not looked at.
    #[must_use]
    pub fn finish(mut self, open: bool) -> Report {
        self.flush();
        let (told, covered) = self.cover.finish(open);
        let last = self.anchor;
        self.tell(told, &last);
        self.report.covered = covered;
        self.report
    }

    fn line(&mut self, raw: &Raw<'_>) {
        self.report.lines += 1;
        let digest = raw.digest();
        if !raw.ended {
            self.flush();
            let text = format!(
                "the last line was cut short after {} bytes: whoever wrote it did not get to its end",
                raw.length
            );
            self.found(What::Torn, raw.number, None, text);
            return;
        }
        let head = if raw.is_too_long() {
            Err(format!("it is longer than {} KiB", LINE_LIMIT >> 10))
        } else {
            fields::head(raw.bytes)
        };
        match head {
            Ok(head) => self.good(raw, digest, &head),
            Err(why) => {
                self.flush();
                self.unread = Some(Unread {
                    digest,
                    length: raw.length,
                    line: raw.number,
                    why,
                });
            }
        }
    }

    fn good(&mut self, raw: &Raw<'_>, digest: Hash, head: &Head<'_>) {
        let link = Link {
            seq: head.seq,
            prev: head.prev,
            digest,
            file: self.here(),
            line: raw.number,
        };
        match head.kind {
            Kind::Recovered => self.recovered(raw, &link),
            Kind::Superseded => self.report.superseded += 1,
            _ => {}
        }
        self.flush();
        if self.chain(link) {
            let ts = self.time(head, raw.number);
            let problems = self.report.problems;
            let told = self
                .cover
                .line((link.seq, &link.digest), (&head.ts, ts), problems);
            self.tell(told, &link);
        }
        if head.kind == Kind::Removed {
            self.removed(raw);
        }
    }

    /// What checkpoints tell of a line.
    fn tell(&mut self, told: Vec<cover::Told>, link: &Link) {
        for (what, place, text) in told {
            let seq = place.is_none().then_some(link.seq);
            let index = self.note(what, link.file, link.line, seq, text);
            if let (Some(place), Some(finding)) = (place, self.finding(index)) {
                finding.place = place;
            }
        }
    }

    /// A writer removed old files: what is missing at the beginning is explained.
    fn removed(&mut self, raw: &Raw<'_>) {
        let Ok(Removed { detail }) = serde_json::from_slice(raw.bytes) else {
            return;
        };
        let first = self.report.first.as_ref().map_or(0, |(seq, _)| *seq);
        if self.beginning.is_some() && detail.last.saturating_add(1) >= first {
            self.withdraw(self.beginning);
            let text = match first.saturating_sub(1) {
                1 => "number 1 was removed for its age, as this line tells".to_owned(),
                last => {
                    format!("numbers 1 to {last} were removed for their age, as this line tells")
                }
            };
            self.found(What::Removed, raw.number, None, text);
        }
    }

    /// A writer found a torn line, ended it and told its length and hash.
    fn recovered(&mut self, raw: &Raw<'_>, link: &Link) {
        let Ok(Recovered { detail: torn }) = serde_json::from_slice(raw.bytes) else {
            let text = "it does not tell which torn line it is about".to_owned();
            self.found(What::Form, raw.number, Some(link.seq), text);
            return;
        };
        let told = |bytes: u64, digest: &Hash| {
            torn.bytes == bytes && torn.sha256 == HEXLOWER.encode(digest)
        };
        let explained =
            |bytes| format!("{bytes} bytes of a line that was cut short, as the next line tells");
        if let Some(unread) = self.unread.take_if(|one| told(one.length, &one.digest)) {
            let text = explained(unread.length);
            self.found(What::Recovered, unread.line, None, text);
            return;
        }
        // A line that lacked nothing but its line feed.
        let anchor = self.anchor;
        if torn.sha256 == HEXLOWER.encode(&anchor.digest) && link.follows(&anchor) {
            let text = "its line feed was missing, as the next line tells".to_owned();
            self.found(What::Recovered, anchor.line, Some(anchor.seq), text);
            return;
        }
        if let Some(before) = self.before
            && torn.sha256 == HEXLOWER.encode(&anchor.digest)
            && link.follows(&before)
        {
            self.found(What::Recovered, anchor.line, None, explained(torn.bytes));
            self.anchor = before;
            self.suspicion = None;
            return;
        }
        let text = format!(
            "it tells of a torn line of {} bytes before it, which is not there",
            torn.bytes
        );
        self.found(What::Missing, raw.number, Some(link.seq), text);
    }

    /// A line that could not be read, and that no other explains.
    fn flush(&mut self) {
        if let Some(unread) = self.unread.take() {
            let text = format!("it is no line of a record: {}", unread.why);
            let index = self.found(What::Form, unread.line, None, text);
            self.damaged = Some((index, unread.digest));
        }
    }

    /// The writer's clocks do not go back, unless somebody sets them.
    fn time(&mut self, head: &Head<'_>, line: u64) -> Option<jiff::Timestamp> {
        let place = (head.seq, head.ts.clone().into_owned());
        self.report.first.get_or_insert_with(|| place.clone());
        if self
            .report
            .last
            .as_ref()
            .is_none_or(|last| last.0 < head.seq)
        {
            self.report.last = Some(place);
        }
        let ts = head.ts.parse::<jiff::Timestamp>().ok()?;
        let mut said = Vec::new();
        if let Some(clock) = &self.clock {
            if ts < clock.ts {
                said.push(format!("the clock went back, from {}", clock.ts));
            } else if clock.boot == head.boot && clock.mono > 0 && head.mono > 0 {
                let passed = i128::from(head.mono) - i128::from(clock.mono);
                let shown = ts.as_nanosecond() - clock.ts.as_nanosecond();
                if passed < 0 {
                    said.push("the time since the machine's start went back".to_owned());
                } else if (shown - passed).abs() > CLOCK_STEP {
                    let seconds = (shown - passed) / 1_000_000_000;
                    said.push(format!("the clock was set by {seconds} seconds before it"));
                }
            }
        }
        let day = head.ts.get(..10).unwrap_or_default();
        if self.day.as_deref().is_some_and(|file| day > file) {
            said.push("it is of a later day than its file".to_owned());
        }
        for text in said {
            self.found(What::Clock, line, Some(head.seq), text);
        }
        match &mut self.clock {
            Some(clock) if clock.boot == head.boot => {
                clock.ts = ts;
                clock.mono = head.mono;
            }
            clock => {
                *clock = Some(Clock {
                    ts,
                    mono: head.mono,
                    boot: head.boot.clone().into_owned(),
                });
            }
        }
        Some(ts)
    }

    const fn here(&self) -> usize {
        self.names.len().saturating_sub(1)
    }

    fn found(&mut self, what: What, line: u64, seq: Option<u64>, text: String) -> Option<usize> {
        self.note(what, self.here(), line, seq, text)
    }

    fn found_at(&mut self, what: What, link: &Link, text: String) -> Option<usize> {
        self.note(what, link.file, link.line, Some(link.seq), text)
    }

    fn note(
        &mut self,
        what: What,
        file: usize,
        line: u64,
        seq: Option<u64>,
        text: String,
    ) -> Option<usize> {
        match what.level() {
            Level::Problem => self.report.problems += 1,
            Level::Warning => self.report.warnings += 1,
            Level::Note => {}
        }
        if self.report.findings.len() >= FINDINGS {
            return None;
        }
        let file = self.names.get(file).cloned().unwrap_or_default();
        self.report.findings.push(Finding {
            what,
            place: Place { file, line },
            seq,
            text,
            expected: None,
            found: None,
        });
        Some(self.report.findings.len() - 1)
    }

    fn finding(&mut self, index: Option<usize>) -> Option<&mut Finding> {
        self.report.findings.get_mut(index?)
    }

    fn expected(&mut self, index: Option<usize>, expected: String, found: String) {
        if let Some(finding) = self.finding(index) {
            finding.expected = Some(expected);
            finding.found = Some(found);
        }
    }

    /// Says better what a problem is.
    fn rename(&mut self, index: Option<usize>, what: What, text: &str) {
        let anchor = self.anchor;
        let name = self.names.get(anchor.file).cloned().unwrap_or_default();
        if let Some(finding) = self.finding(index) {
            if finding.what != What::Form {
                finding.place = Place {
                    file: name,
                    line: anchor.line,
                };
                finding.seq = Some(anchor.seq);
                text.clone_into(&mut finding.text);
            } else {
                finding.text = format!("{}; {text}", finding.text);
            }
            finding.what = what;
            finding.expected = None;
            finding.found = None;
        }
    }

    /// A problem that was none.
    fn withdraw(&mut self, index: Option<usize>) {
        let Some(index) = index.filter(|index| *index < self.report.findings.len()) else {
            return;
        };
        self.report.findings.remove(index);
        self.report.problems -= 1;
        let moved = |other: &mut Option<usize>| {
            *other = other.and_then(|other| match other.cmp(&index) {
                std::cmp::Ordering::Less => Some(other),
                std::cmp::Ordering::Equal => None,
                std::cmp::Ordering::Greater => Some(other - 1),
            });
        };
        moved(&mut self.suspicion);
        moved(&mut self.beginning);
        for (_, _, other) in &mut self.gaps {
            moved(other);
        }
    }
}
