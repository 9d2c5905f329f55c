//! Random rules and requests out of a small world, so that they have to do with each other.

use copilot_bridge::engine::action::Action;
use copilot_bridge::engine::bundle::{Mode, Verdict};
use copilot_bridge::engine::request::{
    Agent, CommandFacts, Context, PathFacts, Request, Resource, ResourceType, ToolFacts,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::model::{Condition, Rule, What, Which, Who};

const LABELS: [&str; 2] = ["guard", "secret"];
const PATTERNS: [&str; 2] = ["rm", "drop"];
const OPERATIONS: [&str; 3] = ["", "read", "create"];
const SESSIONS: [&str; 2] = ["s0", "s1"];
const NAMES: [&str; 3] = ["/w/a", "/w/b", "ls"];
const ACTIONS: [Action; 4] = [Action::Read, Action::Write, Action::Shell, Action::Prompt];
const TYPES: [ResourceType; 3] = [
    ResourceType::Path,
    ResourceType::Command,
    ResourceType::Tool,
];

fn condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        2 => any::<bool>().prop_map(Condition::Constant),
        4 => Just(Condition::Inside),
        4 => select(&LABELS[..]).prop_map(Condition::Label),
        3 => (0..3u32).prop_map(Condition::Deeper),
        1 => Just(Condition::Overflow),
        1 => Just(Condition::Parent),
        2 => Just(Condition::HasParent),
        3 => select(&PATTERNS[..]).prop_map(Condition::Pattern),
        3 => select(&OPERATIONS[..]).prop_map(Condition::Operation),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed().prop_map(Condition::Not),
            (boxed(), boxed()).prop_map(|(l, r)| Condition::And(l, r)),
            (boxed(), boxed()).prop_map(|(l, r)| Condition::Or(l, r)),
            (boxed(), boxed(), boxed()).prop_map(|(c, t, e)| Condition::If(c, t, e)),
        ]
    })
}

/// A rule of any verdict. Most name the type of resource, so that not everything is an error.
pub(super) fn rule() -> impl Strategy<Value = Rule> {
    let verdict = prop_oneof![
        3 => Just((Verdict::Permit, false)),
        2 => Just((Verdict::Forbid, false)),
        2 => Just((Verdict::Ask, false)),
        1 => Just((Verdict::Forbid, true)),
        1 => Just((Verdict::Ask, true)),
    ];
    let who = prop_oneof![
        3 => Just(Who::Any),
        1 => Just(Who::Agent),
        1 => select(&SESSIONS[..]).prop_map(Who::Session),
    ];
    let action = || select(&ACTIONS[..]);
    let what = prop_oneof![
        3 => Just(What::Any),
        2 => action().prop_map(What::One),
        1 => (action(), action()).prop_map(|(one, other)| What::Either(one, other)),
        1 => Just(What::ToolUse),
    ];
    let which = prop_oneof![
        1 => Just(Which::Any),
        5 => select(&TYPES[..]).prop_map(Which::Type),
        1 => (select(&TYPES[..]), select(&NAMES[..])).prop_map(|(ty, id)| Which::One(ty, id)),
    ];
    (
        verdict,
        any::<(bool, bool)>(),
        (who, what, which),
        condition(),
        proptest::option::weighted(0.3, condition()),
    )
        .prop_map(
            |((verdict, monitor), (sync, sliced), (who, what, which), when, unless)| Rule {
                verdict,
                monitor,
                sync: sync && verdict == Verdict::Permit,
                sliced,
                who,
                what,
                which,
                when,
                unless,
            },
        )
}

/// Permits for most things, and a few rules of any kind: else nearly everything is denied.
pub(super) fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let permit = |which: Which, sync: bool| Rule {
        verdict: Verdict::Permit,
        monitor: false,
        sync,
        sliced: true,
        who: Who::Any,
        what: What::Any,
        which,
        when: Condition::Constant(true),
        unless: None,
    };
    let base = prop_oneof![
        1 => Just(Vec::new()),
        2 => any::<bool>().prop_map(move |sync| vec![permit(Which::Any, sync)]),
        2 => (select(&TYPES[..]), any::<bool>())
            .prop_map(move |(ty, sync)| vec![permit(Which::Type(ty), sync)]),
    ];
    (base, proptest::collection::vec(rule(), 0..5)).prop_map(|(mut base, more)| {
        base.extend(more);
        base
    })
}

/// A request out of a small world, so that equal ones happen.
pub(super) fn request() -> impl Strategy<Value = Request> {
    let some_of = |all: &'static [&'static str]| {
        proptest::collection::btree_set(select(all).prop_map(str::to_owned), 0..2)
    };
    let resource = (
        select(&TYPES[..]),
        select(&NAMES[..]),
        any::<bool>(),
        some_of(&LABELS),
    )
        .prop_map(|(ty, name, inside, labels)| match ty {
            ResourceType::Path => Resource::Path(PathFacts {
                given: name.to_owned(),
                resolved: name.to_owned(),
                inside,
                labels,
                ..PathFacts::default()
            }),
            ResourceType::Command => Resource::Command(CommandFacts {
                text: name.to_owned(),
                labels,
                ..CommandFacts::default()
            }),
            _ => Resource::Tool(ToolFacts {
                name: name.to_owned(),
                ..ToolFacts::default()
            }),
        });
    (
        select(&ACTIONS[..]),
        resource,
        select(&SESSIONS[..]),
        any::<bool>(),
        (0..3u32, select(&OPERATIONS[..]), some_of(&PATTERNS)),
    )
        .prop_map(
            |(action, resource, session, parent, (depth, operation, patterns))| Request {
                principal: Agent {
                    session: session.to_owned(),
                    parent: parent.then(|| "main".to_owned()),
                    ..Agent::default()
                },
                action,
                resource,
                context: Context {
                    depth: if parent { depth } else { 0 },
                    operation: operation.to_owned(),
                    patterns,
                    ..Context::default()
                },
            },
        )
}

/// The requests of one event: up to four, some of them twice.
pub(super) fn requests() -> impl Strategy<Value = Vec<Request>> {
    proptest::collection::vec((request(), any::<bool>()), 1..5).prop_map(|all| {
        let twice = all.iter().filter(|(_, twice)| *twice);
        let twice: Vec<Request> = twice.map(|(request, _)| request.clone()).collect();
        all.into_iter()
            .map(|(request, _)| request)
            .chain(twice)
            .collect()
    })
}

/// Whether judgements bind; mostly they do.
pub(super) fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![2 => Just(Mode::Enforce), 1 => Just(Mode::Monitor)]
}
