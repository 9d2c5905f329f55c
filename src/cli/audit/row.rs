//! A line of the record as one row: what a person looks for first.

use serde_json::Value;

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
    pub(super) fn of(line: &Value) -> Self {
        let text = |name: &str| line.get(name).map(shown).unwrap_or_default();
        Self {
            seq: text("seq"),
            time: text("ts"),
            decision: text("decision"),
            kind: text("kind"),
            session: text("session"),
            tool: text("tool"),
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
fn what(line: &Value) -> String {
    let requests = line.get("requests").and_then(Value::as_array);
    let Some((first, others)) = requests.and_then(|all| all.split_first()) else {
        return match line.get("error_class") {
            Some(Value::String(class)) => class.clone(),
            _ => line.get("event").map(shown).unwrap_or_default(),
        };
    };
    // That a tool is used says less than what it is used for.
    let of_tool =
        |one: &&Value| one.pointer("/resource/type").and_then(Value::as_str) == Some("tool");
    let telling = others.iter().find(|one| of_tool(&first) && !of_tool(one));
    let text = request(telling.unwrap_or(first));
    match others.len() {
        0 => text,
        count => format!("{text} (+{count})"),
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

fn policies(line: &Value) -> String {
    let reasons = line.get("reasons").and_then(Value::as_array);
    let ids: Vec<String> = reasons
        .into_iter()
        .flatten()
        .filter_map(|reason| reason.get("id").map(shown))
        .collect();
    ids.join(" ")
}
