//! The Cedar files of all layers: parsed, validated, and each policy made plain data.

pub mod annotations;
pub mod invariants;
mod nesting;
mod references;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use cedar_policy::{PolicySet, Schema, ValidationMode, Validator, pst};
use cedar_policy_core::est;
use cedar_policy_core::parser::parse_policyset_to_ests_and_pset;
use miette::Diagnostic;

use super::diagnostic::{Code, Problem, quote};
use super::source::{Source, SourceFile};
use crate::engine::action::{Action, ActionSet};
use crate::engine::approver::Approvers;
use crate::engine::bundle::{Policy, Verdict};
use crate::engine::codec;
use crate::engine::containment::{FOUND, GUARD};
use crate::engine::request::{NAMESPACE, ResourceSet, ResourceType};
use crate::engine::schema::cedar_schema;
use annotations::Head;
pub(super) use references::References;
pub use references::labels;

/// A policy, where it stands, and what it names.
pub(super) struct Located {
    /// The policy.
    pub(super) policy: Policy,
    /// Its file.
    pub(super) file: Arc<SourceFile>,
    /// Its place in the file.
    pub(super) span: Range<usize>,
    /// Where its `@approvals` stands.
    pub(super) demands: Option<Range<usize>>,
    /// The labels and patterns that it names.
    pub(super) references: References,
    /// As it was written.
    pub(super) written: Written,
}

/// A policy as its author wrote it, for those who look at the text.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its file.
    pub file: Arc<SourceFile>,
    /// The whole policy, in bytes of the file.
    pub span: Range<usize>,
    /// Its annotations, with their places.
    pub annotations: BTreeMap<String, (String, Range<usize>)>,
    /// What was parsed of it, with places.
    pub tree: cedar_policy_core::ast::Policy,
}

impl Written {
    /// Where that annotation stands, or the policy.
    #[must_use]
    pub fn place(&self, key: &str) -> Range<usize> {
        let annotation = self.annotations.get(key);
        annotation.map_or_else(|| self.span.clone(), |(_, span)| span.clone())
    }
}

/// The policies of all layers, the base first, and what is wrong with them.
pub(super) fn load(sources: &[Source], problems: &mut Vec<Problem>) -> Vec<Located> {
    let schema: Schema = match cedar_schema().parse() {
        Ok(schema) => schema,
        Err(error) => {
            let text = format!("the schema of this program is broken: {error}");
            problems.push(Problem::error(Code::Validation, text));
            return Vec::new();
        }
    };
    let validator = Validator::new(schema);
    let mut all: Vec<Located> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let before = all.len();
        for file in &source.files {
            if file.name.ends_with(".cedar") {
                let base = index == 0;
                for located in read(file, base, &validator, problems) {
                    add(&mut all, located, problems);
                }
            }
        }
        let broken = problems.iter().any(Problem::is_error);
        if index == 0 && all.len() == before && !broken {
            problems.push(empty(source));
        }
    }
    all
}

fn add(all: &mut Vec<Located>, located: Located, problems: &mut Vec<Problem>) {
    let earlier = all
        .iter()
        .find(|known| known.policy.id == located.policy.id);
    if let Some(earlier) = earlier {
        let id = &located.policy.id;
        let id = id.split_once(':').map_or(id.as_str(), |(_, id)| id);
        let (file, line) = (&earlier.policy.file, earlier.policy.line);
        let problem = Problem::error(
            Code::DuplicateId,
            format!("there is another policy `{id}` in {file}:{line}"),
        );
        problems.push(problem.at(&located.file, located.span));
        return;
    }
    all.push(located);
}

fn empty(source: &Source) -> Problem {
    let dir = SourceFile::unread(source.layer, source.dir.as_ref());
    Problem::error(
        Code::MissingPolicies,
        "there is no policy in this directory",
    )
    .of(&dir)
    .help("run `copilot-bridge init` to write the default policies")
}

