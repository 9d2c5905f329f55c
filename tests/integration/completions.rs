//! The command line, for shells and for readers.

use std::fs;
use std::process::{Command, Stdio};

use super::program::{Stage, run};

/// Every verb that a person types.
fn verbs(stage: &Stage) -> Vec<String> {
    let help = run(stage.command(&["--help"])).text;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let named = commands.lines().filter_map(|line| {
        let verb = line.strip_prefix("  ")?;
        (!verb.starts_with(' ')).then(|| verb.split(' ').next().unwrap().to_owned())
    });
    named.filter(|verb| verb != "help").collect()
}

#[test]
fn every_shell_gets_every_verb() {
    let stage = Stage::new();
    let verbs = verbs(&stage);
    assert!(verbs.len() > 10, "{verbs:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let answer = run(stage.command(&["completions", shell]));
        assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{shell}");
        for verb in &verbs {
            assert!(answer.text.contains(verb.as_str()), "{shell}: {verb}");
        }
    }
    assert_eq!(run(stage.command(&["completions", "tcsh"])).code, 64);
}

/// The script itself, in the shell that it is for.
#[test]
fn bash_completes_a_verb() {
    let stage = Stage::new();
    let script = "source \"$1\"; COMP_WORDS=(copilot-bridge audit ver); COMP_CWORD=2; \
        _copilot-bridge copilot-bridge ver audit; echo \"${COMPREPLY[*]}\"";
    stage.write(
        "completions.bash",
        &run(stage.command(&["completions", "bash"])).text,
    );
    let bash = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(stage.path("completions.bash"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&bash.stdout).trim(),
        "verify",
        "{bash:?}"
    );
}

#[test]
fn every_verb_has_a_manual_page() {
    let stage = Stage::new();
    let page = run(stage.command(&["man"]));
    assert_eq!(page.code, 0, "{page:?}");
    assert!(page.text.contains(".TH copilot-bridge 1"), "{}", page.text);
    let dir = stage.path("man");
    let mut command = stage.command(&["man", "--output"]);
    command.arg(&dir);
    assert_eq!(run(command).code, 0);
    for verb in verbs(&stage) {
        let page = dir.join(format!("copilot-bridge-{verb}.1"));
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains("SYNOPSIS"), "{}", page.display());
    }
    assert!(dir.join("copilot-bridge-audit-verify.1").is_file());
    // What cannot be written is said.
    stage.write("file", "x");
    let mut command = stage.command(&["man", "--output"]);
    command.arg(stage.path("file"));
    let answer = run(command);
    assert_eq!(answer.code, 1);
    assert!(
        answer.errors.contains("cannot write the pages"),
        "{answer:?}"
    );
}
