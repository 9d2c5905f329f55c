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
