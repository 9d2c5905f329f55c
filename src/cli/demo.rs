//! `demo`: three calls through the real hook door, in a workspace that is gone afterwards.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anstyle::Style;
use serde_json::{Value, json};

use super::Outcome;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

const HEAD: Style = Style::new().bold();

pub(crate) fn run(_: &Args, out: &mut dyn Write) -> Outcome {
    let scratch = tempfile::Builder::new()
        .prefix("copilot-bridge-demo-")
        .tempdir()?;
    let workspace = scratch.path().join("workspace");
    let state = scratch.path().join("state");
    std::fs::create_dir_all(workspace.join("src"))?;
    std::fs::write(workspace.join("src/main.rs"), "fn main() {}\n")?;
    writeln!(
        out,
        "A workspace and a record were made for this, and are gone afterwards.\n\
         Each event goes through the hook that a coding agent calls before a tool.\n"
    )?;
    let calls = [
        ("allow", "view", json!({"path": "src/main.rs"})),
        (
            "ask",
            "bash",
            json!({"command": "git push origin main", "description": "publish"}),
        ),
        (
            "deny",
            "bash",
            json!({"command": "cat /etc/shadow", "description": "look"}),
        ),
    ];
    let mut as_expected = true;
    for (expected, tool, args) in calls {
        as_expected &= show(expected, tool, &args, &workspace, &state, out)?;
    }
    let gone = scratch.path().to_path_buf();
    scratch.close()?;
    if !as_expected || gone.exists() {
        return Ok(Exit::Failed);
    }
    writeln!(
        out,
        "Next: `copilot-bridge init` installs this for GitHub Copilot CLI; `copilot-bridge doctor` proves it."
    )?;
    Ok(Exit::Ok)
}

/// Sends one event through the door. Whether the answer is the expected one.
fn show(
    expected: &str,
    tool: &str,
    args: &Value,
    workspace: &Path,
    state: &Path,
    out: &mut dyn Write,
) -> Result<bool, Box<dyn std::error::Error>> {
    let event = json!({
        "sessionId": "demo",
        "timestamp": 0,
        "cwd": workspace,
        "toolName": tool,
        "toolArgs": args,
    });
    let mut child = Command::new(std::env::current_exe()?)
        .args(["hook", "pre-tool-use", "--dialect", "copilot", "--state"])
        .arg(state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(event.to_string().as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let record = crate::audit::read::last(state, |_| true)?.ok_or("the record is empty")?;
    let decision = record
        .get("decision")
        .and_then(Value::as_str)
        .unwrap_or("-");
    writeln!(out, "{HEAD}event{HEAD:#}     {tool} {args}")?;
    writeln!(out, "{HEAD}decision{HEAD:#}  {decision}")?;
    for reason in record
        .get("reasons")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let part = |key: &str| reason.get(key).and_then(Value::as_str).unwrap_or_default();
        let line = reason
            .get("line")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        writeln!(
            out,
            "{HEAD}policy{HEAD:#}    {} ({}:{line})",
            part("id"),
            part("file")
        )?;
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    let code = output
        .status
        .code()
        .map_or_else(|| "none".to_owned(), |code| code.to_string());
    writeln!(
        out,
        "{HEAD}answer{HEAD:#}    {} (exit {code})",
        answer.trim()
    )?;
    writeln!(out, "{HEAD}record{HEAD:#}    {record}\n")?;
    Ok(decision == expected)
}
