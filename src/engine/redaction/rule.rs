//! What a rule of the policies says: which texts are secrets.

use serde::{Deserialize, Serialize};

use super::chars::{Chars, normalised};
use super::words::Words;

/// One rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Its id, unique over all packs; placeholders and records name it.
    pub id: String,
    /// What it finds, in one sentence. A ruleset keeps it elsewhere, as it does what else is not
    /// needed to find something.
    #[serde(skip)]
    pub description: String,
    /// How bad it is if such a secret leaks.
    pub severity: Severity,
    /// The kind of token, where several rules find the same kind.
    #[serde(skip)]
    pub kind: String,
    /// The pack that it belongs to, whose allow-list holds for it.
    #[serde(skip)]
    pub pack: String,
    /// Lower-case texts, one of which has to occur for the rule to be looked at.
    #[serde(skip)]
    pub keywords: Vec<String>,
    /// What the secret looks like.
    pub shape: Shape,
    /// What else has to hold for it.
    pub conditions: Conditions,
}

/// How bad it is if a secret leaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Hardly.
    Low,
    /// Somewhat.
    Medium,
    /// Badly.
    High,
    /// As badly as it can be.
    Critical,
}

/// What a secret looks like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Shape {
    /// It begins with a prefix that says what it is.
    Token(Token),
    /// It stands behind a name that says what it is.
    Value(Value),
    /// It matches a regular expression: all of it, or its group `secret`.
    Pattern(String),
    /// It stands between two lines, as keys in PEM do.
    Block(Block),
    /// It is the password of a URL.
    Userinfo(Length),
    /// It is one of these words.
    Words(Words),
    /// It is whatever stands in a field or column of one of these names, which are normalised.
    Fields(Vec<String>),
}

/// How many bytes a secret has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Length {
    /// At least so many.
    pub min: u32,
    /// At most so many; 0: there is no bound.
    pub max: u32,
}

impl Length {
    /// Whether so many bytes are legal.
    #[must_use]
    pub fn admits(&self, length: usize) -> bool {
        length >= self.min as usize && (self.max == 0 || length <= self.max as usize)
    }

    /// The beginning of a text that shows whether its run of bytes is legal: no more than that is
    /// looked at, or many beginnings in one long run would each look at all of it.
    #[must_use]
    pub fn enough<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let most = match self.max {
            0 => text.len(),
            max => text.len().min(max as usize + 1),
        };
        text.get(..most).unwrap_or(text)
    }
}

impl Default for Length {
    fn default() -> Self {
        Self { min: 1, max: 0 }
    }
}

/// A prefix, a run of bytes, perhaps a suffix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// What it begins with: one of these.
    pub prefixes: Vec<String>,
    /// What follows the prefix.
    pub chars: Chars,
    /// How many of them.
    pub length: Length,
    /// What it ends with, if anything: one of these.
    pub suffixes: Vec<String>,
    /// Whether upper and lower case of prefix and suffix are the same.
    pub ignore_case: bool,
}

/// A name, an operator, a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The identifier contains one of these.
    pub names: Vec<Name>,
    /// And none of these, which are normalised.
    pub not_names: Vec<String>,
    /// What a value without quotes is made of.
    pub chars: Chars,
    /// What a value in quotes is made of.
    pub quoted: Chars,
    /// How many bytes it has.
    pub length: Length,
}

/// A part of an identifier, without case and separators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The part.
    pub text: String,
    /// Whether the identifier begins with it.
    pub first: bool,
    /// Whether the identifier ends with it.
    pub last: bool,
}

impl Name {
    /// The name, where a `^` in front or a `$` behind ties it to that end of the identifier.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self {
            text: normalised(text.as_bytes()),
            first: text.starts_with('^'),
            last: text.ends_with('$'),
        }
    }

    /// Whether a normalised identifier has it.
    #[must_use]
    pub fn is_in(&self, identifier: &str) -> bool {
        match (self.first, self.last) {
            (true, true) => identifier == self.text,
            (true, false) => identifier.starts_with(&self.text),
            (false, true) => identifier.ends_with(&self.text),
            (false, false) => identifier.contains(&self.text),
        }
    }
}

/// Two lines, and what is between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// What the first line begins with: one of these.
    pub begin: Vec<String>,
    /// What else is in the first line; may be empty.
    pub contains: String,
    /// What is in the last line.
    pub end: String,
}

