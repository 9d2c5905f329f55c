//! Policies as one signed file: made, signed, fetched and put in force, or refused.

mod machine;
#[cfg(feature = "serve")]
mod remote;

use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::program::{Answer, Stage, run};

/// Whatever an agent does is allowed.
const PERMIT: &str =
    "@id(\"all\")\n@reason(\"all is fine\")\npermit(principal, action, resource);\n";

/// But not that.
const FORBID: &str = "@id(\"no-view\")\n@reason(\"nobody reads\")\nforbid(principal, action == Bridge::Action::\"read\", resource);\n";

/// A team that builds bundles, and a machine that fetches them.
struct Team {
    stage: Stage,
}

impl Team {
    fn new() -> Self {
        let team = Self {
            stage: Stage::new(),
        };
        team.stage.write("src/a.cedar", PERMIT);
        team.stage.write("src/tests/a.toml", "format = 1\n");
        team.stage.write("src/README.md", "what this is\n");
        fs::create_dir_all(team.machine()).unwrap();
        team
    }

    fn path(&self, name: &str) -> String {
        self.stage.path(name).to_str().unwrap().to_owned()
    }

    fn machine(&self) -> PathBuf {
        self.stage.path("machine")
    }

    /// The directory that hooks read.
    fn policies(&self) -> PathBuf {
        self.machine().join("policies")
    }

    fn bundle(&self, words: &[&str]) -> Answer {
        let mut all = vec!["policy", "bundle"];
        all.extend(words);
        run(self.stage.command(&all))
    }

    /// A key, and the line that names it.
    fn key(&self, name: &str) -> String {
        let file = self.path(name);
        let mut command = self.stage.command(&["key", "new", "--without-passphrase"]);
        command.arg(file);
        let answer = run(command);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.text.trim().to_owned()
    }

    fn build(&self, version: u32, more: &[&str]) -> Answer {
        let (source, version) = (self.path("src"), version.to_string());
        let out = self.path("acme.bundle");
        let mut words = vec![
            "build",
            &source,
            "--name",
            "acme",
            "--version",
            &version,
            "-o",
            &out,
        ];
        words.extend(more);
        self.bundle(&words)
    }

