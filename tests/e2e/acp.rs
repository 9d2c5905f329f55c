//! Drives the client as an editor does: the Agent Client Protocol over stdio.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::copilot::PATIENCE;
use crate::mock_model::MockModel;
use crate::stage::Stage;

/// What the person in front of the editor answers to every question.
#[derive(Clone, Copy)]
pub(crate) enum Person {
    Approves,
    Rejects,
}

/// What an editor saw of one prompt.
pub(crate) struct Conversation {
    /// The parameters of each `session/request_permission`.
    pub(crate) questions: Vec<Value>,
    /// The updates of tool calls.
    pub(crate) tool_updates: Vec<Value>,
    pub(crate) stop_reason: String,
}

impl Stage {
    /// Opens a session, sends one prompt and stays until its turn ends.
    pub(crate) fn converse(&self, model: &MockModel, person: Person) -> Conversation {
        let mut agent = Agent::start(self, model);
        let mut seen = Conversation {
            questions: Vec::new(),
            tool_updates: Vec::new(),
            stop_reason: String::new(),
        };
        let initialize = json!({
            "protocolVersion": 1,
            "clientInfo": {"name": "editor", "version": "1"},
            "clientCapabilities": {},
        });
        agent.request("initialize", initialize, person, &mut seen);
        let session = json!({"cwd": self.workspace(), "mcpServers": []});
        let session = agent.request("session/new", session, person, &mut seen);
        let prompt = json!({
            "sessionId": session.get("sessionId").expect("a session was opened"),
            "prompt": [{"type": "text", "text": "Do the work"}],
        });
        let ended = agent.request("session/prompt", prompt, person, &mut seen);
        ended
            .get("stopReason")
            .and_then(Value::as_str)
            .expect("a turn ends with a reason")
            .clone_into(&mut seen.stop_reason);
        seen
    }
}

struct Agent {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
}

impl Agent {
    fn start(stage: &Stage, model: &MockModel) -> Self {
        let mut command = Command::new(&stage.client.program);
        stage.dress(&mut command, model);
        let errors = File::create(stage.copilot_home().join("acp-errors.txt")).expect("writable");
        let mut child = command
            .args(["--acp", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the client starts");
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("the client speaks JSON-RPC");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            input,
            messages,
            last_id: 0,
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("the client reads its input");
    }

    /// Sends a request, and answers the agent's own until the result is there.
    fn request(
        &mut self,
        method: &str,
        params: Value,
        person: Person,
        seen: &mut Conversation,
    ) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            let message = self
                .messages
                .recv_timeout(left)
                .unwrap_or_else(|error| panic!("no answer to {method}: {error}"));
            match message.get("method").and_then(Value::as_str) {
                Some("session/request_permission") => {
                    self.answer(&message, person);
                    seen.questions.push(params_of(&message));
                }
                Some("session/update") => {
                    let update = params_of(&message)
                        .get("update")
                        .cloned()
                        .unwrap_or_default();
                    let kind = update.get("sessionUpdate").and_then(Value::as_str);
                    if matches!(kind, Some("tool_call" | "tool_call_update")) {
                        seen.tool_updates.push(update);
                    }
                }
                Some(other) => panic!("the client asked for {other}"),
                None if message.get("id") == Some(&id) => {
                    return message
                        .get("result")
                        .unwrap_or_else(|| panic!("{method} failed: {message}"))
                        .clone();
                }
                None => {}
            }
        }
    }

    fn answer(&mut self, question: &Value, person: Person) {
        let option = match person {
            Person::Approves => "allow_once",
            Person::Rejects => "reject_once",
        };
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.send(&json!({"jsonrpc": "2.0", "id": question.get("id"), "result": outcome}));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It would end by itself once its input closes, but later than the next case may start.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn params_of(message: &Value) -> Value {
    message.get("params").cloned().unwrap_or_default()
}
