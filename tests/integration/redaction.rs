//! What the hooks let through without its secrets, and what they do not let through.

use std::fs;

use serde_json::{Value, json};

use super::program::{Answer, Stage, send};

/// A token that no service ever gave out.
pub(crate) fn token() -> String {
    let digits: String = "aB3dE5fG7h".chars().cycle().skip(3).take(36).collect();
    ["ghp", "_", &digits].concat()
}

fn event(stage: &Stage, name: &str, fields: Value) -> Answer {
    let mut event = json!({"sessionId": "session-1", "timestamp": 1, "cwd": stage.workspace()});
    event
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    send(stage.hook(name, &[]), event.to_string().as_bytes())
}

fn result(stage: &Stage, text: &str) -> Answer {
    let fields = json!({
        "toolName": "bash",
        "toolArgs": {"command": "cat notes.txt"},
        "toolResult": {"resultType": "success", "textResultForLlm": text},
    });
    event(stage, "post-tool-use", fields)
}

fn replaced(answer: &Answer) -> String {
    assert_eq!(answer.code, 0, "{answer:?}");
    let text = &answer.json()["modifiedResult"]["textResultForLlm"];
    text.as_str()
        .unwrap_or_else(|| panic!("{answer:?}"))
        .to_owned()
}

#[test]
fn a_secret_leaves_the_result() {
    let stage = Stage::new();
    let text = format!("user=me\nGITHUB_TOKEN={}\nlast line\n", token());
    let text = replaced(&result(&stage, &text));
    assert!(!text.contains(&token()), "{text}");
    assert!(
        text.starts_with("user=me\nGITHUB_TOKEN=«redacted:github-pat#"),
        "{text}"
    );
    assert!(text.ends_with("»\nlast line\n"), "{text}");
    let line = stage.record().pop().unwrap();
    assert_eq!(line["decision"], "allow");
    assert_eq!(line["obligations"], json!(["redact:secrets", "truncate"]));
    assert_eq!(line["redactions"][0]["rule"], "github-pat");
    assert_eq!(line["redactions"][0]["count"], 1);
    assert_eq!(line["redactions"][0]["pointer"], "/text");
    let whole = fs::read_dir(stage.state().join("audit"))
        .unwrap()
        .map(|day| fs::read_to_string(day.unwrap().path()).unwrap_or_default())
        .collect::<String>();
    assert!(!whole.contains(&token()), "{whole}");
}

/// A name within an argument is given what follows it there, not the whole argument.
#[test]
fn a_secret_within_an_argument_is_in_no_file_of_ours() {
    let stage = Stage::new();
    let secret: String = "k7Qd2Xw9Rb4Tz6".chars().cycle().take(32).collect();
    let digits = secret.to_lowercase().replace(|c: char| c > 'f', "3");
    let uuid = [8, 4, 4, 4, 12].map(|length| digits.chars().take(length).collect::<String>());
    let uuid = uuid.join("-");
    for (name, value) in [
        ("DB_PASSWORD", &secret),
        ("api_key", &secret),
        ("SNYK_TOKEN", &uuid),
    ] {
        for line in [
            format!("{name}={value} make"),
            format!("echo '{name}={value}'"),
            format!("echo '{{\"a\": 1, \"{name}\": \"{value}\"}}' > x"),
            format!("printf '%s' \"export {name}={value}\nx\""),
        ] {
            let args = json!({"command": line, "description": "a line"});
            event(
                &stage,
                "pre-tool-use",
                json!({"toolName": "bash", "toolArgs": args}),
            );
            let fields = json!({
                "toolName": "bash",
                "toolArgs": args,
                "toolResult": {"resultType": "success", "textResultForLlm": line},
            });
            let answer = event(&stage, "post-tool-use", fields);
            assert!(!answer.text.contains(value.as_str()), "{answer:?}");
        }
    }
    for line in stage.record() {
        let line = line.to_string();
        assert!(!line.contains(&secret) && !line.contains(&uuid), "{line}");
        assert!(line.contains("«redacted:"), "{line}");
    }
}

