//! The operational log: quiet in hooks, and never in the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run, send};

const LEVEL: &str = "COPILOT_LOG_LEVEL";

fn dir(stage: &Stage) -> PathBuf {
    stage.state().join("log")
}

fn today(stage: &Stage) -> PathBuf {
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d");
    dir(stage).join(format!("copilot-bridge.{day}.log"))
}

/// Every line of the log, each of them whole.
fn lines(stage: &Stage) -> Vec<Value> {
    let Ok(entries) = fs::read_dir(dir(stage)) else {
        return Vec::new();
    };
    entries
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .flat_map(|text| {
            assert!(text.is_empty() || text.ends_with('\n'), "{text}");
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect::<Vec<Value>>()
        })
        .collect()
}

/// The answer to a call, where the log says that much.
fn judge(stage: &Stage, level: &str, tool: &str, args: &Value) -> Answer {
    let mut hook = stage.hook("pre-tool-use", &[]);
    hook.env(LEVEL, level);
    send(hook, stage.call(tool, args).to_string().as_bytes())
}

fn view() -> Value {
    json!({"path": "a.txt"})
}

#[test]
fn a_hook_says_nothing_by_itself() {
    let stage = Stage::new();
    assert_eq!(stage.judge("view", &view()).decision(), "allow");
    let denied = stage.judge("bash", &json!({"command": "sudo ls"}));
    assert_eq!(denied.decision(), "deny");
    for level in ["info", "warning", "error"] {
        judge(&stage, level, "view", &view());
    }
    assert!(!dir(&stage).exists());
}

#[test]
fn a_hook_says_how_long_each_phase_took_where_that_is_wanted() {
    let stage = Stage::new();
    let quiet = stage.judge("view", &view());
    for level in ["debug", "all"] {
        let before = lines(&stage).len();
        let answer = judge(&stage, level, "view", &view());
        assert_eq!(
            (answer.text, answer.errors),
            (quiet.text.clone(), quiet.errors.clone())
        );
        let said = lines(&stage).split_off(before);
        let phases: Vec<&Value> = said.iter().filter_map(|line| line.get("phase")).collect();
        let wanted = [
            "read",
            "policies",
            "facts",
            "judge",
            "obligations",
            "record",
        ];
        assert_eq!(phases, wanted);
        assert!(
            said.iter()
                .all(|line| line["us"].is_u64() && line["pid"].is_u64())
        );
        let last = said.last().unwrap();
        assert_eq!(
            (&last["message"], &last["answer"]),
            (&json!("answered"), &json!("allow"))
        );
    }
}

#[test]
fn the_policies_say_how_much_is_said() {
    let stage = Stage::new();
    let policies = stage.policies();
    let bridge = policies.join("bridge.toml");
    let text = fs::read_to_string(&bridge).unwrap();
    fs::write(
        &bridge,
        text.replace("log_level = \"info\"", "log_level = \"debug\""),
    )
    .unwrap();
    let event = stage.call("view", &view()).to_string();
    let policies = policies.to_str().unwrap();
    send(
        stage.hook("pre-tool-use", &["--policies", policies]),
        event.as_bytes(),
    );
    assert!(!lines(&stage).is_empty());
    let before = lines(&stage).len();
    let mut hook = stage.hook("pre-tool-use", &["--policies", policies]);
    hook.env(LEVEL, "none");
    send(hook, event.as_bytes());
    assert_eq!(lines(&stage).len(), before);
}

#[test]
fn a_fault_is_said_but_not_what_it_is_about() {
    let stage = Stage::new();
    let secret = format!("hunter{}", 2);
    for (level, said) in [("none", 0), ("error", 0), ("warning", 1), ("info", 1)] {
        let before = lines(&stage).len();
        let mut hook = stage.hook("pre-tool-use", &[]);
        hook.env(LEVEL, level);
        let answer = send(hook, format!("no JSON, but {secret}").as_bytes());
        assert_eq!(answer.decision(), "deny");
        let lines = lines(&stage).split_off(before);
        assert_eq!(lines.len(), said, "{level}: {lines:?}");
        for line in lines {
            assert_eq!(line["class"], "input_error");
            assert_eq!(line["level"], "WARN");
            assert!(!line.to_string().contains(&secret));
        }
    }
}

