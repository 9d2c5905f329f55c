//! What is odd about policies that are in order: one rule a file.
//!
//! `docs/lint.md` says of each rule what it finds, why it matters and what to do.

mod desk;
mod domain;
mod formula;
pub mod hipaa;
mod ignore;
mod lower;
mod range;
mod rules;
mod toml;

use std::collections::HashMap;

use crate::engine::bundle::Bundle;
use crate::engine::on_known_stack;
use crate::policy::{Code, Problem, Reading};
use desk::Desk;

/// One thing that is looked for.
pub(crate) struct Rule {
    /// The code of what it finds.
    code: Code,
    /// Looks for it.
    find: fn(&Desk<'_>, &mut Vec<Problem>),
}

/// What each rule is called, in the order in which they are run. The last two are about the comments
/// that silence the others.
#[must_use]
pub fn rules() -> Vec<Code> {
    let own = rules::ALL.iter().map(|rule| rule.code);
    own.chain([Code::BadIgnore, Code::UnusedIgnore]).collect()
}

/// The section of `docs/lint.md` about a rule.
#[must_use]
pub fn explain(rule: Code) -> Option<&'static str> {
    let docs = include_str!("../../../docs/lint.md");
    let heading = format!("\n### `{}`\n", rule.name());
    let start = docs.find(&heading)? + 1;
    let rest = docs.get(start..)?;
    let body = rest.find('\n')?;
    let end = rest
        .get(body..)?
        .find("\n##")
        .map_or(rest.len(), |at| body + at);
    rest.get(..end).map(str::trim_end)
}

/// What the rules find, or only one of them: with what `policy check` says, in the order in which a
/// person reads the files.
#[must_use]
pub fn lint(
    reading: &Reading,
    bundle: &Bundle,
    checked: &[Problem],
    only: Option<Code>,
) -> Vec<Problem> {
    on_known_stack(|| {
        let desk = Desk::new(reading, bundle, checked);
        let mut found = Vec::new();
        let wanted = |code: Code| only.is_none_or(|only| only == code);
        // A comment that is not needed can be told only by who looks for everything.
        let silences = wanted(Code::BadIgnore) || wanted(Code::UnusedIgnore);
        for rule in rules::ALL {
            if only.is_none() || silences || wanted(rule.code) {
                (rule.find)(&desk, &mut found);
            }
        }
        let mut found = ignore::apply(reading, found);
        if only.is_none() {
            found.extend(checked.iter().cloned());
        }
        found.retain(|problem| wanted(problem.code));
        sort(&mut found, reading);
        found
    })
}

fn sort(problems: &mut [Problem], reading: &Reading) {
    let files = reading.sources.iter().flat_map(|source| &source.files);
    let ranks: HashMap<&str, usize> = files
        .enumerate()
        .map(|(rank, file)| (file.path.as_str(), rank))
        .collect();
    problems.sort_by_cached_key(|problem| {
        let file = problem.file.as_ref().map(|file| file.path.as_str());
        let start = problem.span.as_ref().map_or(0, |span| span.start);
        let rank = file.and_then(|path| ranks.get(path).copied());
        (rank, start, problem.code, problem.message.clone())
    });
}
