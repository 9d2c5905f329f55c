//! Servers at an address, and chains of calls that come back to where they began.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::bridge::engine::on_known_stack;
use super::super::bridge::gate::place::Installation;
use super::super::bridge::gate::{Gate, Sink};
use super::super::bridge::mcp::copilot::Copilot;
use super::super::bridge::mcp::proxy::Proxy;
use super::super::bridge::mcp::rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use super::super::bridge::mcp::rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
};
use super::super::bridge::mcp::{About, Bridge, Gates, stdio};
use super::super::bridge::policy::compile::Compiled;
use super::super::bridge::policy::{self, Base, Locations};
use super::super::bridge::upstream::server::{Address, Bounds, Place};
use super::super::program::{Stage, binary, run};
use super::client::{Client, blocked_by, words};

#[derive(Debug)]
struct Fixed(Arc<Gate>);

impl Gates for Fixed {
    fn current(&self) -> Arc<Gate> {
        Arc::clone(&self.0)
    }
}

fn gates(stage: &Stage) -> Arc<dyn Gates> {
    let locations = Locations {
        organisation: None,
        base: Base::Configured(stage.path("policies")),
        workspace: None,
    };
    let bundle = on_known_stack(|| policy::open(&locations, Compiled::default())).unwrap();
    let here = Installation {
        home: None,
        said_home: None,
        uid: 0,
        policies: vec![stage.path("policies")],
        state: stage.path("far"),
        binary: None,
        depth: 0,
        count_ancestors: false,
        pinned: None,
    };
    Arc::new(Fixed(Arc::new(Gate::new(Ok(bundle), here, Sink::State))))
}

fn about(stage: &Stage) -> About {
    About {
        name: "far".to_owned(),
        instructions: String::new(),
        workspace: stage.workspace().to_str().unwrap().to_owned(),
        depth: 0,
        private: false,
    }
}

/// Serves over HTTP, until the runtime is dropped.
fn serve(offer: impl FnOnce(SocketAddr) -> Bridge) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = stdio::runtime().unwrap();
    let address = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bridge = offer(address);
        let service = StreamableHttpService::new(
            move || Ok(bridge.clone()),
            Arc::new(LocalSessionManager::default()),
            StreamableHttpServerConfig::default(),
        );
        let router = axum::Router::new().route_service("/mcp", service);
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    });
    (runtime, address)
}

/// All tools of that server may be called without a question.
fn trust(stage: &Stage, name: &str) {
    let text = format!("format = 1\n[[server]]\nname = \"{name}\"\ntrust = \"trusted_write\"\n");
    fs::write(stage.policies().join("upstreams.toml"), text).unwrap();
    let file = stage.path("policies/autonomy.cedar");
    let policies = fs::read_to_string(&file).unwrap();
    // Nobody pins in these tests.
    let policies = policies.replace(
        "resource.description == \"new\"",
        "resource.description == \"never\"",
    );
    // And whatever it offers is trusted, however long its names become.
    let policies = policies.replace(
        "when { resource.trust != \"\" }",
        "when { resource.trust == \"sandboxed\" }",
    );
    fs::write(&file, policies).unwrap();
}

fn proxy(stage: &Stage, address: SocketAddr) -> Client {
    let mut command = stage.command(&["mcp", "proxy", "--name", "far", "--policies"]);
    command.arg(stage.path("policies"));
    command.arg("--state").arg(stage.state());
    command.args(["--url", &format!("http://{address}/mcp")]);
    Client::start(command)
}

#[test]
fn a_server_at_an_address_is_a_server() {
    let stage = Stage::new();
    trust(&stage, "far");
    let (runtime, address) = serve(|_| {
        let files = Copilot::new(&stage.workspace());
        Bridge::new(about(&stage), gates(&stage)).with_tools(Arc::new(files))
    });
    let mut client = proxy(&stage, address);
    let tools = client.tools();
    assert_eq!(tools[0]["name"], "far__copilot_read_file");
    let result = client.call("far__copilot_read_file", json!({"path": "a.txt"}));
    assert_eq!(words(&result), "hello file\n", "{result}");
    drop(runtime);
    let result = client.call("far__copilot_read_file", json!({"path": "a.txt"}));
    assert_eq!(result["isError"], true, "{result}");
}

