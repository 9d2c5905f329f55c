//! The logs of older programs, as hooks write them besides the record.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run, send};

/// A stage whose policies want both mirrors, in a folder of the stage.
struct Mirrored {
    stage: Stage,
    policies: PathBuf,
}

impl Mirrored {
    fn new() -> Self {
        let stage = Stage::new();
        let policies = stage.policies();
        let bridge = policies.join("bridge.toml");
        let text = fs::read_to_string(&bridge).unwrap();
        let audit = format!(
            "mirrors = [\"seed\", \"xpia\"]\nxpia_mirror = {:?}\n",
            stage.path("xpia")
        );
        fs::write(&bridge, text.replace("mirrors = []\n", &audit)).unwrap();
        let mut compile = stage.command(&["policy", "compile"]);
        compile.arg("--policies").arg(&policies);
        compile.arg("--state").arg(stage.state());
        assert_eq!(run(compile).code, 0);
        Self { stage, policies }
    }

    fn send(&self, event: &str, json: &Value) -> Answer {
        let policies = self.policies.to_str().unwrap();
        let hook = self.stage.hook(event, &["--policies", policies]);
        send(hook, json.to_string().as_bytes())
    }

    fn judge(&self, tool: &str, args: &Value) -> Answer {
        self.send("pre-tool-use", &self.stage.call(tool, args))
    }

    /// The directories of the mirrors.
    fn dirs(&self) -> [PathBuf; 2] {
        [
            self.stage.state().join("mirror/seed"),
            self.stage.path("xpia"),
        ]
    }

    fn seed(&self) -> Vec<Value> {
        lines(&only_file(&self.dirs()[0]))
    }

    fn xpia(&self) -> Vec<Value> {
        lines(&only_file(&self.dirs()[1]))
    }

    fn log(&self) -> String {
        let files = fs::read_dir(self.stage.state().join("log"));
        let texts = files.into_iter().flatten();
        texts
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
            .collect()
    }

    /// An event of every kind that the first bridge had.
    fn send_all(&self) {
        let mut event = json!({"sessionId": "s", "timestamp": 1, "cwd": self.stage.workspace()});
        let mut with = |name: &str, more: &[(&str, Value)]| {
            for (key, value) in more {
                event[*key] = value.clone();
            }
            self.send(name, &event);
        };
        with("session-start", &[("source", json!("new"))]);
        with("user-prompt-submitted", &[("prompt", json!("hello you"))]);
        let call = [
            ("toolName", json!("view")),
            ("toolArgs", json!({"path": "a.txt"})),
        ];
        with("pre-tool-use", &call);
        let result = json!({"resultType": "success", "textResultForLlm": "nine char"});
        with("post-tool-use", &[("toolResult", result)]);
        let error = [
            ("error", json!("rate limit exceeded")),
            ("recoverable", json!(true)),
        ];
        with("error-occurred", &error);
        with("session-end", &[("reason", json!("user_exit"))]);
    }
}

fn only_file(dir: &Path) -> PathBuf {
    let mut files = fs::read_dir(dir).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "{dir:?}");
    file
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn keys(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.keys().cloned().collect(),
        _ => Value::Null,
    }
}

