//! An editor in front of the client. Copilot CLI 1.0.102 has no way to bring a hook's question
//! to an ACP client: it refuses the call by itself. What reaches the person are the host's own
//! questions, after a hook that had no objection.

use serde_json::Value;

use crate::acp::Person;
use crate::commands::DENIED;
use crate::mock_model::{MockModel, Turn};
use crate::stage::{Stage, TOOL_EVENTS};

#[test]
fn an_approved_call_runs() {
    let Some(stage) = Stage::new("an_approved_call_runs") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.write("seen-by-ls.txt", "");
    // Copilot asks about a program in general, and `ls` is among those it never asks about.
    let model = MockModel::start([Turn::bash("mkdir made")]);
    let seen = stage.converse(&model, Person::Approves);
    assert_eq!(seen.questions.len(), 1, "{:?}", seen.questions);
    let command = seen
        .questions
        .first()
        .and_then(|question| question.pointer("/toolCall/rawInput/command"));
    assert_eq!(command.and_then(Value::as_str), Some("mkdir made"));
    assert!(stage.exists("made"), "the approved command did not run");
    assert_eq!(stage.decisions_about("bash"), ["allow"]);
    assert_eq!(seen.stop_reason, "end_turn");
}

#[test]
fn a_rejected_call_does_not_run() {
    let Some(stage) = Stage::new("a_rejected_call_does_not_run") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let model = MockModel::start([Turn::bash("mkdir made")]);
    let seen = stage.converse(&model, Person::Rejects);
    assert_eq!(seen.questions.len(), 1, "{:?}", seen.questions);
    assert!(!stage.exists("made"), "the rejected command ran");
    assert_eq!(model.requests().len(), 1, "a rejection ends the turn");
}

#[test]
fn a_question_of_ours_is_refused_without_being_put() {
    let Some(stage) = Stage::new("a_question_of_ours_is_refused_without_being_put") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.add_program("unheard-of");
    let model = MockModel::start([Turn::bash("unheard-of")]);
    let seen = stage.converse(&model, Person::Approves);
    assert!(seen.questions.is_empty(), "{:?}", seen.questions);
    let told = model.told(0);
    assert!(
        told.starts_with("Denied by user via preToolUse hook prompt: "),
        "{told}"
    );
    assert!(!stage.exists("unheard-of.ran"), "the program ran");
    assert_eq!(stage.decisions_about("bash"), ["ask"]);
}

#[test]
fn a_denied_call_is_no_question() {
    let Some(stage) = Stage::new("a_denied_call_is_no_question") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let model = MockModel::start([Turn::bash("cat /etc/shadow")]);
    let seen = stage.converse(&model, Person::Approves);
    assert!(seen.questions.is_empty(), "{:?}", seen.questions);
    let told = model.told(0);
    assert!(told.starts_with(DENIED), "{told}");
    let failed = seen.tool_updates.iter().any(|update| {
        update.get("status").and_then(Value::as_str) == Some("failed")
            && update.to_string().contains(DENIED)
    });
    assert!(failed, "the editor is not told: {:?}", seen.tool_updates);
    assert_eq!(stage.decisions_about("bash"), ["deny"]);
}
