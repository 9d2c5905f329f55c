//! The fields of a line, in their order: what `audit verify` holds a line to, and what the schema is
//! made from.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::v1::Kind;

/// One field of a line.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What may stand there.
    pub form: Form,
    /// What it is.
    pub about: &'static str,
}

/// What may stand in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The number 1.
    Version,
    /// A number from 1 on.
    Sequence,
    /// A number from 0 on.
    Number,
    /// RFC 3339, UTC, microseconds.
    Instant,
    /// What the line is about.
    Kind,
    /// A text.
    Text,
    /// A text, a hidden one, or null.
    Spoken,
    /// A hidden text, or null.
    Hidden,
    /// Any value: hosts give arguments as they like.
    Arguments,
    /// What was judged.
    Requests,
    /// `true`; the only field that may be absent.
    Truncated,
    /// allow, ask or deny.
    Effect,
    /// The policies that decided.
    Reasons,
    /// What had to be done.
    Obligations,
    /// What was taken out.
    Redactions,
    /// A SHA-256, or null.
    MaybeHash,
    /// What was broken, or null.
    ErrorClass,
    /// W3C trace context.
    Trace,
    /// More, by kind; or null.
    Detail,
    /// A SHA-256.
    Hash,
}

const fn field(name: &'static str, form: Form, about: &'static str) -> Field {
    Field { name, form, about }
}

/// Every field of a line of version 1, in its order.
pub const FIELDS: [Field; 35] = [
    field("v", Form::Version, "version of this form"),
    field("seq", Form::Sequence, "number of the line, over all days"),
    field("ts", Form::Instant, "when, RFC 3339, UTC, microseconds"),
    field(
        "mono",
        Form::Number,
        "nanoseconds since the machine started",
    ),
    field("boot", Form::Text, "id of the machine's start"),
    field("kind", Form::Kind, "what the line is about"),
    field("host", Form::Text, "machine"),
    field("uid", Form::Number, "user"),
    field("pid", Form::Number, "process"),
    field("event", Form::Text, "the event's name"),
    field("dialect", Form::Text, "how the event was written"),
    field("session", Form::Spoken, "the host's id of the session"),
    field("call", Form::Spoken, "the host's id of the call"),
    field("agent", Form::Spoken, "the host's id of the agent"),
    field(
        "parent",
        Form::Spoken,
        "the host's id of the agent above it",
    ),
    field(
        "depth",
        Form::Number,
        "how many agents stand above this one",
    ),
    field("entity", Form::Spoken, "whom the agent works for"),
    field("cwd", Form::Spoken, "working directory, resolved"),
    field("tool", Form::Spoken, "canonical name of the tool"),
    field(
        "args_hmac",
        Form::Hidden,
        "the arguments as one line of JSON, hidden",
    ),
    field(
        "args_redacted",
        Form::Arguments,
        "the arguments without what the rules found",
    ),
    field("requests", Form::Requests, "what was judged"),
    field("truncated", Form::Truncated, "something was left out"),
    field("decision", Form::Effect, "the answer"),
    field("reasons", Form::Reasons, "the policies that decided"),
    field(
        "would_decide",
        Form::Effect,
        "the answer if nothing were only monitored, and without any exception",
    ),
    field("obligations", Form::Obligations, "what had to be done"),
    field("redactions", Form::Redactions, "what was taken out"),
    field(
        "policy_digest",
        Form::MaybeHash,
        "BLAKE3 over all policy sources and what reads them",
    ),
    field("engine_version", Form::Text, "the program's version"),
    field(
        "latency_us",
        Form::Number,
        "microseconds from the start of the process to the record",
    ),
    field("error_class", Form::ErrorClass, "what was broken"),
    field("trace", Form::Trace, "W3C trace context"),
    field("detail", Form::Detail, "more, by kind"),
    field("prev", Form::Hash, "SHA-256 of the line before"),
];

/// What was broken, as `error_class` names it.
pub(super) const ERROR_CLASSES: [&str; 7] = [
    "input_error",
    "policy_error",
    "evaluation_error",
    "audit_unavailable",
    "deadline",
    "internal_error",
    "obligation_error",
];

/// What a line says of its place in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// Its number.
    pub seq: u64,
    /// When, as it stands there.
    pub ts: Cow<'a, str>,
    /// Nanoseconds since the machine started.
    pub mono: u64,
    /// The machine's start.
    pub boot: Cow<'a, str>,
    /// What it is about.
    pub kind: Kind,
    /// The hash of the line before.
    pub prev: [u8; 32],
}