#[test]
fn a_result_without_secrets_is_left_alone() {
    let stage = Stage::new();
    for text in [
        "",
        "plain",
        "commit 3f2b8c1d9e7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c\n",
    ] {
        assert_eq!(result(&stage, text).json(), json!({}), "{text}");
    }
}

#[test]
fn a_placeholder_is_the_same_in_each_call() {
    let stage = Stage::new();
    let text = format!("token: {}", token());
    let first = replaced(&result(&stage, &text));
    assert_eq!(first, replaced(&result(&stage, &text)));
    assert_eq!(result(&stage, &first).json(), json!({}));
    assert_ne!(first, replaced(&result(&Stage::new(), &text)));
}

#[test]
fn a_long_result_is_redacted_and_then_cut() {
    let stage = Stage::new();
    let long = "x".repeat(10_001);
    let cut = replaced(&result(&stage, &long));
    assert_eq!(cut, format!("{}\n[truncated]", "x".repeat(10_000)));
    assert_eq!(result(&stage, &"x".repeat(10_000)).json(), json!({}));
    let text = format!("{} {} {}", "x".repeat(9_990), token(), "y".repeat(50));
    let cut = replaced(&result(&stage, &text));
    assert!(!cut.contains("ghp_"), "{cut}");
    let emoji = "😀".repeat(2_501);
    let cut = replaced(&result(&stage, &emoji));
    assert_eq!(cut, format!("{}\n[truncated]", "😀".repeat(2_500)));
}

#[test]
fn a_secret_leaves_the_prompt() {
    let stage = Stage::new();
    let prompt = format!("use {} to push", token());
    let answer = event(&stage, "user-prompt-submitted", json!({"prompt": prompt}));
    let text = answer.json()["modifiedPrompt"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("use «redacted:") && text.ends_with("» to push"),
        "{text}"
    );
    let answer = event(
        &stage,
        "user-prompt-transformed",
        json!({"prompt": "x", "transformedPrompt": prompt}),
    );
    assert_eq!(answer.json()["modifiedTransformedPrompt"], text);
    let answer = event(&stage, "user-prompt-submitted", json!({"prompt": "hello"}));
    assert_eq!(answer.json(), json!({}));
}

#[test]
fn who_cannot_take_a_secret_out_is_blocked() {
    let stage = Stage::new();
    let send = |name: &str, fields: Value| {
        let mut event = json!({"session_id": "s", "cwd": stage.workspace()});
        event
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let hook = stage.hook(name, &["--dialect", "claude"]);
        send(hook, event.to_string().as_bytes())
    };
    let prompt =
        json!({"hook_event_name": "UserPromptSubmit", "prompt": format!("use {}", token())});
    let answer = send("user-prompt-submitted", prompt);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["decision"], "block");
    assert!(!answer.text.contains(&token()), "{answer:?}");
    let response = json!({
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "cat x"},
        "tool_response": {"stdout": format!("k={}", token()), "stderr": ""},
    });
    let answer = send("post-tool-use", response);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["decision"], "block");
    let output = &answer.json()["hookSpecificOutput"]["updatedToolOutput"];
    assert!(
        output.as_str().unwrap().contains("«redacted:github-pat#"),
        "{answer:?}"
    );
    assert!(!answer.text.contains(&token()), "{answer:?}");
}

#[test]
fn nothing_is_done_with_a_placeholder() {
    let stage = Stage::new();
    let placeholder = format!("«redacted:github-pat#{}»", "abcd2345");
    for (tool, args, expected) in [
        (
            "bash",
            json!({"command": format!("export T={placeholder}")}),
            "deny",
        ),
        (
            "create",
            json!({"path": "x.env", "file_text": format!("T={placeholder}")}),
            "deny",
        ),
        (
            "srv-send",
            json!({"deep": [{"token": placeholder}]}),
            "deny",
        ),
        (
            "grep",
            json!({"pattern": placeholder, "path": "."}),
            "allow",
        ),
        (
            "create",
            json!({"path": "x.txt", "file_text": "«redacted» is a word"}),
            "allow",
        ),
    ] {
        let answer = stage.judge(tool, &args);
        assert_eq!(answer.decision(), expected, "{tool} {args}");
        if expected == "deny" {
            assert!(
                answer.reason().contains("default:placeholder"),
                "{answer:?}"
            );
        }
    }
}

