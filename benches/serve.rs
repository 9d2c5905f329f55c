//! What the gate costs a call over HTTP, and how many calls it bears.
//!
//! `cargo bench --bench serve`. Measured is the real program, `copilot-bridge serve` with the shipped
//! policies and its record, and beside it the same rmcp server with the same tool and nothing else: no
//! gate, no record, no token. Both read one small file for each call. It fails if a target is missed;
//! figures of a busy machine mean nothing. `-- --share 0.1` does a tenth of the work, for a look.

#[expect(dead_code, reason = "the events of hosts are for the other benches")]
mod scene;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use copilot_bridge::http::axum::Router;
use copilot_bridge::mcp::rmcp;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use scene::{Failure, Scene, load_line, quantile};

/// The targets: the gate's share of a call in µs, calls a second with their p99 in ms, sessions that do
/// nothing, and how much the memory may grow over so many calls, in MiB.
const OVERHEAD: f64 = 300.0;
const RATE: f64 = 2_000.0;
const TAIL: f64 = 20.0;
const SESSIONS: usize = 500;
const CALLS: usize = 100_000;
const GROWTH: f64 = 5.0;

/// So many calls each way are compared, in turns of so many.
const COMPARED: usize = 6_000;
const TURN: usize = 50;

/// So many connections share the load, for so long.
const CONNECTIONS: usize = 8;
const SECONDS: f64 = 20.0;

/// With this first argument the bench is the server without a gate.
const PLAIN: &str = "--plain";

const TOOL: &str = "copilot_read_file";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, file] = words.as_slice()
        && first == PLAIN
    {
        return plain(PathBuf::from(file));
    }
    let share = words
        .iter()
        .skip_while(|word| *word != "--share")
        .nth(1)
        .map_or(Ok(1.0), |share| share.parse::<f64>())?;
    let some = |all: usize| ((all as f64 * share) as usize).max(TURN);
    let mut out = io::stdout().lock();
    writeln!(out, "{}", load_line())?;
    let scene = Scene::new()?;
    let gated = Server::gated(&scene)?;
    let plain = Server::plain(&scene)?;
    let good = [
        overhead(&mut out, &plain, &gated, some(COMPARED))?,
        load(&mut out, &gated, SECONDS * share)?,
        sessions(&mut out, &gated)?,
        memory(&mut out, &gated, some(CALLS))?,
    ];
    writeln!(out, "{}", load_line())?;
    match good.contains(&false) {
        true => Err("a target is missed".into()),
        false => Ok(()),
    }
}

fn mark(good: bool) -> &'static str {
    if good { "≤" } else { "! >" }
}

/// What a call takes more with the gate than without, one after another.
fn overhead(
    out: &mut impl Write,
    plain: &Server,
    gated: &Server,
    calls: usize,
) -> Result<bool, Failure> {
    let mut lines = [Line::to(plain)?, Line::to(gated)?];
    let mut times = [Vec::new(), Vec::new()];
    for line in &mut lines {
        for _ in 0..TURN {
            line.call()?;
        }
    }
    for _ in 0..calls.div_ceil(TURN) {
        for (line, times) in lines.iter_mut().zip(&mut times) {
            for _ in 0..TURN {
                let began = Instant::now();
                line.call()?;
                times.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    let [without, with] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (quantile(&times, 0.5), quantile(&times, 0.99))
    });
    let more = with.0 - without.0;
    let good = more <= OVERHEAD;
    writeln!(
        out,
        "one after another: {:.0} µs without (p99 {:.0}), {:.0} µs with (p99 {:.0}): {more:.0} µs more ({} {OVERHEAD})",
        without.0,
        without.1,
        with.0,
        with.1,
        mark(good),
    )?;
    Ok(good)
}

/// How long calls take that come at a rate of their own, whether the one before is done or not.
fn load(out: &mut impl Write, server: &Server, seconds: f64) -> Result<bool, Failure> {
    let each = RATE / CONNECTIONS as f64;
    let calls = (each * seconds).ceil() as usize;
    let began = Instant::now() + Duration::from_millis(50);
    let before = server.busy()?;
    let mut times: Vec<f64> = Vec::new();
    thread::scope(|scope| -> Result<(), Failure> {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|place| {
                scope.spawn(move || -> Result<Vec<f64>, String> {
                    let mut line = Line::to(server).map_err(|error| error.to_string())?;
                    let mut times = Vec::new();
                    for call in 0..calls {
                        let turn = call as f64 + place as f64 / CONNECTIONS as f64;
                        let due = began + Duration::from_secs_f64(turn / each);
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        line.call().map_err(|error| error.to_string())?;
                        // From when it was due: who waits in the client waits as well.
                        times.push(due.elapsed().as_secs_f64() * 1e3);
                    }
                    Ok(times)
                })
            })
            .collect();
        for one in threads {
            times.extend(one.join().map_err(|_| "a client failed")??);
        }
        Ok(())
    })?;
    let took = began.elapsed().as_secs_f64();
    let rate = times.len() as f64 / took;
    let busy = (server.busy()? - before) / took;
    times.sort_by(f64::total_cmp);
    let tail = quantile(&times, 0.99);
    let good = tail < TAIL && rate >= RATE * 0.98;
    writeln!(
        out,
        "{rate:.0} calls/s for {took:.0} s on {CONNECTIONS} connections (of {RATE}): p50 {:.1} ms, p99 {tail:.1} ms ({} {TAIL}), the server took {busy:.2} of a core",
        quantile(&times, 0.5),
        mark(good),
    )?;
    Ok(good)
}

