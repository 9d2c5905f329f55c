//! Sub-agents: what a child does is judged like what its parent does, and recorded as the child's.

use serde_json::json;

use crate::commands::DENIED;
use crate::mock_model::{MockModel, Turn};
use crate::stage::{ALL_EVENTS, Stage, text_of};

#[test]
fn a_childs_calls_are_judged_and_recorded_as_its_own() {
    let Some(stage) = Stage::new("a_childs_calls_are_judged_and_recorded_as_its_own") else {
        return;
    };
    stage.install(ALL_EVENTS);
    stage.write("seen-by-ls.txt", "");
    let task = "Look around in the workspace";
    let model = MockModel::start([
        Turn::call(
            "task",
            json!({
                "agent_type": "general-purpose",
                "name": "scout",
                "description": "Look around",
                "prompt": task,
                "mode": "sync",
            }),
        ),
        // The parent's request holds the child's task only once the child has ended.
        Turn::bash("ls").only_for(task),
        Turn::bash("cat /etc/shadow").only_for(task),
        Turn::say("nothing found").only_for(task),
    ]);
    stage.run(&model);
    let told = model.told(1);
    assert!(told.contains("seen-by-ls.txt"), "{told}");
    let told = model.told(2);
    assert!(told.starts_with(DENIED), "{told}");
    let told = model.told(0);
    assert!(told.contains("nothing found"), "{told}");

    for event in ["subagent_start", "subagent_stop"] {
        let recorded = stage
            .record()
            .iter()
            .any(|line| text_of(line, "event") == event);
        assert!(recorded, "no {event}");
    }
    let calls = stage.record_of("bash");
    assert_eq!(stage.decisions_about("bash"), ["allow", "deny"]);
    let task = stage.record_of("task").pop().expect("the task was judged");
    let session = text_of(&task, "session");
    for call in calls {
        let agent = text_of(&call, "agent");
        assert!(!agent.is_empty(), "no agent in {call}");
        assert_ne!(agent, session, "the child is not its parent: {call}");
    }
}
