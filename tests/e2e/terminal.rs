//! Drives the client as a person does: on a terminal of its own, which `script` provides.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::client;
use crate::copilot::PATIENCE;
use crate::mock_model::MockModel;
use crate::stage::Stage;

/// The client on its terminal.
pub(crate) struct Terminal {
    child: Child,
    /// The file with the id of the client's process, which is no child of ours.
    process: PathBuf,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts the client; `None` where this machine cannot give it a terminal.
    pub(crate) fn start(case: &str, stage: &Stage, model: &MockModel) -> Option<Self> {
        // The GNU-ish options below are those of util-linux; others' `script` lack them.
        let known = Command::new("script").arg("--version").output();
        if !known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains("util-linux")) {
            client::skip(case, "it needs `script` of util-linux");
            return None;
        }
        let mut command = Command::new("script");
        stage.dress(&mut command, model);
        let process = stage.copilot_home().join("process-id");
        let inner = format!(
            "echo $$ > '{}'; stty rows 40 cols 120; exec '{}'",
            process.display(),
            stage.client.program.display()
        );
        let mut child = command
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &inner,
                "/dev/null",
            ])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script starts");
        let keys = child.stdin.take().expect("it is piped");
        let mut output = child.stdout.take().expect("it is piped");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let screen = Arc::clone(&shown);
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut chunk) {
                let new = chunk.get(..length).unwrap_or_default();
                screen.lock().expect("only read elsewhere").extend(new);
            }
        });
        Some(Self {
            child,
            process,
            keys,
            shown,
        })
    }

    /// Types.
    pub(crate) fn press(&mut self, keys: &str) {
        // A person reads before answering, and the client drops keys that come with the screen.
        thread::sleep(Duration::from_millis(700));
        self.keys
            .write_all(keys.as_bytes())
            .and_then(|()| self.keys.flush())
            .expect("the terminal is open");
    }

    /// Waits until the text was shown. Blanks do not count: the client skips those that are on
    /// the screen already.
    pub(crate) fn read_until(&mut self, text: &str) {
        let started = Instant::now();
        let wanted: String = text.split_whitespace().collect();
        loop {
            let shown = plain(&self.shown.lock().expect("only written elsewhere"));
            if shown
                .split_whitespace()
                .collect::<String>()
                .contains(&wanted)
            {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "no {text:?} in {shown}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // First the client, which else would go on to write into the stage while it is removed;
        // then `script` ends as well.
        let id = fs::read_to_string(&self.process)
            .ok()
            .and_then(|id| id.trim().parse().ok());
        let ended = id.is_some_and(|id| kill(Pid::from_raw(id), Signal::SIGKILL).is_ok());
        if !ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The text without the sequences that move the cursor and colour it.
fn plain(shown: &[u8]) -> String {
    let text = String::from_utf8_lossy(shown);
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            // A control sequence ends with a letter, a title with a bell or an escape.
            Some('[') => drop(letters.find(|letter| ('@'..='~').contains(letter))),
            Some(']') => drop(letters.find(|letter| matches!(letter, '\u{7}' | '\\'))),
            _ => {}
        }
    }
    plain
}
