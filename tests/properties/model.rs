//! The Ask algorithm as section 3 of the design defines it, with conditions evaluated in Rust.

use std::collections::BTreeSet;

use copilot_bridge::engine::action::{Action, ActionSet};
use copilot_bridge::engine::bundle::{Bundle, Mode, Policy, Verdict};
use copilot_bridge::engine::decision::{Effect, Obligation};
use copilot_bridge::engine::request::{Request, Resource, ResourceSet, ResourceType};
use copilot_bridge::engine::{REQUEST_LIMIT, describe};

use super::bundles;

/// A condition. `None` of its evaluation is an error.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    Constant(bool),
    /// `resource.inside`: an error on anything but a path.
    Inside,
    /// `resource.labels.contains(…)`: an error on a tool.
    Label(&'static str),
    /// `context.depth > n`
    Deeper(u32),
    /// Overflows unless the depth is 0.
    Overflow,
    /// `principal.parent == "main"`: an error without a parent.
    Parent,
    HasParent,
    Pattern(&'static str),
    Operation(&'static str),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    If(Box<Self>, Box<Self>, Box<Self>),
}

impl Condition {
    fn text(&self) -> String {
        match self {
            Self::Constant(value) => value.to_string(),
            Self::Inside => "resource.inside".to_owned(),
            Self::Label(label) => format!("resource.labels.contains(\"{label}\")"),
            Self::Deeper(n) => format!("context.depth > {n}"),
            Self::Overflow => format!("context.depth + {} > 0", i64::MAX),
            Self::Parent => "principal.parent == \"main\"".to_owned(),
            Self::HasParent => "principal has parent".to_owned(),
            Self::Pattern(id) => format!("context.patterns.contains(\"{id}\")"),
            Self::Operation(name) => format!("context.operation == \"{name}\""),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::And(left, right) => format!("({}) && ({})", left.text(), right.text()),
            Self::Or(left, right) => format!("({}) || ({})", left.text(), right.text()),
            Self::If(cond, then, other) => format!(
                "(if {} then {} else {})",
                cond.text(),
                then.text(),
                other.text()
            ),
        }
    }

    fn holds(&self, request: &Request) -> Option<bool> {
        let context = &request.context;
        Some(match self {
            Self::Constant(value) => *value,
            Self::Inside => match &request.resource {
                Resource::Path(path) => path.inside,
                _ => return None,
            },
            Self::Label(label) => match &request.resource {
                Resource::Path(path) => path.labels.contains(*label),
                Resource::Command(command) => command.labels.contains(*label),
                _ => return None,
            },
            Self::Deeper(n) => context.depth > *n,
            Self::Overflow if context.depth > 0 => return None,
            Self::Overflow => true,
            Self::Parent => request.principal.parent.as_deref()? == "main",
            Self::HasParent => request.principal.parent.is_some(),
            Self::Pattern(id) => context.patterns.contains(*id),
            Self::Operation(name) => context.operation == *name,
            Self::Not(inner) => !inner.holds(request)?,
            Self::And(left, right) => left.holds(request)? && right.holds(request)?,
            Self::Or(left, right) => left.holds(request)? || right.holds(request)?,
            Self::If(cond, then, other) => {
                if cond.holds(request)? {
                    then.holds(request)?
                } else {
                    other.holds(request)?
                }
            }
        })
    }
}

/// What the scope says of the principal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    Any,
    Agent,
    Session(&'static str),
}

/// What the scope says of the action.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Any,
    One(Action),
    Either(Action, Action),
    ToolUse,
}

/// What the scope says of the resource.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    Any,
    Type(ResourceType),
    One(ResourceType, &'static str),
}

/// One policy: what the bundle gets, and what the model judges by.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) verdict: Verdict,
    pub(super) monitor: bool,
    pub(super) sync: bool,
    /// Whether the bundle says exactly which actions and resources the scope admits, or all.
    pub(super) sliced: bool,
    pub(super) who: Who,
    pub(super) what: What,
    pub(super) which: Which,
    pub(super) when: Condition,
    pub(super) unless: Option<Condition>,
}

