//! What lies before those who look at policies: the files, the bundle, and each policy's formulas.

use std::ops::Range;
use std::sync::Arc;

use cedar_policy_core::ast::Expr;

use super::domain::{Domain, Environment, Never};
use super::formula::Formula;
use super::lower::{Lowering, Notes};
use super::toml::Toml;
use crate::engine::action::Action;
use crate::engine::bundle::{Bundle, Policy, Verdict};
use crate::engine::schema::resources;
use crate::policy::{Code, Problem, Reading, Source, SourceFile, Written};

/// Everything that rules look at.
pub(super) struct Desk<'a> {
    /// The layers, the base first.
    pub(super) sources: &'a [Source],
    /// What is judged by.
    pub(super) bundle: &'a Bundle,
    /// What `policy check` says.
    pub(super) checked: &'a [Problem],
    /// What attributes can be.
    pub(super) domain: Domain,
    /// The policies, in the order of the bundle.
    pub(super) policies: Vec<Subject<'a>>,
    /// The TOML files of all layers.
    pub(super) tables: Vec<Toml<'a>>,
}

/// One policy.
pub(super) struct Subject<'a> {
    /// What it says.
    pub(super) policy: &'a Policy,
    /// How it is written.
    pub(super) written: &'a Written,
    /// Its scope and conditions.
    pub(super) condition: Expr,
    /// What it asks for, wherever its scope lets it be asked.
    pub(super) cases: Vec<Case>,
    /// Tests of it that never hold, by their places.
    pub(super) never: Vec<(Range<usize>, Never)>,
}

/// What a policy asks for in one environment.
pub(super) struct Case {
    /// The environment.
    pub(super) env: Environment,
    /// When it holds.
    pub(super) holds: Formula,
    /// When it does not.
    pub(super) fails: Formula,
}

impl<'a> Desk<'a> {
    /// Lays everything out.
    pub(super) fn new(reading: &'a Reading, bundle: &'a Bundle, checked: &'a [Problem]) -> Self {
        let domain = Domain::of(bundle);
        let policies = bundle
            .policies
            .iter()
            .zip(&reading.policies)
            .map(|(policy, written)| subject(policy, written, &domain))
            .collect();
        let files = reading.sources.iter().flat_map(|source| &source.files);
        Self {
            sources: &reading.sources,
            bundle,
            checked,
            domain,
            policies,
            tables: files.filter_map(Toml::new).collect(),
        }
    }

    /// The TOML files of that name, the base's first.
    pub(super) fn tables(&self, name: &str) -> impl Iterator<Item = &Toml<'a>> {
        self.tables
            .iter()
            .filter(move |toml| toml.file.name == name)
    }

    /// Whether `policy check` said one of these of that place, or of a part of it.
    pub(super) fn said(&self, file: &Arc<SourceFile>, span: &Range<usize>, codes: &[Code]) -> bool {
        self.checked.iter().any(|problem| {
            codes.contains(&problem.code)
                && problem.file.as_ref() == Some(file)
                && problem
                    .span
                    .as_ref()
                    .is_some_and(|at| at.start >= span.start && at.end <= span.end)
        })
    }

    /// A problem at the value of a key, where a file sets it.
    pub(super) fn setting(&self, problem: Problem, file: &str, path: &[&str]) -> Problem {
        for toml in self.tables(file) {
            let Some((key, tables)) = path.split_last() else {
                break;
            };
            let table = tables
                .iter()
                .try_fold(toml.root(), |table, name| table.table(name));
            if let Some(place) = table.and_then(|table| table.value(key)) {
                return problem.at(toml.file, place);
            }
        }
        match self.tables(file).next() {
            Some(toml) => problem.of(toml.file),
            None => problem,
        }
    }

    /// A problem at the name of an entity.
    pub(super) fn entity(&self, problem: Problem, name: &str) -> Problem {
        for toml in self.tables("entities.toml") {
            for (table, _) in toml.root().tables("entity") {
                if let Some((_, place)) = table.text("name").filter(|(own, _)| *own == name) {
                    return problem.at(toml.file, place);
                }
            }
        }
        problem
    }

    /// The formula of a part of a policy in one environment.
    pub(super) fn formula(&self, expr: &Expr, env: Environment, holds: bool) -> Formula {
        let mut notes = Notes::default();
        let mut lowering = Lowering {
            domain: &self.domain,
            env,
            notes: &mut notes,
        };
        lowering.lower(expr, holds)
    }
}

impl Subject<'_> {
    /// Its id, as a person writes it.
    pub(super) fn id(&self) -> &str {
        let id = &self.policy.id;
        id.split_once(':').map_or(id.as_str(), |(_, id)| id)
    }

    /// Whether it decides anything when it holds.
    pub(super) const fn binds(&self) -> bool {
        !self.policy.monitor
    }

    /// `the permit`, `the question`, `the denial`.
    pub(super) const fn kind(&self) -> &'static str {
        match self.policy.verdict {
            Verdict::Permit => "permit",
            Verdict::Ask => "question",
            Verdict::Forbid => "denial",
        }
    }

    /// A problem at its id, or at another annotation.
    pub(super) fn problem(&self, problem: Problem, key: &str) -> Problem {
        problem.at(&self.written.file, self.written.place(key))
    }

    /// `file:line`, for sentences about another policy.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.policy.file, self.policy.line)
    }
}

fn subject<'a>(policy: &'a Policy, written: &'a Written, domain: &Domain) -> Subject<'a> {
    let condition = written.tree.condition();
    let mut notes = Notes::default();
    let mut cases = Vec::new();
    for action in Action::ALL {
        if !policy.actions.contains(action) {
            continue;
        }
        for resource in resources(action).iter().copied() {
            if !policy.resources.contains(resource) {
                continue;
            }
            let env = Environment { action, resource };
            let mut lowering = Lowering {
                domain,
                env,
                notes: &mut notes,
            };
            let holds = lowering.lower(&condition, true);
            let fails = lowering.lower(&condition, false);
            cases.push(Case { env, holds, fails });
        }
    }
    let never = notes
        .never
        .into_iter()
        .filter_map(|((start, end), never)| Some((start..end, never?)))
        .collect();
    Subject {
        policy,
        written,
        condition,
        cases,
        never,
    }
}
