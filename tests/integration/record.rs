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

/// Only where we may mount: as root, or in a user's own namespace.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
fn a_full_disk_denies_and_space_brings_the_record_back() {
    let stage = Stage::new();
    std::fs::create_dir(stage.state()).unwrap();
    let event = stage.call("view", &json!({"path": "a.txt"})).to_string();
    let script = r#"
        mount -t tmpfs -o size=256k,mode=0700 none "$1" || exit 1
        judge() { "$0" hook pre-tool-use --state "$1" "$2"; }
        judge "$1" "$2"
        dd if=/dev/zero of="$1/full" bs=1k 2>/dev/null
        dd if=/dev/zero of="$1/last" bs=1 count=9999 2>/dev/null
        for n in 1 2 3 4 5 6 7 8; do judge "$1" "$2"; done
        rm "$1/full" "$1/last"
        judge "$1" "$2"
        "$0" audit verify --state "$1"
    "#;
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(super::program::binary())
        .arg(stage.state())
        .arg(&event)
        .current_dir(stage.workspace())
        .output();
    let Some(output) = output.ok().filter(|output| !output.stdout.is_empty()) else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<&str> = text.lines().collect();
    assert_eq!((answers[0], answers[9]), ("{}", "{}"), "{text}");
    // What is left of a page may hold a line or two.
    let denied = &answers[1..9];
    let last = denied.last().unwrap();
    assert!(last.contains("audit_unavailable"), "{text}");
    let allowed = denied.iter().filter(|answer| **answer == "{}").count();
    assert!(
        answers[10].starts_with(&format!("{} lines in 1 file", allowed + 2)),
        "{text}"
    );
    assert!(answers[10].ends_with(": whole"), "{text}");
}
