//! What a report needs of a line, borrowed from its bytes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::audit::record::v1::Kind;
use crate::engine::decision::Effect;

/// A line. What is not there is empty: a line of a kind that this version does not know is counted.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Line<'a> {
    pub(super) seq: u64,
    pub(super) ts: Text<'a>,
    pub(super) kind: Text<'a>,
    pub(super) host: Text<'a>,
    pub(super) event: Text<'a>,
    pub(super) session: Text<'a>,
    pub(super) call: Text<'a>,
    pub(super) tool: Text<'a>,
    pub(super) requests: Vec<Request<'a>>,
    pub(super) truncated: bool,
    pub(super) decision: Effect,
    pub(super) reasons: Vec<Reason<'a>>,
    pub(super) would_decide: Effect,
    pub(super) redactions: Vec<Redaction<'a>>,
    pub(super) policy_digest: Text<'a>,
    pub(super) engine_version: Text<'a>,
    pub(super) latency_us: u64,
    pub(super) error_class: Text<'a>,
    pub(super) detail: Option<Detail>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Request<'a> {
    pub(super) action: Text<'a>,
    pub(super) resource: Resource<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Resource<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) given: Text<'a>,
    pub(super) resolved: Text<'a>,
    pub(super) text: Text<'a>,
    pub(super) server: Text<'a>,
    pub(super) name: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Reason<'a> {
    pub(super) id: Text<'a>,
    pub(super) file: Text<'a>,
    pub(super) line: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Redaction<'a> {
    pub(super) rule: Text<'a>,
    pub(super) count: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Detail {
    pub(super) host_cannot_block: bool,
}

impl Line<'_> {
    /// The kind; nothing for one that this version does not know.
    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::named(self.kind.plain()?)
    }

    /// Whether it is about something that a host did, and not about the record itself.
    pub(super) fn is_event(&self) -> bool {
        matches!(
            self.kind(),
            Some(
                Kind::ToolUse
                    | Kind::Permission
                    | Kind::McpCall
                    | Kind::Result
                    | Kind::Prompt
                    | Kind::Session
                    | Kind::Error
                    | Kind::Notification
                    | Kind::Fault
            )
        )
    }

    /// The paths that were asked for, each once.
    pub(super) fn paths(&self) -> Vec<Cow<'_, str>> {
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
    pub(super) fn asked(&self) -> Option<String> {
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
pub(super) enum Text<'a> {
    #[default]
    Absent,
    Plain(Cow<'a, str>),
    Hidden {
        hmac: Cow<'a, str>,
        len: u64,
    },
}

impl Text<'_> {
    pub(super) fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Plain(text) => text.is_empty(),
            Self::Hidden { .. } => false,
        }
    }

    /// As it stands there, or that it is hidden.
    pub(super) fn shown(&self) -> Cow<'_, str> {
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