/// Sessions that do nothing, each with the stream that it listens on.
fn sessions(out: &mut impl Write, server: &Server) -> Result<bool, Failure> {
    let before = server.memory()?;
    let mut held = Vec::new();
    for _ in 0..SESSIONS {
        held.push(Session::begin(server)?);
    }
    let memory = server.memory()? - before;
    thread::sleep(Duration::from_secs(2));
    let mut line = Line::to(server)?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        line.call()?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let mut alive = 0;
    for session in &held {
        alive += usize::from(session.ping(server)?);
    }
    let good = alive == SESSIONS;
    writeln!(
        out,
        "{alive} of {SESSIONS} idle sessions with their streams: {memory:.1} MiB more; a call beside them takes {:.0} µs",
        quantile(&times, 0.5),
    )?;
    Ok(good)
}

/// How much memory is taken after many calls that was not taken after the first ones.
fn memory(out: &mut impl Write, server: &Server, calls: usize) -> Result<bool, Failure> {
    let mut line = Line::to(server)?;
    for _ in 0..calls / 10 {
        line.call()?;
    }
    let before = server.memory()?;
    let began = Instant::now();
    for _ in 0..calls {
        line.call()?;
    }
    let took = began.elapsed().as_secs_f64();
    let after = server.memory()?;
    let good = after - before <= GROWTH;
    writeln!(
        out,
        "{calls} calls ({:.0}/s on one connection): {before:.1} MiB before, {after:.1} after ({} {GROWTH} more)",
        calls as f64 / took,
        mark(good),
    )?;
    Ok(good)
}

