//! The public conformance suite of MCP (`@modelcontextprotocol/conformance`), against a server with
//! our transport, gate and configuration.
//!
//! `COPILOT_BRIDGE_CONFORMANCE` names the folder with the suite and a Node that can run it
//! (`node_modules/node/bin/node`). Without it the tests say that they were skipped, unless
//! `COPILOT_BRIDGE_CONFORMANCE_REQUIRED=1`.
#![cfg(all(unix, feature = "serve"))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a broken expectation is what a test reports"
)]
#![expect(deprecated, reason = "the suite tries what older protocols have, too")]

mod fixture;
mod tools;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use bridge::gate::place::Installation;
use bridge::gate::{Gate, Sink};
use bridge::http::Limits;
use bridge::mcp::{About, Bridge, Gates, http, stdio};
use bridge::policy::{self, Locations};
use copilot_bridge as bridge;
use fixture::{Fixture, Subscribers};
use tokio_util::sync::CancellationToken;
use tools::{Files, Tools};

#[derive(Debug)]
struct Fixed(Arc<Gate>);

impl Gates for Fixed {
    fn current(&self) -> Arc<Gate> {
        Arc::clone(&self.0)
    }
}

#[test]
fn the_protocol_with_sessions() {
    suite("2025-11-25");
}

#[test]
fn the_protocol_without_sessions() {
    suite("2026-07-28");
}

/// The Inspector finds our tools, calls one, and is told why another is blocked.
#[test]
fn the_inspector_understands_us() {
    let Some(tools) = folder() else { return };
    let workspace = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("a.txt"), "hello").unwrap();
    let ask = |method: &[&str]| {
        let node = tools.join("node_modules/node/bin");
        let path = std::env::var("PATH").unwrap();
        let output = Command::new(tools.join("node_modules/.bin/mcp-inspector"))
            .env("PATH", format!("{}:{path}", node.display()))
            .arg("--cli")
            .arg(env!("CARGO_BIN_EXE_copilot-bridge"))
            .args(["mcp", "copilot", "--workspace"])
            .arg(workspace.path())
            .arg("--state")
            .arg(state.path())
            .args(method)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let call = |tool: &str, argument: &str| {
        ask(&[
            "--method",
            "tools/call",
            "--tool-name",
            tool,
            "--tool-arg",
            argument,
        ])
    };
    let listed = ask(&["--method", "tools/list"]);
    assert!(listed.contains("copilot_create_file"), "{listed}");
    let read = call("copilot_read_file", "path=a.txt");
    assert!(read.contains("hello"), "{read}");
    let blocked = call("copilot_read_file", "path=../b");
    assert!(
        blocked.contains("Path traversal is not allowed"),
        "{blocked}"
    );
}

/// Where the suite is; nothing, which is said, where nobody named it.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("COPILOT_BRIDGE_CONFORMANCE").map(PathBuf::from);
    if named.is_none() {
        let required = std::env::var_os("COPILOT_BRIDGE_CONFORMANCE_REQUIRED").is_some();
        assert!(!required, "the suite is not there");
        eprintln!("SKIPPED: COPILOT_BRIDGE_CONFORMANCE does not name the suite");
    }
    named
}

/// Every scenario is green, but for those that `expected.yaml` lists.
fn suite(version: &str) {
    let Some(tools) = folder() else { return };
    let state = tempfile::tempdir().unwrap();
    let results = tempfile::tempdir().unwrap();
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let runtime = stdio::runtime().unwrap();
    let address = runtime.block_on(serve(state.path().to_path_buf()));
    let output = Command::new(tools.join("node_modules/node/bin/node"))
        .arg(tools.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args([
            "server",
            "--url",
            &address,
            "--suite",
            "all",
            "--spec-version",
            version,
        ])
        .arg("--expected-failures")
        .arg(here.join(format!("tests/conformance/expected-{version}.yaml")))
        .arg("--output-dir")
        .arg(results.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{version}: {told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // Every call of the suite is in the record.
    let record = std::fs::read_dir(state.path().join("audit")).unwrap();
    let lines: usize = record
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .map(|text| text.matches(r#""kind":"mcp_tool_call""#).count())
        .sum();
    assert!(lines > 20, "{lines} lines");
}

async fn serve(state: PathBuf) -> String {
    let policies = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("policies");
    let bundle = policy::load(&Locations::only(&policies)).unwrap();
    let installation = Installation {
        state: state.clone(),
        ..Installation::default()
    };
    let gate = Gate::new(Ok(bundle), installation, Sink::State);
    let about = About {
        name: "fixture".to_owned(),
        instructions: String::new(),
        workspace: state.to_str().unwrap().to_owned(),
        depth: 0,
        private: false,
    };
    let subscribers = Subscribers::default();
    let mut key = [0; 32];
    getrandom::fill(&mut key).unwrap();
    let tools = Tools {
        subscribers: subscribers.clone(),
        key,
    };
    let bridge = Bridge::new(about, Arc::new(Fixed(Arc::new(gate))))
        .with_tools(Arc::new(tools))
        .with_resources(Arc::new(Files));
    let fixture = Fixture {
        bridge,
        subscribers,
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = http::routes(fixture, &Limits::default(), CancellationToken::new());
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/mcp")
}
