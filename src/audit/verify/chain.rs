//! Which line was chained to which.

use data_encoding::HEXLOWER;

use super::finding::What;
use super::{GAPS, GENESIS, Link, Verifier};
use crate::audit::lines::Hash;

impl Verifier {
    /// Puts a line behind the others. Whether it has its place there.
    pub(super) fn chain(&mut self, link: Link) -> bool {
        let anchor = self.anchor;
        if let Some((index, digest)) = self.damaged.take() {
            if link.follows(&anchor) {
                self.rename(
                    index,
                    What::Inserted,
                    "the lines around it are chained to each other",
                );
                return self.advance(link, None);
            }
            let passed = link.seq > anchor.seq.saturating_add(1);
            if link.prev == digest || (passed && self.report.first.is_some()) {
                return self.advance(link, None);
            }
        }
        if link.follows(&anchor) {
            return self.advance(link, None);
        }
        if anchor.line > 0 && link.digest == anchor.digest {
            let text = format!("it is line {} again", anchor.line);
            self.found(What::Duplicate, link.line, Some(link.seq), text);
            return false;
        }
        if self.before.is_some_and(|before| link.follows(&before)) {
            return self.skipped(link);
        }
        if let Some(stray) = self.stray.take_if(|stray| link.follows(stray)) {
            self.anchor = stray;
            return self.advance(link, None);
        }
        if self.report.first.is_none() && link.seq > 1 && link.prev != GENESIS.digest && !self.whole
        {
            let text = format!(
                "the record begins with number {} here: what came before was not looked at",
                link.seq
            );
            self.found(What::Part, link.line, Some(link.seq), text);
            return self.advance(link, None);
        }
        let next = anchor.seq.saturating_add(1);
        match link.seq.cmp(&next) {
            std::cmp::Ordering::Equal => {
                let index = self.edited(&link, &anchor);
                self.advance(link, index)
            }
            std::cmp::Ordering::Greater => {
                let last = link.seq - 1;
                let text = match last - anchor.seq {
                    1 => format!("number {next} is missing before it"),
                    count => {
                        format!("{count} lines are missing before it, numbers {next} to {last}")
                    }
                };
                let index = self.found(What::Missing, link.line, Some(link.seq), text);
                if self.report.first.is_none() {
                    self.beginning = index;
                }
                self.expected(index, next.to_string(), link.seq.to_string());
                if self.gaps.len() == GAPS {
                    self.gaps.pop_front();
                }
                self.gaps.push_back((next, last, index));
                self.advance(link, index)
            }
            std::cmp::Ordering::Less => {
                self.late(link);
                false
            }
        }
    }

    /// Line and predecessor have the right numbers, but are not chained.
    fn edited(&mut self, link: &Link, anchor: &Link) -> Option<usize> {
        let index = if anchor.line == 0 {
            let text = "the first line of a record is chained to 64 zeros, and this one is not";
            self.found(What::Edited, link.line, Some(link.seq), text.to_owned())
        } else {
            let text = format!("it is not the line that number {} was chained to", link.seq);
            self.found_at(What::Edited, anchor, text)
        };
        self.expected(index, short(&link.prev), short(&anchor.digest));
        index
    }

    /// The line follows the one before the last: the last does not belong there.
    fn skipped(&mut self, link: Link) -> bool {
        let odd = self.anchor;
        let swapped = odd.follows(&link);
        let (what, text) = if swapped {
            (
                What::Order,
                format!(
                    "it belongs behind number {}, which comes after it",
                    link.seq
                ),
            )
        } else {
            (
                What::Inserted,
                format!(
                    "number {} after it is chained to the line before it",
                    link.seq
                ),
            )
        };
        match self.suspicion.take() {
            Some(index) => self.rename(Some(index), what, &text),
            None => {
                self.found_at(what, &odd, text);
            }
        }
        if swapped {
            self.gaps
                .retain(|(first, last, _)| !(first..=last).contains(&&link.seq));
            self.advance(link, None);
            self.before = Some(link);
            self.anchor = odd;
            return false;
        }
        let before = self.before;
        self.advance(link, None);
        self.before = before;
        true
    }

    /// A number that was passed already.
    fn late(&mut self, link: Link) {
        let gap = self
            .gaps
            .iter()
            .position(|(first, last, _)| (*first..=*last).contains(&link.seq))
            .and_then(|at| self.gaps.get(at).copied().map(|gap| (at, gap)));
        if let Some((at, (first, last, index))) = gap {
            let text = format!("it belongs before number {}", last.saturating_add(1));
            if first == last {
                // What seemed to be missing is here.
                self.gaps.remove(at);
                self.withdraw(index);
            }
            self.found(What::Order, link.line, Some(link.seq), text);
        } else {
            let text =
                "its number was there already: the line was copied, moved or made up".to_owned();
            self.found(What::Duplicate, link.line, Some(link.seq), text);
        }
        self.stray = Some(link);
    }

    fn advance(&mut self, link: Link, suspicion: Option<usize>) -> bool {
        self.before = Some(self.anchor);
        self.anchor = link;
        self.suspicion = suspicion;
        true
    }
}

/// The first digits of a hash: enough to compare by eye.
fn short(hash: &Hash) -> String {
    let text = HEXLOWER.encode(hash);
    format!("{}…", text.get(..12).unwrap_or_default())
}
