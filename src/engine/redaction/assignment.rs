//! What an identifier is given: the operator behind it, and the value behind that.
//!
//! One grammar for env files, JSON, YAML, TOML, INI, shells, headers, queries, markup and the usual
//! programming languages. It asks for nothing but the text behind the identifier.

use std::ops::Range;

use super::chars::{is_identifier, is_word};
use super::cursor::Cursor;

/// A value, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Its first byte, behind quotes and words such as `Bearer`.
    pub(super) start: usize,
    /// Where the quotes around it close, if there are any.
    pub(super) closes: Option<usize>,
    /// So many backslashes stand before the quotes of the name, where name and value are as in
    /// JSON and the value has no quotes: what replaces it needs them.
    pub(super) wrap: Option<u8>,
    /// Whether more text could have changed the answer.
    pub(super) open: bool,
}

/// An identifier that gets no value here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nothing {
    /// Whether more text could have changed the answer.
    pub(super) open: bool,
}

/// Bytes of an identifier on one side of a keyword.
const REACH: usize = 50;

/// Bytes between an identifier and the word `value` or `default` that gives it one.
const APART: usize = 40;

/// Bytes of a block in which `default = …` gives the block's name a value.
const BLOCK: usize = 400;

/// Bytes of a text in quotes that may be one secret.
const QUOTED: usize = 16 << 10;

/// Bytes of a type between an identifier and its value.
const TYPE: usize = 40;

/// Words before a secret that say how it is used.
const SCHEMES: [&str; 13] = [
    "bearer", "basic", "token", "bot", "apikey", "api-key", "key", "ssws", "digest", "geniekey",
    "splunk", "pat", "oauth",
];

/// Commands that separate a name and its value by a blank.
const SETTERS: [&str; 8] = ["env", "arg", "setenv", "setx", "define", "-gx", "-x", "-ux"];

/// The identifier around a keyword, which may hold quotes or an operator itself.
pub(super) fn identifier(text: &[u8], keyword: &Range<usize>) -> Range<usize> {
    let word = text.get(keyword.clone()).unwrap_or_default();
    let first = word.iter().position(|byte| is_identifier(*byte));
    let last = word.iter().rposition(|byte| is_identifier(*byte));
    let keyword = match first.zip(last) {
        Some((first, last)) => keyword.start + first..keyword.start + last + 1,
        None => keyword.clone(),
    };
    let before = text.get(..keyword.start).unwrap_or_default();
    let back = before
        .iter()
        .rev()
        .take(REACH)
        .take_while(|byte| is_identifier(**byte))
        .count();
    let behind = text.get(keyword.end..).unwrap_or_default();
    let forth = behind
        .iter()
        .take(REACH)
        .take_while(|byte| is_identifier(**byte))
        .count();
    let mut start = keyword.start - back;
    // Behind a backslash, the first letter is an escape: `\nTOKEN=`.
    let escaped = start > 0 && text.get(start - 1) == Some(&b'\\');
    if escaped && start < keyword.start && matches!(text.get(start), Some(b'n' | b't' | b'r')) {
        start += 1;
    }
    start..keyword.end + forth
}

/// The value of the identifier that stands at `name`.
pub(super) fn assigned(text: &[u8], name: &Range<usize>) -> Result<Assigned, Nothing> {
    let mut cursor = Cursor::new(text, name.end);
    match value(&mut cursor, name) {
        Some(mut found) => {
            found.open |= cursor.open;
            Ok(found)
        }
        None => Err(Nothing { open: cursor.open }),
    }
}

/// What separates a name and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// The value may stand there as it is.
    Any,
    /// The same, for `:`.
    Colon,
    /// Too weak a sign: the value has to be in quotes.
    Quoted,
}

fn value(cursor: &mut Cursor<'_>, name: &Range<usize>) -> Option<Assigned> {
    let closer = closers(cursor);
    let behind = cursor.at;
    let operator = match operator(cursor, name, closer.quoted) {
        Some(operator) => operator,
        None => {
            cursor.at = behind;
            spoken(cursor, closer.quoted)
                .or_else(|| {
                    cursor.at = behind;
                    apart(cursor)
                })
                .or_else(|| {
                    cursor.at = behind;
                    block(cursor, closer.quoted)
                })?
        }
    };
    if operator == Operator::Colon {
        skip_type(cursor);
        skip_block_scalar(cursor);
    }
    let wrap = (operator == Operator::Colon)
        .then_some(closer.backslashes)
        .flatten();
    target(cursor, operator, wrap)
}

/// What closes a name: `"`, `"]`, `\"`.
#[derive(Default)]
struct Closer {
    quoted: bool,
    backslashes: Option<u8>,
}

