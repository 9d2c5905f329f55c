//! Policies that ask first for a label are left out where it is missing: that changes no decision.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use copilot_bridge::engine::Engine;
use copilot_bridge::engine::action::Action;
use copilot_bridge::engine::bundle::Bundle;
use copilot_bridge::engine::request::{CommandFacts, PathFacts, Request, Resource};
use copilot_bridge::policy::layer::embedded;
use copilot_bridge::policy::load_sources;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::bundles::policy;
use super::cases;
use super::world::request;

/// The shipped policies, and the same without what is known of their labels.
static ENGINES: LazyLock<(Engine, Engine)> = LazyLock::new(|| {
    let bundle = shipped();
    let mut blind = bundle.clone();
    for policy in &mut blind.policies {
        policy.requires.clear();
    }
    assert_ne!(bundle, blind, "no policy asks for a label");
    (Engine::new(bundle), Engine::new(blind))
});

/// The shipped policies with one that looks at the context as a whole, so that Cedar is told everything.
static SEEING: LazyLock<Engine> = LazyLock::new(|| {
    let mut bundle = shipped();
    let all = "forbid(principal, action, resource) when { context == {} };";
    bundle.policies.push(policy("reads-everything", all));
    Engine::new(bundle)
});

fn shipped() -> Bundle {
    load_sources(&[embedded()]).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Every label that a shipped policy asks for.
fn labels() -> Vec<String> {
    let policies = &ENGINES.0.bundle().policies;
    let all = policies
        .iter()
        .flat_map(|policy| policy.requires.iter().cloned());
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_no_policy_asks_for_changes_no_decision(request in request()) {
        let requests = [request];
        let (asked, all) = (ENGINES.0.decide(&requests), SEEING.decide(&requests));
        prop_assert_eq!(asked.decision.effect(), all.decision.effect());
        for ((_, asked), (_, all)) in asked.verdicts.iter().zip(&all.verdicts) {
            let (asked, all) = (asked.as_ref().unwrap(), all.as_ref().unwrap());
            prop_assert_eq!(&asked.held, &all.held);
            prop_assert_eq!(&asked.deciding, &all.deciding);
        }
    }

    #[test]
    fn a_missing_label_changes_no_decision(
        like in request(),
        labels in subsequence(labels(), 0..4),
        command in any::<bool>(),
        certain in any::<bool>(),
        inside in any::<bool>(),
        write in any::<bool>(),
        code in select(vec!["", "judged", "file", "inline", "download"]),
    ) {
        let labels: BTreeSet<String> = labels.into_iter().collect();
        let (action, resource) = if command {
            let facts = CommandFacts {
                program: "x".to_owned(),
                certain,
                code: code.to_owned(),
                labels,
                ..CommandFacts::default()
            };
            (Action::Shell, Resource::Command(facts))
        } else {
            let facts = PathFacts { resolved: "/x".to_owned(), inside, labels, ..PathFacts::default() };
            (if write { Action::Write } else { Action::Read }, Resource::Path(facts))
        };
        let request = Request { action, resource, ..like };
        let (with, without) = (&ENGINES.0, &ENGINES.1);
        let requests = [request];
        prop_assert_eq!(with.decide(&requests).verdicts, without.decide(&requests).verdicts);
    }
}