#[test]
fn a_bridge_that_stands_behind_itself_ends() {
    let stage = Stage::new();
    trust(&stage, "far");
    let (_runtime, address) = serve(|address| {
        let gates = gates(&stage);
        let files = Copilot::new(&stage.workspace());
        let itself = Address::new(&format!("http://{address}/mcp"), Vec::new()).unwrap();
        let place = Place::Web(itself);
        let state = stage.path("far");
        let proxy = Proxy::new(
            "far",
            place,
            Bounds::default(),
            Arc::clone(&gates),
            &state,
            0,
        );
        Bridge::new(about(&stage), gates)
            .with_tools(Arc::new(files))
            .with_tools(Arc::new(proxy))
    });
    let mut client = proxy(&stage, address);
    let began = Instant::now();
    let tools = client.tools();
    // Each time around the names have one more prefix, as far as the chain may go.
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"far__copilot_read_file"), "{names:?}");
    assert!(names.len() < 20, "{names:?}");
    let result = client.call("far__copilot_read_file", json!({"path": "a.txt"}));
    assert_eq!(words(&result), "hello file\n", "{result}");
    // Some of them go around once too often.
    let mut ended = 0;
    for name in names
        .iter()
        .filter(|name| **name != "far__copilot_read_file")
    {
        let result = client.call(name, json!({"path": "a.txt"}));
        ended += usize::from(words(&result).starts_with("Maximum call depth exceeded"));
    }
    assert!(ended > 0, "{names:?}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_command_that_starts_itself_ends() {
    let stage = Stage::new();
    trust(&stage, "loop");
    let script = stage.path("again.sh");
    let line = format!(
        "#!/bin/sh\necho >> {}\nexec {} mcp proxy --name loop --state {} --policies {} -- {}\n",
        stage.path("starts").display(),
        binary().display(),
        stage.state().display(),
        stage.path("policies").display(),
        script.display(),
    );
    fs::write(&script, line).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = stage.command(&["mcp", "proxy", "--name", "loop", "--policies"]);
    command.arg(stage.path("policies"));
    command.arg("--state").arg(stage.state());
    command.arg("--").arg(&script);
    let mut client = Client::start(command);
    let answer = client.whole("tools/list", json!({}));
    assert_eq!(
        answer["error"]["message"],
        "the server `loop` refuses to list its tools"
    );
    let starts = fs::read_to_string(stage.path("starts")).unwrap();
    assert_eq!(starts.lines().count(), 3, "as deep as bridge.toml lets it");
    client.end();
    let began = Instant::now();
    while is_running(&script) {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "something is left behind"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_running(script: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(script.to_str().unwrap()))
}

#[test]
fn a_chain_that_is_too_long_is_told_so() {
    let stage = Stage::new();
    trust(&stage, "far");
    let (_runtime, address) = serve(|_| {
        let files = Copilot::new(&stage.workspace());
        Bridge::new(about(&stage), gates(&stage)).with_tools(Arc::new(files))
    });
    let mut client = proxy(&stage, address);
    client.tools();
    // Below the limit here, at the limit there.
    let result = client.call(
        "far__copilot_read_file",
        json!({"path": "a.txt", "_depth": 2}),
    );
    let text = "Maximum call depth exceeded (cycle detected). Depth: 3, max: 3";
    assert_eq!(words(&result), text, "{result}");
    assert_eq!(blocked_by(&result), "depth-limit", "{result}");
    let verified = run({
        let mut command = stage.command(&["audit", "verify", "--state"]);
        command.arg(stage.path("far"));
        command
    });
    assert_eq!(verified.code, 0, "{verified:?}");
}