fn closers(cursor: &mut Cursor<'_>) -> Closer {
    let mut closer = Closer::default();
    let mut backslashes = 0_u8;
    for _ in 0..8 {
        match cursor.peek() {
            Some(b'\\') => backslashes = backslashes.saturating_add(1),
            Some(b'"') => {
                closer.quoted = true;
                closer.backslashes.get_or_insert(backslashes);
            }
            Some(b'\'' | b'`' | b'*') => closer.quoted = true,
            Some(b']') => {}
            _ => break,
        }
        cursor.at += 1;
    }
    // `\n` behind a name is the end of its line, not its closing quote.
    if !closer.quoted && backslashes > 0 {
        cursor.at -= usize::from(backslashes);
    }
    closer
}

fn operator(cursor: &mut Cursor<'_>, name: &Range<usize>, quoted: bool) -> Option<Operator> {
    let touching = cursor.at == name.end;
    let before = name
        .start
        .checked_sub(1)
        .and_then(|at| cursor.text.get(at).copied());
    if touching && cursor.peek() == Some(b'>') && before == Some(b'<') {
        cursor.at += 1;
        return Some(Operator::Any);
    }
    if touching && cursor.take(b"</") {
        return property_list(cursor);
    }
    if touching && cursor.take(b"(") {
        return Some(Operator::Quoted);
    }
    let blanks = cursor.blanks();
    for comparison in [&b"==="[..], b"!==", b"==", b"!="] {
        if cursor.take(comparison) {
            return Some(Operator::Quoted);
        }
    }
    for assignment in [
        &b":="[..],
        b"=>",
        b"->",
        b"?=",
        b"||=",
        b"||",
        b"??=",
        b"??",
        b"+=",
        b"=",
    ] {
        if cursor.take(assignment) {
            return Some(Operator::Any);
        }
    }
    if cursor.take(b"::") {
        return None;
    }
    if cursor.take(b":") {
        return Some(Operator::Colon);
    }
    if quoted && cursor.peek() == Some(b',') {
        // What is named here may stand beside it, under a name of its own.
        let comma = cursor.at;
        let beside = apart(cursor);
        if beside.is_none() {
            cursor.at = comma + 1;
        }
        return beside.or(Some(Operator::Quoted));
    }
    (blanks > 0 && !quoted && gives_by_blank(cursor, name)).then_some(Operator::Any)
}

/// Whether a blank behind the name is an operator: behind a flag, and where a command says so.
fn gives_by_blank(cursor: &Cursor<'_>, name: &Range<usize>) -> bool {
    // The next flag is not the value of this one.
    if cursor.text.get(cursor.at) == Some(&b'-') {
        return false;
    }
    if cursor.text.get(name.start) == Some(&b'-') {
        return true;
    }
    let before = cursor.text.get(..name.start).unwrap_or_default();
    let before = before.trim_ascii_end();
    let word = before
        .iter()
        .rev()
        .take(8)
        .take_while(|byte| is_identifier(**byte))
        .count();
    let word = before.get(before.len() - word..).unwrap_or_default();
    SETTERS
        .iter()
        .any(|setter| word.eq_ignore_ascii_case(setter.as_bytes()))
}

/// `<key>name</key><string>value</string>`
fn property_list(cursor: &mut Cursor<'_>) -> Option<Operator> {
    cursor.skip(REACH, is_identifier);
    if !cursor.take(b">") {
        return None;
    }
    cursor.skip(APART, |byte| byte.is_ascii_whitespace());
    if !cursor.take(b"<") {
        return None;
    }
    cursor.skip(REACH, is_identifier);
    cursor.take(b">").then_some(Operator::Any)
}

/// `` `name` to `value` ``, as prose says it.
fn spoken(cursor: &mut Cursor<'_>, quoted: bool) -> Option<Operator> {
    if !quoted || cursor.blanks() == 0 {
        return None;
    }
    ["to ", "is ", "as "]
        .iter()
        .any(|word| cursor.take_ignoring_case(word.as_bytes()))
        .then_some(Operator::Quoted)
}

/// `name: X`, then `value: …`; `"key": "X", "value": "…"`; `key="X" value="…"`.
fn apart(cursor: &mut Cursor<'_>) -> Option<Operator> {
    let between = cursor.skip(APART, |byte| {
        byte.is_ascii_whitespace() || matches!(byte, b',' | b'{' | b'\\')
    });
    (between > 0).then_some(())?;
    gives_value(cursor)
}

