//! `redact`: what it finds in files and pipes, and what it changes of them.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::program::{Answer, Stage, binary, run, send};
use super::redaction::token;

fn redact(stage: &Stage, words: &[&str]) -> Command {
    let mut command = stage.command(&["redact"]);
    command.args(words).arg("--state").arg(stage.state());
    command
}

/// What the pipe makes of a text: bytes, since it may hold anything.
fn piped(stage: &Stage, text: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut command = redact(stage, &["--stdin"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = text.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&text));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output.stdout
}

#[test]
fn a_pipe_changes_nothing_but_secrets() {
    let stage = Stage::new();
    let colours = "\u{1b}[31mred\u{1b}[0m\r\n".repeat(3);
    let code = "fn main() {\n[1]\n{\n    let x = r#\"{\"a\":1}\"#;\n}\r\n".repeat(4000);
    for text in [
        &b""[..],
        b"no end",
        b"a\r\n\r\nb\n",
        b"latin \xe9 \xff\xfe\x00 bytes\n",
        b"{\"a\": 1.50, \"b\" : [ ] }\n{\"c\":\"\\u00e9\"}",
        colours.as_bytes(),
        code.as_bytes(),
    ] {
        assert_eq!(piped(&stage, text), text);
    }
    let mut text = b"caf\xe9\r\nexport GITHUB_TOKEN=".to_vec();
    text.extend_from_slice(token().as_bytes());
    text.extend_from_slice(b"\r\nend");
    let new = piped(&stage, &text);
    let shown = String::from_utf8_lossy(&new);
    assert!(!shown.contains(&token()));
    assert!(new.starts_with(b"caf\xe9\r\nexport GITHUB_TOKEN=\xc2\xabredacted:github-pat#"));
    assert!(new.ends_with(b"\xc2\xbb\r\nend"));
    assert_eq!(piped(&stage, &new), new, "once more changes nothing");
    assert!(!stage.state().exists(), "who looks leaves nothing behind");
}

#[test]
fn json_in_is_json_out() {
    let stage = Stage::new();
    let inner = json!({"token": token(), "n": 1.5}).to_string();
    let row = json!({"text": format!("a\n{}\tb", token()), "in": inner, token(): [null, 1e300]});
    let many: Vec<Value> = std::iter::repeat_n(row.clone(), 3000).collect();
    for text in [
        row.to_string(),
        serde_json::to_string_pretty(&row).unwrap(),
        serde_json::to_string_pretty(&many).unwrap(),
        format!("{row}\n{row}\n"),
        format!("{row:#}\n{row:#}"),
    ] {
        let new = String::from_utf8(piped(&stage, text.as_bytes())).unwrap();
        assert!(!new.contains(&token()));
        let read = |text: &str| {
            serde_json::Deserializer::from_str(text)
                .into_iter::<Value>()
                .map(Result::unwrap)
                .count()
        };
        assert_eq!(read(&new), read(&text));
    }
}

#[test]
fn a_pipe_is_checked() {
    let stage = Stage::new();
    let text = format!("one\ntwo {}\n{{\"a\":\n \"{}\"}}\n", token(), token());
    let answer = send(redact(&stage, &["--stdin", "--check"]), text.as_bytes());
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.text.contains("<stdin>:2:5: "), "{answer:?}");
    assert!(answer.text.contains("<stdin>:4:3: "), "{answer:?}");
    assert!(answer.text.contains("[github-pat]"), "{answer:?}");
    assert!(!answer.text.contains(&token()));
    let answer = send(redact(&stage, &["-", "--check"]), b"nothing\n");
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{answer:?}");
}

/// A folder with a secret in every kind of file.
fn folder() -> Stage {
    let stage = Stage::new();
    let line = format!("é T={}\n", token());
    for name in [
        "ws/src/b.env",
        "ws/src/a.env",
        "ws/.hidden.env",
        "ws/ignored.env",
        "ws/node_modules/x.env",
        "ws/.git/config",
    ] {
        stage.write(name, &line);
    }
    stage.write("ws/.gitignore", "ignored.env\nnode_modules\n");
    stage.write("ws/image.bin", &format!("\0{line}"));
    stage
}

fn found(answer: &Answer) -> Vec<String> {
    let places = answer.text.lines().filter_map(|line| line.split_once(": "));
    places.map(|(place, _)| place.to_owned()).collect()
}

