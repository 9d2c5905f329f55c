//! What an import says is what the legacy policy said.

use serde_json::{Value, json};

use super::*;
use crate::engine::Engine;
use crate::engine::action::Action;
use crate::engine::bundle::Bundle;
use crate::engine::pattern::Haystack;
use crate::engine::request::{Agent, Context, Request, Resource, ToolFacts};
use crate::policy::load::check_sources;

fn bundle(legacy: &Value) -> Bundle {
    let imported = import("legacy.json", &legacy.to_string()).unwrap();
    let source = Source::new(Layer::User, "policies", imported.files.clone());
    let checked = check_sources(std::slice::from_ref(&source));
    let problems: Vec<_> = checked.problems.iter().map(Problem::one_line).collect();
    assert_eq!(problems, [""; 0], "{:#?}", imported.files);
    checked.bundle.unwrap()
}

/// The decision and its reasons.
fn judge(bundle: &Bundle, action: Action, tool: &str, arguments: &Value) -> (String, Vec<String>) {
    let text = arguments.to_string();
    let patterns = bundle.settings.patterns.iter();
    let request = Request {
        principal: Agent::default(),
        action,
        resource: Resource::Tool(ToolFacts {
            name: tool.to_owned(),
            ..ToolFacts::default()
        }),
        context: Context {
            tool: tool.to_owned(),
            patterns: patterns
                .filter(|pattern| pattern.matches(&[Haystack::new(&text)]).unwrap())
                .map(|pattern| pattern.id.clone())
                .collect(),
            ..Context::default()
        },
    };
    let decision = Engine::new(bundle.clone()).decide(&[request]).decision;
    let reasons = decision.reasons().iter().map(|r| r.text.clone()).collect();
    (decision.effect().to_string(), reasons)
}

#[test]
fn the_legacy_answers_are_kept() {
    let rows = include_str!("../../../tests/fixtures/policy/legacy_permission.jsonl");
    let mut judged = 0;
    for row in rows.lines() {
        let case: Value = serde_json::from_str(row).unwrap();
        if case.get("differs").is_some() {
            continue;
        }
        let tool = case["tool"].as_str().unwrap();
        let bundle = bundle(&case["policy"]);
        for action in [Action::CustomTool, Action::Shell, Action::Mcp] {
            let (decision, reasons) = judge(&bundle, action, tool, &case["arguments"]);
            assert_eq!(decision, case["decision"], "{row}");
            if decision != "allow" {
                assert_eq!(reasons, [case["reason"].as_str().unwrap()], "{row}");
            }
        }
        judged += 1;
    }
    assert!(judged > 30, "{judged}");
}

#[test]
fn only_the_first_stage_gives_a_reason() {
    let everything = bundle(&json!({
        "blockedTools": ["a"],
        "blockedPatterns": ["/x/", "/xy/"],
        "askTools": ["a", "b"],
        "allowedTools": ["c"],
    }));
    for (tool, arguments, decision, reason) in [
        ("a", "xy", "deny", "Tool \"a\" is blocked by policy"),
        (
            "b",
            "xy",
            "deny",
            "Tool arguments matched blocked pattern: x",
        ),
        ("b", "", "ask", "Tool \"b\" requires approval"),
        (
            "c",
            "xy",
            "deny",
            "Tool arguments matched blocked pattern: x",
        ),
        ("c", "", "allow", "Tool \"c\" is in the allowed list"),
        (
            "d",
            "xy",
            "deny",
            "Tool arguments matched blocked pattern: x",
        ),
        ("d", "", "deny", "Tool \"d\" is not in the allowed list"),
    ] {
        let judged = judge(
            &everything,
            Action::Delegate,
            tool,
            &json!({ "k": arguments }),
        );
        assert_eq!(
            judged,
            (decision.to_owned(), vec![reason.to_owned()]),
            "{tool} {arguments}"
        );
    }
}

#[test]
fn any_name_and_pattern_survives() {
    for name in [
        "a\"b",
        "a\\",
        "x{tool}y",
        "{resource}",
        "ünïcode",
        "*",
        "a-b",
        "a b",
        "');",
    ] {
        let bundle = bundle(&json!({ "blockedTools": [name, "a.b"], "allowedTools": [name] }));
        let (decision, reasons) = judge(&bundle, Action::Mcp, name, &json!({}));
        assert_eq!(decision, "deny");
        assert_eq!(reasons, [format!("Tool \"{name}\" is blocked by policy")]);
        let (decision, _) = judge(&bundle, Action::Mcp, &format!("{name}x"), &json!({}));
        assert_eq!(decision, "deny");
    }
    for source in [r#"a"\\b"#, r"'''", r"a{2,3}", r"\d\t", "say \"\"\" x"] {
        let bundle = bundle(&json!({ "blockedPatterns": [format!("/{source}/")] }));
        assert_eq!(bundle.settings.patterns[0].source, source);
        let reason = format!("Tool arguments matched blocked pattern: {source}");
        assert!(bundle.policies.iter().any(|policy| policy.reason == reason));
    }
}

#[test]
fn an_empty_list_is_said_aloud() {
    for legacy in ["{}", r#"{"allowedTools": []}"#, r#"{"allowedTools": null}"#] {
        let imported = import("legacy.json", legacy).unwrap();
        assert_eq!(imported.warnings.len(), 1, "{legacy}");
        assert!(!imported.warnings[0].is_error());
    }
    let imported = import("legacy.json", r#"{"allowedTools": ["a"]}"#).unwrap();
    assert_eq!(imported.warnings, []);
}

#[test]
fn what_cannot_be_taken_over_is_refused_with_its_place() {
    for (legacy, underlined, message) in [
        (
            r#"{"blockedPatterns": ["/a/m", "ok"]}"#,
            "\"/a/m\"",
            "the flags `m` are not supported",
        ),
        (
            r#"{"blockedPatterns": ["a(?=b)"]}"#,
            "\"a(?=b)\"",
            "this is no regular expression here: look-around, including look-ahead and look-behind, is not supported",
        ),
        (
            r#"{"blockedTools": [""]}"#,
            "\"\"",
            "`` is no name of a tool",
        ),
        (
            r#"{"blockedTool": ["a"]}"#,
            "",
            "unknown field `blockedTool`, expected one of `allowedTools`, `blockedTools`, `askTools`, `blockedPatterns`",
        ),
        (
            r#"{"askTools": [], "askTools": []}"#,
            "",
            "duplicate field `askTools`",
        ),
        ("[]", "", "this is no JSON object"),
        (
            r#"{"askTools": 1}"#,
            "",
            "invalid type: integer `1`, expected a sequence",
        ),
        ("{", "", "EOF while parsing an object"),
    ] {
        let problems = import("legacy.json", legacy).unwrap_err();
        assert_eq!(problems[0].message, message);
        assert_eq!(problems[0].underlined(), Some(underlined), "{legacy}");
    }
}
