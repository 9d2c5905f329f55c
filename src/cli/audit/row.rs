//! A line of the record as one row: what a person looks for first.

use serde_json::Value;

use crate::audit::line::{Line, Text};
use crate::scrub::report::printable;

/// The columns.
pub(super) const NAMES: [&str; 8] = [
    "seq", "time", "decision", "kind", "session", "tool", "what", "policy",
];

/// One line in short.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) seq: String,
    pub(super) time: String,
    pub(super) decision: String,
    pub(super) kind: String,
    pub(super) session: String,
    pub(super) tool: String,
    pub(super) what: String,
    pub(super) policy: String,
}

impl Row {
    pub(super) fn of(line: &Line<'_>) -> Self {
        let text = |text: &Text<'_>| printable(&text.shown());
        Self {
            seq: line.seq.to_string(),
            time: text(&line.ts),
            decision: line.decision.to_string(),
            kind: text(&line.kind),
            session: text(&line.session),
            tool: text(&line.tool),
            what: what(line),
            policy: policies(line),
        }
    }

    pub(super) fn cells(&self) -> [&str; 8] {
        [
            &self.seq,
            &self.time,
            &self.decision,
            &self.kind,
            &self.session,
            &self.tool,
            &self.what,
            &self.policy,
        ]
    }
}

/// A value as it stands there, or that it is hidden; nothing for null.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        Value::Object(fields) => match (fields.get("hmac"), fields.get("len")) {
            (Some(Value::String(hmac)), Some(len)) if fields.len() == 2 => {
                format!("hidden, {len} bytes #{}", hmac.get(..8).unwrap_or_default())
            }
            _ => printable(&value.to_string()),
        },
        other => printable(&other.to_string()),
    }
}

/// What was asked for: the request that tells most, and how many there are besides.
fn what(line: &Line<'_>) -> String {
    let text = match (line.asked(), &line.error_class) {
        (Some(asked), _) => asked,
        (None, Text::Absent) => line.event.shown().into_owned(),
        (None, class) => class.shown().into_owned(),
    };
    match line.requests.len() {
        0 | 1 => printable(&text),
        count => format!("{} (+{})", printable(&text), count - 1),
    }
}

/// `read src/main.rs`
pub(super) fn request(request: &Value) -> String {
    let action = request.get("action").map(shown).unwrap_or_default();
    let resource = request.get("resource").cloned().unwrap_or_default();
    let part = |name: &str| resource.get(name).map(shown).unwrap_or_default();
    let text = match resource.get("type").and_then(Value::as_str) {
        Some("path") => part("given"),
        Some("command") => part("text"),
        Some("url") => part("given"),
        Some("tool") if part("server").is_empty() => part("name"),
        Some("tool") => format!("{}/{}", part("server"), part("name")),
        Some("text") => format!("{} of {} bytes", part("kind"), part("bytes")),
        _ => String::new(),
    };
    format!("{action} {text}")
}

fn policies(line: &Line<'_>) -> String {
    let ids = line
        .reasons
        .iter()
        .map(|reason| printable(&reason.id.shown()));
    ids.collect::<Vec<_>>().join(" ")
}
