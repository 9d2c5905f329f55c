//! OpenClaw 2026.9.6, through our own plugin (`plugins/openclaw`), which speaks this form.
//!
//! Before a tool: `{}`, `requireApproval` or `block`, as OpenClaw's trusted tool policies have them. After
//! a tool: `{}`, `result` for the text that the model sees instead, or `block`. A denial leaves with exit
//! code 2, everything else with 0: the plugin takes no other pair for an answer, and blocks.

use serde_json::{Value, json};

use super::{Answer, Fields, fields, object, silent};
use crate::gate::event::{Body, Capabilities, Event, EventName, ToolCall};
use crate::gate::outcome::{Outcome, sentences};

/// OpenClaw routes a question to whoever can answer it, and blocks where there is nobody.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    interactive: "yes",
    replaces_results: true,
    replaces_prompts: false,
};

/// The gateway cuts the text of a question after 512 UTF-16 units.
const DESCRIPTION: usize = 512;

pub(super) fn render(name: EventName, outcome: &Outcome) -> Answer {
    match (name, outcome) {
        (EventName::PostToolUse, Outcome::Pass(cleared)) => match &cleared.advice().replacement {
            Some(text) => object(fields([("result", json!(text))]), 0),
            None => silent(),
        },
        (_, Outcome::Pass(_)) => silent(),
        (EventName::PreToolUse, Outcome::Ask(_)) => object(
            fields([(
                "requireApproval",
                json!({
                    "title": "copilot-bridge: may this call go on?",
                    "description": cut(&sentences(outcome.reasons())),
                    "severity": "warning",
                    "allowedDecisions": ["allow-once", "deny"],
                }),
            )]),
            0,
        ),
        (name, _) if name.can_block() => object(
            fields([
                ("block", json!(true)),
                ("blockReason", json!(sentences(outcome.reasons()))),
            ]),
            2,
        ),
        _ => silent(),
    }
}

/// What OpenClaw means by an event that reads like any other.
///
/// # Errors
/// In words, if the call does its work on a machine whose files nobody here can look at.
pub(super) fn understand(mut event: Event, fields: Fields<'_>) -> Result<Event, String> {
    if fields.any(&["resultsPass"])? == Some(&Value::Bool(false)) {
        event.host.replaces_results = false;
    }
    let kind = fields.text(&["toolKind"])?;
    let elsewhere = fields.text(&["execHost"])? == Some("node");
    if let Body::Call(call) | Body::Result { call, .. } = &mut event.body {
        let judged = event.name == EventName::PreToolUse;
        match (call.name.as_str(), kind) {
            // JavaScript under the name of the shell's tool.
            ("exec", Some(_)) => "code_mode_exec".clone_into(&mut call.name),
            ("exec", None) if judged => run(call, elsewhere)?,
            (name, _) if name.contains("__") && !name.starts_with("mcp__") => {
                call.name = format!("mcp__{name}");
            }
            _ => {}
        }
    }
    Ok(event)
}

/// `exec`: its variables are part of what the line does.
fn run(call: &mut ToolCall, elsewhere: bool) -> Result<(), String> {
    let Some(args) = call.args.as_object_mut() else {
        return Ok(());
    };
    let said = |name: &str| match args.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(value) => Some(value),
    };
    let host = said("host").and_then(Value::as_str);
    if host == Some("node") || said("node").is_some() || (elsewhere && host.is_none_or(is_auto)) {
        return Err(
            "the command runs on another machine, whose files are not known here".to_owned(),
        );
    }
    let set = match args.get("env") {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(variables)) => variables
            .iter()
            .map(|(name, value)| export(name, value))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err("`env` is no table of variables".to_owned()),
    };
    if !set.is_empty()
        && let Some(Value::String(line)) = args.get_mut("command")
    {
        line.insert_str(0, &set);
        args.remove("env");
    }
    Ok(())
}

fn is_auto(host: &str) -> bool {
    host == "auto"
}

/// A variable as a line of the shell.
fn export(name: &str, value: &Value) -> Result<String, String> {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return Err(format!("the variable `{name}` is no text")),
    };
    match shlex::try_quote(&value) {
        Ok(quoted) if plain => Ok(format!("export {name}={quoted}\n")),
        _ => Err(format!("`{name}` is no variable that a shell can be given")),
    }
}

