//! One `[[rule]]`: its keys, read with their places, and what is wrong with them.

use std::ops::Range;

use toml::Spanned;

use super::super::table::{Key, Merge, Reader, Table, key};
use super::example::{self, Example};
use super::{expression, lower};
use crate::engine::redaction::{
    Block, Chars, Checksum, Conditions, KEYWORD_MIN, Length, Name, Rule, Severity, Shape, Token,
    Value, Words,
};
use crate::policy::diagnostic::{Code, Problem, alternatives, quote};

/// The keys of `[[rule]]`.
pub const RULE: &[Key] = &[
    key("id", Merge::PerFile),
    key("description", Merge::PerFile),
    key("severity", Merge::PerFile),
    key("kind", Merge::PerFile),
    key("keywords", Merge::PerFile),
    key("token", Merge::PerFile),
    key("value", Merge::PerFile),
    key("pattern", Merge::PerFile),
    key("block", Merge::PerFile),
    key("userinfo", Merge::PerFile),
    key("words", Merge::PerFile),
    key("fields", Merge::PerFile),
    key("entropy", Merge::PerFile),
    key("checksum", Merge::PerFile),
    key("require", Merge::PerFile),
    key("allow", Merge::PerFile),
    key("allow_patterns", Merge::PerFile),
    key("not_before", Merge::PerFile),
    key("not_after", Merge::PerFile),
    key("case_sensitive", Merge::PerFile),
    key("examples", Merge::PerFile),
    key("counterexamples", Merge::PerFile),
];

/// The keys of `token = {…}`.
pub const TOKEN: &[Key] = &[
    key("prefix", Merge::PerFile),
    key("chars", Merge::PerFile),
    key("length", Merge::PerFile),
    key("suffix", Merge::PerFile),
];

/// The keys of `value = {…}`.
pub const VALUE: &[Key] = &[
    key("names", Merge::PerFile),
    key("not_names", Merge::PerFile),
    key("chars", Merge::PerFile),
    key("quoted", Merge::PerFile),
    key("length", Merge::PerFile),
];

/// The keys of `block = {…}`.
pub const BLOCK: &[Key] = &[
    key("begin", Merge::PerFile),
    key("contains", Merge::PerFile),
    key("end", Merge::PerFile),
];

/// The keys of `userinfo = {…}`.
pub const USERINFO: &[Key] = &[key("length", Merge::PerFile)];

/// The keys that say what a secret looks like.
const SHAPES: [&str; 7] = [
    "token", "value", "pattern", "block", "userinfo", "words", "fields",
];

const SEVERITIES: [(&str, Severity); 4] = [
    ("low", Severity::Low),
    ("medium", Severity::Medium),
    ("high", Severity::High),
    ("critical", Severity::Critical),
];

const CHECKSUMS: [(&str, Checksum); 3] = [
    ("luhn", Checksum::Luhn),
    ("npi", Checksum::Npi),
    ("mbi", Checksum::Mbi),
];

/// No secret is longer, in bytes.
const LONGEST: u32 = 1 << 20;

/// The rule, where its id stands, and its examples.
pub(super) fn read(
    pack: &str,
    table: Table<'_>,
    reader: &mut Reader<'_>,
) -> Option<(Rule, Range<usize>, Vec<Example>)> {
    table.check(RULE, reader);
    let id = identifier(table, reader);
    let description = table.required_text("description", reader);
    if !table.has("severity") {
        table.missing("severity", reader);
    }
    let severity = table.choice("severity", &SEVERITIES, reader);
    let kind = table.text("kind", reader).map(Spanned::into_inner);
    let shape = shape(table, reader);
    let conditions = conditions(table, reader);
    let examples = example::read(table, reader);
    let shape = shape?;
    let keywords = keywords(table, &shape, reader)?;
    let id = id?;
    let span = id.span();
    let rule = Rule {
        id: id.into_inner(),
        description: description?.into_inner(),
        severity: severity?.into_inner(),
        kind: kind.unwrap_or_default(),
        pack: pack.to_owned(),
        keywords,
        shape,
        conditions: conditions?,
    };
    Some((rule, span, examples))
}

