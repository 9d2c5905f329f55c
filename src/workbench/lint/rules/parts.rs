//! The parts of conditions, and which of them are always the same.

use std::ops::Range;

use cedar_policy_core::ast::{Expr, ExprKind, UnaryOp};

use super::dead_policy::{TOLD, dead};
use crate::workbench::lint::desk::{Desk, Subject};
use crate::workbench::lint::domain::Never;
use crate::workbench::lint::formula::satisfiable;
use crate::workbench::lint::lower::place;

/// A part of a condition that is the same for every call.
pub(super) struct Part<'a> {
    /// The policy.
    pub(super) subject: &'a Subject<'a>,
    /// Where it stands.
    pub(super) place: Range<usize>,
    /// Whether it always holds, or never.
    pub(super) holds: bool,
}

/// The outermost parts that are the same for every call, of policies that are not dead.
pub(super) fn constant<'a>(desk: &'a Desk<'a>) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    for subject in &desk.policies {
        let Some(condition) = subject.written.tree.non_scope_constraints() else {
            continue;
        };
        if !dead(desk, subject) {
            visit(desk, subject, condition, &mut parts);
        }
    }
    parts
}

fn visit<'a>(desk: &Desk<'_>, subject: &'a Subject<'a>, expr: &Expr, parts: &mut Vec<Part<'a>>) {
    match expr.expr_kind() {
        ExprKind::And { left, right } | ExprKind::Or { left, right } => {
            let before = parts.len();
            visit(desk, subject, left, parts);
            visit(desk, subject, right, parts);
            // Neither is: but both together may be.
            if parts.len() == before {
                judge(desk, subject, expr, parts);
            }
        }
        ExprKind::UnaryApp {
            op: UnaryOp::Not,
            arg,
            // `>` and `!=` are negations too, of what nobody wrote.
        } if place(arg) != place(expr) => visit(desk, subject, arg, parts),
        _ => judge(desk, subject, expr, parts),
    }
}

fn judge<'a>(desk: &Desk<'_>, subject: &'a Subject<'a>, expr: &Expr, parts: &mut Vec<Part<'a>>) {
    let Some(place) = place(expr) else { return };
    let told = |(at, _): &(Range<usize>, Never)| at.start >= place.start && at.end <= place.end;
    if subject.never.iter().any(told) || desk.said(&subject.written.file, &place, &TOLD) {
        return;
    }
    let possible = |holds: bool| {
        subject.cases.iter().any(|case| {
            let formula = desk.formula(expr, case.env, holds);
            satisfiable(&[&formula], &desk.domain)
        })
    };
    let holds = match (possible(true), possible(false)) {
        (true, false) => true,
        (false, true) => false,
        _ => return,
    };
    parts.push(Part {
        subject,
        place,
        holds,
    });
}