#[test]
fn what_is_sent_with_a_secret_is_asked_about() {
    let stage = Stage::new();
    let args = json!({"command": format!("curl -H 'Authorization: Bearer {}' https://api.example.com", token())});
    let answer = stage.judge("bash", &args);
    assert_ne!(answer.decision(), "allow");
    let line = stage.record().pop().unwrap();
    let text = line.to_string();
    assert!(!text.contains(&token()), "{text}");
    let command = line["args_redacted"]["command"].as_str().unwrap();
    assert!(command.contains("Bearer «redacted:"), "{command}");
    assert_eq!(line["redactions"][0]["pointer"], "/args/command");
    assert!(text.contains("curl -H"), "{text}");
}

#[test]
fn a_file_may_be_written_with_a_secret_but_the_record_has_none() {
    let stage = Stage::new();
    let text = format!("API_TOKEN={}\n", token());
    let args = json!({"path": "conf.txt", "file_text": text});
    assert_eq!(stage.judge("create", &args).decision(), "allow");
    let line = stage.record().pop().unwrap();
    assert!(!line.to_string().contains(&token()), "{line}");
    assert_eq!(
        line["requests"][0]["context"]["secrets"],
        json!(["github-pat"])
    );
}

#[test]
fn monitor_mode_redacts_all_the_same() {
    let stage = Stage::new();
    let policies = stage.policies();
    let file = policies.join("bridge.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("mode = \"enforce\"", "mode = \"monitor\""),
    )
    .unwrap();
    let event = json!({
        "sessionId": "s", "timestamp": 1, "cwd": stage.workspace(),
        "toolName": "bash", "toolArgs": {"command": "cat x"},
        "toolResult": {"resultType": "success", "textResultForLlm": token()},
    });
    let hook = stage.hook("post-tool-use", &["--policies", policies.to_str().unwrap()]);
    let text = replaced(&send(hook, event.to_string().as_bytes()));
    assert!(text.starts_with("«redacted:"), "{text}");
}

/// Policies with an entity that works in the stage's workspace.
fn with_entity(stage: &Stage, more: &str) -> String {
    let policies = stage.policies();
    let entity = format!(
        "format = 1\n{more}\n[[entity]]\nname = \"Maple House\"\nworkspaces = [\"{}\"]\nrosters = [\"maple.txt\"]\n",
        stage.workspace().display()
    );
    fs::write(policies.join("entities.toml"), entity).unwrap();
    fs::create_dir(policies.join("rosters")).unwrap();
    let names = "# residents\nOrla Vantongeren\nYoung, Tobias\nIda O'Hara-Quist\n";
    fs::write(policies.join("rosters/maple.txt"), names).unwrap();
    policies.to_str().unwrap().to_owned()
}

