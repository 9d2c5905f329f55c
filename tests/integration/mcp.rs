//! `mcp copilot`: an MCP server over stdin and stdout.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Stage;

/// What a client of the newest protocol says with each request.
pub(crate) fn modern() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A client over stdio.
pub(crate) struct Client {
    child: Child,
    write: Box<dyn Write>,
    read: BufReader<Box<dyn std::io::Read>>,
    next: u64,
}

impl Client {
    /// A client of that program, over pipes.
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let write = Box::new(child.stdin.take().unwrap());
        let read: Box<dyn std::io::Read> = Box::new(child.stdout.take().unwrap());
        Self {
            child,
            write,
            read: BufReader::new(read),
            next: 0,
        }
    }

    /// The same over sockets, as Node starts programs.
    fn over_sockets(mut command: Command) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (output, sink) = UnixStream::pair().unwrap();
        command
            .stdin(OwnedFd::from(theirs))
            .stdout(OwnedFd::from(sink));
        let child = command.stderr(Stdio::inherit()).spawn().unwrap();
        output
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let read: Box<dyn std::io::Read> = Box::new(output);
        Self {
            child,
            write: Box::new(ours),
            read: BufReader::new(read),
            next: 0,
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let message =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.write, "{message}").unwrap();
        let mut line = String::new();
        // Every line is a message of the protocol.
        while self.read.read_line(&mut line).unwrap() > 0 {
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.next {
                return answer;
            }
            line.clear();
        }
        panic!("no answer to `{method}`");
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let answer = self.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(self.write, "{note}").unwrap();
        answer
    }

    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.request("tools/call", &params)["result"].clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first text of a result.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

fn server(stage: &Stage) -> Command {
    let mut command = stage.command(&["mcp", "copilot"]);
    command.arg("--state").arg(stage.state());
    command
}

fn client(stage: &Stage) -> Client {
    let mut client = Client::of(server(stage));
    client.initialize();
    client
}