/// `variable "name" {`, and `default = …` in a later line.
fn block(cursor: &mut Cursor<'_>, quoted: bool) -> Option<Operator> {
    cursor.blanks();
    if !quoted || !cursor.take(b"{") {
        return None;
    }
    let end = cursor.at + BLOCK;
    while cursor.at < end {
        cursor.skip(BLOCK, |byte| byte.is_ascii_whitespace());
        let line = cursor.at;
        if let Some(operator) = gives_value(cursor) {
            return Some(operator);
        }
        cursor.at = line;
        cursor.skip(BLOCK, |byte| !matches!(byte, b'\n' | b'}'));
        if cursor.peek() != Some(b'\n') {
            return None;
        }
    }
    None
}

fn gives_value(cursor: &mut Cursor<'_>) -> Option<Operator> {
    let quote = |byte| matches!(byte, b'"' | b'\'' | b'\\');
    cursor.skip(3, quote);
    if !cursor.take_ignoring_case(b"value") && !cursor.take_ignoring_case(b"default") {
        return None;
    }
    cursor.skip(3, quote);
    cursor.blanks();
    (cursor.take(b"=") || cursor.take(b":")).then_some(Operator::Any)
}

/// Goes behind `&str =` in `name: &str = "…"`.
fn skip_type(cursor: &mut Cursor<'_>) {
    let start = cursor.at;
    cursor.blanks();
    let length = cursor.skip(TYPE, |byte| {
        is_identifier(byte) || b"&<>[]?'|: ".contains(&byte)
    });
    let is_type = length > 0 && cursor.take(b"=") && cursor.peek() != Some(b'=');
    if is_type {
        let value = cursor.at;
        cursor.blanks();
        cursor.skip(1, |byte| b"rbfuL@$".contains(&byte));
        if matches!(cursor.peek(), Some(b'"' | b'\'' | b'`')) {
            cursor.at = value;
            return;
        }
    }
    cursor.at = start;
}

/// Goes behind the `|` of a YAML block, to its first line.
fn skip_block_scalar(cursor: &mut Cursor<'_>) {
    let start = cursor.at;
    cursor.blanks();
    if matches!(cursor.peek(), Some(b'|' | b'>')) {
        cursor.at += 1;
        cursor.skip(2, |byte| matches!(byte, b'-' | b'+' | b'0'..=b'9'));
        cursor.blanks();
        cursor.take(b"\r");
        if cursor.take(b"\n") {
            cursor.blanks();
            return;
        }
    }
    cursor.at = start;
}

fn target(cursor: &mut Cursor<'_>, operator: Operator, wrap: Option<u8>) -> Option<Assigned> {
    cursor.blanks();
    if matches!(cursor.peek(), Some(b'\r' | b'\n')) {
        // In the next line only what has quotes is still the value.
        let line = cursor.at;
        cursor.skip(APART, |byte| byte.is_ascii_whitespace());
        if !matches!(cursor.peek(), Some(b'"' | b'\'' | b'`')) {
            cursor.at = line;
            return None;
        }
    }
    let mut closes = quote(cursor);
    while scheme(cursor) {
        if closes.is_none() {
            closes = quote(cursor);
        }
    }
    if operator == Operator::Quoted && closes.is_none() {
        return None;
    }
    let start = cursor.at;
    cursor.peek()?;
    Some(Assigned {
        start,
        closes,
        wrap: if closes.is_none() { wrap } else { None },
        open: false,
    })
}

/// Goes behind an opening quote, and finds the closing one.
fn quote(cursor: &mut Cursor<'_>) -> Option<usize> {
    let start = cursor.at;
    cursor.skip(2, |byte| b"rbfuL@$".contains(&byte));
    let backslashes = cursor.skip(8, |byte| byte == b'\\');
    let mark = match cursor.peek() {
        Some(mark @ (b'"' | b'\'' | b'`')) => mark,
        _ => {
            cursor.at = start;
            return None;
        }
    };
    cursor.at += 1;
    let content = cursor.at;
    let mut before = 0;
    let mut at = content;
    let most = content + QUOTED;
    while let Some(byte) = cursor.text.get(at).copied() {
        match byte {
            b'\n' | b'\r' => return None,
            _ if at > most => return None,
            b'\\' => before += 1,
            byte if byte == mark && closes_at(before, backslashes) => {
                let end = at - before.min(backslashes);
                // An empty text, or the first of three quotes.
                if end == content && cursor.text.get(at + 1) == Some(&mark) {
                    cursor.at = at + 2;
                    return quoted_by_three(cursor, mark);
                }
                return Some(end);
            }
            _ => before = 0,
        }
        at += 1;
    }
    cursor.open = true;
    None
}

fn closes_at(before: usize, opened: usize) -> bool {
    if opened == 0 {
        before.is_multiple_of(2)
    } else {
        before <= opened
    }
}

fn quoted_by_three(cursor: &mut Cursor<'_>, mark: u8) -> Option<usize> {
    let rest = cursor.text.get(cursor.at..)?;
    let end = rest.windows(3).take(BLOCK).position(|w| w == [mark; 3]);
    cursor.open |= end.is_none();
    end.map(|end| cursor.at + end)
}

