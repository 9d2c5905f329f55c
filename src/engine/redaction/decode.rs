//! What else a text says: escapes, percent-encoding and colours of terminals undone, with the way
//! back.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem};

use super::Encoding;
use super::encoded::decoded_runs;
use super::scan::earlier;
use super::view::View;
use super::wrapped::unwrapped;

/// Around a keyword, escapes are undone so far: before and behind.
const AROUND: (usize, usize) = (256, 4096);

/// Readings of a text.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// Each of them.
    pub(super) views: Vec<View>,
    /// From here on, more text could make one longer.
    pub(super) open: Option<usize>,
}

impl Readings {
    /// Notes that a reading that begins there could go on.
    pub(super) fn open_from(&mut self, start: usize) {
        self.open = earlier(self.open, start);
    }
}

/// Every reading of a text but the text itself. `hits` are where keywords stand in it, in order.
pub(super) fn readings(text: &[u8], hits: &[usize]) -> Readings {
    let mut readings = Readings::default();
    plain_of_terminal(text, &mut readings);
    unescaped(text, hits, &mut readings);
    percent_decoded(text, &mut readings);
    decoded_runs(text, &mut readings);
    unwrapped(text, hits, &mut readings);
    readings
}

/// The text without the sequences that steer a terminal.
fn plain_of_terminal(text: &[u8], readings: &mut Readings) {
    const ESCAPE: u8 = 0x1b;
    if memchr(ESCAPE, text).is_none() {
        return;
    }
    let mut view = View::new(Encoding::Ansi);
    let mut done = 0;
    for start in memchr_iter(ESCAPE, text) {
        if start < done {
            continue;
        }
        view.verbatim(text, done..start);
        done = start + control_length(text.get(start..).unwrap_or_default());
        if done >= text.len() {
            readings.open_from(start);
        }
    }
    view.verbatim(text, done..text.len());
    readings.views.push(view);
}

fn control_length(text: &[u8]) -> usize {
    let rest = text.get(2..).unwrap_or_default();
    match text.get(1) {
        Some(b'[') => {
            let last = rest.iter().position(|byte| !(0x20..0x40).contains(byte));
            last.map_or(text.len(), |at| at + 3)
        }
        // A link or a title ends with a bell or another escape.
        Some(b']') => {
            let last = rest
                .iter()
                .position(|byte| matches!(byte, 0x07 | 0x1b | b'\n'));
            last.map_or(text.len(), |at| at + 3)
        }
        Some(_) => 2,
        None => 1,
    }
}

/// What escapes around keywords, and letters written as escapes, stand for.
fn unescaped(text: &[u8], hits: &[usize], readings: &mut Readings) {
    if memchr(b'\\', text).is_none() {
        return;
    }
    let mut regions: Vec<Range<usize>> = Vec::new();
    for hit in hits {
        let start = hit.saturating_sub(AROUND.0);
        let end = text.len().min(hit + AROUND.1);
        add(&mut regions, line_within(text, start..end, *hit));
    }
    for marker in [&b"\\u00"[..], b"\\x"] {
        for at in memmem::find_iter(text, marker) {
            if regions
                .iter()
                .rev()
                .take(4)
                .any(|known| known.contains(&at))
            {
                continue;
            }
            regions.push(run_around(text, at, |byte| !byte.is_ascii_whitespace()));
        }
    }
    regions.sort_by_key(|region| region.start);
    let mut done = 0;
    for region in regions {
        let region = region.start.max(done)..region.end;
        let bytes = text.get(region.clone()).unwrap_or_default();
        if memchr(b'\\', bytes).is_some() {
            if region.end == text.len() {
                readings.open_from(region.start);
            }
            readings.views.extend(unescape(text, region.clone()));
            done = region.end;
        }
    }
}

fn add(regions: &mut Vec<Range<usize>>, region: Range<usize>) {
    match regions.last_mut() {
        Some(last) if region.start <= last.end => last.end = last.end.max(region.end),
        _ => regions.push(region),
    }
}

/// The part of a region that is in the same line as `at`.
pub(super) fn line_within(text: &[u8], region: Range<usize>, at: usize) -> Range<usize> {
    let before = text.get(region.start..at).unwrap_or_default();
    let behind = text.get(at..region.end).unwrap_or_default();
    let start = memchr::memrchr(b'\n', before).map_or(region.start, |i| region.start + i + 1);
    let end = memchr(b'\n', behind).map_or(region.end, |i| at + i);
    start..end
}

/// The bytes around `at` that fit, within reason.
fn run_around(text: &[u8], at: usize, fits: impl Fn(u8) -> bool) -> Range<usize> {
    const REACH: usize = 4096;
    let before = text.get(..at).unwrap_or_default().iter().rev();
    let behind = text.get(at..).unwrap_or_default().iter();
    let back = before.take(REACH).take_while(|b| fits(**b)).count();
    let forth = behind.take(REACH).take_while(|b| fits(**b)).count();
    at - back..at + forth
}

/// A part of the text with its escapes undone, as JSON and most languages write them.
pub(super) fn unescape(text: &[u8], region: Range<usize>) -> Option<View> {
    let mut view = View::new(Encoding::Escaped);
    unescape_into(&mut view, text, region).then_some(view)
}