impl Rule {
    fn admits(&self, request: &Request) -> bool {
        let who = match self.who {
            Who::Any | Who::Agent => true,
            Who::Session(session) => request.principal.session == session,
        };
        let what = match self.what {
            What::Any => true,
            What::One(action) => request.action == action,
            What::Either(one, other) => request.action == one || request.action == other,
            What::ToolUse => request.action != Action::Prompt,
        };
        let kind = request.resource.kind();
        let which = match self.which {
            Which::Any => true,
            Which::Type(ty) => kind == ty,
            Which::One(ty, id) => kind == ty && request.resource.id() == id,
        };
        who && what && which
    }

    /// Whether the policy is satisfied; `None` is an error.
    pub(super) fn holds(&self, request: &Request) -> Option<bool> {
        if !self.admits(request) || !self.when.holds(request)? {
            return Some(false);
        }
        match &self.unless {
            Some(unless) => Some(!unless.holds(request)?),
            None => Some(true),
        }
    }

    fn text(&self) -> String {
        let effect = match self.verdict {
            Verdict::Permit => "permit",
            Verdict::Ask | Verdict::Forbid => "forbid",
        };
        let action = |action: Action| format!("Bridge::Action::\"{}\"", action.name());
        let who = match self.who {
            Who::Any => "principal".to_owned(),
            Who::Agent => "principal is Bridge::Agent".to_owned(),
            Who::Session(id) => format!("principal == Bridge::Agent::\"{id}\""),
        };
        let what = match self.what {
            What::Any => "action".to_owned(),
            What::One(one) => format!("action == {}", action(one)),
            What::Either(one, other) => format!("action in [{}, {}]", action(one), action(other)),
            What::ToolUse => "action in Bridge::Action::\"tool_use\"".to_owned(),
        };
        let which = match self.which {
            Which::Any => "resource".to_owned(),
            Which::Type(ty) => format!("resource is Bridge::{}", ty.name()),
            Which::One(ty, id) => format!("resource == Bridge::{}::\"{id}\"", ty.name()),
        };
        let unless = self
            .unless
            .as_ref()
            .map(|unless| format!(" unless {{ {} }}", unless.text()))
            .unwrap_or_default();
        format!(
            "{effect}({who}, {what}, {which}) when {{ {} }}{unless};",
            self.when.text()
        )
    }

    fn policy(&self, id: String) -> Policy {
        let mut policy = bundles::policy(&id, &self.text());
        policy.verdict = self.verdict;
        policy.monitor = self.monitor;
        policy.obligations = self
            .sync
            .then_some(Obligation::RecordSync)
            .into_iter()
            .collect();
        if self.sliced {
            policy.actions = match self.what {
                What::Any => ActionSet::EVERY,
                What::One(one) => ActionSet::NONE.with(one),
                What::Either(one, other) => ActionSet::NONE.with(one).with(other),
                What::ToolUse => ActionSet::tool_use(),
            };
            policy.resources = match self.which {
                Which::Any => ResourceSet::EVERY,
                Which::Type(ty) | Which::One(ty, _) => ResourceSet::only(ty),
            };
        }
        policy
    }
}

/// The bundle of those rules; the first is called `p0`.
pub(super) fn bundle(rules: &[Rule], mode: Mode) -> Bundle {
    let policies = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| rule.policy(format!("p{index}")))
        .collect();
    let mut bundle = bundles::bundle(policies);
    bundle.settings.mode = mode;
    bundle
}

/// What the design says about an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) effect: Effect,
    pub(super) would: Effect,
    /// Whether a policy errs.
    pub(super) fault: bool,
    /// Id and fact of every strictest reason. `None` where the design leaves them open: of an
    /// answer that monitor mode has made an allowing one.
    pub(super) reasons: Option<BTreeSet<(String, String)>>,
    pub(super) obligations: BTreeSet<Obligation>,
}

