//! What a file is, by whatever name: hard links, mounts, and the workspace that a session began in.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::program::{Stage, send};

/// What the default policies, with one line of containment.toml changed, say of a call.
fn changed(stage: &Stage, line: (&str, &str)) {
    let file = stage.policies().join("containment.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(line.0), "{}", line.0);
    fs::write(file, text.replace(line.0, line.1)).unwrap();
}

fn with_policies(stage: &Stage, tool: &str, args: &serde_json::Value) -> &'static str {
    let policies = stage.path("policies");
    let hook = stage.hook("pre-tool-use", &["--policies", policies.to_str().unwrap()]);
    send(hook, stage.call(tool, args).to_string().as_bytes()).decision()
}

#[test]
fn another_name_of_a_file_is_asked_about_before_it_changes() {
    let stage = Stage::new();
    fs::hard_link(stage.path("outside/secret.txt"), stage.path("ws/link.txt")).unwrap();
    let edit = json!({"path": "link.txt", "old_str": "x", "new_str": "y"});
    assert_eq!(stage.judge("edit", &edit).decision(), "ask");
    for (line, expected) in [
        ("echo y > link.txt", "ask"),
        ("cat link.txt", "allow"),
        ("rm link.txt", "allow"),
    ] {
        let answer = stage.judge("bash", &json!({"command": line}));
        assert_eq!(answer.decision(), expected, "{line}");
    }
    let view = json!({"path": "link.txt"});
    assert_eq!(stage.judge("view", &view).decision(), "allow");
    changed(
        &stage,
        ("hard_links = \"inside\"", "hard_links = \"outside\""),
    );
    assert_eq!(with_policies(&stage, "view", &view), "deny");
    assert_eq!(
        with_policies(&stage, "view", &json!({"path": "a.txt"})),
        "allow"
    );
}

#[test]
fn another_name_of_a_guarded_file_is_guarded() {
    let stage = Stage::new();
    stage.write("state/older/key", "k");
    fs::hard_link(stage.path("state/older/key"), stage.path("ws/notes.txt")).unwrap();
    let edit = json!({"path": "notes.txt", "old_str": "k", "new_str": "y"});
    let answer = stage.judge("edit", &edit);
    assert_eq!(answer.decision(), "deny");
    assert!(answer.reason().contains("default:guard"), "{answer:?}");
}

/// Only where we may mount: as root, or in a user's own namespace.
#[test]
#[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
fn a_mount_in_the_workspace_is_told() {
    let stage = Stage::new();
    fs::create_dir(stage.path("ws/mnt")).unwrap();
    let (from, to) = (stage.path("outside"), stage.path("ws/mnt"));
    let policies = stage.policies();
    let judge = |path: &str, more: &str| {
        let event = stage.call("view", &json!({"path": path})).to_string();
        let script = format!(
            "mount --bind {} {} && exec \"$0\" hook pre-tool-use --state {} {more} '{event}'",
            from.display(),
            to.display(),
            stage.state().display(),
        );
        let binary = super::program::binary();
        let output = Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", &script])
            .arg(binary)
            .current_dir(stage.workspace())
            .output();
        let output = output.ok().filter(|output| !output.stdout.is_empty())?;
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(answer) = judge("mnt/secret.txt", "") else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    assert_eq!(answer.trim(), "{}");
    changed(&stage, ("mounts = \"inside\"", "mounts = \"outside\""));
    let more = format!("--policies {}", policies.display());
    let answer = judge("mnt/secret.txt", &more).unwrap();
    assert!(answer.contains("resolves outside workspace"), "{answer}");
    assert_eq!(judge("a.txt", &more).unwrap().trim(), "{}");
}

/// The answer to a `view` in a session whose host says that it now works in `cwd`.
fn view_from(stage: &Stage, cwd: &Path, path: &str) -> &'static str {
    let mut event = stage.call("view", &json!({"path": path}));
    event["cwd"] = json!(cwd);
    send(
        stage.hook("pre-tool-use", &[]),
        event.to_string().as_bytes(),
    )
    .decision()
}

