//! For people.

use std::fmt::Write;

use super::Report;
use crate::policy::Problem;
use crate::policy::diagnostic::render::snippets;
use crate::workbench::suite::coverage::{Coverage, Kind};

/// What failed, with the place in the test underlined, and how many tests passed.
#[must_use]
pub fn tests(report: &Report, colour: bool) -> String {
    let problems: Vec<Problem> = report
        .failed()
        .flat_map(|tried| tried.problems.iter().cloned())
        .collect();
    snippets(&problems, colour) + &counts(report)
}

/// How many tests passed, and how many did not.
#[must_use]
pub fn counts(report: &Report) -> String {
    let failed = report.failed().count();
    let passed = report.tried.len() - failed;
    format!("{passed} passed, {failed} failed\n")
}

/// What tests came to, and everything that they did not come to.
#[must_use]
pub fn coverage(coverage: &Coverage) -> String {
    let mut out = format!("coverage: {} %\n", coverage.percent());
    for kind in Kind::ALL {
        let (covered, all) = coverage.count(kind);
        if all > 0 {
            let _ = writeln!(out, "  {:<16} {covered} of {all}", kind.several());
        }
    }
    for part in coverage.uncovered() {
        let (kind, name) = (part.kind.one(), &part.name);
        let _ = writeln!(
            out,
            "{}:{}: no test comes to the {kind} `{name}`",
            part.file, part.line
        );
    }
    out
}
