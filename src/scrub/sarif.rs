//! What was found as SARIF 2.1.0, which code hosts show beside the lines.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::report::{Found, Report, severity};
use crate::engine::redaction::{About, Severity};
use crate::policy::diagnostic::render::uri;

/// The name of the keyed fingerprint among those of a result.
const FINGERPRINT: &str = "copilotBridgeSecret/v1";

/// One log of one run.
#[must_use]
pub fn log(report: &Report<'_>) -> Value {
    let mut rules: BTreeMap<&str, (usize, &About)> = BTreeMap::new();
    for Found { seen, .. } in &report.found {
        rules.insert(&seen.rule.id, (0, seen.rule));
    }
    for (index, place) in rules.values_mut().enumerate() {
        place.0 = index;
    }
    let descriptions: Vec<Value> = rules.values().map(|(_, rule)| describe(rule)).collect();
    let results: Vec<Value> = report
        .found
        .iter()
        .map(|found| {
            let index = rules.get(found.seen.rule.id.as_str());
            result(found, index.map_or(0, |(index, _)| *index))
        })
        .collect();
    let notifications: Vec<Value> = report
        .unread
        .iter()
        .map(|unread| {
            json!({
                "level": "error",
                "message": { "text": unread.message },
                "locations": [{ "physicalLocation": {
                    "artifactLocation": { "uri": uri(&unread.path.display().to_string()) },
                }}],
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": env!("CARGO_PKG_NAME"),
                "version": env!("CARGO_PKG_VERSION"),
                "rules": descriptions,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": report.unread.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn describe(rule: &About) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.description },
        "fullDescription": { "text": rule.description },
        "help": { "text": "take it out of the text, and replace it where it is in force" },
        "defaultConfiguration": { "level": level(rule.severity) },
        "properties": {
            "tags": ["security", "secret"],
            "security-severity": score(rule.severity),
        },
    })
}

fn result(found: &Found<'_>, rule: usize) -> Value {
    let Found { path, seen } = found;
    let text = format!(
        "{} ({})",
        seen.rule.description,
        severity(seen.rule.severity)
    );
    json!({
        "ruleId": seen.rule.id,
        "ruleIndex": rule,
        "level": level(seen.rule.severity),
        "message": { "text": text },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(path) },
            "region": {
                "startLine": seen.start.line,
                "startColumn": seen.start.column,
                "endLine": seen.end.line,
                "endColumn": seen.end.column,
            },
        }}],
        "partialFingerprints": { FINGERPRINT: seen.fingerprint },
    })
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "note",
        Severity::Medium => "warning",
        Severity::High | Severity::Critical => "error",
    }
}

/// What GitHub sorts by.
const fn score(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "3.0",
        Severity::Medium => "5.5",
        Severity::High => "8.0",
        Severity::Critical => "9.5",
    }
}
