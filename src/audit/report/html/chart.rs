//! Charts as plain SVG shapes. Places are shares of the width and height, so that a chart fits any window
//! and its texts stay readable.

use maud::{Markup, html};

use crate::audit::report::numbers::{Decisions, Latency, OverTime, Step};
use crate::audit::report::text::{beginning, duration, grouped, step, tick};

/// So few steps are not drawn wider than if there were so many.
const NARROWEST: usize = 12;

/// What there is at all is not lower than so many percent of the height.
const LOWEST: f64 = 0.7;

/// One of the percentiles.
type Pick = fn(Latency) -> u64;

/// Decisions over time: a column for each step, denials at the bottom where they are seen best.
pub(super) fn decisions(over: &OverTime) -> Markup {
    let most = over.steps.iter().map(|one| one.decisions.total()).max();
    let (rise, top) = scale(most.unwrap_or(0));
    let slots = Slots::of(over);
    html! {
        svg.chart role="img" aria-labelledby="decisions-title decisions-about" {
            title #decisions-title { "Decisions over time" }
            desc #decisions-about {
                (grouped(over.steps.len() as u64)) " columns, one for each " (step(over.hours.max(1)))
                "; the highest has " (grouped(most.unwrap_or(0))) " decisions."
            }
            @for value in (0..=top).step_by(usize::try_from(rise).unwrap_or(1)) {
                (line_at(share(value, top), &compact(value), value == 0))
            }
            @for (index, one) in over.steps.iter().enumerate() {
                (column(one, over.hours, slots.at(index), slots.width * 0.84, top))
            }
            (names(over, &slots))
        }
    }
}

fn column(one: &Step, hours: i64, left: f64, width: f64, top: u64) -> Markup {
    let Decisions { allow, ask, deny } = one.decisions;
    let mut below = 0.0;
    let mut parts = Vec::new();
    for (count, class) in [
        (deny, "deny-fill"),
        (ask, "ask-fill"),
        (allow, "allow-fill"),
    ] {
        if count > 0 {
            let height = share(count, top).max(LOWEST);
            parts.push((100.0 - below - height, height, class));
            below += height;
        }
    }
    html! {
        g {
            title {
                (beginning(&one.start, hours)) ": " (grouped(allow)) " allowed, " (grouped(ask)) " asked, "
                (grouped(deny)) " denied"
            }
            rect.hit x=(percent(left)) y="0" width=(percent(width)) height="100%" {}
            @for (y, height, class) in parts {
                rect class=(class) x=(percent(left)) y=(percent(y)) width=(percent(width)) height=(percent(height)) {}
            }
        }
    }
}

/// Percentiles over time, on a scale where every step is as much slower as the one before.
pub(super) fn latencies(over: &OverTime) -> Markup {
    let known = || over.steps.iter().filter_map(|one| one.latency);
    let lowest = known().map(|one| one.p50).min().unwrap_or(1);
    let highest = known().map(|one| one.p99).max().unwrap_or(1);
    let ticks = ticks(lowest.max(1), highest.max(1));
    let (bottom, top) = (
        ticks.first().copied().unwrap_or(1) as f64,
        ticks.last().copied().unwrap_or(10) as f64,
    );
    let height = |value: u64| {
        let span = (top / bottom).ln();
        ((value.max(1) as f64 / bottom).ln() / span * 100.0).clamp(0.0, 100.0)
    };
    let slots = Slots::of(over);
    let series: [(&str, Pick); 3] = [
        ("p99", |one| one.p99),
        ("p90", |one| one.p90),
        ("p50", |one| one.p50),
    ];
    html! {
        svg.chart role="img" aria-labelledby="latency-title latency-about" {
            title #latency-title { "Latency over time" }
            desc #latency-about {
                "Percentiles p50, p90 and p99 for each " (step(over.hours.max(1))) ", between "
                (duration(lowest)) " and " (duration(highest)) ", on a logarithmic scale."
            }
            @for (index, value) in ticks.iter().enumerate() {
                (line_at(height(*value), &duration(*value).replace(".0 ", " "), index == 0))
            }
            @for (name, pick) in series {
                (line(over, &slots, name, &|one| height(pick(one))))
            }
            @for (index, one) in over.steps.iter().enumerate() {
                @if let Some(latency) = one.latency {
                    g {
                        title {
                            (beginning(&one.start, over.hours)) ":"
                            @for (name, value) in latency.each() { " " (name) " " (duration(value)) }
                        }
                        rect.hit x=(percent(slots.at(index))) y="0" width=(percent(slots.width)) height="100%" {}
                    }
                }
            }
            (names(over, &slots))
        }
    }
}

fn line(over: &OverTime, slots: &Slots, name: &str, height: &dyn Fn(Latency) -> f64) -> Markup {
    let points: Vec<Option<(f64, f64)>> = over
        .steps
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let y = 100.0 - height(one.latency?);
            Some((slots.at(index) + slots.width / 2.0, y))
        })
        .collect();
    let pairs = points.iter().zip(points.iter().skip(1));
    let pairs = pairs.filter_map(|(one, two)| Some(((*one)?, (*two)?)));
    let dots = points.len() <= NARROWEST * 2;
    let alone = |index: usize| {
        let beside = [index.checked_sub(1), Some(index + 1)];
        let mut beside = beside
            .into_iter()
            .flatten()
            .filter_map(|one| points.get(one));
        dots || beside.all(Option::is_none)
    };
    html! {
        @for ((x1, y1), (x2, y2)) in pairs {
            line class={ (name) "-line" } x1=(percent(x1)) y1=(percent(y1)) x2=(percent(x2)) y2=(percent(y2)) {}
        }
        @for (index, point) in points.iter().enumerate() {
            @if let Some((x, y)) = point && alone(index) {
                circle class={ (name) "-fill" } cx=(percent(*x)) cy=(percent(*y)) r="3" {}
            }
        }
    }
}