/// The policies of one file.
fn read(
    file: &Arc<SourceFile>,
    base: bool,
    validator: &Validator,
    problems: &mut Vec<Problem>,
) -> Vec<Located> {
    if let Some(at) = nesting::too_deep(&file.text) {
        let problem = Problem::error(
            Code::TooDeep,
            format!(
                "this expression goes more than {} levels deep",
                nesting::LIMIT
            ),
        )
        .help("split the policy, or use `[…].contains(…)`");
        problems.push(problem.at(file, at..at + 1));
        return Vec::new();
    }
    // Parsed once, to both forms: `cedar_policy` would parse each policy again for its tree.
    let (mut trees, set) = match parse_policyset_to_ests_and_pset(&file.text) {
        Ok((trees, set)) => (trees, PolicySet::from(set)),
        Err(errors) => {
            problems.extend(
                errors
                    .iter()
                    .map(|error| from_cedar(Code::CedarSyntax, error, file)),
            );
            return Vec::new();
        }
    };
    for template in set.templates() {
        let span = template.as_ref().loc().map(|loc| loc.start()..loc.end());
        let problem = Problem::error(Code::Template, "policies with slots are not supported")
            .help("write the entity itself instead of `?principal` or `?resource`");
        problems.push(problem.at(file, span.unwrap_or_default()));
    }
    validate(&set, validator, file, problems);
    let mut policies: Vec<_> = set.policies().collect();
    policies.sort_by_key(|policy| policy.as_ref().loc().map(|loc| loc.start()));
    policies
        .into_iter()
        .filter_map(|policy| {
            let tree = trees.remove(policy.as_ref().id());
            policy_of(policy, tree, file, base, problems)
        })
        .collect()
}

fn policy_of(
    policy: &cedar_policy::Policy,
    tree: Option<est::Policy>,
    file: &Arc<SourceFile>,
    base: bool,
    problems: &mut Vec<Problem>,
) -> Option<Located> {
    let ast = policy.as_ref();
    let span = ast
        .loc()
        .map_or(0..file.text.len(), |loc| loc.start()..loc.end());
    let forbid = policy.effect() == cedar_policy::Effect::Forbid;
    let head = Head {
        file,
        base,
        forbid,
        span: span.clone(),
        annotations: ast
            .annotations()
            .map(|(key, annotation)| {
                let at = annotation
                    .loc
                    .as_ref()
                    .map_or(span.clone(), |loc| loc.start()..loc.end());
                (key.to_string(), (annotation.val.to_string(), at))
            })
            .collect::<BTreeMap<_, _>>(),
    };
    if !base && !forbid {
        let problem = Problem::error(
            Code::Loosens,
            "a layer below the base may forbid, but not permit",
        );
        problems.push(problem.at(file, span.clone()));
    }
    let read = head.read(problems)?;
    let (body, scope, references) = match encode(tree) {
        Ok(encoded) => encoded,
        Err(text) => {
            problems.push(Problem::error(Code::CedarSyntax, text).at(file, span));
            return None;
        }
    };
    let verdict = match (forbid, read.ask) {
        (false, _) => Verdict::Permit,
        (true, true) => Verdict::Ask,
        (true, false) => Verdict::Forbid,
    };
    let of_guard = !references.requires.is_empty()
        && references.requires.iter().all(|label| label == GUARD)
        && !scope.0.contains(Action::Read);
    if read.monitor && of_guard {
        let problem = Problem::warning(
            Code::NoEffect,
            "what protects the bridge is never merely watched: this policy binds all the same",
        );
        problems.push(problem.at(file, head.span_of("mode")));
    }
    let policy = Policy {
        id: format!("{}:{}", file.layer, read.id),
        file: file.path.clone(),
        line: super::diagnostic::place(&file.text, span.start).0,
        reason: read.reason,
        help: read.help,
        verdict,
        monitor: read.monitor,
        severity: read.severity,
        waivable: read.waivable,
        approvals: read.approvals,
        obligations: read.obligations,
        actions: scope.0,
        resources: scope.1,
        requires: references.requires.clone(),
        body,
    };
    Some(Located {
        policy,
        file: Arc::clone(file),
        span: head.span_of("id"),
        demands: head
            .annotations
            .get("approvals")
            .map(|(_, span)| span.clone()),
        references,
        written: Written {
            file: Arc::clone(file),
            span,
            annotations: head.annotations,
            tree: ast.clone(),
        },
    })
}

