//! Words: quoting taken off, braces, tildes and variables expanded.

use super::state::{ALTERNATIVES, Arg, Origin, Value};

/// A piece of a word before it is expanded.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// A character, and whether quotes took its meaning away.
    Char(char, bool),
    /// What a variable or a substitution stands for, and whether it stands in double quotes.
    Value(Value, bool),
    /// The name of a pipe to another command.
    Pipe(Origin),
}

/// The words that the pieces become.
pub(super) fn expand(pieces: Vec<Piece>) -> Vec<Arg> {
    let mut args = Vec::new();
    for alternative in braces(pieces) {
        fill(alternative, &mut args);
        if args.len() > ALTERNATIVES {
            return vec![Arg::unknown(Origin::Unknown)];
        }
    }
    args
}

/// The characters of a bare word: a backslash takes the meaning of the next one away.
pub(super) fn bare(text: &str, pieces: &mut Vec<Piece>) {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            pieces.push(Piece::Char(c, false));
            continue;
        }
        match chars.next() {
            // A line that goes on.
            Some('\n') => {}
            Some(next) => pieces.push(Piece::Char(next, true)),
            None => pieces.push(Piece::Char('\\', true)),
        }
    }
}

/// The characters between double quotes.
pub(super) fn double_quoted(text: &str, pieces: &mut Vec<Piece>) {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = (c == '\\')
            .then(|| chars.peek().copied())
            .flatten()
            .filter(|next| matches!(next, '$' | '`' | '"' | '\\' | '\n'));
        match next {
            Some(next) => {
                chars.next();
                if next != '\n' {
                    pieces.push(Piece::Char(next, true));
                }
            }
            None => pieces.push(Piece::Char(c, true)),
        }
    }
}

/// Characters whose meaning is taken away.
pub(super) fn literal(text: &str, pieces: &mut Vec<Piece>) {
    pieces.extend(text.chars().map(|c| Piece::Char(c, true)));
}

/// The text of `$'…'`, its escapes read as bash reads them. `None`: one of them is no character.
pub(super) fn ansi_c(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..)?;
        if c != '\\' {
            bytes.extend(c.to_string().bytes());
            continue;
        }
        let escape = rest.chars().next()?;
        let after = rest.get(escape.len_utf8()..)?;
        let (value, used) = match escape {
            'a' => (7, 0),
            'b' => (8, 0),
            'e' | 'E' => (27, 0),
            'f' => (12, 0),
            'n' => (10, 0),
            'r' => (13, 0),
            't' => (9, 0),
            'v' => (11, 0),
            '\\' | '\'' | '"' | '?' => (u32::from(escape), 0),
            'x' => digits(after, 16, 2)?,
            'u' => digits(after, 16, 4)?,
            'U' => digits(after, 16, 8)?,
            'c' => (
                u32::from(after.chars().next()?) & 31,
                after.chars().next()?.len_utf8(),
            ),
            '0'..='7' => {
                let (value, used) = digits(rest, 8, 3)?;
                (value, used - 1)
            }
            _ => {
                bytes.push(b'\\');
                continue;
            }
        };
        rest = after.get(used..)?;
        if value == 0 {
            // The shell ends the text here.
            break;
        }
        match (escape, u8::try_from(value)) {
            ('u' | 'U', _) => bytes.extend(char::from_u32(value)?.to_string().bytes()),
            (_, Ok(byte)) => bytes.push(byte),
            (_, Err(_)) => return None,
        }
    }
    String::from_utf8(bytes).ok()
}

fn digits(text: &str, radix: u32, most: usize) -> Option<(u32, usize)> {
    let used = text
        .chars()
        .take(most)
        .take_while(|c| c.is_digit(radix))
        .count();
    let value = u32::from_str_radix(text.get(..used)?, radix).ok()?;
    Some((value, used))
}

/// `a{b,c}d` → `abd acd`, as often as there are braces; `{1..3}` likewise.
fn braces(pieces: Vec<Piece>) -> Vec<Vec<Piece>> {
    let mut done = Vec::new();
    let mut open = vec![pieces];
    while let Some(pieces) = open.pop() {
        if done.len() + open.len() > ALTERNATIVES {
            done.push(vec![Piece::Value(Value::unknown(Origin::Unknown), false)]);
            break;
        }
        match first_brace(&pieces) {
            Some(alternatives) => open.extend(alternatives.into_iter().rev()),
            None => done.push(pieces),
        }
    }
    done
}

