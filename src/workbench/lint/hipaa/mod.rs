//! The open points of a health checklist, one row each: what these policies fulfil, what they do not,
//! and what no policy can tell.
//!
//! The rows follow the requirements that this project took over (R-003-…) and the technical and
//! documentation standards of 45 CFR 164.312 and 164.316. They are no legal advice, and a pass is no
//! certificate.

mod judged;
mod written;

use std::io;

use serde_json::{Value, json};

use super::desk::Desk;
use crate::engine::bundle::Bundle;
use crate::engine::on_known_stack;
use crate::policy::{Problem, Reading};
use crate::workbench::scene::Scene;

/// The version of the JSON form.
pub const JSON_VERSION: u32 = 1;

/// Whether a row is fulfilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is.
    Pass,
    /// It is not.
    Fail,
    /// It cannot be told from here: a person finds out.
    Unknown,
}

impl State {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

/// One point of the checklist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id, which is stable.
    pub id: &'static str,
    /// What has to be so.
    pub text: &'static str,
    /// What asks for it.
    pub basis: &'static str,
    /// Whether it is.
    pub state: State,
    /// Why, in one sentence.
    pub says: String,
    /// Where that stands: `file:line`.
    pub evidence: Vec<String>,
}

/// What a row found out.
struct Answer {
    state: State,
    says: String,
    evidence: Vec<String>,
}

/// One row, before it is answered.
struct Question {
    id: &'static str,
    text: &'static str,
    basis: &'static str,
    answer: fn(&Desk<'_>, &Scene) -> Answer,
}

/// Every row, answered.
///
/// # Errors
/// If there is no folder for the calls that are judged.
pub fn checklist(reading: &Reading, bundle: &Bundle, checked: &[Problem]) -> io::Result<Vec<Row>> {
    on_known_stack(|| {
        let desk = Desk::new(reading, bundle, checked);
        let scene = Scene::new(bundle.clone())?;
        let questions = written::ROWS.iter().chain(judged::ROWS);
        let mut rows: Vec<Row> = questions
            .map(|question| {
                let answer = (question.answer)(&desk, &scene);
                Row {
                    id: question.id,
                    text: question.text,
                    basis: question.basis,
                    state: answer.state,
                    says: answer.says,
                    evidence: answer.evidence,
                }
            })
            .collect();
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    })
}

/// `{"version":1,"checklist":"hipaa","rows":[…]}`, for programs.
#[must_use]
pub fn json(rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "id": row.id,
                "text": row.text,
                "basis": row.basis,
                "state": row.state.name(),
                "says": row.says,
                "evidence": row.evidence,
            })
        })
        .collect();
    json!({ "version": JSON_VERSION, "checklist": "hipaa", "rows": rows })
}

impl Answer {
    fn new(state: State, says: impl Into<String>) -> Self {
        Self {
            state,
            says: says.into(),
            evidence: Vec::new(),
        }
    }

    fn pass(says: impl Into<String>) -> Self {
        Self::new(State::Pass, says)
    }

    fn fail(says: impl Into<String>) -> Self {
        Self::new(State::Fail, says)
    }

    fn unknown(says: impl Into<String>) -> Self {
        Self::new(State::Unknown, says)
    }

    fn at(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }
}

/// `file:line` of a setting, or the file that would hold it.
fn setting(desk: &Desk<'_>, file: &str, path: &[&str]) -> Vec<String> {
    let nothing = Problem::note(crate::policy::Code::MissingKey, "");
    places([desk.setting(nothing, file, path)])
}

/// `file:line` of each problem.
fn places(problems: impl IntoIterator<Item = Problem>) -> Vec<String> {
    problems
        .into_iter()
        .filter_map(|problem| {
            let path = &problem.file.as_ref()?.path;
            Some(match problem.position() {
                Some(at) => format!("{path}:{}", at.line),
                None => path.clone(),
            })
        })
        .collect()
}
