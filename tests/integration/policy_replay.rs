//! `policy replay`: calls of a record under other policies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::program::{Answer, Stage, run, send};

/// The program over this stage's record, by those policies.
fn replay(stage: &Stage, policies: &Path, more: &[&str]) -> Answer {
    run(command(stage, policies, more))
}

fn command(stage: &Stage, policies: &Path, more: &[&str]) -> Command {
    let mut command = stage.command(&["policy", "replay"]);
    command.args(more);
    command.arg("--policies").arg(policies);
    command.arg("--state").arg(stage.state());
    command
}

fn shell(stage: &Stage, line: &str) -> &'static str {
    stage.judge("bash", &json!({"command": line})).decision()
}

/// A stage whose agent did a few things by the default policies.
fn worked() -> Stage {
    let stage = Stage::new();
    assert_eq!(shell(&stage, "git status"), "allow");
    assert_eq!(shell(&stage, "git push origin main"), "ask");
    assert_eq!(shell(&stage, "mytool build --fast"), "ask");
    assert_eq!(shell(&stage, "sudo id"), "deny");
    let view = stage.judge("view", &json!({"path": "README.md"}));
    assert_eq!(view.decision(), "allow");
    let outside = json!({"path": stage.path("outside/secret.txt")});
    assert_eq!(stage.judge("view", &outside).decision(), "deny");
    stage
}

/// Changes a file of policies.
fn change(policies: &Path, file: &str, change: impl Fn(&str) -> String) {
    let path = policies.join(file);
    let before = fs::read_to_string(&path).unwrap();
    let after = change(&before);
    assert_ne!(before, after, "{file}");
    fs::write(path, after).unwrap();
}

const ROW: &str =
    "\n[[program]]\nnames = [\"mytool\"]\nsubcommands = [\"build\"]\nlabels = [\"everyday\"]\n";

fn forbid(condition: &str) -> String {
    format!(
        "\n@id(\"new\")\n@reason(\"it is new\")\nforbid(principal, action == Bridge::Action::\"shell\", resource is Bridge::Command)\nwhen {{ {condition} }};\n"
    )
}

