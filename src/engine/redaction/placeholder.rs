//! What stands for a secret: `«redacted:RULE#h4x8»`.
//!
//! It is the same for the same secret within an installation, says nothing about it to anybody
//! without the installation's key, and is no token that any service would take. It has no quotes,
//! blanks or backslashes, so that it can stand wherever a secret stood.

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use memchr::memmem;
use sha2::Sha256;

use super::decode::{percent, unescape};

/// What every placeholder begins with.
const BEGIN: &str = "«redacted:";

/// What every placeholder ends with.
const END: &str = "»";

/// Characters of the fingerprint.
const FINGERPRINT: usize = 8;

/// The longest name of a rule.
const RULE: usize = 80;

/// So far around the word, escapes belong to a placeholder.
const AROUND: usize = 4 * (RULE + 32);

/// How a secret is told from another one: 40 bits that depend on the installation's key.
pub(super) fn fingerprint(key: &[u8], rule: &str, secret: &[u8], copy: u32) -> String {
    // HMAC takes keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return "a".repeat(FINGERPRINT);
    };
    mac.update(rule.as_bytes());
    mac.update(&[0]);
    mac.update(secret);
    if copy > 0 {
        mac.update(&copy.to_le_bytes());
    }
    let mut text = BASE32_NOPAD.encode(&mac.finalize().into_bytes());
    text.truncate(FINGERPRINT);
    text.make_ascii_lowercase();
    text
}

/// The placeholder of a rule and a fingerprint.
pub(super) fn placeholder(rule: &str, fingerprint: &str) -> String {
    format!("{BEGIN}{rule}#{fingerprint}{END}")
}

/// The text without the placeholders in it.
pub(super) fn without(text: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut kept = Vec::new();
    let mut any = false;
    while let Some(at) = memmem::find(rest, BEGIN.as_bytes()) {
        let (before, from) = rest.split_at_checked(at)?;
        kept.extend_from_slice(before);
        match length(from) {
            Some(length) => {
                any = true;
                rest = from.get(length..)?;
            }
            None => {
                kept.extend_from_slice(BEGIN.as_bytes());
                rest = from.get(BEGIN.len()..)?;
            }
        }
    }
    kept.extend_from_slice(rest);
    any.then_some(kept)
}

/// Whether a secret is nothing but placeholders, and what separates them.
pub(super) fn is_one(secret: &[u8]) -> bool {
    without(secret).is_some_and(|rest| !rest.iter().any(u8::is_ascii_alphanumeric))
}

/// The length of the placeholder that the text begins with.
fn length(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(BEGIN.as_bytes())?;
    let rule = rest
        .iter()
        .take(RULE + 1)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        .count();
    let rest = rest.get(rule..)?.strip_prefix(b"#")?;
    let (digits, rest) = rest.split_at_checked(FINGERPRINT)?;
    let legal = |byte: &u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
    ((1..=RULE).contains(&rule) && digits.iter().all(legal) && rest.starts_with(END.as_bytes()))
        .then_some(BEGIN.len() + rule + 1 + FINGERPRINT + END.len())
}

/// Whether a placeholder is in the text, also with its special characters escaped as in URLs,
/// JSON, HTML or a program's source, and also once more on top of that.
#[must_use]
pub fn contains_placeholder(text: &str) -> bool {
    memmem::find_iter(text.as_bytes(), "redacted").any(|at| {
        let start = at.saturating_sub(AROUND);
        let end = text.len().min(at + AROUND);
        let window = text.as_bytes().get(start..end).unwrap_or_default();
        holds(window.to_vec(), 3)
    })
}

fn holds(text: Vec<u8>, depth: usize) -> bool {
    let found = memmem::find_iter(&text, BEGIN.as_bytes())
        .any(|at| text.get(at..).and_then(length).is_some());
    if found || depth == 0 {
        return found;
    }
    let decoded = percent(&text, 0..text.len()).bytes;
    let unescaped = unescape(&text, 0..text.len()).map(|view| view.bytes);
    let latin = latin(&text);
    [Some(decoded), unescaped, latin]
        .into_iter()
        .flatten()
        .filter(|other| *other != text)
        .any(|other| holds(other, depth - 1))
}

/// The marks as one byte each, or as HTML writes them, put back.
fn latin(text: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(text);
    let mut other = text.replace("&laquo;", "«").replace("&raquo;", END);
    for (written, mark) in [
        ("&#171;", "«"),
        ("&#187;", END),
        ("&#xab;", "«"),
        ("&#xbb;", END),
        ("\\xc2\\xab", "«"),
        ("\\xc2\\xbb", END),
        ("\\302\\253", "«"),
        ("\\302\\273", END),
        ("\\xab", "«"),
        ("\\xbb", END),
        ("\\u{ab}", "«"),
        ("\\u{bb}", END),
    ] {
        let capitals = written.replace("ab", "AB").replace("bb", "BB");
        for written in [written, &capitals, &capitals.replace("c2", "C2")] {
            other = other.replace(written, mark);
        }
    }
    (other != text).then(|| other.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_depends_on_key_rule_and_secret() {
        let one = fingerprint(b"k", "r", b"s", 0);
        assert_eq!(one, fingerprint(b"k", "r", b"s", 0));
        for other in [
            fingerprint(b"x", "r", b"s", 0),
            fingerprint(b"k", "x", b"s", 0),
            fingerprint(b"k", "r", b"x", 0),
            fingerprint(b"k", "r", b"s", 1),
        ] {
            assert_ne!(one, other);
        }
        assert!(contains_placeholder(&placeholder("a-b", &one)));
    }

    #[test]
    fn escaped_placeholders_are_known() {
        for text in [
            "curl -H 'x: «redacted:github-pat#abcd2345»'",
            "%C2%ABredacted:github-pat%23abcd2345%C2%BB",
            "%C2%ABredacted%3Agithub-pat%23abcd2345%C2%BB",
            "%25C2%25ABredacted%253Agithub-pat%2523abcd2345%25C2%25BB",
            r"\u00abredacted:github-pat#abcd2345\u00bb",
            r"\\u00abredacted:github-pat\\u0023abcd2345\\u00bb",
            r"\u00ABredacted:x#abcd2345\u00BB",
            r"\xc2\xabredacted:x#abcd2345\xc2\xbb",
            r"$'\302\253redacted:x#abcd2345\302\273'",
            "&laquo;redacted:x#abcd2345&raquo;",
            "&#xab;redacted:x#abcd2345&#xBB;",
        ] {
            assert!(contains_placeholder(text), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_placeholders() {
        for text in [
            "",
            "redacted",
            "«redacted»",
            "[REDACTED:github-pat#1]",
            "«redacted:x#abcd234»",
            "«redacted:#abcd2345»",
            "«redacted:x#ABCD2345»",
            "«redacted:x#abcd2345",
        ] {
            assert!(!contains_placeholder(text), "{text}");
        }
    }

    #[test]
    fn what_is_left_without_placeholders() {
        let left =
            |text: &str| without(text.as_bytes()).map(|rest| String::from_utf8(rest).unwrap());
        assert_eq!(left("a«redacted:x#abcd2345»b"), Some("ab".to_owned()));
        assert_eq!(left("«redacted:x»"), None);
    }
}
