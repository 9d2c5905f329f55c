//! `explain`, `demo` and `config show`.

use serde_json::{Value, json};

use super::program::{Stage, run, send};

#[test]
fn explain_says_which_policies_held_and_why_others_did_not() {
    let stage = Stage::new();
    let event = stage
        .call("bash", &json!({"command": "git push"}))
        .to_string();
    let answer = send(stage.command(&["explain"]), event.as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    for part in [
        "shell `git push` → ask",
        "held      ask default:ask-changes-history",
        "false is `resource.labels.contains(\"publishes\")`",
        "\"permissionDecision\":\"ask\"",
    ] {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
    assert!(!stage.state().exists(), "explaining leaves no record");
}

#[test]
fn explain_as_json_is_one_document() {
    let stage = Stage::new();
    let event = stage
        .call("view", &json!({"path": "../outside/secret.txt"}))
        .to_string();
    let answer = send(
        stage.command(&["explain", "--format", "json"]),
        event.as_bytes(),
    );
    assert_eq!(answer.code, 2);
    let value = answer.json();
    assert_eq!(value["version"], 1);
    assert_eq!(value["decision"], "deny");
    assert_eq!(value["answer"]["exit"], 2);
    assert_eq!(value["requests"][1]["request"]["resource"]["inside"], false);
    let policies = value["requests"][1]["policies"].as_array().unwrap();
    assert!(
        policies
            .iter()
            .any(|policy| policy["id"] == "default:outside-read" && policy["held"] == true)
    );
    assert!(
        policies
            .iter()
            .any(|policy| policy["because"] == "when: resource.inside")
    );
}

#[test]
fn explain_last_shows_why_one_was_stopped() {
    let stage = Stage::new();
    let last = || {
        let mut command = stage.command(&["explain", "--last", "--state"]);
        command.arg(stage.state());
        run(command)
    };
    assert!(last().text.starts_with("nothing was asked or denied yet"));
    stage.judge("bash", &json!({"command": "sudo ls"}));
    stage.judge("view", &json!({"path": "a.txt"}));
    let text = last().text;
    assert!(text.contains("default:privileged-command"), "{text}");
    assert!(text.contains("decision  deny"), "{text}");
}

#[test]
fn the_demo_shows_three_decisions_and_leaves_nothing() {
    let stage = Stage::new();
    let scratch = stage.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let mut command = stage.command(&["demo"]);
    command.env("TMPDIR", &scratch);
    let answer = run(command);
    assert_eq!(answer.code, 0, "{answer:?}");
    for decision in ["decision  allow", "decision  ask", "decision  deny"] {
        assert!(answer.text.contains(decision), "{}", answer.text);
    }
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn config_show_names_the_origin_of_each_value() {
    let stage = Stage::new();
    let show = |variable: Option<(&str, &str)>| {
        let mut command = stage.command(&["config", "show", "--origin", "--format", "json"]);
        command.envs(variable);
        run(command)
    };
    let value: Value = show(None).json();
    assert_eq!(
        value["session.max_retries"],
        json!({"value": 3, "origin": "bridge.toml (default)"})
    );
    let value: Value = show(Some(("COPILOT_MAX_RETRIES", "5.7"))).json();
    assert_eq!(
        value["session.max_retries"],
        json!({"value": 5, "origin": "environment (COPILOT_MAX_RETRIES)"})
    );
    let wrong = show(Some(("COPILOT_LOG_LEVEL", "loud")));
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.errors.contains("`COPILOT_LOG_LEVEL` is `loud`"),
        "{wrong:?}"
    );
}

#[test]
fn a_wrong_command_line_is_usage() {
    let stage = Stage::new();
    assert_eq!(run(stage.command(&["frobnicate"])).code, 64);
    assert_eq!(
        run(stage.command(&["policy", "check", "--format", "xml"])).code,
        64
    );
    assert_eq!(run(stage.command(&["--help"])).code, 0);
    assert_eq!(run(stage.command(&["--version"])).code, 0);
}
