//! `policy import`: the legacy permission form, judged by the hook afterwards.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::program::{Stage, run, send};

/// Legacy policies, calls, and what the original decided (R-000-31, 36, 37, 57). A row with
/// `differs` says why this program decides otherwise.
#[test]
fn the_legacy_form_keeps_its_decisions() {
    let table = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/policy/legacy_permission.jsonl"
    );
    let text = fs::read_to_string(table).unwrap();
    let stage = Stage::new();
    let mut imported: BTreeMap<String, String> = BTreeMap::new();
    let mut judged = 0;
    for row in text.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        if row.get("differs").is_some() {
            continue;
        }
        let legacy = row["policy"].to_string();
        let number = imported.len();
        let dir = imported
            .entry(legacy.clone())
            .or_insert_with(|| import(&stage, number, &legacy));
        let event = stage.call(row["tool"].as_str().unwrap(), &row["arguments"]);
        let answer = send(
            stage.hook("pre-tool-use", &["--policies", dir]),
            event.to_string().as_bytes(),
        );
        judged += 1;
        assert_eq!(
            answer.decision(),
            row["decision"].as_str().unwrap(),
            "{row}: {answer:?}"
        );
        let reason = row["reason"].as_str().unwrap();
        assert!(answer.reason().starts_with(reason), "{row}: {answer:?}");
    }
    assert!(judged > 35, "only {judged} rows were judged");
}

fn import(stage: &Stage, number: usize, legacy: &str) -> String {
    let name = format!("legacy{number}.json");
    stage.write(&name, legacy);
    let dir = stage.path(&format!("imported{number}"));
    let mut command = stage.command(&["policy", "import"]);
    command.arg(stage.path(&name)).arg("--into").arg(&dir);
    let answer = run(command);
    assert_eq!(answer.code, 0, "{answer:?}");
    dir.to_str().unwrap().to_owned()
}

#[test]
fn an_empty_allowlist_is_warned_about() {
    let stage = Stage::new();
    stage.write("legacy.json", &json!({"allowedTools": []}).to_string());
    let mut command = stage.command(&["policy", "import"]);
    command.arg(stage.path("legacy.json"));
    let answer = run(command);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.text.contains("warning"), "{answer:?}");
    assert!(answer.text.contains("---- permission.cedar"), "{answer:?}");
}

#[test]
fn what_cannot_be_taken_over_is_an_error() {
    let stage = Stage::new();
    for (legacy, part) in [
        (json!({"blockedPattern": []}), "blockedPattern"),
        (json!({"blockedPatterns": ["/a(?=b)/"]}), "(?="),
    ] {
        stage.write("legacy.json", &legacy.to_string());
        let mut command = stage.command(&["policy", "import"]);
        command.arg(stage.path("legacy.json"));
        let answer = run(command);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.text.contains(part), "{answer:?}");
    }
}
