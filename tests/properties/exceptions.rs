//! An exception takes out what it names, where it fits and while it lasts, and nothing else.

use std::time::Duration;

use copilot_bridge::engine::Judgement;
use copilot_bridge::engine::action::Action;
use copilot_bridge::engine::bundle::{Bundle, Mode, Verdict};
use copilot_bridge::engine::containment::Places;
use copilot_bridge::engine::decision::Effect;
use copilot_bridge::engine::exception::{Exception, Scope};
use copilot_bridge::engine::request::Request;
use copilot_bridge::engine::{Engine, describe};
use copilot_bridge::gate::Gate;
use copilot_bridge::gate::event::{Body, Capabilities, Event, EventName, ToolCall};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::bundles;
use super::cases;
use super::model::{Rule, bundle, changes_guard};
use super::world::{mode, request, requests, rule, rules};

/// Policies by number and a scope by session and action; nothing for all of them.
#[derive(Debug, Clone)]
struct Part {
    policies: Vec<usize>,
    session: Option<&'static str>,
    action: Option<Action>,
}

impl Part {
    fn fits(&self, request: &Request) -> bool {
        self.session
            .is_none_or(|session| request.principal.session == session)
            && self.action.is_none_or(|action| request.action == action)
    }

    fn exception(&self, index: usize) -> Exception {
        Exception {
            id: format!("e{index}"),
            file: "exceptions.toml".to_owned(),
            line: 1,
            policies: self
                .policies
                .iter()
                .map(|index| format!("p{index}"))
                .collect(),
            reason: "a trial".to_owned(),
            owner: "a team".to_owned(),
            expires: i64::MAX,
            scope: Scope {
                sessions: self.session.map(str::to_owned).into_iter().collect(),
                actions: self.action.into_iter().collect(),
                ..Scope::default()
            },
        }
    }
}

fn part() -> impl Strategy<Value = Part> {
    let actions = [Action::Read, Action::Write, Action::Shell, Action::Prompt];
    (
        subsequence((0..7).collect::<Vec<usize>>(), 1..5),
        proptest::option::of(select(&["s0", "s1"][..])),
        proptest::option::of(select(actions.to_vec())),
    )
        .prop_map(|(policies, session, action)| Part {
            policies,
            session,
            action,
        })
}

fn with(rules: &[Rule], mode: Mode, parts: &[Part]) -> Bundle {
    let mut bundle = bundle(rules, mode);
    let parts = parts.iter().enumerate();
    bundle.settings.exceptions = parts.map(|(index, part)| part.exception(index)).collect();
    bundle
}

/// Judged with every exception in force.
fn decide(bundle: &Bundle, requests: &[Request]) -> Judgement {
    let engine = Engine::new(bundle.clone());
    let judgement = engine.decide(requests);
    let waivers = engine.waivers(&judgement, &Places::default());
    engine.waive(judgement, &waivers)
}

fn plain(bundle: &Bundle, requests: &[Request]) -> Judgement {
    Engine::new(bundle.clone()).decide(requests)
}

