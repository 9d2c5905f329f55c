//! Numbers and foreign texts as a person reads them.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Characters that show nothing, or change the order in which others are shown.
const UNSEEN: [std::ops::RangeInclusive<char>; 7] = [
    '\u{ad}'..='\u{ad}',
    '\u{61c}'..='\u{61c}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
];

/// A text with every character to be seen: control characters, and those that turn the direction of
/// writing, stand there as `\u{1b}`.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, &|_| false)
}

/// The same, and some other characters with them.
pub(super) fn escaped<'a>(text: &'a str, also: &dyn Fn(char) -> bool) -> Cow<'a, str> {
    let hidden = |c: char| is_unseen(c) || also(c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn is_unseen(c: char) -> bool {
    c.is_control() || UNSEEN.iter().any(|range| range.contains(&c))
}

/// A document of JSON that says the same, with every character to be seen.
#[must_use]
pub fn visible_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    let mut units = [0; 2];
    for c in document.chars() {
        // JSON itself has no other character of this kind outside of a text.
        if c == '\n' || !is_unseen(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    }
    shown
}

/// `12,480`
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `2 files`
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number))
}

/// `12.5 %`; less than a tenth, and more than nothing, is `< 0.1 %`.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    if part == whole {
        return "100 %".to_owned();
    }
    let share = part as f64 * 100.0 / whole as f64;
    if share < 0.1 {
        "< 0.1 %".to_owned()
    } else {
        // What is not all is not rounded up to it.
        format!("{:.1} %", share.min(99.9))
    }
}

/// `870 µs`, `3.2 ms`, `1.4 s`
#[must_use]
pub fn duration(microseconds: u64) -> String {
    let number = microseconds as f64;
    let (value, unit) = match microseconds {
        0..1_000 => return format!("{microseconds} µs"),
        1_000..1_000_000 => (number / 1e3, "ms"),
        _ => (number / 1e6, "s"),
    };
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// `1 hour`, `1 day`, `4 weeks`
#[must_use]
pub fn step(hours: i64) -> String {
    let (number, noun) = match hours {
        hours if hours % 168 == 0 => (hours / 168, "week"),
        hours if hours % 24 == 0 => (hours / 24, "day"),
        hours => (hours, "hour"),
    };
    counted(number.unsigned_abs(), noun)
}

/// `2 Jan 2026, 03:04`, from RFC 3339 in UTC; the text itself where it is no time.
#[must_use]
pub fn moment(time: &str) -> String {
    formatted(time, "%-d %b %Y, %H:%M")
}

/// When a step begins: `2 Jan 2026`, or for hours `2 Jan 2026, 03:00`.
pub(super) fn beginning(time: &str, hours: i64) -> String {
    if hours < 24 {
        return moment(time);
    }
    formatted(time, "%-d %b %Y")
}

/// The same in short: the hour, the day, or for steps over years the month.
pub(super) fn tick(time: &str, hours: i64, years: bool) -> String {
    formatted(
        time,
        match hours {
            ..24 => "%-d %b %H:%M",
            _ if years => "%b %Y",
            _ => "%-d %b",
        },
    )
}

fn formatted(time: &str, form: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(at) => at.to_zoned(TimeZone::UTC).strftime(form).to_string(),
        Err(_) => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (12_480, "12,480"),
            (1_000_000, "1,000,000"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(counted(1, "line"), "1 line");
    }

    #[test]
    fn shares_do_not_round_to_all_or_nothing() {
        for (part, whole, text) in [
            (0, 0, "0 %"),
            (0, 9, "0 %"),
            (1, 10_000, "< 0.1 %"),
            (1, 8, "12.5 %"),
            (99_999, 100_000, "99.9 %"),
            (7, 7, "100 %"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }

    #[test]
    fn times_have_their_unit() {
        for (microseconds, text) in [
            (0, "0 µs"),
            (870, "870 µs"),
            (3_210, "3.2 ms"),
            (45_600, "46 ms"),
            (1_400_000, "1.4 s"),
        ] {
            assert_eq!(duration(microseconds), text);
        }
        for (hours, text) in [
            (1, "1 hour"),
            (24, "1 day"),
            (168, "1 week"),
            (672, "4 weeks"),
        ] {
            assert_eq!(step(hours), text);
        }
        let time = "2026-01-02T03:04:05.678901Z";
        assert_eq!(moment(time), "2 Jan 2026, 03:04");
        assert_eq!(moment("soon"), "soon");
        assert_eq!(beginning(time, 1), "2 Jan 2026, 03:04");
        assert_eq!(beginning(time, 168), "2 Jan 2026");
        assert_eq!(tick(time, 1, true), "2 Jan 03:04");
        assert_eq!(tick(time, 24, false), "2 Jan");
        assert_eq!(tick(time, 168, true), "Jan 2026");
    }

    #[test]
    fn a_document_says_the_same_with_nothing_unseen() {
        let value = serde_json::json!({"a": "\u{9b}31m\u{7f}\u{202e}\u{1b}ü", "b": [1]});
        let shown = visible_json(&format!("{value:#}\n"));
        assert!(shown.contains(r"\u009b31m\u007f\u202e\u001bü"), "{shown}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn nothing_in_a_text_is_unseen() {
        assert_eq!(visible("src/main.rs ü 日本"), "src/main.rs ü 日本");
        assert_eq!(
            visible("a\u{1b}[31m\n\u{202e}b\u{9b}\u{200b}"),
            "a\\u{1b}[31m\\u{a}\\u{202e}b\\u{9b}\\u{200b}"
        );
    }
}
