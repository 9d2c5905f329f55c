//! Runs of base64 and of hexadecimal digits, and what they stand for where that is text.

use std::ops::Range;

use super::Encoding;
use super::decode::{Readings, number};
use super::view::View;
use super::wrapped::wrapped_run;

/// A base64 run of fewer bytes holds no secret that could be told.
const BASE64_MIN: usize = 20;

/// The same for hexadecimal digits, two for each byte.
const HEX_MIN: usize = 24;

/// So many bytes of a decoded run show whether it is text.
const SAMPLE: usize = 12;

/// A line of base64 of fewer bytes was not wrapped.
const LINE_MIN: usize = 40;

/// What runs of base64 and of hexadecimal digits stand for, where that is text.
pub(super) fn decoded_runs(text: &[u8], readings: &mut Readings) {
    let mut at = BASE64_MIN - 1;
    let mut done = 0;
    while let Some(byte) = text.get(at) {
        if !is_base64(*byte) {
            at += BASE64_MIN;
            continue;
        }
        // Every run that is long enough holds one of the bytes that are looked at.
        let before = text.get(done..at).unwrap_or_default();
        let back = before.iter().rev().take_while(|b| is_base64(**b)).count();
        let behind = text.get(at..).unwrap_or_default();
        let forth = behind.iter().take_while(|b| is_base64(**b)).count();
        let run = at - back..at + forth;
        done = run.end;
        at = run.end + BASE64_MIN;
        let mut open = run.end == text.len();
        if run.len() >= LINE_MIN {
            let (view, goes_on) = wrapped_run(text, run.clone());
            open |= goes_on;
            if let Some(view) = view {
                done = view.end();
                at = done + BASE64_MIN;
                readings.views.push(view);
            }
        }
        if open {
            readings.open_from(run.start);
        }
        if run.len() >= BASE64_MIN {
            readings.views.extend(decoded_run(text, run));
        }
    }
    // A run that is too short yet may be going on.
    let last = text
        .iter()
        .rev()
        .take_while(|byte| is_base64(**byte))
        .count();
    if last > 0 {
        readings.open_from(text.len() - last);
    }
}

/// Whether the byte is a letter of base64, in either alphabet.
#[inline]
pub(super) const fn is_base64(byte: u8) -> bool {
    // As bits, for the bytes from 0 and from 64: half of all bytes of a text are asked for.
    const LOW: u64 = 1 << b'+' | 1 << b'-' | 1 << b'/' | 0x3ff << b'0';
    const HIGH: u64 = 0x3ff_ffff << 1 | 1 << (b'_' - 64) | 0x3ff_ffff << (b'a' - 64);
    let bits = match byte >> 6 {
        0 => LOW,
        1 => HIGH,
        _ => 0,
    };
    bits >> (byte & 63) & 1 == 1
}

/// What one run stands for, or a part of it behind a `/`, `-`, `_` or `+`.
fn decoded_run(text: &[u8], run: Range<usize>) -> Option<View> {
    let bytes = text.get(run.clone())?;
    if let Some(view) = hex_run(bytes, &run) {
        return Some(view);
    }
    let separators = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| !byte.is_ascii_alphanumeric())
        .map(|(index, _)| index + 1);
    for start in std::iter::once(0).chain(separators).take(16) {
        let part = bytes.get(start..).filter(|part| part.len() >= BASE64_MIN)?;
        let sample = part.get(..SAMPLE.div_ceil(3) * 4).unwrap_or(part);
        if !may_be_text(sample.chunks(4).flat_map(group)) {
            continue;
        }
        if let Some(decoded) = text_of(part.chunks(4).flat_map(group).collect()) {
            let padding = text.get(run.end..).unwrap_or_default();
            let padding = padding.iter().take(2).take_while(|b| **b == b'=').count();
            let original = run.start + start..run.end + padding;
            return Some(View::whole(Encoding::Base64, decoded, original));
        }
    }
    None
}

