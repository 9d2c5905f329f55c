//! What came out of a run of tests.

use crate::engine::decision::{Effect, Reason};
use crate::policy::Problem;

/// What came out of each test, in the order of the files.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The tests that ran.
    pub tried: Vec<Tried>,
}

/// What came out of one test.
#[derive(Debug, Clone)]
pub struct Tried {
    /// The test's name.
    pub name: String,
    /// Its file, as a person finds it.
    pub file: String,
    /// The line of its name, counted from 1.
    pub line: u32,
    /// The answer.
    pub decision: Effect,
    /// What the answer would be if nothing were only monitored.
    pub would_decide: Effect,
    /// The ids of the policies that decided, each once, with the names of their layers.
    pub deciding: Vec<String>,
    /// Why, in words.
    pub reasons: Vec<Reason>,
    /// What was expected and did not come; none if the test passed.
    pub problems: Vec<Problem>,
}

impl Tried {
    /// Whether everything came as it was expected.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Report {
    /// The tests that did not pass.
    pub fn failed(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| !tried.passed())
    }

    /// Whether every test passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }
}