#[test]
fn folders_are_searched_as_ripgrep_does() {
    let stage = folder();
    let answer = run(redact(&stage, &[]));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(found(&answer), ["src/a.env:1:5", "src/b.env:1:5"]);
    assert!(
        answer.text.ends_with("2 findings in 2 of 6 files\n"),
        "{answer:?}"
    );
    let answer = run(redact(&stage, &["--hidden", "--check"]));
    assert_eq!(answer.code, 1, "{answer:?}");
    assert_eq!(
        found(&answer),
        [".hidden.env:1:5", "src/a.env:1:5", "src/b.env:1:5"]
    );
    // What is named is looked at, whatever it is.
    let named = ["image.bin", "ignored.env", "src", "ignored.env"];
    let answer = run(redact(&stage, &named));
    assert_eq!(
        found(&answer),
        [
            "image.bin:1:6",
            "ignored.env:1:5",
            "src/a.env:1:5",
            "src/b.env:1:5"
        ]
    );
    for line in answer.text.lines() {
        assert!(!line.contains("ghp"), "{line}");
    }
}

#[test]
fn findings_for_programs() {
    let stage = folder();
    let report = run(redact(&stage, &["src", "--format", "json"]));
    let json = report.json();
    assert_eq!(json["version"], 1);
    assert_eq!(json["files"], 3);
    assert_eq!(json["errors"], json!([]));
    let finding = &json["findings"][0];
    let keys: Vec<&String> = finding.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "path",
            "line",
            "column",
            "end_line",
            "end_column",
            "rule",
            "description",
            "severity",
            "fingerprint"
        ]
    );
    assert_eq!(finding["path"], "src/a.env");
    assert_eq!(finding["rule"], "github-pat");
    assert_eq!(finding["end_column"], 5 + token().len());
    assert_eq!(
        json["findings"][0]["fingerprint"], json["findings"][1]["fingerprint"],
        "the same secret"
    );
    let again = run(redact(&stage, &["src", "--format", "json"])).json();
    assert_ne!(
        again["findings"][0]["fingerprint"], finding["fingerprint"],
        "without an installation nothing can be compared"
    );
    // With one, it is the one of the placeholder.
    send(
        stage.hook("pre-tool-use", &[]),
        stage
            .call("view", &json!({"path": "a.txt"}))
            .to_string()
            .as_bytes(),
    );
    let mark = |report: &Value| {
        report["findings"][0]["fingerprint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = mark(&run(redact(&stage, &["src", "--format", "json"])).json());
    assert_eq!(
        first,
        mark(&run(redact(&stage, &["src", "--format", "json"])).json())
    );
    let piped = String::from_utf8(piped(&stage, token().as_bytes())).unwrap();
    assert_eq!(piped, format!("«redacted:github-pat#{first}»"));
}

#[test]
fn findings_for_code_hosts() {
    let stage = folder();
    stage.write("ws/a b/ü.env", &format!("{}\n", token()));
    let answer = run(redact(
        &stage,
        &["src", "a b", "gone", "--format", "sarif", "--check"],
    ));
    assert_eq!(answer.code, 2, "{answer:?}");
    let log = answer.json();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let one = &log["runs"][0];
    let driver = &one["tool"]["driver"];
    assert_eq!(driver["name"], "copilot-bridge");
    let rules = driver["rules"].as_array().unwrap();
    let ids: BTreeSet<&str> = rules
        .iter()
        .map(|rule| rule["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), rules.len());
    for rule in rules {
        assert!(rule["shortDescription"]["text"].is_string());
        let score: f64 = rule["properties"]["security-severity"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!((0.0..=10.0).contains(&score));
    }
    assert_eq!(one["invocations"][0]["executionSuccessful"], false);
    let notes = one["invocations"][0]["toolExecutionNotifications"]
        .as_array()
        .unwrap();
    assert_eq!(notes.len(), 1);
    assert!(notes[0]["message"]["text"].is_string());
    let results = one["results"].as_array().unwrap();
    let uris: Vec<&Value> = results
        .iter()
        .map(|result| {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(["note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
            assert!(result["message"]["text"].is_string());
            let marks = result["partialFingerprints"].as_object().unwrap();
            assert!(marks.values().all(Value::is_string) && marks.len() == 1);
            let place = &result["locations"][0]["physicalLocation"];
            for key in ["startLine", "startColumn", "endLine", "endColumn"] {
                assert!(place["region"][key].as_u64().unwrap() >= 1);
            }
            &place["artifactLocation"]["uri"]
        })
        .collect();
    assert_eq!(uris, ["src/a.env", "src/b.env", "a%20b/%C3%BC.env"]);
    assert!(!answer.text.contains(&token()));
}

#[cfg(unix)]
#[test]
fn files_are_rewritten_in_place() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let stage = folder();
    let path = stage.path("ws/src/a.env");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(stage.path("ws/src/b.env"), stage.path("ws/src/link")).unwrap();
    let untouched = fs::metadata(stage.path("ws/src/main.rs")).unwrap();
    let answer = run(redact(&stage, &["src", "--write"]));
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(found(&answer).len(), 2);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("é T=«redacted:github-pat#"), "{text}");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let now = fs::metadata(stage.path("ws/src/main.rs")).unwrap();
    assert_eq!(now.modified().unwrap(), untouched.modified().unwrap());
    let answer = run(redact(&stage, &["src", "--write", "--format", "json"]));
    assert_eq!(answer.json()["findings"], json!([]));
    // Nothing is written through a link, and nothing under one of several names.
    stage.write("outside/secret.txt", &token());
    symlink(stage.path("outside/secret.txt"), stage.path("ws/out")).unwrap();
    fs::hard_link(stage.path("outside/secret.txt"), stage.path("ws/hard")).unwrap();
    let answer = run(redact(&stage, &["out", "hard", "--write"]));
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.errors.contains("`out`: it is a link"), "{answer:?}");
    assert!(
        answer.errors.contains("`hard`: it has other names"),
        "{answer:?}"
    );
    assert_eq!(
        fs::read_to_string(stage.path("outside/secret.txt")).unwrap(),
        token()
    );
    assert_eq!(run(redact(&stage, &["out", "--check"])).code, 1);
}

#[test]
fn what_cannot_be_looked_at_is_an_error() {
    let stage = Stage::new();
    let answer = run(redact(&stage, &["gone", "a.txt", "--check"]));
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.errors.contains("`gone`: "), "{answer:?}");
    for words in [
        &["--check", "--write"][..],
        &["--stdin", "--write"],
        &["-", "--write"],
        &["-", "a.txt"],
        &["--stdin", "a.txt"],
        &["--stdin", "--format", "json"],
        &["--format", "xml"],
    ] {
        assert_eq!(run(redact(&stage, words)).code, 64, "{words:?}");
    }
    let answer = run(redact(&stage, &["--entity", "nobody"]));
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.errors.contains("no entity `nobody`"), "{answer:?}");
    stage.write("broken/bridge.toml", "format = 1\nmoed = 1\n");
    let broken = stage.path("broken");
    let answer = run(redact(&stage, &["--policies", broken.to_str().unwrap()]));
    assert_eq!(answer.code, 3, "{answer:?}");
}

#[cfg(unix)]
#[test]
fn a_pipe_or_device_is_never_opened() {
    let stage = Stage::new();
    let pipe = stage.path("ws/src/pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(run(redact(&stage, &["src"])).code, 0);
    let answer = run(redact(&stage, &["src/pipe", "/dev/zero"]));
    assert_eq!(answer.code, 2, "{answer:?}");
    assert_eq!(
        answer.errors.matches("it is no plain file").count(),
        2,
        "{answer:?}"
    );
}

#[test]
fn health_information_is_found_where_it_is_wanted() {
    let stage = Stage::new();
    stage.write("ws/note.txt", "Resident DOB: 04/17/1938, MRN: 00482913\n");
    let policies = stage.policies();
    let entities =
        "format = 1\n[[entity]]\nname = \"Everest\"\n[[entity]]\nname = \"Maple\"\nphi = false\n";
    let findings = |words: &[&str]| {
        let mut command = redact(&stage, &["note.txt", "--format", "json"]);
        command.arg("--policies").arg(&policies).args(words);
        run(command).json()["findings"].as_array().unwrap().len()
    };
    assert_eq!(findings(&[]), 0);
    assert_eq!(findings(&["--phi"]), 2);
    fs::write(policies.join("entities.toml"), entities).unwrap();
    assert_eq!(findings(&[]), 2);
    assert_eq!(findings(&["--entity", "everest"]), 2);
    assert_eq!(findings(&["--entity", "maple"]), 0);
    assert_eq!(findings(&["--phi"]), 2);
}

#[test]
fn the_pre_commit_hook_calls_the_program() {
    let hooks = concat!(env!("CARGO_MANIFEST_DIR"), "/.pre-commit-hooks.yaml");
    let hooks = fs::read_to_string(hooks).unwrap();
    let entry = hooks
        .lines()
        .find_map(|line| line.trim().strip_prefix("entry: copilot-bridge "))
        .unwrap();
    let stage = folder();
    let mut command = Command::new(binary());
    command
        .args(entry.split_whitespace())
        .args(["src/a.env", "a.txt"])
        .current_dir(stage.workspace());
    assert_eq!(command.output().unwrap().status.code(), Some(1));
}

#[test]
fn nothing_in_this_repository_is_a_secret() {
    let stage = Stage::new();
    let mut command = redact(&stage, &["src/scrub", "src/cli", "docs", "README.md"]);
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("--check");
    let answer = run(command);
    assert_eq!(answer.code, 0, "{answer:?}");
}
