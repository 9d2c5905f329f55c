//! Where a case plays: one temporary directory with a workspace, a place outside of it, the
//! host's home, policies and state, and the environment in which the client runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{self, Client, Slot};
use crate::mock_model::MockModel;

/// The program under test.
pub(crate) const BRIDGE: &str = env!("CARGO_BIN_EXE_copilot-bridge");
/// How every stage's directory begins, by which leftovers of an interrupted run are known.
pub(crate) const STAGE_PREFIX: &str = "copilot-bridge-e2e-";

/// The events that concern tools.
pub(crate) const TOOL_EVENTS: &[&str] = &[
    "preToolUse",
    "permissionRequest",
    "postToolUse",
    "postToolUseFailure",
];
/// Those, and every other event that the client knows.
pub(crate) const ALL_EVENTS: &[&str] = &[
    "sessionStart",
    "sessionEnd",
    "userPromptSubmitted",
    "userPromptTransformed",
    "preToolUse",
    "permissionRequest",
    "preMcpToolCall",
    "postToolUse",
    "postToolUseFailure",
    "errorOccurred",
    "agentStop",
    "subagentStart",
    "subagentStop",
    "preCompact",
    "notification",
];

/// A case's surroundings. Dropping it removes them.
pub(crate) struct Stage {
    pub(crate) client: &'static Client,
    dir: TempDir,
    _slot: Slot,
}

impl Stage {
    /// Sets the stage for a case that may run beside others; `None` where the client is missing.
    pub(crate) fn new(case: &str) -> Option<Self> {
        let client = client::find(case)?;
        Some(Self::set(client, Slot::one()))
    }

    /// The same, with nothing else running, and as root only.
    pub(crate) fn alone_as_root(case: &str) -> Option<Self> {
        let client = client::find(case)?;
        Self::is_root(case).then(|| Self::set(client, Slot::all()))
    }

    /// Whether root runs the suite on Linux, whose mounts and places the cases know; says that the
    /// case is skipped if not.
    fn is_root(case: &str) -> bool {
        let root = cfg!(target_os = "linux") && nix::unistd::geteuid().is_root();
        if !root {
            client::skip(case, "it needs root on Linux");
        }
        root
    }

    fn set(client: &'static Client, slot: Slot) -> Self {
        // Not below the system's temporary directory, which policies may treat in its own way.
        let dir = tempfile::Builder::new()
            .prefix(STAGE_PREFIX)
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("the target directory is writable");
        let stage = Self {
            client,
            dir,
            _slot: slot,
        };
        for (directory, mode) in [
            (stage.workspace(), 0o755),
            (stage.outside(), 0o755),
            (stage.programs(), 0o755),
            (stage.copilot_home(), 0o700),
            (stage.policies(), 0o700),
            (stage.state(), 0o700),
        ] {
            fs::create_dir_all(&directory).expect("a fresh directory");
            set_mode(&directory, mode);
        }
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        copy_tree(&shipped, &stage.policies());
        let git = Command::new("git")
            .args(["init", "--quiet"])
            .arg(stage.workspace())
            .status();
        assert!(git.expect("git is installed").success(), "git init");
        stage
    }

    /// The agent's working directory, a git repository.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    /// A directory that is none of the agent's business.
    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    /// A directory of programs at the end of `PATH`.
    fn programs(&self) -> PathBuf {
        self.dir.path().join("programs")
    }

    pub(crate) fn copilot_home(&self) -> PathBuf {
        self.dir.path().join("copilot-home")
    }

    pub(crate) fn policies(&self) -> PathBuf {
        self.dir.path().join("policies")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Writes a file of the workspace, with the directories above it.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("writable");
        fs::write(&path, text).expect("writable");
        path
    }

