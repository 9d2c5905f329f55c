//! The shape of the first bridge: six kinds of hook, and a length in place of a result (R-000-61).

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Source;

/// The keys in their order. What is not known is left out, as it was there.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a Value>,
    hook_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a Value>,
    input: Value,
    output: Value,
    elapsed: u64,
}

/// The file of the day, and the line; nothing if the first bridge had no such hook.
pub(super) fn line(source: &Source<'_>) -> Option<(String, String)> {
    let hook_type = match source.text("event") {
        "pre_tool_use" => "pre_tool_use",
        "post_tool_use" | "post_tool_use_failure" => "post_tool_use",
        "user_prompt_submitted" => "prompt",
        "session_start" => "session_start",
        "session_end" => "session_end",
        "error_occurred" => "error",
        _ => return None,
    };
    let line = Line {
        timestamp: source.now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
        session_id: source.field("session"),
        hook_type,
        tool_name: source.field("tool"),
        input: input(source, hook_type),
        output: output(source, hook_type),
        elapsed: source
            .field("latency_us")
            .and_then(Value::as_u64)
            .unwrap_or_default()
            / 1000,
    };
    let name = source.now.strftime("audit-%Y-%m-%d.jsonl").to_string();
    Some((name, serde_json::to_string(&line).ok()?))
}

fn input(source: &Source<'_>, hook_type: &str) -> Value {
    let detail = |name: &str| source.field("detail").and_then(|detail| detail.get(name));
    let said = source.texts.said.map(|text| source.hidden(text));
    let arrived = Some(json!(source.now.as_millisecond()));
    let cwd = source.field("cwd").cloned();
    let tool = source.field("tool").cloned();
    let args = source
        .field("args_redacted")
        .or(source.field("args_hmac"))
        .cloned();
    match hook_type {
        "pre_tool_use" => object([
            ("timestamp", arrived),
            ("cwd", cwd),
            ("toolName", tool),
            ("toolArgs", args),
        ]),
        "post_tool_use" => object([
            ("toolName", tool),
            ("toolArgs", args),
            ("resultLength", detail("result_bytes").cloned()),
        ]),
        "prompt" => object([("prompt", said)]),
        "error" => object([
            ("timestamp", arrived),
            ("cwd", cwd),
            ("error", said),
            ("recoverable", detail("recoverable").cloned()),
        ]),
        _ => object([("timestamp", arrived), ("cwd", cwd)]),
    }
}

/// What the host was told, in the words of the first bridge.
fn output(source: &Source<'_>, hook_type: &str) -> Value {
    let detail = |name: &str| {
        source
            .field("detail")
            .and_then(|detail| detail.get(name))
            .filter(|value| !value.is_null())
            .cloned()
    };
    let hidden = |text: Option<&str>| text.map(|text| source.hidden(text));
    let decision = source.text("decision");
    match hook_type {
        "pre_tool_use" => object([
            ("permissionDecision", Some(json!(decision))),
            (
                "permissionDecisionReason",
                (decision != "allow").then(|| json!(reason(source))),
            ),
        ]),
        "post_tool_use" | "prompt" if decision != "allow" => object([
            ("decision", Some(json!("block"))),
            ("reason", Some(json!(reason(source)))),
        ]),
        "post_tool_use" => match hidden(source.texts.replacement) {
            Some(text) => json!({"modifiedResult": {"textResultForLlm": text}}),
            None => Value::Null,
        },
        "prompt" | "session_start" => object([
            ("modifiedPrompt", hidden(source.texts.replacement)),
            ("additionalContext", hidden(source.texts.context)),
        ]),
        "session_end" => object([("sessionSummary", detail("summary"))]),
        _ => object([
            ("errorHandling", detail("handling")),
            ("retryCount", detail("retries")),
            ("userNotification", notification(source)),
        ]),
    }
}

/// A policy's own words are no secret; what it quotes of the message is.
fn notification(source: &Source<'_>) -> Option<Value> {
    let text = source.texts.notification?;
    let quotes = source
        .texts
        .said
        .is_some_and(|message| !message.is_empty() && text.contains(message));
    Some(if quotes {
        source.hidden(text)
    } else {
        json!(text)
    })
}

/// The policies by their places: their sentences may hold what the record does not.
fn reason(source: &Source<'_>) -> String {
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    };
    let places: Vec<String> = source
        .reasons()
        .map(|reason| {
            let (id, file) = (text(reason.get("id")), text(reason.get("file")));
            match (file.is_empty(), reason.get("line").and_then(Value::as_u64)) {
                (false, Some(line)) => format!("{id} at {file}:{line}"),
                _ => id,
            }
        })
        .collect();
    places.join("; ")
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let known = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect::<Map<_, _>>())
}
