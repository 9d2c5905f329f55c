//! A comparison with what an attribute can never be.

use super::dead_policy::dead;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;
use crate::workbench::lint::domain::Never;

pub(super) const RULE: Rule = Rule {
    code: Code::ImpossibleValue,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in &desk.policies {
        let mut dead = dead(desk, subject);
        for (place, never) in &subject.never {
            let Never::Said { message, help } = never else {
                continue;
            };
            // Once is enough.
            let message = if std::mem::take(&mut dead) {
                format!(
                    "{message}, so that the policy `{}` can never hold",
                    subject.id()
                )
            } else {
                message.clone()
            };
            let problem = Problem::warning(Code::ImpossibleValue, message).help(help);
            found.push(problem.at(&subject.written.file, place.clone()));
        }
    }
}