#[test]
fn files_are_read_made_and_listed() {
    let stage = Stage::new();
    let mut client = client(&stage);
    let listed = client.request("tools/list", &json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    // Those that need a session of Copilot are not there before there are sessions.
    assert_eq!(
        names,
        [
            "copilot_read_file",
            "copilot_create_file",
            "copilot_list_files"
        ]
    );
    let read = client.call("copilot_read_file", &json!({"path": "a.txt"}));
    assert_eq!(
        (text(&read), &read["isError"]),
        ("hello file\n", &json!(false))
    );
    let made = client.call(
        "copilot_create_file",
        &json!({"path": "deep/er/b.txt", "content": "made"}),
    );
    assert_eq!(text(&made), "Created deep/er/b.txt");
    assert_eq!(fs::read(stage.path("ws/deep/er/b.txt")).unwrap(), b"made");
    let listed = client.call("copilot_list_files", &json!({"directory": "deep"}));
    assert_eq!(text(&listed), "er/");
    let listed = client.call("copilot_list_files", &json!({}));
    assert!(
        text(&listed).lines().any(|name| name == "a.txt"),
        "{listed}"
    );
    // A call is two lines: what was decided, and what came of it.
    let lines = stage.record();
    let calls: Vec<&Value> = lines
        .iter()
        .filter(|line| {
            line["kind"] == "mcp_tool_call" && line["tool"] == "copilot-copilot_read_file"
        })
        .collect();
    assert_eq!(calls.len(), 2, "{lines:#?}");
    assert_eq!(calls[0]["call"], calls[1]["call"]);
    assert_eq!(calls[0]["event"], "pre_tool_use");
    assert_eq!(calls[0]["detail"]["provider_used"], "copilot");
    assert_eq!(calls[0]["detail"]["governance_result"], "allow");
    assert!(calls[0]["detail"]["execution_time_ms"].is_null());
    assert_eq!(calls[1]["event"], "post_tool_use");
    assert!(calls[1]["detail"]["execution_time_ms"].is_number());
}

#[test]
fn paths_are_refused_as_the_original_refused_them() {
    let stage = Stage::new();
    symlink(stage.path("outside"), stage.path("ws/out")).unwrap();
    // A build without optimisation looks for secrets in half a million characters for seconds.
    let policies = stage.policies();
    let settings = fs::read_to_string(policies.join("bridge.toml")).unwrap();
    let patient = settings.replace("deadline_ms = 1000", "deadline_ms = 20000");
    fs::write(policies.join("bridge.toml"), patient).unwrap();
    let mut command = server(&stage);
    command.arg("--policies").arg(&policies);
    let mut client = Client::of(command);
    client.initialize();
    let long = "a".repeat(1_001);
    for (path, expected) in [
        ("a\0b", "Error: Null bytes are not allowed"),
        ("/etc/passwd", "Error: Absolute paths are not allowed"),
        (
            "../outside/secret.txt",
            "Error: Path traversal is not allowed",
        ),
        (&long, "Error: a path has at most 1000 characters"),
    ] {
        for (tool, arguments) in [
            ("copilot_read_file", json!({"path": path})),
            ("copilot_create_file", json!({"path": path, "content": "x"})),
            ("copilot_list_files", json!({"directory": path})),
        ] {
            let refused = client.call(tool, &arguments);
            assert_eq!(text(&refused), expected, "{tool}");
            assert_eq!(refused["isError"], true);
        }
    }
    let long = json!({"path": "x", "content": "a".repeat(500_001)});
    let refused = client.call("copilot_create_file", &long);
    assert_eq!(
        text(&refused),
        "Error: `content` has more than 500000 characters"
    );
    let refused = client.call("copilot_read_file", &json!({"path": "out/secret.txt"}));
    assert!(text(&refused).starts_with("BLOCKED: "), "{refused}");
    let refused = client.call("copilot_read_file", &json!({"path": 1}));
    assert_eq!(text(&refused), "Error: `path` has to be a text");
}

/// Found with the Inspector: Node's pipes are sockets, and the program held its own output locked.
#[test]
fn sockets_are_served_as_pipes_are() {
    let stage = Stage::new();
    let mut client = Client::over_sockets(server(&stage));
    assert_eq!(
        client.initialize()["result"]["protocolVersion"],
        "2025-11-25"
    );
    let read = client.call("copilot_read_file", &json!({"path": "a.txt"}));
    assert_eq!(text(&read), "hello file\n");
}

#[test]
fn both_eras_are_spoken_even_after_each_other() {
    let stage = Stage::new();
    let mut client = Client::of(server(&stage));
    let found = client.request("server/discover", &json!({"_meta": modern()}));
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    for version in ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"] {
        assert!(versions.contains(&json!(version)), "{found}");
    }
    let read = client.request(
        "tools/call",
        &json!({
            "name": "copilot_read_file", "arguments": {"path": "a.txt"}, "_meta": modern(),
        }),
    );
    assert_eq!(read["result"]["resultType"], "complete");
    assert_eq!(text(&read["result"]), "hello file\n");
    let answer = client.initialize();
    assert_eq!(
        answer["result"]["protocolVersion"], "2025-11-25",
        "{answer}"
    );
}

#[test]
fn what_is_asked_is_blocked_and_says_what_a_person_does() {
    let stage = Stage::new();
    let mut client = client(&stage);
    let hook = json!({"path": ".github/hooks/x.json", "content": "{}"});
    let blocked = client.call("copilot_create_file", &hook);
    assert_eq!(blocked["isError"], true);
    assert!(text(&blocked).starts_with("BLOCKED: "), "{blocked}");
    assert!(
        text(&blocked).contains("a person has to approve this"),
        "{blocked}"
    );
    let told = &blocked["structuredContent"];
    assert_eq!(told["blocked"], true);
    assert_eq!(told["blocked_action"], "copilot-copilot_create_file");
    assert_eq!(told["reason_code"], "default:ask-starts-code");
    assert!(!told["next_safe_step"].as_str().unwrap().is_empty());
    assert!(!stage.path("ws/.github/hooks/x.json").exists());
}

#[test]
fn secrets_leave_what_is_read() {
    let stage = Stage::new();
    let secret = format!("AKIA{}", "Q3EGRIYM7ZPLNVW5");
    stage.write("ws/settings.ini", &format!("key = {secret}\n"));
    let mut client = client(&stage);
    let read = client.call("copilot_read_file", &json!({"path": "settings.ini"}));
    assert!(text(&read).starts_with("key = "), "{read}");
    assert!(!read.to_string().contains(&secret), "{read}");
    let lines = stage.record();
    assert_eq!(lines.last().unwrap()["redactions"][0]["count"], 1);
    assert!(lines.iter().all(|line| !line.to_string().contains(&secret)));
}