#[test]
fn the_seeds_mirror_has_its_shape() {
    let mirrored = Mirrored::new();
    mirrored.send_all();
    let shape = include_str!("../fixtures/parity/audit_shape.json");
    let shape: Value = serde_json::from_str(shape).unwrap();
    let seed = mirrored.seed();
    let found: Vec<&str> = seed
        .iter()
        .map(|line| line["hookType"].as_str().unwrap())
        .collect();
    let wanted = [
        "session_start",
        "prompt",
        "pre_tool_use",
        "post_tool_use",
        "error",
        "session_end",
    ];
    assert_eq!(found, wanted);
    assert_eq!(shape.as_object().unwrap().len(), wanted.len());
    for line in &seed {
        let shape = &shape[line["hookType"].as_str().unwrap()];
        assert_eq!(keys(line), shape["line"], "{line}");
        assert_eq!(keys(&line["input"]), shape["input"], "{line}");
        assert_eq!(keys(&line["output"]), shape["output"], "{line}");
        assert_eq!(line["sessionId"], "s");
        assert!(line["elapsed"].is_u64());
        let timestamp = line["timestamp"].as_str().unwrap();
        assert!(
            timestamp.len() == 24 && timestamp.ends_with('Z'),
            "{timestamp}"
        );
        timestamp.parse::<jiff::Timestamp>().unwrap();
    }
    assert_eq!(seed[2]["input"]["toolArgs"], json!({"path": "a.txt"}));
    assert_eq!(seed[2]["output"], json!({"permissionDecision": "allow"}));
    assert_eq!(seed[3]["input"]["resultLength"], 9);
    let output = &seed[4]["output"];
    assert_eq!(output["errorHandling"], "retry");
    assert_eq!(output["userNotification"], "Rate limited. Retrying...");
    let summary = json!({"sessionSummary": "Session ended: user_exit"});
    assert_eq!(seed[5]["output"], summary);
    let day = only_file(&mirrored.dirs()[0]);
    let name = day.file_name().unwrap().to_str().unwrap();
    let date = name.strip_prefix("audit-").unwrap();
    let date = date.strip_suffix(".jsonl").unwrap();
    date.parse::<jiff::civil::Date>().unwrap();
}

#[test]
fn the_xpia_log_has_its_shape() {
    let mirrored = Mirrored::new();
    mirrored.send_all();
    let long = format!("echo {}", "a".repeat(200));
    mirrored.judge("bash", &json!({"command": long}));
    mirrored.judge("bash", &json!({"command": "sudo ls"}));
    mirrored.send("pre-tool-use", &json!("no event"));
    let xpia = mirrored.xpia();
    assert_eq!(xpia.len(), 4, "{xpia:?}");
    for line in &xpia {
        assert_eq!(
            keys(line),
            json!(["timestamp", "event_type", "backend", "data"])
        );
        assert_eq!(line["backend"], "rust");
    }
    let data = |index: usize| {
        assert_eq!(xpia[index]["event_type"], "pre_tool_validation");
        &xpia[index]["data"]
    };
    assert_eq!(data(0)["tool"], "view");
    let shown = format!("echo {}", "a".repeat(95));
    assert_eq!(data(1)["command"], shown);
    assert_eq!(data(2)["decision"], "deny");
    assert_eq!(data(2)["policies"], json!(["user:privileged-command"]));
    assert_eq!(xpia[3]["event_type"], "hook_error");
    let data = json!({"hook": "pre_tool_use", "error": "input_error", "decision": "deny"});
    assert_eq!(xpia[3]["data"], data);
    let file = only_file(&mirrored.dirs()[1]);
    let name = file.file_name().unwrap().to_str().unwrap();
    let day = name.strip_prefix("rust_security_").unwrap();
    let day = day.strip_suffix(".log").unwrap();
    assert!(day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit()));
}

