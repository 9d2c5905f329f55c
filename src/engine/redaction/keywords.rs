//! Which rules to look at: all their keywords, found in one pass.
//!
//! Nearly every place of a text is dismissed by one look at a table of bits: whether some keyword
//! begins with the four bytes that stand there. An automaton over the same keywords (daachorse)
//! takes twice as long for a text, and longer than a short text to be read from a bundle.

use serde::{Deserialize, Serialize};

use super::rule::Rule;

/// A keyword has at least so many bytes: a shorter one would wake its rules in every text.
pub const KEYWORD_MIN: usize = 3;

/// So many bits of a hash choose the bit that dismisses a place, for keywords of four bytes and
/// more, and for those of three: the tables stay in the processor's first cache.
const BITS: (u32, u32) = (17, 13);

/// So many bits of a hash choose the slot of the keywords that begin with those bytes.
const SLOT: u32 = 11;

/// The keywords of all rules.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Keywords {
    /// All keywords, one behind the other, by their slots.
    text: String,
    /// Where each keyword begins in `text`; one more than there are keywords.
    places: Vec<u32>,
    /// For each keyword, where its rules begin in `rules`; one more than there are keywords.
    starts: Vec<u32>,
    rules: Vec<u16>,
}

/// The keywords, ready to be found.
#[derive(Debug)]
pub(super) struct Finder {
    keywords: Keywords,
    /// A bit for each hash of a keyword's first four bytes.
    bits: Vec<u64>,
    /// The same for keywords of three bytes.
    short: Vec<u64>,
    /// For each slot, its first keyword; one more than there are slots.
    slots: Vec<u16>,
}

/// A keyword in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    keyword: u32,
}

/// A hash of four bytes, whose upper bits are the best ones.
const fn hash(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes).wrapping_mul(0x9e37_79b1)
}

/// The slot of the keywords that begin with those bytes; the fourth of a short one is 0.
const fn slot(bytes: [u8; 4]) -> usize {
    (hash(bytes) >> (32 - SLOT)) as usize
}

/// The same bytes without the fourth.
const fn three([a, b, c, _]: [u8; 4]) -> [u8; 4] {
    [a, b, c, 0]
}

/// The first bytes of a keyword.
fn head(word: &[u8]) -> [u8; 4] {
    let mut bytes = word.iter().copied().chain(std::iter::repeat(0));
    [0; 4].map(|_: u8| bytes.next().unwrap_or_default())
}

impl Keywords {
    /// The keywords of those rules.
    pub(super) fn new(rules: &[Rule]) -> Result<Self, String> {
        let mut all: Vec<(usize, &str, u16)> = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let index = u16::try_from(index).map_err(|_| "there are too many rules".to_owned())?;
            for word in &rule.keywords {
                all.push((slot(head(word.as_bytes())), word, index));
            }
        }
        all.sort_unstable();
        all.dedup();
        let mut this = Self {
            text: String::new(),
            places: Vec::new(),
            starts: Vec::new(),
            rules: Vec::new(),
        };
        let mut last = None;
        for (_, word, rule) in all {
            if last != Some(word) {
                this.places.push(this.text.len() as u32);
                this.starts.push(this.rules.len() as u32);
                this.text.push_str(word);
                last = Some(word);
            }
            this.rules.push(rule);
        }
        this.places.push(this.text.len() as u32);
        this.starts.push(this.rules.len() as u32);
        if this.places.len() > usize::from(u16::MAX) {
            return Err("there are too many keywords".to_owned());
        }
        Ok(this)
    }

    fn count(&self) -> usize {
        self.places.len().saturating_sub(1)
    }

    fn word(&self, keyword: usize) -> &[u8] {
        let (start, end) = (self.places.get(keyword), self.places.get(keyword + 1));
        start
            .zip(end)
            .and_then(|(start, end)| self.text.as_bytes().get(*start as usize..*end as usize))
            .unwrap_or_default()
    }

    /// Whether they are the keywords of so many rules: one that wakes nothing, or does not exist,
    /// would be a rule that finds nothing.
    fn fits(&self, rules: usize) -> bool {
        let ends_at = |list: &[u32], end: usize| {
            list.is_sorted() && list.last().map_or(0, |last| *last as usize) == end
        };
        self.places.len() == self.starts.len()
            && ends_at(&self.places, self.text.len())
            && ends_at(&self.starts, self.rules.len())
            && self.rules.iter().all(|rule| usize::from(*rule) < rules)
            && (0..self.count()).all(|keyword| self.word(keyword).len() >= KEYWORD_MIN)
    }
}

impl Finder {
    /// A finder of the keywords of so many rules; `None` if they are not those.
    pub(super) fn new(keywords: Keywords, rules: usize) -> Option<Self> {
        if !keywords.fits(rules) {
            return None;
        }
        let mut bits = vec![0_u64; 1 << (BITS.0 - 6)];
        let mut short = vec![0_u64; 1 << (BITS.1 - 6)];
        let mut counts = vec![0_u16; (1 << SLOT) + 1];
        for keyword in 0..keywords.count() {
            let first = head(keywords.word(keyword));
            let count = counts.get_mut(slot(first) + 1)?;
            *count = count.checked_add(1)?;
            let (table, width) = match keywords.word(keyword).len() {
                KEYWORD_MIN => (&mut short, BITS.1),
                _ => (&mut bits, BITS.0),
            };
            let bit = hash(first) >> (32 - width);
            *table.get_mut(bit as usize >> 6)? |= 1 << (bit & 63);
        }
        let mut sum = 0_u16;
        for count in &mut counts {
            sum = sum.checked_add(*count)?;
            *count = sum;
        }
        Some(Self {
            keywords,
            bits,
            short,
            slots: counts,
        })
    }

