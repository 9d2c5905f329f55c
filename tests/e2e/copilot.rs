//! Drives the client with a prompt on its command line (`-p`), where nobody can be asked.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::mock_model::MockModel;
use crate::stage::Stage;

/// Far above what a run takes, so that only a hanging client meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended. The client's exit code says nothing about denied calls.
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    /// Everything that the client printed.
    pub(crate) output: String,
}

impl Stage {
    /// Runs the client with every tool allowed on its side, so that only the hook stands between
    /// the model and the machine.
    pub(crate) fn run(&self, model: &MockModel) -> Run {
        self.run_with(model, &["--allow-all-tools", "--allow-all-paths"])
    }

    /// Runs the client with these flags.
    pub(crate) fn run_with(&self, model: &MockModel, flags: &[&str]) -> Run {
        self.start(model, "Do the work", flags)
    }

    /// Runs the client with a prompt of its own.
    pub(crate) fn prompt(&self, model: &MockModel, prompt: &str) -> Run {
        self.start(model, prompt, &["--allow-all-tools", "--allow-all-paths"])
    }

    fn start(&self, model: &MockModel, prompt: &str, flags: &[&str]) -> Run {
        let mut command = Command::new(&self.client.program);
        self.dress(&mut command, model);
        command.args(["-p", prompt]).args(flags);
        self.finish(command)
    }

    /// Runs the client as GPT-5.4, whose tools differ: `apply_patch` in place of `create` and
    /// `edit`.
    pub(crate) fn run_gpt(&self, model: &MockModel) -> Run {
        let mut command = Command::new(&self.client.program);
        self.dress(&mut command, model);
        command
            .env("COPILOT_MODEL", "gpt-5.4")
            .env("COPILOT_PROVIDER_WIRE_API", "responses")
            .args([
                "-p",
                "Do the work",
                "--allow-all-tools",
                "--allow-all-paths",
            ]);
        self.finish(command)
    }

    /// Runs a command that was dressed, to its end.
    pub(crate) fn finish(&self, mut command: Command) -> Run {
        // A file, because a pipe that nobody empties would stop the client.
        let path = self.copilot_home().join("output.txt");
        let output = File::create(&path).expect("writable");
        let mut child = command
            .stdin(Stdio::null())
            .stderr(output.try_clone().expect("an open file"))
            .stdout(output)
            .spawn()
            .expect("the client starts");
        let status = wait(&mut child);
        Run {
            status,
            output: fs::read_to_string(path).expect("the client prints UTF-8"),
        }
    }
}

/// Waits for the client, but not forever.
fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our own child") {
            return status;
        }
        if started.elapsed() > PATIENCE {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
            panic!("the client had not ended after {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
