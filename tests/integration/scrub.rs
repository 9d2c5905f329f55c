//! `scrub`: transcripts on disk lose their secrets and nothing else.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run};
use super::redaction::token;

const EVENTS: &str = ".copilot/session-state/1/events.jsonl";

/// A home with transcripts that nobody wrote to for an hour.
struct Home(Stage);

impl Home {
    fn new() -> Self {
        let home = Self(Stage::new());
        home.write(EVENTS, &events());
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path("home").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(&format!("home/{name}"), text);
        age(&self.path(name));
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.0.command(&["scrub"]);
        command
            .args(words)
            .arg("--home")
            .arg(self.path(""))
            .arg("--state")
            .arg(self.0.state());
        command
    }

    /// What the program says, which never is a secret.
    fn scrub(&self, words: &[&str]) -> Answer {
        let answer = run(self.command(words));
        assert!(!answer.text.contains(&token()) && !answer.errors.contains(&token()));
        answer
    }
}

fn age(path: &Path) {
    let hour = SystemTime::now() - Duration::from_secs(3600);
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(hour).unwrap();
}

/// What Copilot CLI writes: one event a line, results in several forms.
fn events() -> String {
    let arguments = json!({"command": format!("export GITHUB_TOKEN={}", token())}).to_string();
    let escaped =
        "{\"type\":\"x\",  \"n\":1.50,\"big\":12345678901234567890123,\"s\":\"\\u00e9\\/\"}";
    [
        json!({"type": "session.start", "data": {"version": 1}}).to_string(),
        escaped.to_owned(),
        json!({"type": "hook.start", "data": {"input": {"toolArgs": arguments}}}).to_string(),
        json!({"type": "tool.execution_complete", "data": {"result": {
            "content": "«redacted:github-pat#abcd2345»",
            "detailedContent": format!("a\n{}\nb", token()),
        }}})
        .to_string(),
        format!("{{\"type\":\"torn {}", token()),
    ]
    .join("\n")
}

