//! `serve`, as good and bad clients meet it.

mod client;
mod floods;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::program::Stage;
use client::{Answer, Server, call, serve};

const README: &str = "copilot_read_file";

fn read_me() -> Value {
    json!({"path": "README.md"})
}

/// Waits until the record says so.
fn recorded(stage: &Stage, cause: &str) -> u64 {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let times = refusals(stage, cause);
        if times > 0 || Instant::now() > end {
            return times;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How often the record says that something was refused for that cause.
fn refusals(stage: &Stage, cause: &str) -> u64 {
    let ending = format!(" times [{cause}]");
    stage
        .record()
        .iter()
        .filter(|line| line["kind"] == "fault" && line["dialect"] == "http")
        .filter_map(|line| {
            assert_eq!(line["decision"], "deny", "{line}");
            let text = line["detail"]["error"].as_str()?.strip_suffix(&ending)?;
            text.rsplit(' ').next()?.parse::<u64>().ok()
        })
        .sum()
}

fn assert_verified(stage: &Stage) {
    let output = stage
        .command(&["audit", "verify", "--state"])
        .arg(stage.state())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn clients_of_today_need_no_session() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = |method: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}});
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        let answer = server.send("POST /mcp", &headers, &body.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("mcp-session-id"), None);
        answer.json()
    };
    let found = ask("server/discover");
    assert!(
        found["result"]["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28")),
        "{found}"
    );
    let tools = ask("tools/list");
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&README), "{names:?}");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let answer = server.call_with(&[("traceparent", trace)], README, &read_me());
    assert_eq!(answer.json()["result"]["content"][0]["text"], "read me\n");
    let lines: Vec<Value> = stage
        .record()
        .into_iter()
        .filter(|line| line["kind"] == "mcp_tool_call")
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert_eq!(line["trace"]["traceparent"], trace, "{line}");
        assert_eq!(line["decision"], "allow", "{line}");
    }
    assert_eq!(
        server.metric("copilot_bridge_calls_total{decision=\"allow\"}"),
        1.0
    );
    assert_eq!(server.metric("copilot_bridge_gate_seconds_count"), 2.0);
    assert_eq!(server.metric("copilot_bridge_execution_seconds_count"), 1.0);
    assert!(server.metric("copilot_bridge_connections") >= 1.0);
    assert_verified(&stage);
}

#[test]
fn clients_that_initialize_have_a_session() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": version, "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        });
        let mut stream = server.connect();
        let request = server.request("POST /mcp", &[], &body.to_string());
        stream.write_all(request.as_bytes()).unwrap();
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.event()["result"]["protocolVersion"], version);
        let session = answer.header("mcp-session-id").unwrap().to_owned();
        let headers = [
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", version),
        ];
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = server.send("POST /mcp", &headers, &ready.to_string());
        assert_eq!(answer.status, 202, "{answer:?}");
        let body = json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": README, "arguments": read_me()},
        });
        let answer = server.send("POST /mcp", &headers, &body.to_string());
        assert_eq!(
            answer.event()["result"]["content"][0]["text"],
            "read me\n",
            "{answer:?}"
        );
        let line = stage.record().pop().unwrap();
        assert_eq!(line["session"], session.as_str(), "{line}");
        let answer = server.send("DELETE /mcp", &headers, "");
        assert_eq!(answer.status, 202, "{answer:?}");
        let answer = server.send("POST /mcp", &headers, &body.to_string());
        assert_eq!(answer.status, 404, "{answer:?}");
    }
}