#[test]
fn the_log_holds_no_text_of_agents() {
    let stage = Stage::new();
    let words = "zebra crossing";
    for tool in ["bash", "view", "no_such_tool"] {
        let args = json!({"command": format!("echo '{words}'"), "path": words});
        judge(&stage, "all", tool, &args);
    }
    let text = json!(lines(&stage)).to_string();
    assert!(text.len() > 100, "{text}");
    for word in [
        "zebra",
        "session-1",
        "no_such_tool",
        stage.workspace().to_str().unwrap(),
    ] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
fn a_late_answer_is_said() {
    let stage = Stage::new();
    stage.judge("view", &view());
    // Nobody sends the event, so that the deadline passes.
    for (level, said) in [("none", 0), ("info", 1)] {
        let mut hook = stage.hook("pre-tool-use", &[]);
        hook.env(LEVEL, level);
        let mut child = hook.stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let answer = Answer::of(&child.wait_with_output().unwrap());
        drop(stdin);
        assert_eq!(answer.decision(), "deny");
        assert_eq!(lines(&stage).len(), said, "{level}");
    }
    let said = lines(&stage);
    assert_eq!(said[0]["message"], "denied before a judgement was reached");
    assert_eq!(said[0]["event"], "pre_tool_use");
}

#[cfg(unix)]
#[test]
fn a_log_that_cannot_be_written_changes_no_answer() {
    use std::os::unix::fs::symlink;
    let victim = |stage: &Stage| stage.path("victim");
    let fifo = |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for what in [
        "a FIFO",
        "a folder",
        "a link",
        "a full disk",
        "a file for a folder",
        "a FIFO for a folder",
    ] {
        let stage = Stage::new();
        stage.judge("view", &view());
        fs::write(victim(&stage), "mine\n").unwrap();
        if !what.ends_with("for a folder") {
            fs::create_dir(dir(&stage)).unwrap();
        }
        match what {
            "a FIFO" => fifo(&today(&stage)),
            "a folder" => fs::create_dir(today(&stage)).unwrap(),
            "a link" => symlink(victim(&stage), today(&stage)).unwrap(),
            "a full disk" => symlink("/dev/full", today(&stage)).unwrap(),
            "a file for a folder" => fs::write(dir(&stage), "mine\n").unwrap(),
            _ => fifo(&dir(&stage)),
        }
        let started = Instant::now();
        let answer = judge(&stage, "debug", "view", &view());
        assert_eq!(answer.decision(), "allow", "{what}: {answer:?}");
        assert_eq!(answer.errors, "", "{what}");
        let mut hook = stage.hook("pre-tool-use", &[]);
        hook.env(LEVEL, "debug");
        let denied = send(hook, b"garbage");
        assert_eq!(denied.decision(), "deny", "{what}");
        assert!(
            denied.reason().contains("input_error"),
            "{what}: {denied:?}"
        );
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        assert_eq!(fs::read_to_string(victim(&stage)).unwrap(), "mine\n");

        let mut doctor = stage.command(&["doctor", "--format", "json"]);
        doctor.arg("--home").arg(stage.path("home"));
        doctor.arg("--state").arg(stage.state());
        let found = run(doctor).json();
        let found = found["findings"].as_array().unwrap();
        assert!(
            found
                .iter()
                .any(|it| it["id"] == "log-unwritable" && it["level"] == "warning"),
            "{what}: {found:?}"
        );
    }
}

#[test]
fn hooks_beside_each_other_leave_whole_lines() {
    const HOOKS: usize = 20;
    let stage = Stage::new();
    stage.judge("view", &view());
    thread::scope(|scope| {
        for _ in 0..HOOKS {
            scope.spawn(|| judge(&stage, "debug", "view", &view()));
        }
    });
    let said = lines(&stage);
    let of = |pid: &Value| said.iter().filter(|line| line["pid"] == *pid).count();
    let pids: Vec<&Value> = said
        .iter()
        .filter(|line| line["phase"] == "read")
        .map(|line| &line["pid"])
        .collect();
    // A machine that is too busy meets the deadline, and that is said as well.
    let late = said.iter().filter(|line| line["level"] == "WARN").count();
    assert!(pids.len() + late >= HOOKS, "{said:?}");
    for pid in pids {
        assert!((2..=8).contains(&of(pid)), "{said:?}");
    }
}

#[cfg(unix)]
#[test]
fn two_weeks_are_kept_and_only_for_the_owner() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    judge(&stage, "debug", "view", &view());
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(dir(&stage)), mode(today(&stage))), (0o700, 0o600));
    fs::remove_file(today(&stage)).unwrap();
    for day in 1..=28 {
        let name = format!("copilot-bridge.2026-02-{day:02}.log");
        fs::write(dir(&stage).join(name), "").unwrap();
    }
    judge(&stage, "debug", "view", &view());
    let kept = fs::read_dir(dir(&stage)).unwrap().count();
    assert_eq!(kept, 14);
    assert!(today(&stage).exists());
    assert!(!dir(&stage).join("copilot-bridge.2026-02-15.log").exists());
    assert!(dir(&stage).join("copilot-bridge.2026-02-16.log").exists());
}

