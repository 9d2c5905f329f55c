//! `audit report`: over what the hooks wrote, and over records that were made up.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::bridge::audit::record::v1::Kind;
use super::bridge::engine::decision::Effect;
use super::made_record::{Maker, What, busy};
use super::program::{Answer, Stage, run, send};

/// A session as Copilot CLI has it: calls, results, and a result of a call that nobody judged.
fn recorded() -> Stage {
    let stage = Stage::new();
    stage.judge("view", &json!({"path": "a.txt"}));
    result(&stage, "view", &json!({"path": "a.txt"}));
    stage.judge("bash", &json!({"command": "sudo ls"}));
    stage.judge("bash", &json!({"command": "git push"}));
    stage.judge("view", &json!({"path": "../outside/secret.txt"}));
    result(&stage, "create", &json!({"path": "b.txt"}));
    send(stage.hook("pre-tool-use", &[]), b"garbage");
    stage
}

fn result(stage: &Stage, tool: &str, args: &Value) {
    let mut event = stage.call(tool, args);
    event["toolResult"] = json!({"resultType": "success", "textResultForLlm": "done"});
    let answer = send(
        stage.hook("post-tool-use", &[]),
        event.to_string().as_bytes(),
    );
    assert_eq!(answer.code, 0, "{answer:?}");
}

fn report(stage: &Stage, words: &[&str]) -> Answer {
    let mut command = stage.command(&["audit", "report"]);
    command.args(words).arg("--state").arg(stage.state());
    let answer = run(command);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.errors, "");
    answer
}

fn day(stage: &Stage) -> PathBuf {
    fs::read_dir(stage.state().join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .unwrap()
}

/// The row of that name.
fn row<'a>(top: &'a Value, name: &str) -> &'a Value {
    let rows = top["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {top:#}"))
}

