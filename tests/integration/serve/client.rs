//! A server that runs, and a client that sends it whatever bytes a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::program::Stage;

/// Nothing that a test waits for takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Server {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    pub(super) address: String,
    pub(super) token: String,
}

/// An answer, as it came.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Server {
    /// A server with a token that was made for it.
    pub(super) fn start(stage: &Stage) -> Self {
        Self::with(stage, |_| {})
    }

    pub(super) fn with(stage: &Stage, change: impl FnOnce(&mut Command)) -> Self {
        let output = stage
            .command(&["token", "path", "--state"])
            .arg(stage.state())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let path = String::from_utf8(output.stdout).unwrap();
        let token = std::fs::read_to_string(path.trim_end()).unwrap();
        let mut command = serve(stage);
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let address = line
            .strip_prefix("listening on http://")
            .and_then(|rest| rest.strip_suffix("/mcp\n"))
            .unwrap_or_else(|| panic!("{line}"))
            .to_owned();
        Self {
            child,
            errors,
            address,
            token: token.trim_end().to_owned(),
        }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to these very bytes.
    pub(super) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // Who is refused early may be hung up on.
        let _ = stream.write_all(bytes);
        Answer::read(&mut stream)
    }

    /// A request with the headers that every good one has, unless they are named here.
    pub(super) fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.raw(self.request(line, headers, body).as_bytes())
    }

    pub(super) fn request(&self, line: &str, headers: &[(&str, &str)], body: &str) -> String {
        let bearer = format!("Bearer {}", self.token);
        let length = body.len().to_string();
        let usual = [
            ("host", self.address.as_str()),
            ("authorization", &bearer),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("content-length", &length),
            ("connection", "close"),
        ];
        let named = |name: &str| headers.iter().any(|(other, _)| *other == name);
        let mut text = format!("{line} HTTP/1.1\r\n");
        for (name, value) in usual.iter().filter(|(name, _)| !named(name)).chain(headers) {
            // A header without a value is one that is left out.
            if !value.is_empty() {
                text += &format!("{name}: {value}\r\n");
            }
        }
        text + "\r\n" + body
    }

    /// A call of a tool by a client of 2026-07-28.
    pub(super) fn call(&self, tool: &str, arguments: &Value) -> Answer {
        self.call_with(&[], tool, arguments)
    }

    pub(super) fn call_with(&self, more: &[(&str, &str)], tool: &str, arguments: &Value) -> Answer {
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
        ];
        headers.extend(more);
        self.send("POST /mcp", &headers, &call(tool, arguments))
    }

    /// The value of one line of the metrics.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let text = self.send("GET /metrics", &[], "").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("{name} is not in\n{text}"));
        value.trim().parse().unwrap()
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// How it ends, and what it said.
    pub(super) fn wait(&mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => panic!("it does not end"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let mut said = String::new();
        self.errors.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    /// What comes until the other side closes.
    pub(super) fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        // What came before the line broke is an answer.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The last event of a stream.
    pub(super) fn event(&self) -> Value {
        let data = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .rfind(|data| data.starts_with('{'))
            .unwrap_or_else(|| panic!("no event: {self:?}"));
        serde_json::from_str(data).unwrap()
    }
}

/// The program that serves, on any free port.
pub(super) fn serve(stage: &Stage) -> Command {
    let mut command = stage.command(&["serve", "--listen", "127.0.0.1:0", "--workspace"]);
    command
        .arg(stage.workspace())
        .arg("--state")
        .arg(stage.state())
        .stderr(Stdio::piped());
    command
}

/// The body of a call by a client of 2026-07-28.
pub(super) fn call(tool: &str, arguments: &Value) -> String {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": tool, "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            },
        },
    })
    .to_string()
}