#[test]
fn a_mirror_hides_what_the_record_hides() {
    let mirrored = Mirrored::new();
    let secret = format!("tr0ub4dor&{}x", 3);
    let data = "nobody's business";
    let command = format!("curl -u me:{secret} https://example.com");
    mirrored.judge("bash", &json!({"command": command}));
    mirrored.judge("create", &json!({"path": "x", "file_text": data}));
    // Longer than a text may be in the record, with nothing in it that a rule finds.
    let long = format!("echo {data} {}", "a b ".repeat(200));
    mirrored.judge("bash", &json!({"command": long}));
    let cwd = mirrored.stage.workspace();
    let event = json!({"sessionId": "s", "cwd": cwd, "prompt": data});
    mirrored.send("user-prompt-submitted", &event);
    let event = json!({"sessionId": "s", "cwd": cwd, "recoverable": false, "error": data});
    mirrored.send("error-occurred", &event);
    let mut event = mirrored.stage.call("view", &json!({"path": "a.txt"}));
    event["toolResult"] = json!({"resultType": "success", "textResultForLlm": data});
    mirrored.send("post-tool-use", &event);
    let url = format!("https://me:{secret}@example.com/");
    event["toolResult"] = json!({"resultType": "success", "textResultForLlm": url});
    let answer = mirrored.send("post-tool-use", &event).json();
    assert!(answer["modifiedResult"]["textResultForLlm"].is_string());
    let (seed, xpia) = (mirrored.seed(), mirrored.xpia());
    let text = json!([seed, xpia]).to_string();
    assert!(!text.contains(&secret), "{text}");
    assert!(!text.contains(data), "{text}");
    assert!(text.contains("curl -u me:«redacted:"), "{text}");
    // The arguments are those of the record, to the letter.
    let record = mirrored.stage.record();
    assert_eq!((seed.len(), record.len(), xpia.len()), (7, 7, 3));
    for (mirrored, recorded) in seed.iter().zip(&record).take(3) {
        assert_eq!(mirrored["input"]["toolArgs"], recorded["args_redacted"]);
    }
    assert_eq!(
        xpia[2]["data"]["command"],
        record[2]["args_redacted"]["command"]
    );
    assert_eq!(seed[3]["input"]["prompt"]["len"], data.len());
    assert_eq!(seed[4]["input"]["error"]["len"], data.len());
    assert_eq!(seed[5]["input"]["resultLength"], data.len());
    assert_eq!(seed[5]["output"], Value::Null);
    let replaced = &seed[6]["output"]["modifiedResult"]["textResultForLlm"];
    assert!(replaced["hmac"].is_string(), "{}", seed[6]);
}

#[test]
fn hooks_beside_each_other_leave_whole_lines() {
    const HOOKS: usize = 20;
    let mirrored = Mirrored::new();
    std::thread::scope(|scope| {
        for _ in 0..HOOKS {
            scope.spawn(|| mirrored.judge("view", &json!({"path": "a.txt"})));
        }
    });
    // Whoever met the deadline may lack a line; `lines` asks of the others that they are whole.
    let (seed, xpia) = (mirrored.seed().len(), mirrored.xpia().len());
    assert!(seed > 0 && seed <= HOOKS && xpia > 0 && xpia <= HOOKS);
}

#[test]
fn the_record_is_never_taken_for_a_mirror() {
    let mirrored = Mirrored::new();
    let bridge = mirrored.policies.join("bridge.toml");
    let text = fs::read_to_string(&bridge).unwrap();
    let record = mirrored.stage.state().join("audit");
    let text = text.replace(
        "xpia_mirror",
        &format!("seed_mirror = {record:?}\nxpia_mirror"),
    );
    fs::write(&bridge, text).unwrap();
    for _ in 0..2 {
        let answer = mirrored.judge("view", &json!({"path": "a.txt"}));
        assert_eq!(answer.decision(), "allow", "{answer:?}");
    }
    super::record::assert_chain(&mirrored.stage);
    assert_eq!(mirrored.stage.record().len(), 2);
    let said = mirrored.log();
    assert_eq!(
        said.matches("the directory of the record itself").count(),
        2
    );
}

#[test]
fn a_denial_names_its_policy_and_not_what_it_is_about() {
    let mirrored = Mirrored::new();
    mirrored.judge("bash", &json!({"command": "sudo cat whatsoever"}));
    let seed = mirrored.seed();
    let output = &seed[0]["output"];
    assert_eq!(output["permissionDecision"], "deny");
    let reason = output["permissionDecisionReason"].as_str().unwrap();
    assert!(
        reason.starts_with("user:privileged-command at "),
        "{reason}"
    );
    assert!(!reason.contains("whatsoever"), "{reason}");
}

#[test]
fn nothing_is_mirrored_unless_policies_say_so() {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    assert!(!stage.state().join("mirror").exists());
}

