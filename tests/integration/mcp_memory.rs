//! `mcp memory`: what OpenClaw remembers, over stdio.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept};

use super::program::{Stage, run};

const SEARCH: &str = "openclaw_memory_search";
const READ: &str = "openclaw_memory_read";
const PREFERENCES: &str = "openclaw_user_prefs";

/// A secret, as a test may know one.
fn secret() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

/// A stage whose OpenClaw is in `claw`.
fn stage() -> Stage {
    let stage = Stage::new();
    fs::create_dir(stage.path("claw")).unwrap();
    stage
}

/// The server's command line.
fn server(stage: &Stage) -> Command {
    let mut command = stage.command(&["mcp", "memory", "--state"]);
    command
        .arg(stage.state())
        .env("OPENCLAW_STATE_DIR", stage.path("claw"))
        .stdin(Stdio::piped());
    command
}

/// A client, and the server that it started.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// All that the server said.
    said: String,
    id: u64,
}

impl Client {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut client = Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            said: String::new(),
            id: 0,
        };
        let about = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about});
        client.request("initialize", &params);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            self.said.push_str(&line);
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// What a tool answers, and whether that is an error.
    fn call(&mut self, tool: &str, args: &Value) -> (String, bool) {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": args}));
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{tool} {args}: {result}"));
        (text.to_owned(), result["isError"] == true)
    }

    /// All that the server said, once it has ended.
    fn end(mut self) -> String {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
        self.said
    }
}

#[test]
fn three_tools_read_and_none_writes() {
    let stage = stage();
    let mut client = Client::start(server(&stage));
    let tools = client.request("tools/list", &json!({}));
    let tools = tools["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, [SEARCH, READ, PREFERENCES]);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
    let limit = &tools[0]["inputSchema"]["properties"]["limit"];
    assert_eq!(limit["default"], 5);
    client.end();
}

#[test]
fn tools_answer_as_they_did_elsewhere() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parity");
    let table = fs::read_to_string(fixtures.join("memory_tools.jsonl")).unwrap();
    let stage = stage();
    let claw = stage.path("claw");
    for name in [
        "USER.md",
        "memory/MEMORY.md",
        "memory/2025-06-15.md",
        "memory/note.txt",
        "memory/sub/x.md",
    ] {
        let text = fs::read_to_string(fixtures.join("openclaw/state").join(name)).unwrap();
        stage.write(&format!("claw/{name}"), &text);
    }
    symlink("/etc/hostname", claw.join("memory/evil.md")).unwrap();
    let mut client = Client::start(server(&stage));
    assert_eq!(
        client.call(PREFERENCES, &json!({})),
        ("# U\n".to_owned(), false)
    );
    for row in table.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        if row["state"] == "USER.md absent" {
            fs::remove_file(claw.join("USER.md")).unwrap();
        }
        let expected = row["expect"]["content"][0]["text"].as_str().unwrap();
        let here = claw.to_str().unwrap();
        let expected = expected
            .replace("$HOME/.openclaw", here)
            .replace("~/.openclaw", here);
        let (text, is_error) = client.call(row["tool"].as_str().unwrap(), &row["args"]);
        assert_eq!(text, expected, "{}", row["id"]);
        assert_eq!(is_error, row["expect"]["isError"] == true, "{}", row["id"]);
    }
    client.end();
    let calls = stage.record().into_iter();
    let calls = calls.filter(|line| line["kind"] == "mcp_tool_call").count();
    // The first call, and each row, before and after; but the one that is too deep never happens.
    assert_eq!(calls, 2 + 2 * table.lines().count() - 1);
}