/// What a run of hexadecimal digits stands for, if it is one.
fn hex_run(bytes: &[u8], run: &Range<usize>) -> Option<View> {
    let even = bytes.len() >= HEX_MIN && bytes.len().is_multiple_of(2);
    let pairs = || {
        bytes
            .chunks(2)
            .map_while(|pair| number(pair, 2).map(|code| code as u8))
    };
    if !even || !may_be_text(pairs().take(SAMPLE)) || pairs().count() < bytes.len() / 2 {
        return None;
    }
    let decoded = text_of(pairs().collect())?;
    Some(View::whole(Encoding::Hex, decoded, run.clone()))
}

/// Whether bytes can be the beginning of a text: most that are none are dismissed by the first.
fn may_be_text(bytes: impl Iterator<Item = u8>) -> bool {
    let (mut count, mut zero, mut follow) = (0, 0, 0);
    for byte in bytes {
        count += 1;
        let fits = match (byte, follow) {
            (0x80..=0xbf, 1..) => {
                follow -= 1;
                true
            }
            (_, 1..) => false,
            // In UTF-16, every other byte of plain letters is zero.
            (0, _) => {
                zero += 1;
                count % 2 == 0
            }
            (b'\t' | b'\n' | b'\r' | 0x0c | 0x1b | 0x20..=0x7e, _) => true,
            (0xc2..=0xdf, _) => {
                follow = 1;
                true
            }
            (0xe0..=0xef, _) => {
                follow = 2;
                true
            }
            (0xf0..=0xf4, _) => {
                follow = 3;
                true
            }
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    count > 0 && (zero == 0 || zero * 3 > count)
}

/// The bytes of four letters of base64, in either alphabet; of fewer, as many as they say.
fn group(letters: &[u8]) -> impl Iterator<Item = u8> {
    let bits = letters.iter().fold(0_u32, |bits, byte| {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits << 6 | u32::from(six)
    });
    let count = letters.len();
    let missing = 4_usize.saturating_sub(count);
    let bytes = (bits << (6 * missing)).to_be_bytes();
    bytes.into_iter().skip(1).take(count.saturating_sub(1))
}

/// The text that the bytes are, if they are one: UTF-8, or UTF-16 of plain letters.
fn text_of(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let wide = bytes.len() >= 8
        && bytes
            .chunks(2)
            .all(|pair| pair.get(1).is_none_or(|b| *b == 0));
    if wide {
        bytes = bytes
            .chunks(2)
            .filter_map(|pair| pair.first().copied())
            .collect();
    }
    let odd = bytes
        .iter()
        .filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
        .count();
    let valid = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    // A cut may go through the last character.
    (odd * 32 <= bytes.len() && valid + 3 >= bytes.len() && !bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Vec<String> {
        let mut readings = Readings::default();
        decoded_runs(text.as_bytes(), &mut readings);
        let text = |view: View| String::from_utf8_lossy(&view.bytes).into_owned();
        readings.views.into_iter().map(text).collect()
    }

    #[test]
    fn text_in_base64_and_hex_is_read() {
        let plain = "PASSWORD=abc/def?ghi>jkl";
        let base64 = data_encoding::BASE64.encode(plain.as_bytes());
        let url = data_encoding::BASE64URL_NOPAD.encode(plain.as_bytes());
        let hex = data_encoding::HEXUPPER.encode(plain.as_bytes());
        for text in [
            base64.clone(),
            format!("a: {base64}"),
            format!("v={url}&x"),
            format!("/a/b/{base64}"),
            format!("x_{url}."),
            format!("0x {hex}"),
            hex,
        ] {
            assert_eq!(decoded(&text), [plain], "{text}");
        }
        let wide: Vec<u8> = plain.bytes().flat_map(|byte| [byte, 0]).collect();
        assert_eq!(decoded(&data_encoding::BASE64.encode(&wide)), [plain]);
    }

    #[test]
    fn letters_are_those_of_both_alphabets() {
        for byte in 0..=u8::MAX {
            let letter = byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
            assert_eq!(is_base64(byte), letter, "{byte}");
        }
    }

    #[test]
    fn what_is_no_text_is_left() {
        for text in [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "0.1.2-alpha",
            "aGVsbG8=",
            "node_modules/some-package-name/dist/index.js",
        ] {
            assert_eq!(decoded(text), [""; 0], "{text}");
        }
    }
}
