//! `init`, `uninstall` and `doctor`, as a person runs them, in a home that goes away.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOOK: &str = "home/.copilot/hooks/copilot-bridge.json";
const POLICIES: &str = "home/.config/copilot-bridge/policies";
const STATE: &str = "home/.local/state/copilot-bridge";

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "machine", "work/.git"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_copilot-bridge"));
        command
            .args(words.split_whitespace())
            .arg("--home")
            .arg(self.path("home"))
            .arg("--etc")
            .arg(self.path("machine"))
            .current_dir(self.path("work"))
            .env("HOME", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("XDG_STATE_HOME", "/nonexistent")
            .env_remove("COPILOT_AUDIT_LOG_DIR")
            .env_remove("COPILOT_HOME");
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn succeed(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The ids of the findings that are more than a warning.
    fn errors(&self) -> Vec<String> {
        let output = self.run("doctor --format json");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let errors: Vec<String> = (findings.iter())
            .filter(|finding| finding["level"] == "error")
            .map(|finding| finding["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(output.status.success(), errors.is_empty());
        errors
    }
}

/// All files below a folder with their bytes, and the folders.
fn tree(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // A run that changes nothing is still said in the operational log.
        if path.ends_with("copilot-bridge/log") {
            continue;
        }
        if path.is_dir() {
            found.extend(tree(&path));
            found.push((path, None));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.push((path, Some(bytes)));
        }
    }
    found.sort();
    found
}

#[test]
fn a_fresh_home_is_guarded_and_the_second_run_changes_nothing() {
    let home = Home::new();
    home.succeed("init");
    for name in ["permission.cedar", "containment.cedar", "bridge.toml"] {
        assert!(home.path(POLICIES).join(name).exists(), "{name}");
    }
    let hook: serde_json::Value = serde_json::from_str(&home.read(HOOK)).unwrap();
    let entry = &hook["hooks"]["preToolUse"][0];
    assert!(Path::new(entry["exec"].as_str().unwrap()).is_absolute());
    assert_eq!(entry["args"][1], "pre-tool-use");
    assert_eq!(entry["matcher"], serde_json::Value::Null);
    assert_eq!(hook["hooks"].as_object().unwrap().len(), 15);

    let before = tree(home.folder.path());
    home.succeed("init");
    assert_eq!(tree(home.folder.path()), before);
    assert_eq!(home.errors(), [""; 0]);
}

#[test]
fn the_home_is_that_of_the_passwd_entry() {
    let home = Home::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_copilot-bridge"));
    let output = command
        .args(["init", "--dry-run"])
        .env("HOME", home.path("home"))
        .env("XDG_CONFIG_HOME", home.path("home"))
        .env_remove("COPILOT_HOME")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        !said.contains(home.path("home").to_str().unwrap()),
        "{said}"
    );
}

#[test]
fn copilot_home_moves_the_hooks_and_is_named() {
    let home = Home::new();
    let mut command = home.command("init");
    let output = command.env("COPILOT_HOME", home.path("elsewhere")).output();
    let said = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(said.contains("`COPILOT_HOME` is set"), "{said}");
    assert!(home.path("elsewhere/hooks/copilot-bridge.json").exists());
    assert!(!home.path(HOOK).exists());
}

#[test]
fn a_foreign_file_is_refused() {
    let home = Home::new();
    home.write(HOOK, "{}");
    let output = home.run("init");
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("not as `init` wrote it"), "{said}");
    assert_eq!(home.read(HOOK), "{}");
}

#[test]
fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let home = Home::new();
    home.write("home/.claude/settings.json", "{\n  \"model\": \"x\"\n}\n");
    let before = tree(home.folder.path());
    let said = home.succeed("init --host all --dry-run");
    assert!(said.contains("+++ ") && said.contains("+      \"exec\"") || said.contains("\"exec\""));
    assert_eq!(tree(home.folder.path()), before);
    home.succeed("init --host all");
    let before = tree(home.folder.path());
    home.succeed("uninstall --purge --dry-run");
    assert_eq!(tree(home.folder.path()), before);
}

