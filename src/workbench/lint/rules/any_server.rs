//! A tool of an MCP server that is let through by a name which every server may give.

use cedar_policy_core::ast::{Expr, ExprKind, UnaryOp};

use crate::engine::action::Action;
use crate::engine::bundle::Verdict;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::{Desk, Subject};
use crate::workbench::lint::formula::{Formula, Literal, Test, satisfiable};
use crate::workbench::lint::lower::place;

pub(super) const RULE: Rule = Rule {
    code: Code::AnyServer,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for subject in &desk.policies {
        let Some(condition) = subject.written.tree.non_scope_constraints() else {
            continue;
        };
        let mut lets = Vec::new();
        if subject.policy.verdict == Verdict::Permit {
            lets.push(condition);
        } else {
            exceptions(condition, &mut lets);
        }
        for expr in lets
            .into_iter()
            .filter(|expr| by_name_only(desk, subject, expr))
        {
            let problem = Problem::warning(
                Code::AnyServer,
                "every MCP server can give a tool this name",
            )
            .help("ask for `resource.server` as well");
            let at = place(expr).unwrap_or_else(|| subject.written.span.clone());
            found.push(problem.at(&subject.written.file, at));
        }
    }
}

/// What a forbid leaves out.
fn exceptions<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    match expr.expr_kind() {
        ExprKind::And { left, right } => {
            exceptions(left, into);
            exceptions(right, into);
        }
        ExprKind::UnaryApp {
            op: UnaryOp::Not,
            arg,
        } => into.push(arg),
        _ => {}
    }
}

/// Whether it holds for a tool by its name, whichever server it is of.
fn by_name_only(desk: &Desk<'_>, subject: &Subject<'_>, expr: &Expr) -> bool {
    let mcp = |case: &&_| case_is_mcp(case);
    subject.cases.iter().filter(mcp).any(|case| {
        let formula = desk.formula(expr, case.env, true);
        let tests = formula.literals();
        let named = tests.iter().any(|test| {
            test.holds
                && &*test.subject == "resource.name"
                && matches!(test.test, Test::Is(_) | Test::Like(_))
        });
        let mut parts: Vec<Formula> = tests
            .into_iter()
            .filter(|test| matches!(&*test.subject, "resource.server" | "context.tool"))
            .map(|test| {
                // Asking for no server at all names none either, but it lets none through.
                let none = test.test == Test::Is(String::new());
                Formula::Test(Literal {
                    holds: none && !test.holds,
                    ..test.clone()
                })
            })
            .collect();
        parts.push(Formula::Test(Literal {
            subject: "resource.server".into(),
            test: Test::Is(String::new()),
            holds: false,
        }));
        parts.push(formula.clone());
        named && satisfiable(&parts.iter().collect::<Vec<_>>(), &desk.domain)
    })
}

fn case_is_mcp(case: &crate::workbench::lint::desk::Case) -> bool {
    case.env.action == Action::Mcp
}
