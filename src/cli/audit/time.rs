//! Times on the command line: a day, an instant, or how long ago.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

/// Not before.
pub(in crate::cli) fn since(text: &str) -> Result<Timestamp, String> {
    time(text, false)
}

/// Before.
pub(in crate::cli) fn until(text: &str) -> Result<Timestamp, String> {
    time(text, true)
}

/// A day, a time, or how long ago. The end of a day is the beginning of the next.
fn time(text: &str, end: bool) -> Result<Timestamp, String> {
    let wrong = || "it is a day, a time in UTC, or how long ago: `2026-01-02`, `7d`".to_owned();
    if let Ok(day) = text.parse::<Date>()
        && !text.contains(['T', 't', ' '])
    {
        let day = if end { day.tomorrow() } else { Ok(day) };
        let start = day.and_then(|day| day.to_zoned(TimeZone::UTC));
        return start.map(|start| start.timestamp()).map_err(|_| wrong());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let span: Span = text.parse().map_err(|_| wrong())?;
    let ago = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| wrong())?;
    if ago.is_negative() {
        return Err(wrong());
    }
    Timestamp::now().checked_sub(ago).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_days_times_or_how_long_ago() {
        let at = |text: &str| time(text, false).unwrap().to_string();
        assert_eq!(at("2026-01-02"), "2026-01-02T00:00:00Z");
        assert_eq!(
            time("2026-01-02", true).unwrap().to_string(),
            "2026-01-03T00:00:00Z"
        );
        assert_eq!(at("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z");
        let ago = Timestamp::now().duration_since(time("7d", false).unwrap());
        assert_eq!((ago.as_secs() + 30) / 3600, 7 * 24);
        assert!(time("1w", true).unwrap() < time("90m", false).unwrap());
        for wrong in ["", "soon", "2026-13-01", "-7d"] {
            assert!(time(wrong, false).is_err(), "{wrong}");
        }
    }
}