fn identifier(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Spanned<String>> {
    let id = table.required_text("id", reader)?;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.get_ref().chars().all(legal) && id.get_ref().len() <= 80 {
        return Some(id);
    }
    let problem = Problem::error(
        Code::BadValue,
        format!("`{}` is no id of a rule", quote(id.get_ref())),
    )
    .help("an id is made of small letters, digits and `-`");
    reader.push(id.span(), problem);
    None
}

fn shape(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Shape> {
    let given: Vec<&str> = SHAPES.into_iter().filter(|name| table.has(name)).collect();
    match given.as_slice() {
        [] => {
            let problem = Problem::error(
                Code::MissingKey,
                "the rule does not say what its secret looks like",
            )
            .help(format!("add {}", alternatives(SHAPES)));
            reader.push(table.span(), problem);
            return None;
        }
        [_] => {}
        [first, second, ..] => {
            let problem = Problem::error(
                Code::BadValue,
                format!("a rule has one form: this one has `{first}` and `{second}`"),
            );
            reader.push(table.span_of(second), problem);
            return None;
        }
    }
    let exact = table.flag("case_sensitive", reader);
    Some(match *given.first()? {
        "token" => Shape::Token(token(
            table.table("token", reader)?,
            table.has("case_sensitive") && !exact,
            reader,
        )?),
        "value" => Shape::Value(value(table.table("value", reader)?, reader)?),
        "block" => Shape::Block(block(table.table("block", reader)?, reader)?),
        "userinfo" => {
            let inner = table.table("userinfo", reader)?;
            inner.check(USERINFO, reader);
            let any = Length::default();
            Shape::Userinfo(if inner.has("length") {
                length(inner, reader)?
            } else {
                any
            })
        }
        "words" => Shape::Words(Words::new(texts(table, "words", reader)?, exact)),
        "fields" => {
            let names = texts(table, "fields", reader)?;
            Shape::Fields(names.iter().map(|name| Name::new(name).text).collect())
        }
        _ => {
            let source = table.text("pattern", reader)?;
            let before = reader.problems.len();
            expression(&source, reader);
            if reader.problems.len() > before {
                return None;
            }
            Shape::Pattern(source.into_inner())
        }
    })
}

fn token(table: Table<'_>, ignore_case: bool, reader: &mut Reader<'_>) -> Option<Token> {
    table.check(TOKEN, reader);
    let prefixes = texts(table, "prefix", reader);
    let chars = chars(table, "chars", reader);
    let length = length(table, reader);
    let suffixes = table.texts("suffix", reader);
    Some(Token {
        prefixes: prefixes?,
        chars: chars?,
        length: length?,
        suffixes: suffixes.into_iter().map(Spanned::into_inner).collect(),
        ignore_case,
    })
}

fn value(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Value> {
    table.check(VALUE, reader);
    let names = texts(table, "names", reader);
    let not_names = table.texts("not_names", reader);
    let chars_given = chars(table, "chars", reader);
    let quoted = if table.has("quoted") {
        chars(table, "quoted", reader)
    } else {
        chars_given
    };
    let length = length(table, reader);
    Some(Value {
        names: names?.iter().map(|name| Name::new(name)).collect(),
        not_names: not_names
            .iter()
            .map(|name| Name::new(name.get_ref()).text)
            .collect(),
        chars: chars_given?,
        quoted: quoted?,
        length: length?,
    })
}

fn block(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Block> {
    table.check(BLOCK, reader);
    let begin = texts(table, "begin", reader);
    let contains = table.text("contains", reader).map(Spanned::into_inner);
    let end = table.required_text("end", reader);
    Some(Block {
        begin: begin?,
        contains: contains.unwrap_or_default(),
        end: end?.into_inner(),
    })
}

fn conditions(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Conditions> {
    let entropy = table.fraction("entropy", reader);
    let checksum = table.choice("checksum", &CHECKSUMS, reader);
    let allow_patterns = table.texts("allow_patterns", reader);
    for pattern in &allow_patterns {
        expression(pattern, reader);
    }
    let require: Option<Vec<Chars>> = table
        .texts("require", reader)
        .into_iter()
        .map(|text| parse(&text, reader))
        .collect();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "bits for each byte: at most 8"
    )]
    let entropy = entropy.map(|number| number.into_inner() as f32);
    Some(Conditions {
        entropy,
        checksum: checksum.map(Spanned::into_inner),
        require: require?,
        allow: lower(table.texts("allow", reader)),
        allow_patterns: allow_patterns
            .into_iter()
            .map(Spanned::into_inner)
            .collect(),
        not_before: lower(table.texts("not_before", reader)),
        not_after: lower(table.texts("not_after", reader)),
    })
}

/// The keywords that are written, or those that the shape itself gives.
fn keywords(table: Table<'_>, shape: &Shape, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let written = table.texts("keywords", reader);
    for word in &written {
        let text = word.get_ref();
        let problem = if text.len() < KEYWORD_MIN {
            format!("a keyword has at least {KEYWORD_MIN} bytes: a shorter one occurs everywhere")
        } else if !text.is_ascii() || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            "a keyword is ASCII in lower case; it is found in any case".to_owned()
        } else {
            continue;
        };
        reader.push(word.span(), Problem::error(Code::BadValue, problem));
        return None;
    }
    if table.has("keywords") {
        return Some(written.into_iter().map(Spanned::into_inner).collect());
    }
    let mut words = given(shape);
    words.sort_unstable();
    words.dedup();
    let asleep = matches!(shape, Shape::Fields(_));
    if !asleep && (words.is_empty() || words.iter().any(|word| word.len() < KEYWORD_MIN)) {
        let problem = Problem::error(
            Code::MissingKey,
            format!("the rule needs `keywords` of at least {KEYWORD_MIN} bytes"),
        )
        .help("name texts, one of which stands near each of its secrets");
        reader.push(table.span(), problem);
        return None;
    }
    Some(words)
}

fn given(shape: &Shape) -> Vec<String> {
    match shape {
        Shape::Token(token) => token
            .prefixes
            .iter()
            .map(|p| p.to_ascii_lowercase())
            .collect(),
        Shape::Value(value) => value.names.iter().map(|name| name.text.clone()).collect(),
        Shape::Block(block) => block.begin.iter().map(|b| b.to_ascii_lowercase()).collect(),
        Shape::Userinfo(_) => vec!["://".to_owned()],
        Shape::Words(words) => words.keywords(),
        Shape::Pattern(_) | Shape::Fields(_) => Vec::new(),
    }
}

/// Texts, of which there has to be one, and none may be empty.
fn texts(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    if !table.has(name) {
        table.missing(name, reader);
        return None;
    }
    let texts = table.texts(name, reader);
    let empty = texts.iter().find(|text| text.get_ref().is_empty());
    if texts.is_empty() || empty.is_some() {
        let span = empty.map_or_else(|| table.span_of(name), Spanned::span);
        let problem = Problem::error(Code::BadValue, format!("`{name}` holds an empty text"));
        reader.push(span, problem);
        return None;
    }
    Some(texts.into_iter().map(Spanned::into_inner).collect())
}

fn chars(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> Option<Chars> {
    let text = table.required_text(name, reader)?;
    parse(&text, reader)
}

fn parse(text: &Spanned<String>, reader: &mut Reader<'_>) -> Option<Chars> {
    match Chars::parse(text.get_ref()) {
        Ok(chars) => Some(chars),
        Err(help) => {
            let word = quote(text.get_ref());
            let problem = Problem::error(Code::BadValue, format!("`{word}` is no set of bytes"));
            reader.push(text.span(), problem.help(help));
            None
        }
    }
}

fn length(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Length> {
    let (min, max) = table.pair("length", 0..=LONGEST, reader)?;
    if max != 0 && max < min || min == 0 {
        let problem = Problem::error(
            Code::BadValue,
            "a length is at least 1, and its second number is not below its first (0: no bound)",
        );
        reader.push(table.span_of("length"), problem);
        return None;
    }
    Some(Length { min, max })
}
