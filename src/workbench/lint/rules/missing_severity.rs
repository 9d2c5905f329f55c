//! A denial that protects the bridge or credentials, and does not say how grave it is.

use crate::engine::bundle::Verdict;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;
use crate::workbench::lint::formula::Test;

pub(super) const RULE: Rule = Rule {
    code: Code::MissingSeverity,
    find,
};

/// The labels of what is protected.
const PROTECTED: [&str; 2] = ["guard", "credentials"];

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in &desk.policies {
        if subject.policy.verdict != Verdict::Forbid || !subject.policy.severity.is_empty() {
            continue;
        }
        let literals = subject.cases.iter().flat_map(|case| case.holds.literals());
        let label = literals
            .filter(|literal| literal.holds)
            .find_map(|literal| match &literal.test {
                Test::Has(name) => PROTECTED.into_iter().find(|label| label == name),
                _ => None,
            });
        if let Some(label) = label {
            let text = format!(
                "`{}` protects what is labelled `{label}`, and has no severity",
                subject.id()
            );
            let problem = Problem::warning(Code::MissingSeverity, text)
                .help("write `@severity(\"critical\")`: reports and alarms go by it");
            found.push(subject.problem(problem, "id"));
        }
    }
}