type Encoded = (Vec<u8>, (ActionSet, ResourceSet), References);

fn encode(tree: Option<est::Policy>) -> Result<Encoded, String> {
    let tree = tree.ok_or("this policy was lost while it was read")?;
    let template = pst::Template::try_from(tree).map_err(|error| error.to_string())?;
    let body = codec::encode(&template).map_err(|error| error.0)?;
    let scope = (actions(&template.action), resources(&template.resource));
    Ok((body, scope, references::of(template.clauses())))
}

/// The actions that a scope admits. What is not understood admits all, which only costs time.
fn actions(constraint: &pst::ActionConstraint) -> ActionSet {
    let one = |uid: &pst::EntityUID| match uid.eid.as_str() {
        Action::TOOL_USE => ActionSet::tool_use(),
        name => {
            Action::from_name(name).map_or(ActionSet::EVERY, |action| ActionSet::NONE.with(action))
        }
    };
    match constraint {
        pst::ActionConstraint::Any => ActionSet::EVERY,
        pst::ActionConstraint::Eq(uid) => one(uid),
        pst::ActionConstraint::In(all) => {
            all.iter().map(one).fold(ActionSet::NONE, ActionSet::union)
        }
    }
}

/// The resource types that a scope admits, likewise.
fn resources(constraint: &pst::ResourceConstraint) -> ResourceSet {
    let only = |ty: &pst::EntityType| {
        let name = ty.0.to_string();
        ResourceType::ALL
            .into_iter()
            .find(|kind| name == format!("{NAMESPACE}::{}", kind.name()))
            .map_or(ResourceSet::EVERY, ResourceSet::only)
    };
    match constraint {
        pst::ResourceConstraint::Is(ty) | pst::ResourceConstraint::IsIn(ty, _) => only(ty),
        pst::ResourceConstraint::Eq(pst::EntityOrSlot::Entity(uid)) => only(&uid.ty),
        _ => ResourceSet::EVERY,
    }
}

fn validate(
    set: &PolicySet,
    validator: &Validator,
    file: &Arc<SourceFile>,
    problems: &mut Vec<Problem>,
) {
    let result = validator.validate(set, ValidationMode::Strict);
    let mut errors: Vec<Problem> = result
        .validation_errors()
        .map(|error| from_cedar(Code::Validation, error, file))
        .collect();
    // Cedar's own order differs from run to run.
    errors.sort_by(|a, b| a.message.cmp(&b.message));
    let mut found: Vec<Problem> = Vec::new();
    for problem in errors {
        // Cedar repeats itself for every type of resource. Its hints then contradict each other.
        match found.iter_mut().find(|known| known.span == problem.span) {
            Some(known) if known.help != problem.help => known.help = None,
            Some(_) => {}
            None => found.push(problem),
        }
    }
    if found.is_empty() {
        for warning in result.validation_warnings() {
            let mut problem = from_cedar(Code::ImpossiblePolicy, warning, file);
            problem.severity = super::diagnostic::Severity::Warning;
            if !found.iter().any(|known| known.span == problem.span) {
                found.push(problem);
            }
        }
    }
    problems.append(&mut found);
}

fn from_cedar(code: Code, error: &dyn Diagnostic, file: &Arc<SourceFile>) -> Problem {
    let label = error.labels().and_then(|mut labels| labels.next());
    let hint = label
        .as_ref()
        .and_then(|label| label.label())
        .map(str::to_owned)
        .or_else(|| error.help().map(|help| help.to_string()));
    let mut problem = Problem::error(code, without_policy(&error.to_string()));
    if let Some(hint) = hint {
        problem = problem.help(without_policy(&hint));
    }
    match label {
        Some(label) => problem.at(file, label.offset()..label.offset() + label.len()),
        None => problem.of(file),
    }
}

