//! A person at the client's own terminal, the one place where our question is put to somebody.

use crate::mock_model::{MockModel, Turn};
use crate::stage::{Stage, TOOL_EVENTS};
use crate::terminal::Terminal;

/// The client's words below our reason.
const QUESTION: &str = "Do you want to allow this tool call?";

#[test]
fn a_question_that_is_answered_with_yes_lets_the_program_run() {
    let case = "a_question_that_is_answered_with_yes_lets_the_program_run";
    let Some(stage) = Stage::new(case) else {
        return;
    };
    let model = MockModel::start([Turn::bash("unheard-of")]);
    let Some(mut terminal) = put_the_question(case, &stage, &model) else {
        return;
    };
    terminal.press("\r");
    model.wait_for_requests(2);
    let told = model.told(0);
    assert!(!told.contains("enied"), "{told}");
    assert!(stage.exists("unheard-of.ran"), "the program did not run");
    assert_eq!(stage.decisions_about("bash"), ["ask"]);
}

#[test]
fn a_question_that_is_answered_with_no_stops_the_program() {
    let case = "a_question_that_is_answered_with_no_stops_the_program";
    let Some(stage) = Stage::new(case) else {
        return;
    };
    let model = MockModel::start([Turn::bash("unheard-of")]);
    let Some(mut terminal) = put_the_question(case, &stage, &model) else {
        return;
    };
    terminal.press("2");
    terminal.press("rather not");
    terminal.press("\r");
    model.wait_for_requests(2);
    let told = model.told(0);
    assert!(told.starts_with("Denied by user"), "{told}");
    assert!(told.contains("rather not"), "{told}");
    assert!(!stage.exists("unheard-of.ran"), "the program ran");
    assert_eq!(stage.decisions_about("bash"), ["ask"]);
}

/// Brings the client to the point where it puts our question.
fn put_the_question(case: &str, stage: &Stage, model: &MockModel) -> Option<Terminal> {
    stage.install(TOOL_EVENTS);
    stage.add_program("unheard-of");
    let mut terminal = Terminal::start(case, stage, model)?;
    terminal.read_until("Do you trust the files");
    terminal.press("\r");
    terminal.read_until("? help");
    terminal.press("Do the work");
    terminal.press("\r");
    terminal.read_until(QUESTION);
    Some(terminal)
}
