//! Words and names: found whole, however they are spaced.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::chars::is_word;
use super::shape::Matched;

/// Whole words, thousands of them if need be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// In the order of their keywords, so that those of one keyword are found at once.
    words: Vec<String>,
    case_sensitive: bool,
}

impl Words {
    /// Those words. A blank in one stands for blanks, line feeds, `-` and `_`, an apostrophe for
    /// each way to write it.
    #[must_use]
    pub fn new(mut words: Vec<String>, case_sensitive: bool) -> Self {
        words.retain(|word| !word.trim().is_empty());
        words.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.cmp(b)));
        words.dedup();
        Self {
            words,
            case_sensitive,
        }
    }

    /// The keywords that wake them: the longest part of each.
    #[must_use]
    pub fn keywords(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.words.iter().map(|word| key(word)).collect();
        keys.dedup();
        keys
    }

    /// The longest of the words at a keyword; `lower` is the text in lower case.
    pub(super) fn at(&self, text: &[u8], lower: &[u8], keyword: &Range<usize>) -> Matched {
        let part = lower.get(keyword.clone()).unwrap_or_default();
        let first = self
            .words
            .partition_point(|word| key(word).as_bytes() < part);
        let candidates = self.words.get(first..).unwrap_or_default().iter();
        let mut found = Matched::default();
        for word in candidates.take_while(|word| key(word).as_bytes() == part) {
            let offsets = word
                .as_bytes()
                .windows(part.len().max(1))
                .enumerate()
                .filter(|(_, window)| window.eq_ignore_ascii_case(part));
            for (offset, _) in offsets {
                let (span, open) = self.spread(text, word.as_bytes(), keyword.start, offset);
                found.open |= open;
                let longer = |span: &Range<usize>| {
                    found
                        .span
                        .as_ref()
                        .is_none_or(|known| known.len() < span.len())
                };
                if let Some(span) = span.filter(longer) {
                    found.span = Some(span);
                }
            }
        }
        found
    }

    /// Where the word stands whose byte `offset` is at `place`, and whether the text's end is met.
    fn spread(
        &self,
        text: &[u8],
        word: &[u8],
        place: usize,
        offset: usize,
    ) -> (Option<Range<usize>>, bool) {
        let (head, tail) = word.split_at_checked(offset).unwrap_or_default();
        let (before, behind) = text.split_at_checked(place).unwrap_or_default();
        let Some(back) = self.length(before.iter().rev(), head.iter().rev()) else {
            return (None, false);
        };
        let Some(forth) = self.length(behind.iter(), tail.iter()) else {
            // The word may go on behind the end of the text.
            return (None, behind.len() < 2 * tail.len() + 8);
        };
        let bounded = |byte: &u8| *byte >= 0x80 || is_word(*byte);
        let span = place - back..place + forth;
        let inside = before
            .get(..span.start)
            .and_then(<[u8]>::last)
            .is_some_and(bounded)
            || text.get(span.end).is_some_and(bounded);
        let open = span.end == text.len();
        ((!inside).then_some(span), open)
    }

    /// How many bytes of the text a part of a word takes, read in either direction.
    fn length<'t>(
        &self,
        text: impl Iterator<Item = &'t u8>,
        word: impl Iterator<Item = &'t u8>,
    ) -> Option<usize> {
        let mut text = text.copied().peekable();
        let mut length = 0;
        for wanted in word.copied() {
            let fits = |byte: u8| match wanted {
                b' ' => byte.is_ascii_whitespace() || byte == b'-' || byte == b'_',
                b'\'' => byte == b'\'' || byte == b'\\' || "’".as_bytes().contains(&byte),
                _ if self.case_sensitive => byte == wanted,
                _ => byte.eq_ignore_ascii_case(&wanted),
            };
            let most = match wanted {
                b' ' => 32,
                b'\'' => 3,
                _ => 1,
            };
            let mut taken = 0;
            while taken < most && text.next_if(|byte| fits(*byte)).is_some() {
                taken += 1;
            }
            if taken == 0 {
                return None;
            }
            length += taken;
        }
        Some(length)
    }
}

/// The longest part of a word, in lower case.
fn key(word: &str) -> String {
    word.split(|c: char| !c.is_ascii_alphanumeric())
        .max_by_key(|part| part.len())
        .filter(|part| !part.is_empty())
        .unwrap_or(word)
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(words: &[&str], case_sensitive: bool, text: &'t str) -> Vec<&'t str> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let words = Words::new(words, case_sensitive);
        let lower = text.to_ascii_lowercase();
        let mut spans: Vec<(usize, usize)> = words
            .keywords()
            .iter()
            .flat_map(|word| {
                lower
                    .match_indices(word)
                    .map(|(at, word)| at..at + word.len())
            })
            .filter_map(|at| words.at(text.as_bytes(), lower.as_bytes(), &at).span)
            .map(|span| (span.start, span.end))
            .collect();
        spans.sort_unstable_by_key(|(a, b)| (*a, std::cmp::Reverse(*b)));
        let mut end = 0;
        spans.retain(|(_, b)| {
            let inner = *b <= end;
            end = end.max(*b);
            !inner
        });
        let texts = spans.into_iter().filter_map(|(a, b)| text.get(a..b));
        texts.collect()
    }

    #[test]
    fn words_are_whole_and_the_longest_wins() {
        let words = ["heart failure", "congestive heart failure", "heart"];
        for (text, wanted) in [
            (
                "a Congestive  heart-failure.",
                &["Congestive  heart-failure"][..],
            ),
            ("heart_failure", &["heart_failure"]),
            ("heart\n  failure", &["heart\n  failure"]),
            ("heartfailure", &[]),
            ("heart failures", &["heart"]),
            ("xheart failure", &[]),
        ] {
            assert_eq!(found(&words, false, text), wanted, "{text}");
        }
    }

    #[test]
    fn names_are_found_as_they_are_written() {
        for (name, text, wanted) in [
            (
                "Ann O'Connor",
                "insert ('Ann O''Connor')",
                &["Ann O''Connor"][..],
            ),
            ("Ann O'Connor", "Ann O’Connor", &["Ann O’Connor"]),
            ("Ann O'Connor", "ann o'connor", &[]),
            ("Van der Berg", "Van  der\nBerg", &["Van  der\nBerg"]),
            ("García-López", "Mrs. García-López (", &["García-López"]),
            ("Al-Hakim", "Al-Hakim", &["Al-Hakim"]),
            ("Young", "Youngs", &[]),
            ("Park", "éPark Park", &["Park"]),
        ] {
            assert_eq!(found(&[name], true, text), wanted, "{text}");
        }
    }
}
