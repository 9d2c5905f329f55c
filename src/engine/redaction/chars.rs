//! Sets of bytes: what a secret, or a part of it, is made of.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde::{Deserialize, Serialize};

/// A set of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chars([u64; 4]);

/// The sets that have a name.
const NAMED: [(&str, &str); 10] = [
    ("digit", "[0-9]"),
    ("hex", "[0-9A-Fa-f]"),
    ("lower", "[a-z]"),
    ("upper", "[A-Z]"),
    ("letter", "[A-Za-z]"),
    ("alnum", "[0-9A-Za-z]"),
    ("word", "[0-9A-Za-z_]"),
    ("base64", "[0-9A-Za-z+/=]"),
    ("base64url", "[0-9A-Za-z_=-]"),
    ("base32", "[A-Z2-7=]"),
];

impl Chars {
    /// The set of that name, or of a bracket class of a regular expression such as `[a-z_.-]`.
    ///
    /// # Errors
    /// If it is neither, or holds nothing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let named = NAMED.iter().find(|(name, _)| *name == text);
        let source = match named {
            Some((_, class)) => class,
            None if text.starts_with('[') && text.ends_with(']') => text,
            None => {
                let names: Vec<String> =
                    NAMED.iter().map(|(name, _)| format!("`{name}`")).collect();
                return Err(format!("it is {} or a class in brackets", names.join(", ")));
            }
        };
        let hir = regex_syntax::ParserBuilder::new()
            .unicode(false)
            .utf8(false)
            .build()
            .parse(source)
            .map_err(|_| "this is no class in brackets".to_owned())?;
        let set = Self::of(&hir).ok_or_else(|| "this is more than one class".to_owned())?;
        if set == Self::default() {
            return Err("the class holds nothing".to_owned());
        }
        Ok(set)
    }

    /// Whether the byte is in the set.
    #[must_use]
    #[inline]
    pub fn has(&self, byte: u8) -> bool {
        self.0
            .get(usize::from(byte >> 6))
            .is_some_and(|bits| bits >> (byte & 63) & 1 == 1)
    }

    /// How many bytes at the start of the text are in the set.
    #[must_use]
    pub fn run(&self, text: &[u8]) -> usize {
        text.iter()
            .position(|byte| !self.has(*byte))
            .unwrap_or(text.len())
    }

    /// The bytes of the set, in order.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(|byte| self.has(*byte))
    }

    fn of(hir: &Hir) -> Option<Self> {
        let mut set = Self::default();
        match hir.kind() {
            HirKind::Class(Class::Bytes(class)) => {
                for range in class.ranges() {
                    set.add(range.start()..=range.end());
                }
            }
            // Without Unicode, a class of ASCII characters may still be kept as characters.
            HirKind::Class(Class::Unicode(class)) => {
                for range in class.ranges() {
                    let (start, end) = (u8::try_from(range.start()), u8::try_from(range.end()));
                    set.add(start.ok()?..=end.ok()?);
                }
            }
            HirKind::Literal(literal) => match *literal.0 {
                [byte] => set.add(byte..=byte),
                _ => return None,
            },
            _ => return None,
        }
        Some(set)
    }

    fn add(&mut self, bytes: std::ops::RangeInclusive<u8>) {
        for byte in bytes {
            if let Some(bits) = self.0.get_mut(usize::from(byte >> 6)) {
                *bits |= 1 << (byte & 63);
            }
        }
    }
}

/// Whether the byte belongs to a word: a token does not begin or end within one.
pub(super) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether the byte belongs to an identifier, as programs, files and headers spell them.
pub(super) const fn is_identifier(byte: u8) -> bool {
    is_word(byte) || byte == b'.' || byte == b'-'
}

/// The identifier as it is compared: without case and separators.
pub(super) fn normalised(identifier: &[u8]) -> String {
    identifier
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_regular_expressions() {
        let class = Chars::parse(r"[A-C_.=-]").unwrap();
        let text: Vec<u8> = class.bytes().collect();
        assert_eq!(text, b"-.=ABC_");
        assert_eq!(Chars::parse("[^!-~]").unwrap().bytes().count(), 256 - 94);
        assert_eq!(Chars::parse("[a]").unwrap().bytes().count(), 1);
        for (name, class) in NAMED {
            assert_eq!(Chars::parse(name), Chars::parse(class));
        }
    }

    #[test]
    fn what_is_no_class_is_refused() {
        for text in [
            "",
            "alpha",
            "[",
            "[a][b]",
            "[z-a]",
            "a",
            "[^\\x00-\\xff]",
            "[ab]+[c]",
        ] {
            assert!(Chars::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_run_ends_with_the_set() {
        let digits = Chars::parse("digit").unwrap();
        assert_eq!(digits.run(b"123a4"), 3);
        assert_eq!(digits.run(b""), 0);
    }
}
