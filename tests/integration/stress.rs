//! Many hooks at a time. Long runs: `cargo test --test integration stress -- --ignored`, with the
//! release build in `COPILOT_BRIDGE_BIN`; `.ci/nightly` does that.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::program::{Answer, Stage, run, send};

const HOOKS: usize = 2_000;

fn answers(stage: &Stage, hooks: usize, at_once: usize) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::SeqCst) < hooks {
                    let event = stage.call("view", &json!({"path": "a.txt"})).to_string();
                    let answer = send(stage.hook("pre-tool-use", &[]), event.as_bytes());
                    answers.lock().unwrap().push(answer);
                }
            });
        }
    });
    answers.into_inner().unwrap()
}

fn count(answers: &[Answer], decision: &str) -> usize {
    answers
        .iter()
        .filter(|answer| answer.decision() == decision)
        .count()
}

fn recorded(stage: &Stage, decision: &str) -> usize {
    let is = |line: &&Value| line["kind"] == "tool_use" && line["decision"] == decision;
    stage.record().iter().filter(is).count()
}

#[test]
#[ignore = "takes long, and wants the release build"]
fn two_thousand_hooks_thirty_two_at_a_time() {
    let stage = Stage::new();
    let answers = answers(&stage, HOOKS, 32);
    assert_eq!(count(&answers, "allow"), HOOKS);
    assert_eq!(recorded(&stage, "allow"), HOOKS);
    assert_whole(&stage);
}

#[test]
#[ignore = "takes minutes, and wants the release build"]
#[expect(clippy::print_stderr, reason = "a figure for whoever runs it")]
fn fifty_thousand_hooks_two_hundred_at_a_time() {
    const MANY: usize = 50_000;
    let stage = Stage::new();
    let answers = answers(&stage, MANY, 200);
    let (allowed, denied) = (count(&answers, "allow"), count(&answers, "deny"));
    // Two hundred on a few cores may wait too long for their turn; nothing else denies.
    let late =
        |answer: &&Answer| answer.decision() == "deny" && !answer.reason().contains("deadline");
    assert_eq!(answers.iter().filter(late).count(), 0);
    assert_eq!(allowed + denied, MANY);
    assert!(recorded(&stage, "allow") >= allowed);
    eprintln!("{allowed} allowed, {denied} denied by the deadline");
    assert_whole(&stage);
}

/// Whoever got an allow has it in the record, at whatever moment the others were killed.
#[expect(clippy::print_stderr, reason = "a figure for whoever runs it")]
fn killed(times: u64) {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    let mut acknowledged = Vec::new();
    let mut died = 0;
    for number in 0..times {
        let call = format!("call-{number}");
        let mut event = stage.call("view", &json!({"path": "a.txt"}));
        event["toolCallId"] = json!(call);
        let mut hook = stage
            .hook("pre-tool-use", &[])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = hook.stdin.take().unwrap();
        stdin.write_all(event.to_string().as_bytes()).unwrap();
        drop(stdin);
        // Spread over the life of a hook, and beyond it.
        thread::sleep(Duration::from_micros(number * 7_919 % 12_000));
        let _ = hook.kill();
        let answer = Answer::of(&hook.wait_with_output().unwrap());
        died += u64::from(answer.text.is_empty());
        if answer.text.trim() == "{}" {
            acknowledged.push(call);
        }
    }
    stage.judge("view", &json!({"path": "a.txt"}));
    let lines = stage
        .days()
        .into_iter()
        .map(|day| fs::read_to_string(day).unwrap());
    let lines: Vec<String> = lines
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    // Who dies within the one write leaves a torn line, and the next one says so.
    let record: Vec<Value> = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let recovered = record
        .iter()
        .filter(|line| line["kind"] == "recovered")
        .count();
    assert_eq!(lines.len() - record.len(), recovered);
    let allowed: BTreeSet<&str> = record
        .iter()
        .filter(|line| line["decision"] == "allow")
        .filter_map(|line| line["call"].as_str())
        .collect();
    for call in &acknowledged {
        assert!(
            allowed.contains(call.as_str()),
            "{call} is not in the record"
        );
    }
    assert!(
        died > 0 && !acknowledged.is_empty(),
        "{died} of {times} died"
    );
    eprintln!(
        "{died} of {times} died before their answer, {} were acknowledged",
        acknowledged.len()
    );
    assert_whole(&stage);
}

#[test]
fn who_is_killed_takes_no_line_along() {
    killed(60);
}

#[test]
#[ignore = "takes long, and wants the release build"]
fn who_is_killed_a_thousand_times_takes_no_line_along() {
    killed(1_000);
}

/// As `audit verify` sees it, and every line that is there covered by a checkpoint.
fn assert_whole(stage: &Stage) {
    let audit = |words: &[&str]| {
        let mut command = stage.command(&["audit"]);
        command.args(words).arg("--state").arg(stage.state());
        run(command)
    };
    assert_eq!(audit(&["checkpoint"]).code, 0);
    let report = audit(&["verify", "--format", "json"]).json();
    assert_eq!(report["problems"], 0, "{report}");
    assert_eq!(report["covered"], report["last"]["seq"], "{report}");
}

#[test]
#[ignore = "takes long, and wants the release build"]
fn two_thousand_hooks_at_once() {
    let stage = Stage::new();
    let answers = answers(&stage, HOOKS, HOOKS);
    assert_eq!(answers.len(), HOOKS);
    let (allowed, denied) = (count(&answers, "allow"), count(&answers, "deny"));
    assert_eq!(allowed + denied, HOOKS);
    // Every allow that a host got is in the record; the record may hold more.
    assert!(recorded(&stage, "allow") >= allowed);
    assert_whole(&stage);
}
