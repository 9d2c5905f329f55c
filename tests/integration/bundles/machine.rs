//! What a machine says of bundles: whose count, what is in force, and who may change that.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{FORBID, PERMIT, ready, run};
use crate::program::send;

#[test]
fn the_keys_that_count_cannot_be_named_past_the_file() {
    let team = ready();
    let other = team.key("other");
    team.build(1, &[]);
    team.sign("other");
    let from = format!("file://{}", team.path("acme.bundle"));
    let answer = team.fetch(&["--from", &from, "--key", &other]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.errors.contains("the keys that count stand in"),
        "{answer:?}"
    );
    let elsewhere = team.fetch(&["--from", &from]);
    assert!(
        elsewhere.errors.contains("no key that counts signed it"),
        "{elsewhere:?}"
    );
    fs::remove_file(team.machine().join("bundle.toml")).unwrap();
    let answer = team.fetch(&[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer
            .errors
            .contains("nobody says where policies come from"),
        "{answer:?}"
    );
    let answer = team.fetch(&["--from", &from, "--key", &other]);
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn a_file_that_says_it_wrongly_is_underlined() {
    let team = ready();
    team.pin(&["ed25519:x"], "");
    let answer = team.fetch(&[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.text.contains("bundle.toml:5:9"), "{answer:?}");
    assert!(answer.text.contains("^^^^^^^^^^^"), "{answer:?}");
    let shown = answer
        .text
        .contains("a public key is `ed25519:` and 44 characters of Base64");
    assert!(shown, "{answer:?}");
}

#[cfg(unix)]
#[test]
fn a_file_that_others_could_write_does_not_say_whose_keys_count() {
    use std::os::unix::fs::PermissionsExt;
    let team = ready();
    team.release(1, &[]);
    let pin = team.machine().join("bundle.toml");
    for path in [pin.clone(), team.machine()] {
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let answer = team.fetch(&[]);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(
            answer.text.contains("others than its owner may write this"),
            "{answer:?}"
        );
        fs::set_permissions(&path, before).unwrap();
    }
    assert_eq!(team.fetch(&[]).code, 0);
}

#[test]
fn no_agent_may_say_where_policies_come_from() {
    let team = ready();
    let policies = team.stage.policies();
    let judge = |tool: &str, args: &Value| {
        let event = team.stage.call(tool, args).to_string();
        let hook = team
            .stage
            .hook("pre-tool-use", &["--policies", policies.to_str().unwrap()]);
        send(hook, event.as_bytes())
    };
    let pin = policies.parent().unwrap().join("bundle.toml");
    let answer = judge("create", &json!({"path": pin, "file_text": "x"}));
    assert_eq!(answer.decision(), "deny");
    assert!(answer.reason().contains(":guard"), "{answer:?}");
    let fetch = "copilot-bridge policy bundle fetch --from /tmp/x --key ed25519:x";
    let answer = judge("bash", &json!({"command": fetch}));
    assert_eq!(answer.decision(), "deny");
    assert!(answer.reason().contains(":guard-command"), "{answer:?}");
}

#[test]
fn a_bundle_shows_and_gives_back_what_is_in_it() {
    let team = ready();
    team.release(1, &[]);
    let file = team.path("acme.bundle");
    let shown = team.bundle(&["show", &file]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in ["bundle     acme 1", "a.cedar", "tests/a.toml", "so it says"] {
        assert!(shown.text.contains(part), "{part}: {shown:?}");
    }
    let into = team.path("unpacked");
    assert_eq!(team.bundle(&["unpack", &file, "--into", &into]).code, 0);
    let text = fs::read_to_string(Path::new(&into).join("a.cedar")).unwrap();
    assert_eq!(text, PERMIT);
    assert_eq!(
        team.bundle(&["unpack", &file, "--into", &into]).code,
        1,
        "it is there already"
    );
}

#[test]
fn doctor_sees_bundles() {
    let team = ready();
    let doctor = || {
        let mut command = team.stage.command(&["doctor", "--format", "json"]);
        let (home, etc) = (team.stage.path("home"), team.stage.path("etc"));
        fs::create_dir_all(&home).unwrap();
        command.arg("--home").arg(home).arg("--etc").arg(etc);
        command
            .arg("--policies")
            .arg(team.policies())
            .arg("--state")
            .arg(team.stage.state());
        let found = run(command).json()["findings"].clone();
        let found = found.as_array().unwrap().iter();
        let ids: Vec<String> = found
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect();
        ids
    };
    team.release(1, &[]);
    assert_eq!(team.fetch(&[]).code, 0);
    assert!(doctor().contains(&"bundle".to_owned()));
    fs::write(team.policies().join("a.cedar"), FORBID).unwrap();
    fs::remove_file(team.stage.path("acme.bundle")).unwrap();
    team.refused();
    let found = doctor();
    for id in ["bundle-changed", "bundle-fetch-failed"] {
        assert!(found.contains(&id.to_owned()), "{id}: {found:?}");
    }
    fs::remove_file(team.policies().join(".bundle.json")).unwrap();
    team.pin(&["x"], "");
    let found = doctor();
    assert!(found.contains(&"bundle-pin".to_owned()), "{found:?}");
}
