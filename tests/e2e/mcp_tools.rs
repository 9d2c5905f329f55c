//! Tools of an MCP server that the user configured.

use serde_json::json;

use crate::commands::COULD_NOT_ASK;
use crate::mcp_server::{self, McpServer};
use crate::mock_model::{MockModel, Turn};
use crate::stage::{Stage, TOOL_EVENTS};

#[test]
fn an_unknown_tool_is_a_question() {
    let Some(stage) = Stage::new("an_unknown_tool_is_a_question") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let server = McpServer::start(&stage);
    let model = MockModel::start([Turn::call(mcp_server::TOOL, json!({"a": 2, "b": 3}))]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.starts_with(COULD_NOT_ASK), "{told}");
    assert_eq!(server.calls(), 0, "the tool was called");
    assert_eq!(stage.decisions_about(mcp_server::TOOL), ["ask"]);
}

#[test]
fn a_tool_of_a_listed_server_is_called() {
    let Some(stage) = Stage::new("a_tool_of_a_listed_server_is_called") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.exempt(
        "ask-mcp",
        &format!("resource.server == \"{}\"", mcp_server::NAME),
    );
    let server = McpServer::start(&stage);
    let model = MockModel::start([Turn::call(mcp_server::TOOL, json!({"a": 2, "b": 3}))]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.contains("the sum is 5"), "{told}");
    assert_eq!(server.calls(), 1);
    assert_eq!(stage.decisions_about(mcp_server::TOOL), ["allow"]);
}
