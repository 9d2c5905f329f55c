//! The two OpenAI wires on which the client speaks to its model: chat completions and responses,
//! both streamed.

use serde_json::{Value, json};

use crate::mock_model::{Call, Turn};

/// The id of a call, unique in a script.
pub(crate) fn call_id(turn: usize, call: usize) -> String {
    format!("call_{turn}_{call}")
}

/// A turn as a chat completion stream.
pub(crate) fn chat_completion(number: usize, turn: &Turn) -> String {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({
            "id": format!("chatcmpl-{number}"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "mock-model",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    if let Some(text) = &turn.text {
        chunks.push(chunk(json!({"content": text}), None));
    }
    for (index, call) in turn.calls.iter().enumerate() {
        let id = call_id(number, index);
        let delta = match call {
            Call::Function { name, arguments } => json!({
                "index": index,
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()},
            }),
            Call::Custom { name, input } => json!({
                "index": index,
                "id": id,
                "type": "custom",
                "custom": {"name": name, "input": input},
            }),
        };
        chunks.push(chunk(json!({"tool_calls": [delta]}), None));
    }
    let finish = if turn.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    chunks.push(chunk(json!({}), Some(finish)));
    let mut stream: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    stream.push_str("data: [DONE]\n\n");
    stream
}

/// A turn as a stream of the responses API, which is the one with free-text tools.
pub(crate) fn responses(number: usize, turn: &Turn) -> String {
    let said = turn.text.iter().map(|text| {
        json!({
            "type": "message",
            "id": format!("msg_{number}"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })
    });
    let called = turn.calls.iter().enumerate().map(|(index, call)| {
        let (kind, name, field, value) = match call {
            Call::Function { name, arguments } => {
                ("function_call", name, "arguments", arguments.to_string())
            }
            Call::Custom { name, input } => ("custom_tool_call", name, "input", input.clone()),
        };
        json!({
            "type": kind,
            "id": format!("item_{number}_{index}"),
            "status": "completed",
            "call_id": call_id(number, index),
            "name": name,
            field: value,
        })
    });
    let output: Vec<Value> = said.chain(called).collect();
    let response = |status: &str, output: &[Value]| {
        json!({
            "id": format!("resp_{number}"),
            "object": "response",
            "created_at": 0,
            "model": "mock-model",
            "status": status,
            "output": output,
            "error": null,
            "incomplete_details": null,
            "parallel_tool_calls": true,
            "tools": [],
            "tool_choice": "auto",
            "usage": {
                "input_tokens": 1,
                "output_tokens": 1,
                "total_tokens": 2,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        })
    };
    let mut stream = String::new();
    let mut push = |kind: &str, field: &str, value: &Value, index: usize| {
        let event = json!({"type": kind, field: value, "output_index": index});
        stream.push_str(&format!("event: {kind}\ndata: {event}\n\n"));
    };
    push(
        "response.created",
        "response",
        &response("in_progress", &[]),
        0,
    );
    for (index, item) in output.iter().enumerate() {
        push("response.output_item.added", "item", item, index);
        push("response.output_item.done", "item", item, index);
    }
    push(
        "response.completed",
        "response",
        &response("completed", &output),
        0,
    );
    stream
}

/// The tool results in a request of either wire, by call id.
pub(crate) fn tool_results(body: &Value) -> Vec<(String, String)> {
    let list = |field: &str| body.get(field).and_then(Value::as_array);
    let results_of_chat = list("messages")
        .into_iter()
        .flatten()
        .filter_map(|message| {
            (message.get("role")? == "tool").then_some((
                message.get("tool_call_id")?.as_str()?.to_owned(),
                flat_text(message.get("content")?),
            ))
        });
    let results_of_responses = list("input").into_iter().flatten().filter_map(|item| {
        item.get("type")?
            .as_str()?
            .ends_with("call_output")
            .then_some((
                item.get("call_id")?.as_str()?.to_owned(),
                flat_text(item.get("output")?),
            ))
    });
    results_of_chat.chain(results_of_responses).collect()
}

/// Content is a string, or a list of parts with a text each.
fn flat_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .collect(),
        other => other.to_string(),
    }
}
