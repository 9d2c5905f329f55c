//! What is asked of a line most, borrowed from its bytes: `record/fields.rs` says what each field is.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::audit::record::v1::Kind;
use crate::engine::decision::Effect;

/// A line. What is not there is empty: a line of a kind that this version does not know is counted.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Line<'a> {
    /// Its number.
    pub seq: u64,
    /// When it was written.
    pub ts: Text<'a>,
    /// What it is about.
    pub kind: Text<'a>,
    /// The machine.
    pub host: Text<'a>,
    /// The event.
    pub event: Text<'a>,
    /// The session.
    pub session: Text<'a>,
    /// The call.
    pub call: Text<'a>,
    /// The agent.
    pub agent: Text<'a>,
    /// The agent above it.
    pub parent: Text<'a>,
    /// Whom it works for.
    pub entity: Text<'a>,
    /// The tool.
    pub tool: Text<'a>,
    /// What was judged.
    pub requests: Vec<Request<'a>>,
    /// Whether something was left out.
    pub truncated: bool,
    /// The answer.
    pub decision: Effect,
    /// The policies that decided.
    pub reasons: Vec<Reason<'a>>,
    /// The answer if nothing were only monitored, and without any exception.
    pub would_decide: Effect,
    /// What was taken out.
    pub redactions: Vec<Redaction<'a>>,
    /// The policies.
    pub policy_digest: Text<'a>,
    /// The program's version.
    pub engine_version: Text<'a>,
    /// How long it took.
    pub latency_us: u64,
    /// What was broken.
    pub error_class: Text<'a>,
    /// A little of what a line says besides.
    pub detail: Option<Detail<'a>>,
}

/// One request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Request<'a> {
    /// What was to be done.
    pub action: Text<'a>,
    /// To what.
    pub resource: Resource<'a>,
}

/// What it was about.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Resource<'a> {
    #[serde(rename = "type")]
    /// Of which type it is.
    pub kind: Text<'a>,
    /// As it was given.
    pub given: Text<'a>,
    /// The path that it is.
    pub resolved: Text<'a>,
    /// A command line.
    pub text: Text<'a>,
    /// The server of a tool.
    pub server: Text<'a>,
    /// The tool's name.
    pub name: Text<'a>,
}

/// A policy that decided.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Reason<'a> {
    /// Which one, with its layer.
    pub id: Text<'a>,
    /// Where it stands.
    pub file: Text<'a>,
    /// On which line.
    pub line: u32,
}

/// Something that was taken out.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Redaction<'a> {
    /// By which rule.
    pub rule: Text<'a>,
    /// How often.
    pub count: u64,
}

/// What a line says besides.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Detail<'a> {
    /// Whether the host could not act on a denial.
    pub host_cannot_block: bool,
    /// The policies that would have decided more strictly, if they were not only monitored.
    pub monitored: Vec<Reason<'a>>,
    /// The exceptions without which the answer to something would have been stricter.
    pub exceptions: Vec<Exception<'a>>,
}

/// An exception that was used.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Exception<'a> {
    /// Which one, with its layer.
    pub id: Text<'a>,
    /// Who answers for it.
    pub owner: Text<'a>,
    /// From when on it means nothing.
    pub expires: Text<'a>,
    /// The policies that it left out.
    pub policies: Vec<Text<'a>>,
}