#[test]
fn the_same_policies_change_nothing() {
    let stage = worked();
    let answer = replay(&stage, &stage.policies(), &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let first = "6 lines, 6 judged: nothing would be answered otherwise";
    assert!(answer.text.starts_with(first), "{answer:?}");
    assert!(!answer.text.contains("not judged"), "{answer:?}");
    assert!(!answer.text.contains("note:"), "{answer:?}");
    // Nothing was recorded.
    assert_eq!(stage.record().len(), 6);
}

#[test]
fn a_row_more_lets_its_calls_through() {
    let stage = worked();
    let policies = stage.policies();
    change(&policies, "containment.toml", |text| text.to_owned() + ROW);
    let answer = replay(&stage, &policies, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.text.contains("6 judged: 1 would"), "{answer:?}");
    let change = "ask → allow            1  looser    default:ask-unlisted-program\n";
    assert!(answer.text.contains(change), "{answer:?}");
    assert!(answer.text.contains(".jsonl:3  "), "{answer:?}");
    let asked = "  shell `mytool build --fast`\n";
    assert!(answer.text.contains(asked), "{answer:?}");
    for (more, code) in [
        (&["--fail-on", "looser"][..], 1),
        (&["--fail-on", "stricter"], 0),
        (&["--fail-on", "none"], 0),
        (&["--only", "stricter"], 0),
        (&["--only", "looser"], 1),
    ] {
        assert_eq!(replay(&stage, &policies, more).code, code, "{more:?}");
    }
}

#[test]
fn a_root_more_labels_recorded_paths_anew() {
    let stage = worked();
    let policies = stage.policies();
    let outside = stage.path("outside");
    let root = format!("name = \"root_read\"\npaths = [{outside:?}]");
    change(&policies, "containment.toml", |text| {
        text.replace("name = \"root_read\"\npaths = []", &root)
    });
    let answer = replay(&stage, &policies, &["--format", "json"]);
    let told = answer.json();
    assert_eq!(told["changes"][0]["from"], "deny", "{told:#}");
    assert_eq!(told["changes"][0]["to"], "allow", "{told:#}");
    assert_eq!(told["changes"][0]["direction"], "looser", "{told:#}");
    assert_eq!(
        told["changes"][0]["policies"],
        json!(["default:outside-read"])
    );
    // Of a record that was copied from elsewhere, nobody knows whose home `~` was.
    let copy = stage.path("copy");
    fs::create_dir(&copy).unwrap();
    let day = stage.days().remove(0);
    fs::copy(&day, copy.join("audit-2026-01-01.jsonl")).unwrap();
    let file = copy.join("audit-2026-01-01.jsonl");
    let answer = replay(&stage, &policies, &[file.to_str().unwrap()]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let note = "note: `label` differs from the policies of the time";
    assert!(answer.text.contains(note), "{answer:?}");
}

#[test]
fn limits_and_harmless_tools_are_those_of_the_new_policies() {
    let stage = Stage::new();
    let think = stage.judge("think", &json!({"thought": "x"}));
    assert_eq!(think.decision(), "allow");
    let event = stage.call("bash", &json!({"command": "git status"}));
    let mut deep = stage.hook("pre-tool-use", &[]);
    deep.env("COPILOT_BRIDGE_DEPTH", "2");
    let deep = send(deep, event.to_string().as_bytes());
    assert_eq!(deep.decision(), "allow", "{deep:?}");
    let policies = stage.policies();
    change(&policies, "bridge.toml", |text| {
        text.replace("    \"think\",\n", "")
            .replace("\ndepth = 3", "\ndepth = 2")
    });
    let told = replay(&stage, &policies, &["--format", "json"]).json();
    let kinds: Vec<_> = told["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["to"].as_str().unwrap(), one["lines"].as_u64().unwrap()))
        .collect();
    // One is listed no longer, the other stands too deep.
    assert_eq!(kinds, [("ask", 1), ("deny", 1)], "{told:#}");
    change(&policies, "bridge.toml", |text| {
        text.replace("\ndepth = 2", "\ndepth = 3")
    });
    let told = replay(&stage, &policies, &["--format", "json"]).json();
    assert_eq!(told["changed"], 1, "{told:#}");
    assert_eq!(
        told["changes"][0]["policies"],
        json!(["user:ask-custom-tool"])
    );
}

#[test]
fn what_the_record_does_not_tell_is_not_guessed() {
    let stage = worked();
    let long = format!("git status {}", "a".repeat(600));
    assert_eq!(shell(&stage, &long), "allow");
    let substituted = "git log $(git rev-parse HEAD)";
    shell(&stage, substituted);
    let policies = stage.policies();
    // The words of plain commands are told by their text.
    let permission = fs::read_to_string(policies.join("permission.cedar")).unwrap();
    let try_one = |condition: &str| {
        fs::write(
            policies.join("permission.cedar"),
            permission.clone() + &forbid(condition),
        )
        .unwrap();
        replay(&stage, &policies, &[])
    };
    let answer = try_one("resource.arguments.contains(\"--fast\")");
    let change = "ask → deny             1  stricter  user:new\n";
    assert!(answer.text.contains(change), "{answer:?}");
    let why =
        "not judged: 2 lines: policies ask for what the record does not tell: resource.arguments\n";
    assert!(answer.text.contains(why), "{answer:?}");
    let answer = try_one("resource.text like \"*aaa*\"");
    let why = "not judged: 1 line: policies ask for what the record does not tell: resource.text\n";
    assert!(answer.text.contains(why), "{answer:?}");
    assert_eq!(answer.code, 0, "{answer:?}");
    // What is denied anyway is judged whatever is not known of it.
    let answer = try_one("principal has kind && principal.kind == \"x\"");
    let why =
        "not judged: 6 lines: policies ask for what the record does not tell: principal.kind\n";
    assert!(answer.text.contains(why), "{answer:?}");
    assert!(answer.text.contains("8 lines, 2 judged"), "{answer:?}");
}

#[test]
fn a_new_pattern_is_not_known_of_recorded_arguments() {
    let stage = worked();
    let policies = stage.policies();
    change(&policies, "permission.toml", |text| {
        text.to_owned()
            + "\n[[pattern]]\nid = \"push\"\npattern = 'push'\nexamples = [\"git push\"]\ncounterexamples = [\"git pull\"]\n"
    });
    let answer = replay(&stage, &policies, &[]);
    let why = "the record does not tell: context.patterns\n";
    assert!(answer.text.contains(why), "{answer:?}");
    assert!(answer.text.contains("nothing would be"), "{answer:?}");
}

#[test]
fn lines_that_were_cut_and_faults_are_counted_apart() {
    let stage = worked();
    let broken = send(stage.hook("pre-tool-use", &["--dialect", "copilot"]), b"{");
    assert_eq!(broken.code, 2, "{broken:?}");
    let day = stage.days().remove(0);
    let text = fs::read_to_string(&day).unwrap();
    let cut = text.replacen("\"decision\"", "\"truncated\":true,\"decision\"", 1);
    fs::write(&day, cut + "{\"v\":9}\nno line\n{\"torn").unwrap();
    let answer = replay(&stage, &stage.policies(), &[]);
    for line in [
        "9 lines, 5 judged: nothing would be answered otherwise\n",
        "not judged: 1 line: the record left a part of what was asked out\n",
        "not judged: 2 lines: no line of a form that this version reads\n",
        "not judged: 1 line: denied by the fault `input_error`, not by a policy\n",
    ] {
        assert!(answer.text.contains(line), "{line}: {answer:?}");
    }
}

#[test]
fn an_answer_that_the_host_gave_is_no_change() {
    let stage = Stage::new();
    let call = json!({"command": "git push origin main"});
    assert_eq!(stage.judge("bash", &call).decision(), "ask");
    let event = stage.call("bash", &call).to_string();
    let again = send(
        stage.hook("permission-request", &["--dialect", "copilot"]),
        event.as_bytes(),
    );
    assert_eq!(again.code, 0, "{again:?}");
    let recorded: Vec<Value> = stage.record();
    assert_eq!(recorded[1]["decision"], "allow", "{recorded:#?}");
    let answer = replay(&stage, &stage.policies(), &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    // Without the policies of the time, nobody knows whether the host had asked.
    fs::remove_dir_all(stage.state().join("audit/policies")).unwrap();
    let answer = replay(&stage, &stage.policies(), &[]);
    let why = "not judged: 1 line: the host had asked already";
    assert!(answer.text.contains(why), "{answer:?}");
    let note = "note: 2 lines name policies that are not archived here";
    assert!(answer.text.contains(note), "{answer:?}");
}

#[test]
fn what_was_only_monitored_is_what_enforcing_changes() {
    let stage = Stage::new();
    let policies = stage.policies();
    change(&policies, "bridge.toml", |text| {
        text.replace("mode = \"enforce\"", "mode = \"monitor\"")
    });
    let event = stage
        .call("bash", &json!({"command": "sudo id"}))
        .to_string();
    let dir = policies.to_str().unwrap();
    let answer = send(
        stage.hook("pre-tool-use", &["--policies", dir]),
        event.as_bytes(),
    );
    assert_eq!(answer.decision(), "allow", "{answer:?}");
    assert_eq!(replay(&stage, &policies, &[]).code, 0);
    change(&policies, "bridge.toml", |text| {
        text.replace("mode = \"monitor\"", "mode = \"enforce\"")
    });
    let answer = replay(&stage, &policies, &[]);
    let change = "allow → deny           1  stricter  user:privileged-command\n";
    assert!(answer.text.contains(change), "{answer:?}");
}

#[test]
fn tables_whose_facts_stay_as_recorded_are_named() {
    let stage = worked();
    let policies = stage.policies();
    change(&policies, "containment.toml", |text| {
        text.replace("mounts = \"inside\"", "mounts = \"outside\"")
    });
    let answer = replay(&stage, &policies, &[]);
    let note = "note: `mounts` differs from the policies of the time: of 6 lines, what it states is as it was recorded\n";
    assert!(answer.text.contains(note), "{answer:?}");
}

#[test]
fn every_line_that_changes_can_be_had() {
    let stage = worked();
    let policies = stage.policies();
    change(&policies, "permission.cedar", |text| {
        text.to_owned() + &forbid("[\"git\", \"mytool\"].contains(resource.program)")
    });
    let path = stage.path("changed.jsonl");
    let out = path.to_str().unwrap();
    let answer = replay(&stage, &policies, &["--out", out, "--samples", "1"]);
    assert!(answer.text.contains("    and 1 more\n"), "{answer:?}");
    let lines: Vec<Value> = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["line"].as_u64().unwrap(),
                line["from"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [(1, "allow"), (2, "ask"), (3, "ask")]);
    assert!(lines.iter().all(|line| line["by"] == json!(["user:new"])));
    let github = replay(&stage, &policies, &["--format", "github"]);
    let policy = policies.join("permission.cedar");
    let place = format!("::notice file={},line=", policy.display());
    assert!(github.text.starts_with(&place), "{github:?}");
    assert!(
        github
            .text
            .contains("title=ask → deny::2 recorded calls by user:new, such as")
    );
}

#[test]
fn what_cannot_be_replayed_is_no_success() {
    let stage = worked();
    let policies = stage.policies();
    let answer = replay(&stage, &policies, &["--until", "2020-01-01"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer
            .errors
            .contains("no line of the record could be judged"),
        "{answer:?}"
    );
    let answer = replay(&stage, &policies, &["/nowhere/audit.jsonl"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.errors.contains("cannot read `/nowhere/audit.jsonl`"),
        "{answer:?}"
    );
    assert_eq!(replay(&stage, &policies, &["--since", "soon"]).code, 64);
    change(&policies, "permission.cedar", |text| {
        text.replacen("permit (", "permt (", 1)
    });
    let answer = replay(&stage, &policies, &[]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("permt"), "{answer:?}");
}

/// Lines that the program wrote, each again and again with other numbers, sessions, times and files.
fn year(stage: &Stage, lines: u64) -> Vec<PathBuf> {
    use std::io::Write;

    let templates: Vec<Vec<(String, bool)>> = {
        for path in ["src/module/file.rs", "README.md"] {
            stage.judge("view", &json!({"path": path}));
            let edit = json!({"path": path, "old_str": "a", "new_str": "b"});
            stage.judge("edit", &edit);
        }
        stage.judge("grep", &json!({"pattern": "x", "path": "src/module"}));
        stage.judge("web_fetch", &json!({"url": "https://docs.rs/module"}));
        for line in [
            "cargo test module",
            "git status",
            "git commit -m 'module' && git push",
            "cat src/module/file.rs | grep -n x",
            "mytool build module",
            "sudo id",
            "cd src/module && ls -la && rg module",
        ] {
            shell(stage, line);
        }
        let day = stage.days().remove(0);
        let text = fs::read_to_string(&day).unwrap();
        fs::remove_file(day).unwrap();
        text.lines().map(pieces).collect()
    };
    let dir = stage.state().join("audit");
    let mut files = Vec::new();
    let mut out: Option<std::io::BufWriter<fs::File>> = None;
    for number in 0..lines {
        let a_file = lines / 12 + 1;
        if number % a_file == 0 {
            let path = dir.join(format!("audit-2025-{:02}-01.jsonl", 1 + number / a_file));
            out = Some(std::io::BufWriter::new(fs::File::create(&path).unwrap()));
            files.push(path);
        }
        // One call in ten is about something that was never seen before.
        let name = match number % 10 {
            0 => number,
            _ => number % 997,
        };
        let out = out.as_mut().unwrap();
        let (session, name) = ((number / 40).to_string(), name.to_string());
        for (text, is_session) in &templates[usize::try_from(number).unwrap() % templates.len()] {
            out.write_all(text.as_bytes()).unwrap();
            let filling = if *is_session { &session } else { &name };
            out.write_all(filling.as_bytes()).unwrap();
        }
        out.write_all(b"\"}\n").unwrap();
    }
    files
}

/// The parts of a line before the number of a module, or of a session.
fn pieces(line: &str) -> Vec<(String, bool)> {
    let mut parts = Vec::new();
    let mut rest = line;
    loop {
        let next = [("module", false), ("session-", true)]
            .into_iter()
            .filter_map(|(mark, is_session)| Some((rest.find(mark)? + mark.len(), is_session)))
            .min();
        let Some((end, is_session)) = next else { break };
        let (before, after) = rest.split_at(end);
        parts.push((before.to_owned(), is_session));
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    // What is left has no number behind it; the chain is of no matter to a replay.
    let last = rest.rsplit_once("\"prev\":\"").unwrap().0;
    parts.push((format!("{last}\"prev\":\""), false));
    parts
}

/// How many lines the year has: a tenth of one, unless the variable says otherwise.
fn lines_of_a_year() -> u64 {
    let told = std::env::var("COPILOT_BRIDGE_REPLAY_LINES").ok();
    told.map_or(1_000_000, |text| text.parse().unwrap())
}

/// 15,000 lines a second and core, in less than 256 MiB.
#[test]
#[ignore = "it takes minutes, and a release build in COPILOT_BRIDGE_BIN"]
#[cfg(target_os = "linux")]
#[expect(clippy::print_stderr, reason = "a figure for whoever runs it")]
fn a_year_is_replayed_in_time_and_in_constant_memory() {
    use nix::sys::resource::{UsageWho, getrusage};

    let stage = Stage::new();
    let lines = lines_of_a_year();
    year(&stage, lines);
    let policies = stage.policies();
    change(&policies, "containment.toml", |text| text.to_owned() + ROW);
    let before = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let answer = replay(
        &stage,
        &policies,
        &["--format", "json", "--fail-on", "none"],
    );
    let after = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let told = answer.json();
    assert_eq!(told["lines"], lines, "{told:#}");
    assert_eq!(told["judged"], lines, "{told:#}");
    assert!(told["looser"].as_u64().unwrap() > 0, "{told:#}");
    let seconds = |usage: &nix::sys::resource::Usage| {
        let of = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        of(usage.user_time()) + of(usage.system_time())
    };
    let busy = seconds(&after) - seconds(&before);
    let rate = lines as f64 / busy;
    // The largest of all children: no other test runs beside this one.
    let mebibytes = after.max_rss() / 1024;
    let shown = format!(
        "{lines} lines: {rate:.0} a second of one core's time, {mebibytes} MiB, {} s\n",
        told["seconds"]
    );
    assert!(rate >= 15_000.0, "{shown}");
    assert!(mebibytes < 256, "{shown}");
    eprintln!("{shown}");
}
