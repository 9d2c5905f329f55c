//! Command lines that were taken for something else once, or still are: each a case of its own.

use serde_json::json;

use super::program::Stage;

/// What the default policies say of a line.
fn decision(line: &str) -> &'static str {
    Stage::new()
        .judge("bash", &json!({"command": line}))
        .decision()
}

/// Both are the same to a shell.
fn same(plain: &str, odd: &[&str]) {
    let expected = decision(plain);
    assert_ne!(expected, "allow", "{plain}: else this proves nothing");
    for line in odd {
        assert_eq!(decision(line), expected, "{line:?}");
    }
}

#[test]
fn quotes_within_a_word_hide_nothing() {
    same(
        "rm -rf .git",
        &[
            "rm -rf .g''it",
            "rm -rf .g\\it",
            "rm -rf \".g\"it",
            "rm -rf $'.g\\x69t'",
            "rm -rf .g{it,}",
        ],
    );
    same("cat .env", &["cat .e\"\"nv", "cat .\\env", "cat '.e'nv"]);
}

#[test]

fn a_backslash_within_a_word_hides_nothing() {
    same(
        "rm -rf .git",
        &[
            "rm -rf .g\\\nit",
            "rm -rf .g''\\it",
            "rm -rf $'.g'\\it",
            "rm -rf .g{i,}\\t",
        ],
    );
    same("cat .env", &["cat .e\\\nnv", "cat .e\"\"\\nv"]);
    same("tee .copilot-bridge/x", &["tee .copilot-bri\\\ndge/x"]);
}

#[test]

fn the_signal_of_a_trap_is_no_code() {
    same("rm -rf /", &["trap \"echo 'rm -rf /' | sh\" EXIT"]);
}

#[test]

fn a_negated_group_is_looked_into() {
    same("rm -rf .git", &["! { rm -rf .git; }", "! ( rm -rf .git )"]);
}

#[test]

fn a_new_worktree_is_written() {
    same(
        "touch /usr/x",
        &["git worktree add /usr/x", "git worktree add ~/.cargo/bin/x"],
    );
}

#[test]

fn a_long_chain_is_answered() {
    for link in ["a&&", "a||", "a>b|&"] {
        assert_ne!(
            decision(&format!("{}rm -rf /", link.repeat(1_700))),
            "allow",
            "{link}"
        );
    }
}

#[test]

fn a_brace_before_any_character_is_answered() {
    for c in ['\u{1f600}', '\u{80000}', '\u{f0001}', '\u{10fffd}'] {
        assert_ne!(decision(&format!("rm -rf /; echo {{{c}")), "allow", "{c}");
    }
}

#[test]

fn what_multiplies_is_judged_in_time() {
    for line in [
        format!("{}wc a", "find -exec ".repeat(30)),
        (0..20)
            .map(|index| format!("cd d{index}; "))
            .collect::<String>()
            + "ls",
    ] {
        let answer = Stage::new().judge("bash", &json!({"command": line}));
        assert!(!answer.reason().contains("[deadline]"), "{answer:?}");
    }
}

#[test]

fn skipped_hooks_are_asked_about() {
    for line in ["git commit --no-verify -m x", "git commit -nm x"] {
        assert_ne!(decision(line), "allow", "{line}");
    }
}

#[cfg(unix)]
#[test]
fn what_never_ends_is_not_read() {
    let stage = Stage::new();
    let git = stage.workspace().join(".git");
    std::fs::create_dir_all(&git).unwrap();
    let fifo = |path: &std::path::Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    fifo(&git.join("index"));
    fifo(&stage.workspace().join("tool.sh"));
    // Nobody can tell whether git tracks what guards the bridge: it may.
    let checkout = stage.judge("bash", &json!({"command": "git checkout main"}));
    assert_eq!(checkout.decision(), "deny");
    assert!(checkout.text.contains("default:guard"), "{checkout:?}");
    let written = json!({"path": "tool.sh", "file_text": "x"});
    assert_eq!(stage.judge("create", &written).decision(), "allow");
    let run = stage.judge("bash", &json!({"command": "bash tool.sh"}));
    assert_eq!(run.decision(), "ask");
}

#[test]
fn a_call_without_a_command_is_no_command_of_everyday() {
    let stage = Stage::new();
    for args in [json!({}), json!({"command": 42}), json!({"command": null})] {
        assert_eq!(stage.judge("bash", &args).decision(), "ask", "{args}");
    }
}

#[cfg(unix)]
#[test]
fn a_write_that_cannot_be_remembered_is_refused() {
    let stage = Stage::new();
    stage.judge("bash", &json!({"command": "ls"}));
    std::fs::write(stage.state().join("scripts"), "no folder").unwrap();
    let written = json!({"path": "tool.sh", "file_text": "x"});
    let answer = stage.judge("create", &written);
    assert_eq!(answer.decision(), "deny");
    assert!(answer.text.contains("audit_unavailable"), "{answer:?}");
    let record = stage.record();
    assert_eq!(record.last().unwrap()["decision"], "deny");
}