#[test]
fn who_may_not_come_in_is_told_why_and_recorded() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    let minted = |ttl: &str| {
        let output = stage
            .command(&["token", "mint", "--ttl", ttl, "--state"])
            .arg(stage.state())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    };
    let short = format!("Bearer {}", minted("1s"));
    let long = format!("Bearer {}", minted("1h"));
    // Files are looked at once a second, and the short one has to end.
    std::thread::sleep(Duration::from_millis(2_100));
    let wrong = format!("Bearer {}", "x".repeat(43));
    let own = format!("Bearer {}", server.token);
    let other_page = format!(
        "http://{}",
        server.address.replace("127.0.0.1", "localhost")
    );
    let own_page = format!("http://{}", server.address);
    let query = format!("POST /mcp?token={}", server.token);
    let hidden = format!("POST /mcp?a=b&q={}", server.token);
    let body = call(README, &read_me());
    for (line, headers, status, cause) in [
        ("POST /mcp", vec![], 200, ""),
        ("POST /mcp", vec![("authorization", long.as_str())], 200, ""),
        ("POST /mcp", vec![("origin", own_page.as_str())], 200, ""),
        ("POST /mcp", vec![("host", "localhost")], 200, ""),
        ("POST /mcp", vec![("host", "evil.example")], 403, "host"),
        ("POST /mcp", vec![("host", "")], 403, "host"),
        ("POST http://evil.example/mcp", vec![], 403, "host"),
        (
            "POST /mcp",
            vec![("origin", "http://evil.example")],
            403,
            "origin",
        ),
        (
            "POST /mcp",
            vec![("origin", other_page.as_str())],
            403,
            "origin",
        ),
        ("POST /mcp", vec![("origin", "null")], 403, "origin"),
        (
            "POST /mcp",
            vec![("authorization", "")],
            401,
            "token_missing",
        ),
        (
            "POST /mcp",
            vec![("authorization", "Basic eDp5")],
            401,
            "token_missing",
        ),
        (
            "POST /mcp",
            vec![("authorization", wrong.as_str())],
            401,
            "token_wrong",
        ),
        (
            "POST /mcp",
            vec![("authorization", "Bearer ")],
            401,
            "token_missing",
        ),
        (
            "POST /mcp",
            vec![("authorization", short.as_str())],
            401,
            "token_expired",
        ),
        (query.as_str(), vec![], 401, "token_in_query"),
        (
            query.as_str(),
            vec![("authorization", "")],
            401,
            "token_in_query",
        ),
        (hidden.as_str(), vec![], 401, "token_in_query"),
        (
            "POST /mcp",
            vec![
                ("authorization", own.as_str()),
                ("authorization", own.as_str()),
            ],
            401,
            "authorization_twice",
        ),
        (
            "GET /metrics",
            vec![("authorization", "")],
            401,
            "token_missing",
        ),
        (
            "GET /healthz/",
            vec![("authorization", "")],
            401,
            "token_missing",
        ),
        (
            "GET /nothing",
            vec![("authorization", "")],
            401,
            "token_missing",
        ),
        ("GET /nothing", vec![], 404, ""),
        ("GET /healthz", vec![("authorization", "")], 200, ""),
        (
            "GET /healthz",
            vec![("authorization", ""), ("host", "evil.example")],
            403,
            "host",
        ),
    ] {
        let mut all = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", README),
        ];
        all.extend(headers);
        let answer = server.send(
            line,
            &all,
            if line.starts_with("POST") { &body } else { "" },
        );
        assert_eq!(answer.status, status, "{line} {all:?}: {answer:?}");
        if !cause.is_empty() {
            assert_eq!(answer.json()["cause"], cause, "{line} {all:?}");
            assert!(recorded(&stage, cause) > 0, "{cause} is not in the record");
        }
        let challenge = answer.header("www-authenticate");
        assert_eq!(challenge.is_some(), status == 401, "{answer:?}");
    }
    let alive = server.send("GET /healthz", &[("authorization", "")], "");
    assert_eq!(alive.body, "ok\n");
    let name = "copilot_bridge_refusals_total{cause=\"origin\"}";
    assert_eq!(server.metric(name), 3.0);
    // No token is ever written down.
    let mut kept = String::new();
    for day in stage.days() {
        kept += &fs::read_to_string(day).unwrap();
    }
    for entry in fs::read_dir(stage.state().join("log"))
        .into_iter()
        .flatten()
    {
        kept += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    for secret in [&server.token, &short, &long] {
        assert!(!kept.contains(secret.trim_start_matches("Bearer ")));
    }
    assert_verified(&stage);
}

#[test]
fn refusal_comes_before_the_body() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    let mut stream = server.connect();
    let headers = [("authorization", ""), ("content-length", "1000")];
    let head = server.request("POST /mcp", &headers, "");
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 401");
}

