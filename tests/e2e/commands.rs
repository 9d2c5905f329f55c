//! Shell commands under `-p`, where the host cannot ask anybody.

use crate::mock_model::{MockModel, Turn};
use crate::stage::{Stage, TOOL_EVENTS};

/// How the client introduces a denial to its model, before our reason.
pub(crate) const DENIED: &str = "Denied by preToolUse hook: ";
/// The same where it was told to ask and could not.
pub(crate) const COULD_NOT_ASK: &str =
    "Denied by preToolUse hook (unable to ask user for confirmation): ";

#[test]
fn a_plain_command_runs() {
    let Some(stage) = Stage::new("a_plain_command_runs") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.write("seen-by-ls.txt", "");
    let model = MockModel::start([Turn::bash("ls"), Turn::bash("echo plain words")]);
    assert!(stage.run(&model).status.success());
    let told = model.told(0);
    assert!(told.contains("seen-by-ls.txt"), "{told}");
    let told = model.told(1);
    assert!(told.contains("plain words"), "{told}");
    assert_eq!(stage.decisions_about("bash"), ["allow", "allow"]);
}

#[test]
fn an_allow_leaves_the_hosts_own_question_in_place() {
    let Some(stage) = Stage::new("an_allow_leaves_the_hosts_own_question_in_place") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let model = MockModel::start([Turn::bash("echo plain words")]);
    stage.run_with(&model, &["--allow-all-tools", "--deny-tool", "shell"]);
    let told = model.told(0);
    assert!(told.contains("denied due to the following rules"), "{told}");
    assert_eq!(stage.decisions_about("bash"), ["allow"]);
}

#[test]
fn a_secret_of_the_machine_is_not_read() {
    let Some(stage) = Stage::new("a_secret_of_the_machine_is_not_read") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.write("seen-by-ls.txt", "");
    let model = MockModel::start([Turn::bash("cat /etc/shadow"), Turn::bash("ls")]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.starts_with(DENIED), "{told}");
    assert!(told.len() > DENIED.len() + 10, "a reason follows: {told}");
    assert!(!told.contains("root:"), "{told}");
    let told = model.told(1);
    assert!(told.contains("seen-by-ls.txt"), "the agent goes on: {told}");
    assert_eq!(stage.decisions_about("bash"), ["deny", "allow"]);
}

#[test]
fn nothing_of_a_denied_line_runs() {
    let Some(stage) = Stage::new("nothing_of_a_denied_line_runs") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    let model = MockModel::start([Turn::bash("touch first.ran; sudo ls; touch last.ran")]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.starts_with(DENIED), "{told}");
    assert!(!stage.exists("first.ran"), "the first command ran");
    assert!(!stage.exists("last.ran"), "the last command ran");
    assert_eq!(stage.decisions_about("bash"), ["deny"]);
}

#[test]
fn each_of_two_parallel_calls_is_judged() {
    let Some(stage) = Stage::new("each_of_two_parallel_calls_is_judged") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.write("seen-by-ls.txt", "");
    let model = MockModel::start([Turn::bash("cat /etc/shadow").and(Turn::bash("ls"))]);
    stage.run(&model);
    let told = model.told_of(0, 0);
    assert!(told.starts_with(DENIED), "{told}");
    let told = model.told_of(0, 1);
    assert!(told.contains("seen-by-ls.txt"), "{told}");
    // The host starts both hooks at once, so either may be the first in the record.
    let mut decisions = stage.decisions_about("bash");
    decisions.sort();
    assert_eq!(decisions, ["allow", "deny"]);
}

#[test]
fn a_question_is_a_denial_where_nobody_can_answer() {
    let Some(stage) = Stage::new("a_question_is_a_denial_where_nobody_can_answer") else {
        return;
    };
    stage.install(TOOL_EVENTS);
    stage.add_program("unheard-of");
    let model = MockModel::start([Turn::bash("unheard-of")]);
    stage.run(&model);
    let told = model.told(0);
    assert!(told.starts_with(COULD_NOT_ASK), "{told}");
    assert!(!stage.exists("unheard-of.ran"), "the program ran");
    assert_eq!(stage.decisions_about("bash"), ["ask"]);
}
