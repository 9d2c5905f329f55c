//! For build servers: `JUnit` XML.

use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};

use super::{Report, Tried};
use crate::policy::Problem;
use crate::policy::diagnostic::render::snippets;

/// The name of the whole.
const NAME: &str = "copilot-bridge policy test";

/// A suite for each file, a case for each test.
///
/// # Errors
/// If it cannot be written as XML.
pub fn report(report: &Report) -> Result<String, quick_junit::SerializeError> {
    let mut document = Document::new(NAME);
    for of_file in report.tried.chunk_by(|a, b| a.file == b.file) {
        let Some(first) = of_file.first() else {
            continue;
        };
        let mut suite = TestSuite::new(first.file.as_str());
        suite.add_test_cases(of_file.iter().map(case));
        document.add_test_suite(suite);
    }
    document.to_string()
}

/// Policies or tests that could not be read: a case that is an error for each problem.
///
/// # Errors
/// If it cannot be written as XML.
pub fn problems(problems: &[Problem]) -> Result<String, quick_junit::SerializeError> {
    let mut document = Document::new(NAME);
    let mut suite = TestSuite::new("policies");
    for problem in problems.iter().filter(|problem| problem.is_error()) {
        let status = unsuccessful(NonSuccessKind::Error, std::slice::from_ref(problem));
        suite.add_test_case(TestCase::new(problem.one_line(), status));
    }
    document.add_test_suite(suite);
    document.to_string()
}

fn case(tried: &Tried) -> TestCase {
    let status = if tried.passed() {
        TestCaseStatus::success()
    } else {
        unsuccessful(NonSuccessKind::Failure, &tried.problems)
    };
    let mut case = TestCase::new(tried.name.as_str(), status);
    case.set_classname(tried.file.as_str());
    case.extra.insert("file".into(), tried.file.as_str().into());
    case.extra
        .insert("line".into(), tried.line.to_string().into());
    case
}

fn unsuccessful(kind: NonSuccessKind, problems: &[Problem]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    let messages: Vec<&str> = problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    status.set_message(messages.join("; "));
    status.set_description(snippets(problems, false));
    status
}
