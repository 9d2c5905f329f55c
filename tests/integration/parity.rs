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
