//! Why a policy did not hold: the first part of it that was not met, in Cedar's own words.

use std::sync::Arc;

use cedar_policy::pst::{self, BinaryOp, Clause, Expr};
use cedar_policy::{Decision as CedarDecision, Policy as CedarPolicy, PolicySet};

use super::bundle::{Bundle, Policy};
use super::codec;
use super::permission::{Decoded, EvaluationError, Judge, Question};
use super::request::Request;

/// Whether a policy held, and if not, why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It held.
    Held,
    /// Its scope does not admit the request.
    Scope,
    /// This part of a `when` is false.
    When(String),
    /// This part of an `unless` is true.
    Unless(String),
    /// It cannot be told.
    Unknown(String),
}

/// Why each of those policies held or not.
#[must_use]
pub fn why(bundle: &Bundle, request: &Request, policies: &[usize]) -> Vec<(usize, Why)> {
    super::on_known_stack(|| {
        let decoded = Decoded::default();
        let question = Judge::new(bundle, &decoded)
            .and_then(|judge| judge.question(request, &codec::Reads::all()));
        policies
            .iter()
            .filter_map(|index| Some((*index, bundle.policies.get(*index)?)))
            .map(|(index, policy)| {
                let why = match &question {
                    Ok(question) => explain(policy, question).unwrap_or_else(Why::Unknown),
                    Err(error) => Why::Unknown(error.message.clone()),
                };
                (index, why)
            })
            .collect()
    })
}

/// Policies are called by their index; here there is only one at a time.
const ID: &str = "0";

fn explain(policy: &Policy, question: &Question) -> Result<Why, String> {
    let decoded = codec::Decoder::default()
        .policy(&policy.body, ID)
        .map_err(|error| error.0)?;
    let tree = decoded.to_pst().map_err(|error| error.to_string())?;
    let body = tree.body();
    let bare = pst::Template::new(
        ID,
        pst::Effect::Permit,
        body.principal.clone(),
        body.action.clone(),
        body.resource.clone(),
    );
    if !holds(bare, question)? {
        return Ok(Why::Scope);
    }
    for clause in body.clauses() {
        match clause {
            Clause::When(expr) => {
                for part in split(expr, BinaryOp::And) {
                    if !is_true(&part, question)? {
                        return Ok(Why::When(part.to_string()));
                    }
                }
            }
            Clause::Unless(expr) => {
                for part in split(expr, BinaryOp::Or) {
                    if is_true(&part, question)? {
                        return Ok(Why::Unless(part.to_string()));
                    }
                }
            }
        }
    }
    Ok(Why::Held)
}

/// The operands of a chain of one operator.
fn split(expr: &Arc<Expr>, operator: BinaryOp) -> Vec<Arc<Expr>> {
    match expr.as_ref() {
        Expr::BinaryOp { op, left, right } if *op == operator => {
            let mut parts = split(left, operator);
            parts.extend(split(right, operator));
            parts
        }
        _ => vec![Arc::clone(expr)],
    }
}

fn is_true(expr: &Arc<Expr>, question: &Question) -> Result<bool, String> {
    let template = pst::Template::new(
        ID,
        pst::Effect::Permit,
        pst::PrincipalConstraint::Any,
        pst::ActionConstraint::Any,
        pst::ResourceConstraint::Any,
    )
    .try_with_clauses([Clause::When(Arc::clone(expr))])
    .map_err(|error| error.to_string())?;
    holds(template, question)
}

fn holds(template: pst::Template, question: &Question) -> Result<bool, String> {
    let policy = pst::StaticPolicy::try_from(template).map_err(|error| error.to_string())?;
    let policy =
        CedarPolicy::from_pst(pst::Policy::Static(policy)).map_err(|error| error.to_string())?;
    let set = PolicySet::from_policies([policy]).map_err(|error| error.to_string())?;
    super::permission::ask(&set, question)
        .map(|(decision, _)| decision == CedarDecision::Allow)
        .map_err(|error: EvaluationError| error.message)
}