/// What else has to hold for a secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Its Shannon entropy in bits for each byte, at least.
    pub entropy: Option<f32>,
    /// The check that its digits pass.
    pub checksum: Option<Checksum>,
    /// Of each set, at least one byte is in it.
    pub require: Vec<Chars>,
    /// None of these lower-case texts is in it.
    pub allow: Vec<String>,
    /// None of these expressions matches it.
    pub allow_patterns: Vec<String>,
    /// None of these lower-case texts stands right before it.
    pub not_before: Vec<String>,
    /// None of these lower-case texts stands right behind it.
    pub not_after: Vec<String>,
}

/// What is known to be no secret, for all rules of one pack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allow {
    /// The pack.
    pub pack: String,
    /// Lower-case texts that are the whole secret.
    pub exact: Vec<String>,
    /// Lower-case texts that are contained in it.
    pub values: Vec<String>,
    /// Expressions that match it.
    pub patterns: Vec<String>,
}

/// A check that the digits of a number pass if it is what it looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    /// Cards and many account numbers.
    Luhn,
    /// National provider identifiers of the United States.
    Npi,
    /// Medicare beneficiary identifiers of the United States.
    Mbi,
}

impl Checksum {
    /// Whether the text passes; what separates its characters does not count.
    #[must_use]
    pub fn passes(self, text: &[u8]) -> bool {
        let kept = || text.iter().copied().filter(u8::is_ascii_alphanumeric);
        match self {
            Self::Luhn => kept().all(|byte| byte.is_ascii_digit()) && luhn(kept(), 0),
            // The card number that the identifier is a part of begins with 80840: that adds 24.
            Self::Npi => {
                kept().count() == 10 && kept().all(|byte| byte.is_ascii_digit()) && luhn(kept(), 24)
            }
            Self::Mbi => is_mbi(kept()),
        }
    }
}

fn luhn(digits: impl Iterator<Item = u8>, start: u32) -> bool {
    let digits: Vec<u32> = digits.map(|byte| u32::from(byte - b'0')).collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, *digit) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    digits.len() > 1 && (sum + start).is_multiple_of(10)
}

/// Eleven places, each a digit, a letter without those that look like digits, or either.
fn is_mbi(characters: impl Iterator<Item = u8>) -> bool {
    let letter = |byte: u8| byte.is_ascii_uppercase() && !b"SLOIBZ".contains(&byte);
    let places = b"1an0an0aa00";
    let characters: Vec<u8> = characters.map(|byte| byte.to_ascii_uppercase()).collect();
    characters.len() == places.len()
        && characters
            .iter()
            .zip(places)
            .all(|(byte, place)| match place {
                b'1' => (b'1'..=b'9').contains(byte),
                b'0' => byte.is_ascii_digit(),
                b'a' => letter(*byte),
                _ => letter(*byte) || byte.is_ascii_digit(),
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_separators() {
        for (name, identifier, wanted) in [
            ("apikey", "MY_API-Key.2", true),
            ("^apikey", "my_api_key", false),
            ("apikey$", "my.api.key", true),
            ("^token$", "TOKEN", true),
            ("^token$", "tokens", false),
        ] {
            let found = Name::new(name).is_in(&normalised(identifier.as_bytes()));
            assert_eq!(found, wanted, "{name} {identifier}");
        }
    }

    #[test]
    fn checksums_know_a_changed_digit() {
        assert!(Checksum::Luhn.passes(b"4111 1111 1111 1111"));
        assert!(!Checksum::Luhn.passes(b"4111 1111 1111 1112"));
        assert!(!Checksum::Luhn.passes(b""));
        assert!(Checksum::Npi.passes(b"1234567893"));
        assert!(!Checksum::Npi.passes(b"1234567890"));
        assert!(!Checksum::Npi.passes(b"12345"));
        assert!(Checksum::Mbi.passes(b"1EG4-TE5-MK73"));
        assert!(!Checksum::Mbi.passes(b"1SG4-TE5-MK73"));
    }

    #[test]
    fn a_length_without_bound() {
        assert!(Length { min: 2, max: 0 }.admits(9999));
        assert!(!Length { min: 2, max: 3 }.admits(4));
    }
}
