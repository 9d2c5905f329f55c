//! Events as hosts write them, and our answers: pairs on disk.
//!
//! `tests/fixtures/hook/<dialect>/<event>/<case>.in.json` is what arrives, `<case>.out.json` what has
//! to leave, and which tool and decision have to be in the record. `{WS}` is the workspace.
//! `UPDATE_FIXTURES=1` writes the answers anew, for a person to look at.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::program::{Stage, send};

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hook");
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(".in.json") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_capture_is_understood() {
    let cases = cases();
    assert!(cases.len() > 60, "the fixtures were not found");
    let mut wrong = Vec::new();
    for case in cases {
        let event = case.parent().unwrap();
        let dialect = event
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        let event = event.file_name().unwrap().to_str().unwrap();
        let stage = Stage::new();
        let input = fs::read_to_string(&case)
            .unwrap()
            .replace("{WS}", stage.workspace().to_str().unwrap());
        let answer = send(stage.hook(event, &["--dialect", dialect]), input.as_bytes());
        let record = stage.record();
        assert_eq!(record.len(), 1, "{}: {answer:?}", case.display());
        let line = &record[0];
        assert_eq!(line["event"], event.replace('-', "_"), "{}", case.display());
        let got = json!({
            "exit": answer.code,
            "stdout": answer.json(),
            "record": {"kind": line["kind"], "tool": line["tool"], "decision": line["decision"], "error_class": line["error_class"]},
        });
        let got: Value = serde_json::from_str(
            &got.to_string()
                .replace(stage.workspace().to_str().unwrap(), "{WS}"),
        )
        .unwrap();
        let out = PathBuf::from(case.to_str().unwrap().replace(".in.json", ".out.json"));
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::write(&out, format!("{got:#}\n")).unwrap();
            continue;
        }
        let expected: Value =
            serde_json::from_str(&fs::read_to_string(&out).unwrap_or_else(|_| "null".to_owned()))
                .unwrap();
        if got != expected {
            wrong.push(format!(
                "{}\n  expected {expected}\n  got      {got}",
                case.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every call that a host was seen to make, written in every spelling and dialect: one decision.
#[test]
fn every_capture_gives_one_decision_in_every_spelling() {
    let calls: Vec<PathBuf> = cases()
        .into_iter()
        .filter(|case| case.to_str().unwrap().contains("/pre-tool-use/"))
        .collect();
    assert!(calls.len() > 15, "the captures were not found");
    for case in calls {
        let stage = Stage::new();
        let text = fs::read_to_string(&case)
            .unwrap()
            .replace("{WS}", stage.workspace().to_str().unwrap());
        let event: Value = serde_json::from_str(&text).unwrap();
        let field = |names: [&str; 2]| {
            names
                .iter()
                .find_map(|name| event.get(*name))
                .unwrap()
                .clone()
        };
        let (tool, args) = (
            field(["toolName", "tool_name"]),
            field(["toolArgs", "tool_input"]),
        );
        let cwd = &event["cwd"];
        let written = if args.is_string() {
            args.clone()
        } else {
            json!(args.to_string())
        };
        let spellings = [
            (
                "auto",
                json!({"sessionId": "s", "timestamp": 1, "cwd": cwd, "toolName": tool, "toolArgs": args}),
            ),
            (
                "copilot",
                json!({"sessionId": "s", "timestamp": 1, "cwd": cwd, "toolName": tool, "toolArgs": written}),
            ),
            (
                "claude",
                json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": cwd, "tool_name": tool, "tool_input": args}),
            ),
            (
                "vscode",
                json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": cwd, "tool_name": tool, "tool_input": written}),
            ),
            (
                "openclaw",
                json!({"sessionId": "s", "agentId": "main", "cwd": cwd, "toolName": tool, "toolArgs": args}),
            ),
            (
                "xpia",
                json!({"session_id": "s", "cwd": cwd, "toolUse": {"name": tool, "input": args}}),
            ),
        ];
        for (dialect, event) in &spellings {
            let hook = stage.hook("pre-tool-use", &["--dialect", dialect]);
            send(hook, event.to_string().as_bytes());
        }
        let record = stage.record();
        assert_eq!(record.len(), spellings.len());
        for line in &record {
            assert_eq!(line["tool"], record[0]["tool"], "{}", case.display());
            assert_eq!(
                line["decision"],
                record[0]["decision"],
                "{}",
                case.display()
            );
            assert_eq!(line["reasons"], record[0]["reasons"], "{}", case.display());
            assert_eq!(line["error_class"], Value::Null, "{}", case.display());
        }
    }
}
