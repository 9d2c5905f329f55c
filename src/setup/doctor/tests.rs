//! One planted problem per test, and a healthy install that has none.

use std::path::Path;
use std::process::{Command, Stdio};

use super::super::install::{Wish, init};
use super::super::testing::{FakeRooms, Stage};
use super::*;

const HOOK: &str = "home/.copilot/hooks/copilot-bridge.json";
const POLICY: &str = "home/.config/copilot-bridge/policies/permission.cedar";

/// Denies what names the forbidden file, and allows the rest.
const GOOD: &str =
    "#!/bin/sh\ncase \"$(cat)\" in */etc/shadow) echo '{\"deny\":1}'; exit 2;; esac\necho '{}'\n";

fn stage(script: &str) -> Stage {
    let mut stage = Stage::new();
    stage.places.binary = stage.path("bin/hook");
    // Another process writes it, or a test that forks meanwhile would keep it busy.
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(&stage.places.binary)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    assert!(shell.wait().unwrap().success());
    stage
}

fn install(stage: &Stage, scope: Scope, hosts: &[Host]) {
    let wish = Wish {
        scope,
        hosts: hosts.to_vec(),
        dry_run: false,
    };
    init(&stage.places, &wish, &FakeRooms::new(), &mut Vec::new()).unwrap();
}

fn installed(script: &str) -> Stage {
    let stage = stage(script);
    install(&stage, Scope::User, &[Host::Copilot]);
    stage
}

/// All but what depends on the machine that the test runs on.
fn findings(stage: &Stage, rooms: &FakeRooms) -> Vec<Finding> {
    let mut findings = examine(&stage.places, rooms);
    findings.retain(|finding| finding.id != "host-without-hook");
    findings
}

fn problems(stage: &Stage) -> Vec<(&'static str, Level)> {
    let findings = findings(stage, &FakeRooms::new());
    let bad = findings
        .into_iter()
        .filter(|finding| finding.level > Level::Ok);
    bad.map(|finding| (finding.id, finding.level)).collect()
}

#[track_caller]
fn assert_found(stage: &Stage, id: &str, level: Level) {
    let found = problems(stage);
    assert!(found.contains(&(id, level)), "{found:?}");
}

#[test]
fn a_fresh_install_is_healthy() {
    let stage = stage(GOOD);
    for scope in [Scope::User, Scope::Machine] {
        install(&stage, scope, &[Host::Copilot, Host::Claude]);
    }
    assert_eq!(problems(&stage), []);
    let all = findings(&stage, &FakeRooms::new());
    let roads = all
        .iter()
        .filter(|finding| finding.id == "road-denied")
        .count();
    assert_eq!(roads, 4);

    let mut out = Vec::new();
    assert_eq!(print_text(&all, &mut out).unwrap(), Ending::Done);
    assert!(
        String::from_utf8(out)
            .unwrap()
            .contains("ok      road-denied: the command")
    );
    let mut out = Vec::new();
    print_json(&all, &mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["errors"], 0);
    assert_eq!(json["findings"][0]["id"], "binary");
}

#[test]
fn nothing_installed_is_an_error() {
    let stage = stage(GOOD);
    assert_found(&stage, "no-hook", Level::Error);
    let mut out = Vec::new();
    let ending = print_text(&examine(&stage.places, &FakeRooms::new()), &mut out);
    assert_eq!(ending.unwrap(), Ending::Trouble);
}

#[test]
fn a_hook_file_that_changed_or_went_is_seen() {
    for (from, to, id) in [
        ("\"timeoutSec\": 30", "\"timeoutSec\": 2", "hook-timeout"),
        (
            "\"timeoutSec\": 30",
            "\"matcher\": \"bash\"",
            "hook-matcher",
        ),
        (
            "\"version\": 1",
            "\"version\": 1, \"disableAllHooks\": true",
            "disable-all-hooks",
        ),
        (
            "\"permissionRequest\"",
            "\"notification\"",
            "hook-incomplete",
        ),
        ("/bin/hook\"", "/bin/gone\"", "hook-program"),
        ("/policies\"", "/others\"", "policies-gone"),
        ("}", "", "hook-unreadable"),
    ] {
        let stage = installed(GOOD);
        stage.write(HOOK, &stage.read(HOOK).replace(from, to));
        assert_found(&stage, id, Level::Error);
        if id != "hook-unreadable" {
            assert_found(&stage, "hook-edited", Level::Error);
        }
    }
    let stage = installed(GOOD);
    std::fs::remove_file(stage.path(HOOK)).unwrap();
    assert_found(&stage, "hook-gone", Level::Error);
}