#[test]
fn what_the_hooks_wrote_is_reported_in_three_forms() {
    let stage = recorded();
    let numbers = report(&stage, &["--format", "json"]).json();
    assert_eq!(numbers["lines"], 7);
    assert_eq!(numbers["sessions"], 1);
    assert_eq!(
        numbers["decisions"],
        json!({"allow": 3, "ask": 1, "deny": 3})
    );
    let policy = row(&numbers["policies"], "default:privileged-command");
    assert_eq!(policy["deny"], 1);
    assert!(
        policy["file"]
            .as_str()
            .unwrap()
            .ends_with("containment.cedar"),
        "{policy}"
    );
    assert!(policy["line"].as_u64().unwrap() > 1, "{policy}");
    let outside = stage.path("outside/secret.txt");
    assert_eq!(
        row(&numbers["denied_paths"], outside.to_str().unwrap())["count"],
        1
    );
    assert_eq!(row(&numbers["asked"], "shell git push")["count"], 1);
    assert_eq!(row(&numbers["faults"], "input_error")["count"], 1);
    assert_eq!(numbers["results"]["total"], 2);
    assert_eq!(numbers["results"]["unjudged"], 1);
    assert_eq!(row(&numbers["results"]["tools"], "create")["count"], 1);
    assert_eq!(numbers["marked"]["rows"][0]["id"], "session-1");
    assert_eq!(numbers["marked"]["rows"][0]["signs"]["unjudged"], 1);
    let never = &numbers["never_matched"];
    assert_eq!(never["policies"], "known");
    let unmatched: Vec<&str> = never["unmatched"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert!(
        !unmatched.contains(&"default:privileged-command"),
        "{unmatched:?}"
    );
    assert!(unmatched.len() > 3, "{unmatched:?}");
    assert!((unmatched.len() as u64) < never["in_force"].as_u64().unwrap());

    let text = report(&stage, &[]).text;
    assert!(text.starts_with("# The record in short\n"), "{text}");
    for part in [
        "| Denied | 3 | 42.9 % |\n",
        "- **Results without a preceding judgement: 1** (guard off). ",
        "\n## Decisions over time\n",
        "| `default:privileged-command` | `",
        "| `shell git push` | `",
        "\n## Policies that never matched\n",
        "| `input_error` | 1 | What the host sent could not be understood. |",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = report(&stage, &["--format", "html"]).text;
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("default:privileged-command</code>"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));
}

#[test]
fn a_report_goes_into_a_file_but_not_over_a_record() {
    use std::os::unix::fs::PermissionsExt;
    let stage = recorded();
    for (name, start) in [
        ("report.html", "<!DOCTYPE html>"),
        ("report.md", "# The record in short"),
        ("report.json", "{\n  \"version\": 1,"),
    ] {
        let path = stage.path(name);
        fs::write(&path, "older").unwrap();
        let answer = report(&stage, &["--output", path.to_str().unwrap()]);
        assert_eq!(answer.text, "");
        assert!(
            fs::read_to_string(&path).unwrap().starts_with(start),
            "{name}"
        );
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let before = fs::read(day(&stage)).unwrap();
    let copy = stage.path("copy.jsonl");
    fs::copy(day(&stage), &copy).unwrap();
    for (record, output) in [(&copy, copy.clone()), (&copy, day(&stage))] {
        let mut command = stage.command(&["audit", "report"]);
        let answer = run({
            command.arg(record).arg("--output").arg(&output);
            command
        });
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(
            answer.errors.contains("is a file of a record\nhelp: "),
            "{answer:?}"
        );
    }
    assert_eq!(fs::read(day(&stage)).unwrap(), before);
    assert_eq!(fs::read(copy).unwrap(), before);
    let mut command = stage.command(&["audit", "report", "--output", "/nowhere/at/all"]);
    let answer = run({
        command.arg("--state").arg(stage.state());
        command
    });
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer
            .errors
            .starts_with("error: cannot write `/nowhere/at/all`: "),
        "{answer:?}"
    );
}

#[test]
fn a_copy_is_reported_without_installation_and_told_what_it_lacks() {
    let stage = recorded();
    let copy = stage.path("copy.jsonl");
    fs::copy(day(&stage), &copy).unwrap();
    let of = |more: &[&str]| {
        let mut command = stage.command(&["audit", "report"]);
        command.arg(&copy).args(more);
        run(command)
    };
    let answer = of(&[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer
            .text
            .contains("That needs the policies: name their directory with `--policies DIR`.")
    );
    let policies = stage.policies();
    let never = of(&["--format", "json", "--policies", policies.to_str().unwrap()]).json();
    let ids = never["never_matched"]["unmatched"].to_string();
    assert!(
        ids.contains("\"user:") && !ids.contains("privileged-command"),
        "{ids}"
    );
    fs::write(policies.join("containment.cedar"), "permit").unwrap();
    let answer = of(&["--policies", policies.to_str().unwrap()]);
    assert_eq!((answer.code, answer.text.as_str()), (3, ""), "{answer:?}");
    assert!(answer.errors.contains("containment.cedar"), "{answer:?}");
    let answer = of(&["--state", "x"]);
    assert_eq!(answer.code, 64, "{answer:?}");
}

#[test]
fn a_period_is_cut_out_of_many_days() {
    let stage = Stage::new();
    let audit = stage.path("record");
    fs::create_dir(&audit).unwrap();
    for (day, bytes) in busy("2026-03-02T00:00:00Z", 5, 6).days() {
        fs::write(audit.join(format!("audit-{day}.jsonl")), bytes).unwrap();
    }
    let numbers = |words: &[&str]| {
        let mut command = stage.command(&["audit", "report", "--format", "json"]);
        command.arg(&audit).args(words);
        run(command).json()
    };
    let verified = {
        let mut command = stage.command(&["audit", "verify", "--format", "json"]);
        run({
            command.arg(&audit);
            command
        })
        .json()
    };
    let all = numbers(&[]);
    assert_eq!(verified["whole"], true, "{verified:#}");
    assert_eq!(all["lines"], verified["lines"]);
    let one = numbers(&["--since", "2026-03-04", "--until", "2026-03-04"]);
    let day = fs::read_to_string(audit.join("audit-2026-03-04.jsonl")).unwrap();
    assert_eq!(one["lines"], day.lines().count());
    assert_eq!(one["over_time"]["hours"], 1);
    assert_eq!(one["period"]["until"], "2026-03-05T00:00:00Z");
    let none = numbers(&["--until", "2026-03-01"]);
    assert_eq!(none["lines"], 0);
    assert_eq!(none["period"]["first"], Value::Null);
    let mut command = stage.command(&["audit", "report", "--until", "2026-03-01"]);
    let empty = run({
        command.arg(&audit);
        command
    });
    assert!(
        empty.text.contains("There is no line in this period."),
        "{empty:?}"
    );
}

#[test]
fn a_session_whose_policies_only_watched_or_changed_is_named() {
    let stage = Stage::new();
    let mut maker = Maker::new("2026-03-02T08:00:00Z");
    maker.call(&What {
        would_decide: Some(Effect::Deny),
        ..What::default()
    });
    maker.line(&What {
        digest: "d2",
        kind: Kind::Prompt,
        event: "user_prompt_submitted",
        ..What::default()
    });
    let path = stage.path("made.jsonl");
    let lines: Vec<u8> = maker.days().into_values().flatten().collect();
    fs::write(&path, lines).unwrap();
    let mut command = stage.command(&["audit", "report"]);
    let text = run({
        command.arg(&path);
        command
    })
    .text;
    assert!(
        text.contains("| only monitored: 2, policies changed: 1 |"),
        "{text}"
    );
    assert!(text.contains("(look at it)"), "{text}");
}

#[test]
fn no_form_holds_what_a_terminal_would_obey() {
    let stage = Stage::new();
    let text = "\u{1b}]0;title\u{7}\u{9b}2J\u{202e}gpj.exe\r";
    let mut maker = Maker::new("2026-03-02T08:00:00Z");
    maker.line(&What {
        session: text,
        tool: text,
        path: Some(text),
        decision: Effect::Deny,
        policy: text,
        unbound: true,
        ..What::default()
    });
    let path = stage.path("made.jsonl");
    let lines: Vec<u8> = maker.days().into_values().flatten().collect();
    fs::write(&path, lines).unwrap();
    for form in ["md", "html", "json"] {
        let mut command = stage.command(&["audit", "report", "--format", form]);
        let shown = run({
            command.arg(&path);
            command
        })
        .text;
        let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(obeyed), "{shown}");
        assert!(shown.contains("gpj.exe"), "{shown}");
    }
}

#[test]
fn policies_that_cannot_be_loaded_do_not_keep_a_report_away() {
    let stage = recorded();
    stage.write("ws/.copilot-bridge/policies/broken.cedar", "forbid (");
    let answer = report(&stage, &[]);
    assert!(
        answer
            .text
            .contains("cannot be loaded: run `copilot-bridge policy check`."),
        "{answer:?}"
    );
}