/// A bar of parts, each with its class, as a share of the most.
pub(super) fn bar(parts: &[(u64, &'static str)], most: u64) -> Markup {
    let mut left = 0.0;
    let mut shown = Vec::new();
    for (count, class) in parts.iter().filter(|(count, _)| *count > 0) {
        let width = share(*count, most).max(LOWEST);
        shown.push((left, width, *class));
        left += width;
    }
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            @for (x, width, class) in shown {
                rect class=(class) x=(number(x)) y="0" width=(number(width)) height="10" {}
            }
        }
    }
}

/// Where the steps stand, in percent of the width.
struct Slots {
    width: f64,
}

impl Slots {
    fn of(over: &OverTime) -> Self {
        Self {
            width: 100.0 / over.steps.len().max(NARROWEST) as f64,
        }
    }

    fn at(&self, index: usize) -> f64 {
        self.width * index as f64
    }
}

/// What stands below the columns: every second name only where there is room.
fn names(over: &OverTime, slots: &Slots) -> Markup {
    let years = over.hours * (over.steps.len() as i64) > 24 * 400;
    // As many as fit beside each other, by the length of a name.
    let most = match over.hours {
        ..24 => 6,
        _ if years => 8,
        _ => 12,
    };
    let every = over
        .steps
        .len()
        .max(NARROWEST)
        .div_ceil(most / 2)
        .div_ceil(2)
        * 2;
    let named = over
        .steps
        .iter()
        .enumerate()
        .filter(|(index, _)| index % (every / 2) == 0);
    html! {
        @for (index, one) in named {
            text class=[(index % every != 0).then_some("minor")]
                x=(percent(slots.at(index) + slots.width / 2.0)) y="100%" dy="20"
                text-anchor="middle" {
                (tick(&one.start, over.hours, years))
            }
        }
    }
}

fn line_at(height: f64, name: &str, base: bool) -> Markup {
    let y = percent(100.0 - height);
    html! {
        line.gridline.base[base] x1="0" y1=(y) x2="100%" y2=(y) {}
        text x="-8" y=(y) dy="4" text-anchor="end" { (name) }
    }
}

/// By how much the marks rise, and the highest: 1, 2 or 5 times a power of ten.
fn scale(most: u64) -> (u64, u64) {
    let mut rise = 1_u64;
    let mut factors = [2, 5, 10].into_iter().cycle();
    let mut power = 1_u64;
    while rise.saturating_mul(4) < most {
        let Some(factor) = factors.next() else {
            break;
        };
        rise = power.saturating_mul(factor);
        if factor == 10 {
            power = power.saturating_mul(10);
        }
    }
    (rise, most.max(1).div_ceil(rise).saturating_mul(rise))
}

/// Marks from below `lowest` to above `highest`: 1, 2 and 5 of each power of ten, or the powers alone.
fn ticks(lowest: u64, highest: u64) -> Vec<u64> {
    let marks = |of: &[u64]| -> Vec<u64> {
        let mut marks = Vec::new();
        let mut power = 1_u64;
        'powers: loop {
            for factor in of {
                let mark = power.saturating_mul(*factor);
                if mark < lowest {
                    marks.clear();
                }
                marks.push(mark);
                if mark == u64::MAX || (mark > lowest && mark >= highest) {
                    break 'powers;
                }
            }
            power = power.saturating_mul(10);
        }
        marks
    };
    let fine = marks(&[1, 2, 5]);
    if fine.len() > 7 { marks(&[1]) } else { fine }
}

/// `950`, `12k`, `3.5M`
fn compact(number: u64) -> String {
    let value = number as f64;
    let (value, unit) = match number {
        0..10_000 => return grouped(number),
        10_000..1_000_000 => (value / 1e3, "k"),
        1_000_000..1_000_000_000 => (value / 1e6, "M"),
        _ => (value / 1e9, "G"),
    };
    format!("{}{unit}", format!("{value:.1}").trim_end_matches(".0"))
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 * 100.0 / whole as f64
}

fn percent(value: f64) -> String {
    format!("{}%", number(value))
}

fn number(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_numbers() {
        for (most, expected) in [
            (0, (1, 1)),
            (1, (1, 1)),
            (4, (1, 4)),
            (5, (2, 6)),
            (90, (50, 100)),
            (1_234, (500, 1_500)),
            (80_000, (20_000, 80_000)),
        ] {
            assert_eq!(scale(most), expected, "{most}");
        }
        assert_eq!(scale(u64::MAX).1, u64::MAX);
        assert_eq!(ticks(2_500, 9_000), [2_000, 5_000, 10_000]);
        assert_eq!(
            ticks(900, 1_100_000),
            [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000]
        );
        assert_eq!(ticks(1, 1), [1, 2]);
        assert_eq!(ticks(2_000, 2_000), [1_000, 2_000, 5_000]);
        assert_eq!(ticks(u64::MAX, u64::MAX).last(), Some(&u64::MAX));
        for (number, text) in [(950, "950"), (12_000, "12k"), (3_500_000, "3.5M")] {
            assert_eq!(compact(number), text);
        }
    }

    #[test]
    fn what_there_is_at_all_is_seen() {
        let page = bar(
            &[(1, "deny-fill"), (0, "ask-fill"), (1_000_000, "allow-fill")],
            1_000_001,
        );
        let page = page.into_string();
        assert!(
            page.contains(r#"<rect class="deny-fill" x="0.00" y="0" width="0.70""#),
            "{page}"
        );
        assert!(!page.contains("ask-fill"), "{page}");
    }
}
