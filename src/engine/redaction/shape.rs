//! Tokens and passwords of URLs: what is found where a keyword stands.

use std::ops::Range;

use super::chars::is_word;
use super::rule::{Length, Token};

/// How far from a keyword that is no prefix its token may stand: before and behind.
const NEAR: (usize, usize) = (256, 1024);

/// The longest userinfo of a URL, with the host's name behind it.
const AUTHORITY: usize = 300;

/// Whether a token may begin at that place: no word goes on there.
///
/// What ends an escape (`\n`, `%3D`, `\u0022`, a colour of a terminal) is no part of a word.
pub(super) fn begins(text: &[u8], at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    match before.last() {
        None => true,
        // What stands right behind a placeholder belongs to what was replaced.
        Some(0xbb) => !before.ends_with("»".as_bytes()),
        Some(byte) if !is_word(*byte) => true,
        Some(_) => ends_escape(before),
    }
}

fn ends_escape(before: &[u8]) -> bool {
    let hex = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f' | b'v' | b'0'] => true,
        [.., b'%', a, b] => hex(&[*a, *b]),
        [.., b'\\', b'x', a, b] => hex(&[*a, *b]),
        [.., b'\\', b'u', a, b, c, d] => hex(&[*a, *b, *c, *d]),
        [.., b'm'] => {
            let codes = before.iter().rev().skip(1).take(12);
            let codes = codes.take_while(|byte| byte.is_ascii_digit() || **byte == b';');
            let start = before.len() - 1 - codes.count();
            before.get(..start).is_some_and(|head| head.ends_with(b"["))
        }
        _ => false,
    }
}

/// Whether a token may end at that place.
fn ends(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| !is_word(*byte))
        && !text
            .get(at..)
            .unwrap_or_default()
            .starts_with("«".as_bytes())
}

/// A match, and whether more text could have changed it.
#[derive(Debug, Default)]
pub(super) struct Matched {
    pub(super) span: Option<Range<usize>>,
    pub(super) open: bool,
}

/// The tokens of a rule near a keyword.
pub(super) fn tokens(
    text: &[u8],
    lower: &[u8],
    token: &Token,
    keyword: &Range<usize>,
    mut each: impl FnMut(Matched),
) {
    let word = lower.get(keyword.clone()).unwrap_or_default();
    let mut inside = false;
    for prefix in &token.prefixes {
        for (offset, part) in prefix.as_bytes().windows(word.len().max(1)).enumerate() {
            if part.eq_ignore_ascii_case(word) {
                inside = true;
                if let Some(start) = keyword.start.checked_sub(offset) {
                    each(token_at(text, token, prefix, start));
                }
            }
        }
    }
    // A keyword that is no part of a prefix stands beside the tokens.
    if !inside {
        near(text, token, keyword, each);
    }
}

/// The tokens around a keyword that stands beside them.
fn near(text: &[u8], token: &Token, keyword: &Range<usize>, mut each: impl FnMut(Matched)) {
    let start = keyword.start.saturating_sub(NEAR.0);
    let end = text.len().min(keyword.end + NEAR.1);
    let window = text.get(start..end).unwrap_or_default();
    for prefix in &token.prefixes {
        let wanted = prefix.as_bytes();
        for (at, found) in window.windows(wanted.len().max(1)).enumerate() {
            if same(found, wanted, token.ignore_case) {
                each(token_at(text, token, prefix, start + at));
            }
        }
    }
    if keyword.end + NEAR.1 > text.len() {
        each(Matched {
            span: None,
            open: true,
        });
    }
}

fn same(a: &[u8], b: &[u8], ignore_case: bool) -> bool {
    a == b || ignore_case && a.eq_ignore_ascii_case(b)
}

fn token_at(text: &[u8], token: &Token, prefix: &str, start: usize) -> Matched {
    let none = |open| Matched { span: None, open };
    let body = start + prefix.len();
    let Some(head) = text.get(start..body) else {
        return none(true);
    };
    if !same(head, prefix.as_bytes(), token.ignore_case) {
        return none(false);
    }
    let inside = prefix.bytes().next().is_some_and(is_word) && !begins(text, start);
    if inside {
        return none(false);
    }
    let rest = text.get(body..).unwrap_or_default();
    let run = token.chars.run(token.length.enough(rest));
    let open = run == rest.len();
    if token.suffixes.is_empty() {
        let fits = token.length.admits(run) && ends(text, body + run);
        return Matched {
            span: fits.then_some(start..body + run),
            open,
        };
    }
    let end = token.suffixes.iter().find_map(|suffix| {
        (0..=run)
            .filter(|length| token.length.admits(*length))
            .map(|length| (body + length, body + length + suffix.len()))
            .find(|(from, to)| {
                let found = text.get(*from..*to).unwrap_or_default();
                same(found, suffix.as_bytes(), token.ignore_case) && ends(text, *to)
            })
            .map(|(_, to)| to)
    });
    Matched {
        span: end.map(|end| start..end),
        open: open || body + run + 64 > text.len(),
    }
}