    /// Whether a file of the workspace exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.workspace().join(path).exists()
    }

    /// Adds a file to the policies, as whoever owns them would.
    pub(crate) fn add_policy(&self, name: &str, text: &str) {
        let path = self.policies().join(name);
        fs::write(&path, text).expect("writable");
        set_mode(&path, 0o600);
    }

    /// Adds a condition under which a shipped policy does not hold, as a team does that lists
    /// what it trusts.
    pub(crate) fn exempt(&self, id: &str, condition: &str) {
        let label = format!("@id(\"{id}\")");
        for entry in fs::read_dir(self.policies()).expect("our own directory") {
            let path = entry.expect("our own directory").path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let Some((before, policy)) = text.split_once(&label) else {
                continue;
            };
            let (policy, after) = policy.split_once(";\n").expect("a policy ends");
            let text = format!("{before}{label}{policy}\nunless {{ {condition} }};\n{after}");
            fs::write(path, text).expect("writable");
            return;
        }
        panic!("no policy has the id {id}");
    }

    /// Makes a program that leaves `<name>.ran` in the directory it runs in. No policy can have
    /// heard of it.
    pub(crate) fn add_program(&self, name: &str) {
        let path = self.programs().join(name);
        fs::write(&path, format!("#!/bin/sh\n: > {name}.ran\n")).expect("writable");
        set_mode(&path, 0o755);
    }

    /// The hooks as a user's installation has them, for these events only.
    pub(crate) fn install(&self, events: &[&str]) {
        let hooks = events
            .iter()
            .map(|event| ((*event).to_owned(), json!([self.hook(event, "copilot")])))
            .collect();
        self.write_hooks(hooks);
    }

    /// The hooks under the names that the client shares with others, whose form the events then have.
    pub(crate) fn install_shared(&self, events: &[&str]) {
        let hooks = events
            .iter()
            .map(|event| ((*event).to_owned(), json!([self.hook(event, "claude")])))
            .collect();
        self.write_hooks(hooks);
    }

    fn write_hooks(&self, hooks: serde_json::Map<String, Value>) {
        let path = self.copilot_home().join("hooks/copilot-bridge.json");
        fs::create_dir_all(path.parent().expect("a file has a directory")).expect("writable");
        let file = json!({"version": 1, "hooks": hooks});
        fs::write(path, file.to_string()).expect("writable");
    }

    fn hook(&self, event: &str, dialect: &str) -> Value {
        json!({
            "type": "command",
            "exec": BRIDGE,
            "args": [
                "hook", kebab_case(event), "--dialect", dialect,
                "--policies", self.policies(), "--state", self.state(),
            ],
            "timeoutSec": 10,
        })
    }

    /// Runs `copilot-bridge init`, kept out of the real home.
    fn init(&self, arguments: &[&str]) -> Output {
        Command::new(BRIDGE)
            .arg("init")
            .args(arguments)
            .arg("--policies")
            .arg(self.policies())
            .arg("--state")
            .arg(self.state())
            .arg("--copilot-home")
            .arg(self.copilot_home())
            .current_dir(self.workspace())
            .stdin(Stdio::null())
            .output()
            .expect("the program under test starts")
    }

    /// Runs `copilot-bridge init` and insists on its success.
    pub(crate) fn initialise(&self, arguments: &[&str]) {
        let output = self.init(arguments);
        assert!(
            output.status.success(),
            "init {arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Takes the policies and the state away, for an installation to make them.
    pub(crate) fn without_policies(&self) {
        for directory in [self.policies(), self.state()] {
            fs::remove_dir_all(directory).expect("our own directory");
        }
    }

    /// The environment in which `command` finds the offline client's model and this stage.
    pub(crate) fn dress(&self, command: &mut Command, model: &MockModel) {
        let path = std::env::var("PATH").expect("PATH is set");
        command
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", format!("{path}:{}", self.programs().display()))
            .env("HOME", &self.client.home)
            .env("LANG", "C.UTF-8")
            .env("COPILOT_HOME", self.copilot_home())
            .env("COPILOT_OFFLINE", "true")
            .env("COPILOT_AUTO_UPDATE", "false")
            .env("COPILOT_MODEL", "mock-model")
            .env("COPILOT_PROVIDER_BASE_URL", model.url());
    }

    /// Every line of the record, parsed, in the order of writing.
    pub(crate) fn record(&self) -> Vec<Value> {
        let days = copilot_bridge::audit::read::days(&self.state().join("audit"));
        let days = days.expect("a readable directory");
        days.iter()
            .flat_map(|day| {
                let text = fs::read_to_string(day).expect("a readable record");
                text.lines()
                    .map(|line| serde_json::from_str(line).expect("a record line is JSON"))
                    .collect::<Vec<Value>>()
            })
            .collect()
    }

    /// What was decided about a tool's calls, before they ran, in order.
    pub(crate) fn decisions_about(&self, tool: &str) -> Vec<String> {
        self.record_of(tool)
            .iter()
            .map(|line| text_of(line, "decision"))
            .collect()
    }

    /// The record lines about a tool's calls before they ran.
    pub(crate) fn record_of(&self, tool: &str) -> Vec<Value> {
        self.record()
            .into_iter()
            .filter(|line| {
                text_of(line, "event") == "pre_tool_use" && text_of(line, "tool") == tool
            })
            .collect()
    }
}

/// A string field, or nothing.
pub(crate) fn text_of(line: &Value, field: &str) -> String {
    line.get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// How an event is called on the command line.
fn kebab_case(event: &str) -> String {
    let mut name = String::new();
    for letter in event.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

/// Copies a directory, readable by its owner alone whatever the umask says.
fn copy_tree(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a readable directory") {
        let entry = entry.expect("a readable directory");
        let target = to.join(entry.file_name());
        // What editors read is a link to a folder.
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("writable");
            set_mode(&target, 0o700);
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("writable");
            set_mode(&target, 0o600);
        }
    }
}