    /// Every occurrence of every keyword in a text in lower case, by where they begin.
    pub(super) fn find(&self, lower: &[u8], mut each: impl FnMut(Hit)) {
        if self.keywords.count() == 0 {
            return;
        }
        for (start, window) in lower.windows(4).enumerate() {
            let Ok(bytes) = <[u8; 4]>::try_from(window) else {
                continue;
            };
            if holds(&self.bits, bytes, BITS.0) {
                self.at(lower, start, bytes, &mut each);
            }
            if holds(&self.short, three(bytes), BITS.1) {
                self.at(lower, start, three(bytes), &mut each);
            }
        }
        // A keyword of three bytes may be the last of the text.
        let start = lower.len().saturating_sub(KEYWORD_MIN);
        let rest = lower.get(start..).unwrap_or_default();
        if rest.len() == KEYWORD_MIN {
            self.at(lower, start, head(rest), &mut each);
        }
    }

    /// The rules that a keyword wakes.
    pub(super) fn rules(&self, hit: Hit) -> &[u16] {
        let keyword = hit.keyword as usize;
        let starts = &self.keywords.starts;
        let (start, end) = (starts.get(keyword), starts.get(keyword + 1));
        start
            .zip(end)
            .and_then(|(start, end)| self.keywords.rules.get(*start as usize..*end as usize))
            .unwrap_or_default()
    }

    #[inline(never)]
    fn at(&self, lower: &[u8], start: usize, bytes: [u8; 4], each: &mut impl FnMut(Hit)) {
        let slot = slot(bytes);
        let (from, to) = (self.slots.get(slot), self.slots.get(slot + 1));
        let (Some(from), Some(to)) = (from, to) else {
            return;
        };
        let rest = lower.get(start..).unwrap_or_default();
        for keyword in usize::from(*from)..usize::from(*to) {
            let word = self.keywords.word(keyword);
            if rest.starts_with(word) {
                each(Hit {
                    start,
                    end: start + word.len(),
                    keyword: keyword as u32,
                });
            }
        }
    }
}

/// Whether the bit of those bytes is set.
#[inline]
fn holds(table: &[u64], bytes: [u8; 4], width: u32) -> bool {
    let bit = hash(bytes) >> (32 - width);
    table
        .get(bit as usize >> 6)
        .is_some_and(|bits| bits >> (bit & 63) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Conditions, Length, Severity, Shape};
    use super::*;

    fn rule(keywords: &[&str]) -> Rule {
        Rule {
            id: String::new(),
            description: String::new(),
            severity: Severity::Low,
            kind: String::new(),
            pack: String::new(),
            keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
            shape: Shape::Userinfo(Length::default()),
            conditions: Conditions::default(),
        }
    }

    fn found(rules: &[Rule], text: &str) -> Vec<(usize, usize, Vec<u16>)> {
        let finder = Finder::new(Keywords::new(rules).unwrap(), rules.len()).unwrap();
        let mut hits = Vec::new();
        finder.find(text.as_bytes(), |hit| {
            hits.push((hit.start, hit.end, finder.rules(hit).to_vec()));
        });
        hits.sort();
        hits
    }

    #[test]
    fn every_occurrence_of_every_keyword_is_found() {
        let rules = [rule(&["key", "api_key"]), rule(&["keyring", "key"])];
        assert_eq!(
            found(&rules, "api_key keyring key"),
            [
                (0, 7, vec![0]),
                (4, 7, vec![0, 1]),
                (8, 11, vec![0, 1]),
                (8, 15, vec![1]),
                (16, 19, vec![0, 1]),
            ]
        );
        assert_eq!(found(&rules, "ke"), []);
        assert_eq!(found(&[], "key"), []);
    }

    #[test]
    fn it_finds_what_looking_for_each_keyword_finds() {
        let words = ["abc", "abcd", "bcd", "bca", "aab", "cabcab", "ddd"];
        let rules: Vec<Rule> = words.iter().map(|word| rule(&[word])).collect();
        let mut state = 1_u32;
        let text: String = (0..4000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from(b"abcd"[(state >> 28) as usize % 4])
            })
            .collect();
        let mut wanted = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let mut from = 0;
            while let Some(at) = text.get(from..).unwrap().find(word) {
                wanted.push((from + at, from + at + word.len(), vec![index as u16]));
                from += at + 1;
            }
        }
        wanted.sort();
        assert_eq!(found(&rules, &text), wanted);
    }

    #[test]
    fn keywords_of_other_rules_are_refused() {
        let keywords = Keywords::new(&[rule(&["abc"]), rule(&["abd"])]).unwrap();
        assert!(Finder::new(keywords.clone(), 1).is_none());
        assert!(Finder::new(keywords, 2).is_some());
    }
}