fn first_brace(pieces: &[Piece]) -> Option<Vec<Vec<Piece>>> {
    let sign = |index: usize| match pieces.get(index) {
        Some(Piece::Char(c, false)) => Some(*c),
        _ => None,
    };
    for start in (0..pieces.len()).filter(|index| sign(*index) == Some('{')) {
        let (mut depth, mut cuts) = (0_usize, vec![start]);
        for index in start..pieces.len() {
            match sign(index) {
                Some('{') => depth += 1,
                Some(',') if depth == 1 => cuts.push(index),
                Some('}') => {
                    depth -= 1;
                    if depth == 0 {
                        cuts.push(index);
                        break;
                    }
                }
                _ => {}
            }
        }
        if depth != 0 {
            continue;
        }
        let end = *cuts.last()?;
        let middles: Vec<Vec<Piece>> = if cuts.len() > 2 {
            cuts.windows(2)
                .filter_map(|pair| match pair {
                    [from, to] => pieces.get(from + 1..*to).map(<[Piece]>::to_vec),
                    _ => None,
                })
                .collect()
        } else {
            match range(pieces.get(start + 1..end)?) {
                Some(texts) => texts
                    .into_iter()
                    .map(|text| text.chars().map(|c| Piece::Char(c, true)).collect())
                    .collect(),
                None => continue,
            }
        };
        let all = middles.into_iter().map(|middle| {
            let mut whole = pieces.get(..start).unwrap_or_default().to_vec();
            whole.extend(middle);
            whole.extend_from_slice(pieces.get(end + 1..).unwrap_or_default());
            whole
        });
        return Some(all.collect());
    }
    None
}

/// The texts of `1..3` or `a..c`.
fn range(pieces: &[Piece]) -> Option<Vec<String>> {
    let text: String = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Char(c, false) => Some(*c),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let (from, to) = text.split_once("..")?;
    if let (Ok(from), Ok(to)) = (from.parse::<i32>(), to.parse::<i32>()) {
        let (low, high) = (from.min(to), from.max(to));
        return Some(
            (low..=high)
                .take(ALTERNATIVES)
                .map(|n| n.to_string())
                .collect(),
        );
    }
    let one = |text: &str| {
        text.chars()
            .next()
            .filter(|c| c.is_ascii() && text.len() == 1)
    };
    let (from, to) = (one(from)?, one(to)?);
    Some((from.min(to)..=from.max(to)).map(String::from).collect())
}

/// The words that one brace alternative becomes: variables filled in, and split where not quoted.
fn fill(pieces: Vec<Piece>, args: &mut Vec<Arg>) {
    // A word that is only an unquoted variable is split into words.
    if let [Piece::Value(value, false)] = pieces.as_slice() {
        for text in &value.texts {
            for word in text.split_whitespace() {
                let glob = value.globs || word.contains(['*', '?', '[']);
                let arg = Arg {
                    glob,
                    origin: value.origin,
                    ..Arg::known(word)
                };
                args.push(arg);
            }
        }
        if value.open {
            args.push(Arg::unknown(value.origin));
        }
        return;
    }
    let mut words = vec![Arg::known("")];
    for (index, piece) in pieces.into_iter().enumerate() {
        match piece {
            Piece::Char(c, quoted) => {
                for word in &mut words {
                    // A quoted tilde is a file of that name.
                    if c == '~' && quoted && index == 0 {
                        word.text.push_str("./");
                    }
                    word.text.push(c);
                    word.glob |= !quoted && matches!(c, '*' | '?' | '[');
                }
            }
            Piece::Pipe(origin) => {
                for word in &mut words {
                    word.pipe = true;
                    word.origin = word.origin.max(origin);
                }
            }
            Piece::Value(value, quoted) => {
                let splits = !quoted && value.texts.iter().any(|t| t.contains(char::is_whitespace));
                let mut next = Vec::new();
                for word in &words {
                    for text in &value.texts {
                        let mut word = word.clone();
                        word.text.push_str(text);
                        word.glob |= (value.globs || !quoted) && text.contains(['*', '?', '[']);
                        word.known &= !splits;
                        word.origin = word.origin.max(value.origin);
                        next.push(word);
                    }
                    if value.open {
                        let mut word = word.clone();
                        word.known = false;
                        word.origin = word.origin.max(value.origin);
                        next.push(word);
                    }
                }
                words = next;
                words.truncate(ALTERNATIVES + 1);
            }
        }
    }
    args.extend(words);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        bare(text, &mut pieces);
        expand(pieces).into_iter().map(|arg| arg.text).collect()
    }

    #[test]
    fn braces_are_expanded_in_their_order() {
        assert_eq!(words("src/{a,b}/x"), ["src/a/x", "src/b/x"]);
        assert_eq!(words("{rm,-rf,/}"), ["rm", "-rf", "/"]);
        assert_eq!(words("{a,{b,c}}"), ["a", "b", "c"]);
        assert_eq!(words("a{1..3}"), ["a1", "a2", "a3"]);
        assert_eq!(words("{a}"), ["{a}"]);
        assert_eq!(words(r"\{a,b}"), ["{a,b}"]);
        assert_eq!(words("{,x}y"), ["y", "xy"]);
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(ansi_c(r"\x72m").as_deref(), Some("rm"));
        assert_eq!(ansi_c(r"\162\155").as_deref(), Some("rm"));
        assert_eq!(ansi_c(r"a\u0062c").as_deref(), Some("abc"));
        assert_eq!(ansi_c(r"x\0y").as_deref(), Some("x"));
        assert_eq!(ansi_c(r"\'").as_deref(), Some("'"));
        assert_eq!(words(r"foo\ bar"), ["foo bar"]);
    }
}
