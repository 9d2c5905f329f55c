//! A policy that can never hold.

use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::{Desk, Subject};
use crate::workbench::lint::formula::satisfiable;

pub(super) const RULE: Rule = Rule {
    code: Code::DeadPolicy,
    find,
};

/// What says already why a policy is dead.
pub(super) const TOLD: [Code; 3] = [
    Code::ImpossiblePolicy,
    Code::UndefinedLabel,
    Code::UndefinedPattern,
];

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in desk.policies.iter().filter(|subject| dead(desk, subject)) {
        let written = subject.written;
        if !subject.never.is_empty() || desk.said(&written.file, &written.span, &TOLD) {
            continue;
        }
        let problem = Problem::warning(
            Code::DeadPolicy,
            format!("the policy `{}` can never hold", subject.id()),
        )
        .help("no call fulfils its scope and all of its conditions at once; correct or remove it");
        found.push(subject.problem(problem, "id"));
    }
}

/// Whether a policy can never hold.
pub(super) fn dead(desk: &Desk<'_>, subject: &Subject<'_>) -> bool {
    subject
        .cases
        .iter()
        .all(|case| !satisfiable(&[&case.holds], &desk.domain))
}