/// A server that runs.
struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    fn gated(scene: &Scene) -> Result<Self, Failure> {
        let program = env!("CARGO_BIN_EXE_copilot-bridge");
        let (policies, state) = (scene.policies("served")?, scene.private("serving")?);
        let made = Command::new(program)
            .args(["token", "path", "--state"])
            .arg(&state)
            .output()?;
        let token = std::fs::read_to_string(String::from_utf8(made.stdout)?.trim_end())?;
        let child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--workspace"])
            .arg(scene.beside("workspace"))
            .arg("--policies")
            .arg(policies)
            .arg("--state")
            .arg(state)
            .stderr(Stdio::piped())
            .spawn()?;
        Self::of(child, token.trim_end())
    }

    fn plain(scene: &Scene) -> Result<Self, Failure> {
        let child = Command::new(std::env::current_exe()?)
            .arg(PLAIN)
            .arg(scene.beside("workspace/src/main.rs"))
            .stderr(Stdio::piped())
            .spawn()?;
        Self::of(child, "none")
    }

    fn of(mut child: Child, token: &str) -> Result<Self, Failure> {
        let mut line = String::new();
        let errors = child.stderr.take().ok_or("no stderr")?;
        BufReader::new(errors).read_line(&mut line)?;
        let address = line
            .strip_prefix("listening on http://")
            .and_then(|rest| rest.strip_suffix("/mcp\n"))
            .ok_or_else(|| line.clone())?
            .to_owned();
        Ok(Self {
            child,
            address,
            token: token.to_owned(),
        })
    }

    /// What it has in memory, in MiB.
    fn memory(&self) -> Result<f64, Failure> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        Ok(kib.ok_or("no VmRSS")?.parse::<f64>()? / 1024.0)
    }

    /// The CPU time that it took so far, in seconds.
    fn busy(&self) -> Result<f64, Failure> {
        /// Clock ticks of every Linux.
        const TICKS: f64 = 100.0;
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = text.rsplit(") ").next().unwrap_or_default();
        let fields = fields.split(' ').skip(11).take(2);
        let ticks: Result<Vec<f64>, _> = fields.map(str::parse).collect();
        Ok(ticks?.iter().sum::<f64>() / TICKS)
    }

    fn request(&self, verb: &str, headers: &str, body: &str) -> String {
        format!(
            "{verb} /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection of a client of 2026-07-28 that sends one call again and again.
struct Line {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    body: Vec<u8>,
}

impl Line {
    fn to(server: &Server) -> Result<Self, Failure> {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {
                "name": TOOL, "arguments": {"path": "src/main.rs"},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let headers = format!(
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {TOOL}\r\n"
        );
        let request = server.request("POST", &headers, &body.to_string());
        let stream = TcpStream::connect(&server.address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            request: request.into_bytes(),
            body: Vec::new(),
        })
    }

    fn call(&mut self) -> Result<(), Failure> {
        self.stream.get_mut().write_all(&self.request)?;
        let (head, length) = head(&mut self.stream)?;
        self.body.resize(length.ok_or("no length")?, 0);
        self.stream.read_exact(&mut self.body)?;
        let text = String::from_utf8_lossy(&self.body);
        match head.starts_with("HTTP/1.1 200") && text.contains("fn main()") {
            true => Ok(()),
            false => Err(format!("{head}{text}").into()),
        }
    }
}

/// The head of an answer, and how long its body is.
fn head(stream: &mut impl BufRead) -> Result<(String, Option<usize>), Failure> {
    let (mut head, mut length) = (String::new(), None);
    loop {
        let begin = head.len();
        if stream.read_line(&mut head)? == 0 {
            return Err(format!("the line broke: {head}").into());
        }
        let line = head.get(begin..).unwrap_or_default().trim_end();
        if line.is_empty() {
            return Ok((head, length));
        }
        if let Some(said) = line.strip_prefix("content-length: ") {
            length = Some(said.parse()?);
        }
    }
}

/// A session of a client that began with `initialize`, with the stream that it listens on.
struct Session {
    id: String,
    _stream: TcpStream,
}

impl Session {
    fn begin(server: &Server) -> Result<Self, Failure> {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        });
        let answer = exchange(server, "", &body)?;
        let id = answer
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "))
            .ok_or_else(|| answer.clone())?
            .to_owned();
        let headers = session(&id);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        exchange(server, &headers, &ready)?;
        let mut stream = TcpStream::connect(&server.address)?;
        stream.write_all(server.request("GET", &headers, "").as_bytes())?;
        let (found, _) = head(&mut BufReader::new(&stream))?;
        match found.starts_with("HTTP/1.1 200") {
            true => Ok(Self {
                id,
                _stream: stream,
            }),
            false => Err(found.into()),
        }
    }

    fn ping(&self, server: &Server) -> Result<bool, Failure> {
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        let answer = exchange(server, &session(&self.id), &body)?;
        Ok(answer.starts_with("HTTP/1.1 200") && answer.contains("\"result\""))
    }
}

fn session(id: &str) -> String {
    format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n")
}

/// One request on a connection of its own.
fn exchange(server: &Server, headers: &str, body: &Value) -> Result<String, Failure> {
    let headers = format!("{headers}connection: close\r\n");
    let mut stream = TcpStream::connect(&server.address)?;
    let request = server.request("POST", &headers, &body.to_string());
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The same server without anything of ours.
#[derive(Clone)]
struct Plain(Arc<Path>);

impl ServerHandler for Plain {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(rmcp::model::ToolsCapability::default());
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = Tool::new(TOOL, "Read a file.", Arc::default());
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let path = Arc::clone(&self.0);
        let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
        let text = text.map_err(|_| ErrorData::internal_error("failed", None))?;
        let text = text.map_err(|_| ErrorData::internal_error("failed", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn plain(file: PathBuf) -> Result<(), Failure> {
    let handler = Plain(file.into());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        writeln!(
            io::stderr(),
            "listening on http://{}/mcp",
            listener.local_addr()?
        )?;
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let service = StreamableHttpService::new(
            move || io::Result::Ok(handler.clone()),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let routes = Router::new().route_service("/mcp", service);
        copilot_bridge::http::axum::serve(listener, routes).await?;
        Ok(())
    })
}
