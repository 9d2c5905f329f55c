//! A part of a condition that always holds.

use super::parts::constant;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;

pub(super) const RULE: Rule = Rule {
    code: Code::AlwaysTrue,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for part in constant(desk).into_iter().filter(|part| part.holds) {
        let problem = Problem::warning(Code::AlwaysTrue, "this is always true")
            .help("remove it, or correct what it asks for");
        found.push(problem.at(&part.subject.written.file, part.place));
    }
}
