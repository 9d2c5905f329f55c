//! Approvals out of band: a person at a terminal of their own answers what policies ask.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rexpect::session::{PtySession, spawn_command};
use serde_json::{Value, json};

use super::program::{Answer, Stage, binary, run, send};

const PASSPHRASE: &str = "correct horse battery";

/// A stage whose policies name people, whose keys are at hand.
struct Office {
    stage: Stage,
    keys: Vec<(String, String)>,
}

impl Office {
    fn new(people: &[(&str, &str)], more: &str) -> Self {
        let stage = Stage::new();
        let policies = stage.policies();
        let mut keys = Vec::new();
        let mut toml = format!("format = 1\n{more}\n");
        for (name, extra) in people {
            let file = stage.path(&format!("{name}.pem"));
            let line = make_key(&file, PASSPHRASE);
            toml.push_str(&format!(
                "[[approver]]\nname = \"{name}\"\nkey = \"{line}\"\n{extra}\n"
            ));
            keys.push(((*name).to_owned(), file.display().to_string()));
        }
        fs::write(policies.join("approvers.toml"), toml).unwrap();
        // Many hooks at once on a busy machine: none of them is to be late.
        let bridge = policies.join("bridge.toml");
        let text = fs::read_to_string(&bridge).unwrap();
        let patient = text.replace("deadline_ms = 1000", "deadline_ms = 20000");
        assert_ne!(patient, text);
        fs::write(bridge, patient).unwrap();
        Self { stage, keys }
    }

    /// The words that say where policies and state are.
    fn place(&self) -> [String; 4] {
        let policies = self.stage.path("policies").display().to_string();
        let state = self.stage.state().display().to_string();
        [
            "--policies".to_owned(),
            policies,
            "--state".to_owned(),
            state,
        ]
    }

    fn hook(&self, event: &str) -> Command {
        let mut command = self.stage.hook(event, &[]);
        command.arg("--policies").arg(self.stage.path("policies"));
        command
    }

    fn judge(&self, command: &str) -> Answer {
        self.judge_in("session-1", command)
    }

    fn judge_in(&self, session: &str, command: &str) -> Answer {
        let mut event = self.stage.call("bash", &json!({"command": command}));
        event["sessionId"] = session.into();
        send(self.hook("pre-tool-use"), event.to_string().as_bytes())
    }

    /// The verb without a terminal.
    fn approvals(&self, words: &[&str]) -> Answer {
        let mut command = self.stage.command(&["approvals"]);
        command.args(words).args(self.place());
        run(command)
    }

    /// The name of the question that an answer tells of.
    fn id(answer: &Answer) -> String {
        let reason = answer.reason();
        let (_, rest) = reason
            .split_once("`copilot-bridge approvals approve ")
            .unwrap_or_else(|| panic!("{reason}"));
        rest.chars().take_while(|c| *c != '`').collect()
    }

    /// Approves at a terminal; what was shown there.
    fn approve(&self, who: &str, id: &str, more: &[&str]) -> (i32, String) {
        self.at_terminal("approve", who, id, more)
    }

    fn at_terminal(&self, verb: &str, who: &str, id: &str, more: &[&str]) -> (i32, String) {
        let (_, key) = self.keys.iter().find(|(name, _)| name == who).unwrap();
        let mut command = Command::new(binary());
        command
            .args(["approvals", verb, id, "--key", key])
            .args(more)
            .args(self.place())
            .env_clear();
        let mut terminal = spawn_command(command, Some(60_000)).unwrap();
        type_passphrase(&mut terminal, PASSPHRASE)
    }

    fn last(&self, kind: &str) -> Value {
        let record = self.stage.record();
        let mut lines = record.into_iter().rev();
        lines.find(|line| line["kind"] == kind).unwrap()
    }