fn result_with(stage: &Stage, policies: &str, text: &str) -> String {
    let event = json!({
        "sessionId": "s", "timestamp": 1, "cwd": stage.workspace(),
        "toolName": "bash", "toolArgs": {"command": "cat x"},
        "toolResult": {"resultType": "success", "textResultForLlm": text},
    });
    let hook = stage.hook("post-tool-use", &["--policies", policies]);
    let answer = send(hook, event.to_string().as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    match answer.json()["modifiedResult"]["textResultForLlm"].as_str() {
        Some(text) => text.to_owned(),
        None => text.to_owned(),
    }
}

#[test]
fn health_information_leaves_the_texts_of_an_entity() {
    let stage = Stage::new();
    let note = "Resident Orla Vantongeren (Room 207A, DOB May 3, 1942, MRN 6980903), SSN 970-05-6808. \
                Hx of hypertension. Mrs. Young and O'Hara-Quist visited; Young people sang.";
    assert_eq!(
        replaced_or_same(&stage, note),
        note,
        "nobody named an entity"
    );
    let policies = with_entity(&stage, "common_names = [\"Young\"]");
    let text = result_with(&stage, &policies, note);
    for gone in [
        "Orla",
        "Vantongeren",
        "207A",
        "1942",
        "6980903",
        "970-05",
        "hypertension",
        "Mrs. Young",
        "Quist",
    ] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
    assert!(text.ends_with("visited; Young people sang."), "{text}");
    let line = stage.record().pop().unwrap();
    assert_eq!(line["entity"], "Maple House");
    assert_eq!(
        line["obligations"],
        json!(["redact:secrets", "redact:phi", "truncate"])
    );
    let rules = line["redactions"].to_string();
    assert!(
        rules.contains("\"roster-name\"") && rules.contains("\"phi-ssn\""),
        "{rules}"
    );
    assert!(!line.to_string().contains("Vantongeren"), "{line}");
}

fn replaced_or_same(stage: &Stage, text: &str) -> String {
    match result(stage, text).json()["modifiedResult"]["textResultForLlm"].as_str() {
        Some(text) => text.to_owned(),
        None => text.to_owned(),
    }
}

#[test]
fn a_key_that_is_a_name_stands_nowhere_in_the_record() {
    let stage = Stage::new();
    let policies = with_entity(&stage, "");
    let text = json!({"Orla Vantongeren": {"password": "S3cret-w0rd!"}}).to_string();
    let text = result_with(&stage, &policies, &text);
    assert!(
        !text.contains("Vantongeren") && !text.contains("S3cret"),
        "{text}"
    );
    let line = stage.record().pop().unwrap().to_string();
    assert!(!line.contains("Vantongeren"), "{line}");
}

#[test]
fn only_who_says_so_has_no_health_information() {
    let stage = Stage::new();
    let policies = with_entity(&stage, "");
    let file = std::path::Path::new(&policies).join("entities.toml");
    let text = fs::read_to_string(&file).unwrap();
    let note = "seen today: Orla Vantongeren";
    fs::write(
        &file,
        text.replace("rosters = [\"maple", "phi = false\nrosters = [\"maple"),
    )
    .unwrap();
    assert_eq!(result_with(&stage, &policies, note), note);
    // Who is not known may work for anybody.
    fs::write(
        &file,
        text.replace(stage.workspace().to_str().unwrap(), "/elsewhere"),
    )
    .unwrap();
    assert_ne!(result_with(&stage, &policies, note), note);
}

#[test]
fn a_roster_that_is_not_there_is_underlined() {
    let stage = Stage::new();
    let policies = with_entity(&stage, "rosters = [\"gone.txt\"]");
    let answer = super::program::run(stage.command(&["policy", "check", &policies]));
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(
        answer
            .text
            .contains("there is no roster `rosters/gone.txt`"),
        "{answer:?}"
    );
}

#[test]
fn a_prompt_that_nobody_can_stop_is_replaced() {
    let stage = Stage::new();
    let prompt = format!("use {}", token());
    let event = json!({
        "sessionId": "s", "timestamp": 1, "cwd": "relative",
        "prompt": "x", "transformedPrompt": prompt,
    });
    let hook = stage.hook("user-prompt-transformed", &[]);
    let answer = send(hook, event.to_string().as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    let text = answer.json()["modifiedTransformedPrompt"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.contains("not absolute"), "{text}");
    assert!(!answer.text.contains(&token()), "{answer:?}");
}

#[test]
fn a_key_that_is_a_secret_stands_nowhere_in_the_record() {
    let stage = Stage::new();
    let (key, inner) = (token(), token().replace('a', "b"));
    let text = json!({key.clone(): {"password": "S3cret-w0rd!", "list": [{inner.clone(): inner}]}});
    let answer = result(&stage, &text.to_string());
    let text = replaced(&answer);
    let line = stage.record().pop().unwrap().to_string();
    for gone in [key.as_str(), inner.as_str(), "S3cret"] {
        assert!(!text.contains(gone), "{text}");
        assert!(!line.contains(gone), "{line}");
    }
    assert!(line.contains("\"/text/redacted/password\""), "{line}");
    serde_json::from_str::<Value>(&text).unwrap();
}