/// The password of the URL whose `://` is the keyword.
pub(super) fn userinfo(text: &[u8], keyword: &Range<usize>, length: Length) -> Matched {
    let rest = text.get(keyword.end..).unwrap_or_default();
    let stop = |byte: u8| {
        byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'`<>/\\".contains(&byte)
    };
    let most = rest.get(..rest.len().min(AUTHORITY)).unwrap_or_default();
    let end = most.iter().position(|byte| stop(*byte));
    let authority = most.get(..end.unwrap_or(most.len())).unwrap_or_default();
    let open = end.is_none() && rest.len() < AUTHORITY;
    let span = authority
        .iter()
        .rposition(|byte| *byte == b'@')
        .and_then(|at| {
            let colon = authority.get(..at)?.iter().position(|byte| *byte == b':')?;
            length
                .admits(at - colon - 1)
                .then_some(keyword.end + colon + 1..keyword.end + at)
        });
    Matched { span, open }
}

#[cfg(test)]
mod tests {
    use super::super::chars::Chars;
    use super::*;

    fn token(prefix: &str, chars: &str, min: u32, max: u32) -> Token {
        Token {
            prefixes: vec![prefix.to_owned()],
            chars: Chars::parse(chars).unwrap(),
            length: Length { min, max },
            suffixes: Vec::new(),
            ignore_case: false,
        }
    }

    fn found<'t>(token: &Token, text: &'t str) -> Vec<&'t str> {
        let lower = text.to_ascii_lowercase();
        let keyword = token.prefixes[0].to_ascii_lowercase();
        let mut found = Vec::new();
        for (start, _) in lower.match_indices(&keyword) {
            let span = start..start + keyword.len();
            tokens(text.as_bytes(), lower.as_bytes(), token, &span, |matched| {
                found.extend(matched.span.and_then(|span| text.get(span)));
            });
        }
        found
    }

    #[test]
    fn a_token_is_the_whole_run() {
        let token = token("abc_", "alnum", 4, 6);
        assert_eq!(found(&token, "x=abc_12345;"), ["abc_12345"]);
        for text in [
            "abc_123",
            "abc_1234567",
            "abc_12345_",
            "xabc_12345",
            "ABC_12345",
        ] {
            assert_eq!(found(&token, text), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_escape_ends_before_a_token() {
        let token = token("abc_", "alnum", 4, 6);
        for before in [
            "\\n",
            "%3D",
            "\\u0022",
            "\\x22",
            "\u{1b}[33m",
            "\u{1b}[1;33m",
            "é",
        ] {
            assert_eq!(
                found(&token, &format!("a{before}abc_12345")),
                ["abc_12345"],
                "{before}"
            );
        }
        assert_eq!(found(&token, "«redacted:x#aaaaaaaa»abc_12345"), [""; 0]);
    }

    #[test]
    fn a_suffix_ends_a_token() {
        let mut token = token("sk-", "alnum", 4, 6);
        token.suffixes = vec!["END".to_owned()];
        assert_eq!(found(&token, "sk-1234END"), ["sk-1234END"]);
        assert_eq!(found(&token, "sk-1234567END sk-123END"), [""; 0]);
    }

    #[test]
    fn the_password_of_a_url_is_behind_its_first_colon() {
        let password = |text: &'static str| {
            let at = text.find("://").unwrap();
            let length = Length { min: 3, max: 0 };
            let found = userinfo(text.as_bytes(), &(at..at + 3), length).span;
            found.and_then(|span| text.get(span))
        };
        assert_eq!(password("a://u:p@ss:w@host/x"), Some("p@ss:w"));
        assert_eq!(password("a://:token@host"), Some("token"));
        assert_eq!(password("a://host:80/x@y:zzz@"), None);
        assert_eq!(password("a://u@host"), None);
        assert_eq!(password("a://u:p@host"), None);
    }
}