impl Line<'_> {
    /// The kind; nothing for one that this version does not know.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::named(self.kind.plain()?)
    }

    /// Whether it is about something that a host did, and not about the record itself.
    #[must_use]
    pub fn is_event(&self) -> bool {
        matches!(
            self.kind(),
            Some(
                Kind::ToolUse
                    | Kind::Permission
                    | Kind::McpCall
                    | Kind::McpToolCall
                    | Kind::Result
                    | Kind::Prompt
                    | Kind::Session
                    | Kind::Error
                    | Kind::Notification
                    | Kind::Fault
            )
        )
    }

    /// The policies that would have decided more strictly, if they were not only monitored.
    pub fn monitored(&self) -> impl Iterator<Item = &Reason<'_>> {
        self.detail.iter().flat_map(|detail| &detail.monitored)
    }

    /// The exceptions that were used.
    pub fn exceptions(&self) -> impl Iterator<Item = &Exception<'_>> {
        self.detail.iter().flat_map(|detail| &detail.exceptions)
    }

    /// The paths that were asked for, each once.
    #[must_use]
    pub fn paths(&self) -> Vec<Cow<'_, str>> {
        let mut paths = Vec::new();
        for request in &self.requests {
            if request.resource.kind.plain() != Some("path") {
                continue;
            }
            let path = match &request.resource.resolved {
                Text::Absent => request.resource.given.shown(),
                Text::Plain(text) if text.is_empty() => request.resource.given.shown(),
                resolved => resolved.shown(),
            };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// The request that tells most: `shell git push`.
    #[must_use]
    pub fn asked(&self) -> Option<String> {
        let of_tool = |one: &&Request<'_>| one.resource.kind.plain() == Some("tool");
        let telling = self.requests.iter().find(|one| !of_tool(one));
        let one = telling.or(self.requests.first())?;
        let resource = &one.resource;
        let what = match resource.kind.plain() {
            Some("command") => resource.text.shown(),
            Some("tool") if resource.server.is_empty() => resource.name.shown(),
            Some("tool") => format!("{}/{}", resource.server.shown(), resource.name.shown()).into(),
            Some("text") => return Some(one.action.shown().into_owned()),
            _ => resource.given.shown(),
        };
        Some(format!("{} {what}", one.action.shown()))
    }
}

/// A text, one that is hidden, or nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub enum Text<'a> {
    /// Nothing.
    #[default]
    Absent,
    /// A text.
    Plain(Cow<'a, str>),
    /// One of which there is less.
    Hidden {
        /// Its HMAC.
        hmac: Cow<'a, str>,
        /// How many bytes it has.
        len: u64,
    },
}

impl Text<'_> {
    /// The text; nothing if it is hidden.
    #[must_use]
    pub fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            _ => None,
        }
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Plain(text) => text.is_empty(),
            Self::Hidden { .. } => false,
        }
    }

    /// As it stands there, or that it is hidden.
    #[must_use]
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            Self::Absent => Cow::Borrowed(""),
            Self::Plain(text) => Cow::Borrowed(text),
            Self::Hidden { hmac, len } => {
                let hmac: String = hmac.chars().take(8).collect();
                Cow::Owned(format!("hidden, {len} bytes #{hmac}"))
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a hidden text or null")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Text::Absent)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Text::Plain(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Text::Plain(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom("a list stands where a text belongs"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut hidden = (Cow::Borrowed(""), 0);
        while let Some(name) = map.next_key::<Text<'de>>()? {
            match name.plain() {
                Some("hmac") => {
                    if let Text::Plain(hmac) = map.next_value()? {
                        hidden.0 = hmac;
                    }
                }
                Some("len") => hidden.1 = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let (hmac, len) = hidden;
        Ok(Text::Hidden { hmac, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_borrowed_and_hidden_ones_are_said_to_be() {
        let line = r#"{"seq":7,"kind":"x","host":"a\nb","session":{"hmac":"0123456789","len":3},"new":[1],"tool":null,"detail":null}"#;
        let line: Line<'_> = serde_json::from_str(line).unwrap();
        assert!(matches!(line.kind, Text::Plain(Cow::Borrowed("x"))));
        assert_eq!(line.host.plain(), Some("a\nb"));
        assert_eq!(line.session.shown(), "hidden, 3 bytes #01234567");
        assert!(line.tool.is_empty() && line.kind().is_none() && !line.is_event());
        assert!(serde_json::from_str::<Line<'_>>(r#"{"kind":["x"]}"#).is_err());
    }
}
