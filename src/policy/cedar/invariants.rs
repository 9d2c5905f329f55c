//! What must hold of policies, written as Cedar policies: each one is a claim about all the others.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cedar_policy::{PolicySet, Schema, Validator};
use cedar_policy_core::parser::parse_policyset_to_ests_and_pset;

use super::{encode, from_cedar, nesting, validate};
use crate::engine::bundle::{Policy, Verdict};
use crate::engine::schema::cedar_schema;
use crate::policy::diagnostic::{Code, Problem, alternatives, place, quote, suggest};
use crate::policy::layer::Layer;
use crate::policy::source::{FILE_LIMIT, Source, SourceFile};

/// Something that must hold of policies, whatever is asked.
#[derive(Debug, Clone)]
pub struct Invariant {
    /// `@id`
    pub id: String,
    /// `@reason`, or empty.
    pub reason: String,
    /// What it demands of the calls that it describes.
    pub demand: Demand,
    /// Its file.
    pub file: Arc<SourceFile>,
    /// Where its `@id` stands.
    pub span: Range<usize>,
    /// Which calls it describes.
    pub policy: Policy,
}

/// What an invariant demands of the calls that it describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// `forbid`: they are denied; no person can let them through.
    Denied,
    /// `forbid` with `@decision("ask")`: they are denied, or a person is asked.
    NotAllowed,
    /// `permit`: they are allowed, and nobody is asked.
    Allowed,
    /// `permit` with `@decision("ask")`: they are allowed, or a person is asked.
    NotDenied,
}

impl Demand {
    /// What must become of the calls, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Denied => "must be denied",
            Self::NotAllowed => "must be denied or asked",
            Self::Allowed => "must be allowed",
            Self::NotDenied => "must be allowed or asked",
        }
    }
}

/// The annotations that an invariant may have.
const KEYS: [&str; 3] = ["id", "reason", "decision"];

/// The invariants of a file.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn read(path: &Path) -> Result<Vec<Invariant>, Vec<Problem>> {
    let of = |text: String| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).display().to_string();
        Source::new(Layer::User, dir, [(name.into_owned(), text)])
    };
    let unread = |message: &str| {
        let problem = Problem::error(Code::Unreadable, message);
        let source = of(String::new());
        vec![source.files.iter().fold(problem, Problem::of)]
    };
    let large = std::fs::metadata(path).is_ok_and(|file| file.len() > FILE_LIMIT);
    if large {
        return Err(unread(&format!("it has more than {FILE_LIMIT} bytes")));
    }
    let text = std::fs::read(path)
        .map_err(|error| unread(&format!("cannot be read: {}", error.kind())))?;
    let text = String::from_utf8(text).map_err(|_| unread("the file is not UTF-8"))?;
    parse(&of(text))
}

/// The invariants of texts that are at hand already.
///
/// # Errors
/// Everything that is wrong with them.
pub fn parse(source: &Source) -> Result<Vec<Invariant>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut found: Vec<Invariant> = Vec::new();
    for file in &source.files {
        read_file(file, &mut found, &mut problems);
    }
    if problems.is_empty() && found.is_empty() {
        let problem = Problem::error(Code::MissingPolicies, "there is no invariant in this file")
            .help(
                "write a `forbid` for what must never happen, or a `permit` for what always must",
            );
        problems.extend(source.files.iter().map(|file| problem.clone().of(file)));
    }
    if problems.iter().any(Problem::is_error) {
        return Err(problems);
    }
    Ok(found)
}

fn read_file(file: &Arc<SourceFile>, found: &mut Vec<Invariant>, problems: &mut Vec<Problem>) {
    if let Some(at) = nesting::too_deep(&file.text) {
        let problem = Problem::error(Code::TooDeep, "this expression is nested too deeply");
        return problems.push(problem.at(file, at..at + 1));
    }
    let schema: Schema = match cedar_schema().parse() {
        Ok(schema) => schema,
        Err(error) => {
            let text = format!("the schema of this program is broken: {error}");
            return problems.push(Problem::error(Code::Validation, text));
        }
    };
    let (mut trees, set) = match parse_policyset_to_ests_and_pset(&file.text) {
        Ok((trees, set)) => (trees, PolicySet::from(set)),
        Err(errors) => {
            let errors = errors.iter();
            return problems.extend(errors.map(|e| from_cedar(Code::CedarSyntax, e, file)));
        }
    };
    for template in set.templates() {
        let span = template.as_ref().loc().map(|loc| loc.start()..loc.end());
        let problem = Problem::error(Code::Template, "invariants with slots are not supported");
        problems.push(problem.at(file, span.unwrap_or_default()));
    }
    validate(&set, &Validator::new(schema), file, problems);
    let mut policies: Vec<_> = set.policies().collect();
    policies.sort_by_key(|policy| policy.as_ref().loc().map(|loc| loc.start()));
    for policy in policies {
        let tree = trees.remove(policy.as_ref().id());
        if let Some(new) = invariant(policy, tree, file, problems) {
            if let Some(known) = found.iter().find(|known| known.id == new.id) {
                let line = known.policy.line;
                let text = format!("there is another invariant `{}` in line {line}", new.id);
                let problem = Problem::error(Code::DuplicateId, text);
                problems.push(problem.at(file, new.span.clone()));
                continue;
            }
            found.push(new);
        }
    }
}

