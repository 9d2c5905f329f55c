//! Many hooks at a time. Long runs: `cargo test --test integration stress -- --ignored`, with the
//! release build in `COPILOT_BRIDGE_BIN`; `.ci/nightly` does that.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::program::{Answer, Stage, send};

const HOOKS: usize = 2_000;

fn answers(stage: &Stage, at_once: usize) -> Vec<Answer> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::SeqCst) < HOOKS {
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
    let answers = answers(&stage, 32);
    assert_eq!(count(&answers, "allow"), HOOKS);
    assert_eq!(recorded(&stage, "allow"), HOOKS);
    super::record::assert_chain(&stage);
}

#[test]
#[ignore = "takes long, and wants the release build"]
fn two_thousand_hooks_at_once() {
    let stage = Stage::new();
    let answers = answers(&stage, HOOKS);
    assert_eq!(answers.len(), HOOKS);
    let (allowed, denied) = (count(&answers, "allow"), count(&answers, "deny"));
    assert_eq!(allowed + denied, HOOKS);
    // Every allow that a host got is in the record; the record may hold more.
    assert!(recorded(&stage, "allow") >= allowed);
    super::record::assert_chain(&stage);
}
