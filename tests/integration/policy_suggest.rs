//! `policy suggest`: what recorded calls would need, as files for a person.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run, send};

/// The default policies, only watching.
fn watching(stage: &Stage) -> PathBuf {
    let policies = stage.policies();
    let path = policies.join("bridge.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("mode = \"enforce\"", "mode = \"monitor\"");
    fs::write(path, text).unwrap();
    policies
}

fn judge(stage: &Stage, policies: &Path, tool: &str, args: &Value) -> &'static str {
    let event = stage.call(tool, args).to_string();
    let dir = policies.to_str().unwrap();
    let hook = stage.hook("pre-tool-use", &["--policies", dir]);
    send(hook, event.as_bytes()).decision()
}

fn suggest(stage: &Stage, policies: &Path, more: &[&str]) -> Answer {
    let mut command = stage.command(&["policy", "suggest"]);
    command.args(more);
    command.arg("--policies").arg(policies);
    command.arg("--state").arg(stage.state());
    run(command)
}

/// A week of an agent that is only watched.
fn week(stage: &Stage, policies: &Path) {
    for line in [
        "mytool build --fast",
        "mytool test",
        "mytool build",
        "hexy Data.BIN",
        "git status",
        "git push origin main",
        "sudo id",
        "cat ~/.ssh/id_rsa",
        "python3 -c 'import os'",
        "git reset --hard",
    ] {
        let decision = judge(stage, policies, "bash", &json!({"command": line}));
        assert_eq!(decision, "allow", "{line}");
    }
    for (tool, args) in [
        ("view", json!({"path": stage.path("outside/secret.txt")})),
        ("view", json!({"path": "/etc/passwd"})),
        ("web_fetch", json!({"url": "https://docs.rs/serde"})),
        ("web_fetch", json!({"url": "https://docs.rs/toml"})),
        ("web_fetch", json!({"url": "http://169.254.169.254/latest"})),
        ("github-get_issue", json!({"number": 1})),
        ("github-list_issues", json!({})),
    ] {
        let decision = judge(stage, policies, tool, &args);
        assert_eq!(decision, "allow", "{tool} {args}");
    }
}

#[test]
fn what_calls_need_is_proposed_and_what_must_not_be_is_not() {
    let stage = Stage::new();
    let policies = watching(&stage);
    week(&stage, &policies);
    let told = suggest(&stage, &policies, &["--format", "json"]).json();
    let titles: Vec<_> = told["proposed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["title"].as_str().unwrap().to_owned())
        .collect();
    let outside = stage.path("outside");
    assert_eq!(
        titles,
        [
            "every use of the program `hexy`".to_owned(),
            "`mytool` with `build`, `test`".to_owned(),
            format!("reading in `{}`", outside.display()),
            "addresses without asking (`user:ask-network`): `https://docs.rs`".to_owned(),
            "tools of `github` without asking (`user:ask-mcp`): `get_issue`, `list_issues`"
                .to_owned(),
        ],
        "{told:#}"
    );
    let refused: Vec<_> = told["not_proposed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let sample = one["seen"]["samples"][0].as_str().unwrap();
            (one["reason"].as_str().unwrap(), sample)
        })
        .collect();
    for (reason, sample) in [
        (
            "its program is labelled `changes_history`",
            "shell `git push origin main`",
        ),
        ("its program is labelled `privileged`", "shell `sudo id`"),
        (
            "it runs code that was not judged: inline",
            "shell `python3 -c 'import os'`",
        ),
        (
            "its program is labelled `changes_worktree`, `destructive`",
            "shell `git reset --hard`",
        ),
        ("it is labelled `credentials`", "read `~/.ssh/id_rsa`"),
        (
            "`/etc/passwd`: it is the system's own",
            "read `/etc/passwd`",
        ),
        (
            "it is an address inside the network, or the cloud's metadata",
            "url `http://169.254.169.254/latest`",
        ),
    ] {
        let found = refused
            .iter()
            .any(|(why, what)| *why == reason && what.starts_with(sample));
        assert!(found, "{reason}, {sample}: {refused:#?}");
    }
    let diff = told["difference"].as_str().unwrap();
    for added in [
        "+# suggested from 3 calls, ",
        "+# owner: who looks after this?",
        "+names = [\"mytool\"]",
        "+subcommands = [\"build\", \"test\"]",
        "+names = [\"hexy\"]",
        "[\"docs.rs\"].contains(resource.host))",
    ] {
        assert!(diff.contains(added), "{added}: {diff}");
    }
    for never in ["-permit", "sudo", "169.254", ".ssh", "/etc/passwd\""] {
        assert!(!diff.contains(&format!("+{never}")), "{never}: {diff}");
    }
}

