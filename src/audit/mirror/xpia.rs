//! The log of the XPIA hook: a file a day in local time, `rust_security_YYYYMMDD.log` (R-004-17), a
//! line for each validated call and each fault (R-004-31).

use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Value, json};

use super::Source;

/// The log of a command shows so many characters of it.
const COMMAND: usize = 100;

/// The keys in their order.
#[derive(Serialize)]
struct Line {
    timestamp: String,
    event_type: &'static str,
    backend: &'static str,
    data: Value,
}

/// The file of the day, and the line; nothing if the XPIA hook was not asked about such events.
pub(super) fn line(source: &Source<'_>) -> Option<(String, String)> {
    let fault = source.field("error_class");
    let (event_type, data) = match (fault, source.text("event")) {
        (Some(class), event) => (
            "hook_error",
            json!({"hook": event, "error": class, "decision": source.text("decision")}),
        ),
        (None, "pre_tool_use") => (
            "pre_tool_validation",
            json!({
                "tool": source.field("tool"),
                "command": command(source),
                "decision": source.text("decision"),
                "policies": source
                    .reasons()
                    .filter_map(|reason| reason.get("id"))
                    .collect::<Vec<_>>(),
                "session_id": source.field("session"),
            }),
        ),
        _ => return None,
    };
    let now = source.now.to_zoned(TimeZone::system());
    let line = Line {
        timestamp: now.strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string(),
        event_type,
        backend: "rust",
        data,
    };
    let name = now.strftime("rust_security_%Y%m%d.log").to_string();
    Some((name, serde_json::to_string(&line).ok()?))
}

/// The beginning of the command line as the record has it: hidden if it is hidden there.
fn command(source: &Source<'_>) -> Option<Value> {
    let args = source.field("args_redacted")?;
    Some(match args.get("command")? {
        Value::String(text) => json!(text.chars().take(COMMAND).collect::<String>()),
        hidden => hidden.clone(),
    })
}