fn start(stage: &Stage, cwd: &Path) {
    let event = json!({"sessionId": "session-1", "timestamp": 1, "cwd": cwd, "source": "new"});
    let answer = send(
        stage.hook("session-start", &[]),
        event.to_string().as_bytes(),
    );
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn an_agent_that_moves_on_takes_no_rights_with_it() {
    let stage = Stage::new();
    let (ws, outside) = (stage.workspace(), stage.path("outside"));
    assert_eq!(view_from(&stage, &outside, "secret.txt"), "allow");
    start(&stage, &ws);
    assert_eq!(view_from(&stage, &outside, "secret.txt"), "deny");
    assert_eq!(view_from(&stage, &ws.join("src"), "main.rs"), "allow");
    assert_eq!(view_from(&stage, &outside, "../ws/a.txt"), "allow");
    // The host itself may take the session up elsewhere.
    start(&stage, &outside);
    assert_eq!(view_from(&stage, &outside, "secret.txt"), "allow");
    assert_eq!(view_from(&stage, &ws, "a.txt"), "deny");
}

#[test]
fn what_the_workspace_forbids_holds_wherever_the_agent_is() {
    let stage = Stage::new();
    stage.write(
        "ws/.copilot-bridge/policies/own.cedar",
        "@id(\"no-views\") @reason(\"nothing is viewed here\")\n\
         forbid(principal, action == Bridge::Action::\"read\", resource);\n",
    );
    let (ws, outside) = (stage.workspace(), stage.path("outside"));
    start(&stage, &ws);
    assert_eq!(view_from(&stage, &ws, "a.txt"), "deny");
    assert_eq!(view_from(&stage, &outside, "../ws/a.txt"), "deny");
}

#[test]
fn a_pin_that_cannot_be_read_denies() {
    let stage = Stage::new();
    start(&stage, &stage.workspace());
    let pins = stage.state().join("sessions");
    for entry in fs::read_dir(&pins).unwrap() {
        let path = entry.unwrap().path();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }
    assert_eq!(view_from(&stage, &stage.workspace(), "a.txt"), "deny");
}

#[test]
fn a_script_goes_along_with_its_folder() {
    let stage = Stage::new();
    stage.write("ws/tools/own.js", "");
    let write = json!({"path": "tools/run.js", "file_text": "x"});
    assert_eq!(stage.judge("create", &write).decision(), "allow");
    stage.write("ws/tools/run.js", "x");
    let judge = |line: &str| stage.judge("bash", &json!({"command": line})).decision();
    assert_eq!(judge("node moved/run.js"), "allow");
    assert_eq!(judge("mv tools moved"), "allow");
    assert_eq!(judge("node moved/run.js"), "ask");
    assert_eq!(judge("node src/run.js"), "allow");
}

#[test]
fn a_plain_line_is_judged_in_every_shell() {
    let stage = Stage::new();
    for (line, expected) in [
        ("git status", "allow"),
        ("cargo test -p x", "allow"),
        ("git push --force", "ask"),
        ("git -C ../outside status", "deny"),
        ("npm test; git status", "ask"),
        ("git log $x", "ask"),
        ("type a.txt", "ask"),
        ("git diff C:x", "ask"),
    ] {
        let answer = stage.judge("powershell", &json!({"command": line}));
        assert_eq!(answer.decision(), expected, "{line}");
    }
}

#[test]
fn a_home_is_what_any_program_takes_for_it() {
    let stage = Stage::new();
    let home = stage.path("home");
    fs::create_dir_all(home.join("ws")).unwrap();
    let judge = |tool: &str, args: serde_json::Value, home: &Path| {
        let mut hook = stage.hook("pre-tool-use", &[]);
        hook.env("HOME", home);
        send(hook, stage.call(tool, &args).to_string().as_bytes()).decision()
    };
    let ws = stage.workspace();
    for (tool, args) in [
        ("view", json!({"path": "~/a.txt"})),
        ("view", json!({"path": "$HOME/a.txt"})),
        ("bash", json!({"command": "cat ~/a.txt"})),
        ("bash", json!({"command": "cat $HOME/a.txt"})),
    ] {
        // The passwd entry's home is outside, whatever the environment says.
        assert_eq!(judge(tool, args.clone(), &ws), "deny", "{args}");
        assert_eq!(judge(tool, args.clone(), &home), "deny", "{args}");
    }
    // Each home has what belongs to a home.
    for (tool, args) in [
        ("view", json!({"path": "~/.cargo/registry/x"})),
        ("bash", json!({"command": "ls ~/.cargo/registry"})),
        ("bash", json!({"command": "ls \"$HOME\"/.cargo/registry"})),
    ] {
        assert_eq!(judge(tool, args.clone(), Path::new("")), "allow", "{args}");
        assert_eq!(judge(tool, args.clone(), &home), "allow", "{args}");
    }
    for line in [
        "cat ~/.ssh/id_rsa",
        "cat $HOME/.aws/credentials",
        "ls ~/secrets",
    ] {
        assert_eq!(
            judge("bash", json!({"command": line}), &home),
            "deny",
            "{line}"
        );
    }
    // What only the environment calls the home is outside by its own name.
    let path = home.join(".cargo/registry/x");
    assert_eq!(judge("view", json!({"path": path}), &home), "deny");
}
