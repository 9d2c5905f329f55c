//! The labels and patterns that policies name.

use std::collections::BTreeSet;

use crate::engine::bundle::Policy;
use crate::engine::codec::Decoder;
use cedar_policy::pst::{BinaryOp, Clause, Expr, Literal, Var};

/// The names that stand behind `.labels.contains(…)` and `.patterns.contains(…)`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::policy) struct References {
    /// Labels of paths and programs.
    pub(in crate::policy) labels: BTreeSet<String>,
    /// Patterns of `permission.toml`.
    pub(in crate::policy) patterns: BTreeSet<String>,
    /// Signals of `injection.toml`.
    pub(in crate::policy) signals: BTreeSet<String>,
    /// Labels, one of which the resource has to carry for the policy to hold.
    pub(in crate::policy) requires: Vec<String>,
}

/// What the clauses of one policy name.
pub(super) fn of(clauses: &[Clause]) -> References {
    let mut found = References {
        requires: required(clauses),
        ..References::default()
    };
    for clause in clauses {
        let (Clause::When(expr) | Clause::Unless(expr)) = clause;
        visit(expr, &mut found);
    }
    found
}

/// The labels that a policy of a bundle names.
///
/// # Errors
/// If the policy is none that this version compiled.
pub fn labels(policy: &Policy) -> Result<BTreeSet<String>, String> {
    let decoded = Decoder::default()
        .policy(&policy.body, "0")
        .map_err(|error| error.0)?;
    let tree = decoded.to_pst().map_err(|error| error.to_string())?;
    let clauses: Vec<Clause> = tree.body().clauses().to_vec();
    Ok(of(&clauses).labels)
}

/// What the first condition asks of the resource's labels. Only the first: what stands before it
/// could fail, and a failure is a denial.
fn required(clauses: &[Clause]) -> Vec<String> {
    let Some(Clause::When(first)) = clauses.first() else {
        return Vec::new();
    };
    let mut first = first;
    while let Expr::BinaryOp {
        op: BinaryOp::And,
        left,
        ..
    } = &**first
    {
        first = left;
    }
    let Expr::BinaryOp { op, left, right } = &**first else {
        return Vec::new();
    };
    let of_resource = matches!(&**left, Expr::GetAttr { expr, attr }
        if attr == "labels" && matches!(&**expr, Expr::Var(Var::Resource)));
    let literals: &[_] = match (op, &**right) {
        (BinaryOp::Contains, _) => std::slice::from_ref(right),
        (BinaryOp::ContainsAny, Expr::Set(all)) => all,
        _ => return Vec::new(),
    };
    let text = |expr: &std::sync::Arc<Expr>| match &**expr {
        Expr::Literal(Literal::String(text)) => Some(text.to_string()),
        _ => None,
    };
    literals
        .iter()
        .map(text)
        .collect::<Option<Vec<_>>>()
        .filter(|_| of_resource)
        .unwrap_or_default()
}

fn visit(expr: &Expr, found: &mut References) {
    match expr {
        Expr::BinaryOp { op, left, right } => {
            if matches!(
                op,
                BinaryOp::Contains | BinaryOp::ContainsAll | BinaryOp::ContainsAny
            ) && let Expr::GetAttr { attr, .. } = &**left
            {
                match attr.as_str() {
                    "labels" | "beside" => texts(right, &mut found.labels),
                    "patterns" => texts(right, &mut found.patterns),
                    "signals" => texts(right, &mut found.signals),
                    _ => {}
                }
            }
            visit(left, found);
            visit(right, found);
        }
        Expr::UnaryOp { expr, .. }
        | Expr::GetAttr { expr, .. }
        | Expr::HasAttr { expr, .. }
        | Expr::Like { expr, .. } => visit(expr, found),
        Expr::Is { expr, in_expr, .. } => {
            visit(expr, found);
            if let Some(other) = in_expr {
                visit(other, found);
            }
        }
        Expr::IfThenElse {
            cond,
            then_expr,
            else_expr,
        } => {
            for expr in [cond, then_expr, else_expr] {
                visit(expr, found);
            }
        }
        Expr::Set(all) => all.iter().for_each(|expr| visit(expr, found)),
        Expr::Record(fields) => fields.values().for_each(|expr| visit(expr, found)),
        _ => {}
    }
}

fn texts(expr: &Expr, into: &mut BTreeSet<String>) {
    match expr {
        Expr::Literal(Literal::String(text)) => {
            into.insert(text.to_string());
        }
        Expr::Set(all) => all.iter().for_each(|expr| texts(expr, into)),
        _ => {}
    }
}
