//! Tools of our own, which the client calls over HTTP as its settings say.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::mock_model::{MockModel, Turn};
use crate::redaction::token;
use crate::stage::{BRIDGE, Stage, text_of};

/// How the client presents the tool to the model.
const TOOL: &str = "copilot-bridge-copilot_read_file";

/// A server that runs, and the token that it lets in.
struct Server {
    child: Child,
    token: String,
}

impl Server {
    /// Starts to serve the stage's workspace, and enters itself into the client's settings.
    fn start(stage: &Stage) -> Self {
        let bridge = |words: &[&str]| {
            let mut command = Command::new(BRIDGE);
            command.args(words).arg("--state").arg(stage.state());
            command
        };
        let output = bridge(&["token", "path"]).output().expect("it starts");
        let path = String::from_utf8(output.stdout).expect("UTF-8");
        let token = fs::read_to_string(path.trim_end()).expect("a token");
        let mut child = bridge(&["serve", "--listen", "127.0.0.1:0"])
            .arg("--workspace")
            .arg(stage.workspace())
            .arg("--policies")
            .arg(stage.policies())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let errors = child.stderr.take().expect("a pipe");
        BufReader::new(errors)
            .read_line(&mut line)
            .expect("it says where it listens");
        let address = line
            .strip_prefix("listening on http://")
            .and_then(|rest| rest.strip_suffix("/mcp\n"))
            .unwrap_or_else(|| panic!("{line}"));
        let settings = bridge(&["mcp", "config", "copilot", "--http", "--listen", address])
            .output()
            .expect("it starts");
        let path = stage.copilot_home().join("mcp-config.json");
        fs::write(path, settings.stdout).expect("writable");
        Self {
            child,
            token: token.trim_end().to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn calls_over_http_are_judged_and_their_results_are_clean() {
    let Some(stage) = Stage::new("calls_over_http_are_judged_and_their_results_are_clean") else {
        return;
    };
    let secret = token();
    stage.write("notes.txt", "the door is green\n");
    stage.write("settings.txt", &format!("GITHUB_TOKEN={secret}\n"));
    stage.write(".env", "KEY=value\n");
    let server = Server::start(&stage);
    let model = MockModel::start([
        Turn::call(TOOL, json!({"path": "notes.txt"})),
        Turn::call(TOOL, json!({"path": "settings.txt"})),
        Turn::call(TOOL, json!({"path": ".env"})),
    ]);
    let mut command = Command::new(&stage.client.program);
    stage.dress(&mut command, &model);
    command.env("COPILOT_BRIDGE_TOKEN", &server.token).args([
        "-p",
        "Do the work",
        "--allow-all-tools",
        "--allow-all-paths",
    ]);
    let run = stage.finish(command);
    assert!(run.status.success(), "{}", run.output);
    let told = model.told(0);
    assert!(told.contains("the door is green"), "{told}");
    let told = model.told(1);
    assert!(told.contains("GITHUB_TOKEN="), "{told}");
    assert!(!told.contains(&secret), "{told}");
    let told = model.told(2);
    assert!(told.contains("BLOCKED: "), "{told}");
    let decisions: Vec<String> = stage
        .record()
        .iter()
        .filter(|line| text_of(line, "kind") == "mcp_tool_call")
        .map(|line| text_of(line, "decision"))
        .collect();
    // Two calls, each with its result, and one that nobody can be asked about.
    assert_eq!(decisions, ["allow", "allow", "allow", "allow", "ask"]);
}
