//! Redaction: secrets leave a text, and nothing else of it is touched.
//!
//! Rules are data ([`Rule`]). A text is looked at once for the keywords of all rules; what a
//! keyword wakes is matched where it stands. Then the same for what the text says in other ways:
//! escaped, percent-encoded, in base64 or hexadecimal digits, coloured, numbered, wrapped. What is
//! found there replaces the whole run that says it. Documents of JSON stay documents of JSON.
//!
//! Whatever cannot be looked at whole is a [`Fault`], never a text that might hold a secret.

mod assignment;
mod block;
mod chars;
mod conditions;
mod cursor;
mod decode;
mod document;
mod encoded;
mod expression;
mod keywords;
mod lines;
mod placeholder;
mod redactor;
mod rule;
mod ruleset;
mod scan;
mod sets;
mod shape;
mod stream;
mod table;
mod view;
mod words;
mod wrapped;

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use chars::Chars;
pub use expression::check_expression;
pub use keywords::KEYWORD_MIN;
pub use placeholder::contains_placeholder;
pub use redactor::{Hit, Redacted, Redactor, find, find_as_written};
pub use rule::{
    Allow, Block, Checksum, Conditions, Length, Name, Rule, Severity, Shape, Token, Value,
};
pub use ruleset::{About, Packed, RuleError, Ruleset};
pub use stream::Stream;
pub use words::Words;

/// The rulesets of a bundle, one for each purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redaction {
    /// Credentials.
    pub secrets: Packed,
    /// Health information.
    pub phi: Packed,
}

/// Why a text was not redacted: whoever asked has to withhold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It says so much in so many ways that not all of it was looked at.
    TooMuch,
    /// The rules are not those that were compiled.
    Broken,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMuch => "the text is encoded in too many ways to be looked at",
            Self::Broken => {
                "a redaction rule cannot be used; `copilot-bridge policy check` says which"
            }
        })
    }
}

impl std::error::Error for Fault {}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it, counted over the rulesets that were looked for together.
    pub rule: usize,
    /// The bytes that say it: of an encoded one, the whole encoded run.
    pub span: Range<usize>,
    /// The secret, decoded.
    pub secret: Vec<u8>,
    /// How it was encoded, the outermost first.
    pub encoding: Vec<Encoding>,
    /// Where it stands in a document of JSON, as a pointer; else empty.
    pub pointer: String,
    /// What replaces it needs quotes, with so many backslashes before each: it is a JSON value.
    wrap: Option<u8>,
    /// It is in a key of an object of a document: of which one.
    key_of: Option<usize>,
}

/// How a text says something else than it seems to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// A string of a JSON document.
    Json,
    /// With backslashes, as in a string of JSON or of a programming language.
    Escaped,
    /// As in URLs.
    Percent,
    /// In base64, of either alphabet.
    Base64,
    /// In hexadecimal digits.
    Hex,
    /// With sequences that steer a terminal.
    Ansi,
    /// Over several lines.
    Wrapped,
}
