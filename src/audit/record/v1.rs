//! Version 1 of a line. The order of the keys is fixed, every key is always there, and no line is
//! longer than 16 KiB.
//!
//! Arguments stand here without what the redaction rules find; a long text is a keyed HMAC and a
//! length.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::asked::{Asked, Hidden, Text, text};

use crate::audit::key::Key;
use crate::engine::decision::{Effect, FaultClass, Obligation, Reason};
use crate::engine::redaction::Hit;
use crate::engine::request::Request;

/// No line is longer, its line feed included.
pub const LINE_LIMIT: usize = 16 << 10;

/// Hardly any line is longer.
const USUAL: usize = 2 << 10;

/// No line has more reasons.
const REASON_LIMIT: usize = 16;

/// No line has more redactions.
const REDACTION_LIMIT: usize = 32;

/// No arguments are longer as JSON.
const ARGUMENTS_LIMIT: usize = 6 << 10;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A tool call was judged.
    ToolUse,
    /// A host asked for permission.
    Permission,
    /// A call is about to leave for an MCP server.
    McpCall,
    /// A tool that this program serves over MCP was called, or answered (R-003-45).
    McpToolCall,
    /// A tool answered or failed.
    Result,
    /// A prompt.
    Prompt,
    /// A session or sub-agent starts, ends, stops or shortens itself.
    Session,
    /// The host met an error.
    Error,
    /// The host told the person something.
    Notification,
    /// An event could not be read.
    Fault,
    /// A torn line was found and ended.
    Recovered,
    /// A denial went out before the line of its event was written.
    Superseded,
    /// Lines that were written are gone.
    Lost,
    /// Old files were removed.
    Removed,
    /// The installation has new keys.
    Rotated,
    /// A bundle of policies took the place of what was in force, or was refused.
    Policy,
    /// A person approved or denied a call, out of band.
    Approval,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 17] = [
        Self::ToolUse,
        Self::Permission,
        Self::McpCall,
        Self::McpToolCall,
        Self::Result,
        Self::Prompt,
        Self::Session,
        Self::Error,
        Self::Notification,
        Self::Fault,
        Self::Recovered,
        Self::Superseded,
        Self::Lost,
        Self::Removed,
        Self::Rotated,
        Self::Policy,
        Self::Approval,
    ];

    /// The kind's name, as it stands in a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolUse => "tool_use",
            Self::Permission => "permission",
            Self::McpCall => "mcp_call",
            Self::McpToolCall => "mcp_tool_call",
            Self::Result => "result",
            Self::Prompt => "prompt",
            Self::Session => "session",
            Self::Error => "error",
            Self::Notification => "notification",
            Self::Fault => "fault",
            Self::Recovered => "recovered",
            Self::Superseded => "superseded",
            Self::Lost => "lost",
            Self::Removed => "removed",
            Self::Rotated => "rotated",
            Self::Policy => "policy",
            Self::Approval => "approval",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What the gate knows of an event when it is judged.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// What the line is about.
    pub kind: Kind,
    /// The event's name: `pre_tool_use`, …
    pub event: &'a str,
    /// The dialect that it was written in.
    pub dialect: &'a str,
    /// The host's id of the session.
    pub session: Option<&'a str>,
    /// The host's id of the call.
    pub call: Option<&'a str>,
    /// The id of the sub-agent.
    pub agent: Option<&'a str>,
    /// The id of the agent that started it.
    pub parent: Option<&'a str>,
    /// How many agents stand above it.
    pub depth: u32,
    /// The entity that the agent works for.
    pub entity: Option<&'a str>,
    /// The working directory, resolved.
    pub cwd: Option<&'a str>,
    /// The canonical name of the tool.
    pub tool: Option<&'a str>,
    /// The tool's arguments. Only their HMAC and length are written.
    pub args: Option<&'a Value>,
    /// The arguments without secrets and health information; `None` where nobody looked.
    pub args_redacted: Option<&'a Value>,
    /// The keys of arguments whose values are data: of these, HMAC and length are written.
    pub data_keys: &'a [String],
    /// What was judged; without secrets where [`Self::args_redacted`] is there.
    pub requests: Vec<Cow<'a, Request>>,
    /// What was taken out.
    pub redactions: Vec<&'a Hit>,
    /// The answer.
    pub decision: Effect,
    /// The policies that decided.
    pub reasons: &'a [Reason],
    /// What the answer would be if nothing were only monitored, and without any exception.
    pub would_decide: Effect,
    /// What had to be done.
    pub obligations: Vec<Obligation>,
    /// The digest of the policies; nothing if there were none.
    pub policy_digest: Option<&'a str>,
    /// How long it took, in microseconds, up to the record.
    pub latency_us: u64,
    /// What was broken.
    pub error_class: Option<FaultClass>,
    /// The trace that the call is part of.
    pub trace: Option<&'a Trace>,
    /// What a person said: of it, HMAC and length are written.
    pub prompt: Option<&'a str>,
    /// More, by kind.
    pub detail: Value,
}