#[test]
fn other_verbs_say_when_they_begin_and_how_they_end() {
    let stage = Stage::new();
    let verb = |level: Option<&str>| {
        let mut command = stage.command(&["audit", "verify", "--state"]);
        command.arg(stage.state());
        command.envs(level.map(|level| (LEVEL, level)));
        run(command)
    };
    // Where nothing is installed, nothing is logged.
    verb(None);
    assert!(!stage.state().exists());
    stage.judge("view", &view());
    let mut rehearsal = stage.command(&["init", "--dry-run", "--home"]);
    rehearsal.arg(stage.path("home"));
    rehearsal.arg("--state").arg(stage.state());
    assert_eq!(run(rehearsal).code, 0);
    for level in ["none", "error", "warning"] {
        verb(Some(level));
    }
    assert!(!dir(&stage).exists());
    assert_eq!(verb(None).code, 0);
    let said = lines(&stage);
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[0]["message"], "begins");
    assert_eq!(said[1]["message"], "ended");
    assert_eq!(said[1]["exit"], 0);
    assert!(said[1]["us"].is_u64());
    assert!(said.iter().all(|line| line["verb"] == "audit verify"));
}

#[test]
fn the_base_policies_say_how_much_verbs_say() {
    let stage = Stage::new();
    let policies = stage.policies();
    stage.judge("view", &view());
    let bridge = policies.join("bridge.toml");
    let text = fs::read_to_string(&bridge).unwrap();
    fs::write(
        &bridge,
        text.replace("log_level = \"info\"", "log_level = \"none\""),
    )
    .unwrap();
    let mut command = stage.command(&["policy", "compile", "--state"]);
    command.arg(stage.state()).arg("--policies").arg(&policies);
    assert_eq!(run(command).code, 0);
    assert!(!dir(&stage).exists());
}

#[test]
fn no_agent_changes_the_log() {
    let stage = Stage::new();
    judge(&stage, "debug", "view", &view());
    let file = today(&stage);
    let file = file.to_str().unwrap();
    for (tool, args) in [
        ("create", json!({"path": file, "file_text": "x"})),
        ("bash", json!({"command": format!("echo x >> {file}")})),
        ("bash", json!({"command": format!("rm {file}")})),
    ] {
        let answer = stage.judge(tool, &args);
        assert_eq!(answer.decision(), "deny", "{tool} {args}: {answer:?}");
        assert!(answer.reason().contains(":guard at "), "{answer:?}");
    }
}
