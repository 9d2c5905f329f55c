//! A policy that changes nothing because others say the same, or more.

use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use crate::engine::bundle::Verdict;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::{Case, Desk, Subject};
use crate::workbench::lint::domain::Environment;
use crate::workbench::lint::formula::{Formula, Test, satisfiable};

pub(super) const RULE: Rule = Rule {
    code: Code::Shadowed,
    find: |desk, found| find(desk, false, found),
};

pub(super) const DUPLICATE: Rule = Rule {
    code: Code::Duplicate,
    find: |desk, found| {
        find(desk, true, found);
        same_ids(desk, found);
    },
};

/// A policy in one environment.
struct Entry<'a> {
    at: usize,
    case: &'a Case,
    mask: u64,
}

fn find(desk: &Desk<'_>, duplicates: bool, found: &mut Vec<Problem>) {
    let mut by_env: BTreeMap<(&str, &str), Vec<Entry<'_>>> = BTreeMap::new();
    for (at, subject) in desk.policies.iter().enumerate() {
        for case in &subject.cases {
            if !satisfiable(&[&case.holds], &desk.domain) {
                continue;
            }
            let mask = mask(&case.holds);
            let entry = Entry { at, case, mask };
            by_env.entry(key(case.env)).or_default().push(entry);
        }
    }
    // In how many environments each of them can hold.
    let mut wide = vec![0_usize; desk.policies.len()];
    for entry in by_env.values().flatten() {
        if let Some(count) = wide.get_mut(entry.at) {
            *count += 1;
        }
    }
    let width = |at: usize| wide.get(at).copied().unwrap_or_default();
    for (at, subject) in desk.policies.iter().enumerate() {
        if width(at) == 0 {
            continue;
        }
        let Some(others) = coverers(desk, at, subject, &by_env, &width) else {
            continue;
        };
        let all: Vec<&Subject<'_>> = others
            .iter()
            .filter_map(|(other, _)| desk.policies.get(*other))
            .collect();
        let same = others.len() == 1
            && others.iter().all(|(_, equal)| *equal)
            && others.iter().all(|(other, _)| width(*other) == width(at));
        if same == duplicates {
            found.push(report(subject, &all, same));
        }
    }
}

const fn key(env: Environment) -> (&'static str, &'static str) {
    (env.action.name(), env.resource.name())
}

/// The policies that say the same or more wherever this one holds, and whether they say the same;
/// nothing if there is a place where none does.
fn coverers(
    desk: &Desk<'_>,
    at: usize,
    subject: &Subject<'_>,
    by_env: &BTreeMap<(&str, &str), Vec<Entry<'_>>>,
    width: &dyn Fn(usize) -> usize,
) -> Option<BTreeSet<(usize, bool)>> {
    let mut others: BTreeMap<usize, bool> = BTreeMap::new();
    for case in &subject.cases {
        let entries = by_env.get(&key(case.env)).map_or(&[][..], Vec::as_slice);
        let Some(own) = entries.iter().find(|entry| entry.at == at) else {
            continue;
        };
        let mut covering = entries.iter().filter_map(|other| {
            let by = desk.policies.get(other.at)?;
            if other.at == at || !outweighs(by, subject) || !covers(desk, other, own) {
                return None;
            }
            // Of two that say the same here, the wider one stays, or the first one.
            let rank = |at: usize| (Reverse(width(at)), at);
            let equal = by.policy.verdict == subject.policy.verdict
                && by.policy.obligations == subject.policy.obligations
                && covers(desk, own, other);
            (!equal || rank(other.at) < rank(at)).then_some((other.at, equal))
        });
        // One that covers elsewhere too makes the shortest sentence.
        let first = covering.next()?;
        let known = |(other, _): &(usize, bool)| others.contains_key(other);
        let chosen = if known(&first) {
            first
        } else {
            covering.find(known).unwrap_or(first)
        };
        *others.entry(chosen.0).or_insert(true) &= chosen.1;
    }
    (!others.is_empty()).then(|| others.into_iter().collect())
}

/// Whether a policy decides wherever both hold, and brings all that the other one brings.
fn outweighs(by: &Subject<'_>, subject: &Subject<'_>) -> bool {
    if !by.binds() {
        return false;
    }
    match (by.policy.verdict, subject.policy.verdict) {
        (Verdict::Forbid, _) | (Verdict::Ask, Verdict::Ask) => true,
        (Verdict::Permit, Verdict::Permit) => subject
            .policy
            .obligations
            .iter()
            .all(|obligation| by.policy.obligations.contains(obligation)),
        _ => false,
    }
}

/// Whether one holds wherever the other does.
fn covers(desk: &Desk<'_>, wide: &Entry<'_>, narrow: &Entry<'_>) -> bool {
    match wide.case.fails {
        Formula::Known(fails) => !fails,
        // Without anything in common neither says anything of the other.
        _ if wide.mask & narrow.mask == 0 => false,
        _ => !satisfiable(&[&narrow.case.holds, &wide.case.fails], &desk.domain),
    }
}

/// A bit for each thing that a formula looks at.
fn mask(formula: &Formula) -> u64 {
    formula.literals().iter().fold(0, |mask, literal| {
        let mut hasher = DefaultHasher::new();
        literal.subject.hash(&mut hasher);
        match &literal.test {
            Test::Has(name) => name.hash(&mut hasher),
            // It says something of every element.
            Test::Empty => return u64::MAX,
            _ => {}
        }
        mask | 1 << (hasher.finish() % 64)
    })
}

fn report(subject: &Subject<'_>, others: &[&Subject<'_>], same: bool) -> Problem {
    let id = subject.id();
    let names: Vec<String> = others
        .iter()
        .take(3)
        .map(|other| format!("`{}` ({})", other.id(), other.place()))
        .collect();
    let names = names.join(", ");
    let first = others.first();
    let above = first.is_some_and(|other| other.written.file.layer != subject.written.file.layer);
    let denied = first.is_some_and(|other| other.policy.verdict == Verdict::Forbid)
        && subject.policy.verdict != Verdict::Forbid;
    let message = if same {
        format!("the policy `{id}` is the same as {names}")
    } else if denied {
        format!(
            "the {} `{id}` never counts: {names} denies wherever it holds",
            subject.kind()
        )
    } else if above {
        format!(
            "the {} `{id}` changes nothing: the layer above says it with {names}",
            subject.kind()
        )
    } else {
        format!(
            "the {} `{id}` changes nothing: {names} holds wherever it does",
            subject.kind()
        )
    };
    let code = if same {
        Code::Duplicate
    } else {
        Code::Shadowed
    };
    let help = if same {
        "remove one of them"
    } else if denied {
        "remove it, or make an exception for it in the one that denies"
    } else {
        "remove it, or narrow the other one"
    };
    subject.problem(Problem::warning(code, message).help(help), "id")
}

/// Policies of different layers with one name: reasons and tests cannot tell them apart.
fn same_ids(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    let mut known: BTreeMap<&str, &Subject<'_>> = BTreeMap::new();
    for subject in &desk.policies {
        let Some(other) = known.get(subject.id()) else {
            known.insert(subject.id(), subject);
            continue;
        };
        let text = format!(
            "the layer above has a policy `{}` too, in {}",
            subject.id(),
            other.place()
        );
        let problem = Problem::warning(Code::Duplicate, text).help("give it a name of its own");
        found.push(subject.problem(problem, "id"));
    }
}
