//! Where the benches play: a workspace, the shipped policies and three events of a host.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// What a bench may fail with.
pub(crate) type Failure = Box<dyn Error>;

/// The shipped policies.
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");

/// One event, and the answer that the shipped policies give to it.
pub(crate) struct Sample {
    /// What the figures call it.
    pub(crate) name: &'static str,
    /// The word that stands in the answer; an allowed call is answered with `{}`.
    pub(crate) answer: &'static str,
    tool: &'static str,
    args: fn() -> Value,
}

/// A command line that everybody runs, a file of the workspace, and what a person must approve.
pub(crate) const SAMPLES: [Sample; 3] = [
    Sample {
        name: "shell",
        answer: "{}",
        tool: "bash",
        args: || json!({"command": "git status", "description": "Show the state of the tree"}),
    },
    Sample {
        name: "view",
        answer: "{}",
        tool: "view",
        args: || json!({"path": "src/main.rs"}),
    },
    Sample {
        name: "ask",
        answer: "\"ask\"",
        tool: "bash",
        args: || json!({"command": "git push origin main", "description": "Publish"}),
    },
];

/// A temporary directory that holds everything. Dropping it removes it.
pub(crate) struct Scene {
    dir: TempDir,
    workspace: PathBuf,
}

impl Scene {
    /// Builds the workspace.
    pub(crate) fn new() -> Result<Self, Failure> {
        let dir = tempfile::Builder::new()
            .prefix("copilot-bridge-bench-")
            .tempdir()?;
        let workspace = dir.path().join("workspace");
        fs::create_dir_all(workspace.join(".git"))?;
        fs::create_dir_all(workspace.join("src"))?;
        fs::write(workspace.join("src/main.rs"), "fn main() {}\n")?;
        Ok(Self { dir, workspace })
    }

    /// A path beside the workspace.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A fresh directory beside the workspace that only its owner may use.
    pub(crate) fn private(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.beside(name);
        fs::create_dir(&path)?;
        set_mode(&path, 0o700)?;
        Ok(path)
    }

    /// The shipped policies in a directory of their own, whatever the checkout's modes are.
    pub(crate) fn policies(&self, name: &str) -> io::Result<PathBuf> {
        let target = self.private(name)?;
        copy_all(Path::new(SHIPPED), &target)?;
        Ok(target)
    }

    /// An event as Copilot CLI writes it before a tool.
    pub(crate) fn event(&self, tool: &str, args: &Value) -> String {
        json!({
            "sessionId": "5f3b5be4-85f3-4df7-b02b-79f67e6f486a",
            "timestamp": 1_795_205_717_189_u64,
            "cwd": self.workspace,
            "toolName": tool,
            "toolArgs": args,
        })
        .to_string()
    }

    /// The event of a sample.
    pub(crate) fn sample(&self, sample: &Sample) -> String {
        self.event(sample.tool, &(sample.args)())
    }
}

/// Copies what is in a folder, for its owner only.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        // What editors read is a link to a folder.
        if entry.path().is_dir() {
            fs::create_dir(&copy)?;
            set_mode(&copy, 0o700)?;
            copy_all(&entry.path(), &copy)?;
        } else {
            fs::copy(entry.path(), &copy)?;
            set_mode(&copy, 0o600)?;
        }
    }
    Ok(())
}

/// Sets a mode, where files have one.
#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// The machine's load over the last minute, where it is known.
pub(crate) fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// What to print about the load: figures of a busy machine mean nothing.
pub(crate) fn load_line() -> String {
    /// Above this, another program gets in the way of the one that is measured.
    const QUIET: f64 = 0.5;
    match load() {
        Some(load) if load < QUIET => format!("load {load:.2}: quiet"),
        Some(load) => format!(
            "load {load:.2}: NOT QUIET (below {QUIET} would be); compare ratios only, and repeat"
        ),
        None => "load unknown: make sure that nothing else runs".to_owned(),
    }
}

/// The value below which that share of sorted values lies.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * share).ceil() as usize;
    sorted.get(index.min(last)).copied().unwrap_or(f64::NAN)
}