#[test]
fn a_workspace_that_brings_our_hook_with_its_own_policies_is_seen() {
    let stage = installed(GOOD);
    let theirs = stage.path("work/policies");
    let ours = stage.places.policies(Scope::User);
    let text = stage.read(HOOK);
    let text = text.replace(ours.to_str().unwrap(), theirs.to_str().unwrap());
    stage.write("work/policies/permission.cedar", "");
    stage.write("work/.github/hooks/copilot-bridge.json", &text);
    assert_found(&stage, "hook-unknown", Level::Error);

    let mark = stage.path("mark");
    let evil = format!("{}\"", mark.display());
    stage.write(
        "work/.github/hooks/copilot-bridge.json",
        &text.replace("/bin/hook\"", &evil),
    );
    assert_found(&stage, "road-not-tried", Level::Warning);
}

#[test]
fn foreign_hooks_are_named_wherever_they_are() {
    let entry = r#"{"hooks": {"preToolUse": [{"bash": "true"}]}}"#;
    for place in [
        "home/.copilot/hooks/x.json",
        "home/.copilot/settings.json",
        "home/.claude/settings.json",
        "work/.github/hooks/deep/x.json",
        "work/.github/copilot/settings.json",
        "work/.github/copilot/settings.local.json",
        "work/.claude/settings.json",
        "work/.claude/settings.local.json",
        "machine/etc/github-copilot/policy.d/x.json",
    ] {
        let stage = installed(GOOD);
        stage.write(place, entry);
        assert_found(&stage, "foreign-hook", Level::Warning);
        stage.write(place, "{");
        assert_found(&stage, "foreign-unreadable", Level::Warning);
    }
    let stage = stage(GOOD);
    install(&stage, Scope::Machine, &[Host::Copilot]);
    stage.write("work/.github/hooks/x.json", entry);
    assert_eq!(problems(&stage), []);
}

#[test]
fn a_switch_that_turns_hooks_off_is_seen() {
    let off = r#"{"disableAllHooks": true}"#;
    for name in ["settings.json", "settings.local.json"] {
        let stage = installed(GOOD);
        stage.write(&format!("work/.github/copilot/{name}"), off);
        assert_found(&stage, "disable-all-hooks", Level::Error);
        install(&stage, Scope::Machine, &[Host::Copilot]);
        assert_eq!(problems(&stage), []);
    }
    let stage = installed(GOOD);
    stage.write("home/.copilot/settings.json", off);
    assert_found(&stage, "disable-all-hooks", Level::Warning);

    let stage = installed(GOOD);
    let managed = r#"{"allowManagedHooksOnly": true}"#;
    stage.write("machine/etc/github-copilot/managed-settings.json", managed);
    assert_found(&stage, "shut-out", Level::Error);
}

#[test]
fn managed_settings_that_somebody_changed_are_seen() {
    let stage = stage(GOOD);
    install(&stage, Scope::Machine, &[Host::Copilot]);
    let managed = "machine/etc/github-copilot/managed-settings.json";
    stage.write(managed, &stage.read(managed).replace("true", "false"));
    assert_found(&stage, "settings-changed", Level::Error);
    assert_found(&stage, "not-enforcing", Level::Error);
}

#[cfg(unix)]
#[test]
fn loose_modes_are_seen() {
    use std::os::unix::fs::PermissionsExt;
    for (place, mode) in [
        (HOOK, 0o666),
        ("home/.copilot/hooks", 0o770),
        (POLICY, 0o620),
        ("home/.config/copilot-bridge/policies", 0o777),
        ("home/.local/state/copilot-bridge", 0o755),
        ("home/.local/state/copilot-bridge/key", 0o640),
    ] {
        let stage = installed(GOOD);
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(stage.path(place), permissions).unwrap();
        assert_found(&stage, "loose-mode", Level::Error);
    }
    let stage = stage(GOOD);
    install(&stage, Scope::Machine, &[Host::Copilot]);
    let permissions = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(stage.path("bin"), permissions).unwrap();
    assert_found(&stage, "binary-replaceable", Level::Error);
}

#[test]
fn policies_are_compared_with_init_and_with_this_version() {
    let stage = installed(GOOD);
    stage.write(POLICY, "forbid (principal, action, resource);\n");
    assert_found(&stage, "policy-edited", Level::Warning);
    std::fs::remove_file(stage.path(POLICY)).unwrap();
    assert_found(&stage, "policy-gone", Level::Warning);

    let stage = installed(GOOD);
    let mut rooms = FakeRooms::new();
    rooms.defaults[0].1 = "mode = \"monitor\"\n";
    let found = findings(&stage, &rooms);
    assert!(
        found.iter().any(|finding| finding.id == "defaults-changed"),
        "{found:?}"
    );
}

