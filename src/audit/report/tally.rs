//! Counts by name in bounded memory: the frequent ones stay, the rare ones may be forgotten.

use std::collections::HashMap;

/// What is counted under a name.
pub(super) trait Weight {
    /// How much it is: the least are forgotten first.
    fn weight(&self) -> u64;
}

impl Weight for u64 {
    fn weight(&self) -> u64 {
        *self
    }
}

/// Counts by name. Exact while there are no more than twice as many names as are kept; beyond that no
/// count is too high, and none is too low by more than [`Self::missed`].
#[derive(Debug)]
pub(super) struct Tally<V> {
    kept: usize,
    counts: HashMap<Box<str>, V>,
    missed: u64,
}

impl<V: Weight + Default> Tally<V> {
    pub(super) fn keeping(kept: usize) -> Self {
        Self {
            kept,
            counts: HashMap::new(),
            missed: 0,
        }
    }

    /// Raises what is counted under that name.
    pub(super) fn add(&mut self, name: &str, raise: impl FnOnce(&mut V)) {
        if let Some(value) = self.counts.get_mut(name) {
            raise(value);
            return;
        }
        if self.counts.len() >= self.kept * 2 {
            self.forget();
        }
        let mut value = V::default();
        raise(&mut value);
        self.counts.insert(name.into(), value);
    }

    /// By how much a count may be too low.
    pub(super) const fn missed(&self) -> u64 {
        self.missed
    }

    /// How many names there are; at least so many where some were forgotten.
    pub(super) fn names(&self) -> u64 {
        self.counts.len() as u64
    }

    /// The heaviest first; equal ones by name.
    pub(super) fn ranked(self) -> Vec<(String, V)> {
        let mut all: Vec<(Box<str>, V)> = self.counts.into_iter().collect();
        all.sort_by(|(a, one), (b, two)| two.weight().cmp(&one.weight()).then_with(|| a.cmp(b)));
        all.into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect()
    }

    fn forget(&mut self) {
        let mut weights: Vec<u64> = self.counts.values().map(Weight::weight).collect();
        // Called with twice as many as are kept.
        let place = weights.len() - self.kept - 1;
        let (_, bar, _) = weights.select_nth_unstable(place);
        let bar = *bar;
        // Those at the bar go too: else a record of equal ones would never be forgotten.
        self.counts.retain(|_, value| value.weight() > bar);
        self.missed += bar;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_while_there_is_room() {
        let mut tally: Tally<u64> = Tally::keeping(2);
        for name in ["a", "b", "c", "d", "a", "b", "a"] {
            tally.add(name, |n| *n += 1);
        }
        assert_eq!((tally.names(), tally.missed()), (4, 0));
        let ranked = tally.ranked();
        let ranked: Vec<_> = ranked.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(ranked, [("a", 3), ("b", 2), ("c", 1), ("d", 1)]);
    }

    #[test]
    fn the_frequent_ones_stay_and_no_count_is_too_high() {
        let mut tally: Tally<u64> = Tally::keeping(64);
        for n in 0..20_000_u32 {
            tally.add(&format!("rare {n}"), |n| *n += 1);
            if n % 10 == 0 {
                tally.add("frequent", |n| *n += 1);
            }
        }
        assert!(tally.counts.len() <= 128);
        let missed = tally.missed();
        let ranked = tally.ranked();
        let (name, count) = &ranked[0];
        assert_eq!(name, "frequent");
        assert!(
            *count <= 2_000 && *count + missed >= 2_000,
            "{count} + {missed}"
        );
    }
}
