//! What the real client's model gets to see of a secret, and what the client keeps on its own disk.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::mock_model::{MockModel, Turn};
use crate::stage::{ALL_EVENTS, Stage};

/// A token that no service ever gave out.
pub(crate) fn token() -> String {
    let digits: String = "aB3dE5fG7h".chars().cycle().skip(3).take(36).collect();
    ["ghp", "_", &digits].concat()
}

/// Everything that was sent to the model.
fn sent(model: &MockModel) -> String {
    let bodies = model.requests().into_iter().map(|request| request.body);
    Value::Array(bodies.collect()).to_string()
}

#[test]
fn the_model_does_not_see_a_secret_of_a_result() {
    let Some(stage) = Stage::new("the_model_does_not_see_a_secret_of_a_result") else {
        return;
    };
    stage.install(ALL_EVENTS);
    stage.write(
        "notes.txt",
        &format!("user=me\nGITHUB_TOKEN={}\nlast line\n", token()),
    );
    let model = MockModel::start([
        Turn::bash("cat notes.txt"),
        Turn::call(
            "view",
            serde_json::json!({"path": stage.workspace().join("notes.txt")}),
        ),
    ]);
    assert!(stage.run(&model).status.success());
    for turn in [0, 1] {
        let told = model.told(turn);
        assert!(
            told.contains("GITHUB_TOKEN=«redacted:github-pat#"),
            "{told}"
        );
        assert!(told.contains("last line"), "{told}");
    }
    assert!(!sent(&model).contains(&token()), "{}", sent(&model));
    let redactions = stage
        .record()
        .iter()
        .filter(|line| line["kind"] == "result" && line["redactions"][0]["rule"] == "github-pat")
        .count();
    assert_eq!(redactions, 2);
}

#[test]
fn the_model_does_not_see_a_secret_of_a_prompt() {
    let Some(stage) = Stage::new("the_model_does_not_see_a_secret_of_a_prompt") else {
        return;
    };
    stage.install(ALL_EVENTS);
    let model = MockModel::start([Turn::bash("ls")]);
    assert!(
        stage
            .prompt(&model, &format!("push with {} please", token()))
            .status
            .success()
    );
    let sent = sent(&model);
    assert!(sent.contains("push with «redacted:"), "{sent}");
    assert!(!sent.contains(&token()), "{sent}");
}

/// Under the names that the client shares with others it takes no other text, but it withholds one.
#[test]
fn under_shared_names_what_holds_a_secret_is_withheld() {
    let Some(stage) = Stage::new("under_shared_names_what_holds_a_secret_is_withheld") else {
        return;
    };
    stage.install_shared(&["PreToolUse", "PostToolUse"]);
    stage.write("notes.txt", &format!("GITHUB_TOKEN={}\n", token()));
    let model = MockModel::start([Turn::bash("cat notes.txt"), Turn::bash("echo plain")]);
    stage.run(&model);
    let sent = sent(&model);
    assert!(
        !sent.contains(&token()),
        "{} {}",
        model.told(0),
        model.told(1)
    );
    assert!(model.told(1).contains("plain"), "{}", model.told(1));
}

#[test]
fn a_placeholder_is_not_used() {
    let Some(stage) = Stage::new("a_placeholder_is_not_used") else {
        return;
    };
    stage.install(ALL_EVENTS);
    let placeholder = ["«redacted:github-pat", "#abcd2345»"].concat();
    let model = MockModel::start([Turn::bash(&format!("echo T={placeholder} > used.env"))]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.contains("nobody can put it back"), "{told}");
    assert!(!stage.exists("used.env"));
}

/// What docs/redaction.md says about the client's own files, measured.
#[test]
fn the_client_itself_keeps_the_raw_result() {
    let Some(stage) = Stage::new("the_client_itself_keeps_the_raw_result") else {
        return;
    };
    stage.install(ALL_EVENTS);
    stage.write("notes.txt", &format!("GITHUB_TOKEN={}\n", token()));
    let model = MockModel::start([Turn::bash("cat notes.txt")]);
    assert!(stage.run(&model).status.success());
    let mut with_token = Vec::new();
    files(&stage.copilot_home(), &mut |path, text| {
        if text.contains(&token()) {
            with_token.push(path.file_name().unwrap_or_default().to_os_string());
        }
    });
    assert!(
        with_token.iter().any(|name| name == "events.jsonl"),
        "{with_token:?}"
    );
}

fn files(dir: &Path, each: &mut dyn FnMut(&Path, &str)) {
    for entry in fs::read_dir(dir).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, each);
        } else if path.is_file() {
            each(
                &path,
                &String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()),
            );
        }
    }
}