#[test]
fn without_a_token_nothing_is_served() {
    let stage = Stage::new();
    let start = |change: &dyn Fn(&mut std::process::Command)| {
        let mut command = serve(&stage);
        change(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let file = stage.state().join("token");
    let shown = file.display();
    assert_eq!(
        start(&|_| {}),
        format!(
            "error: there is no token: set `COPILOT_BRIDGE_TOKEN`, or run `copilot-bridge init`, which makes `{shown}`\n"
        )
    );
    assert_eq!(
        start(&|command| {
            command.env("COPILOT_BRIDGE_TOKEN", "guess");
        }),
        "error: the token in `COPILOT_BRIDGE_TOKEN` is shorter than 32 characters\n"
    );
    stage.write("state/token", &"a".repeat(43));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(
        start(&|_| {}),
        format!("error: `{shown}` can be used by others than its owner\n")
    );
}

#[test]
fn only_the_loopback_interface_is_listened_on() {
    let stage = Stage::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let output = stage
            .command(&["serve", "--listen", address, "--state"])
            .arg(stage.state())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        let said = format!(
            "`{address}` is not on the loopback interface: other machines could reach it; use an SSH tunnel"
        );
        assert!(errors.contains(&said), "{errors}");
    }
}

#[test]
fn the_environment_may_name_the_token() {
    let stage = Stage::new();
    let said = "s".repeat(40);
    let server = Server::with(&stage, |command| {
        command.env("COPILOT_BRIDGE_TOKEN", &said);
    });
    // The file's token does not count then.
    assert_eq!(server.call(README, &read_me()).status, 401);
    let bearer = format!("Bearer {said}");
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(server.call_with(&headers, README, &read_me()).status, 200);
}

#[test]
fn policies_that_change_are_in_force_within_seconds() {
    let stage = Stage::new();
    let policies = stage.policies();
    fs::set_permissions(&policies, fs::Permissions::from_mode(0o700)).unwrap();
    let server = Server::with(&stage, |command| {
        command.arg("--policies").arg(&policies);
    });
    let denied = || server.call(README, &read_me()).json()["result"]["isError"] == json!(true);
    assert!(!denied());
    let path = policies.join("permission.cedar");
    let before = fs::read_to_string(&path).unwrap();
    let forbid = "\n@id(\"deny-readme\")\n@reason(\"nobody reads that\")\nforbid (principal, action == Bridge::Action::\"mcp\", resource);\n";
    fs::write(&path, format!("{before}{forbid}")).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !denied() {
        assert!(Instant::now() < end, "the policy is not in force");
        std::thread::sleep(Duration::from_millis(200));
    }
    let result = server.call(README, &read_me()).json();
    assert_eq!(
        result["result"]["structuredContent"]["blocked"], true,
        "{result}"
    );
    // Half a policy denies as well, and says where.
    fs::write(&path, format!("{before}forbid (")).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let result = server.call(README, &read_me()).json();
        let code = result["result"]["structuredContent"]["reason_code"].clone();
        if code == "policy_error" {
            break;
        }
        assert!(Instant::now() < end, "{result}");
        std::thread::sleep(Duration::from_millis(200));
    }
    fs::write(&path, &before).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while denied() {
        assert!(Instant::now() < end, "the policy is still in force");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(server.metric("copilot_bridge_calls_total{decision=\"deny\"}") >= 2.0);
}

/// A server whose policies set that deadline, in milliseconds.
fn with_deadline(stage: &Stage, deadline: u32) -> Server {
    let policies = stage.policies();
    fs::set_permissions(&policies, fs::Permissions::from_mode(0o700)).unwrap();
    let path = policies.join("bridge.toml");
    let text = fs::read_to_string(&path).unwrap();
    let changed: String = text
        .lines()
        .map(|line| match line.starts_with("deadline_ms") {
            true => format!("deadline_ms = {deadline}\n"),
            false => format!("{line}\n"),
        })
        .collect();
    assert_ne!(changed, text);
    fs::write(&path, changed).unwrap();
    Server::with(stage, |command| {
        command.arg("--policies").arg(&policies);
    })
}

#[test]
fn a_record_that_somebody_holds_denies_in_time() {
    let stage = Stage::new();
    let server = with_deadline(&stage, 1_500);
    assert_eq!(server.call(README, &read_me()).status, 200);
    let lock = fs::File::open(stage.state().join("audit/lock")).unwrap();
    lock.lock().unwrap();
    let began = Instant::now();
    // More than are judged on the threads that serve everybody: those are not to wait for one another.
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| server.call(README, &read_me())))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let asked = Instant::now();
        let alive = server.send("GET /healthz", &[("authorization", "")], "");
        assert_eq!(alive.status, 200);
        assert!(asked.elapsed() < Duration::from_secs(1), "it waits, too");
        for call in calls {
            let answer = call.join().unwrap();
            let result = &answer.json()["result"];
            assert_eq!(result["isError"], true, "{answer:?}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.starts_with("BLOCKED: "), "{text}");
            assert!(!text.contains("read me"), "{text}");
        }
    });
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    lock.unlock().unwrap();
    let answer = server.call(README, &read_me());
    assert_eq!(answer.json()["result"]["content"][0]["text"], "read me\n");
    let record = stage.record();
    let late = record.iter().filter(|line| line["kind"] == "superseded");
    assert!(late.count() >= 12, "a denial is not in the record");
    assert_verified(&stage);
}