    fn verify(&self) {
        let mut command = self.stage.command(&["audit", "verify", "--state"]);
        command.arg(self.stage.state());
        let answer = run(command);
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    fn policy(&self, text: &str) {
        fs::write(self.stage.path("policies").join("own.cedar"), text).unwrap();
    }
}

/// Types the passphrase when it is asked for; how it ended, and all that stood there.
fn type_passphrase(terminal: &mut PtySession, passphrase: &str) -> (i32, String) {
    let before = terminal.exp_string("passphrase of ").unwrap();
    terminal.exp_string(": ").unwrap();
    terminal.send_line(passphrase).unwrap();
    let after = terminal.exp_eof().unwrap();
    let status = terminal.process().wait().unwrap();
    let code = match status {
        rexpect::process::WaitStatus::Exited(_, code) => code,
        other => panic!("{other:?}"),
    };
    (code, format!("{before}{after}"))
}

fn make_key(file: &Path, passphrase: &str) -> String {
    let mut command = Command::new(binary());
    command.args(["key", "new"]).arg(file).env_clear();
    let mut terminal = spawn_command(command, Some(60_000)).unwrap();
    terminal.exp_string("passphrase of ").unwrap();
    terminal.send_line(passphrase).unwrap();
    let (code, shown) = type_passphrase(&mut terminal, passphrase);
    assert_eq!(code, 0, "{shown}");
    let line = shown
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("ed25519:"));
    line.unwrap().to_owned()
}

#[test]
fn an_approval_lets_exactly_this_call_through_once() {
    let office = Office::new(&[("ann", "")], "");
    let asked = office.judge("git push");
    assert_eq!(asked.decision(), "ask");
    let id = Office::id(&asked);
    assert_eq!(
        office.last("tool_use")["detail"]["approval_pending"]["id"],
        id.as_str()
    );

    let listed = office.approvals(&["list"]);
    assert!(
        listed.text.contains(&id) && listed.text.contains("git push"),
        "{listed:?}"
    );
    let shown = office.approvals(&["show", &id.to_lowercase()]);
    for part in ["session-1", "git push", "user:ask-changes-history", "/ws"] {
        assert!(shown.text.contains(part), "{part}: {shown:?}");
    }

    let (code, said) = office.approve("ann", &id, &["--note", "release day"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("`ann` approved `{id}`")), "{said}");
    let line = office.last("approval");
    assert_eq!(line["event"], "approval_given");
    assert_eq!(line["detail"]["by"], "ann");
    assert_eq!(line["detail"]["verified"], true);
    assert_eq!(line["detail"]["note"], "release day");

    for (session, other) in [("session-1", "git push --force"), ("session-2", "git push")] {
        assert_eq!(office.judge_in(session, other).decision(), "ask", "{other}");
    }
    assert_eq!(office.judge("git push").decision(), "allow");
    let line = office.last("tool_use");
    assert_eq!(
        (&line["decision"], &line["would_decide"]),
        (&json!("allow"), &json!("allow"))
    );
    let approval = &line["detail"]["approval"];
    assert_eq!(approval["id"], id.as_str());
    assert_eq!(approval["approvers"], json!(["ann"]));
    assert_eq!(approval["verified"], true);
    assert_eq!(line["reasons"][0]["id"], "user:ask-changes-history");

    let again = office.judge("git push");
    assert_eq!(again.decision(), "ask");
    office.verify();
}

#[test]
fn of_twenty_calls_at_once_one_is_let_through() {
    let office = Office::new(&[("ann", "")], "");
    let id = Office::id(&office.judge("git push"));
    assert_eq!(office.approve("ann", &id, &[]).0, 0);
    // In the form that is read fastest, so that nobody is late.
    let mut compile = office.stage.command(&["policy", "compile"]);
    compile.args(office.place());
    assert_eq!(run(compile).code, 0);
    let decisions: Vec<&str> = thread::scope(|scope| {
        let all: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| office.judge("git push")))
            .collect();
        all.into_iter()
            .map(|one| one.join().unwrap().decision())
            .collect()
    });
    let count = |wanted: &str| decisions.iter().filter(|one| **one == wanted).count();
    assert_eq!((count("allow"), count("ask")), (1, 19), "{decisions:?}");
    office.verify();
}

