//! What other gates decide about the same calls. `tests/fixtures/parity/deviations.toml` says where
//! this one decides otherwise, and why.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::program::{Stage, send};

/// One row that is decided otherwise here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deviation {
    decision: String,
    why: String,
}

/// What a row says of a call.
struct Expected {
    cwd: PathBuf,
    tool: String,
    args: Value,
    blocked: bool,
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parity");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Every row of a table, judged by the program; the table's deviations are all needed.
fn compare(table: &str, read: impl Fn(&Stage, &Value) -> Expected) {
    let mut deviations: BTreeMap<String, BTreeMap<String, Deviation>> =
        toml::from_str(&fixture("deviations.toml")).unwrap();
    let mut deviations = deviations.remove(table).unwrap();
    let mut wrong = Vec::new();
    for row in fixture(&format!("{table}.jsonl")).lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let stage = Stage::new();
        let expected = read(&stage, &row);
        let mut event = stage.call(&expected.tool, &expected.args);
        event["cwd"] = json!(expected.cwd);
        let answer = send(
            stage.hook("pre-tool-use", &[]),
            event.to_string().as_bytes(),
        );
        let decision = answer.decision();
        let id = row["id"].as_str().unwrap();
        let deviation = deviations.remove(id);
        let agrees = (decision != "allow") == expected.blocked;
        let right = match &deviation {
            Some(deviation) => {
                !agrees && deviation.decision == decision && !deviation.why.is_empty()
            }
            None => agrees,
        };
        if !right {
            let reason = answer.reason();
            wrong.push(format!("{id}: {decision}: {reason}: {}", expected.args));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<&String> = deviations.keys().collect();
    assert!(unused.is_empty(), "no such rows in {table}: {unused:?}");
}

/// Makes what a row's `layout` lists: `name->target` is a link, `name/` a folder, else a file.
fn build(stage: &Stage, layout: &str) {
    // A link leads there, and the layout does not name it.
    fs::create_dir(stage.path("out")).unwrap();
    for part in layout.split(" ; ") {
        if part.starts_with("$WS=") {
            continue;
        }
        let part = fill(stage, part);
        if let Some((link, target)) = part.split_once("->") {
            symlink(target, link).unwrap();
        } else if part.ends_with('/') {
            fs::create_dir_all(part).unwrap();
        } else {
            fs::write(part, "").unwrap();
        }
    }
}

fn fill(stage: &Stage, text: &str) -> String {
    text.replace("$WS", stage.workspace().to_str().unwrap())
        .replace(
            "$ROOT",
            stage.path("").to_str().unwrap().trim_end_matches('/'),
        )
}

#[test]
fn paths_are_judged_as_elsewhere() {
    compare("path_containment", |stage, row| {
        build(stage, row["layout"].as_str().unwrap());
        let (tool, args) = match (row["key"].as_str(), &row["value"]) {
            (None, _) => ("bash", row["toolArgs"].clone()),
            (Some(key), Value::String(text)) => ("view", json!({key: fill(stage, text)})),
            (Some(key), value) => ("view", json!({key: value})),
        };
        // `link -> where it leads`
        let cwd = row["cwd"].as_str().unwrap().split(" -> ").next().unwrap();
        Expected {
            cwd: PathBuf::from(fill(stage, cwd)),
            tool: tool.to_owned(),
            args,
            blocked: row["expect"]["permissionDecision"] != "allow",
        }
    });
}

#[test]
fn command_lines_are_judged_as_elsewhere() {
    compare("pretool_golden_bash", |stage, row| Expected {
        cwd: stage.workspace(),
        tool: row["tool_name"].as_str().unwrap_or_default().to_owned(),
        args: row["tool_input"].clone(),
        blocked: row["expect"]["block"] == true,
    });
}

/// The redaction of the bridge that was, by its own patterns as a pack (C-09): what it replaced is
/// replaced here, but for what it tore out of words and swallowed behind them.
#[test]
fn the_legacy_pack_redacts_as_its_model_did() {
    let stage = Stage::new();
    let policies = stage.policies();
    let bridge = policies.join("bridge.toml");
    let text = fs::read_to_string(&bridge).unwrap();
    assert!(text.contains("packs = []"));
    fs::write(&bridge, text.replace("packs = []", "packs = [\"legacy\"]")).unwrap();
    // Only that pack.
    let secrets = policies.join("redaction/secrets.toml");
    let text = fs::read_to_string(&secrets).unwrap();
    fs::write(&secrets, text.replace("enabled = true", "enabled = false")).unwrap();
    let mut deviations: BTreeMap<String, BTreeMap<String, Deviation>> =
        toml::from_str(&fixture("deviations.toml")).unwrap();
    let mut deviations = deviations.remove("redact_secrets").unwrap();
    let mut wrong = Vec::new();
    for row in fixture("redact_secrets.jsonl").lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let given = row["text"].as_str().unwrap();
        let event = json!({
            "sessionId": "s", "timestamp": 1, "cwd": stage.workspace(), "toolName": "bash",
            "toolArgs": {"command": "x"},
            "toolResult": {"resultType": "success", "textResultForLlm": given},
        });
        let hook = stage.hook("post-tool-use", &["--policies", policies.to_str().unwrap()]);
        let answer = send(hook, event.to_string().as_bytes());
        assert_eq!(answer.code, 0, "{answer:?}");
        let said = &answer.json()["modifiedResult"]["textResultForLlm"];
        let text = anonymous(said.as_str().unwrap_or(given));
        let id = row["id"].as_str().unwrap();
        let right = match deviations.remove(id) {
            Some(other) => other.decision == text && text != row["expect"] && !other.why.is_empty(),
            None => text == row["expect"],
        };
        if !right {
            wrong.push(format!(
                "{id}: {given:?} became {text:?}, not {}",
                row["expect"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<&String> = deviations.keys().collect();
    assert!(unused.is_empty(), "no such rows: {unused:?}");
}

/// The text with each placeholder as the bridge that was wrote it.
fn anonymous(text: &str) -> String {
    let mut parts = text.split("«redacted:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once('»') {
        Some((_, rest)) => format!("{text}[REDACTED]{rest}"),
        None => format!("{text}{part}"),
    })
}
