//! `audit`: what an auditor asks of the record that the hooks wrote.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::program::{Answer, Stage, run, send};

/// A record of a read, a denied command and a question.
fn recorded() -> Stage {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    stage.judge("bash", &json!({"command": "sudo ls"}));
    stage.judge("bash", &json!({"command": "git push"}));
    stage
}

fn audit(stage: &Stage, words: &[&str]) -> Answer {
    let mut command = stage.command(&["audit"]);
    command.args(words).arg("--state").arg(stage.state());
    run(command)
}

fn day(stage: &Stage) -> PathBuf {
    stage.days().remove(0)
}

#[test]
fn what_the_hooks_wrote_is_whole() {
    let stage = recorded();
    let answer = audit(&stage, &["verify"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.text.starts_with("3 lines in 1 file, 2"),
        "{answer:?}"
    );
    assert!(answer.text.contains(": whole\nno checkpoint"), "{answer:?}");
    assert_eq!(answer.errors, "");
    // A copy elsewhere, without key and state.
    let copy = stage.path("copy.jsonl");
    fs::copy(day(&stage), &copy).unwrap();
    let mut command = stage.command(&["audit", "verify", "--format", "json"]);
    command.arg(&copy);
    let report = run(command).json();
    assert_eq!(report["whole"], true);
    assert_eq!(report["last"]["seq"], 3);
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn an_edit_is_named_with_file_line_and_kind() {
    let stage = recorded();
    let path = day(&stage);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("sudo ls", "sudo id", 1)).unwrap();
    let answer = audit(&stage, &["verify"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    let expected = format!(
        "{}:2: problem: number 2: it is not the line that number 3 was chained to (expected ",
        path.display()
    );
    assert!(answer.text.starts_with(&expected), "{answer:?}");
    assert!(answer.text.contains(") [edited]\n"), "{answer:?}");
    assert!(answer.text.contains(": 1 problem\n"), "{answer:?}");
    let report = audit(&stage, &["verify", "--format", "json"]).json();
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "edited");
    assert_eq!(finding["line"], 2);
    assert_eq!(finding["file"], json!(path));
    assert_eq!(report["whole"], false);
}

#[test]
fn a_record_that_is_not_there_cannot_be_called_whole() {
    let stage = Stage::new();
    let answer = audit(&stage, &["verify"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.errors.starts_with("error: "), "{answer:?}");
    assert_eq!(answer.text, "");
}

#[test]
fn every_verb_says_that_there_is_no_record() {
    let stage = recorded();
    fs::remove_dir_all(stage.state().join("audit")).unwrap();
    for words in [
        &["query"][..],
        &["show", "1"],
        &["lookup", "text"],
        &["report"],
        &["policy", "2026-01-01"],
        &["prove", "1"],
        &["checkpoint"],
        &["rotate-keys"],
        &["export", "--format", "cef"],
    ] {
        let answer = audit(&stage, words);
        assert_eq!(answer.code, 1, "{words:?}: {answer:?}");
        assert!(
            answer.errors.contains("there is no record in `"),
            "{words:?}: {answer:?}"
        );
        assert!(answer.errors.contains("help: "), "{words:?}: {answer:?}");
        assert_eq!(answer.text, "", "{words:?}");
    }
    // Who asks for the key makes none.
    let answer = audit(&stage, &["key"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("there is no key `"), "{answer:?}");
    assert!(!stage.state().join("signing-key").exists());
}

#[test]
fn no_verb_waits_for_a_day_that_is_a_fifo() {
    let stage = recorded();
    let pipe = stage.state().join("audit/audit-2026-01-01.jsonl");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for words in [
        &["verify"][..],
        &["query"],
        &["show", "1"],
        &["lookup", "text"],
        &["report"],
        &["policy", "2026-01-01"],
        &["export", "--format", "cef"],
    ] {
        let answer = audit(&stage, words);
        assert_ne!(answer.code, 0, "{words:?}: {answer:?}");
        assert!(
            answer.errors.contains("it is no plain file"),
            "{words:?}: {answer:?}"
        );
    }
}

#[test]
fn the_schema_names_every_field_of_a_line() {
    let stage = recorded();
    let schema: Value =
        serde_json::from_str(&run(stage.command(&["schema", "audit"])).text).unwrap();
    let fields = schema["properties"].as_object().unwrap();
    for line in stage.record() {
        assert!(
            line.as_object()
                .unwrap()
                .keys()
                .all(|key| fields.contains_key(key))
        );
    }
}

#[test]
fn a_query_shows_what_is_asked_about_in_three_forms() {
    let stage = recorded();
    let all = audit(&stage, &["query", "--format", "json"]);
    assert_eq!(all.text, fs::read_to_string(day(&stage)).unwrap());
    let count = |words: &[&str]| {
        let words = [&["query"], words].concat();
        let answer = audit(&stage, &words);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.text.lines().count()
    };
    for (words, expected) in [
        (&[][..], 3),
        (&["--decision", "deny"], 1),
        (&["--decision", "allow"], 1),
        (&["--tool", "bash"], 2),
        (&["--tool", "bash", "--decision", "ask"], 1),
        (&["--policy", "privileged-command"], 1),
        (&["--policy", "default:privileged-command"], 1),
        (&["--session", "session-1"], 3),
        (&["--session", "session-2"], 0),
        (&["--path", "a.txt"], 1),
        (&["--kind", "tool_use"], 3),
        (&["--kind", "result"], 0),
        (&["--since", "1d"], 3),
        (&["--until", "1d"], 0),
        (&["--since", "2020-01-01", "--until", "2020-12-31"], 0),
    ] {
        assert_eq!(count(words), expected, "{words:?}");
    }
    let table = audit(&stage, &["query", "--decision", "deny"]);
    let text = &table.text;
    assert!(
        text.contains("  deny   bash          shell sudo ls"),
        "{table:?}"
    );
    assert!(
        text.ends_with("  default:privileged-command\n"),
        "{table:?}"
    );
    let csv = audit(&stage, &["query", "--format", "csv"]).text;
    assert!(
        csv.starts_with("seq,time,decision,kind,session,tool,what,policy\n1,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 4);
}

#[test]
fn a_query_follows_what_comes() {
    use std::io::{BufRead, BufReader};
    let stage = recorded();
    let mut command = stage.command(&["audit", "query", "-f", "--format", "json"]);
    command.args(["--decision", "deny", "--state"]);
    let mut child = command.arg(stage.state()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .try_for_each(|line| send.send(line))
    });
    let mut seen = Vec::new();
    let wait = std::time::Duration::from_secs(10);
    seen.extend(receive.recv_timeout(wait));
    stage.judge("bash", &json!({"command": "sudo id"}));
    seen.extend(receive.recv_timeout(wait));
    // The day changes: what comes goes into another file.
    stage.begin_day("2999-01-01");
    stage.judge("bash", &json!({"command": "ls"}));
    stage.judge("bash", &json!({"command": "sudo id"}));
    seen.extend(receive.recv_timeout(wait));
    child.kill().unwrap();
    child.wait().unwrap();
    let number = |line: &String| serde_json::from_str::<Value>(line).unwrap()["seq"].clone();
    assert_eq!(seen.iter().map(number).collect::<Vec<_>>(), [2, 4, 6]);
}

#[test]
fn one_decision_is_shown_as_explain_would() {
    let stage = recorded();
    let answer = audit(&stage, &["show", "2"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    for part in [
        "number    2\n",
        "event     pre_tool_use (copilot), tool_use\n",
        "request   shell sudo ls\n",
        "decision  deny\n  default:privileged-command (",
        "session   session-1\n",
    ] {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
    let line = audit(&stage, &["show", "2", "--format", "json"]).json();
    assert_eq!(line, stage.record()[1]);
    let answer = audit(&stage, &["show", "99"]);
    assert_eq!(answer.code, 1);
    assert!(answer.errors.contains("has no line `99`"), "{answer:?}");
}

#[test]
fn what_the_record_hides_is_found_by_its_value() {
    use super::program::send;
    let stage = Stage::new();
    let data = "nobody's business\n";
    stage.judge("view", &json!({"path": "a.txt"}));
    stage.judge("create", &json!({"path": "x", "file_text": data}));
    for value in [data, "nobody's business\n\n"] {
        let mut command = stage.command(&["audit", "lookup", "-"]);
        command.arg("--state").arg(stage.state());
        let answer = send(command, value.as_bytes());
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(answer.text.starts_with("2 2"), "{answer:?}");
        assert!(
            answer
                .text
                .ends_with("session session-1 tool create /args_redacted/file_text\n"),
            "{answer:?}"
        );
    }
    let found = audit(&stage, &["lookup", data, "--format", "json"]).json();
    assert_eq!(found["pointer"], "/args_redacted/file_text");
    let answer = audit(&stage, &["lookup", "somebody's"]);
    assert_eq!((answer.code, answer.text.as_str()), (1, ""));
    let mut command = stage.command(&["audit", "lookup", "x", "--state"]);
    command.arg(stage.path("elsewhere"));
    assert_eq!(run(command).code, 1);
    assert!(!stage.path("elsewhere").exists(), "who looks makes no key");
}

#[test]
fn a_checkpoint_that_was_kept_finds_what_the_chain_cannot() {
    let stage = recorded();
    let kept = stage.path("kept");
    let made = audit(&stage, &["checkpoint"]);
    assert_eq!(made.code, 0, "{made:?}");
    fs::write(&kept, &made.text).unwrap();
    let key = audit(&stage, &["key"]).text.trim().to_owned();
    let name = key.split('+').next().unwrap();
    assert!(made.text.starts_with(&format!("{name}\n3\n")), "{made:?}");
    stage.judge("bash", &json!({"command": "sudo id"}));
    let verify = || {
        let kept = kept.to_str().unwrap();
        audit(&stage, &["verify", "--checkpoint", kept, "--key", &key])
    };
    let answer = verify();
    assert_eq!(answer.code, 0, "{answer:?}");
    let covered = format!("1 checkpoint covers it up to number 3, signed with {key}\n");
    assert!(answer.text.ends_with(&covered), "{answer:?}");
    // The last line that it covers, in the same form.
    let path = day(&stage);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, lines[..2].concat()).unwrap();
    let answer = verify();
    assert_eq!(answer.code, 1, "{answer:?}");
    let missing = "number 3, which the checkpoint of ";
    assert!(answer.text.contains(missing), "{answer:?}");
    // The next writer says so too, and goes on behind it.
    stage.judge("view", &json!({"path": "a.txt"}));
    let record = stage.record();
    assert_eq!(record[2]["kind"], "lost");
    assert_eq!(record[2]["detail"], json!({"first": 3, "last": 4}));
    assert_eq!(record[3]["seq"], 6);
    // Everything is made anew, with the installation's own key.
    fs::remove_dir_all(stage.state().join("audit")).unwrap();
    for _ in 0..4 {
        stage.judge("view", &json!({"path": "a.txt"}));
    }
    audit(&stage, &["checkpoint"]);
    assert_eq!(audit(&stage, &["verify"]).code, 0);
    let answer = verify();
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.text.contains("[rewritten]"), "{answer:?}");
    // What is not there is said without the system's number.
    let answer = audit(&stage, &["verify", "--key", "nonsense"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    let missing = "error: `nonsense` is no verifier key: cannot read `nonsense`: ";
    assert!(answer.errors.starts_with(missing), "{answer:?}");
    assert!(!answer.errors.contains("os error"), "{answer:?}");
    // What is no checkpoint, or another's, is not believed.
    fs::write(&kept, "nothing").unwrap();
    let answer = verify();
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.errors.contains("is no checkpoint"), "{answer:?}");
}

#[test]
fn a_line_is_proven_to_somebody_without_the_record() {
    let stage = recorded();
    let proof = stage.path("line.tlog-proof");
    let answer = audit(&stage, &["prove", "2"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer
            .errors
            .contains("`copilot-bridge audit checkpoint` makes one")
    );
    let older = stage.path("older");
    fs::write(&older, audit(&stage, &["checkpoint"]).text).unwrap();
    let answer = audit(&stage, &["prove", "2"]);
    assert!(
        answer.text.starts_with("c2sp.org/tlog-proof@v1\nextra "),
        "{answer:?}"
    );
    fs::write(&proof, &answer.text).unwrap();
    let key = audit(&stage, &["key"]).text;
    let check = |key: &str, more: &[&str]| {
        let mut command = stage.command(&["audit", "prove", "--check"]);
        command.arg(&proof).args(["--key", key.trim()]).args(more);
        run(command)
    };
    let answer = check(&key, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.text.starts_with("number 2 is in the record:\n{"),
        "{answer:?}"
    );
    assert!(answer.text.contains("sudo ls"), "{answer:?}");
    // Another line, and another key.
    let text = fs::read_to_string(&proof).unwrap();
    fs::write(&proof, text.replace("index 1", "index 0")).unwrap();
    let answer = check(&key, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("proves nothing"), "{answer:?}");
    let other = recorded();
    audit(&other, &["checkpoint"]);
    fs::write(&proof, &text).unwrap();
    assert_eq!(check(&audit(&other, &["key"]).text, &[]).code, 1);
    // The record goes on from what was kept.
    stage.judge("view", &json!({"path": "a.txt"}));
    audit(&stage, &["checkpoint"]);
    let older = older.to_str().unwrap();
    let answer = audit(&stage, &["prove", "--since", older]);
    assert!(answer.text.starts_with("old 3\n"), "{answer:?}");
    fs::write(&proof, &answer.text).unwrap();
    let answer = check(&key, &["--since", older]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.text.contains("from the checkpoint of 3 lines"),
        "{answer:?}"
    );
    assert_eq!(audit(&stage, &["prove"]).code, 64);
    assert_eq!(audit(&stage, &["prove", "99"]).code, 1);
}

#[test]
fn the_policies_of_a_day_are_shown() {
    let stage = recorded();
    let record = stage.record();
    let (today, _) = record[0]["ts"].as_str().unwrap().split_once('T').unwrap();
    let digest = record[0]["policy_digest"].as_str().unwrap();
    let answer = audit(&stage, &["policy", today]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer
            .text
            .starts_with(&format!("{digest}\n  named by 3 lines, ")),
        "{answer:?}"
    );
    assert!(answer.text.contains("    permission.cedar, "), "{answer:?}");
    let shown = audit(&stage, &["policy", today, "--file", "permission.cedar"]);
    assert!(shown.text.contains("permit"), "{shown:?}");
    let then = stage.path("then");
    let answer = audit(
        &stage,
        &["policy", "0s", "--output", then.to_str().unwrap()],
    );
    assert_eq!(answer.code, 0, "{answer:?}");
    let layer = fs::read_dir(&then).unwrap().next().unwrap().unwrap().path();
    assert_eq!(
        fs::read_to_string(layer.join("permission.cedar")).unwrap(),
        shown.text
    );
    // What was changed since is not shown as what it was.
    let archive = stage.state().join(format!("audit/policies/{digest}.json"));
    let text = fs::read_to_string(&archive).unwrap();
    fs::write(&archive, text.replacen("permit", "forbid", 1)).unwrap();
    let answer = audit(&stage, &["policy", today]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.text.contains("is not what was archived"),
        "{answer:?}"
    );
    assert_eq!(audit(&stage, &["policy", "soon"]).code, 64);
    for never in ["2020-01-01", "2020-01-01T00:00:00Z"] {
        assert_eq!(audit(&stage, &["policy", never]).code, 1);
    }
}

#[test]
fn new_keys_are_handed_over_to_and_old_values_still_found() {
    let stage = recorded();
    let prompt =
        json!({"sessionId": "s", "timestamp": 1, "cwd": stage.workspace(), "prompt": "a wish"});
    let ask = || {
        send(
            stage.hook("userPromptSubmitted", &[]),
            prompt.to_string().as_bytes(),
        )
    };
    ask();
    assert_eq!(audit(&stage, &["checkpoint"]).code, 0);
    let old = audit(&stage, &["key"]).text;
    let answer = audit(&stage, &["rotate-keys"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let new = audit(&stage, &["key"]).text;
    assert_eq!(answer.text, new);
    assert_ne!(old, new);
    assert_eq!(old.split('+').next(), new.split('+').next());
    ask();
    assert_eq!(audit(&stage, &["checkpoint"]).code, 0);
    let line = &stage.record()[4];
    assert_eq!(
        (&line["kind"], &line["detail"]["key"]),
        (&json!("rotated"), &json!(new.trim()))
    );
    // Whoever knows the first key follows; another one is told.
    for words in [&["verify"][..], &["verify", "--key", old.trim()]] {
        let answer = audit(&stage, words);
        assert_eq!(answer.code, 0, "{answer:?}");
        let covered = format!("4 checkpoints cover it up to number 6, signed with {new}");
        assert!(answer.text.ends_with(&covered), "{answer:?}");
    }
    let other = recorded();
    audit(&other, &["checkpoint"]);
    let foreign = audit(&other, &["key"]).text;
    let answer = audit(&stage, &["verify", "--key", foreign.trim()]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.text.contains("[key]"), "{answer:?}");
    // The same wish, hidden with either key.
    let answer = audit(&stage, &["lookup", "a wish"]);
    assert_eq!(answer.text.lines().count(), 2, "{answer:?}");
}