#[test]
fn an_approval_put_back_after_its_use_counts_no_more() {
    let office = Office::new(&[("ann", "")], "");
    let id = Office::id(&office.judge("git push"));
    assert_eq!(office.approve("ann", &id, &[]).0, 0);
    let file = office
        .stage
        .state()
        .join(format!("approvals/answers/{id}.jsonl"));
    let kept = fs::read(&file).unwrap();
    assert_eq!(office.judge("git push").decision(), "allow");
    private_write(&file, &kept);
    assert_eq!(office.judge("git push").decision(), "ask");
    let refused = &office.last("tool_use")["detail"]["approval_refused"];
    assert_eq!(refused["why"], "the approval was used already");
}

#[test]
fn a_forged_question_yields_an_approval_that_fits_no_call() {
    let office = Office::new(&[("ann", "")], "");
    let harmless = Office::id(&office.judge("git push"));
    let harmful = Office::id(&office.judge("rm -rf \"$X\""));
    let pending = |id: &str| {
        office
            .stage
            .state()
            .join(format!("approvals/pending/{id}.json"))
    };
    let read =
        |id: &str| -> Value { serde_json::from_slice(&fs::read(pending(id)).unwrap()).unwrap() };
    // The person sees the harmless call, but the hash is the harmful one's.
    let mut forged = read(&harmful);
    forged["shown"] = read(&harmless)["shown"].clone();
    private_write(&pending(&harmful), forged.to_string().as_bytes());
    let (code, said) = office.approve("ann", &harmful, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("git push") && !said.contains("rm -rf"),
        "{said}"
    );
    assert_eq!(office.judge("rm -rf \"$X\"").decision(), "ask");
    let refused = &office.last("tool_use")["detail"]["approval_refused"];
    assert_eq!(
        refused["why"],
        "the person was shown something else than this call"
    );
    assert_eq!(office.judge("git push").decision(), "ask");
}

#[test]
fn an_approval_for_another_call_does_not_fit() {
    let office = Office::new(&[("ann", "")], "");
    let one = Office::id(&office.judge("git push"));
    let other = Office::id(&office.judge("git push --tags"));
    assert_eq!(office.approve("ann", &one, &[]).0, 0);
    let answers = |id: &str| {
        office
            .stage
            .state()
            .join(format!("approvals/answers/{id}.jsonl"))
    };
    private_write(&answers(&other), &fs::read(answers(&one)).unwrap());
    assert_eq!(office.judge("git push --tags").decision(), "ask");
    let refused = &office.last("tool_use")["detail"]["approval_refused"];
    assert_eq!(refused["why"], "an answer is for another call");
    assert_eq!(office.judge("git push").decision(), "allow");
}

#[test]
fn a_key_that_policies_do_not_name_approves_nothing() {
    let office = Office::new(&[("ann", ""), ("eve", "")], "");
    let file = office.stage.path("policies/approvers.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, _) = text.split_once("[[approver]]\nname = \"eve\"").unwrap();
    fs::write(&file, before).unwrap();
    let id = Office::id(&office.judge("git push"));
    let (code, said) = office.approve("eve", &id, &[]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is no approver's key"), "{said}");
    let mut wrong = Command::new(binary());
    wrong
        .args(["approvals", "approve", &id, "--key", &office.keys[0].1])
        .args(office.place())
        .env_clear();
    let mut terminal = spawn_command(wrong, Some(60_000)).unwrap();
    let (code, said) = type_passphrase(&mut terminal, "a guess");
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("does not open with that passphrase"),
        "{said}"
    );
    assert_eq!(office.judge("git push").decision(), "ask");
}