#[test]
fn what_runs_is_finished_before_the_end() {
    let stage = Stage::new();
    let mut server = with_deadline(&stage, 10_000);
    assert_eq!(server.call(README, &read_me()).status, 200);
    // Whoever holds the record's lock holds the call.
    let lock = fs::File::open(stage.state().join("audit/lock")).unwrap();
    lock.lock().unwrap();
    let mut running = server.connect();
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", README),
    ];
    let request = server.request("POST /mcp", &headers, &call(README, &read_me()));
    running.write_all(request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    server.signal(Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(300));
    let answer = server.call(README, &read_me());
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.json()["retry_after"], 1);
    assert_eq!(answer.json()["cause"], "draining");
    lock.unlock().unwrap();
    let answer = Answer::read(&mut running);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["result"]["content"][0]["text"], "read me\n");
    let (status, said) = server.wait();
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(said, "ending: what runs has 10 s to finish\n");
    assert_eq!(refusals(&stage, "draining"), 1);
    assert_verified(&stage);
}

#[test]
fn idle_streams_do_not_hold_the_end_up() {
    let stage = Stage::new();
    let mut server = Server::start(&stage);
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let answer = server.send("POST /mcp", &[], &body.to_string());
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("accept", "text/event-stream"),
    ];
    let mut stream = server.connect();
    let request = server.request("GET /mcp", &headers, "");
    stream.write_all(request.as_bytes()).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let began = Instant::now();
    server.signal(Signal::SIGINT);
    let (status, said) = server.wait();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn clients_are_told_what_they_need_and_no_token() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    let config = |words: &[&str]| {
        let output = stage
            .command(&["mcp", "config"])
            .args(words)
            .arg("--state")
            .arg(stage.state())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains(&server.token), "{text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let listen = ["--http", "--listen", server.address.as_str()];
    for (client, pointer) in [
        ("vscode", "/servers/copilot-bridge"),
        ("copilot", "/mcpServers/copilot-bridge"),
        ("claude", "/mcpServers/copilot-bridge"),
        ("openclaw", "/mcp/servers/copilot-bridge"),
    ] {
        let told = config(&[&[client], &listen[..]].concat());
        let found = told.pointer(pointer).unwrap();
        assert_eq!(found["url"], format!("http://{}/mcp", server.address));
        let bearer = found["headers"]["Authorization"].as_str().unwrap();
        assert!(bearer.starts_with("Bearer ${"), "{bearer}");
        // What is started by that command line is a server.
        let told = config(&[client, "--workspace", "."]);
        let name = if client == "openclaw" {
            "copilot"
        } else {
            "openclaw-memory"
        };
        let pointer = pointer.replace("copilot-bridge", name);
        let found = told.pointer(&pointer).unwrap();
        let words = found["args"].as_array().unwrap();
        let words = words.iter().map(|word| word.as_str().unwrap());
        let program = std::path::Path::new(found["command"].as_str().unwrap());
        assert!(program.is_absolute());
        let mut child = std::process::Command::new(program)
            .args(words)
            .current_dir("/")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }}});
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{ask}").unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        drop(stdin);
        child.wait().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        let versions = answer["result"]["supportedVersions"].as_array().unwrap();
        assert!(versions.contains(&json!("2026-07-28")), "{line}");
    }
}

#[test]
fn a_new_token_shuts_the_old_one_out_of_a_running_server() {
    let stage = Stage::new();
    let mut server = Server::start(&stage);
    assert_eq!(server.call(README, &read_me()).status, 200);
    let output = stage
        .command(&["token", "rotate", "--state"])
        .arg(stage.state())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let path = stage.state().join("token");
    let said = format!("a new token is in {}\n", path.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), said);
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(server.call(README, &read_me()).status, 401);
    server.token = fs::read_to_string(path).unwrap().trim_end().to_owned();
    assert_eq!(server.call(README, &read_me()).status, 200);
}

#[test]
fn no_agent_gets_at_the_token() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    for name in ["token", "token-key"] {
        let path = stage.state().join(name);
        let path = path.to_str().unwrap();
        for (tool, args) in [
            ("view", json!({"path": path})),
            ("bash", json!({"command": format!("cat {path}")})),
            ("bash", json!({"command": "copilot-bridge token mint"})),
            ("bash", json!({"command": "copilot-bridge serve"})),
        ] {
            assert_eq!(stage.judge(tool, &args).decision(), "deny", "{args}");
        }
    }
    // Nor through the server itself.
    let path = stage.state().join("token");
    let answer = server.call(README, &json!({"path": path}));
    assert!(!answer.body.contains(&server.token), "{answer:?}");
}

#[test]
fn an_installation_has_a_token_from_the_start() {
    let stage = Stage::new();
    let (home, machine) = (stage.path("home"), stage.path("machine"));
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(&machine).unwrap();
    let init = || {
        let output = stage
            .command(&["init", "--home"])
            .arg(&home)
            .arg("--etc")
            .arg(&machine)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let path = home.join(".local/state/copilot-bridge/token");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let token = fs::read_to_string(path).unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains(token.trim_end()));
        token
    };
    let first = init();
    assert_eq!(first.trim_end().len(), 43);
    assert_eq!(init(), first);
}
