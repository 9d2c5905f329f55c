//! The JSON schema of a line, made from the fields that `audit verify` checks.

use serde_json::{Map, Value, json};

use super::fields::{ERROR_CLASSES, FIELDS, Form};
use super::v1::Kind;
use crate::engine::action::Action;
use crate::engine::decision::Obligation;

/// `schemas/audit-record.v1.json`.
#[must_use]
pub fn audit_record() -> String {
    let fields = FIELDS.iter();
    let properties: Map<String, Value> = fields
        .clone()
        .map(|field| {
            let mut form = form(field.form);
            if let Some(form) = form.as_object_mut() {
                form.insert("description".to_owned(), field.about.into());
            }
            (field.name.to_owned(), form)
        })
        .collect();
    let required: Vec<&str> = fields
        .filter(|field| field.form != Form::Truncated)
        .map(|field| field.name)
        .collect();
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of the record, version 1",
        "description": "The fields stand in this order. audit/README.md explains them.",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
        "$defs": definitions(),
    });
    format!("{schema:#}\n")
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

fn form(form: Form) -> Value {
    let list = |of: &str| json!({"type": "array", "items": reference(of)});
    match form {
        Form::Version => json!({"const": 1}),
        Form::Sequence => json!({"type": "integer", "minimum": 1}),
        Form::Number => json!({"type": "integer", "minimum": 0}),
        Form::Instant => json!({
            "type": "string",
            "pattern": "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{6}Z$",
        }),
        Form::Kind => json!({"enum": Kind::ALL.map(Kind::name)}),
        Form::Text => json!({"type": "string"}),
        Form::Spoken => json!({"anyOf": [reference("text"), {"type": "null"}]}),
        Form::Hidden => json!({"anyOf": [reference("hidden"), {"type": "null"}]}),
        Form::Arguments => json!({}),
        Form::Requests => list("request"),
        Form::Truncated => json!({"const": true}),
        Form::Effect => reference("effect"),
        Form::Reasons => list("reason"),
        Form::Obligations => list("obligation"),
        Form::Redactions => list("redaction"),
        Form::MaybeHash => json!({"anyOf": [reference("sha256"), {"type": "null"}]}),
        Form::ErrorClass => {
            let mut classes: Vec<Value> = ERROR_CLASSES.map(Value::from).to_vec();
            classes.push(Value::Null);
            json!({"enum": classes})
        }
        Form::Trace => json!({
            "type": "object",
            "properties": {
                "traceparent": {"type": ["string", "null"]},
                "tracestate": {"type": ["string", "null"]},
            },
            "required": ["traceparent", "tracestate"],
        }),
        Form::Detail => json!({
            "type": ["object", "null"],
            "properties": {
                "monitored": list("reason"),
                "exceptions": list("exception"),
            },
        }),
        Form::Hash => reference("sha256"),
    }
}

/// An object with these fields and no others.
fn closed(properties: Value) -> Value {
    let required: Vec<String> = properties
        .as_object()
        .map(|fields| fields.keys().cloned().collect())
        .unwrap_or_default();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn definitions() -> Value {
    let number = || json!({"type": "integer", "minimum": 0});
    let flag = || json!({"type": "boolean"});
    let text = || reference("text");
    let word = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let context = json!({
        "type": "object",
        "description": "what was known beside the resource",
        "properties": {"operation": {"type": "string"}, "workspace": text()},
        "required": ["operation", "workspace"],
    });
    let tool = json!({
        "type": "object",
        "properties": {
            "type": {"const": "tool"}, "server": text(), "name": text(), "known": flag(), "harmless": flag(),
            "tier": word(), "trust": word(), "access": word(), "mode": word(), "description": word(),
        },
        "required": ["type", "server", "name", "known", "harmless"],
        "additionalProperties": false,
    });
    json!({
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "effect": {"enum": ["allow", "ask", "deny"]},
        "hidden": closed(json!({"hmac": reference("sha256"), "len": number()})),
        "text": {"anyOf": [{"type": "string"}, reference("hidden")]},
        "obligation": {"enum": Obligation::ALL.map(Obligation::name)},
        "reason": closed(json!({"id": text(), "file": text(), "line": number()})),
        "exception": closed(json!({
            "id": text(), "owner": text(), "expires": {"type": "string", "format": "date-time"},
            "policies": {"type": "array", "items": text()},
        })),
        "redaction": closed(json!({
            "rule": {"type": "string"}, "pointer": text(), "fingerprint": {"type": "string"}, "count": number(),
        })),
        "request": closed(json!({
            "action": {"enum": Action::ALL.map(Action::name)},
            "resource": {"oneOf": [
                closed(json!({
                    "type": {"const": "path"}, "given": text(), "resolved": text(), "inside": flag(),
                    "exists": flag(), "link": flag(), "fault": text(), "labels": texts(),
                })),
                closed(json!({
                    "type": {"const": "command"}, "text": text(), "program": text(), "arguments": number(),
                    "certain": flag(), "code": {"type": "string"}, "beside": texts(), "labels": texts(),
                })),
                closed(json!({"type": {"const": "url"}, "given": text()})),
                tool,
                closed(json!({"type": {"const": "text"}, "kind": {"type": "string"}, "bytes": number()})),
            ]},
            "context": context,
        })),
    })
}
