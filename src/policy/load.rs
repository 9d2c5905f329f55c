//! From the files of all layers to one bundle, or to everything that is wrong with them.

use super::cedar::{self, Written};
use super::diagnostic::Problem;
use super::layer::{self, Locations};
use super::settings::{self, Care, exceptions};
use super::source::{Source, digest};
use crate::engine::bundle::{Bundle, Settings};
use crate::engine::on_known_stack;
use crate::engine::redaction::Redaction;

/// What `policy check` shows: the bundle, if there is one, and every problem.
#[derive(Debug)]
pub struct Checked {
    /// The bundle; `None` if any problem is an error.
    pub bundle: Option<Bundle>,
    /// Every problem in the order of the files, warnings too.
    pub problems: Vec<Problem>,
}

/// What was read to make a bundle, for those who look at how policies are written.
#[derive(Debug)]
pub struct Reading {
    /// The layers, the base first.
    pub sources: Vec<Source>,
    /// The policies, as in the bundle.
    pub policies: Vec<Written>,
}

/// The bundle of the layers in those directories.
///
/// # Errors
/// Every problem of every file, if one of them is an error.
pub fn load(locations: &Locations) -> Result<Bundle, Vec<Problem>> {
    load_sources(&layer::read(locations)?)
}

/// The bundle of those layers, the base first.
///
/// # Errors
/// Every problem of every file, if one of them is an error.
pub fn load_sources(sources: &[Source]) -> Result<Bundle, Vec<Problem>> {
    let checked = check_sources(sources);
    checked.bundle.ok_or(checked.problems)
}

/// The bundle of the layers in those directories, and every problem.
#[must_use]
pub fn check(locations: &Locations) -> Checked {
    read(locations).0
}

/// As [`check`], with what was read.
#[must_use]
pub fn read(locations: &Locations) -> (Checked, Reading) {
    let (sources, mut problems) = layer::read_with_warnings(locations);
    let (mut checked, policies) = build(&sources, Care::Thorough);
    problems.append(&mut checked.problems);
    if problems.iter().any(Problem::is_error) {
        checked.bundle = None;
    }
    checked.problems = problems;
    (checked, Reading { sources, policies })
}

/// The bundle of those layers, the base first, and every problem.
#[must_use]
pub fn check_sources(sources: &[Source]) -> Checked {
    build(sources, Care::Thorough).0
}

/// What the base layer's `bridge.toml` says, as far as it can be read: for what is no judgement.
#[must_use]
pub fn bridge(locations: &Locations) -> Settings {
    let (sources, _) = layer::read_with_warnings(locations);
    let base = sources.into_iter().next().map(|mut base| {
        base.files.retain(|file| file.name == "bridge.toml");
        base
    });
    let sources: Vec<Source> = base.into_iter().collect();
    settings::load(&sources, Care::Quick(&|| None), &mut Vec::new())
}

/// The bundle of those layers for somebody who waits: nothing is tried that was tried when the
/// policies were written. `shipped` are the redaction rules that this program carries.
pub(super) fn load_quickly(
    sources: &[Source],
    shipped: &dyn Fn() -> Option<Redaction>,
) -> Result<Bundle, Vec<Problem>> {
    let (checked, _) = build(sources, Care::Quick(shipped));
    checked.bundle.ok_or(checked.problems)
}

fn build(sources: &[Source], care: Care<'_>) -> (Checked, Vec<Written>) {
    // Cedar's parser and validator recurse: a debug build's main thread would be too small.
    on_known_stack(|| {
        let mut problems = Vec::new();
        let mut settings = settings::load(sources, care, &mut problems);
        let policies = cedar::load(sources, &mut problems);
        let readable = !problems.iter().any(Problem::is_error);
        let known = readable.then_some(policies.as_slice());
        let entities = &settings.entities;
        settings.exceptions = exceptions::load(sources, entities, known, care, &mut problems);
        let broken = problems.iter().any(Problem::is_error);
        if !broken {
            cedar::check_references(&policies, &settings, sources, &mut problems);
            cedar::check_approvals(&policies, &settings.approvers, &mut problems);
        }
        sort(&mut problems, sources);
        let (policies, written) = policies
            .into_iter()
            .map(|located| (located.policy, located.written))
            .unzip();
        let bundle = (!broken).then(|| Bundle {
            digest: digest(sources),
            policies,
            settings,
        });
        (Checked { bundle, problems }, written)
    })
}

/// In the order in which a person reads the files.
fn sort(problems: &mut [Problem], sources: &[Source]) {
    let rank = |problem: &Problem| {
        let file = problem.file.as_ref()?;
        sources
            .iter()
            .flat_map(|source| &source.files)
            .position(|known| known == file)
    };
    problems.sort_by_cached_key(|problem| {
        let start = problem.span.as_ref().map_or(0, |span| span.start);
        (rank(problem), start, problem.code)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::layer::embedded;

    #[test]
    fn the_embedded_policies_are_without_any_problem() {
        let checked = check_sources(&[embedded()]);
        let lines: Vec<_> = checked.problems.iter().map(Problem::one_line).collect();
        assert_eq!(lines, [""; 0]);
        let bundle = checked.bundle.unwrap();
        assert!(bundle.policies.iter().all(|p| p.id.starts_with("default:")));
        assert_eq!(bundle.settings.origins["mode"], "default");
    }
}
