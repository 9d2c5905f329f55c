//! `Engine::decide` is what the design defines, and no addition loosens it.

use std::collections::BTreeSet;

use copilot_bridge::engine::bundle::{Bundle, Mode, Verdict};
use copilot_bridge::engine::decision::{Decision, Effect, FaultClass, Obligation};
use copilot_bridge::engine::request::{PathFacts, Request, Resource};
use copilot_bridge::engine::{Engine, Judgement, REQUEST_LIMIT};
use proptest::prelude::*;

use super::cases;
use super::model::{Expected, bundle, expected, labelled_guard};
use super::world::{mode, request, requests, rule, rules};

fn decide(bundle: &Bundle, requests: &[Request]) -> Judgement {
    Engine::new(bundle.clone()).decide(requests)
}

fn obligations(decision: &Decision) -> BTreeSet<Obligation> {
    match decision {
        Decision::Allow(permit) => permit.obligations().iter().copied().collect(),
        Decision::Ask(pending) => pending.obligations().iter().copied().collect(),
        Decision::Deny(_) => BTreeSet::new(),
    }
}

fn is_as(judgement: &Judgement, expected: &Expected) -> Result<(), TestCaseError> {
    let decision = &judgement.decision;
    prop_assert_eq!(decision.effect(), expected.effect);
    prop_assert_eq!(judgement.would_decide, expected.would);
    prop_assert_eq!(obligations(decision), expected.obligations.clone());
    let fault = match decision {
        Decision::Deny(denial) => denial.fault(),
        _ => None,
    };
    prop_assert_eq!(fault, expected.fault.then_some(FaultClass::EvaluationError));
    if let Some(reasons) = &expected.reasons {
        let found: BTreeSet<_> = decision
            .reasons()
            .iter()
            .map(|reason| (reason.id.clone(), reason.fact.clone()))
            .collect();
        prop_assert_eq!(&found, reasons);
    }
    Ok(())
}

fn effect(bundle: &Bundle, requests: &[Request]) -> Effect {
    decide(bundle, requests).decision.effect()
}

proptest! {
    #![proptest_config(cases(160))]

    #[test]
    fn the_decision_is_the_designs(rules in rules(), requests in requests(), mode in mode()) {
        let judgement = decide(&bundle(&rules, mode), &requests);
        is_as(&judgement, &expected(&rules, mode, &requests))?;
        let distinct: BTreeSet<String> =
            judgement.verdicts.iter().map(|(request, _)| format!("{request:?}")).collect();
        prop_assert_eq!(distinct.len(), judgement.verdicts.len(), "judged twice");
    }

    #[test]
    fn what_is_enforced_is_never_looser_than_what_would_be(
        rules in rules(), requests in requests(), mode in mode(),
    ) {
        let judgement = decide(&bundle(&rules, mode), &requests);
        prop_assert!(judgement.would_decide >= judgement.decision.effect());
    }
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn a_further_forbid_never_loosens(
        rules in rules(), requests in requests(), mode in mode(), forbid in rule(), at in 0..8usize,
    ) {
        prop_assume!(forbid.verdict != Verdict::Permit);
        let before = decide(&bundle(&rules, mode), &requests);
        let mut more = rules;
        more.insert(at.min(more.len()), forbid.clone());
        let after = decide(&bundle(&more, mode), &requests);
        prop_assert!(after.decision.effect() >= before.decision.effect());
        prop_assert!(after.would_decide >= before.would_decide);
        let errs = requests.iter().any(|request| forbid.holds(request).is_none());
        if forbid.monitor && !errs && !requests.iter().any(labelled_guard) {
            // What is only watched decides nothing.
            prop_assert_eq!(after.decision.effect(), before.decision.effect());
        }
    }

    #[test]
    fn a_further_permit_only_tightens_by_an_error(
        rules in rules(), requests in requests(), mode in mode(), permit in rule(), at in 0..8usize,
    ) {
        prop_assume!(permit.verdict == Verdict::Permit);
        let before = decide(&bundle(&rules, mode), &requests);
        let mut more = rules;
        more.insert(at.min(more.len()), permit.clone());
        let after = decide(&bundle(&more, mode), &requests);
        if requests.iter().any(|request| permit.holds(request).is_none()) {
            prop_assert_eq!(after.decision.effect(), Effect::Deny);
        } else {
            prop_assert!(after.decision.effect() <= before.decision.effect());
            prop_assert!(after.would_decide <= before.would_decide);
        }
    }

    #[test]
    fn a_further_request_never_loosens(
        rules in rules(), requests in requests(), mode in mode(), further in request(), at in 0..8usize,
    ) {
        let bundle = bundle(&rules, mode);
        let before = decide(&bundle, &requests);
        let mut more = requests;
        more.insert(at.min(more.len()), further);
        let after = decide(&bundle, &more);
        prop_assert!(after.decision.effect() >= before.decision.effect());
        prop_assert!(after.would_decide >= before.would_decide);
    }

    #[test]
    fn order_decides_nothing(
        (rules, requests, shuffled_rules, shuffled_requests) in (rules(), requests())
            .prop_flat_map(|(rules, requests)| (
                Just(rules.clone()), Just(requests.clone()),
                Just(rules).prop_shuffle(), Just(requests).prop_shuffle(),
            )),
        mode in mode(),
    ) {
        let one = decide(&bundle(&rules, mode), &requests);
        let other = decide(&bundle(&shuffled_rules, mode), &shuffled_requests);
        prop_assert_eq!(one.decision.effect(), other.decision.effect());
        prop_assert_eq!(one.would_decide, other.would_decide);
        prop_assert_eq!(obligations(&one.decision), obligations(&other.decision));
    }
}