/// The answer as the design has it: the policies that an exception names and that fits are not there.
fn expected(rules: &[Rule], mode: Mode, parts: &[Part], requests: &[Request]) -> Effect {
    if plain(&bundle(rules, mode), requests)
        .verdicts
        .iter()
        .any(|(_, judged)| judged.is_err())
    {
        return Effect::Deny;
    }
    let one = |request: &Request| {
        let kept = rules.iter().enumerate().filter(|(index, rule)| {
            let named = |part: &Part| part.policies.contains(index) && part.fits(request);
            rule.verdict == Verdict::Permit || changes_guard(request) || !parts.iter().any(named)
        });
        let kept: Vec<Rule> = kept.map(|(_, rule)| rule.clone()).collect();
        plain(&bundle(&kept, mode), std::slice::from_ref(request))
            .decision
            .effect()
    };
    requests.iter().map(one).max().unwrap_or(Effect::Deny)
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn an_exception_is_as_if_its_policies_were_not_there(
        rules in rules(), mode in mode(), requests in requests(),
        parts in proptest::collection::vec(part(), 1..3),
    ) {
        let bundle = with(&rules, mode, &parts);
        let judgement = decide(&bundle, &requests);
        prop_assert_eq!(judgement.decision.effect(), expected(&rules, mode, &parts, &requests));
        let before = plain(&bundle, &requests);
        prop_assert!(judgement.decision.effect() <= before.decision.effect());
        prop_assert_eq!(judgement.would_decide, before.would_decide, "it hides what would be");
        if judgement.decision.effect() < before.decision.effect() {
            prop_assert!(!judgement.exceptions.is_empty(), "nobody is told why");
        }
        for used in &judgement.exceptions {
            let part = &parts[used.exception];
            prop_assert!(requests.iter().any(|request| part.fits(request) && !changes_guard(request)));
            prop_assert!(used.policies.iter().all(|policy| part.policies.contains(policy)));
            prop_assert!(used.policies.iter().all(|policy| rules[*policy].verdict != Verdict::Permit));
        }
    }

    #[test]
    fn an_exception_loosens_nothing_out_of_its_scope(
        rules in rules(), mode in mode(), requests in requests(), part in part(),
    ) {
        let outside: Vec<Request> = requests
            .into_iter()
            .filter(|request| !part.fits(request) || changes_guard(request))
            .collect();
        let bundle = with(&rules, mode, &[part]);
        let (after, before) = (decide(&bundle, &outside), plain(&bundle, &outside));
        prop_assert_eq!(after.decision.effect(), before.decision.effect());
        prop_assert_eq!(after.decision.reasons(), before.decision.reasons());
        prop_assert!(after.exceptions.is_empty());
    }

    #[test]
    fn a_further_forbid_never_loosens_beside_exceptions(
        rules in rules(), mode in mode(), requests in requests(), forbid in rule(),
        parts in proptest::collection::vec(part(), 1..3),
    ) {
        prop_assume!(forbid.verdict != Verdict::Permit);
        let before = decide(&with(&rules, mode, &parts), &requests);
        let mut more = rules;
        more.push(forbid);
        let after = decide(&with(&more, mode, &parts), &requests);
        prop_assert!(after.decision.effect() >= before.decision.effect());
    }

    #[test]
    fn what_nothing_permits_has_no_exception(
        rules in rules(), like in request(), parts in proptest::collection::vec(part(), 1..3),
    ) {
        let forbids: Vec<Rule> = rules
            .into_iter()
            .filter(|rule| rule.verdict != Verdict::Permit)
            .collect();
        let judgement = decide(&with(&forbids, Mode::Enforce, &parts), std::slice::from_ref(&like));
        prop_assert_eq!(judgement.decision.effect(), Effect::Deny, "{}", describe(&like));
    }
}

/// A gate that forbids every write, but for an exception that ends at that time.
fn gate(expires: i64, aside: &std::path::Path) -> Gate {
    let mut bundle = bundles::lenient();
    bundle.policies.push(bundles::policy(
        "p0",
        "forbid(principal, action, resource);",
    ));
    let part = Part {
        policies: vec![0],
        session: Some("s0"),
        action: None,
    };
    bundle.settings.exceptions = vec![Exception {
        expires,
        ..part.exception(0)
    }];
    bundles::gate(Ok(bundle), None, aside)
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn an_expired_exception_changes_nothing(seconds in -1_000_000_000_i64..1_000_000_000) {
        prop_assume!(seconds.abs() > 3600);
        let folder = tempfile::tempdir().unwrap();
        let event = Event {
            name: EventName::PreToolUse,
            dialect: "copilot",
            call: None,
            agent: copilot_bridge::engine::request::Agent {
                host: "copilot".to_owned(),
                session: "s0".to_owned(),
                ..Default::default()
            },
            agent_id: None,
            cwd: Some(folder.path().to_string_lossy().into_owned()),
            host: Capabilities { interactive: "unknown", replaces_results: true, replaces_prompts: true },
            body: Body::Call(ToolCall { name: "report_intent".to_owned(), args: json!({}) }),
            served: None,
        };
        let expires = Timestamp::now().as_second() + seconds;
        let passage = gate(expires, folder.path()).walk(&event, Duration::ZERO);
        let wanted = if seconds > 0 { Effect::Allow } else { Effect::Deny };
        prop_assert_eq!(passage.outcome.effect(), wanted);
        let lapsed = passage.judgement.map_or(0, |trace| trace.lapsed.len());
        prop_assert_eq!(lapsed, usize::from(seconds < 0));
    }
}
