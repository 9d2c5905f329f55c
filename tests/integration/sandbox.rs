//! `sandbox`: what really happens to programs that run in it.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use super::program::{Answer, Stage, run};

#[test]
fn what_is_outside_is_refused() {
    let Some(stage) = stage("what_is_outside_is_refused") else {
        return;
    };
    let outside = stage.path("outside/secret.txt");
    symlink(&outside, stage.path("ws/src/link")).unwrap();
    refused(&stage, &["cat", outside.to_str().unwrap()]);
    refused(&stage, &["cat", "src/link"]);
    refused(&stage, &["ls", stage.path("outside").to_str().unwrap()]);
    refused(
        &stage,
        &["touch", stage.path("outside/new").to_str().unwrap()],
    );
    refused(&stage, &["truncate", "-s", "0", outside.to_str().unwrap()]);
    refused(&stage, &["ln", outside.to_str().unwrap(), "src/hard"]);
    refused(&stage, &["cat", "/etc/passwd"]);
    refused(&stage, &["ls", "/tmp"]);
    refused(&stage, &["touch", "/usr/copilot-bridge-was-here"]);
    assert_eq!(fs::read_to_string(outside).unwrap(), "x\n");
    assert!(!stage.path("outside/new").exists());
}

#[test]
fn the_workspace_is_worked_in() {
    let Some(stage) = stage("the_workspace_is_worked_in") else {
        return;
    };
    let script = "set -e; cat README.md; echo more >> README.md; mkdir -p src/a/b
        echo x > src/a/b/new; mv src/a/b/new src/a/moved; ln src/a/moved src/hard
        ln -s moved src/a/soft; mkfifo src/pipe; mv src/a .git/a; rm -r .git/a src/hard
        echo gone > /dev/null; printf '#!/bin/sh\\necho ran\\n' > src/run; chmod +x src/run; src/run
        temp=$(mktemp); echo t > $temp; rm $temp; (cd src && cat ../a.txt)";
    let answer = sandboxed(&stage, &["sh", "-c", script]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.text, "read me\nran\nhello file\n");
    let text = fs::read_to_string(stage.path("ws/README.md")).unwrap();
    assert_eq!(text, "read me\nmore\n");
}

