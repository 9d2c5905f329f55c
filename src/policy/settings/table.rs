//! Reading one TOML table key by key, so that every problem of it is found and none hides another.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::policy::diagnostic::{Code, Problem, alternatives, quote, suggest};
use crate::policy::source::SourceFile;

/// A key that a table may have.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What becomes of it where several layers have it.
    pub merge: Merge,
}

/// What becomes of a key where several layers have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// All entries count.
    Union,
    /// Only entries that every layer has count.
    Intersect,
    /// The smallest value counts.
    Min,
    /// The strictest value counts.
    Max,
    /// Only the base may have it.
    BaseOnly,
    /// Each file has its own.
    PerFile,
}

/// The key `name`, merged like that.
pub(crate) const fn key(name: &'static str, merge: Merge) -> Key {
    Key { name, merge }
}

/// The file that is being read, and what is wrong with it so far.
pub(crate) struct Reader<'a> {
    /// The file.
    pub(crate) file: &'a Arc<SourceFile>,
    /// Whether its layer is the base.
    pub(crate) base: bool,
    /// Whether there is time to try what could only be wrong if nobody had tried it before.
    pub(crate) thorough: bool,
    /// What is wrong so far, with any file.
    pub(crate) problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    /// Notes a problem at a place of the file.
    pub(crate) fn push(&mut self, span: Range<usize>, problem: Problem) {
        self.problems.push(problem.at(self.file, span));
    }

    /// The name of the file's layer, as ids start with it.
    pub(crate) fn layer(&self) -> String {
        self.file.layer.prefix().to_owned()
    }
}

/// An entry of a list that holds texts and tables.
pub(crate) enum Entry<'t> {
    /// A text.
    Text(&'t str),
    /// A table.
    Table(Table<'t>),
}

/// One table of the file.
#[derive(Clone, Copy)]
pub(crate) struct Table<'t> {
    map: &'t DeTable<'t>,
    span: (usize, usize),
}

impl<'t> Table<'t> {
    /// The table whose content stands at `span`.
    pub(crate) fn new(map: &'t DeTable<'t>, span: Range<usize>) -> Self {
        Self {
            map,
            span: (span.start, span.end),
        }
    }

