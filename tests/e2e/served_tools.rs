//! The tools that this program serves itself, called by the client.

use std::fs;

use serde_json::{Value, json};

use crate::mock_model::{MockModel, Turn};
use crate::stage::{BRIDGE, Stage, text_of};

/// The server's name in the client's configuration.
const NAME: &str = "bridge";

#[test]
fn served_tools_are_judged_and_their_results_redacted() {
    let Some(stage) = Stage::new("served_tools_are_judged_and_their_results_redacted") else {
        return;
    };
    configure(
        &stage,
        &json!({
            "type": "local",
            "command": BRIDGE,
            "args": [
                "mcp", "copilot", "--workspace", stage.workspace(),
                "--policies", stage.policies(), "--state", stage.state(),
            ],
            "tools": ["*"],
        }),
    );
    three_calls(&stage);
}

/// A call that is allowed, one that is not, and one whose result holds a secret.
fn three_calls(stage: &Stage) {
    let secret = format!("AKIA{}", "Q3EGRIYM7ZPLNVW5");
    stage.write("notes.txt", "the meeting is at ten");
    stage.write("settings.ini", &format!("key = {secret}"));
    let model = MockModel::start([
        Turn::call("bridge-copilot_read_file", json!({"path": "notes.txt"})),
        Turn::call(
            "bridge-copilot_create_file",
            json!({"path": ".github/hooks/x.json", "content": "{}"}),
        ),
        Turn::call("bridge-copilot_read_file", json!({"path": "settings.ini"})),
    ]);
    let run = stage.run(&model);
    assert!(run.status.success(), "{}", run.output);
    let told = model.told(0);
    assert!(told.contains("the meeting is at ten"), "{told}");
    let told = model.told(1);
    assert!(told.contains("BLOCKED"), "{told}");
    assert!(told.contains("makes other programs run code"), "{told}");
    assert!(!stage.exists(".github/hooks/x.json"));
    let told = model.told(2);
    assert!(told.contains("key = "), "{told}");
    assert!(!told.contains(&secret), "{told}");
    let lines = stage.record();
    let calls: Vec<String> = lines
        .iter()
        .filter(|line| text_of(line, "kind") == "mcp_tool_call")
        .map(|line| format!("{} {}", text_of(line, "event"), text_of(line, "decision")))
        .collect();
    assert_eq!(
        calls,
        [
            "pre_tool_use allow",
            "post_tool_use allow",
            "pre_tool_use ask",
            "pre_tool_use allow",
            "post_tool_use allow",
        ]
    );
}

#[test]
fn what_openclaw_remembers_reaches_the_model_without_its_secrets() {
    let case = "what_openclaw_remembers_reaches_the_model_without_its_secrets";
    let Some(stage) = Stage::new(case) else {
        return;
    };
    let secret = format!("AKIA{}", "Q3EGRIYM7ZPLNVW5");
    stage.write(
        "claw/MEMORY.md",
        &format!("the zebra is striped\nkey of the zebra: {secret}\n"),
    );
    configure(
        &stage,
        &json!({
            "type": "local",
            "command": BRIDGE,
            "args": [
                "mcp", "memory", "--workspace-dir", stage.workspace().join("claw"),
                "--policies", stage.policies(), "--state", stage.state(),
            ],
            "tools": ["*"],
        }),
    );
    let model = MockModel::start([
        Turn::call("bridge-openclaw_memory_search", json!({"query": "zebra"})),
        Turn::call("bridge-openclaw_memory_read", json!({"file": "../a.txt"})),
    ]);
    let run = stage.run(&model);
    assert!(run.status.success(), "{}", run.output);
    let told = model.told(0);
    assert!(
        told.contains("[MEMORY.md] (score: 1.00) the zebra is striped"),
        "{told}"
    );
    assert!(told.contains("key of the zebra: "), "{told}");
    assert!(!told.contains(&secret), "{told}");
    let told = model.told(1);
    assert!(told.contains("escapes memory directory"), "{told}");
}

fn configure(stage: &Stage, server: &Value) {
    let config = json!({"mcpServers": {NAME: server}});
    let path = stage.copilot_home().join("mcp-config.json");
    fs::write(path, config.to_string()).expect("writable");
}