/// The design's answer to an event of those requests.
pub(super) fn expected(rules: &[Rule], mode: Mode, requests: &[Request]) -> Expected {
    let mut distinct: Vec<&Request> = Vec::new();
    for request in requests {
        if !distinct.contains(&request) {
            distinct.push(request);
        }
    }
    let mut all = Expected {
        effect: Effect::Allow,
        would: Effect::Allow,
        fault: false,
        reasons: Some(BTreeSet::new()),
        obligations: BTreeSet::new(),
    };
    for request in &distinct {
        let one = of_one(rules, mode, request);
        all.fault |= one.fault;
        all.would = all.would.max(one.would);
        all.obligations.extend(one.obligations);
        all.reasons = match one.effect.cmp(&all.effect) {
            std::cmp::Ordering::Less => all.reasons,
            std::cmp::Ordering::Greater => one.reasons,
            std::cmp::Ordering::Equal => all
                .reasons
                .zip(one.reasons)
                .map(|(mine, others)| mine.into_iter().chain(others).collect()),
        };
        all.effect = all.effect.max(one.effect);
    }
    if distinct.len() > REQUEST_LIMIT {
        all.effect = all.effect.max(Effect::Ask);
        all.would = all.would.max(Effect::Ask);
        all.reasons = None;
    }
    if all.fault {
        all.reasons = None;
    }
    if all.effect == Effect::Deny {
        all.obligations.clear();
    }
    all
}

fn of_one(rules: &[Rule], mode: Mode, request: &Request) -> Expected {
    let results: Vec<Option<bool>> = rules.iter().map(|rule| rule.holds(request)).collect();
    if results.contains(&None) {
        return Expected {
            effect: Effect::Deny,
            would: Effect::Deny,
            fault: true,
            reasons: None,
            obligations: BTreeSet::new(),
        };
    }
    let held = |verdict: Verdict, monitor: bool| -> BTreeSet<(String, String)> {
        rules
            .iter()
            .zip(&results)
            .enumerate()
            .filter(|(_, (rule, holds))| {
                // What protects the bridge is never only monitored.
                let watched = rule.monitor && !labelled_guard(request);
                rule.verdict == verdict && watched == monitor && **holds == Some(true)
            })
            .map(|(index, _)| (format!("p{index}"), describe(request)))
            .collect()
    };
    let permits = held(Verdict::Permit, false);
    let forbids = held(Verdict::Forbid, false);
    let asks = held(Verdict::Ask, false);
    let (effect, reasons) = if !forbids.is_empty() {
        (Effect::Deny, forbids.clone())
    } else if permits.is_empty() {
        let default = ("default-deny".to_owned(), describe(request));
        (Effect::Deny, BTreeSet::from([default]))
    } else if !asks.is_empty() {
        (Effect::Ask, asks.clone())
    } else {
        (Effect::Allow, permits.clone())
    };
    let would = if effect == Effect::Deny || !held(Verdict::Forbid, true).is_empty() {
        Effect::Deny
    } else if effect == Effect::Ask || !held(Verdict::Ask, true).is_empty() {
        Effect::Ask
    } else {
        Effect::Allow
    };
    let obligations = rules
        .iter()
        .zip(&results)
        .filter(|(rule, holds)| rule.sync && **holds == Some(true))
        .map(|_| Obligation::RecordSync)
        .collect();
    // Only faults, the guard and redaction bind in monitor mode.
    let watched = mode == Mode::Monitor && !changes_guard(request);
    Expected {
        effect: if watched { Effect::Allow } else { effect },
        would,
        fault: false,
        reasons: (!watched || effect == Effect::Allow).then_some(reasons),
        obligations,
    }
}

/// Whether neither monitor mode nor an exception covers it.
pub(super) fn changes_guard(request: &Request) -> bool {
    // Redaction binds as well.
    matches!(request.action, Action::Prompt | Action::Result) || labelled_guard(request)
}

pub(super) fn labelled_guard(request: &Request) -> bool {
    let labels = match &request.resource {
        Resource::Path(path) => &path.labels,
        Resource::Command(command) => &command.labels,
        _ => return false,
    };
    labels.contains("guard") && request.action != Action::Read
}