    /// The bytes of the table's header, or of its braces.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.0..self.span.1
    }

    /// Notes every key that is not among `keys`, or that only the base may have.
    pub(crate) fn check(&self, keys: &[Key], reader: &mut Reader<'_>) {
        for name in self.map.keys() {
            let word = name.get_ref().as_ref();
            let Some(key) = keys.iter().find(|key| key.name == word) else {
                let known = keys.iter().map(|key| key.name);
                let help = suggest(word, known.clone())
                    .unwrap_or_else(|| format!("known here: {}", alternatives(known)));
                let problem =
                    Problem::error(Code::UnknownKey, format!("unknown key `{}`", quote(word)))
                        .help(help);
                reader.push(name.span(), problem);
                continue;
            };
            if key.merge == Merge::BaseOnly && !reader.base {
                let problem = Problem::error(
                    Code::Loosens,
                    format!("`{word}` may be set by the base layer only"),
                )
                .help("remove it here; it belongs into the layer above");
                reader.push(name.span(), problem);
            }
        }
    }

    /// Whether the table has that key.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// A text.
    pub(crate) fn text(&self, name: &str, reader: &mut Reader<'_>) -> Option<Spanned<String>> {
        let value = self.value(name)?;
        as_text(value, reader)
    }

    /// A text that has to be there and may not be empty.
    pub(crate) fn required_text(
        &self,
        name: &str,
        reader: &mut Reader<'_>,
    ) -> Option<Spanned<String>> {
        if !self.has(name) {
            self.missing(name, reader);
            return None;
        }
        let text = self.text(name, reader)?;
        if text.get_ref().is_empty() {
            let problem = Problem::error(Code::BadValue, format!("`{name}` is empty"));
            reader.push(text.span(), problem);
            return None;
        }
        Some(text)
    }

    /// Notes that a key is not there.
    pub(crate) fn missing(&self, name: &str, reader: &mut Reader<'_>) {
        let problem = Problem::error(Code::MissingKey, format!("`{name}` is missing"));
        reader.push(self.span(), problem);
    }

    /// `true` or `false`; without the key, `false`.
    pub(crate) fn flag(&self, name: &str, reader: &mut Reader<'_>) -> bool {
        let Some(value) = self.value(name) else {
            return false;
        };
        value.get_ref().as_bool().unwrap_or_else(|| {
            wrong_type(value, "`true` or `false`", reader);
            false
        })
    }

    /// A whole number within the range.
    pub(crate) fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u32>,
        reader: &mut Reader<'_>,
    ) -> Option<Spanned<u32>> {
        let value = self.value(name)?;
        let Some(integer) = value.get_ref().as_integer() else {
            wrong_type(value, "a whole number", reader);
            return None;
        };
        let number = u32::from_str_radix(&integer.as_str().replace('_', ""), integer.radix());
        match number {
            Ok(number) if range.contains(&number) => Some(Spanned::new(value.span(), number)),
            _ => {
                let (from, to) = (range.start(), range.end());
                let problem = Problem::error(
                    Code::BadValue,
                    format!("`{name}` has to be between {from} and {to}"),
                );
                reader.push(value.span(), problem);
                None
            }
        }
    }

    /// Two whole numbers within the range.
    pub(crate) fn pair(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u32>,
        reader: &mut Reader<'_>,
    ) -> Option<(u32, u32)> {
        let Some(value) = self.value(name) else {
            self.missing(name, reader);
            return None;
        };
        let numbers: Vec<Option<u32>> = value
            .get_ref()
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| {
                let integer = entry.get_ref().as_integer()?;
                u32::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
            })
            .collect();
        match numbers.as_slice() {
            [Some(first), Some(second)] if range.contains(first) && range.contains(second) => {
                Some((*first, *second))
            }
            _ => {
                let (from, to) = (range.start(), range.end());
                let problem = Problem::error(
                    Code::BadValue,
                    format!("`{name}` is two whole numbers between {from} and {to}"),
                );
                reader.push(value.span(), problem);
                None
            }
        }
    }

    /// A number that may have a fraction.
    pub(crate) fn fraction(&self, name: &str, reader: &mut Reader<'_>) -> Option<Spanned<f64>> {
        let value = self.value(name)?;
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
            DeValue::Integer(integer) if integer.radix() == 10 => {
                integer.as_str().replace('_', "").parse().ok()
            }
            _ => None,
        };
        match number {
            Some(number) if f64::is_finite(number) => Some(Spanned::new(value.span(), number)),
            _ => {
                wrong_type(value, "a number that is finite", reader);
                None
            }
        }
    }

    /// One of several words.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &str,
        words: &[(&'static str, T)],
        reader: &mut Reader<'_>,
    ) -> Option<Spanned<T>> {
        let text = self.text(name, reader)?;
        let word = text.get_ref();
        if let Some((_, chosen)) = words.iter().find(|(known, _)| known == word) {
            return Some(Spanned::new(text.span(), *chosen));
        }
        let known = words.iter().map(|(word, _)| *word);
        let problem = Problem::error(
            Code::BadValue,
            format!("`{}` is no value of `{name}`", quote(word)),
        )
        .help(format!("it is {}", alternatives(known)));
        reader.push(text.span(), problem);
        None
    }

    /// A list of texts; without the key, an empty one.
    pub(crate) fn texts(&self, name: &str, reader: &mut Reader<'_>) -> Vec<Spanned<String>> {
        let Some(value) = self.value(name) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            wrong_type(value, "a list of texts", reader);
            return Vec::new();
        };
        array
            .iter()
            .filter_map(|entry| as_text(entry, reader))
            .collect()
    }

    /// A table, `[name]`.
    pub(crate) fn table(&self, name: &str, reader: &mut Reader<'_>) -> Option<Table<'t>> {
        let value = self.value(name)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            wrong_type(value, "a table", reader);
        }
        Some(Table::new(table?, value.span()))
    }

    /// Tables, `[[name]]`; without the key, none.
    pub(crate) fn tables(&self, name: &str, reader: &mut Reader<'_>) -> Vec<Table<'t>> {
        let Some(value) = self.value(name) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            wrong_type(value, &format!("a list of tables, `[[{name}]]`"), reader);
            return Vec::new();
        };
        array
            .iter()
            .filter_map(|entry| {
                let table = entry.get_ref().as_table();
                if table.is_none() {
                    wrong_type(entry, "a table", reader);
                }
                Some(Table::new(table?, entry.span()))
            })
            .collect()
    }

    /// The names of the keys, and where they stand.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&'t str, Range<usize>)> {
        let map = self.map;
        map.keys()
            .map(|name| (name.get_ref().as_ref(), name.span()))
    }

    /// A list whose entries are texts or tables; without the key, an empty one.
    pub(crate) fn entries(
        &self,
        name: &str,
        reader: &mut Reader<'_>,
    ) -> Vec<(Range<usize>, Entry<'t>)> {
        let Some(value) = self.value(name) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            wrong_type(value, "a list", reader);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for entry in array.iter() {
            match entry.get_ref() {
                DeValue::String(text) => {
                    entries.push((entry.span(), Entry::Text(text.as_ref())));
                }
                DeValue::Table(map) => {
                    let table = Table::new(map, entry.span());
                    entries.push((entry.span(), Entry::Table(table)));
                }
                _ => wrong_type(entry, "a text or a table", reader),
            }
        }
        entries
    }

    /// A table as JSON has it, each text of it as `write` writes it.
    pub(crate) fn object(
        &self,
        name: &str,
        write: fn(&str) -> String,
        reader: &mut Reader<'_>,
    ) -> Option<Spanned<Value>> {
        let value = self.value(name)?;
        if value.get_ref().as_table().is_none() {
            wrong_type(value, "a table", reader);
            return None;
        }
        let json = as_json(value, write, reader)?;
        Some(Spanned::new(value.span(), json))
    }

    /// Where the value of that key stands.
    pub(crate) fn span_of(&self, name: &str) -> Range<usize> {
        self.value(name).map_or_else(|| self.span(), Spanned::span)
    }

    fn value(&self, name: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.map.get(name)
    }
}

