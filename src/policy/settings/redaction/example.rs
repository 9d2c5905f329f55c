//! Examples of rules: written without any token, and tried with one that is made up.

use std::ops::Range;

use toml::Spanned;

use super::super::table::{Reader, Table};
use crate::engine::redaction::{Chars, Ruleset, find};
use crate::policy::diagnostic::{Code, Problem};

/// A text, and which parts of it have to be found.
#[derive(Debug)]
pub(super) struct Example {
    text: String,
    secrets: Vec<Range<usize>>,
    span: Range<usize>,
}

/// The examples and counterexamples of a rule.
pub(super) fn read(table: Table<'_>, reader: &mut Reader<'_>) -> Vec<Example> {
    let mut examples = Vec::new();
    for written in table.texts("examples", reader) {
        let example = Example::new(&written);
        if example.secrets.is_empty() {
            let problem = Problem::error(Code::BadValue, "the example does not say what is secret")
                .help("put the secret between `<<` and `>>`");
            reader.push(written.span(), problem);
        } else {
            examples.push(example);
        }
    }
    let against = table.texts("counterexamples", reader);
    examples.extend(against.iter().map(Example::plain));
    examples
}

impl Example {
    fn new(written: &Spanned<String>) -> Self {
        let (text, secrets) = marked(written.get_ref());
        Self {
            text,
            secrets,
            span: written.span(),
        }
    }

    fn plain(written: &Spanned<String>) -> Self {
        Self {
            text: expand(written.get_ref()),
            secrets: Vec::new(),
            span: written.span(),
        }
    }

    /// Where it is written.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Whether exactly its secrets are found.
    ///
    /// # Errors
    /// One sentence that says what is found instead.
    pub(super) fn try_with(&self, rules: &Ruleset) -> Result<(), String> {
        let findings = find(&[rules], &self.text).map_err(|fault| fault.to_string())?;
        let about = rules.about().map_err(|fault| fault.to_string())?;
        let name = |rule: usize| about.get(rule).map_or("", |rule| rule.id.as_str());
        for finding in &findings {
            if !self.secrets.contains(&finding.span) {
                let rule = name(finding.rule);
                return Err(if self.secrets.is_empty() {
                    format!("the rule `{rule}` finds something in this counterexample")
                } else {
                    format!("the rule `{rule}` finds something else in this example")
                });
            }
        }
        let found = |secret: &Range<usize>| findings.iter().any(|f| f.span == *secret);
        if self.secrets.iter().all(found) {
            Ok(())
        } else {
            Err(format!(
                "not every secret of this example is found: {}",
                self.text
            ))
        }
    }
}

/// The text that is written with what is secret between `<<` and `>>`, expanded; and where that is.
pub(crate) fn marked(written: &str) -> (String, Vec<Range<usize>>) {
    let expanded = expand(written);
    let (mut text, mut secrets) = (String::new(), Vec::new());
    let mut rest = expanded.as_str();
    while let Some((before, from)) = rest.split_once("<<") {
        let Some((secret, behind)) = from.split_once(">>") else {
            break;
        };
        text.push_str(before);
        secrets.push(text.len()..text.len() + secret.len());
        text.push_str(secret);
        rest = behind;
    }
    text.push_str(rest);
    (text, secrets)
}

/// The text with `{class:n}` replaced by so many bytes of that class, always the same ones.
pub(crate) fn expand(written: &str) -> String {
    let mut text = String::new();
    let mut state = written
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    let mut rest = written;
    while let Some((before, from)) = rest.split_once('{') {
        text.push_str(before);
        let Some((class, count, behind)) = wanted(from) else {
            text.push('{');
            rest = from;
            continue;
        };
        text.push_str(&made_up(&class, count, &mut state));
        rest = behind;
    }
    text.push_str(rest);
    text
}

/// So many bytes of a class. Long texts hold a digit where they can, as tokens do.
fn made_up(class: &[u8], count: usize, state: &mut u64) -> String {
    let digits = class.iter().any(u8::is_ascii_digit);
    loop {
        let mut text = String::new();
        while text.len() < count {
            *state = next(*state);
            let index = (*state >> 33) % (class.len().max(1) as u64);
            let byte = usize::try_from(index)
                .ok()
                .and_then(|index| class.get(index));
            text.push(byte.map_or('-', |byte| char::from(*byte)));
        }
        if count < 12 || !digits || text.bytes().any(|byte| byte.is_ascii_digit()) {
            return text;
        }
    }
}

/// The class and the number that the text begins with, and what follows the brace behind them.
fn wanted(text: &str) -> Option<(Vec<u8>, usize, &str)> {
    // A class in brackets may hold a brace or a colon itself.
    let end = if text.starts_with('[') {
        text.find("]:")? + 1
    } else {
        text.find(':')?
    };
    let (class, rest) = text.split_at_checked(end)?;
    let (count, behind) = rest.strip_prefix(':')?.split_once('}')?;
    let count = count.parse().ok().filter(|count| *count <= 4096)?;
    let chars = Chars::parse(class).ok()?;
    let usual = |byte: &u8| match class {
        "hex" => !byte.is_ascii_uppercase(),
        // Padding stands at an end only.
        "base64" | "base64url" | "base32" => *byte != b'=',
        _ => byte.is_ascii_graphic(),
    };
    Some((chars.bytes().filter(usual).collect(), count, behind))
}

/// Numbers that look random, and are the same everywhere.
const fn next(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_expanded_the_same_way_each_time() {
        let one = expand("a={hex:8} {\"b\": {digit:3}} {[}:]:2} {x:3}");
        assert_eq!(one, expand("a={hex:8} {\"b\": {digit:3}} {[}:]:2} {x:3}"));
        assert_eq!(one.len(), "a=01234567 {\"b\": 012} :: {x:3}".len());
        assert!(one.ends_with(" {x:3}"), "{one}");
        assert!(!one.contains("hex"));
    }

    #[test]
    fn secrets_are_what_is_enclosed() {
        let example = Example::new(&Spanned::new(
            0..0,
            "a <<b>> <<{lower:3}>> c << d".to_owned(),
        ));
        assert_eq!(example.secrets, [2..3, 4..7]);
        assert!(example.text.ends_with(" c << d"));
    }
}
