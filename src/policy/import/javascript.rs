//! JavaScript's regular expressions, where they mean the same here.
//!
//! What would compile here but match something else is refused: a rule must not change silently.
//! One difference stays: `.` and `[^…]` stand for one byte here, and for one UTF-16 unit there.

/// A regular expression of the legacy form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    /// What stood between the slashes.
    pub(super) source: String,
    /// The flag `i`.
    pub(super) ignore_case: bool,
}

/// Why an expression is not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// What is wrong.
    pub(super) text: String,
    /// What a person can do.
    pub(super) help: &'static str,
}

impl Expression {
    /// Reads `/source/flags`, or a plain source.
    pub(super) fn parse(written: &str) -> Result<Self, Refused> {
        let literal = written
            .strip_prefix('/')
            .and_then(|rest| rest.rsplit_once('/'));
        let (source, flags) = literal.unwrap_or((written, ""));
        // What `g` adds is where the next search starts, and we search once.
        let refused: String = flags.chars().filter(|flag| !"gi".contains(*flag)).collect();
        if !refused.is_empty() {
            return Err(Refused {
                text: format!("the flags `{}` are not supported", super::quote(&refused)),
                help: "only `i` and `g` are; a text that is no `/pattern/flags` must not start with a slash: write `\\/`",
            });
        }
        if source.is_empty() {
            return Err(Refused {
                text: "an empty pattern matches everything".to_owned(),
                help: "remove it, or block the tools themselves",
            });
        }
        if let Some(different) = different(source) {
            return Err(Refused {
                text: format!("`{different}` means something else here than in JavaScript"),
                help: "write it so that it means the same in both",
            });
        }
        Ok(Self {
            source: escape_controls(source),
            ignore_case: flags.contains('i'),
        })
    }
}

/// The first construct that compiles here, but means something else than in JavaScript.
fn different(source: &str) -> Option<String> {
    let mut in_class = false;
    let mut rest = source.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        match c {
            '\\' => {
                let escaped = rest.next()?;
                let behind = rest.peek().copied();
                let same = match escaped {
                    'A' | 'z' | 'a' | '<' | '>' | 'U' | 'h' => false,
                    'b' if in_class || behind == Some('{') => false,
                    'x' => matches!(behind, Some('0'..='7')),
                    'u' => behind != Some('{') && rest.clone().take(2).eq("00".chars()),
                    escaped => escaped.is_ascii(),
                };
                if !same {
                    return Some(format!("\\{escaped}"));
                }
            }
            '[' if in_class => return Some("[ in a class".to_owned()),
            '[' => in_class = true,
            ']' => in_class = false,
            '&' | '-' | '~' if in_class && next == Some(c) => return Some(format!("{c}{c}")),
            '{' if !in_class && next == Some(',') => return Some("{,".to_owned()),
            c if !c.is_ascii() => return Some(c.to_string()),
            _ => {}
        }
    }
    None
}

/// Line ends and the like as escapes, as JavaScript itself shows a source.
fn escape_controls(source: &str) -> String {
    let mut out = String::new();
    for c in source.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_plain_sources() {
        for (written, source, ignore_case) in [
            (r"/rm\s+-rf/", r"rm\s+-rf", false),
            ("/secret/gi", "secret", true),
            ("DROP TABLE", "DROP TABLE", false),
            (r"/a\/b/", r"a\/b", false),
            ("/a/b/i", "a/b", true),
            (r"\/etc\/passwd", r"\/etc\/passwd", false),
            ("a\nb", r"a\nb", false),
            (r"/[^a-z]\x41\u0042/", r"[^a-z]\x41\u0042", false),
        ] {
            let expression = Expression::parse(written).unwrap();
            assert_eq!(expression.source, source);
            assert_eq!(expression.ignore_case, ignore_case, "{written}");
        }
    }

    #[test]
    fn what_would_change_its_meaning_is_refused() {
        for (written, named) in [
            ("/a/m", "`m`"),
            ("/etc/passwd", "`passwd`"),
            ("//", "empty"),
            ("", "empty"),
            (r"\Aroot", r"`\A`"),
            (r"a\>b", r"`\>`"),
            ("[a&&b]", "`&&`"),
            ("[[:alpha:]]", "`[ in a class`"),
            (r"\xe9", r"`\x`"),
            ("é", "`é`"),
            ("a{,3}", "`{,`"),
        ] {
            let refused = Expression::parse(written).unwrap_err();
            assert!(refused.text.contains(named), "{written}: {}", refused.text);
        }
    }
}