/// As many different requests, each a path of its own, all in the same circumstances.
fn many(count: usize, odd: usize, like: &Request) -> Vec<Request> {
    (0..count)
        .map(|index| Request {
            resource: Resource::Path(PathFacts {
                given: format!("/w/{index}"),
                resolved: format!("/w/{index}"),
                inside: index != odd,
                ..PathFacts::default()
            }),
            ..like.clone()
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn too_many_requests_are_at_least_a_question(
        rules in rules(), like in request(), mode in mode(), odd in 0..160usize,
        count in REQUEST_LIMIT - 3..REQUEST_LIMIT + 6, again in any::<bool>(),
    ) {
        let mut requests = many(count, odd, &like);
        if again {
            // Equal ones are judged once, so they do not count.
            requests.extend(requests.clone());
        }
        let judgement = decide(&bundle(&rules, mode), &requests);
        is_as(&judgement, &expected(&rules, mode, &requests))?;
    }
}

#[test]
fn what_is_hidden_behind_many_requests_is_still_denied() {
    let policies = vec![
        super::bundles::policy("all", "permit(principal, action, resource);"),
        super::bundles::policy(
            "outside",
            "forbid(principal, action, resource is Bridge::Path) unless { resource.inside };",
        ),
    ];
    let bundle = super::bundles::bundle(policies);
    let like = Request {
        principal: Default::default(),
        action: copilot_bridge::engine::action::Action::Write,
        resource: Resource::Path(PathFacts::default()),
        context: Default::default(),
    };
    for odd in [0, REQUEST_LIMIT - 1, REQUEST_LIMIT, REQUEST_LIMIT + 70] {
        let requests = many(REQUEST_LIMIT + 72, odd, &like);
        assert_eq!(effect(&bundle, &requests), Effect::Deny, "{odd}");
    }
    assert_eq!(
        effect(&bundle, &many(REQUEST_LIMIT, 999, &like)),
        Effect::Allow
    );
    assert_eq!(
        effect(&bundle, &many(REQUEST_LIMIT + 1, 999, &like)),
        Effect::Ask
    );
}

#[test]
fn an_event_that_asks_for_nothing_is_denied() {
    for mode in [Mode::Enforce, Mode::Monitor] {
        let mut bundle = super::bundles::lenient();
        bundle.settings.mode = mode;
        assert_eq!(effect(&bundle, &[]), Effect::Deny);
    }
}