/// The same, added to a view. False: there were no escapes.
pub(super) fn unescape_into(view: &mut View, text: &[u8], region: Range<usize>) -> bool {
    let mut done = region.start;
    let mut at = region.start;
    let mut any = false;
    while let Some(next) = text
        .get(at..region.end)
        .and_then(|rest| memchr(b'\\', rest))
    {
        let start = at + next;
        let rest = text.get(start..region.end).unwrap_or_default();
        let (bytes, length) = escape(rest);
        if length == 0 {
            at = start + 1;
            continue;
        }
        any = true;
        view.verbatim(text, done..start);
        view.decoded(
            bytes.encode_utf8(&mut [0; 4]).as_bytes(),
            start..start + length,
        );
        done = start + length;
        at = done;
    }
    view.verbatim(text, done..region.end);
    any
}

/// What an escape at the start of the text stands for, and its length; 0: it is none.
fn escape(text: &[u8]) -> (char, usize) {
    let one = |c| (c, 2);
    match text {
        [_, b'n', ..] => one('\n'),
        [_, b't', ..] => one('\t'),
        [_, b'r', ..] => one('\r'),
        [_, b'b', ..] => one('\u{8}'),
        [_, b'f', ..] => one('\u{c}'),
        [_, byte @ (b'"' | b'\'' | b'\\' | b'/' | b'`'), ..] => one(char::from(*byte)),
        [_, b'x', digits @ ..] => match number(digits, 2) {
            Some(code) if code < 0x80 => (char::from(code as u8), 4),
            _ => ('\0', 0),
        },
        [_, b'u', digits @ ..] => unicode(digits),
        _ => ('\0', 0),
    }
}

fn unicode(digits: &[u8]) -> (char, usize) {
    let Some(first) = number(digits, 4) else {
        return ('\0', 0);
    };
    if let Some(c) = char::from_u32(first) {
        return (c, 6);
    }
    // A surrogate: the other half follows, or there is no such character.
    let second = match digits.get(4..) {
        Some([b'\\', b'u', rest @ ..]) => number(rest, 4),
        _ => None,
    };
    match second {
        Some(second @ 0xdc00..=0xdfff) if first < 0xdc00 => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or('\u{fffd}'), 12)
        }
        _ => ('\u{fffd}', 6),
    }
}

/// The number that so many hexadecimal digits say.
pub(super) fn number(digits: &[u8], count: usize) -> Option<u32> {
    digits.get(..count)?.iter().try_fold(0, |number, digit| {
        Some(number << 4 | char::from(*digit).to_digit(16)?)
    })
}

/// What runs with `%41` in them stand for.
fn percent_decoded(text: &[u8], readings: &mut Readings) {
    let mut done = 0;
    for at in memchr_iter(b'%', text) {
        let digits = text.get(at + 1..).unwrap_or_default();
        if at < done || number(digits, 2).is_none() {
            continue;
        }
        let run = run_around(text, at, |byte| {
            !byte.is_ascii_whitespace() && !b"\"'`<>\\".contains(&byte)
        });
        let run = run.start.max(done)..run.end;
        done = run.end;
        if run.end == text.len() {
            readings.open_from(run.start);
        }
        readings.views.push(percent(text, run));
    }
}

/// A part of the text with `%41` and the like undone.
pub(super) fn percent(text: &[u8], run: Range<usize>) -> View {
    let mut view = View::new(Encoding::Percent);
    let mut from = run.start;
    while let Some(next) = text.get(from..run.end).and_then(|rest| memchr(b'%', rest)) {
        let at = from + next;
        let digits = text.get(at + 1..run.end).unwrap_or_default();
        match number(digits, 2) {
            Some(code) => {
                view.verbatim(text, from..at);
                view.decoded(&[code as u8], at..at + 3);
                from = at + 3;
            }
            None => {
                view.verbatim(text, from..at + 1);
                from = at + 1;
            }
        }
    }
    view.verbatim(text, from..run.end);
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, hits: &[usize]) -> Vec<String> {
        let readings = readings(text.as_bytes(), hits);
        let text = |view: &View| String::from_utf8_lossy(&view.bytes).into_owned();
        readings.views.iter().map(text).collect()
    }

    #[test]
    fn colours_are_taken_out() {
        let text = "\u{1b}[1;32mKEY\u{1b}[0m=\u{1b}]8;;x\u{7}v\u{1b}[";
        assert_eq!(read(text, &[]), ["KEY=v"]);
    }

    #[test]
    fn escapes_are_undone_where_a_keyword_stands() {
        let text = r#"{\"key\": \"a\u0041\u00e9\ud83d\ude00\/\x41\q\"}"#;
        assert_eq!(read(text, &[3]), ["{\"key\": \"aAé😀/A\\q\"}"]);
        assert_eq!(read("a\\nb", &[]), [""; 0]);
        assert_eq!(read("\\u0041bc \\ud800x", &[]), ["Abc"]);
    }

    #[test]
    fn percents_are_undone() {
        assert_eq!(read("a=%22b%3D1%25x c 100% %zz", &[]), ["a=\"b=1%x"]);
    }

    #[test]
    fn what_could_go_on_is_open() {
        for (text, open) in [
            ("a b ", None),
            ("a b%41", Some(2)),
            ("a b.\u{1b}[3", Some(4)),
            ("a bcd", Some(2)),
        ] {
            assert_eq!(readings(text.as_bytes(), &[]).open, open, "{text}");
        }
    }
}