fn as_text(value: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Spanned<String>> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        wrong_type(value, "a text", reader);
    }
    Some(Spanned::new(value.span(), text?.to_owned()))
}

fn as_json(
    value: &Spanned<DeValue<'_>>,
    write: fn(&str) -> String,
    reader: &mut Reader<'_>,
) -> Option<Value> {
    let number = match value.get_ref() {
        DeValue::String(text) => return Some(Value::String(write(text))),
        DeValue::Boolean(flag) => return Some(Value::Bool(*flag)),
        DeValue::Array(array) => {
            let entries = array.iter().map(|entry| as_json(entry, write, reader));
            return entries.collect::<Option<Vec<Value>>>().map(Value::Array);
        }
        DeValue::Table(map) => {
            let entries = map.iter().map(|(name, entry)| {
                let name = name.get_ref().as_ref().to_owned();
                Some((name, as_json(entry, write, reader)?))
            });
            return entries.collect::<Option<_>>().map(Value::Object);
        }
        DeValue::Integer(integer) => {
            i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix())
                .ok()
                .map(Value::from)
        }
        DeValue::Float(float) => float
            .as_str()
            .replace('_', "")
            .parse::<f64>()
            .ok()
            .and_then(|float| serde_json::Number::from_f64(float).map(Value::Number)),
        DeValue::Datetime(_) => None,
    };
    if number.is_none() {
        wrong_type(value, "what JSON has", reader);
    }
    number
}

fn wrong_type(value: &Spanned<DeValue<'_>>, wanted: &str, reader: &mut Reader<'_>) {
    let found = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "`true` or `false`",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let problem = Problem::error(Code::WrongType, format!("this is {found}, not {wanted}"));
    reader.push(value.span(), problem);
}