#[test]
fn a_chain_ends_at_the_limit() {
    let stage = Stage::new();
    let expected = "Maximum call depth exceeded (cycle detected). Depth: 3, max: 3";
    let mut client = client(&stage);
    let meta = json!({
        "name": "copilot_list_files", "arguments": {}, "_meta": {"dev.copilot-bridge/depth": 3},
    });
    let blocked = client.request("tools/call", &meta)["result"].clone();
    assert_eq!(
        (text(&blocked), &blocked["isError"]),
        (expected, &json!(true))
    );
    let blocked = client.call("copilot_list_files", &json!({"_depth": 3}));
    assert_eq!(text(&blocked), expected);
    // The argument raises, and never lowers.
    let meta = json!({
        "name": "copilot_list_files", "arguments": {"_depth": 0},
        "_meta": {"dev.copilot-bridge/depth": 3},
    });
    assert_eq!(
        text(&client.request("tools/call", &meta)["result"]),
        expected
    );
    let allowed = client.call("copilot_list_files", &json!({"_depth": 2}));
    assert_eq!(allowed["isError"], false);
    let mut command = server(&stage);
    command.env("COPILOT_BRIDGE_DEPTH", "3");
    let mut deep = Client::of(command);
    deep.initialize();
    let blocked = deep.call("copilot_list_files", &json!({}));
    assert_eq!(text(&blocked), expected);
}

#[test]
fn traces_are_recorded() {
    let stage = Stage::new();
    let mut client = client(&stage);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    client.request(
        "tools/call",
        &json!({
            "name": "copilot_list_files", "arguments": {},
            "_meta": {"traceparent": parent, "tracestate": "vendor=1"},
        }),
    );
    for line in stage.record() {
        assert_eq!(
            line["trace"],
            json!({"traceparent": parent, "tracestate": "vendor=1"})
        );
    }
}

#[test]
fn names_that_nobody_offers_are_in_the_record() {
    let stage = Stage::new();
    let mut client = client(&stage);
    let params = json!({"name": "copilot_format_disk", "arguments": {}});
    let answer = client.request("tools/call", &params);
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let lines = stage.record();
    assert_eq!(lines.last().unwrap()["tool"], "copilot-copilot_format_disk");
}

#[test]
fn changed_policies_are_in_force_at_once() {
    let stage = Stage::new();
    let policies = stage.policies();
    let mut command = server(&stage);
    command.arg("--policies").arg(&policies);
    let mut client = Client::of(command);
    client.initialize();
    let arguments = json!({"path": "a.txt"});
    assert_eq!(
        text(&client.call("copilot_read_file", &arguments)),
        "hello file\n"
    );
    let more = "\n@id(\"closed\")\n@reason(\"nothing is read today\")\nforbid (principal, action == Bridge::Action::\"mcp\", resource);\n";
    append(&policies.join("permission.cedar"), more);
    let closed = until(
        || text(&client.call("copilot_read_file", &arguments)).to_owned(),
        "BLOCKED",
    );
    assert!(closed.contains("nothing is read today"), "{closed}");
    // What cannot be understood denies, with the place and what a person runs.
    append(&policies.join("permission.cedar"), "forbid (");
    let broken = until(
        || text(&client.call("copilot_read_file", &arguments)).to_owned(),
        "policy_error",
    );
    assert!(broken.contains("policy check"), "{broken}");
}

fn append(path: &Path, more: &str) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, text + more).unwrap();
}

/// What is said once it holds those words.
fn until(mut said: impl FnMut() -> String, words: &str) -> String {
    let began = Instant::now();
    loop {
        let said = said();
        if said.contains(words) || began.elapsed() > Duration::from_secs(20) {
            return said;
        }
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_folder_that_is_not_there_is_said_without_numbers() {
    let stage = Stage::new();
    let mut command = server(&stage);
    command.arg("--workspace").arg(stage.path("gone"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: cannot use the folder"), "{said}");
    assert!(!said.contains("os error"), "{said}");
}
