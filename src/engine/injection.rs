//! Signals of an injection: texts of an MCP server that look as if they were meant to instruct a model,
//! or to hide something from a person (`injection.toml`).
//!
//! A signal proves nothing. It is a fact, `context.signals`, that policies judge by.

use std::collections::BTreeSet;

use regex_syntax::hir::literal::Extractor;
use serde::{Deserialize, Serialize};

use super::pattern::{Awake, Haystack, Pattern, PatternError, PatternScope};

/// Every signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injection {
    /// In the order of the files.
    pub signals: Vec<Signal>,
}

/// One signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// What it looks for.
    pattern: Pattern,
    /// Whether every match holds a byte beyond ASCII.
    beyond_ascii: bool,
    /// Whether descriptions of tools are looked at.
    descriptions: bool,
    /// Whether results of tools are.
    results: bool,
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Said {
    /// How a server describes a tool.
    Description,
    /// What a tool answered.
    Result,
}

impl Injection {
    /// Whether there is a signal of that id.
    #[must_use]
    pub fn knows(&self, id: &str) -> bool {
        self.signals.iter().any(|signal| signal.id() == id)
    }

    /// The ids of the signals in one of the texts.
    ///
    /// # Errors
    /// If an expression does not compile, which reading the file excluded.
    pub fn find(&self, texts: &[&str], said: Said) -> Result<BTreeSet<String>, PatternError> {
        let due = self.signals.iter().filter(|signal| signal.looks_at(said));
        let mut due = due.peekable();
        let mut found = BTreeSet::new();
        if due.peek().is_none() {
            return Ok(found);
        }
        let ascii = texts.iter().all(|text| text.is_ascii());
        let texts: Vec<Haystack<'_>> = texts.iter().map(|text| Haystack::new(text)).collect();
        for signal in due {
            if !(ascii && signal.beyond_ascii) && signal.pattern.matches(&texts)? {
                found.insert(signal.pattern.id.clone());
            }
        }
        Ok(found)
    }
}

impl Signal {
    /// A signal that an expression finds, whatever the case of its letters.
    #[must_use]
    pub fn of_pattern(id: String, source: String, said: &BTreeSet<Said>) -> Self {
        let beyond_ascii = is_beyond_ascii(&source);
        Self {
            pattern: Pattern::unchecked(id, source, true, PatternScope::Values),
            beyond_ascii,
            descriptions: said.contains(&Said::Description),
            results: said.contains(&Said::Result),
        }
    }

    /// A signal that phrases find, whatever their case and whatever space is between their words.
    #[must_use]
    pub fn of_phrases(id: String, phrases: &[String], said: &BTreeSet<Said>) -> Self {
        let phrases = phrases.iter().map(|phrase| {
            let words = phrase.split_whitespace().map(regex_syntax::escape);
            words.collect::<Vec<_>>().join(r"\s+")
        });
        let any = phrases.collect::<Vec<_>>().join("|");
        Self::of_pattern(id, format!("(?:{any})"), said)
    }

    /// The name by which policies ask for it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.pattern.id
    }

    /// Its expression, compiled.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn compile(&self) -> Result<Awake<'_>, PatternError> {
        self.pattern.compile()
    }

    const fn looks_at(&self, said: Said) -> bool {
        match said {
            Said::Description => self.descriptions,
            Said::Result => self.results,
        }
    }
}

/// Whether no text of ASCII matches: then the expression is not compiled for one.
fn is_beyond_ascii(source: &str) -> bool {
    let parsed = regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(source);
    let Ok(hir) = parsed else {
        return false;
    };
    let prefixes = Extractor::new().extract(&hir);
    prefixes.literals().is_some_and(|literals| {
        !literals.is_empty()
            && literals
                .iter()
                .all(|literal| literal.as_bytes().iter().any(|byte| !byte.is_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> BTreeSet<Said> {
        BTreeSet::from([Said::Description, Said::Result])
    }

    #[test]
    fn phrases_are_found_in_any_case_and_over_lines() {
        let phrases = ["ignore previous instructions".to_owned(), "a.b".to_owned()];
        let injection = Injection {
            signals: vec![Signal::of_phrases("x".into(), &phrases, &both())],
        };
        for (text, expected) in [
            ("please IGNORE\n  previous\tinstructions", true),
            ("a.b", true),
            ("axb", false),
            ("ignorepreviousinstructions", false),
        ] {
            let found = injection.find(&[text], Said::Result).unwrap();
            assert_eq!(!found.is_empty(), expected, "{text}");
        }
    }

    #[test]
    fn what_no_ascii_matches_is_not_tried_on_it() {
        assert!(is_beyond_ascii(r"(?:\xF3\xA0[\x80\x81][\x80-\xBF]){8}"));
        assert!(is_beyond_ascii(r"\xE2\x80[\xAA-\xAE]"));
        assert!(!is_beyond_ascii("abc"));
        assert!(!is_beyond_ascii(r"(?:\xE2|a)b"));
        assert!(!is_beyond_ascii(r"\xE2?"));
    }

    #[test]
    fn a_signal_looks_where_it_is_told_to() {
        let only = BTreeSet::from([Said::Description]);
        let injection = Injection {
            signals: vec![Signal::of_pattern("x".into(), "abc".into(), &only)],
        };
        assert_eq!(injection.find(&["ABC"], Said::Result).unwrap().len(), 0);
        assert_eq!(
            injection.find(&["", "xABC"], Said::Description).unwrap(),
            BTreeSet::from(["x".to_owned()])
        );
    }
}
