//! An entity has health information, and nothing takes it out of its texts.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::action::Action;
use crate::engine::bundle::Verdict;
use crate::engine::decision::Obligation;
use crate::policy::diagnostic::quote;
use crate::policy::{Code, Problem, SourceFile};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;
use crate::workbench::lint::formula::{Formula, Literal, Test, satisfiable};

pub(super) const RULE: Rule = Rule {
    code: Code::PhiNotRedacted,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    let entities = &desk.bundle.settings.entities.all;
    let Some(entity) = entities.iter().find(|entity| entity.phi) else {
        return;
    };
    for off in off(desk) {
        let text = format!(
            "the pack `{}` is off, but `{}` has health information",
            quote(off.name),
            quote(&entity.name)
        );
        let problem = Problem::warning(Code::PhiNotRedacted, text)
            .help("switch it on: `packs` in the section `[redaction]` of bridge.toml");
        found.push(problem.at(off.file, off.place));
    }
    for action in [Action::Prompt, Action::Result] {
        if !redacts(desk, action) {
            let text = format!(
                "no permit redacts every {} of `{}`, who has health information",
                action.name(),
                quote(&entity.name)
            );
            let problem = Problem::warning(Code::PhiNotRedacted, text).help(format!(
                "add a permit for `{}` with `@obligation(\"redact:phi\")` where `context.phi` holds",
                action.name()
            ));
            found.push(desk.entity(problem, &entity.name));
        }
    }
}

/// A pack for health information that is off.
pub(in crate::workbench::lint) struct Off<'d> {
    /// Its name.
    pub(in crate::workbench::lint) name: &'d str,
    /// Where it says so.
    pub(in crate::workbench::lint) place: Range<usize>,
    /// Its file.
    pub(in crate::workbench::lint) file: &'d Arc<SourceFile>,
}

/// The packs for health information that are off, and where they say so.
pub(in crate::workbench::lint) fn off<'d>(desk: &'d Desk<'_>) -> Vec<Off<'d>> {
    let wanted: Vec<&str> = desk
        .tables("bridge.toml")
        .filter_map(|toml| toml.root().table("redaction"))
        .flat_map(|table| table.texts("packs"))
        .map(|(name, _)| name)
        .collect();
    desk.tables
        .iter()
        .filter(|toml| toml.file.name.starts_with("redaction/"))
        .filter_map(|toml| {
            let root = toml.root();
            let (name, _) = root.text("pack")?;
            let phi = root
                .text("purpose")
                .is_some_and(|(purpose, _)| purpose == "phi");
            let off = root.flag("enabled") == Some(false) && !wanted.contains(&name);
            let place = root.value("enabled")?;
            (phi && off).then_some(Off {
                name,
                place,
                file: toml.file,
            })
        })
        .collect()
}

/// Whether texts with health information go on redacted only: every permit that lets one pass is
/// joined by one that redacts it.
pub(in crate::workbench::lint) fn redacts(desk: &Desk<'_>, action: Action) -> bool {
    let phi = Formula::Test(Literal {
        subject: "context.phi".into(),
        test: Test::True,
        holds: true,
    });
    let cases = |redacting: bool| {
        desk.policies
            .iter()
            .filter(|subject| subject.policy.verdict == Verdict::Permit)
            .filter(move |subject| {
                redacting == subject.policy.obligations.contains(&Obligation::RedactPhi)
            })
            .flat_map(|subject| &subject.cases)
            .filter(move |case| case.env.action == action)
    };
    let redacted: Vec<&Formula> = cases(true).map(|case| &case.fails).collect();
    cases(false).all(|case| {
        let mut parts = vec![&case.holds, &phi];
        parts.extend(&redacted);
        !satisfiable(&parts, &desk.domain)
    })
}
