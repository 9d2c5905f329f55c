//! Decisions and latency over time, in steps that grow with the period.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use jiff::Timestamp;

use super::numbers::{Decisions, Latency, OverTime, Step};
use crate::engine::decision::Effect;

/// No more steps are kept; with more, steps become longer.
const KEPT: usize = 1000;

/// No more steps are shown.
const SHOWN: i64 = 96;

/// Nothing is slower: an hour, in microseconds.
const SLOWEST: u64 = 3_600_000_000;

/// Hours in a week.
const WEEK: i64 = 168;

/// 1970 began on a Thursday: so many hours earlier a Monday did.
const MONDAY: i64 = 72;

const SECONDS: i64 = 3600;

/// How long answers took, to so many digits.
#[derive(Debug)]
pub(super) struct Latencies {
    histogram: Option<Histogram<u64>>,
    max: u64,
}

impl Latencies {
    pub(super) fn new(digits: u8) -> Self {
        let mut histogram = Histogram::new(digits).ok();
        if let Some(histogram) = &mut histogram {
            histogram.auto(true);
        }
        Self { histogram, max: 0 }
    }

    pub(super) fn add(&mut self, microseconds: u64) {
        self.max = self.max.max(microseconds);
        if let Some(histogram) = &mut self.histogram {
            // It grows by itself, and no count of lines is too large for it.
            let _ = histogram.record(microseconds.min(SLOWEST));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.max = self.max.max(other.max);
        if let (Some(mine), Some(theirs)) = (&mut self.histogram, &other.histogram) {
            // It grows by itself: nothing can be out of its range.
            let _ = mine.add(theirs);
        }
    }

    pub(super) fn percentiles(&self) -> Option<Latency> {
        let histogram = self.histogram.as_ref().filter(|one| !one.is_empty())?;
        // What stands in one class of the histogram is not slower than the slowest.
        let at = |share: f64| histogram.value_at_quantile(share).min(self.max);
        Some(Latency {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.max,
        })
    }
}

#[derive(Debug)]
struct Bucket {
    decisions: Decisions,
    latencies: Latencies,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            decisions: Decisions::default(),
            latencies: Latencies::new(2),
        }
    }
}

/// What was decided when. Steps are an hour long, a day, a week, four, and so on: never more than are
/// kept, however long the period is.
#[derive(Debug)]
pub(super) struct Timeline {
    hours: i64,
    buckets: BTreeMap<i64, Bucket>,
}

impl Timeline {
    pub(super) const fn new() -> Self {
        Self {
            hours: 1,
            buckets: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, at: Timestamp, effect: Effect, microseconds: u64) {
        let hour = start(at.as_second().div_euclid(SECONDS), self.hours);
        let bucket = self.buckets.entry(hour).or_default();
        bucket.decisions.add(effect);
        bucket.latencies.add(microseconds);
        while self.buckets.len() > KEPT {
            self.widen();
        }
    }

    pub(super) fn finish(mut self) -> OverTime {
        let (first, last) = loop {
            let ends = self.buckets.keys().next().zip(self.buckets.keys().last());
            let Some((first, last)) = ends.map(|(first, last)| (*first, *last)) else {
                return OverTime::default();
            };
            if (last - first) / self.hours < SHOWN {
                break (first, last);
            }
            self.widen();
        };
        let mut steps = Vec::new();
        let mut hour = first;
        while hour <= last {
            let bucket = self.buckets.get(&hour);
            steps.push(Step {
                start: Timestamp::from_second(hour * SECONDS)
                    .map(|start| start.to_string())
                    .unwrap_or_default(),
                decisions: bucket.map(|bucket| bucket.decisions).unwrap_or_default(),
                latency: bucket.and_then(|bucket| bucket.latencies.percentiles()),
            });
            hour += self.hours;
        }
        OverTime {
            hours: self.hours,
            steps,
        }
    }

    fn widen(&mut self) {
        self.hours = match self.hours {
            1 => 24,
            24 => WEEK,
            hours => hours * 4,
        };
        for (hour, bucket) in std::mem::take(&mut self.buckets) {
            let wider = self.buckets.entry(start(hour, self.hours)).or_default();
            wider.decisions.merge(bucket.decisions);
            wider.latencies.merge(&bucket.latencies);
        }
    }
}

/// The hour that a step begins with: days at midnight, weeks on Mondays.
const fn start(hour: i64, step: i64) -> i64 {
    let shift = if step % WEEK == 0 { MONDAY } else { 0 };
    (hour + shift).div_euclid(step) * step - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(times: impl Iterator<Item = i64>) -> OverTime {
        let mut timeline = Timeline::new();
        for second in times {
            let at = Timestamp::from_second(second).unwrap();
            timeline.add(at, Effect::Deny, 2_000);
        }
        timeline.finish()
    }

    #[test]
    fn steps_grow_with_the_period_and_nothing_is_lost() {
        const BEGIN: i64 = 1_767_225_600; // 2026-01-01T00:00:00Z, a Thursday
        for (every, times, hours, steps, start) in [
            (600, 6, 1, 1, "2026-01-01T00:00:00Z"),
            (3_600, 72, 1, 72, "2026-01-01T00:00:00Z"),
            (3_600, 240, 24, 10, "2026-01-01T00:00:00Z"),
            (3_600, 24 * 90, 24, 90, "2026-01-01T00:00:00Z"),
            (3_600, 24 * 365, WEEK, 53, "2025-12-29T00:00:00Z"),
            (86_400, 365 * 10, 16 * WEEK, 34, "2025-10-20T00:00:00Z"),
        ] {
            let over = over((0..times).map(|n| BEGIN + n * every));
            assert_eq!((over.hours, over.steps.len()), (hours, steps), "{times}");
            assert_eq!(over.steps[0].start, start, "{times}");
            let total: u64 = over.steps.iter().map(|step| step.decisions.deny).sum();
            assert_eq!(total, times as u64);
            assert!(over.steps.iter().all(|step| {
                step.latency
                    .is_none_or(|latency| latency.max == 2_000 && latency.p50 == 2_000)
            }));
        }
        assert_eq!(over(std::iter::empty()), OverTime::default());
    }

    #[test]
    fn any_clock_is_bounded() {
        let ends = [Timestamp::MIN, Timestamp::MAX].map(Timestamp::as_second);
        let over = over(ends.into_iter());
        assert!(over.steps.len() <= 97, "{}", over.steps.len());
        assert_eq!(over.steps.last().unwrap().decisions.deny, 1);
    }

    #[test]
    fn percentiles_are_those_of_a_sorted_list() {
        let mut latencies = Latencies::new(3);
        assert!(latencies.percentiles().is_none());
        for microseconds in 1..=10_000 {
            latencies.add(microseconds);
        }
        latencies.add(u64::MAX);
        let latency = latencies.percentiles().unwrap();
        for (found, expected) in [
            (latency.p50, 5_001),
            (latency.p90, 9_001),
            (latency.p99, 9_901),
            (latency.p99_9, 9_991),
        ] {
            assert!(found.abs_diff(expected) * 1000 <= expected, "{latency:?}");
        }
        assert_eq!(latency.max, u64::MAX);
    }
}
