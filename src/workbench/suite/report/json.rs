//! For programs.

use serde_json::{Value, json};

use super::{Report, Tried};
use crate::policy::diagnostic::render::json_problem;
use crate::workbench::suite::coverage::Coverage;

/// The version of this form.
pub const VERSION: u32 = 1;

/// `{"version":1,"passed":…,"failed":…,"tests":[…],"coverage":…}`
#[must_use]
pub fn report(report: &Report, coverage: Option<&Coverage>) -> Value {
    let tests: Vec<Value> = report.tried.iter().map(test).collect();
    let failed = report.failed().count();
    json!({
        "version": VERSION,
        "passed": report.tried.len() - failed,
        "failed": failed,
        "tests": tests,
        "coverage": coverage.map(Coverage::json),
    })
}

fn test(tried: &Tried) -> Value {
    let problems: Vec<Value> = tried.problems.iter().map(json_problem).collect();
    json!({
        "name": tried.name,
        "file": tried.file,
        "line": tried.line,
        "passed": tried.passed(),
        "decision": tried.decision.to_string(),
        "would_decide": tried.would_decide.to_string(),
        "policies": tried.deciding,
        "problems": problems,
    })
}