/// Cedar's sentence without what the place says better: the policy, and one action of many.
fn without_policy(sentence: &str) -> String {
    let sentence = sentence
        .strip_prefix("for policy `")
        .and_then(|rest| rest.split_once("`, "))
        .map_or(sentence, |(_, rest)| rest);
    match sentence.split_once(" in context for ") {
        Some((start, rest)) => match rest.split_once(' ') {
            Some((_, end)) => format!("{start} in the context {end}"),
            None => sentence.to_owned(),
        },
        None => sentence.to_owned(),
    }
}

/// Warnings about labels and patterns that no file gives a meaning.
pub(super) fn check_references(
    policies: &[Located],
    settings: &crate::engine::bundle::Settings,
    files: &[Source],
    problems: &mut Vec<Problem>,
) {
    let containment = &settings.containment;
    let is_label = |name: &String| {
        FOUND.contains(&name.as_str())
            || containment.labels.iter().any(|label| label.name == *name)
            || containment
                .programs
                .all()
                .any(|entry| entry.is_ok_and(|entry| entry.labels.contains(name)))
            || containment
                .variables
                .iter()
                .any(|entry| entry.labels.contains(name) || entry.used.contains(name))
            || containment
                .leading
                .iter()
                .any(|entry| entry.labels.contains(name))
    };
    for located in policies {
        let labels = located.references.labels.iter();
        let unknown_labels = labels
            .filter(|name| !is_label(name))
            .map(|name| (Code::UndefinedLabel, "no file gives the label", name));
        let patterns = located.references.patterns.iter();
        let unknown_patterns = patterns
            .filter(|name| !settings.patterns.iter().any(|known| known.id == **name))
            .map(|name| (Code::UndefinedPattern, "no file defines the pattern", name));
        let is_signal = |name: &String| settings.injection.knows(name);
        let signals = located.references.signals.iter();
        let unknown_signals = signals
            .filter(|name| !is_signal(name))
            .map(|name| (Code::UndefinedPattern, "no file defines the signal", name));
        let unknown = unknown_labels.chain(unknown_patterns);
        for (code, text, name) in unknown.chain(unknown_signals) {
            let problem = Problem::warning(code, format!("{text} `{}`", quote(name)));
            let at = literal(&located.file, &located.span, name);
            problems.push(problem.at(&located.file, at));
        }
    }
    for pattern in &settings.patterns {
        let named = |located: &Located| located.references.patterns.contains(&pattern.id);
        if policies.iter().any(named) {
            continue;
        }
        let text = format!("no policy names the pattern `{}`", quote(&pattern.id));
        let problem = Problem::warning(Code::UnusedPattern, text);
        let file = files
            .iter()
            .flat_map(|source| &source.files)
            .find(|file| file.name == "permission.toml" && file.text.contains(&pattern.id));
        problems.push(match file {
            Some(file) => problem.at(file, literal(file, &(0..0), &pattern.id)),
            None => problem,
        });
    }
}

/// Warnings about approvals that nobody can give: what asks for them is a denial.
pub(super) fn check_approvals(
    policies: &[Located],
    approvers: &Approvers,
    problems: &mut Vec<Problem>,
) {
    for located in policies {
        if let (Some(demand), Some(span)) = (&located.policy.approvals, &located.demands)
            && !approvers.can_meet(demand)
        {
            let problem = Problem::warning(
                Code::Unapprovable,
                "nobody can give these approvals, so what this policy asks about is denied",
            );
            let help =
                "`approvers.toml` of the base layer names people, their keys and their groups";
            problems.push(problem.help(help).at(&located.file, span.clone()));
        }
    }
}

/// The first text `"name"` behind a place.
fn literal(file: &SourceFile, behind: &Range<usize>, name: &str) -> Range<usize> {
    file.text
        .get(behind.end..)
        .and_then(|rest| rest.find(&format!("\"{name}\"")))
        .map_or_else(
            || behind.clone(),
            |at| behind.end + at..behind.end + at + name.len() + 2,
        )
}

#[cfg(test)]
mod tests;
