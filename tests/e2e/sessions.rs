//! A whole session: what happens between tool calls passes the gate as well.

use std::collections::BTreeSet;

use serde_json::json;

use crate::mock_model::{MockModel, Turn};
use crate::stage::{ALL_EVENTS, Stage, text_of};

#[test]
fn every_step_of_a_session_is_recorded() {
    let Some(stage) = Stage::new("every_step_of_a_session_is_recorded") else {
        return;
    };
    stage.install(ALL_EVENTS);
    let missing = stage.workspace().join("missing.txt");
    let model = MockModel::start([
        Turn::bash("echo plain words"),
        Turn::call("view", json!({"path": missing})),
        Turn::say("that was all"),
    ]);
    let run = stage.run(&model);
    assert!(run.status.success(), "{}", run.output);
    assert!(run.output.contains("that was all"), "{}", run.output);
    let told = model.told(0);
    assert!(told.contains("plain words"), "{told}");
    let record = stage.record();
    let events: BTreeSet<String> = record.iter().map(|line| text_of(line, "event")).collect();
    for event in [
        "session_start",
        "user_prompt_submitted",
        "pre_tool_use",
        "permission_request",
        "post_tool_use",
        "post_tool_use_failure",
        "agent_stop",
        "session_end",
    ] {
        assert!(events.contains(event), "no {event} in {events:?}");
    }
    let sessions: BTreeSet<String> = record.iter().map(|line| text_of(line, "session")).collect();
    assert_eq!(sessions.len(), 1, "one session, and every line names it");
    let denied = record
        .iter()
        .find(|line| text_of(line, "decision") != "allow");
    assert!(denied.is_none(), "{denied:?}");
}