#[test]
fn what_the_policies_say_is_passed_on() {
    let stage = installed(GOOD);
    let mut rooms = FakeRooms::new();
    rooms.problems = vec!["`a.cedar`, line 3: no".to_owned()];
    rooms.passes_unrecorded = true;
    rooms.approves_unverified = true;
    let found = findings(&stage, &rooms);
    for id in ["policy-problem", "on-failure-allow", "unverified-approvals"] {
        let found = found.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(found.level, Level::Error);
    }
}

#[test]
fn a_record_that_cannot_be_written_is_seen() {
    let stage = installed(GOOD);
    stage.write("home/.local/state/copilot-bridge/audit", "not a folder");
    assert_found(&stage, "record-unwritable", Level::Error);
}

#[cfg(unix)]
#[test]
fn a_key_that_cannot_sign_is_seen() {
    use std::os::unix::fs::PermissionsExt;
    let stage = installed(GOOD);
    let key = "home/.local/state/copilot-bridge/signing-key";
    stage.write(key, "no key");
    std::fs::set_permissions(stage.path(key), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_found(&stage, "no-checkpoints", Level::Warning);
}

#[test]
fn a_road_that_leads_elsewhere_is_seen() {
    for (script, id, level) in [
        ("#!/bin/sh\necho '{}'\n", "road-denied", Level::Error),
        ("#!/bin/sh\nexit 1\n", "road-denied", Level::Error),
        (
            "#!/bin/sh\necho '{\"deny\":1}'; exit 2\n",
            "road-allowed",
            Level::Warning,
        ),
    ] {
        assert_found(&installed(script), id, level);
    }
}

#[test]
fn a_hook_that_would_time_out_is_seen() {
    let stage = installed("#!/bin/sh\nexec sleep 9\n");
    stage.write(
        HOOK,
        &stage
            .read(HOOK)
            .replace("\"timeoutSec\": 30", "\"timeoutSec\": 1"),
    );
    let started = std::time::Instant::now();
    let found = findings(&stage, &FakeRooms::new());
    assert!(started.elapsed().as_secs() < 8);
    let road = found
        .iter()
        .find(|finding| finding.id == "road-denied")
        .unwrap();
    assert!(
        road.sentence.contains("did not answer within 1 s"),
        "{road:?}"
    );
}

#[test]
fn a_trial_leaves_nothing_behind() {
    let stage = installed(GOOD);
    let before = stage.all();
    examine(&stage.places, &FakeRooms::new());
    assert_eq!(stage.all(), before);
    assert!(!Path::new("work").exists());
}

#[test]
fn openclaw_without_its_plugin_is_found() {
    use super::super::openclaw::{self, Parts};
    const SETTINGS: &str = "home/.openclaw/openclaw.json";
    let set_up = || {
        let stage = installed(GOOD);
        stage.write(SETTINGS, "{\n  // mine\n  agents: {},\n}\n");
        let wish = openclaw::Wish {
            config: Some(stage.path(SETTINGS)),
            parts: Parts {
                plugin: true,
                mcp: true,
            },
            dry_run: false,
        };
        openclaw::register(&stage.places, &wish, &FakeRooms::new(), &mut Vec::new()).unwrap();
        stage
    };
    let edited = |edit: &dyn Fn(&str) -> String| {
        let stage = set_up();
        let text = stage.read(SETTINGS);
        let changed = edit(&text);
        assert_ne!(changed, text);
        stage.write(SETTINGS, &changed);
        problems(&stage)
    };
    let stage = set_up();
    assert_eq!(problems(&stage), []);
    assert!(
        findings(&stage, &FakeRooms::new())
            .iter()
            .any(|finding| finding.id == "openclaw")
    );
    let broken = [("openclaw-plugin", Level::Error)];
    assert_eq!(
        edited(&|text| text.replace("\"enabled\": true", "\"enabled\": false")),
        broken
    );
    assert_eq!(
        edited(&|text| text.replace("agents: {}", "agents: {}, x: 1")),
        []
    );
    assert_eq!(
        edited(&|text| text.replace("\"command\"", "\"other\"")),
        [("openclaw-server", Level::Warning)]
    );
    assert_eq!(
        edited(&|_| "{".to_owned()),
        [("openclaw-settings", Level::Error)]
    );
    let plugin = "state/openclaw/copilot-bridge/bridge.js";
    let plugin = stage
        .places
        .state(Scope::User)
        .join(plugin.strip_prefix("state/").unwrap());
    std::fs::write(&plugin, "// nothing\n").unwrap();
    assert_eq!(problems(&stage), broken);
    std::fs::remove_file(&plugin).unwrap();
    assert_eq!(problems(&stage), broken);
}
