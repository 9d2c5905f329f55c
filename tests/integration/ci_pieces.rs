//! What users put into their own pipelines: hooks for pre-commit, and an action for GitHub. The
//! commands in them are run as they are written.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::program::{Answer, Stage, binary, run};

fn yaml(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A repository with policies that pass.
fn repository() -> Stage {
    let stage = Stage::new();
    let mut new = stage.command(&["policy", "new", "--template", "web-app"]);
    new.arg(stage.path("ws/policies"));
    assert_eq!(run(new).code, 0);
    stage
}

/// Makes policies of it that are broken and out of form.
fn broken(stage: &Stage) {
    let path = stage.path("ws/policies/web-app.cedar");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        path,
        text.replacen("resource.private &&", "resource.privat   &&", 1),
    )
    .unwrap();
}

/// A shell with the program on its path.
fn shell(stage: &Stage, script: &str, variables: &[(&str, &str)]) -> Answer {
    let folder = binary().parent().unwrap().display().to_string();
    let mut command = Command::new("bash");
    command
        .args(["-eo", "pipefail", "-c", script])
        .current_dir(stage.workspace())
        .env_clear();
    command
        .env("PATH", format!("{folder}:/usr/bin:/bin"))
        .envs(variables.iter().copied());
    Answer::of(&command.output().unwrap())
}

#[test]
fn the_hooks_of_pre_commit_run() {
    let hooks = yaml(".pre-commit-hooks.yaml");
    let hooks: Vec<&Value> = hooks
        .as_array()
        .unwrap()
        .iter()
        .filter(|hook| {
            hook["entry"]
                .as_str()
                .unwrap()
                .starts_with("copilot-bridge policy ")
        })
        .collect();
    let ids: Vec<&str> = hooks
        .iter()
        .map(|hook| hook["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        ["check", "lint", "test", "fmt"].map(|verb| format!("copilot-bridge-{verb}"))
    );
    let (good, bad) = (repository(), repository());
    broken(&bad);
    for hook in hooks {
        let entry = hook["entry"].as_str().unwrap();
        assert_eq!(hook["language"], "system");
        regex::Regex::new(hook["files"].as_str().unwrap()).unwrap();
        // pre-commit adds the arguments, then the files that changed.
        let args = hook["args"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let mut line: Vec<&str> = std::iter::once(entry).chain(args).collect();
        if hook["pass_filenames"] != false {
            line.push("policies/web-app.cedar");
        }
        let line = line.join(" ");
        let answer = shell(&good, &line, &[]);
        assert_eq!(answer.code, 0, "{line}: {answer:?}");
        // What is out of form is put into it, and pre-commit sees that a file has changed.
        let before = fs::read_to_string(bad.path("ws/policies/web-app.cedar")).unwrap();
        let answer = shell(&bad, &line, &[]);
        let after = fs::read_to_string(bad.path("ws/policies/web-app.cedar")).unwrap();
        assert!(answer.code != 0 || before != after, "{line}: {answer:?}");
    }
}

#[test]
fn the_action_for_github_runs() {
    let action = yaml("action.yml");
    assert_eq!(action["runs"]["using"], "composite");
    let inputs = action["inputs"].as_object().unwrap();
    for (name, input) in inputs {
        assert!(
            input["description"].is_string() && input["default"].is_string(),
            "{name}"
        );
    }
    let (good, bad) = (repository(), repository());
    broken(&bad);
    let program = binary().display().to_string();
    let mut verbs = Vec::new();
    for step in action["runs"]["steps"].as_array().unwrap() {
        assert_eq!(step["shell"], "bash");
        let script = step["run"].as_str().unwrap();
        // Whatever a user writes reaches a script as a variable, and never as a part of it.
        assert!(!script.contains("${{"), "{script}");
        let Some(verb) = script
            .split(" policy ")
            .nth(1)
            .map(|rest| rest.split(' ').next().unwrap())
        else {
            assert!(
                script.starts_with("cargo install ") && step["if"] == "inputs.binary == ''",
                "{script}"
            );
            continue;
        };
        let env = step["env"].as_object().unwrap();
        let given = [
            ("BRIDGE", program.as_str()),
            ("POLICIES", "policies"),
            ("THRESHOLD", "0"),
        ];
        for (name, value) in env {
            assert!(given.iter().any(|(known, _)| known == name), "{name}");
            for input in value.as_str().unwrap().split("inputs.").skip(1) {
                let input: String = input
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '-')
                    .collect();
                assert!(inputs.contains_key(&input), "there is no input `{input}`");
            }
        }
        verbs.push(verb);
        let variables: Vec<(&str, &str)> = given
            .into_iter()
            .filter(|(name, _)| env.contains_key(*name))
            .collect();
        let answer = shell(&good, script, &variables);
        assert_eq!(answer.code, 0, "{script}: {answer:?}");
        let answer = shell(&bad, script, &variables);
        assert_ne!(answer.code, 0, "{script}: {answer:?}");
        if verb == "check" {
            let at = "::error title=validation,file=policies/web-app.cedar,line=";
            assert!(answer.text.starts_with(at), "{}", answer.text);
        }
    }
    assert_eq!(verbs, ["check", "fmt", "lint", "test"]);
}

/// Every command of docs/editors.md, in its order.
#[test]
fn the_commands_of_the_documentation_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/editors.md")).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
    let stage = Stage::new();
    stage.write("ws/mine.cedar", "// Nothing yet.\n");
    let mut ran = 0;
    for line in lines {
        // What is in force for whoever runs this is nothing to rely on.
        let line = if line.starts_with("copilot-bridge policy show") {
            let command = line.split('#').next().unwrap().trim();
            format!(
                "{command} --policies {}/policies --state {}",
                root.display(),
                stage.state().display()
            )
        } else {
            line.to_owned()
        };
        let answer = shell(&stage, &line, &[]);
        assert_eq!(answer.code, 0, "{line}: {answer:?}");
        ran += 1;
    }
    assert_eq!(ran, 10);
    let schema = stage.path("ws/policies/.schemas/bridge.cedarschema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    assert!(schema["Bridge"].is_object());
    // It stands where it says, and policies are in order all the same.
    let check = shell(&stage, "copilot-bridge policy check policies", &[]);
    assert_eq!(check.code, 0, "{check:?}");
    for name in [
        "web-app",
        "hipaa",
        "ci-runner",
        "read-only-reviewer",
        "docs-writer",
        "ted",
    ] {
        assert!(text.contains(&format!("| `{name}` |")), "{name}");
    }
}