#[cfg(unix)]
#[test]
fn a_mirror_that_cannot_be_written_changes_no_answer() {
    use std::os::unix::fs::symlink;
    let mirrored = Mirrored::new();
    mirrored.judge("view", &json!({"path": "a.txt"}));
    let files = mirrored.dirs().map(|dir| only_file(&dir));
    let victim = mirrored.stage.path("victim");
    fs::write(&victim, "mine\n").unwrap();
    let kinds = ["a FIFO", "a link", "a full disk", "a folder"];
    for (count, what) in kinds.into_iter().enumerate() {
        for file in &files {
            let _ = fs::remove_file(file);
            match what {
                "a FIFO" => nix::unistd::mkfifo(file, nix::sys::stat::Mode::S_IRWXU).unwrap(),
                "a link" => symlink(&victim, file).unwrap(),
                "a full disk" => symlink("/dev/full", file).unwrap(),
                _ => fs::create_dir(file).unwrap(),
            }
        }
        let allowed = mirrored.judge("view", &json!({"path": "a.txt"}));
        assert_eq!(allowed.decision(), "allow", "{what}: {allowed:?}");
        assert_eq!(allowed.errors, "", "{what}");
        let denied = mirrored.judge("bash", &json!({"command": "sudo ls"}));
        assert_eq!(denied.decision(), "deny", "{what}: {denied:?}");
        assert!(denied.reason().contains("privileged-command"), "{denied:?}");
        let said = mirrored.log().matches("a mirror cannot be written").count();
        assert_eq!(said, (count + 1) * 4, "{what}: {}", mirrored.log());
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    assert_eq!(mirrored.stage.record().len(), 9);
}

#[cfg(unix)]
#[test]
fn a_mirrors_directory_that_cannot_be_made_changes_no_answer() {
    let mirrored = Mirrored::new();
    let [seed, xpia] = mirrored.dirs();
    fs::create_dir_all(seed.parent().unwrap()).unwrap();
    // Where a file stands, nobody can make a directory: not even root, whom no mode holds back.
    for dir in [&seed, &xpia] {
        fs::write(dir, "a file\n").unwrap();
    }
    let answer = mirrored.judge("view", &json!({"path": "a.txt"}));
    assert_eq!(answer.decision(), "allow", "{answer:?}");
    assert_eq!(mirrored.stage.record().len(), 1);
    assert_eq!(mirrored.log().matches("cannot be written").count(), 2);
}

#[test]
fn no_agent_changes_a_mirror() {
    let mirrored = Mirrored::new();
    for dir in mirrored.dirs() {
        let file = dir.join("x.log");
        let file = file.to_str().unwrap();
        for (tool, args) in [
            ("create", json!({"path": file, "file_text": "x"})),
            ("bash", json!({"command": format!("echo x >> {file}")})),
            (
                "bash",
                json!({"command": format!("rm -r {}", dir.display())}),
            ),
        ] {
            let answer = mirrored.judge(tool, &args);
            assert_eq!(answer.decision(), "deny", "{tool} {args}: {answer:?}");
            assert!(answer.reason().contains(":guard at "), "{answer:?}");
        }
    }
}

#[test]
fn the_usual_place_of_the_xpia_log_is_out_of_reach() {
    let stage = Stage::new();
    for tool in ["create", "edit"] {
        let path = "~/.claude/logs/xpia/rust_security_20260102.log";
        let args = json!({"path": path, "file_text": "x", "old_str": "a", "new_str": "b"});
        let answer = stage.judge(tool, &args);
        assert_ne!(answer.decision(), "allow", "{answer:?}");
    }
}

#[test]
fn config_show_names_the_mirrors() {
    let mirrored = Mirrored::new();
    let mut command = mirrored
        .stage
        .command(&["config", "show", "--format", "json"]);
    command.arg("--policies").arg(&mirrored.policies);
    command.arg("--state").arg(mirrored.stage.state());
    let shown = run(command).json();
    let [seed, xpia] = mirrored.dirs();
    let wanted = json!({"seed": seed, "xpia": xpia});
    assert_eq!(shown["audit.mirrors"]["value"], wanted);
}