#[test]
fn uninstall_gives_back_every_byte() {
    let home = Home::new();
    let theirs = "{ \"b\": 1e2,\n\t\"hooks\": {\"Stop\": []} }";
    home.write("home/.claude/settings.json", theirs);
    home.write("machine/etc/github-copilot/managed-settings.json", "{}");
    for scope in ["", "--machine", "--repo"] {
        let without_state = || {
            let mut all = tree(home.folder.path());
            let kept = [home.path("home/.local"), home.path("machine/var")];
            all.retain(|(path, _)| !kept.iter().any(|kept| path.starts_with(kept)));
            all
        };
        let before = without_state();
        home.succeed(&format!("init {scope} --host all"));
        assert_ne!(without_state(), before);
        home.succeed(&format!("uninstall {scope} --purge"));
        assert_eq!(without_state(), before, "{scope}");
    }
    assert!(home.path(STATE).exists(), "the record stays");
}

#[test]
fn an_edited_hook_file_is_left_and_is_trouble() {
    let home = Home::new();
    home.succeed("init");
    let edited = home.read(HOOK).replace("30", "1");
    home.write(HOOK, &edited);
    assert!(home.errors().contains(&"hook-edited".to_owned()));
    let output = home.run("uninstall");
    assert!(!output.status.success());
    assert_eq!(home.read(HOOK), edited);
}

#[test]
fn the_machine_scope_shuts_out_foreign_hooks() {
    let home = Home::new();
    home.succeed("init --machine");
    let managed = home.read("machine/etc/github-copilot/managed-settings.json");
    let managed: serde_json::Value = serde_json::from_str(&managed).unwrap();
    assert_eq!(managed["allowManagedHooksOnly"], true);
    assert_eq!(
        managed["permissions"]["disableBypassPermissionsMode"],
        "disable"
    );
    let hook = home.read("machine/etc/github-copilot/policy.d/copilot-bridge.json");
    assert!(!hook.contains("--state"));
    home.write(
        "work/.github/copilot/settings.json",
        r#"{"disableAllHooks": true}"#,
    );
    let errors = home.errors();
    assert!(
        !errors.contains(&"disable-all-hooks".to_owned()),
        "{errors:?}"
    );
}

#[test]
fn the_repository_scope_warns() {
    let home = Home::new();
    let said = home.succeed("init --repo");
    assert!(
        said.contains("every tool denied") && said.contains("a checkout can"),
        "{said}"
    );
    assert!(home.path("work/.github/hooks/copilot-bridge.json").exists());
}

#[test]
fn doctor_names_what_is_wrong() {
    let home = Home::new();
    assert!(home.errors().contains(&"no-hook".to_owned()));
    home.succeed("init");
    home.write(
        "work/.github/copilot/settings.json",
        r#"{"disableAllHooks": true}"#,
    );
    assert_eq!(home.errors(), ["disable-all-hooks"]);
    fs::remove_dir_all(home.path(POLICIES)).unwrap();
    let errors = home.errors();
    assert!(errors.contains(&"policies-gone".to_owned()), "{errors:?}");
}

#[test]
fn a_record_in_the_workspace_is_not_what_a_variable_can_ask_for() {
    let home = Home::new();
    home.succeed("init");
    fs::create_dir(home.path("work/log")).unwrap();
    let mut command = home.command("doctor");
    let output = command.env("COPILOT_AUDIT_LOG_DIR", home.path("work/log"));
    let said = String::from_utf8(output.output().unwrap().stdout).unwrap();
    assert!(said.contains("audit-dir-ignored"), "{said}");
}

#[test]
fn doctor_says_what_is_taken_out_of_texts() {
    let house = Home::new();
    house.succeed("init");
    let said = house.run("doctor");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("rules look for secrets of"), "{said}");
    assert!(said.contains("entities.toml names nobody"), "{said}");
    let policies = "home/.config/copilot-bridge/policies";
    house.write(
        &format!("{policies}/entities.toml"),
        "format = 1\n[[entity]]\nname = 'A'\n",
    );
    let said = house.run("doctor");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    for field in ["ssn", "dob", "mrn", "room", "phone", "email", "condition"] {
        assert!(said.contains(&format!("{field} (")), "{field}: {said}");
    }
    assert!(
        said.contains("no roster: names are found in named fields only"),
        "{said}"
    );
}