/// Reads a line that has exactly the fields of version 1, in their order.
///
/// # Errors
/// In words, if it has not.
pub fn head(line: &[u8]) -> Result<Head<'_>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is no UTF-8".to_owned())?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl<'de> Deserialize<'de> for Head<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head<'de>, A::Error> {
        let mut head = Head {
            seq: 0,
            ts: Cow::Borrowed(""),
            mono: 0,
            boot: Cow::Borrowed(""),
            kind: Kind::Fault,
            prev: [0; 32],
        };
        let mut fields = FIELDS.iter();
        let mut next = fields.next();
        while let Some(name) = map.next_key::<&'de str>()? {
            if next.is_some_and(|field| field.form == Form::Truncated && field.name != name) {
                next = fields.next();
            }
            let Some(field) = next else {
                return Err(A::Error::custom(format_args!(
                    "`{name}` is one field too many"
                )));
            };
            if field.name != name {
                return Err(A::Error::custom(format_args!(
                    "`{name}` stands where `{}` belongs",
                    field.name
                )));
            }
            let shape = map.next_value::<Shape<'de>>()?;
            if !field.form.admits(&shape) {
                return Err(A::Error::custom(format_args!(
                    "`{name}` is not {}",
                    field.form
                )));
            }
            match (field.name, shape) {
                ("seq", Shape::Number(number)) => head.seq = number,
                ("mono", Shape::Number(number)) => head.mono = number,
                ("ts", Shape::Text(text)) => head.ts = text,
                ("boot", Shape::Text(text)) => head.boot = text,
                ("kind", Shape::Text(text)) => {
                    head.kind = Kind::named(&text).unwrap_or(Kind::Fault);
                }
                ("prev", Shape::Text(text)) => head.prev = hash(&text).unwrap_or_default(),
                _ => {}
            }
            next = fields.next();
        }
        match next {
            Some(field) => Err(A::Error::custom(format_args!(
                "`{}` is not there",
                field.name
            ))),
            None => Ok(head),
        }
    }
}

/// The 32 bytes that 64 lower-case hexadecimal digits stand for.
fn hash(text: &str) -> Option<[u8; 32]> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok()
}

/// A value as far as a field's form asks about it.
enum Shape<'a> {
    Null,
    Bool(bool),
    Number(u64),
    OtherNumber,
    Text(Cow<'a, str>),
    Array,
    Object,
}

impl<'de> Deserialize<'de> for Shape<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Shape::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Shape::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Shape::Number(value))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Shape::OtherNumber)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Shape::OtherNumber)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Shape::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Shape::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Shape::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Shape::Object)
    }
}

impl Form {
    fn admits(self, shape: &Shape<'_>) -> bool {
        match (self, shape) {
            (Self::Version, Shape::Number(number)) => *number == 1,
            (Self::Sequence, Shape::Number(number)) => *number > 0,
            (Self::Truncated, Shape::Bool(flag)) => *flag,
            (Self::Instant, Shape::Text(text)) => is_instant(text),
            (Self::Kind, Shape::Text(text)) => Kind::named(text).is_some(),
            (Self::Effect, Shape::Text(text)) => matches!(&**text, "allow" | "ask" | "deny"),
            (Self::ErrorClass, Shape::Text(text)) => ERROR_CLASSES.contains(&&**text),
            (Self::Hash | Self::MaybeHash, Shape::Text(text)) => hash(text).is_some(),
            (Self::Number, Shape::Number(_))
            | (Self::Text, Shape::Text(_))
            | (Self::Spoken, Shape::Text(_) | Shape::Object | Shape::Null)
            | (Self::Hidden | Self::Detail, Shape::Object | Shape::Null)
            | (Self::Arguments, _)
            | (
                Self::Requests | Self::Reasons | Self::Obligations | Self::Redactions,
                Shape::Array,
            )
            | (Self::Trace, Shape::Object)
            | (Self::ErrorClass | Self::MaybeHash, Shape::Null) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "1",
            Self::Sequence => "a number from 1 on",
            Self::Number => "a number from 0 on",
            Self::Instant => "a time in UTC with microseconds",
            Self::Kind => "a kind of line",
            Self::Text => "a text",
            Self::Spoken => "a text, a hidden text or null",
            Self::Hidden => "a hidden text or null",
            Self::Arguments => "a value",
            Self::Requests | Self::Reasons | Self::Obligations | Self::Redactions => "a list",
            Self::Truncated => "true",
            Self::Effect => "allow, ask or deny",
            Self::MaybeHash => "a SHA-256 or null",
            Self::ErrorClass => "a class of errors or null",
            Self::Trace => "an object",
            Self::Detail => "an object or null",
            Self::Hash => "a SHA-256",
        })
    }
}

/// `2026-01-02T03:04:05.678901Z`, and a time that there is.
fn is_instant(text: &str) -> bool {
    const LENGTH: usize = "2026-01-02T03:04:05.678901Z".len();
    text.len() == LENGTH && text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok()
}