#[test]
fn a_transcript_loses_its_secrets_and_nothing_else() {
    let home = Home::new();
    let path = home.path(EVENTS);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let old = home.read(EVENTS);
    let answer = home.scrub(&[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.text.contains(&format!(
            "{}: 3 secrets taken out (github-pat 3)",
            path.display()
        )),
        "{answer:?}"
    );
    let new = home.read(EVENTS);
    assert!(!new.contains(&token()));
    for (number, (old, new)) in old.lines().zip(new.lines()).enumerate() {
        if number < 2 {
            assert_eq!(old, new);
            continue;
        }
        assert!(new.contains("«redacted:github-pat#"), "{new}");
        let is_json = |line| serde_json::from_str::<Value>(line).is_ok();
        assert_eq!(is_json(old), is_json(new), "{new}");
    }
    let third: Value = serde_json::from_str(new.lines().nth(2).unwrap()).unwrap();
    let arguments = third["data"]["input"]["toolArgs"].as_str().unwrap();
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    assert!(
        arguments["command"]
            .as_str()
            .unwrap()
            .starts_with("export GITHUB_TOKEN=«")
    );
    assert_eq!(new.lines().count(), 5);
    assert!(!new.ends_with('\n'));
    let now = fs::metadata(&path).unwrap();
    assert_eq!(now.modified().unwrap(), before.modified().unwrap());
    assert_eq!(now.permissions().mode(), before.permissions().mode());
    assert_eq!((now.uid(), now.gid()), (before.uid(), before.gid()));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let again = home.scrub(&[]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(
        again
            .text
            .starts_with("0 secrets taken out of 0 files, 1 looked at"),
        "{again:?}"
    );
    assert_eq!(home.read(EVENTS), new);
}

#[test]
fn a_dry_run_changes_nothing() {
    let home = Home::new();
    let before = fs::metadata(home.path(EVENTS)).unwrap();
    let answer = home.scrub(&["--dry-run"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer
            .text
            .contains("3 secrets would be taken out (github-pat 3)"),
        "{answer:?}"
    );
    let now = fs::metadata(home.path(EVENTS)).unwrap();
    assert_eq!(
        (now.ino(), now.modified().unwrap()),
        (before.ino(), before.modified().unwrap())
    );
    assert_eq!(home.read(EVENTS), events());
    assert!(!home.0.state().exists());
}

#[test]
fn every_host_has_its_places() {
    let home = Home::new();
    let secret = format!("T={}\n", token());
    let row = json!({"message": token()}).to_string();
    let cleaned = [
        ".copilot/logs/process-1.log",
        ".copilot/history-session-state/session_1.json",
        ".copilot/command-history-state.json",
        ".copilot/session-state/1/checkpoints/001.md",
        ".claude/projects/-w/1.jsonl",
        ".claude/projects/-w/1/subagents/agent-a.jsonl",
        ".claude/history.jsonl",
        ".claude/todos/1.json",
        ".claude/shell-snapshots/s.sh",
        ".openclaw/agents/main/sessions/1.jsonl",
        ".openclaw/agents/main/sessions/1.jsonl.reset.2026-01-01",
    ];
    let untouched = [
        ".copilot/config.json",
        ".copilot/mcp-config.json",
        ".claude/.credentials.json",
        ".claude/settings.json",
        ".openclaw/openclaw.json",
        ".openclaw/agents/main/agent/auth-profiles.json",
        "notes.jsonl",
    ];
    for name in cleaned.iter().chain(&untouched) {
        let text = if name.contains("json") { &row } else { &secret };
        home.write(name, text);
    }
    let only = home.scrub(&["--host", "claude", "--dry-run"]);
    assert!(
        only.text.contains("out of 5 files, 5 looked at, 0 left"),
        "{only:?}"
    );
    let answer = home.scrub(&[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    for name in cleaned {
        assert!(!home.read(name).contains(&token()), "{name}");
    }
    for name in untouched {
        assert!(home.read(name).contains(&token()), "{name}");
    }
    for name in cleaned.iter().filter(|name| name.contains("json")) {
        serde_json::from_str::<Value>(&home.read(name)).unwrap();
    }
}

#[test]
fn what_cannot_be_rewritten_is_named() {
    let home = Home::new();
    let secret = format!("\0SQLite\0{}\0", token());
    home.write(".copilot/session-store.db", &secret);
    home.write(".copilot/session-state/2/files/draft.md", &token());
    home.write(
        ".openclaw/agents/main/sessions/1.jsonl.deleted.2026.zst",
        "x",
    );
    home.write(
        ".claude/history.jsonl",
        &json!({"display": token()}).to_string(),
    );
    fs::hard_link(home.path(".claude/history.jsonl"), home.path("other")).unwrap();
    home.write(".claude/projects/-w/clean.jsonl", "{}\n");
    let answer = home.scrub(&[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    for (name, why) in [
        ("session-store.db", "it is a database"),
        ("draft.md", "it is a copy of a file of yours"),
        ("history.jsonl", "it has other names"),
        (".zst", "it is compressed"),
    ] {
        let named =
            |line: &&str| line.contains(name) && line.contains(why) && line.contains("left");
        assert!(
            answer.text.lines().any(|line| named(&line)),
            "{name}: {answer:?}"
        );
    }
    assert!(
        answer
            .text
            .ends_with("3 secrets taken out of 1 file, 6 looked at, 4 left\n"),
        "{answer:?}"
    );
    assert_eq!(
        fs::read(home.path(".copilot/session-store.db")).unwrap(),
        secret.as_bytes()
    );
    assert!(home.read("other").contains(&token()));
    // What holds nothing is nobody's concern.
    fs::write(home.path(".copilot/session-store.db"), "\0nothing").unwrap();
    let answer = home.scrub(&["--host", "copilot"]);
    assert!(!answer.text.contains("session-store.db"), "{answer:?}");
}

#[test]
fn a_session_that_goes_on_is_left_alone() {
    let home = Home::new();
    let path = home.path(EVENTS);
    let left = |why: &str, words: &[&str]| {
        let answer = home.scrub(words);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.text.contains(why), "{answer:?}");
        assert_eq!(home.read(EVENTS), events());
    };
    let lock = path.with_file_name(format!("inuse.{}.lock", std::process::id()));
    fs::write(&lock, "").unwrap();
    left("uses this session", &[]);
    fs::remove_file(lock).unwrap();
    // A process that is gone does not count.
    fs::write(path.with_file_name("inuse.4194305.lock"), "").unwrap();
    if cfg!(target_os = "linux") {
        let writer = fs::File::options().append(true).open(&path).unwrap();
        left("open for writing", &["--dry-run"]);
        left("open for writing", &[]);
        drop(writer);
    }
    fs::File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .set_modified(SystemTime::now())
        .unwrap();
    left("it was written to less than 60 s ago", &[]);
    left("less than 7200 s ago", &["--older-than", "2h"]);
    assert_eq!(home.scrub(&["--older-than", "0s"]).code, 0);
    assert!(!home.read(EVENTS).contains(&token()));
}

#[test]
fn links_are_not_followed_and_pipes_not_opened() {
    let home = Home::new();
    home.0.write("outside/t.jsonl", &token());
    age(&home.0.path("outside/t.jsonl"));
    fs::create_dir_all(home.path(".claude/projects/-w")).unwrap();
    symlink(
        home.0.path("outside/t.jsonl"),
        home.path(".claude/projects/-w/t.jsonl"),
    )
    .unwrap();
    symlink(home.0.path("outside"), home.path(".claude/projects/linked")).unwrap();
    symlink(home.0.path("outside"), home.path(".openclaw")).unwrap();
    let pipe = home.path(".claude/projects/-w/p.jsonl");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let answer = home.scrub(&[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.text.contains(".openclaw: left, it is a link"),
        "{answer:?}"
    );
    let linked = home.0.path("linked.jsonl");
    symlink(home.0.path("outside/t.jsonl"), &linked).unwrap();
    let answer = home.scrub(&[linked.to_str().unwrap(), pipe.to_str().unwrap()]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.text.contains("it is a link"), "{answer:?}");
    assert!(answer.text.contains("it is no plain file"), "{answer:?}");
    assert_eq!(
        fs::read_to_string(home.0.path("outside/t.jsonl")).unwrap(),
        token()
    );
}

#[test]
fn other_folders_are_named() {
    let home = Home::new();
    let moved = home.0.path("moved");
    for name in ["session-state/1/events.jsonl", "logs/a.log", "config.json"] {
        home.0.write(&format!("moved/{name}"), &token());
        age(&moved.join(name));
    }
    let moved_text = moved.to_str().unwrap();
    let mut command = home.command(&["--dry-run", "--host", "copilot"]);
    command.env("COPILOT_HOME", &moved);
    let answer = run(command);
    assert!(
        answer
            .errors
            .contains("`COPILOT_HOME` names another folder"),
        "{answer:?}"
    );
    assert!(answer.text.contains("1 looked at"), "{answer:?}");
    let answer = home.scrub(&["--host", "copilot", moved_text]);
    assert!(
        answer.text.contains("out of 2 files, 2 looked at"),
        "{answer:?}"
    );
    assert_eq!(
        fs::read_to_string(moved.join("config.json")).unwrap(),
        token()
    );
    // Of any other folder, what looks like a transcript; a file that is named in any case.
    home.0.write("moved/x/y.jsonl", &token());
    age(&moved.join("x/y.jsonl"));
    let config = moved.join("config.json");
    let answer = home.scrub(&[moved_text, config.to_str().unwrap(), "gone"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.text.contains("gone: left, it cannot be read"),
        "{answer:?}"
    );
    assert!(
        answer
            .text
            .contains("2 secrets taken out of 2 files, 4 looked at, 1 left"),
        "{answer:?}"
    );
}

#[test]
fn the_command_line_is_checked() {
    let home = Home::new();
    for words in [
        &["--host", "x"][..],
        &["--older-than", "soon"],
        &["--older-than", "-1h"],
    ] {
        assert_eq!(home.scrub(words).code, 64, "{words:?}");
    }
    fs::remove_dir_all(home.path("")).unwrap();
    let answer = home.scrub(&[]);
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{answer:?}");
}
