//! What the real client wrote down of a session is cleaned, and the session goes on from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::mock_model::{MockModel, Turn};
use crate::stage::{ALL_EVENTS, Stage};

fn token() -> String {
    let digits: String = "aB3dE5fG7h".chars().cycle().skip(3).take(36).collect();
    ["ghp", "_", &digits].concat()
}

#[test]
fn a_session_goes_on_without_its_secrets() {
    let Some(stage) = Stage::new("a_session_goes_on_without_its_secrets") else {
        return;
    };
    stage.install(ALL_EVENTS);
    stage.write("notes.txt", &format!("GITHUB_TOKEN={}\n", token()));
    let model = MockModel::start([Turn::bash("cat notes.txt")]);
    assert!(stage.run(&model).status.success());
    let raw = holding(&stage.copilot_home());
    let is_events = |path: &PathBuf| path.ends_with("events.jsonl");
    assert!(raw.iter().any(is_events), "{raw:?}");

    let output = Command::new(env!("CARGO_BIN_EXE_copilot-bridge"))
        .args(["scrub", "--host", "copilot", "--older-than", "0s"])
        .arg(stage.copilot_home())
        .arg("--policies")
        .arg(stage.policies())
        .arg("--state")
        .arg(stage.state())
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!said.contains(&token()), "{said}");
    let left = holding(&stage.copilot_home());
    for path in &left {
        let named = format!("{}: left with", path.display());
        assert!(said.contains(&named), "{} is not in {said}", path.display());
    }
    assert!(!left.iter().any(is_events), "{said}");
    let events = raw.iter().find(|path| is_events(path)).expect("events");
    for line in fs::read_to_string(events).expect("events").lines() {
        serde_json::from_str::<Value>(line).expect("a document a line");
    }

    let model = MockModel::start([Turn::bash("echo again")]);
    let run = stage.run_with(&model, &["--continue", "--allow-all-tools"]);
    assert!(run.status.success(), "{}", run.output);
    let sent = model.requests().into_iter().map(|request| request.body);
    let sent = Value::Array(sent.collect()).to_string();
    assert!(
        sent.contains("cat notes.txt"),
        "the session went on: {sent}"
    );
    assert!(!sent.contains(&token()), "{sent}");
}

/// The files below a folder that hold the token.
fn holding(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path));
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            if String::from_utf8_lossy(&bytes).contains(&token()) {
                found.push(path);
            }
        }
    }
    found
}
