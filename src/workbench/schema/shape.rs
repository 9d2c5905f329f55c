//! What a TOML file may say: tables of keys with their types, in words.

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::policy::settings::Key;

/// The line of a public key: 32 bytes as Base64, whose last two bits are none.
pub(super) const PUBLIC_KEY: &str = r"^\s*ed25519:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\s*$";

/// A table and its keys.
#[derive(Debug)]
pub struct Table {
    /// The keys as the reader knows them.
    pub keys: &'static [Key],
    /// What each of them is.
    pub fields: Vec<Field>,
    /// Keys of which exactly one has to be there; empty: no such rule.
    pub one_of: &'static [&'static str],
    /// Keys of which at least one has to be there; empty: no such rule.
    pub some_of: &'static [&'static str],
    /// A key of those in `one_of` that does not count beside another.
    pub exception: Option<(&'static str, &'static str)>,
    /// What else holds, as JSON Schemas.
    pub rules: Vec<Value>,
}

/// One key of a table.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub about: &'static str,
    /// What its value may be.
    pub shape: Shape,
    /// What holds without it.
    pub default: Option<Value>,
    /// Whether it has to be there.
    pub required: bool,
}

/// What a value may be.
#[derive(Debug)]
pub enum Shape {
    /// The version of the policy language.
    Format,
    /// A text.
    Text,
    /// A text that is not empty.
    Filled,
    /// A text that matches a regular expression.
    Form(&'static str),
    /// One line of plain text with so many characters at most.
    Line(usize),
    /// A day, or a time with a zone, in TOML's own form.
    Moment,
    /// One of several words.
    Choice(Vec<&'static str>),
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number(RangeInclusive<u32>),
    /// A whole number, at least 1, whose upper bound something else in the file sets.
    Count,
    /// A number that may have a fraction.
    Fraction,
    /// Two whole numbers.
    Pair(RangeInclusive<u32>),
    /// A list, which may be empty.
    Texts(Box<Shape>),
    /// A list that is not empty.
    Several(Box<Shape>),
    /// A list of texts and tables.
    Entries(Table),
    /// A table with any keys, whose values are lists of texts.
    Lists,
    /// A table with any keys.
    Free,
    /// A table with any keys, whose values are JSON Schemas.
    Schemas,
    /// `[name]`
    Table(Table),
    /// `[[name]]`
    Tables(Table),
}

impl Table {
    /// A table with these keys.
    pub(super) fn new(keys: &'static [Key], fields: impl IntoIterator<Item = Field>) -> Self {
        Self {
            keys,
            fields: fields.into_iter().collect(),
            one_of: &[],
            some_of: &[],
            exception: None,
            rules: Vec::new(),
        }
    }

    /// The same table, with exactly one of these keys.
    pub(super) fn with_one_of(mut self, names: &'static [&'static str]) -> Self {
        self.one_of = names;
        self
    }

    /// The same table, with at least one of these keys.
    pub(super) fn with_some_of(mut self, names: &'static [&'static str]) -> Self {
        self.some_of = names;
        self
    }

    /// The same table; the first of these does not count among those beside the second.
    pub(super) fn with_exception(mut self, name: &'static str, beside: &'static str) -> Self {
        self.exception = Some((name, beside));
        self
    }

    /// The same table, for which this JSON Schema holds too.
    pub(super) fn with_rule(mut self, rule: Value) -> Self {
        self.rules.push(rule);
        self
    }
}

impl Field {
    /// The same key, which has to be there.
    pub(super) fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same key; without it, this holds.
    pub(super) fn default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }
}

/// A key.
pub(super) const fn field(name: &'static str, shape: Shape, about: &'static str) -> Field {
    Field {
        name,
        about,
        shape,
        default: None,
        required: false,
    }
}

/// `format`, which stands in every file.
pub(super) fn format() -> Field {
    field(
        "format",
        Shape::Format,
        "The version of the policy language.",
    )
    .required()
}

/// A key with a list of texts.
pub(super) fn texts(name: &'static str, about: &'static str) -> Field {
    field(name, Shape::Texts(Box::new(Shape::Text)), about)
}

/// A key with one of several words, as the reader's table has them.
pub(super) fn words<T, const N: usize>(
    name: &'static str,
    words: &[(&'static str, T); N],
    about: &'static str,
) -> Field {
    let words = words.iter().map(|(word, _)| *word).collect();
    field(name, Shape::Choice(words), about)
}

/// A key that is `true` or `false`, and `false` where it is not there.
pub(super) fn flag(name: &'static str, about: &'static str) -> Field {
    field(name, Shape::Flag, about).default(false)
}
