//! A pattern that lets more through than it seems to.

use std::ops::Range;

use cedar_policy_core::ast::{Expr, ExprKind, Pattern, PatternElem, UnaryOp};

use crate::engine::bundle::Verdict;
use crate::engine::request::ResourceType;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::{Desk, Subject};
use crate::workbench::lint::formula::{Formula, Literal, Test, satisfiable};
use crate::workbench::lint::lower::place;

pub(super) const RULE: Rule = Rule {
    code: Code::LoosePattern,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in &desk.policies {
        let Some(condition) = subject.written.tree.non_scope_constraints() else {
            continue;
        };
        let permit = subject.policy.verdict == Verdict::Permit;
        let mut likes = Vec::new();
        collect(condition, permit, condition, &mut likes);
        for like in likes {
            let Some((message, help)) = loose(desk, subject, &like) else {
                continue;
            };
            let problem = Problem::warning(Code::LoosePattern, message).help(help);
            found.push(problem.at(&subject.written.file, like.place));
        }
    }
}

/// One `like`.
struct Like<'e> {
    place: Range<usize>,
    subject: String,
    pattern: &'e Pattern,
    /// Whether what it matches is let through.
    loosens: bool,
    /// What has to hold together with it: a permit's conditions, or one exception.
    around: &'e Expr,
}

fn collect<'e>(expr: &'e Expr, loosens: bool, around: &'e Expr, likes: &mut Vec<Like<'e>>) {
    match expr.expr_kind() {
        ExprKind::And { left, right } | ExprKind::Or { left, right } => {
            collect(left, loosens, around, likes);
            collect(right, loosens, around, likes);
        }
        ExprKind::UnaryApp {
            op: UnaryOp::Not,
            arg,
        } => collect(arg, !loosens, if loosens { around } else { arg }, likes),
        ExprKind::If {
            test_expr,
            then_expr,
            else_expr,
        } => {
            for expr in [test_expr, then_expr, else_expr] {
                collect(expr, loosens, around, likes);
            }
        }
        ExprKind::Like { expr: of, pattern } => {
            let Some(place) = place(expr) else { return };
            likes.push(Like {
                place,
                subject: of.to_string(),
                pattern,
                loosens,
                around,
            });
        }
        _ => {}
    }
}

fn loose(desk: &Desk<'_>, subject: &Subject<'_>, like: &Like<'_>) -> Option<(String, String)> {
    let elems = like.pattern.get_elems();
    let wild = |elem: &PatternElem| matches!(elem, PatternElem::Wildcard);
    if !elems.is_empty() && elems.iter().all(wild) {
        return Some((
            format!("every `{}` has this form", like.subject),
            "remove the test, or say which form is meant".to_owned(),
        ));
    }
    if !like.loosens {
        return None;
    }
    let text = like.pattern.to_string();
    let starts_wild = elems.first().is_some_and(wild);
    let ends_wild = elems.last().is_some_and(wild);
    let word = |c: char| c.is_ascii_alphanumeric();
    let inner = text.trim_matches('*');
    match like.subject.as_str() {
        "resource.given" => Some((
            "`resource.given` is what the agent wrote, not where it leads".to_owned(),
            "test `resource.resolved` of a path, and `resource.host` of an address".to_owned(),
        )),
        "resource.resolved" if starts_wild && !anchored(desk, subject, like, of_a_root) => Some((
            format!("`{text}` matches in every folder of the machine"),
            "ask for `resource.inside` as well, or start with the folder that is meant".to_owned(),
        )),
        "resource.resolved"
            if ends_wild && !starts_wild && text.trim_end_matches('*').ends_with(word) =>
        {
            let folder = text.trim_end_matches('*');
            Some((
                format!("`{text}` matches `{folder}-other` as well"),
                format!("write `{folder}/*` for what is in the folder"),
            ))
        }
        "resource.host" if starts_wild && inner.starts_with(word) => Some((
            format!("`{text}` matches `evil{inner}` as well"),
            format!("write `resource.host == \"{inner}\" || resource.host like \"*.{inner}\"`"),
        )),
        "resource.host" if ends_wild && inner.contains(word) => Some((
            format!("`{text}` matches `{inner}.attacker.example` as well"),
            "name the whole host, or let a wildcard stand in front only: `*.example.com`"
                .to_owned(),
        )),
        "resource.text" if !anchored(desk, subject, like, certain) => Some((
            "a line that nobody understood is a text too, and may hold more commands".to_owned(),
            "ask for `resource.certain` as well, or test `resource.program` and `resource.labels`"
                .to_owned(),
        )),
        _ => None,
    }
}

/// Whether something else has to hold besides the `like`, wherever it lets something through.
fn anchored(
    desk: &Desk<'_>,
    subject: &Subject<'_>,
    like: &Like<'_>,
    anchors: fn(&Literal) -> bool,
) -> bool {
    subject
        .cases
        .iter()
        .filter(|case| {
            matches!(
                case.env.resource,
                ResourceType::Path | ResourceType::Command
            )
        })
        .all(|case| {
            let formula = desk.formula(like.around, case.env, true);
            let mut parts = vec![Formula::Test(Literal {
                subject: like.subject.as_str().into(),
                test: Test::Like(like.pattern.clone()),
                holds: true,
            })];
            let without = formula.literals().into_iter().filter(|l| anchors(l));
            parts.extend(without.map(|literal| {
                Formula::Test(Literal {
                    holds: false,
                    ..literal.clone()
                })
            }));
            parts.push(formula.clone());
            !satisfiable(&parts.iter().collect::<Vec<_>>(), &desk.domain)
        })
}

/// What ties a path to a place: the workspace, a label, or a folder.
fn of_a_root(literal: &Literal) -> bool {
    match (&*literal.subject, &literal.test) {
        ("resource.inside", Test::True) | ("resource.labels", Test::Has(_)) => true,
        ("resource.resolved", Test::Is(_)) => true,
        ("resource.resolved", Test::Like(pattern)) => {
            matches!(pattern.get_elems().first(), Some(PatternElem::Char(_)))
        }
        _ => false,
    }
}

fn certain(literal: &Literal) -> bool {
    match (&*literal.subject, &literal.test) {
        ("resource.certain", Test::True) => true,
        // Only what is certain has a program, and labels of one.
        ("resource.program", Test::Is(name)) => !name.is_empty(),
        ("resource.program", Test::Like(_)) | ("resource.labels", Test::Has(_)) => true,
        _ => false,
    }
}