/// Goes behind a word such as `Bearer`.
fn scheme(cursor: &mut Cursor<'_>) -> bool {
    let start = cursor.at;
    let length = cursor.skip(10, |byte| is_word(byte) || byte == b'-');
    let word = cursor.text.get(start..start + length).unwrap_or_default();
    let known = SCHEMES
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme.as_bytes()));
    if known && (cursor.blanks() > 0 || cursor.take(b"%20")) {
        return true;
    }
    cursor.at = start;
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the identifier around `key` is given.
    fn given(text: &str) -> Option<&str> {
        let start = text.find("key")?;
        let name = identifier(text.as_bytes(), &(start..start + 3));
        let found = assigned(text.as_bytes(), &name).ok()?;
        let rest = text.get(found.start..)?;
        let end = match found.closes {
            Some(end) => end - found.start,
            None => rest
                .find([' ', '\n', ';', '&', '<', '"', '}'])
                .unwrap_or(rest.len()),
        };
        rest.get(..end)
    }

    #[test]
    fn every_usual_way_to_give_a_value_is_known() {
        for text in [
            "api_key=v1",
            "export api_key='v1'",
            "api_key := \"v1\"",
            "{\"api_key\": \"v1\"}",
            r#"{\"api_key\": \"v1\"}"#,
            r#"{\\\"api_key\\\": \\\"v1\\\"}"#,
            "api_key: v1 # x",
            "api_key: |\n    v1",
            "X-Api-key: v1",
            "-H \"X-Api-key: v1\"",
            "Authorization-key: Bearer v1",
            "{'key': b'v1'}",
            "os.environ[\"api_key\"] = \"v1\"",
            "setenv(\"key\", \"v1\", 1)",
            "setApi_key(\"v1\")",
            "conf.api_key => 'v1'",
            "?api_key=v1&x=2",
            "tool --api-key v1 x",
            "tool --api-key=v1 x",
            "ENV api_key v1",
            "setenv api_key v1",
            "#define api_key \"v1\"",
            "<api_key>v1</api_key>",
            "<add key=\"x_key\" value=\"v1\"/>"
                .strip_prefix("<add key=\"")
                .unwrap(),
            "<key>key</key>\n  <string>v1</string>"
                .strip_prefix("<key>")
                .unwrap(),
            "- name: api_key\n  value: v1",
            "{\"name\": \"api_key\", \"value\": \"v1\"}",
            "variable \"api_key\" {\n  default = \"v1\"\n}",
            "variable \"api_key\" {\n  type = string\n  default = \"v1\"\n}",
            "Set `api_key` to `v1` then",
            "let api_key: &str = \"v1\";",
            "const key: string = 'v1'",
            "key =\n    \"v1\"",
            "key = \"\"\"v1\"\"\"",
            "x.key || 'v1'",
            "if key == \"v1\"",
            "key=Token \"v1\"",
            "api_key=v1\\nx",
        ] {
            assert_eq!(given(text).and_then(|v| v.get(..2)), Some("v1"), "{text}");
        }
    }

    #[test]
    fn what_gives_nothing_is_known_too() {
        for text in [
            "key",
            "key == other",
            "Key::v1",
            "the key is v1",
            "key v1",
            "--key --other",
            "key:\n  v1",
            "key(v1)",
            "key, v1",
        ] {
            assert_eq!(given(text), None, "{text}");
        }
    }

    #[test]
    fn quotes_close_where_they_were_opened() {
        assert_eq!(given(r#"key="a\"b" c"#), Some(r#"a\"b"#));
        assert_eq!(given(r#"{\"key\": \"a b\", \"c\": 1}"#), Some("a b"));
        assert_eq!(given("key='a\nb'"), Some("a"));
    }

    #[test]
    fn a_value_without_quotes_says_how_to_quote_it() {
        let wrap = |text: &str| {
            let start = text.find("key").unwrap();
            assigned(text.as_bytes(), &(start..start + 3)).unwrap().wrap
        };
        assert_eq!(wrap("{\"key\": 12}"), Some(0));
        assert_eq!(wrap(r#"{\"key\": 12}"#), Some(1));
        assert_eq!(wrap("key: 12"), None);
        assert_eq!(wrap("{\"key\": \"12\"}"), None);
    }

    #[test]
    fn what_more_text_could_change_is_open() {
        for (text, open) in [
            ("key", true),
            ("key=", true),
            ("key = \"ab", true),
            ("key;", false),
        ] {
            let found = assigned(text.as_bytes(), &(0..3));
            let is_open = found.map_or_else(|nothing| nothing.open, |found| found.open);
            assert_eq!(is_open, open, "{text}");
        }
    }
}
