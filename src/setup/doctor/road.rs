//! The whole road, as a host walks it: the installed command, a call that has to be denied and
//! one that has to pass.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::super::Rooms;
use super::super::place::Places;
use super::installed::Installed;
use super::{Host, Report};

/// What every policy worth having denies to read.
const FORBIDDEN: &str = "/etc/shadow";

/// Output beyond this is no answer.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// Runs the hook that is asked before a tool, with a state directory that goes away again.
pub(super) fn walk(hook: &Installed, places: &Places, rooms: &dyn Rooms, report: &mut Report) {
    let path = hook.path.display();
    let Some(entry) = hook.before_tool() else {
        return;
    };
    if !hook.may_be_run(places) {
        report.warn(
            "road-not-tried",
            format!("the command in `{path}` was not run, because `init` did not write it"),
            "run `copilot-bridge init`, then `copilot-bridge doctor` again",
        );
        return;
    }
    let scratch = match tempfile::tempdir() {
        Ok(scratch) => scratch,
        Err(error) => {
            let sentence = format!("no folder for a trial can be made: {}", error.kind());
            report.error("road-not-tried", sentence, "");
            return;
        }
    };
    let (state, workspace) = (scratch.path().join("state"), scratch.path().join("work"));
    let harmless = workspace.join("README.md");
    let prepared = std::fs::create_dir(&state)
        .and_then(|()| std::fs::create_dir(&workspace))
        .and_then(|()| std::fs::write(&harmless, "hello\n"));
    let words = entry.words().map(|words| with_state(words, &state));
    let (Ok(()), Some((program, arguments))) = (prepared, words) else {
        report.error("road-not-tried", "no trial could be prepared", "");
        return;
    };
    // As warm as in real use: with a key and compiled policies, if these can be had.
    drop(rooms.create_key(&state));
    if let Some(policies) = hook.argument("--policies") {
        drop(rooms.compile(Path::new(&policies), &state));
    }

    let limit = Duration::from_secs(entry.timeout());
    let dialect = match hook.host {
        Host::Copilot => "copilot",
        Host::Claude | Host::Vscode => "claude",
    };
    let mut ask = |target: &Path| {
        let input = rooms.probe(dialect, target, &workspace);
        let mut command = Command::new(&program);
        command.args(&arguments).current_dir(&workspace);
        let ran = run(command, &input, limit);
        if let Err(why) = &ran {
            report.error(
                "road-denied",
                format!("the command in `{path}` {why}"),
                "until it answers, a host denies every call, or allows it",
            );
        }
        ran.ok()
    };
    let Some(denied) = ask(Path::new(FORBIDDEN)) else {
        return;
    };
    let Some(allowed) = ask(&harmless) else {
        return;
    };
    if rooms.is_denial(dialect, denied.exit, &denied.stdout) {
        let sentence = format!("the command in `{path}` denied to read `{FORBIDDEN}`");
        report.ok("road-denied", sentence);
    } else {
        report.error(
            "road-denied",
            format!("the command in `{path}` did not deny to read `{FORBIDDEN}`"),
            "see `copilot-bridge policy check`, and whether the program is this one",
        );
    }
    if allowed.exit == Some(0) && allowed.stdout.trim_ascii() == b"{}" {
        report.ok("road-allowed", "a file of the workspace may be read");
    } else {
        report.warn(
            "road-allowed",
            "a file of the workspace may not be read without a question",
            "if that is not what your policies want, see `copilot-bridge policy explain`",
        );
    }
    let took = denied.took.max(allowed.took);
    let sentence = format!("the command in `{path}` took {} ms", took.as_millis());
    if took > limit / 3 {
        report.warn(
            "hook-slow",
            format!("{sentence}, and the host waits {} s", limit.as_secs()),
            "a host that gives up allows",
        );
    } else {
        report.ok("hook-time", sentence);
    }
}

/// The program and its arguments, with another state directory.
fn with_state(words: Vec<String>, state: &Path) -> (String, Vec<String>) {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let mut arguments = Vec::new();
    while let Some(word) = words.next() {
        if word == "--state" {
            words.next();
        } else {
            arguments.push(word);
        }
    }
    arguments.extend(["--state".to_owned(), state.display().to_string()]);
    (program, arguments)
}

struct Ran {
    exit: Option<i32>,
    stdout: Vec<u8>,
    took: Duration,
}

/// Runs a command to its end, or to the end of the host's patience.
fn run(mut command: Command, input: &str, limit: Duration) -> Result<Ran, String> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot be started: {}", error.kind()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading is judged by its answer.
        drop(stdin.write_all(input.as_bytes()));
    }
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            drop(stdout.take(OUTPUT_LIMIT).read_to_end(&mut bytes));
            drop(sender.send(bytes));
        });
    }
    let exit = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.code(),
            Ok(None) if started.elapsed() < limit => thread::sleep(Duration::from_millis(1)),
            _ => {
                drop(child.kill());
                drop(child.wait());
                return Err(format!(
                    "did not answer within {} s, after which the host allows",
                    limit.as_secs()
                ));
            }
        }
    };
    let took = started.elapsed();
    // A grandchild may hold the pipe open; what it would write is no answer any more.
    let stdout = receiver
        .recv_timeout(Duration::from_millis(500))
        .unwrap_or_default();
    Ok(Ran { exit, stdout, took })
}