fn invariant(
    policy: &cedar_policy::Policy,
    tree: Option<cedar_policy_core::est::Policy>,
    file: &Arc<SourceFile>,
    problems: &mut Vec<Problem>,
) -> Option<Invariant> {
    let ast = policy.as_ref();
    let whole = ast
        .loc()
        .map_or(0..file.text.len(), |loc| loc.start()..loc.end());
    let mut span = whole.clone();
    let (mut id, mut reason, mut ask) = (None, String::new(), false);
    for (key, annotation) in ast.annotations() {
        let at = annotation
            .loc
            .as_ref()
            .map_or(whole.clone(), |loc| loc.start()..loc.end());
        let value = annotation.val.to_string();
        match key.to_string().as_str() {
            "id" => {
                span = at;
                id = Some(value);
            }
            "reason" => reason = value,
            "decision" if value == "ask" => ask = true,
            "decision" => {
                let text = format!("`{}` is no value of `@decision`", quote(&value));
                let problem = Problem::error(Code::BadAnnotation, text).help("it is `ask`");
                problems.push(problem.at(file, at));
            }
            key => {
                let text = format!("`@{}` says nothing about an invariant", quote(key));
                let help =
                    suggest(key, KEYS).unwrap_or_else(|| format!("known: {}", alternatives(KEYS)));
                let problem = Problem::error(Code::UnknownAnnotation, text).help(help);
                problems.push(problem.at(file, at));
            }
        }
    }
    let Some(id) = id.filter(|id| !id.trim().is_empty()) else {
        let text = "the invariant has no `@id`: the name that the answer gives";
        problems.push(Problem::error(Code::MissingAnnotation, text).at(file, whole));
        return None;
    };
    let (body, (actions, resources), references) = match encode(tree) {
        Ok(encoded) => encoded,
        Err(text) => {
            problems.push(Problem::error(Code::CedarSyntax, text).at(file, whole));
            return None;
        }
    };
    let forbid = policy.effect() == cedar_policy::Effect::Forbid;
    let demand = match (forbid, ask) {
        (true, false) => Demand::Denied,
        (true, true) => Demand::NotAllowed,
        (false, false) => Demand::Allowed,
        (false, true) => Demand::NotDenied,
    };
    let policy = Policy {
        id: id.clone(),
        file: file.path.clone(),
        line: place(&file.text, whole.start).0,
        reason: reason.clone(),
        help: String::new(),
        verdict: Verdict::Permit,
        monitor: false,
        approvals: None,
        severity: String::new(),
        waivable: false,
        obligations: Vec::new(),
        actions,
        resources,
        requires: references.requires,
        body,
    };
    Some(Invariant {
        id,
        reason,
        demand,
        file: Arc::clone(file),
        span,
        policy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Invariant>, Vec<String>> {
        let files = [("claims.cedar".to_owned(), text.to_owned())];
        parse(&Source::new(Layer::User, "x", files))
            .map_err(|problems| crate::policy::testing::shown(&problems))
    }

    #[test]
    fn effect_and_annotation_say_what_is_demanded() {
        let all = of("@id(\"a\") forbid(principal, action, resource);\n\
             @id(\"b\") @decision(\"ask\") forbid(principal, action, resource);\n\
             @id(\"c\") @reason(\"r\") permit(principal, action, resource is Bridge::Path);\n\
             @id(\"d\") @decision(\"ask\") permit(principal, action, resource);")
        .unwrap();
        let demands: Vec<_> = all.iter().map(|claim| claim.demand).collect();
        assert_eq!(
            demands,
            [
                Demand::Denied,
                Demand::NotAllowed,
                Demand::Allowed,
                Demand::NotDenied
            ]
        );
        assert_eq!((all[2].reason.as_str(), all[3].policy.line), ("r", 4));
    }

    #[test]
    fn what_is_no_invariant_is_said_with_its_place() {
        let always = "(principal, action, resource);";
        for (text, problem) in [
            (
                format!("forbid{always}"),
                "missing-annotation [forbid(principal, action, resource);] the invariant has no `@id`: the name that the answer gives",
            ),
            (
                format!("@id(\"a\") @decision(\"allow\") forbid{always}"),
                "bad-annotation [@decision(\"allow\")] `allow` is no value of `@decision`",
            ),
            (
                format!("@id(\"a\") @reson(\"x\") forbid{always}"),
                "unknown-annotation [@reson(\"x\")] `@reson` says nothing about an invariant",
            ),
            (
                format!("@id(\"a\") forbid{always}\n@id(\"a\") permit{always}"),
                "duplicate-id [@id(\"a\")] there is another invariant `a` in line 1",
            ),
            (
                "// nothing".to_owned(),
                "missing-policies [?] there is no invariant in this file",
            ),
        ] {
            assert_eq!(of(&text).unwrap_err(), [problem], "{text}");
        }
        let wrong = "@id(\"a\") forbid(principal, action, resource) when { context.dept == 1 };";
        assert!(of(wrong).unwrap_err()[0].starts_with("validation [context.dept]"));
    }
}