#[test]
fn a_secret_in_the_memory_stays_there() {
    let stage = stage();
    let secret = secret();
    let memory = format!("# Memory\nthe token of zebra is {secret}\n");
    stage.write("claw/workspace/MEMORY.md", &memory);
    stage.write("claw/workspace/USER.md", &format!("token: {secret}\n"));
    let mut client = Client::start(server(&stage));
    let (found, _) = client.call(SEARCH, &json!({"query": "zebra"}));
    assert!(
        found.starts_with("[MEMORY.md] (score: 1.00) the token of zebra is "),
        "{found}"
    );
    let (read, is_error) = client.call(READ, &json!({}));
    assert!(
        read.starts_with("# Memory\nthe token of zebra is ") && !is_error,
        "{read}"
    );
    let (prefs, _) = client.call(PREFERENCES, &json!({}));
    assert!(prefs.starts_with("token: "), "{prefs}");
    let said = client.end();
    assert!(!said.contains(&secret), "{said}");
    let record = stage
        .record()
        .iter()
        .map(Value::to_string)
        .collect::<String>();
    assert!(!record.contains(&secret), "{record}");
}

#[test]
fn nothing_but_memory_is_read() {
    let stage = stage();
    stage.write("claw/openclaw.json", "{}");
    stage.write("claw/workspace/AGENTS.md", "x\n");
    stage.write("claw/workspace/memory/a.md", "dark\n");
    symlink(
        stage.path("outside/secret.txt"),
        stage.path("claw/workspace/memory/b.md"),
    )
    .unwrap();
    let mut client = Client::start(server(&stage));
    for (file, expected) in [
        (
            "../openclaw.json",
            "Access denied: Path traversal detected: \"../openclaw.json\" escapes memory directory",
        ),
        (
            "/etc/passwd",
            "Access denied: Path traversal detected: \"/etc/passwd\" escapes memory directory",
        ),
        (
            "memory/b.md",
            "Access denied: Path traversal detected: \"memory/b.md\" escapes memory directory (via symlink)",
        ),
        (
            "AGENTS.md",
            "Access denied: \"AGENTS.md\" is no memory file",
        ),
        (
            "memory/\0",
            "Access denied: Invalid file path: null bytes not allowed",
        ),
    ] {
        let answer = client.call(READ, &json!({"file": file}));
        assert_eq!(answer, (expected.to_owned(), true));
    }
    for (args, expected) in [
        (json!({}), "Error: `query` is missing"),
        (json!({"query": 1}), "Error: `query` has to be a text"),
        (
            json!({"query": "x".repeat(1001)}),
            "Error: `query` has more than 1000 characters",
        ),
        (
            json!({"query": "x", "limit": -1}),
            "Error: `limit` has to be a whole number",
        ),
        (
            json!({"query": "x", "limit": "5"}),
            "Error: `limit` has to be a whole number",
        ),
    ] {
        assert_eq!(client.call(SEARCH, &args), (expected.to_owned(), true));
    }
    let (found, _) = client.call(SEARCH, &json!({"query": "dark x", "limit": 1_000_000}));
    assert_eq!(found, "[memory/a.md] (score: 0.50) dark");
    client.end();
}

#[test]
fn a_named_workspace_is_the_only_one_that_is_read() {
    let stage = stage();
    stage.write("claw/workspace/MEMORY.md", "usual\n");
    stage.write("other/MEMORY.md", "named\n");
    let mut command = server(&stage);
    command.arg("--workspace-dir").arg(stage.path("other"));
    let mut client = Client::start(command);
    assert_eq!(client.call(READ, &json!({})), ("named\n".to_owned(), false));
    client.end();
}

#[test]
fn a_policy_takes_the_memory_away() {
    let stage = stage();
    stage.write("claw/workspace/MEMORY.md", "zebra\n");
    let policies = stage.policies();
    let policy = "@id(\"no-memory\")\n@reason(\"`{tool}` is not for agents\")\n\
        forbid (principal, action == Bridge::Action::\"mcp\", resource is Bridge::Tool)\n\
        when { resource.server == \"openclaw-memory\" };\n";
    fs::write(policies.join("no-memory.cedar"), policy).unwrap();
    let mut command = server(&stage);
    command.arg("--policies").arg(policies);
    let mut client = Client::start(command);
    let result = client.request("tools/call", &json!({"name": READ, "arguments": {}}));
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(
        result["structuredContent"]["reason_code"], "user:no-memory",
        "{result}"
    );
    assert!(!client.end().contains("zebra"));
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    for (name, value, expected) in [
        (
            "OPENCLAW_PORT",
            "0",
            "`OPENCLAW_PORT` is `0`, but has to be a port, 1 to 65535",
        ),
        (
            "OPENCLAW_HOST",
            "ws://x",
            "`OPENCLAW_HOST` is `ws://x`, but has to be a name or an address, without scheme and port",
        ),
        (
            "OPENCLAW_WORKSPACE_DIR",
            "claw",
            "`OPENCLAW_WORKSPACE_DIR` is `claw`, but has to be an absolute path",
        ),
    ] {
        let stage = stage();
        let mut command = server(&stage);
        command.env(name, value).stdin(Stdio::null());
        let answer = run(command);
        assert_ne!(answer.code, 0, "{answer:?}");
        assert!(answer.errors.contains(expected), "{answer:?}");
        assert_eq!(answer.text, "", "stdout is the protocol's");
    }
}

