//! `audit`: what an auditor asks of the record that the hooks wrote.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::program::{Answer, Stage, run};

/// A record of a read, a denied command and a question.
fn recorded() -> Stage {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    stage.judge("bash", &json!({"command": "sudo ls"}));
    stage.judge("bash", &json!({"command": "git push"}));
    stage
}

fn audit(stage: &Stage, words: &[&str]) -> Answer {
    let mut command = stage.command(&["audit"]);
    command.args(words).arg("--state").arg(stage.state());
    run(command)
}

fn day(stage: &Stage) -> PathBuf {
    fs::read_dir(stage.state().join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .unwrap()
}

#[test]
fn what_the_hooks_wrote_is_whole() {
    let stage = recorded();
    let answer = audit(&stage, &["verify"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.text.starts_with("3 lines in 1 file, 2"),
        "{answer:?}"
    );
    assert!(answer.text.ends_with(": whole\n"), "{answer:?}");
    assert_eq!(answer.errors, "");
    // A copy elsewhere, without key and state.
    let copy = stage.path("copy.jsonl");
    fs::copy(day(&stage), &copy).unwrap();
    let mut command = stage.command(&["audit", "verify", "--format", "json"]);
    command.arg(&copy);
    let report = run(command).json();
    assert_eq!(report["whole"], true);
    assert_eq!(report["last"]["seq"], 3);
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn an_edit_is_named_with_file_line_and_kind() {
    let stage = recorded();
    let path = day(&stage);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("sudo ls", "sudo id", 1)).unwrap();
    let answer = audit(&stage, &["verify"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    let expected = format!(
        "{}:2: problem: number 2: it is not the line that number 3 was chained to (expected ",
        path.display()
    );
    assert!(answer.text.starts_with(&expected), "{answer:?}");
    assert!(answer.text.contains(") [edited]\n"), "{answer:?}");
    assert!(answer.text.ends_with(": 1 problem\n"), "{answer:?}");
    let report = audit(&stage, &["verify", "--format", "json"]).json();
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "edited");
    assert_eq!(finding["line"], 2);
    assert_eq!(finding["file"], json!(path));
    assert_eq!(report["whole"], false);
}

#[test]
fn a_record_that_is_not_there_cannot_be_called_whole() {
    let stage = Stage::new();
    let answer = audit(&stage, &["verify"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.errors.starts_with("error: "), "{answer:?}");
    assert_eq!(answer.text, "");
}

#[test]
fn the_schema_names_every_field_of_a_line() {
    let stage = recorded();
    let schema: Value =
        serde_json::from_str(&run(stage.command(&["schema", "audit"])).text).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    for line in stage.record() {
        assert!(
            line.as_object()
                .unwrap()
                .keys()
                .all(|key| fields.contains_key(key))
        );
    }
}
