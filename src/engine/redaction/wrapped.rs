//! Lines that were one line before something wrapped them.

use std::ops::Range;

use memchr::{memchr, memrchr};

use super::Encoding;
use super::decode::{Readings, line_within};
use super::encoded::is_base64;
use super::lines::{bare, content};
use super::view::View;

/// A line of fewer bytes was not wrapped.
const LINE_MIN: usize = 40;

/// Where programs wrap lines, if nobody tells them otherwise.
const WIDTHS: [usize; 10] = [64, 70, 72, 76, 78, 79, 80, 100, 120, 132];

/// A keyword that is farther from the end of its line is in no secret that the next line goes on
/// with.
const TAIL: usize = 300;

/// So many lines of one wrapped secret, at most.
const LINES: usize = 6;

/// A base64 text that goes on in the next lines, and whether more text could make it longer.
pub(super) fn wrapped_run(text: &[u8], first: Range<usize>) -> (Option<View>, bool) {
    let mut view = View::new(Encoding::Wrapped);
    let width = first.len();
    let mut end = first.end;
    view.verbatim(text, first);
    let open = loop {
        let rest = text.get(end..).unwrap_or_default();
        let Some(newline) = rest.iter().take(8).position(|byte| *byte == b'\n') else {
            break rest.len() < 8 && bare(rest).is_empty();
        };
        if !bare(rest.get(..newline).unwrap_or_default()).is_empty() {
            break false;
        }
        let from = end + newline + 1;
        let below = text.get(from..).unwrap_or_default();
        let last = memchr(b'\n', below);
        let line = below.get(..last.unwrap_or(below.len())).unwrap_or_default();
        let inner = content(line);
        let letters = line.get(inner.clone()).unwrap_or_default();
        let length = letters.iter().take_while(|byte| is_base64(**byte)).count();
        if letters.is_empty() && last.is_none() {
            break true;
        }
        if length == 0 || length > width || letters.len() - length > 2 {
            break false;
        }
        end = from + inner.start + length;
        view.verbatim(text, from + inner.start..end);
        if length < width {
            break last.is_none();
        }
    };
    let view = (view.bytes.len() > width).then(|| {
        let padding = text.get(end..).unwrap_or_default();
        let padding = padding
            .iter()
            .take(2)
            .take_while(|byte| **byte == b'=')
            .count();
        view.verbatim(text, end..end + padding);
        view
    });
    (view, open)
}

/// Secrets that a terminal or a mail program cut at the end of a line.
pub(super) fn unwrapped(text: &[u8], hits: &[usize], readings: &mut Readings) {
    let mut done = 0;
    for hit in hits {
        if *hit < done {
            continue;
        }
        let rest = text.get(*hit..).unwrap_or_default();
        let near = rest.get(..rest.len().min(TAIL)).unwrap_or_default();
        let Some(end) = memchr(b'\n', near) else {
            continue;
        };
        let line = line_within(text, 0..text.len(), *hit);
        done = hit + end;
        if line.len() >= LINE_MIN {
            joined(text, &line, *hit, readings);
        }
    }
}

/// Adds a line with the ones below that go on with it.
fn joined(text: &[u8], line: &Range<usize>, hit: usize, readings: &mut Readings) {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-.~%".contains(byte);
    let upper = text.get(line.clone()).unwrap_or_default();
    let bytes = upper.trim_ascii_end();
    if !bytes.last().is_some_and(goes_on) {
        return;
    }
    let mut view = View::new(Encoding::Wrapped);
    // What stands before the keyword says whether something begins there.
    let start = line.start.max(hit.saturating_sub(TAIL));
    view.verbatim(text, start..line.start + bytes.len());
    let mut end = line.end;
    for count in 0..LINES {
        let Some(below) = text.get(end + 1..) else {
            readings.open_from(start);
            return;
        };
        let last = memchr(b'\n', below);
        if last.is_none() {
            readings.open_from(start);
        }
        let next = below.get(..last.unwrap_or(below.len())).unwrap_or_default();
        if count == 0 && !is_wrapped(text, line, next.len()) {
            return;
        }
        let inner = content(next);
        let letters = next.get(inner.clone()).unwrap_or_default();
        if !letters.first().is_some_and(goes_on) {
            break;
        }
        let from = end + 1 + inner.start;
        view.verbatim(text, from..from + letters.len());
        end += 1 + next.len();
        if next.len() < line.len() || !letters.last().is_some_and(goes_on) {
            break;
        }
    }
    if end > line.end {
        readings.views.push(view);
    }
}

/// Whether a line looks like one that was wrapped: it is as long as its neighbours, or as long as
/// lines of usual widths are.
fn is_wrapped(text: &[u8], line: &Range<usize>, below: usize) -> bool {
    let above = line.start.checked_sub(1).map(|newline| {
        let before = text.get(..newline).unwrap_or_default();
        newline - memrchr(b'\n', before).map_or(0, |start| start + 1)
    });
    let width = line.len();
    WIDTHS.contains(&width) && below <= width || above == Some(width) || below == width
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(text: &str) -> (Option<String>, bool) {
        let end = text.find('\n').unwrap_or(text.len());
        let line = text.get(..end).unwrap().trim_end_matches(['\r', '"', ',']);
        let end = line.len();
        let start = line.rfind([' ', '\t', '"']).map_or(0, |at| at + 1);
        let (view, open) = wrapped_run(text.as_bytes(), start..end);
        (
            view.map(|view| String::from_utf8(view.bytes).unwrap()),
            open,
        )
    }

    #[test]
    fn lines_of_base64_are_one() {
        let line = "QUJD".repeat(19);
        let whole = format!("{line}{line}QUI=");
        for text in [
            format!("{line}\n{line}\nQUI=\n"),
            format!("{line}\r\n{line}\r\nQUI=\r\n"),
            format!("  {line}\n  {line}\n  QUI=\nx"),
            format!("     1\t{line}\n     2\t{line}\n     3\tQUI=\n"),
            format!("\"{line}\",\n\"{line}\",\n\"QUI=\"\n"),
        ] {
            assert_eq!(base64(&text), (Some(whole.clone()), false), "{text}");
        }
        assert_eq!(base64(&format!("{line}\nsome words\n")), (None, false));
        assert_eq!(base64(&format!("{line}\n")), (None, true));
    }

    fn lines(text: &str, keyword: &str) -> Vec<String> {
        let mut readings = Readings::default();
        unwrapped(
            text.as_bytes(),
            &[text.find(keyword).unwrap()],
            &mut readings,
        );
        let text = |view: &View| String::from_utf8_lossy(&view.bytes).into_owned();
        readings.views.iter().map(text).collect()
    }

    #[test]
    fn lines_are_joined_where_they_were_wrapped() {
        let words = "some words and ".repeat(5);
        let upper = format!("{}key=abc", words.get(..73).unwrap());
        assert_eq!(upper.len(), 80);
        assert_eq!(
            lines(&format!("{upper}\ndef\n"), "key"),
            [format!("{upper}def")]
        );
        let odd = format!("{}key=abc", words.get(..60).unwrap());
        assert_eq!(lines(&format!("{odd}\ndef\n"), "key"), [""; 0]);
        assert_eq!(
            lines(&format!("{}\n{odd}\ndef\n", "x".repeat(67)), "key").len(),
            1
        );
        assert_eq!(lines(&format!("{upper};\ndef\n"), "key"), [""; 0]);
        assert_eq!(lines("key=abc\ndef\n", "key"), [""; 0]);
    }
}