    fn sign(&self, key: &str) {
        let answer = self.bundle(&["sign", &self.path("acme.bundle"), "--key", &self.path(key)]);
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    /// A bundle of that version, signed by `key`.
    fn release(&self, version: u32, more: &[&str]) {
        let answer = self.build(version, more);
        assert_eq!(answer.code, 0, "{answer:?}");
        self.sign("key");
    }

    fn pin(&self, keys: &[&str], more: &str) {
        self.pin_to(&format!("file://{}", self.path("acme.bundle")), keys, more);
    }

    fn pin_to(&self, source: &str, keys: &[&str], more: &str) {
        let keys: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
        let text = format!(
            "format = 1\n[bundle]\nname = \"acme\"\nsource = \"{source}\"\nkeys = [{}]\n{more}\n",
            keys.join(", ")
        );
        self.stage.write("machine/bundle.toml", &text);
    }

    fn place(&self, words: &[&str]) -> std::process::Command {
        let mut all = vec!["policy", "bundle"];
        all.extend(words);
        let mut command = self.stage.command(&all);
        command.arg("--policies").arg(self.policies());
        command.arg("--state").arg(self.stage.state());
        command
    }

    fn fetch(&self, more: &[&str]) -> Answer {
        let mut words = vec!["fetch"];
        words.extend(more);
        run(self.place(&words))
    }

    /// A fetch that is refused; returns why.
    fn refused(&self) -> String {
        let answer = self.fetch(&[]);
        assert_eq!(answer.code, 1, "{answer:?}");
        answer.errors
    }

    fn status(&self) -> (i32, Value) {
        let answer = run(self.place(&["status", "--format", "json"]));
        (answer.code, answer.json())
    }

    /// What becomes of a read.
    fn judge(&self) -> Answer {
        let policies = self.policies();
        let event = self
            .stage
            .call("view", &json!({"path": "a.txt"}))
            .to_string();
        let hook = self
            .stage
            .hook("pre-tool-use", &["--policies", policies.to_str().unwrap()]);
        super::program::send(hook, event.as_bytes())
    }

    /// The lines of the record about policies.
    fn noted(&self) -> Vec<Value> {
        let lines = self.stage.record();
        lines
            .into_iter()
            .filter(|line| line["kind"] == "policy")
            .collect()
    }

    fn change_payload(&self, change: impl FnOnce(&mut Value)) {
        let file = self.stage.path("acme.bundle");
        let mut envelope: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let payload = BASE64
            .decode(envelope["payload"].as_str().unwrap().as_bytes())
            .unwrap();
        let mut payload: Value = serde_json::from_slice(&payload).unwrap();
        change(&mut payload);
        envelope["payload"] = BASE64.encode(payload.to_string().as_bytes()).into();
        fs::write(file, envelope.to_string()).unwrap();
    }
}

/// A team with a key, and a machine that knows it.
fn ready() -> Team {
    let team = Team::new();
    let key = team.key("key");
    team.pin(&[&key], "");
    team
}

#[test]
fn a_signed_bundle_is_what_hooks_judge_by() {
    let team = ready();
    team.release(1, &[]);
    let answer = team.fetch(&[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.text.starts_with("acme 1 is in force"), "{answer:?}");
    assert_eq!(team.judge().decision(), "allow");
    for file in ["a.cedar", "tests/a.toml", "README.md"] {
        let (there, source) = (
            team.policies().join(file),
            team.stage.path("src").join(file),
        );
        assert_eq!(
            fs::read(there).unwrap(),
            fs::read(source).unwrap(),
            "{file}"
        );
    }

    team.stage.write("src/b.cedar", FORBID);
    team.release(2, &[]);
    assert_eq!(team.fetch(&[]).code, 0);
    assert_eq!(team.judge().decision(), "deny");
    let answer = team.fetch(&[]);
    assert_eq!(answer.text, "acme 2 is in force already\n");

    let noted = team.noted();
    let events: Vec<&Value> = noted.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["bundle_published", "bundle_published"]);
    let detail = &noted[1]["detail"];
    assert_eq!(
        (&detail["name"], &detail["version"]),
        (&json!("acme"), &json!(2))
    );
    assert_eq!(detail["from"], noted[0]["detail"]["to"]);
    let judged = team.stage.record();
    let digests: Vec<&Value> = judged.iter().map(|line| &line["policy_digest"]).collect();
    assert!(
        digests.contains(&&detail["to"]),
        "the record names the policies that the bundle brought"
    );
    let state = team.stage.state();
    assert_eq!(
        fs::read(state.join("bundles/acme.bundle")).unwrap(),
        fs::read(team.stage.path("acme.bundle")).unwrap()
    );
    let compiled = state.join(format!("bundle/{}.bundle", detail["to"].as_str().unwrap()));
    assert!(compiled.is_file(), "hooks find it compiled");
    let (code, status) = team.status();
    assert_eq!((code, &status["bundle"]["version"]), (0, &json!(2)));
    let verify = run({
        let mut command = team.stage.command(&["audit", "verify"]);
        command.arg(state.join("audit"));
        command
    });
    assert_eq!(verify.code, 0, "{verify:?}");
}

#[test]
fn what_is_not_vouched_for_is_refused_and_what_was_stays() {
    let team = ready();
    team.release(3, &[]);
    assert_eq!(team.fetch(&[]).code, 0);
    let file = team.stage.path("acme.bundle");
    let good = fs::read(&file).unwrap();
    team.key("other");

    type Spoil<'a> = &'a dyn Fn();
    let cases: &[(&str, Spoil<'_>)] = &[
        ("nobody signed it", &|| {
            team.build(4, &[]);
        }),
        ("no key that counts signed it, but `", &|| {
            team.build(4, &[]);
            team.sign("other");
        }),
        ("it was changed after the key `", &|| {
            team.release(4, &[]);
            team.change_payload(|payload| payload["version"] = 5.into());
        }),
        (
            "this is version 2 of the bundle `acme`, and version 3 was in force already",
            &|| {
                team.release(2, &[]);
            },
        ),
        ("this is another version 3 of the bundle `acme`", &|| {
            team.stage.write("src/b.cedar", FORBID);
            team.release(3, &[]);
        }),
        (
            "version 4 of the bundle `acme` expired at 2026-01-02T00:00:00Z",
            &|| {
                team.release(4, &["--created", "2026-01-01T00:00:00Z", "--expires", "1d"]);
            },
        ),
        (
            "the bundle was made at 2126-01-01T00:00:00Z, which is still to come",
            &|| {
                team.release(4, &["--created", "2126-01-01T00:00:00Z"]);
            },
        ),
        ("this is no policy bundle", &|| {
            fs::write(&file, "{}").unwrap()
        }),
        ("this is no policy bundle", &|| {
            fs::write(&file, [0xff; 9]).unwrap()
        }),
        ("what lies there is too large", &|| {
            fs::write(&file, vec![b' '; (16 << 20) + 1]).unwrap();
        }),
        (
            "and this program knows `application/vnd.copilot-bridge.policy-bundle.v1+json`",
            &|| {
                let text = String::from_utf8(good.clone()).unwrap();
                fs::write(&file, text.replace("bundle.v1+json", "bundle.v2+json")).unwrap();
            },
        ),
        ("no such file", &|| fs::remove_file(&file).unwrap()),
    ];
    for (why, spoil) in cases {
        spoil();
        let said = team.refused();
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("; acme 3 stays in force"), "{said}");
        let noted = team.noted();
        let last = noted.last().unwrap();
        assert_eq!(last["event"], "bundle_refused", "{why}");
        assert!(
            last["detail"]["why"].as_str().unwrap().contains(why),
            "{last}"
        );
        assert_eq!(last["decision"], "deny");
        assert_eq!(last["detail"]["in_force"]["version"], 3);
        assert_eq!(team.judge().decision(), "allow", "{why}");
        let (code, status) = team.status();
        assert_eq!(code, 1, "{why}");
        assert!(
            status["bundle"]["failed"]["why"]
                .as_str()
                .unwrap()
                .contains(why)
        );
    }
    let mut report = team.stage.command(&["audit", "report"]);
    report.arg("--state").arg(team.stage.state());
    let report = run(report).text;
    assert!(
        report.contains("Bundles of policies that were refused"),
        "{report}"
    );
    fs::write(&file, good).unwrap();
    assert_eq!(team.fetch(&[]).code, 0);
    assert_eq!(team.status().0, 0, "a failure that is over is over");
}

#[test]
fn a_bundle_of_another_name_is_refused() {
    let team = ready();
    team.build(1, &[]);
    let (source, out) = (team.path("src"), team.path("acme.bundle"));
    let words = [
        "build",
        &source,
        "--name",
        "other",
        "--version",
        "9",
        "-o",
        &out,
    ];
    assert_eq!(team.bundle(&words).code, 0);
    team.sign("key");
    let said = team.refused();
    assert!(
        said.contains("this is the bundle `other`, and `acme` is asked for"),
        "{said}"
    );
    assert!(said.contains("; nothing was put in force"), "{said}");
    assert!(!team.policies().exists());
}

#[test]
fn policies_that_are_not_in_order_are_shown_as_they_are_in_the_bundle() {
    let team = ready();
    team.stage
        .write("src/bad.cedar", "permit(principal, action\n");
    let answer = team.build(1, &[]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("bad.cedar"), "{answer:?}");
    assert!(!team.stage.path("acme.bundle").exists());
    fs::remove_file(team.stage.path("src/bad.cedar")).unwrap();

    // Whoever has the key may sign what `build` would not make.
    team.build(1, &[]);
    let made: Value =
        serde_json::from_slice(&fs::read(team.stage.path("acme.bundle")).unwrap()).unwrap();
    let payload = BASE64
        .decode(made["payload"].as_str().unwrap().as_bytes())
        .unwrap();
    let mut payload: Value = serde_json::from_slice(&payload).unwrap();
    payload["files"]["a.cedar"] = PERMIT.replace("@reason", "@raison").into();
    let versions: copilot_bridge::policy::source::Versions =
        serde_json::from_value(payload["versions"].clone()).unwrap();
    let files = serde_json::from_value(payload["files"].clone()).unwrap();
    payload["digest"] = copilot_bridge::policy::published::digest(&versions, &files).into();
    team.change_payload(|whole| *whole = payload);
    team.sign("key");
    let answer = team.fetch(&[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.text.contains("acme 1/a.cedar:2:1"), "{answer:?}");
    assert!(answer.text.contains("raison"), "{answer:?}");
    assert!(
        answer
            .errors
            .contains("the policies of the bundle `acme` are not in order")
    );
    assert!(!team.policies().exists());
}

#[test]
fn the_same_policies_make_the_same_file() {
    let team = ready();
    let build = || {
        let answer = team.build(
            1,
            &["--created", "2026-01-01T00:00:00Z", "--expires", "90d"],
        );
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(
            answer.text.contains("expires    2026-04-01T00:00:00Z"),
            "{answer:?}"
        );
        fs::read(team.stage.path("acme.bundle")).unwrap()
    };
    assert_eq!(build(), build());
}

#[test]
fn as_many_keys_as_the_machine_asks_for_have_to_sign() {
    let team = Team::new();
    let (first, second) = (team.key("key"), team.key("second"));
    team.pin(&[&first, &second], "threshold = 2");
    team.release(1, &[]);
    let said = team.refused();
    assert!(
        said.contains("1 of the keys that count signed it, and 2 have to"),
        "{said}"
    );
    // Who signs twice is one.
    team.sign("key");
    assert!(team.refused().contains("1 of the keys"));
    team.sign("second");
    assert_eq!(team.fetch(&[]).code, 0);
    let file = team.path("acme.bundle");
    let verify = |more: &[&str]| {
        let mut words = vec!["verify", &file];
        words.extend(more);
        team.bundle(&words)
    };
    assert_eq!(verify(&["--key", &first]).code, 0);
    assert_eq!(
        verify(&["--key", &first, "--key", &second, "--threshold", "2"]).code,
        0
    );
    let third = team.key("third");
    let answer = verify(&["--key", &first, "--key", &third, "--threshold", "2"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert_eq!(verify(&["--key", &third]).code, 1);
    assert_eq!(verify(&["--key", "ed25519:x"]).code, 64);
    let pinned = run(team.place(&["verify", &file]));
    assert_eq!(pinned.code, 0, "{pinned:?}");
}

#[test]
fn what_expires_is_said_or_denies() {
    for (on_expiry, pinned, decision) in [
        ("warn", "", "allow"),
        ("deny", "", "deny"),
        ("warn", "on_expiry = \"deny\"", "deny"),
    ] {
        let team = Team::new();
        let key = team.key("key");
        team.pin(&[&key], pinned);
        // One that is old enough to expire while the test waits.
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
        team.release(
            1,
            &["--expires", &soon.to_string(), "--on-expiry", on_expiry],
        );
        let answer = team.fetch(&[]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert_eq!(team.judge().decision(), "allow");
        while jiff::Timestamp::now() <= soon + jiff::SignedDuration::from_secs(1) {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let answer = team.judge();
        assert_eq!(answer.decision(), decision, "{on_expiry} {pinned}");
        if decision == "deny" {
            assert!(
                answer
                    .reason()
                    .contains("version 1 of the bundle `acme` has expired"),
                "{answer:?}"
            );
        }
        let start = json!({
            "sessionId": "session-2", "timestamp": 1, "cwd": team.stage.workspace(), "source": "new",
        });
        let policies = team.policies();
        let words = ["--policies", policies.to_str().unwrap()];
        let hook = team.stage.hook("session-start", &words);
        super::program::send(hook, start.to_string().as_bytes());
        let line = team.stage.record().pop().unwrap();
        assert_eq!(line["detail"]["expired_bundle"], "acme 1", "{line}");
        let (code, status) = team.status();
        assert_eq!(
            (code, &status["bundle"]["validity"]),
            (1, &json!("expired"))
        );
        let mut check = team.stage.command(&["policy", "check"]);
        check.arg(team.policies());
        let checked = run(check);
        assert_eq!(
            checked.code,
            if decision == "deny" { 3 } else { 0 },
            "{checked:?}"
        );
        assert!(checked.text.contains("has expired"), "{checked:?}");
        // The old one is no newer for having been fetched again.
        assert!(team.refused().contains("expired at"));
    }
}

#[test]
fn a_machine_may_ask_for_younger_bundles() {
    let team = Team::new();
    let key = team.key("key");
    team.pin(&[&key], "max_age_days = 30");
    let old = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(31 * 24);
    team.release(1, &["--created", &old.to_string(), "--expires", "90d"]);
    assert!(team.refused().contains("expired at"));
}

#[test]
fn a_clock_behind_the_record_is_not_believed() {
    let team = ready();
    team.release(1, &[]);
    assert_eq!(team.fetch(&[]).code, 0);
    let day = team.stage.days().pop().unwrap();
    let text = fs::read_to_string(&day).unwrap();
    let mut line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    line["ts"] = "2126-01-01T00:00:00.000000Z".into();
    fs::write(&day, format!("{text}{line}\n")).unwrap();
    team.release(2, &[]);
    assert!(
        team.refused()
            .contains("the clock is behind the last line of the record")
    );
}

#[test]
fn what_is_changed_by_hand_is_seen_kept_and_put_back() {
    let team = ready();
    // What was there before any bundle is somebody's work.
    team.stage.write("machine/policies/mine.cedar", PERMIT);
    team.release(1, &[]);
    let answer = team.fetch(&[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let (_, copy) = answer.text.split_once("a copy is in `").unwrap();
    let copy = Path::new(copy.trim_end().trim_end_matches('`'));
    assert_eq!(fs::read_to_string(copy.join("mine.cedar")).unwrap(), PERMIT);
    assert!(!team.policies().join("mine.cedar").exists());

    for (file, text) in [
        ("a.cedar", FORBID),
        ("more.cedar", PERMIT),
        ("tests/b.toml", ""),
    ] {
        fs::write(team.policies().join(file), text).unwrap();
        let (code, status) = team.status();
        assert_eq!(
            (code, &status["bundle"]["untouched"]),
            (1, &json!(false)),
            "{file}"
        );
        assert_eq!(team.fetch(&[]).code, 0);
        assert_eq!(team.status().0, 0, "{file}");
        assert_eq!(
            team.noted().last().unwrap()["detail"]["changed_by_hand"],
            true
        );
    }
}

#[test]
fn a_lost_memory_lets_no_older_version_in() {
    let team = ready();
    let (memory, said) = (
        team.stage.state().join("bundles/acme.json"),
        team.policies().join(".bundle.json"),
    );
    team.release(5, &["--created", "2026-01-01T00:00:00Z"]);
    assert_eq!(team.fetch(&[]).code, 0);
    team.release(4, &[]);
    fs::remove_file(&memory).unwrap();
    assert!(team.refused().contains("version 5 was in force already"));
    team.release(6, &[]);
    assert_eq!(team.fetch(&[]).code, 0);
    // Nor does a directory that forgot what it holds.
    fs::remove_file(&said).unwrap();
    team.release(5, &["--created", "2026-01-01T00:00:00Z"]);
    assert!(team.refused().contains("version 6 was in force already"));
    fs::write(&memory, "{").unwrap();
    assert!(
        team.refused()
            .contains("does not say which version was the last one")
    );
}

/// The same policies, but with another time or another end.
#[test]
fn a_version_is_one_file_and_no_other() {
    let team = ready();
    team.release(5, &["--created", "2026-01-01T00:00:00Z"]);
    assert_eq!(team.fetch(&[]).code, 0);
    for more in [
        &["--created", "2026-01-02T00:00:00Z"][..],
        &["--created", "2026-01-01T00:00:00Z", "--expires", "3650d"],
    ] {
        team.release(5, more);
        assert!(team.refused().contains("this is another version 5"));
    }
    team.release(5, &["--created", "2026-01-01T00:00:00Z"]);
    assert_eq!(team.fetch(&[]).text, "acme 5 is in force already\n");
}

#[test]
fn a_publication_that_did_not_end_denies() {
    let team = ready();
    team.release(1, &[]);
    assert_eq!(team.fetch(&[]).code, 0);
    fs::write(team.policies().join(".bundle.json"), "publishing\n").unwrap();
    let answer = team.judge();
    assert_eq!(answer.decision(), "deny");
    assert!(
        answer.reason().contains("did not come to its end"),
        "{answer:?}"
    );
    assert_eq!(team.fetch(&[]).code, 0);
    assert_eq!(team.judge().decision(), "allow");
}

#[test]
fn many_machines_fetch_one_bundle_at_a_time_of_their_own() {
    let team = ready();
    team.release(1, &[]);
    let pin = fs::read_to_string(team.stage.path("machine/bundle.toml")).unwrap();
    let machines: Vec<PathBuf> = (0..6)
        .map(|number| team.stage.path(&format!("fleet/{number}")))
        .collect();
    for machine in &machines {
        fs::create_dir_all(machine).unwrap();
        fs::write(machine.join("bundle.toml"), &pin).unwrap();
    }
    std::thread::scope(|scope| {
        for machine in &machines {
            scope.spawn(|| {
                let mut command = team.stage.command(&["policy", "bundle", "fetch"]);
                command.arg("--policies").arg(machine.join("policies"));
                command.arg("--state").arg(machine.join("state"));
                let answer = run(command);
                assert_eq!(answer.code, 0, "{answer:?}");
            });
        }
    });
    // On one machine, one of several does it, and the others do not spoil it.
    team.stage.write("src/b.cedar", FORBID);
    team.release(2, &[]);
    let (machine, seen) = (&machines[0], std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut command = team.stage.command(&["policy", "bundle", "fetch"]);
                command.arg("--policies").arg(machine.join("policies"));
                command.arg("--state").arg(machine.join("state"));
                seen.lock().unwrap().push(run(command));
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert!(
        seen.iter()
            .any(|answer| answer.text.starts_with("acme 2 is in force in")),
        "{seen:?}"
    );
    for answer in seen.iter().filter(|answer| answer.code != 0) {
        assert!(answer.errors.contains("another process"), "{answer:?}");
    }
    assert!(machine.join("policies/b.cedar").is_file());
}
