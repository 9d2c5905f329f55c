//! What `copilot-bridge init` writes for a user and for a repository, as the client takes it.

use std::fs;

use crate::commands::DENIED;
use crate::mock_model::{MockModel, Turn};
use crate::stage::Stage;

#[test]
fn a_users_installation_guards_every_workspace() {
    let Some(stage) = Stage::new("a_users_installation_guards_every_workspace") else {
        return;
    };
    stage.without_policies();
    stage.initialise(&["--user", "--host", "copilot"]);
    let hooks = stage.copilot_home().join("hooks/copilot-bridge.json");
    assert!(hooks.exists(), "no hooks were written");
    guards(&stage, &["--allow-all-tools"]);
}

#[test]
fn a_repositorys_installation_guards_it_once_trusted() {
    let Some(stage) = Stage::new("a_repositorys_installation_guards_it_once_trusted") else {
        return;
    };
    stage.without_policies();
    stage.initialise(&["--repo", "--host", "copilot"]);
    assert!(stage.exists(".github/hooks/copilot-bridge.json"));
    guards(&stage, &["--allow-all-tools", "--trust-folder"]);
}

#[test]
fn a_dry_run_writes_nothing() {
    let Some(stage) = Stage::new("a_dry_run_writes_nothing") else {
        return;
    };
    stage.without_policies();
    stage.initialise(&["--user", "--host", "copilot", "--dry-run"]);
    for path in [
        stage.policies(),
        stage.state(),
        stage.copilot_home().join("hooks"),
    ] {
        let written = fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some());
        assert!(!written, "something is in {}", path.display());
    }
}

/// A plain command runs, a forbidden one does not, and both are in the record.
pub(crate) fn guards(stage: &Stage, flags: &[&str]) {
    stage.write("seen-by-ls.txt", "");
    let model = MockModel::start([Turn::bash("ls"), Turn::bash("cat /etc/shadow")]);
    let run = stage.run_with(&model, flags);
    assert!(run.status.success(), "{}", run.output);
    let told = model.told(0);
    assert!(told.contains("seen-by-ls.txt"), "{told}");
    let told = model.told(1);
    assert!(told.starts_with(DENIED), "{told}");
    assert_eq!(stage.decisions_about("bash"), ["allow", "deny"]);
}
