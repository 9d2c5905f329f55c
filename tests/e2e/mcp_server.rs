//! An MCP server with one tool, spoken to over HTTP, that counts how often the tool was called.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::stage::Stage;

/// The server's name in the client's configuration.
pub(crate) const NAME: &str = "ledger";
/// How the client presents its tool `add` to the model and to hooks.
pub(crate) const TOOL: &str = "ledger-add";

/// The running server.
pub(crate) struct McpServer {
    server: Arc<Server>,
    calls: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl McpServer {
    /// Starts to listen and enters itself into the client's configuration.
    pub(crate) fn start(stage: &Stage) -> Self {
        let server = Arc::new(Server::http("127.0.0.1:0").expect("a port is free"));
        let calls = Arc::new(AtomicUsize::new(0));
        let thread = {
            let (server, calls) = (Arc::clone(&server), Arc::clone(&calls));
            thread::spawn(move || {
                for request in server.incoming_requests() {
                    answer(request, &calls);
                }
            })
        };
        let address = server.server_addr().to_ip().expect("a TCP listener");
        let config = json!({"mcpServers": {NAME: {
            "type": "http", "url": format!("http://{address}/mcp"), "tools": ["*"],
        }}});
        let path = stage.copilot_home().join("mcp-config.json");
        fs::write(path, config.to_string()).expect("writable");
        Self {
            server,
            calls,
            thread: Some(thread),
        }
    }

    /// How often the tool ran.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut request: Request, calls: &AtomicUsize) {
    let mut text = String::new();
    let read = request.as_reader().read_to_string(&mut text);
    let message: Value = read
        .ok()
        .and_then(|_| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let method = message.get("method").and_then(Value::as_str);
    let result = match (request.method(), method) {
        (Method::Post, Some("initialize")) => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "version": "1"},
        }),
        (Method::Post, Some("tools/list")) => json!({"tools": [{
            "name": "add",
            "description": "Adds two numbers",
            "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        }]}),
        (Method::Post, Some("tools/call")) => {
            calls.fetch_add(1, Ordering::SeqCst);
            let arguments = message.pointer("/params/arguments");
            let number = |name: &str| arguments?.get(name)?.as_i64();
            let sum = number("a").unwrap_or_default() + number("b").unwrap_or_default();
            json!({"content": [{"type": "text", "text": format!("the sum is {sum}")}]})
        }
        (Method::Post, _) if message.get("id").is_none() => {
            return drop(request.respond(Response::empty(202)));
        }
        // The client first asks which dialect the server speaks, and takes this for an answer.
        (Method::Post, _) => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return reply(request, &message, "error", error);
        }
        _ => return drop(request.respond(Response::empty(405))),
    };
    reply(request, &message, "result", result);
}

fn reply(request: Request, message: &Value, kind: &str, value: Value) {
    let body = json!({"jsonrpc": "2.0", "id": message.get("id"), kind: value});
    let header = Header::from_bytes("content-type", "application/json").expect("a valid header");
    // The client may have been ended by its case in the meantime.
    let _ = request.respond(Response::from_string(body.to_string()).with_header(header));
}
