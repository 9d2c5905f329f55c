//! Lines, and what tools put before and behind the text of one.

use std::ops::Range;

/// Where the text of a line stands, within what tools, quotes and comments put around it.
pub(super) fn content(line: &[u8]) -> Range<usize> {
    let text = without_lead(line);
    let start = line.len() - text.len();
    start..start + without_tail(text).len()
}

/// The text of a line.
pub(super) fn bare(line: &[u8]) -> &[u8] {
    without_tail(without_lead(line))
}

fn without_lead(mut line: &[u8]) -> &[u8] {
    loop {
        let before = line.len();
        line = line.trim_ascii_start();
        line = match line {
            [
                b'"' | b'\'' | b'`' | b'>' | b'|' | b'#' | b'*' | b'\\',
                rest @ ..,
            ] => rest,
            [b'/', b'/', rest @ ..] => rest,
            [b'+' | b'-', rest @ ..] if !rest.starts_with(b"-") => rest,
            _ => behind_number(line),
        };
        if line.len() == before {
            return line;
        }
    }
}

fn without_tail(mut line: &[u8]) -> &[u8] {
    loop {
        let before = line.len();
        line = line.trim_ascii_end();
        if let [rest @ .., b'"' | b'\'' | b'`' | b',' | b'\\' | b'|' | b';'] = line {
            line = rest;
        }
        if line.len() == before {
            return line;
        }
    }
}

/// Goes behind a line's number, and the name of its file before it.
fn behind_number(line: &[u8]) -> &[u8] {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let count = digits(line);
    if count > 0 {
        if let Some([b'\t' | b':' | b'-' | b'|' | b' ' | b'.', rest @ ..]) = line.get(count..) {
            return rest;
        }
        if let Some(rest) = line
            .get(count..)
            .and_then(|rest| rest.strip_prefix("→".as_bytes()))
        {
            return rest;
        }
        return line;
    }
    // `path/to/file:12:` and `path/to/file-12-`
    let mut at = 0;
    while let Some(next) = line
        .get(at..)
        .and_then(|rest| rest.iter().position(|byte| *byte == b':' || *byte == b'-'))
    {
        at += next + 1;
        let rest = line.get(at..).unwrap_or_default();
        let count = digits(rest);
        let mark = line.get(at - 1);
        if (1..=7).contains(&count) && rest.get(count) == mark {
            return rest.get(count + 1..).unwrap_or_default();
        }
        if at > 200 {
            break;
        }
    }
    line
}

/// Lines of a text, where an escaped line feed ends a line too.
pub(super) struct Lines<'t> {
    /// The text.
    pub(super) text: &'t [u8],
    /// Where the next line begins.
    pub(super) at: usize,
}

impl Iterator for Lines<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        let mut previous = 0;
        for (index, byte) in rest.iter().enumerate() {
            let escaped = previous == b'\\' && matches!(byte, b'n' | b'r');
            if *byte == b'\n' || escaped {
                self.at = start + index + 1;
                let end = if escaped { index - 1 } else { index };
                return Some(start..start + end);
            }
            previous = *byte;
        }
        self.at = self.text.len();
        Some(start..self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_line_is_found_within_what_is_around_it() {
        for line in [
            "QUJD",
            "  QUJD\r",
            "+QUJD",
            "     2\tQUJD",
            "  2→QUJD",
            "12:QUJD",
            "a/b-c.txt:12:QUJD",
            "a-b.txt-12-QUJD",
            "# QUJD",
            " * QUJD",
            "// QUJD",
            "> > QUJD",
            "\"QUJD\" \\",
            "'QUJD',",
        ] {
            assert_eq!(line.get(content(line.as_bytes())), Some("QUJD"), "{line}");
        }
    }

    #[test]
    fn dashes_are_no_sign_of_a_difference() {
        assert_eq!(bare(b"-----END"), b"-----END");
    }
}
