//! A client of the proxy, over its stdin and stdout.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Client {
    child: Child,
    lines: Receiver<String>,
    last: u64,
    /// What came without being asked for.
    pub(super) news: Vec<Value>,
}

impl Client {
    /// Starts a server and begins as the protocol says.
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        let mut client = Self {
            child,
            lines,
            last: 0,
            news: Vec::new(),
        };
        client.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "tests", "version": "1"}}),
        );
        client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub(super) fn tell(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Asks, and gives the whole answer.
    pub(super) fn whole(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.tell(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap();
            // Nothing but the protocol is on stdout.
            let message: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            if message["id"] == id {
                return message;
            }
            self.news.push(message);
        }
    }

    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.whole(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    pub(super) fn tools(&mut self) -> Vec<Value> {
        let listed = self.ask("tools/list", json!({}));
        listed["tools"].as_array().unwrap().clone()
    }

    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Closes its stdin and waits for its end.
    pub(super) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The first text of a result.
pub(super) fn words(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The policy that blocked a call; empty if none did.
pub(super) fn blocked_by(result: &Value) -> &str {
    if result["structuredContent"]["blocked"] != true {
        return "";
    }
    assert_eq!(result["isError"], true, "{result}");
    let id = result["structuredContent"]["reason_code"].as_str().unwrap();
    // Without its layer.
    id.rsplit(':').next().unwrap()
}
