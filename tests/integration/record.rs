//! The record, as the program writes it.

use std::process::Stdio;
use std::thread;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::program::{Stage, send};

/// Every key of a line, in its order.
const KEYS: [&str; 34] = [
    "v",
    "seq",
    "ts",
    "mono",
    "boot",
    "kind",
    "host",
    "uid",
    "pid",
    "event",
    "dialect",
    "session",
    "call",
    "agent",
    "parent",
    "depth",
    "entity",
    "cwd",
    "tool",
    "args_hmac",
    "args_redacted",
    "requests",
    "decision",
    "reasons",
    "would_decide",
    "obligations",
    "redactions",
    "policy_digest",
    "engine_version",
    "latency_us",
    "error_class",
    "trace",
    "detail",
    "prev",
];

#[test]
fn the_record_has_every_key() {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    stage.judge("bash", &json!({"command": "sudo ls"}));
    send(stage.hook("pre-tool-use", &[]), b"garbage");
    let record = stage.record();
    assert_eq!(record.len(), 3);
    for line in &record {
        let keys: Vec<&str> = line
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, KEYS);
    }
    assert_eq!(record[0]["decision"], "allow");
    assert_eq!(record[1]["decision"], "deny");
    assert_eq!(record[1]["reasons"][0]["id"], "default:privileged-command");
    assert_eq!(record[2]["error_class"], "input_error");
}

#[test]
fn arguments_are_recorded_without_secrets_and_data_not_at_all() {
    let stage = Stage::new();
    let secret = format!("tr0ub4dor&{}x", 3);
    stage.judge(
        "bash",
        &json!({"command": format!("curl -u me:{secret} https://example.com")}),
    );
    let data = "nobody's business";
    stage.judge("create", &json!({"path": "x", "file_text": data}));
    stage.judge(
        "web_fetch",
        &json!({"url": format!("https://me:{secret}@example.com/")}),
    );
    let text = stage
        .record()
        .iter()
        .map(Value::to_string)
        .collect::<String>();
    assert!(!text.contains(&secret), "{text}");
    assert!(!text.contains(data), "{text}");
    assert!(text.contains("curl -u me:«redacted:"), "{text}");
    assert_eq!(text.matches("\"args_hmac\":{\"hmac\":").count(), 3);
}

#[test]
fn parallel_hooks_make_one_whole_chain() {
    let stage = Stage::new();
    let event = stage.call("view", &json!({"path": "a.txt"})).to_string();
    const WORKERS: usize = 8;
    const EACH: usize = 6;
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let answer = send(stage.hook("pre-tool-use", &[]), event.as_bytes());
                    assert!(matches!(answer.decision(), "allow" | "deny"), "{answer:?}");
                }
            });
        }
    });
    assert_chain(&stage);
    let events = stage
        .record()
        .iter()
        .filter(|line| line["kind"] == "tool_use")
        .count();
    assert!(events > 0 && events <= WORKERS * EACH);
}

/// Every line is chained to the one before, and the numbers have no gap.
pub(crate) fn assert_chain(stage: &Stage) {
    let day = stage.days().remove(0);
    let mut prev = "0".repeat(64);
    for (index, line) in std::fs::read_to_string(day).unwrap().lines().enumerate() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["prev"], prev.as_str(), "line {index}");
        assert_eq!(value["seq"], index as u64 + 1, "line {index}");
        prev = data_encoding::HEXLOWER.encode(&Sha256::digest(line.as_bytes()));
    }
}

#[cfg(unix)]
#[test]
fn a_record_that_cannot_be_written_denies() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    let day = stage.days().remove(0);
    std::fs::set_permissions(&day, std::fs::Permissions::from_mode(0o666)).unwrap();
    let answer = stage.judge("view", &json!({"path": "a.txt"}));
    assert_eq!(answer.decision(), "deny");
    assert!(answer.reason().contains("audit_unavailable"), "{answer:?}");
    assert!(
        answer.reason().contains("others than its owner"),
        "{answer:?}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_is_held_is_denied_in_time_and_told_later() {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    let lock = std::fs::OpenOptions::new()
        .read(true)
        .open(stage.state().join("audit/lock"))
        .unwrap();
    lock.lock().unwrap();
    let started = std::time::Instant::now();
    let answer = stage.judge("view", &json!({"path": "a.txt"}));
    let took = started.elapsed();
    assert_eq!(answer.decision(), "deny");
    assert!(answer.reason().contains("deadline"), "{answer:?}");
    assert!(took.as_millis() < 1_900, "{took:?}");
    assert_eq!(stage.record().len(), 1);
    drop(lock);
    stage.judge("view", &json!({"path": "a.txt"}));
    let record = stage.record();
    assert_eq!(record.len(), 3);
    assert_eq!(record[1]["kind"], "superseded");
    assert_chain(&stage);
}

#[cfg(unix)]
#[test]
fn a_hook_that_is_told_to_end_denies() {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    // Nothing comes on stdin, so it waits there.
    let mut child = stage
        .hook("pre-tool-use", &[])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take();
    thread::sleep(std::time::Duration::from_millis(300));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let answer = super::program::Answer::of(&child.wait_with_output().unwrap());
    drop(stdin);
    assert_eq!(answer.decision(), "deny");
    assert!(answer.reason().contains("told to end"), "{answer:?}");
}
