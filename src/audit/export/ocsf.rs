//! Events of the Open Cybersecurity Schema Framework: one for each line of the record.
//!
//! What has no place there stands under `unmapped`, by its own name.

use serde_json::{Map, Value, json};

use super::line::{resource_type, said};
use super::{Line, Severity};

/// The version of the schema.
pub const VERSION: &str = "1.8.0";

/// A class of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Anything else.
    Base = 0,
    /// A file or folder.
    File = 1001,
    /// A command line.
    Process = 1007,
    /// Any other use of a tool.
    Api = 6003,
    /// An event that could not be read, or what happened to the record.
    Error = 6008,
}

impl Class {
    fn of(line: &Line<'_>) -> Self {
        match line.kind() {
            "fault" | "error" | "recovered" | "superseded" | "lost" => Self::Error,
            "tool_use" | "permission" | "mcp_call" | "mcp_tool_call" | "result" | "prompt" => {
                match line.request().and_then(resource_type) {
                    Some("path") => Self::File,
                    Some("command") => Self::Process,
                    _ => Self::Api,
                }
            }
            _ => Self::Base,
        }
    }

    const fn uid(self) -> u32 {
        self as u32
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Base => "Base Event",
            Self::File => "File System Activity",
            Self::Process => "Process Activity",
            Self::Api => "API Activity",
            Self::Error => "Application Error",
        }
    }

    const fn category(self) -> (u32, &'static str) {
        match self {
            Self::Base => (0, "Uncategorized"),
            Self::File | Self::Process => (1, "System Activity"),
            Self::Api | Self::Error => (6, "Application Activity"),
        }
    }

    /// What is done, by its number in the class.
    fn activity(self, line: &Line<'_>) -> (u32, String) {
        let request = line.request();
        let part = |pointer: &str| {
            let part = request.and_then(|request| request.pointer(pointer));
            part.and_then(Value::as_str).unwrap_or_default()
        };
        let known = match (self, part("/action"), part("/context/operation")) {
            (Self::File, "write", "create") => (1, "Create"),
            (Self::File | Self::Api, "read", _) | (Self::Api, "url", _) => (2, "Read"),
            (Self::File, "write", "delete") => (4, "Delete"),
            (Self::File, "write", "move") => (5, "Rename"),
            (Self::File | Self::Api, "write", _) => (3, "Update"),
            (Self::Process, ..) => (1, "Launch"),
            (Self::Error, ..) => (1, "General Error"),
            // The source's own word, as the schema wants it.
            (_, "", _) => return (99, line.text("event").unwrap_or_default()),
            (_, action, _) => return (99, action.to_owned()),
        };
        (known.0, known.1.to_owned())
    }
}

