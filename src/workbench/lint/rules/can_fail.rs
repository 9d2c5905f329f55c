//! An expression that can fail when it is evaluated: a failure is a denial.

use crate::policy::diagnostic::quote;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;
use crate::workbench::lint::range::overflows;

pub(super) const RULE: Rule = Rule {
    code: Code::CanFail,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in &desk.policies {
        let Some(condition) = subject.written.tree.non_scope_constraints() else {
            continue;
        };
        for (place, expr) in overflows(condition) {
            let text = format!(
                "`{}` can be a number that Cedar does not have",
                quote(&expr)
            );
            let problem = Problem::warning(Code::CanFail, text).help(
                "a policy that fails denies every call that it is asked about: compare with a bound first, or without arithmetic",
            );
            let at = place.unwrap_or_else(|| subject.written.span.clone());
            found.push(problem.at(&subject.written.file, at));
        }
    }
}
