//! Rules for tests: a token that no service gives out, and passwords.

use super::Rules;
use crate::engine::redaction::{
    Chars, Conditions, Length, Name, Rule, Ruleset, Severity, Shape, Token, Value,
};

/// Rules that own what a redactor borrows.
pub(super) struct Trial(Rules);

impl Trial {
    pub(super) fn new() -> Self {
        let rule = |id: &str, keywords: &[&str], shape| Rule {
            id: id.to_owned(),
            description: format!("a trial: {id}"),
            severity: Severity::Critical,
            kind: id.to_owned(),
            pack: "trial".to_owned(),
            keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
            shape,
            conditions: Conditions::default(),
        };
        let token = Shape::Token(Token {
            prefixes: vec!["tst_".to_owned()],
            chars: Chars::parse("alnum").unwrap(),
            length: Length { min: 24, max: 24 },
            suffixes: Vec::new(),
            ignore_case: false,
        });
        let value = Shape::Value(Value {
            names: vec![Name::new("password")],
            not_names: Vec::new(),
            chars: Chars::parse("[!-~]").unwrap(),
            quoted: Chars::parse("[!-~]").unwrap(),
            length: Length { min: 6, max: 64 },
        });
        let rules = vec![
            rule("test-token", &["tst_"], token),
            rule("test-password", &["password"], value),
        ];
        Self(Rules {
            secrets: Ruleset::new(&rules, &[]).unwrap(),
            phi: None,
            key: [7; 32],
        })
    }

    pub(super) fn sets(&self) -> Vec<&Ruleset> {
        self.0.sets()
    }
}

/// A token that the rules know.
pub(super) fn token() -> String {
    ["tst", "_", &"aB3dE5fG7hJ9".repeat(2)].concat()
}