#[test]
fn without_a_terminal_nobody_approves() {
    let office = Office::new(&[("ann", "")], "");
    let id = Office::id(&office.judge("git push"));
    // `setsid` takes the terminal away, if the tests have one.
    let mut command = Command::new("setsid");
    command
        .arg(binary())
        .args(["approvals", "approve", &id, "--key", &office.keys[0].1])
        .args(office.place())
        .env("PATH", "/usr/bin:/bin")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let answer = send(command, PASSPHRASE.as_bytes());
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("there is no terminal"), "{answer:?}");

    let open = office.stage.path("open.pem");
    let mut make = office
        .stage
        .command(&["key", "new", "--without-passphrase"]);
    make.arg(&open);
    assert_eq!(run(make).code, 0);
    let answer = office.approvals(&["approve", &id, "--key", open.to_str().unwrap()]);
    assert_eq!(answer.code, 1);
    assert!(
        answer.errors.contains("is not behind a passphrase"),
        "{answer:?}"
    );
}

#[test]
fn an_approval_without_a_key_is_recorded_and_refused() {
    let office = Office::new(&[("ann", "")], "");
    let id = Office::id(&office.judge("git push"));
    let answer = office.approvals(&["approve", &id]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(
        answer.text.contains("not approved: no key signed it"),
        "{answer:?}"
    );
    let line = office.last("approval");
    assert_eq!(line["event"], "approval_not_given");
    assert_eq!(line["detail"]["verified"], false);
    assert_eq!(office.judge("git push").decision(), "ask");
}

#[test]
fn the_base_layer_may_accept_an_approval_without_a_key() {
    let office = Office::new(&[], "[approvals]\nunverified = \"accept\"");
    let id = Office::id(&office.judge("git push"));
    let answer = office.approvals(&["approve", &id]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(office.judge("git push").decision(), "allow");
    assert_eq!(
        office.last("tool_use")["detail"]["approval"]["verified"],
        false
    );
}

#[test]
fn a_denial_holds_until_it_expires() {
    let office = Office::new(&[("ann", "")], "");
    let id = Office::id(&office.judge("git push"));
    let answer = office.approvals(&["deny", &id, "--expires", "4s", "--note", "not on a Friday"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let denied = office.judge("git push");
    assert_eq!(denied.decision(), "deny");
    assert!(denied.reason().contains("not on a Friday"), "{denied:?}");
    assert_eq!(
        office.last("tool_use")["detail"]["approval_denied"]["id"],
        id.as_str()
    );
    let (code, said) = {
        let answer = office.approvals(&["approve", &id]);
        (answer.code, answer.errors)
    };
    assert_eq!(code, 1);
    assert!(said.contains("denied this call until"), "{said}");
    thread::sleep(Duration::from_secs(5));
    assert_eq!(office.judge("git push").decision(), "ask");
    let refused = &office.last("tool_use")["detail"]["approval_refused"];
    assert_eq!(refused["why"], "an answer has expired");
}

#[test]
fn an_approval_expires() {
    let office = Office::new(&[("ann", "")], "");
    let id = Office::id(&office.judge("git push"));
    let (code, said) = office.approve("ann", &id, &["--expires", "1s"]);
    assert_eq!(code, 0, "{said}");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(office.judge("git push").decision(), "ask");
    let long = office.approvals(&["approve", &id, "--expires", "11m"]);
    assert_eq!(long.code, 1);
    assert!(long.errors.contains("for more than 10 minutes"), "{long:?}");
}

const TWO: &str = r#"
@id("two-people")
@decision("ask")
@approvals("2 security")
@reason("pushing takes two people")
forbid(principal, action == Bridge::Action::"shell", resource is Bridge::Command)
when { resource.labels.contains("changes_history") };
"#;

#[test]
fn where_two_people_are_demanded_the_host_is_not_asked() {
    let office = Office::new(&[("ann", "groups = [\"security\"]"), ("bob", "")], "");
    office.policy(TWO);
    let denied = office.judge("git push");
    assert_eq!(denied.decision(), "deny");
    assert!(
        denied
            .reason()
            .contains("2 people, some of `security`, can approve it"),
        "{denied:?}"
    );
    let id = Office::id(&denied);
    let (code, said) = office.approve("bob", &id, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("1 more"), "{said}");
    assert_eq!(office.judge("git push").decision(), "deny");
    let refused = &office.last("tool_use")["detail"]["approval_refused"];
    assert_eq!(refused["why"], "1 of 2 approvals");
    // The host's own permission request does not get round it.
    let event = office.stage.call("bash", &json!({"command": "git push"}));
    let answer = send(
        office.hook("permission-request"),
        event.to_string().as_bytes(),
    );
    assert_eq!(answer.json()["behavior"], "deny");

    assert_eq!(office.approve("ann", &id, &[]).0, 0);
    assert_eq!(office.judge("git push").decision(), "allow");
    let approval = office.last("tool_use")["detail"]["approval"].clone();
    assert_eq!(approval["approvers"], json!(["bob", "ann"]));
    let answer = send(
        office.hook("permission-request"),
        event.to_string().as_bytes(),
    );
    assert_eq!(answer.text, "{}\n");
    assert_eq!(office.judge("git push").decision(), "deny");
}

#[test]
fn where_nobody_may_approve_nothing_is_kept_and_nothing_hinted() {
    let stage = Stage::new();
    let answer = stage.judge("bash", &json!({"command": "git push"}));
    assert_eq!(answer.decision(), "ask");
    assert!(!answer.reason().contains("approvals"), "{answer:?}");
    assert!(!stage.state().join("approvals").exists());
}

#[test]
fn an_agent_can_neither_answer_nor_write_to_the_desk() {
    let office = Office::new(&[("ann", "")], "");
    let id = Office::id(&office.judge("git push"));
    for command in [
        format!("copilot-bridge approvals approve {id}"),
        format!("sh -c 'copilot-bridge approvals deny {id}'"),
        format!("rm {}/approvals/used/x", office.stage.state().display()),
        "copilot-bridge key new k.pem".to_owned(),
    ] {
        assert_eq!(office.judge(&command).decision(), "deny", "{command}");
    }
    let path = office
        .stage
        .state()
        .join(format!("approvals/answers/{id}.jsonl"));
    let event = office
        .stage
        .call("create", &json!({"path": path, "file_text": "{}"}));
    let answer = send(office.hook("pre-tool-use"), event.to_string().as_bytes());
    assert_eq!(answer.decision(), "deny");
}

#[test]
fn a_secret_in_a_call_is_bound_but_not_shown() {
    let office = Office::new(&[("ann", "")], "");
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let asked = office.judge(&format!(
        "curl -H 'Authorization: Bearer {token}' https://example.com"
    ));
    if asked.decision() == "ask" {
        let id = Office::id(&asked);
        let file = office
            .stage
            .state()
            .join(format!("approvals/pending/{id}.json"));
        let text = fs::read_to_string(file).unwrap();
        assert!(!text.contains(&token), "{text}");
        assert!(text.contains("example.com"), "{text}");
    } else {
        panic!("{asked:?}");
    }
}

#[test]
fn a_lower_layer_names_no_approver() {
    let office = Office::new(&[("ann", "")], "");
    let text = fs::read_to_string(office.stage.path("policies/approvers.toml")).unwrap();
    office
        .stage
        .write("ws/.copilot-bridge/policies/approvers.toml", &text);
    let answer = office.judge("git push");
    assert_eq!(answer.decision(), "deny");
    assert!(
        answer
            .reason()
            .contains("may be set by the base layer only"),
        "{answer:?}"
    );
}

/// As the agent's own program could write it.
fn private_write(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}