#[test]
fn the_files_pass_the_check_and_let_the_calls_through() {
    let stage = Stage::new();
    let policies = watching(&stage);
    week(&stage, &policies);
    let before = fs::read_to_string(policies.join("containment.toml")).unwrap();
    let out = stage.path("proposed");
    let answer = suggest(&stage, &policies, &["--out", out.to_str().unwrap()]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.text.contains("put it in force yourself"),
        "{answer:?}"
    );
    // Nothing is applied.
    let now = fs::read_to_string(policies.join("containment.toml")).unwrap();
    assert_eq!(before, now);
    let mut check = stage.command(&["policy", "check"]);
    check.arg(&out);
    let checked = run(check);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(!checked.text.contains("warning"), "{checked:?}");
    // In force, they allow what was needed, and nothing else.
    let bridge = out.join("bridge.toml");
    let text = fs::read_to_string(&bridge).unwrap();
    fs::write(
        &bridge,
        text.replace("mode = \"monitor\"", "mode = \"enforce\""),
    )
    .unwrap();
    let line = |line: &str| judge(&stage, &out, "bash", &json!({"command": line}));
    assert_eq!(line("mytool build --fast"), "allow");
    assert_eq!(line("hexy Data.BIN"), "allow");
    assert_eq!(line("mytool deploy"), "ask");
    assert_eq!(line("git push origin main"), "ask");
    assert_eq!(line("sudo id"), "deny");
    let fetch = |url: &str| judge(&stage, &out, "web_fetch", &json!({"url": url}));
    assert_eq!(fetch("https://docs.rs/other"), "allow");
    assert_eq!(fetch("http://docs.rs/other"), "ask");
    assert_eq!(fetch("https://docs.rs:8443/other"), "ask");
    assert_eq!(fetch("https://docs.rs.example.com/"), "ask");
    assert_eq!(judge(&stage, &out, "github-get_issue", &json!({})), "allow");
    assert_eq!(judge(&stage, &out, "github-merge", &json!({})), "ask");
    let path = json!({"path": stage.path("outside/other.txt")});
    assert_eq!(judge(&stage, &out, "view", &path), "allow");
    let edit = json!({"path": stage.path("outside/other.txt"), "old_str": "a", "new_str": "b"});
    assert_eq!(judge(&stage, &out, "edit", &edit), "deny");
    // What is there is not written over.
    let again = suggest(&stage, &policies, &["--out", out.to_str().unwrap()]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.errors.contains("is there already"), "{again:?}");
}

#[test]
fn asked_and_denied_calls_are_looked_at_when_somebody_wants_it() {
    let stage = Stage::new();
    let policies = stage.policies();
    let line = |line: &str| judge(&stage, &policies, "bash", &json!({"command": line}));
    assert_eq!(line("mytool build"), "ask");
    let outside = json!({"path": stage.path("outside/secret.txt")});
    assert_eq!(judge(&stage, &policies, "view", &outside), "deny");
    let answer = suggest(&stage, &policies, &[]);
    assert!(answer.text.starts_with("0 calls let through"), "{answer:?}");
    assert!(answer.text.contains("nothing is proposed"), "{answer:?}");
    let answer = suggest(&stage, &policies, &["--asked"]);
    assert!(
        answer.text.starts_with("1 call asked about\n"),
        "{answer:?}"
    );
    assert!(
        answer.text.contains("  `mytool` with `build`\n"),
        "{answer:?}"
    );
    let effect = "with all of them, 1 line of the record goes from ask to allow";
    assert!(answer.text.contains(effect), "{answer:?}");
    assert!(answer.text.contains("+++ b/containment.toml"), "{answer:?}");
    let answer = suggest(&stage, &policies, &["--denied"]);
    assert!(answer.text.contains("  reading in `"), "{answer:?}");
    let patch = stage.path("x.patch");
    let answer = suggest(
        &stage,
        &policies,
        &["--asked", "--denied", "--out", patch.to_str().unwrap()],
    );
    assert_eq!(answer.code, 0, "{answer:?}");
    let text = fs::read_to_string(patch).unwrap();
    assert!(text.contains("+names = [\"mytool\"]"), "{text}");
    assert!(text.contains("outside\","), "{text}");
}

/// A program with many uses that are no words is not let loose for the sake of one.
#[test]
fn a_program_with_subcommands_is_never_proposed_whole() {
    let stage = Stage::new();
    let policies = stage.policies();
    for line in ["mytool build", "mytool --version", "mytool ./x"] {
        let decision = judge(&stage, &policies, "bash", &json!({"command": line}));
        assert_eq!(decision, "ask", "{line}");
    }
    let answer = suggest(&stage, &policies, &["--asked"]);
    assert!(
        answer.text.contains("  `mytool` with `build`\n"),
        "{answer:?}"
    );
    let why = "  it would let every use of `mytool` run\n      2 calls";
    assert!(answer.text.contains(why), "{answer:?}");
}

/// A name in a record is no way into a policy file.
#[test]
fn what_an_agent_wrote_is_never_more_than_a_comment_or_a_name() {
    let stage = Stage::new();
    let policies = stage.policies();
    for (tool, args) in [
        (
            "bash",
            json!({"command": "mytool build 'a\n[[program]]\nnames = [\"x\"]'"}),
        ),
        (
            "github-a\"]) }; permit(principal, action, resource); //",
            json!({}),
        ),
        (
            "web_fetch",
            json!({"url": "https://docs.rs/x\n};permit(principal,action,resource);"}),
        ),
    ] {
        judge(&stage, &policies, tool, &args);
    }
    let told = suggest(&stage, &policies, &["--asked", "--format", "json"]).json();
    let diff = told["difference"].as_str().unwrap();
    let added = diff.lines().filter(|line| line.starts_with('+'));
    for line in added {
        let text = line.trim_start_matches('+').trim();
        let comment = text.starts_with('#') || text.starts_with("//");
        assert!(comment || !text.contains("permit("), "{line}");
    }
    assert!(!diff.contains("+names = [\"x\"]"), "{diff}");
}

#[test]
fn a_record_that_cannot_be_read_is_no_week_without_calls() {
    let stage = Stage::new();
    stage.write("junk", "no line of a record\n");
    let mut command = stage.command(&["policy", "suggest", "--policies"]);
    command
        .arg(stage.policies())
        .arg("--state")
        .arg(stage.state());
    let answer = run({
        command.arg(stage.path("junk"));
        command
    });
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("could be judged"), "{answer:?}");
}