/// The beginning of a text, as much as a question may have.
fn cut(text: &str) -> String {
    if text.encode_utf16().count() <= DESCRIPTION {
        return text.to_owned();
    }
    let mut units = 0;
    let kept = text.chars().take_while(|c| {
        units += c.len_utf16();
        units < DESCRIPTION
    });
    let mut short: String = kept.collect();
    short.push('…');
    short
}

/// What an answer before a tool decides.
pub(super) fn decision(answer: &Value) -> Option<&str> {
    match answer.get("block")? {
        Value::Bool(true) => Some("deny"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::*;

    fn call(event: &Value) -> Result<ToolCall, String> {
        let event = Dialect::Openclaw.parse(EventName::PreToolUse, event)?;
        match event.body {
            Body::Call(call) => Ok(call),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tool_of_a_server_is_one_in_every_spelling() {
        for (name, expected) in [
            ("srv__do_it", "mcp__srv__do_it"),
            ("my-srv__do", "mcp__my-srv__do"),
            ("mcp__srv__do", "mcp__srv__do"),
            ("memory_get", "memory_get"),
        ] {
            let call = call(&json!({"toolName": name, "toolArgs": {}})).unwrap();
            assert_eq!(call.name, expected);
        }
    }

    #[test]
    fn variables_are_part_of_the_line() {
        let event = |args| json!({"toolName": "exec", "toolArgs": args});
        let args = json!({"command": "ls", "env": {"A": "b c", "N": 1}});
        let call_ = call(&event(args)).unwrap();
        assert_eq!(
            call_.args,
            json!({"command": "export A='b c'\nexport N=1\nls"})
        );
        for (env, error) in [
            (
                json!({"A B": "c"}),
                "`A B` is no variable that a shell can be given",
            ),
            (
                json!({"A": "\0"}),
                "`A` is no variable that a shell can be given",
            ),
            (json!({"A": {}}), "the variable `A` is no text"),
            (json!("A=b"), "`env` is no table of variables"),
        ] {
            let args = json!({"command": "ls", "env": env});
            assert_eq!(call(&event(args)).unwrap_err(), error);
        }
    }

    #[test]
    fn what_runs_on_another_machine_is_not_judged_by_the_files_of_this_one() {
        for (args, host) in [
            (json!({"command": "ls", "host": "node"}), None),
            (json!({"command": "ls", "node": "mac"}), None),
            (json!({"command": "ls"}), Some("node")),
            (json!({"command": "ls", "host": "auto"}), Some("node")),
        ] {
            let event = json!({"toolName": "exec", "toolArgs": args, "execHost": host});
            let error = call(&event).unwrap_err();
            assert!(error.contains("runs on another machine"), "{error}");
        }
        for (args, host) in [
            (json!({"command": "ls", "host": "gateway"}), Some("node")),
            (json!({"command": "ls", "host": "auto", "node": ""}), None),
        ] {
            let event = json!({"toolName": "exec", "toolArgs": args, "execHost": host});
            call(&event).unwrap();
        }
    }

    #[test]
    fn a_host_that_hands_over_no_results_cannot_replace_them() {
        for (said, expected) in [
            (json!(false), false),
            (json!(true), true),
            (json!(null), true),
        ] {
            let event = json!({"toolName": "x", "toolArgs": {}, "resultsPass": said});
            let event = Dialect::Openclaw.parse(EventName::PreToolUse, &event);
            assert_eq!(event.unwrap().host.replaces_results, expected);
        }
    }

    #[test]
    fn code_under_the_name_of_the_shell_is_no_command_line() {
        let event =
            json!({"toolName": "exec", "toolKind": "code_mode_exec", "toolArgs": {"code": "1"}});
        assert_eq!(call(&event).unwrap().name, "code_mode_exec");
    }

    #[test]
    fn a_question_is_cut_where_the_gateway_would_refuse_it() {
        assert_eq!(cut("short"), "short");
        let long = cut(&"😀".repeat(600));
        assert!(long.encode_utf16().count() <= DESCRIPTION && long.ends_with('…'));
        let exact = "x".repeat(DESCRIPTION);
        assert_eq!(cut(&exact), exact);
    }
}
