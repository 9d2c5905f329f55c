//! Blocks of lines such as keys in PEM: from the first line to the last, or as far as the body goes.

use super::chars::is_identifier;
use super::lines::{Lines, bare};
use super::rule::Block;
use super::shape::Matched;

/// A block is looked at for so many bytes at most.
const LIMIT: usize = 256 << 10;

/// A line of base64 that is no word of a text has at least so many bytes.
const BODY: usize = 16;

/// The longest name of a header in a block.
const HEADER: usize = 40;

/// The block that begins at `start`.
pub(super) fn block_at(text: &[u8], block: &Block, start: usize) -> Matched {
    let rest = text.get(start..).unwrap_or_default();
    let rest = rest.get(..rest.len().min(LIMIT)).unwrap_or_default();
    if !block
        .begin
        .iter()
        .any(|begin| rest.starts_with(begin.as_bytes()))
    {
        return Matched::default();
    }
    let none = |open| Matched { span: None, open };
    let mut lines = Lines { text: rest, at: 0 };
    let Some(first) = lines.next() else {
        return none(true);
    };
    let head = rest.get(first.start..first.end).unwrap_or_default();
    // In one line, the body stands behind the head's dashes.
    let mut end = head_end(head);
    let named = head.get(..end).unwrap_or_default();
    if !holds(named, block.contains.as_bytes()) {
        return none(first.end == rest.len());
    }
    lines.at = end;
    let mut long_before = false;
    let mut content = false;
    for line in lines {
        let bytes = rest.get(line.start..line.end).unwrap_or_default();
        if let Some(at) = find(bytes, block.end.as_bytes()) {
            let end = line.start + at + last_line(bytes.get(at..).unwrap_or_default(), block);
            return Matched {
                span: Some(start..start + end),
                open: line.end == rest.len(),
            };
        }
        match kind(bytes) {
            Line::Blank => {}
            Line::Body => {
                (long_before, content) = (true, true);
                end = line.start + trimmed(bytes);
            }
            Line::Header => {
                content = true;
                end = line.start + trimmed(bytes);
            }
            // The last line of a body, or one that was cut off.
            Line::Short if long_before => {
                end = line.start + trimmed(bytes);
                long_before = false;
            }
            Line::Short | Line::Other => {
                return Matched {
                    span: content.then_some(start..start + end),
                    open: line.end == rest.len(),
                };
            }
        }
    }
    Matched {
        span: content.then_some(start..start + end),
        open: true,
    }
}

/// Where the first line ends: behind its second row of dashes, or with the line.
fn head_end(head: &[u8]) -> usize {
    let dashes = b"-----";
    if !head.starts_with(dashes) {
        return head.len();
    }
    let rest = head.get(dashes.len()..).unwrap_or_default();
    find(rest, dashes).map_or(head.len(), |at| at + 2 * dashes.len())
}

/// How much of the last line, which begins with the block's end, belongs to it.
fn last_line(line: &[u8], block: &Block) -> usize {
    if block.end.starts_with("-----") {
        let name = line.get(block.end.len()..).unwrap_or_default();
        if let Some(at) = find(name, b"-----") {
            return block.end.len() + at + 5;
        }
    }
    let stop = |byte: &u8| b"\"'`\\<,;".contains(byte);
    line.iter().position(stop).unwrap_or(line.len())
}

/// What a line of a block is.
enum Line {
    Blank,
    Body,
    Short,
    Header,
    Other,
}

fn kind(line: &[u8]) -> Line {
    let line = bare(line);
    if line.is_empty() {
        return Line::Blank;
    }
    let base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte);
    let longest = line.split(|byte| *byte == b' ').map(<[u8]>::len).max();
    let plain = line.iter().all(|byte| base64(byte) || *byte == b' ');
    match longest {
        Some(BODY..) if plain => return Line::Body,
        _ if line.iter().all(base64) => return Line::Short,
        _ => {}
    }
    let name = line.iter().take_while(|byte| is_identifier(**byte)).count();
    let header = (1..=HEADER).contains(&name)
        && line.first().is_some_and(u8::is_ascii_uppercase)
        && line.get(name..).is_some_and(|rest| rest.starts_with(b": "));
    if header { Line::Header } else { Line::Other }
}

/// The length of a line without what stands behind its text.
fn trimmed(line: &[u8]) -> usize {
    let extra = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,\\|;".contains(byte);
    line.iter()
        .rposition(|byte| !extra(byte))
        .map_or(0, |at| at + 1)
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || find(text, part).is_some()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJz";

    fn pem() -> Block {
        Block {
            begin: vec!["-----BEGIN ".to_owned()],
            contains: "PRIVATE KEY".to_owned(),
            end: "-----END ".to_owned(),
        }
    }

    /// What is left of the text around its block.
    fn around(text: &str) -> Option<(String, String)> {
        let start = text.find("-----BEGIN").unwrap();
        let span = block_at(text.as_bytes(), &pem(), start).span?;
        Some((
            text.get(..span.start)?.to_owned(),
            text.get(span.end..)?.to_owned(),
        ))
    }

    #[test]
    fn a_key_ends_with_its_last_line() {
        for (newline, before) in [
            ("\n", ""),
            ("\r\n", ""),
            ("\n", "    "),
            ("\n", "+"),
            ("\n", "# "),
            ("\n", " * "),
            ("\n    12\t", ""),
            ("\nkey.pem:12:", ""),
            ("\nsrc/a-b/key.pem-12-", ""),
            ("\n  12→", ""),
            ("\\n", ""),
            ("\\\\n", ""),
            ("\\n\" +\n  \"", ""),
            (" ", ""),
        ] {
            let line = format!("{newline}{before}");
            let key = format!(
                "{before}-----BEGIN RSA PRIVATE KEY-----{line}Proc-Type: 4,ENCRYPTED{line}{line}{LINE}{line}{LINE}{line}QUI={line}-----END RSA PRIVATE KEY-----"
            );
            let key = if newline == " " {
                key.replace(" Proc-Type: 4,ENCRYPTED", "")
            } else {
                key
            };
            let text = format!("x {key}\"; rest\n");
            let (_, rest) = around(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(rest, "\"; rest\n", "{text}");
        }
    }

    #[test]
    fn a_key_without_end_goes_as_far_as_its_body() {
        let text = format!("-----BEGIN PRIVATE KEY-----\n{LINE}\n{LINE}\nQUJD\nthe end of it\n");
        assert_eq!(around(&text).unwrap().1, "\nthe end of it\n");
        let text = format!("-----BEGIN PRIVATE KEY-----\n{LINE}\n{LINE}\n");
        assert_eq!(around(&text).unwrap().1, "\n");
    }

    #[test]
    fn what_has_no_body_is_no_key() {
        for text in [
            "-----BEGIN PRIVATE KEY-----",
            "grep -- '-----BEGIN PRIVATE KEY-----' file",
            "-----BEGIN PRIVATE KEY-----\nis its first line\n",
        ] {
            assert_eq!(around(text), None, "{text}");
        }
        let public = format!("-----BEGIN PUBLIC KEY-----\n{LINE}\n-----END PUBLIC KEY-----");
        assert_eq!(around(&public), None);
    }
}