/// A gateway that greets one client and answers each search with that text; it is gone when that is
/// sent. Returns what it was asked.
fn gateway(
    listener: TcpListener,
    snippet: String,
    searches: usize,
) -> thread::JoinHandle<Vec<Value>> {
    fn ask(socket: &mut WebSocket<TcpStream>) -> Value {
        loop {
            if let Message::Text(text) = socket.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }
    fn send(socket: &mut WebSocket<TcpStream>, frame: &Value) {
        socket.send(Message::text(frame.to_string())).unwrap();
    }
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        let mut socket = accept(stream).unwrap();
        let nonce =
            json!({"nonce": "a5e31e6b-e98a-49e8-b30d-2a2660a3bef9", "ts": 1_795_206_540_177_i64});
        send(
            &mut socket,
            &json!({"type": "event", "event": "connect.challenge", "payload": nonce}),
        );
        let connect = ask(&mut socket);
        let hello = json!({"type": "hello-ok", "protocol": 4, "auth": {"role": "operator"}});
        send(
            &mut socket,
            &json!({"type": "res", "id": connect["id"], "ok": true, "payload": hello}),
        );
        let mut asked = vec![connect];
        for _ in 0..searches {
            let search = ask(&mut socket);
            let result = json!({
                "path": "memory/2026-11-20.md", "startLine": 1, "endLine": 4, "score": 0.98,
                "textScore": 0.51, "snippet": snippet, "source": "memory",
            });
            let payload = json!({"agentId": "main", "searchMode": "fts-only", "results": [result]});
            send(
                &mut socket,
                &json!({"type": "res", "id": search["id"], "ok": true, "payload": payload}),
            );
            asked.push(search);
        }
        asked
    })
}

#[test]
fn the_gateway_answers_first_and_the_files_where_it_is_gone() {
    let stage = stage();
    stage.write("claw/workspace/MEMORY.md", "zebra in a file\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let token = ["token", "of", "a", "test"].join("-");
    let secret = secret();
    let gateway = gateway(listener, format!("- zebra, token {secret}"), 1);
    let mut command = server(&stage);
    command
        .env("OPENCLAW_PORT", port.to_string())
        .env("OPENCLAW_GATEWAY_TOKEN", &token);
    let mut client = Client::start(command);
    let (found, _) = client.call(SEARCH, &json!({"query": "zebra", "limit": 2}));
    assert!(
        found.starts_with("[memory/2026-11-20.md] (score: 0.98) - zebra, token "),
        "{found}"
    );
    let asked = gateway.join().unwrap();
    assert_eq!(asked[0]["params"]["auth"]["token"], token.as_str());
    assert_eq!(asked[0]["params"]["scopes"], json!(["operator.read"]));
    assert_eq!(asked[1]["method"], "memory.search");
    assert_eq!(
        asked[1]["params"],
        json!({"query": "zebra", "maxResults": 2})
    );
    let (found, _) = client.call(SEARCH, &json!({"query": "zebra"}));
    assert_eq!(found, "[MEMORY.md] (score: 1.00) zebra in a file");
    let said = client.end();
    assert!(!said.contains(&secret), "{said}");
    let key = stage.state().join("openclaw-device-key.pem");
    assert!(key.is_file(), "the device has no key");
}
