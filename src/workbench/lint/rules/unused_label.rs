//! A label that no policy names.

use std::collections::BTreeSet;

use cedar_policy_core::ast::{Expr, ExprKind, Literal};

use crate::engine::containment::GUARD;
use crate::policy::diagnostic::quote;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;

pub(super) const RULE: Rule = Rule {
    code: Code::UnusedLabel,
    find,
};

/// Labels that mean something without any policy: docs/policies.md says what.
const BUILT_IN: [&str; 3] = [GUARD, "starts_agent", "changes_worktree"];

/// The tables whose entries give labels, and the keys that hold them.
const TABLES: [(&str, &[&str]); 3] = [
    ("program", &["labels"]),
    ("variable", &["labels", "used"]),
    ("leading", &["labels"]),
];

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    let mut named: BTreeSet<String> = BUILT_IN.iter().map(|name| (*name).to_owned()).collect();
    for subject in &desk.policies {
        texts(&subject.condition, &mut named);
    }
    for toml in desk.tables("containment.toml") {
        let root = toml.root();
        let paths = root.tables("label").into_iter();
        let mut given: Vec<_> = paths.filter_map(|(table, _)| table.text("name")).collect();
        for (name, keys) in TABLES {
            for (table, _) in root.tables(name) {
                given.extend(keys.iter().flat_map(|key| table.texts(key)));
            }
        }
        for (label, span) in given {
            // Said once, where it is given first.
            if named.insert(label.to_owned()) {
                let text = format!("no policy names the label `{}`", quote(label));
                let problem = Problem::note(Code::UnusedLabel, text)
                    .help("write a policy for it, or remove it");
                found.push(problem.at(toml.file, span));
            }
        }
    }
}

fn texts(expr: &Expr, into: &mut BTreeSet<String>) {
    for part in expr.subexpressions() {
        if let ExprKind::Lit(Literal::String(text)) = part.expr_kind() {
            into.insert(text.to_string());
        }
    }
}