/// The trace that a call is part of (W3C Trace Context).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// `traceparent`, as it came.
    pub parent: String,
    /// `tracestate`, as it came.
    pub state: Option<String>,
}

/// What the writer knows of a line besides.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The line's number, over all days.
    pub seq: u64,
    /// RFC 3339, UTC, microseconds.
    pub ts: String,
    /// Nanoseconds since the machine started.
    pub mono: u64,
    /// The id of the machine's start.
    pub boot: String,
    /// The machine's name.
    pub host: String,
    /// The user's numeric id.
    pub uid: u32,
    /// The process.
    pub pid: u32,
    /// SHA-256 of the line before, in hexadecimal.
    pub prev: String,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u8,
    seq: u64,
    ts: &'a str,
    mono: u64,
    boot: &'a str,
    kind: Kind,
    host: &'a str,
    uid: u32,
    pid: u32,
    event: &'a str,
    dialect: &'a str,
    session: Option<Text<'a>>,
    call: Option<Text<'a>>,
    agent: Option<Text<'a>>,
    parent: Option<Text<'a>>,
    depth: u32,
    entity: Option<Text<'a>>,
    cwd: Option<Text<'a>>,
    tool: Option<Text<'a>>,
    args_hmac: &'a Option<Hidden>,
    args_redacted: &'a Value,
    requests: &'a [Asked<'a>],
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    decision: Effect,
    reasons: Vec<Why<'a>>,
    would_decide: Effect,
    obligations: &'a [Obligation],
    redactions: &'a [Taken<'a>],
    policy_digest: Option<&'a str>,
    engine_version: &'a str,
    latency_us: u64,
    error_class: Option<FaultClass>,
    trace: Traced<'a>,
    detail: &'a Value,
    prev: &'a str,
}

#[derive(Serialize)]
struct Why<'a> {
    id: Text<'a>,
    file: Text<'a>,
    line: u32,
}

#[derive(Serialize)]
struct Taken<'a> {
    rule: &'a str,
    pointer: Text<'a>,
    fingerprint: &'a str,
    count: u32,
}

#[derive(Serialize)]
struct Traced<'a> {
    traceparent: Option<Text<'a>>,
    tracestate: Option<Text<'a>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The line, with its line feed.
