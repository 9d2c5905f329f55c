//! The program in a workspace and a state directory that go away.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// The program under test: another build where the variable names one.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("COPILOT_BRIDGE_BIN")
        .filter(|path| !path.is_empty())
        .map_or_else(
            || PathBuf::from(env!("CARGO_BIN_EXE_copilot-bridge")),
            PathBuf::from,
        )
}

/// A workspace with a few files, a state directory, and the program to run there.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for (name, text) in [
            ("ws/README.md", "read me\n"),
            ("ws/src/main.rs", "fn main() {}\n"),
            ("ws/a.txt", "hello file\n"),
            ("ws/new.txt", "line1\n"),
            ("outside/secret.txt", "x\n"),
        ] {
            stage.write(name, text);
        }
        fs::create_dir_all(stage.path("ws/.git")).unwrap();
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("ws")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The default policies as files, for a test to change.
    pub(crate) fn policies(&self) -> PathBuf {
        let dir = self.path("policies");
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("policies"),
            &dir,
        );
        dir
    }

    /// The program with these words, in the workspace.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(words)
            .current_dir(self.workspace())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The hook for an event, with this stage's state directory.
    pub(crate) fn hook(&self, event: &str, more: &[&str]) -> Command {
        let mut command = self.command(&["hook", event]);
        command.args(more).arg("--state").arg(self.state());
        command
    }

    /// A camelCase event of Copilot CLI about a tool.
    pub(crate) fn call(&self, tool: &str, args: &Value) -> Value {
        json!({
            "sessionId": "session-1",
            "timestamp": 1,
            "cwd": self.workspace(),
            "toolName": tool,
            "toolArgs": args,
        })
    }

    /// The answer to a tool call before it happens.
    pub(crate) fn judge(&self, tool: &str, args: &Value) -> Answer {
        let event = self.call(tool, args);
        send(self.hook("pre-tool-use", &[]), event.to_string().as_bytes())
    }

    /// The files of the record.
    pub(crate) fn days(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("audit"));
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut days: Vec<PathBuf> = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .filter(|path| name(path).starts_with("audit-"))
            .collect();
        days.sort();
        days
    }

    /// The next line goes to the file of that day.
    #[cfg(unix)]
    pub(crate) fn begin_day(&self, day: &str) {
        use std::os::unix::fs::OpenOptionsExt;
        let dir = self.state().join("audit");
        let path = dir.join(format!("audit-{day}.jsonl"));
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        options.open(path).unwrap();
        // It holds the name of the file before.
        fs::remove_file(dir.join("lock")).unwrap();
    }

    /// Every line of the record.
    pub(crate) fn record(&self) -> Vec<Value> {
        self.days()
            .iter()
            .flat_map(|day| {
                fs::read_to_string(day)
                    .unwrap()
                    .lines()
                    .map(|line| serde_json::from_str(line).unwrap())
                    .collect::<Vec<Value>>()
            })
            .collect()
    }
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

/// What the program said, and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) text: String,
    pub(crate) errors: String,
}

impl Answer {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            text: String::from_utf8(output.stdout.clone()).unwrap(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The one JSON object on stdout.
    pub(crate) fn json(&self) -> Value {
        let value: Value =
            serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert!(value.is_object(), "{self:?}");
        value
    }

    /// What Copilot CLI makes of it before a tool: allow, ask or deny.
    pub(crate) fn decision(&self) -> &'static str {
        let value = self.json();
        let said = value.get("permissionDecision").and_then(Value::as_str);
        match (self.code, said) {
            (0, None) if value == json!({}) => "allow",
            (0, Some("ask")) => "ask",
            (2, Some("deny")) => {
                assert!(!self.reason().is_empty(), "{self:?}");
                "deny"
            }
            _ => panic!("no form that the host knows: {self:?}"),
        }
    }

    pub(crate) fn reason(&self) -> String {
        self.json()
            .get("permissionDecisionReason")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }
}

/// Runs a command with that on stdin.
pub(crate) fn send(mut command: Command, stdin: &[u8]) -> Answer {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // A program that answers before it has read everything is right to.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    Answer::of(&child.wait_with_output().unwrap())
}

/// Runs a command without anything on stdin.
pub(crate) fn run(mut command: Command) -> Answer {
    Answer::of(&command.output().unwrap())
}