/// The event that a line becomes.
#[must_use]
pub fn event(line: &Line<'_>) -> Value {
    let class = Class::of(line);
    let (activity, activity_name) = class.activity(line);
    let (category, category_name) = class.category();
    let (severity, severity_name) = match line.severity() {
        Severity::Informational => (1, "Informational"),
        Severity::Low => (2, "Low"),
        Severity::Medium => (3, "Medium"),
        Severity::High => (4, "High"),
    };
    let (status, status_name) = match line.succeeded() {
        None => (0, "Unknown"),
        Some(true) => (1, "Success"),
        Some(false) => (2, "Failure"),
    };
    let (action, action_name, disposition, disposition_name) = match line.decision() {
        "allow" => (1, "Allowed", 1, "Allowed"),
        "deny" => (2, "Denied", 2, "Blocked"),
        "ask" => (99, "Ask", 99, "Ask"),
        _ => (0, "Unknown", 0, "Unknown"),
    };
    let mut event = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            event.insert(name.to_owned(), value);
        }
    };
    put("activity_id", activity.into());
    put("activity_name", activity_name.into());
    put("category_uid", category.into());
    put("category_name", category_name.into());
    put("class_uid", class.uid().into());
    put("class_name", class.name().into());
    put("type_uid", (class.uid() * 100 + activity).into());
    let time = line.time().map_or(0, jiff::Timestamp::as_millisecond);
    put("time", time.into());
    put("severity_id", severity.into());
    put("severity", severity_name.into());
    put("status_id", status.into());
    put("status", status_name.into());
    put("status_code", line.text("error_class").into());
    put("message", line.summary().into());
    put("action_id", action.into());
    put("action", action_name.into());
    put("disposition_id", disposition.into());
    put("disposition", disposition_name.into());
    put("is_alert", (line.severity() >= Severity::Medium).into());
    put("policy", policy(line));
    put("metadata", metadata(line));
    put("actor", actor(line));
    put("device", json!({"hostname": host(line), "type_id": 0}));
    match class {
        Class::File => put("file", file(line)),
        Class::Process => put("process", process(line)),
        Class::Api => {
            put("api", api(line));
            put("http_request", http_request(line));
            put("src_endpoint", json!({"hostname": host(line)}));
        }
        Class::Base | Class::Error => {}
    }
    let unmapped: Map<String, Value> = line
        .fields()
        .filter(|(name, value)| !value.is_null() && !is_mapped(name, value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    put("unmapped", unmapped.into());
    event.into()
}

/// Whether a field stands elsewhere in the event exactly as it is.
fn is_mapped(name: &str, value: &Value) -> bool {
    match name {
        "v" => true,
        "seq" => value.is_u64(),
        "ts" | "host" | "event" | "engine_version" => value.is_string(),
        "truncated" => value.is_boolean(),
        _ => false,
    }
}

fn metadata(line: &Line<'_>) -> Value {
    let mut metadata = json!({
        "version": VERSION,
        "product": {
            "name": "copilot-bridge",
            "vendor_name": "copilot-bridge",
            "version": line.text("engine_version").unwrap_or_default(),
        },
        "uid": line.id(),
        "log_name": "audit",
        "profiles": ["host", "security_control"],
    });
    let more = [
        ("sequence", line.number("seq").map(Value::from)),
        ("log_version", line.get("v").map(|v| v.to_string().into())),
        ("original_time", line.text("ts").map(Value::from)),
        ("event_code", line.text("event").map(Value::from)),
        ("correlation_uid", line.text("call").map(Value::from)),
        (
            "is_truncated",
            line.get("truncated")
                .filter(|flag| flag.is_boolean())
                .cloned(),
        ),
    ];
    for (name, value) in more {
        if let (Some(value), Some(metadata)) = (value, metadata.as_object_mut()) {
            metadata.insert(name.to_owned(), value);
        }
    }
    metadata
}

/// The machine; the schema wants one.
fn host(line: &Line<'_>) -> String {
    let host = line.text("host").filter(|host| !host.is_empty());
    host.unwrap_or_else(|| "unknown".to_owned())
}

/// The program that the agent runs in, as the user and in the session that it says.
fn actor(line: &Line<'_>) -> Value {
    let dialect = line.text("dialect").filter(|dialect| !dialect.is_empty());
    let mut actor = Map::new();
    let app = dialect.unwrap_or_else(|| "copilot-bridge".to_owned());
    actor.insert("app_name".to_owned(), app.into());
    if let Some(session) = line.text("session") {
        actor.insert("session".to_owned(), json!({"uid": session}));
    }
    if let Some(uid) = line.number("uid") {
        actor.insert("user".to_owned(), json!({"uid": uid.to_string()}));
    }
    actor.into()
}

/// The first policy that decided; `unmapped.reasons` has all of them.
fn policy(line: &Line<'_>) -> Value {
    let Some(id) = line.policies().into_iter().next() else {
        return Value::Null;
    };
    let name = id.split_once(':').map_or(id.as_str(), |(_, name)| name);
    let mut policy = json!({"uid": id, "name": name, "is_applied": true});
    if let (Some(digest), Some(policy)) = (line.text("policy_digest"), policy.as_object_mut()) {
        policy.insert("version".to_owned(), digest.into());
    }
    policy
}

/// A part of what was asked for.
fn part(line: &Line<'_>, name: &str) -> Option<String> {
    let resource = line.request()?.get("resource")?;
    said(resource.get(name)?).filter(|text| !text.is_empty())
}

fn file(line: &Line<'_>) -> Value {
    let path = part(line, "resolved")
        .or_else(|| part(line, "given"))
        .unwrap_or_default();
    let name = path.rsplit('/').find(|name| !name.is_empty());
    json!({"name": name.unwrap_or(&path), "path": path, "type_id": 0})
}

/// The process that is to be started. It has no number yet, so that the line's id stands for it.
fn process(line: &Line<'_>) -> Value {
    let mut process = Map::new();
    process.insert("uid".to_owned(), line.id().into());
    for (name, value) in [
        ("cmd_line", part(line, "text")),
        ("name", part(line, "program")),
        ("working_directory", line.text("cwd")),
    ] {
        if let Some(value) = value {
            process.insert(name.to_owned(), value.into());
        }
    }
    process.into()
}

fn api(line: &Line<'_>) -> Value {
    let operation = line
        .text("tool")
        .or_else(|| line.text("event"))
        .unwrap_or_default();
    match part(line, "server") {
        Some(server) => json!({"operation": operation, "service": {"name": server}}),
        None => json!({"operation": operation}),
    }
}

fn http_request(line: &Line<'_>) -> Value {
    let is_url = line.request().and_then(resource_type) == Some("url");
    let address = part(line, "given").filter(|_| is_url);
    address.map_or(
        Value::Null,
        |address| json!({"url": {"url_string": address}}),
    )
}