#[must_use]
pub fn line(entry: &Entry<'_>, stamp: &Stamp, key: &Key) -> Vec<u8> {
    let clean = entry.args_redacted.is_some();
    let requests = entry.requests.iter();
    let mut requests: Vec<Asked<'_>> = requests.map(|one| Asked::of(one, clean, key)).collect();
    let args_hmac = entry.args.map(|args| Hidden::of(&args.to_string(), key));
    let mut args_redacted = entry.args_redacted.map_or(Value::Null, |args| match args {
        // A patch is data, and nothing else.
        Value::String(patch) => Hidden::of(patch, key).into(),
        args => arguments(args, entry.data_keys, key),
    });
    let redactions = entry.redactions.iter();
    let mut redactions: Vec<Taken<'_>> = redactions
        .map(|hit| Taken {
            rule: &hit.rule,
            pointer: text(&hit.pointer, key),
            fingerprint: &hit.fingerprint,
            count: hit.count,
        })
        .collect();
    let mut reasons = entry.reasons;
    let mut detail = bounded(&entry.detail, key);
    if let (Some(prompt), Value::Object(detail)) = (entry.prompt, &mut detail) {
        detail.insert("prompt".to_owned(), Hidden::of(prompt, key).into());
    }
    let mut truncated = false;
    if redactions.len() > REDACTION_LIMIT {
        redactions.truncate(REDACTION_LIMIT);
        truncated = true;
    }
    if args_redacted.to_string().len() > ARGUMENTS_LIMIT {
        args_redacted = Value::Null;
        truncated = true;
    }
    if reasons.len() > REASON_LIMIT {
        reasons = reasons.get(..REASON_LIMIT).unwrap_or_default();
        truncated = true;
    }
    loop {
        let text = bounding(key);
        let line = Line {
            v: 1,
            seq: stamp.seq,
            ts: &stamp.ts,
            mono: stamp.mono,
            boot: &stamp.boot,
            kind: entry.kind,
            host: &stamp.host,
            uid: stamp.uid,
            pid: stamp.pid,
            event: entry.event,
            dialect: entry.dialect,
            session: entry.session.map(text),
            call: entry.call.map(text),
            agent: entry.agent.map(text),
            parent: entry.parent.map(text),
            depth: entry.depth,
            entity: entry.entity.map(text),
            cwd: entry.cwd.map(text),
            tool: entry.tool.map(text),
            args_hmac: &args_hmac,
            args_redacted: &args_redacted,
            requests: &requests,
            truncated,
            decision: entry.decision,
            reasons: reasons
                .iter()
                .map(|reason| Why {
                    id: text(&reason.id),
                    file: text(&reason.file),
                    line: reason.line,
                })
                .collect(),
            would_decide: entry.would_decide,
            obligations: &entry.obligations,
            redactions: &redactions,
            policy_digest: entry.policy_digest,
            engine_version: env!("CARGO_PKG_VERSION"),
            latency_us: entry.latency_us,
            error_class: entry.error_class,
            trace: Traced {
                traceparent: entry.trace.map(|trace| text(&trace.parent)),
                tracestate: entry
                    .trace
                    .and_then(|trace| trace.state.as_deref())
                    .map(text),
            },
            detail: &detail,
            prev: &stamp.prev,
        };
        let mut bytes = Vec::with_capacity(USUAL);
        // Writing into memory does not fail, and nothing in a line does.
        let _ = serde_json::to_writer(&mut bytes, &line);
        bytes.push(b'\n');
        if bytes.len() <= LINE_LIMIT {
            return bytes;
        }
        truncated = true;
        if requests.is_empty() {
            // What is left is bounded field by field, but for these.
            detail = Value::Null;
            reasons = reasons.get(..1).unwrap_or_default();
        } else {
            requests.truncate(requests.len() / 2);
        }
    }
}

/// [`text`] with that key.
fn bounding<'v>(key: &Key) -> impl Fn(&'v str) -> Text<'v> + Copy {
    move |value| text(value, key)
}

/// Arguments with every text bounded, and data hidden.
fn arguments(value: &Value, data: &[String], key: &Key) -> Value {
    match value {
        Value::Array(all) => all.iter().map(|one| arguments(one, data, key)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let hide = data.iter().any(|key| key == name);
                let shown = match value {
                    Value::String(text) if hide => Hidden::of(text, key).into(),
                    value => arguments(value, data, key),
                };
                (name.clone(), shown)
            })
            .collect(),
        other => bounded(other, key),
    }
}