#[test]
fn what_guards_the_bridge_is_read_and_not_written() {
    let Some(stage) = stage("what_guards_the_bridge_is_read_and_not_written") else {
        return;
    };
    for name in [
        "ws/.copilot-bridge/bridge.toml",
        "ws/.claude/settings.json",
        "ws/.github/hooks/copilot-bridge.json",
        "ws/.github/copilot/settings.json",
        "ws/src/deep/.claude/settings.local.json",
    ] {
        stage.write(name, "format = 1\n");
        let file = stage.path(name);
        let file = file.to_str().unwrap();
        let folder = Path::new(file).parent().unwrap().to_str().unwrap();
        assert_eq!(sandboxed(&stage, &["cat", file]).text, "format = 1\n");
        for words in [
            &["truncate", "-s", "0", file][..],
            &["touch", &format!("{folder}/settings.new.json")],
            &["rm", file],
            &["mv", file, "src/b"],
            &["ln", file, "src/b"],
            &["ln", "a.txt", &format!("{folder}/b")],
            &["mv", "src/main.rs", file],
            &["mv", folder, &format!("{folder}.old")],
            &["sh", "-c", &format!("echo x >> {file}")],
        ] {
            refused(&stage, words);
        }
        assert_eq!(fs::read_to_string(file).unwrap(), "format = 1\n");
    }
    // What stands beside them can still be worked on.
    stage.write("ws/.github/workflows/ci.yml", "x");
    let answer = sandboxed(&stage, &["touch", ".github/workflows/new.yml"]);
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn what_guards_the_bridge_cannot_be_made() {
    let Some(stage) = stage("what_guards_the_bridge_cannot_be_made") else {
        return;
    };
    for words in [
        &["mkdir", ".copilot-bridge"][..],
        &["mkdir", ".claude"],
        &["mv", "src", ".claude"],
        &["ln", "-s", "src", ".claude"],
        &["touch", "new-in-the-root"],
        &["rm", "a.txt"],
    ] {
        refused(&stage, words);
    }
    assert!(stage.path("ws/a.txt").exists());
    // A host may look where it works.
    let mut command = stage.command(&["sandbox", "--", "mkdir", ".claude"]);
    command.current_dir(stage.path("ws/src"));
    assert_eq!(run(command).code, 1);
}

#[test]
fn credentials_are_not_read() {
    let Some(stage) = stage("credentials_are_not_read") else {
        return;
    };
    stage.write("ws/src/.ssh/id", "key\n");
    refused(&stage, &["cat", "src/.ssh/id"]);
    assert_eq!(sandboxed(&stage, &["cat", "src/main.rs"]).code, 0);
    assert_eq!(sandboxed(&stage, &["ls"]).code, 0);
}

#[test]
fn the_end_of_the_command_is_ours() {
    let Some(stage) = stage("the_end_of_the_command_is_ours") else {
        return;
    };
    for code in [0, 1, 3, 42, 255] {
        let answer = sandboxed(&stage, &["sh", "-c", &format!("exit {code}")]);
        assert_eq!((answer.code, answer.errors.as_str()), (code, ""));
    }
    let mut command = stage.command(&["sandbox", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(command.output().unwrap().status.signal(), Some(15));
    let answer = sandboxed(&stage, &["no-such-program"]);
    assert_eq!(answer.code, 1);
    assert!(
        answer
            .errors
            .starts_with("error: `no-such-program` cannot be run")
    );
}

#[test]
fn the_rest_of_the_machine_is_left_alone() {
    let Some(stage) = stage("the_rest_of_the_machine_is_left_alone") else {
        return;
    };
    refused(&stage, &["mknod", "src/device", "c", "1", "3"]);
    refused(
        &stage,
        &["cat", &format!("/proc/{}/environ", std::process::id())],
    );
    // Privileges are not gained.
    let answer = sandboxed(&stage, &["setpriv", "--dump"]);
    assert!(answer.text.contains("no_new_privs: 1"), "{answer:?}");
}

#[test]
fn a_dry_run_shows_and_runs_nothing() {
    let stage = Stage::new();
    stage.write("ws/.claude/settings.json", "{}");
    let answer = run(stage.command(&["sandbox", "--dry-run", "--", "touch", "src/new"]));
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""));
    assert!(!stage.path("ws/src/new").exists());
    let root = stage.workspace();
    for line in [
        format!("read   {}\n", root.display()),
        format!("write  {}\n", root.join("src").display()),
        "read   /usr\n".to_owned(),
        "write  /dev/null\n".to_owned(),
    ] {
        assert!(answer.text.contains(&line), "{line} is not in {answer:?}");
    }
    assert!(!answer.text.contains("ws/.claude"), "{answer:?}");
    assert_eq!(run(stage.command(&["sandbox", "--dry-run"])).code, 0);
}

#[test]
fn what_is_granted_stands_in_the_policies() {
    let Some(stage) = stage("what_is_granted_stands_in_the_policies") else {
        return;
    };
    let policies = stage.policies();
    let file = policies.join("containment.toml");
    let text = fs::read_to_string(&file).unwrap();
    let outside = stage.path("outside");
    let more = format!("\"/etc/localtime\", \"{}\",", outside.display());
    fs::write(&file, text.replace("\"/etc/localtime\",", &more)).unwrap();
    let secret = outside.join("secret.txt");
    let dir = policies.to_str().unwrap();
    let words = [
        "sandbox",
        "--policies",
        dir,
        "--",
        "cat",
        secret.to_str().unwrap(),
    ];
    assert_eq!(run(stage.command(&words)).text, "x\n");
    refused(&stage, &["cat", secret.to_str().unwrap()]);

    fs::write(&file, "format = 1\nnonsense = 1\n").unwrap();
    let answer = run(stage.command(&words));
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(!answer.text.contains("x\n"));
}

#[test]
fn where_there_is_no_workspace_nothing_is_run() {
    let mut command = Stage::new().command(&["sandbox", "--", "echo", "ran"]);
    command.current_dir("/");
    let answer = run(command);
    assert_eq!((answer.code, answer.text.as_str()), (1, ""));
    assert!(answer.errors.contains("`/` is in no workspace"));
    let answer = run(Stage::new().command(&["sandbox"]));
    assert_eq!(answer.code, 64);
}

/// A stage, or `None` after saying that this kernel has no Landlock.
fn stage(case: &str) -> Option<Stage> {
    let stage = Stage::new();
    let answer = sandboxed(&stage, &["true"]);
    if answer.code == 1 && answer.errors.contains("Landlock") {
        let line = format!("{case}: skipped: {}", answer.errors);
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    }
    assert_eq!(answer.code, 0, "{answer:?}");
    Some(stage)
}

fn sandboxed(stage: &Stage, words: &[&str]) -> Answer {
    let mut command = stage.command(&["sandbox", "--"]);
    command.args(words);
    run(command)
}

/// The kernel does not let it, and says so.
fn refused(stage: &Stage, words: &[&str]) {
    let answer = sandboxed(stage, words);
    assert!(answer.code > 0, "{words:?} was not refused: {answer:?}");
    let said = [
        "Permission denied",
        "Operation not permitted",
        "Invalid cross-device link",
    ];
    assert!(
        said.iter().any(|said| answer.errors.contains(said)),
        "{words:?}: {answer:?}"
    );
    assert_eq!(answer.text, "", "{words:?}");
}