/// A detail with every text bounded.
fn bounded(value: &Value, key: &Key) -> Value {
    match value {
        Value::String(string) => text(string, key).into(),
        Value::Array(all) => all.iter().map(|one| bounded(one, key)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), bounded(value, key)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::action::Action;
    use crate::engine::request::{Agent, CommandFacts, Context, PathFacts, Resource};
    use proptest::prelude::*;
    use serde_json::json;

    const KEYS: [&str; 35] = [
        "v",
        "seq",
        "ts",
        "mono",
        "boot",
        "kind",
        "host",
        "uid",
        "pid",
        "event",
        "dialect",
        "session",
        "call",
        "agent",
        "parent",
        "depth",
        "entity",
        "cwd",
        "tool",
        "args_hmac",
        "args_redacted",
        "requests",
        "decision",
        "reasons",
        "would_decide",
        "obligations",
        "redactions",
        "policy_digest",
        "engine_version",
        "latency_us",
        "error_class",
        "trace",
        "detail",
        "prev",
        "",
    ];

    fn made(text: &str, requests: usize, reasons: usize) -> Value {
        line_of(text, requests, reasons, true)
    }

    fn line_of(text: &str, requests: usize, reasons: usize, clean: bool) -> Value {
        let data = ["content".to_owned()];
        let key = Key::from_bytes([7; 32]);
        let path = Request {
            principal: Agent::default(),
            action: Action::Read,
            resource: Resource::Path(PathFacts {
                given: text.into(),
                ..PathFacts::default()
            }),
            context: Context::default(),
        };
        let command = Request {
            resource: Resource::Command(CommandFacts {
                text: text.into(),
                ..CommandFacts::default()
            }),
            ..path.clone()
        };
        let reason = Reason {
            id: text.into(),
            file: text.into(),
            line: 1,
            text: text.into(),
            fact: text.into(),
            help: text.into(),
        };
        let args = json!({"command": text, "content": text});
        let entry = Entry {
            kind: Kind::ToolUse,
            event: "pre_tool_use",
            dialect: "copilot",
            session: Some(text),
            call: Some(text),
            agent: Some(text),
            parent: Some(text),
            depth: 1,
            entity: Some(text),
            cwd: Some(text),
            tool: Some(text),
            args: Some(&args),
            args_redacted: clean.then_some(&args),
            data_keys: &data,
            requests: std::iter::repeat_n([&path, &command], requests)
                .flatten()
                .map(Cow::Borrowed)
                .collect(),
            redactions: Vec::new(),
            decision: Effect::Deny,
            reasons: &vec![reason; reasons],
            would_decide: Effect::Deny,
            obligations: vec![],
            policy_digest: None,
            latency_us: 1,
            error_class: None,
            trace: None,
            prompt: None,
            detail: json!({"a": [text]}),
        };
        let stamp = Stamp {
            seq: 1,
            ts: "t".into(),
            mono: 1,
            boot: "b".into(),
            host: "h".into(),
            uid: 0,
            pid: 1,
            prev: "0".repeat(64),
        };
        let bytes = line(&entry, &stamp, &key);
        assert!(bytes.len() <= LINE_LIMIT);
        assert_eq!(bytes.last(), Some(&b'\n'));
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn the_keys_stand_in_their_order() {
        let line = made("x", 1, 1);
        let keys: Vec<&str> = line
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, KEYS[..34]);
    }

    #[test]
    fn what_nobody_cleaned_is_not_written() {
        let line = line_of("curl -H hunter2", 1, 0, false);
        assert!(line["requests"][1]["resource"]["text"]["hmac"].is_string());
        assert_eq!(line["args_redacted"], Value::Null);
        let line = line_of("curl -H x", 1, 0, true);
        assert_eq!(line["requests"][1]["resource"]["text"], "curl -H x");
        assert_eq!(line["args_redacted"]["command"], "curl -H x");
        assert!(line["args_redacted"]["content"]["hmac"].is_string());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_line_fits(text in "(?s).{0,900}", requests in 0_usize..200, reasons in 0_usize..40) {
            let line = made(&text, requests, reasons);
            let cut = line["requests"].as_array().unwrap().len() < requests * 2 || reasons > REASON_LIMIT;
            prop_assert!(!cut || line["truncated"] == true);
        }
    }
}
