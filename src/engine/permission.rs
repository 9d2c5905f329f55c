//! The algorithm: Cedar is asked once with every policy, and, where a forbid or an ask held, a
//! second time with the permits alone.
//!
//! Cedar skips a policy that errs, and its own answer is then *allow*. Here any error is a denial.

use cedar_policy::{Decision as CedarDecision, Effect as CedarEffect, EntityTypeName, PolicySet};
// What is known of a request is values already: the published interface would have them built as
// expressions and evaluated first, which costs as much as asking the policies.
use cedar_policy_core::ast::{
    Context as CedarContext, Eid, Entity, EntityType, EntityUID, EntityUIDEntry, Literal,
    PartialValue, PolicyID, Request as CedarRequest, Value as CedarValue,
};
use cedar_policy_core::authorizer::{AuthorizationError, Authorizer};
use cedar_policy_core::entities::{Entities, NoEntitiesSchema, TCComputation};
use cedar_policy_core::extensions::Extensions;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::action::Action;
use super::attribute::Value;
use super::bundle::{Bundle, Policy, Verdict};
use super::codec::{Decoder, Reads};
use super::decision::Effect;
use super::request::{Request, ResourceType};

/// What the policies say of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The answer that binds.
    pub effect: Effect,
    /// The answer with `@mode("monitor")` policies counted in, and without any exception.
    pub would: Effect,
    /// The answer that would bind without any exception.
    pub unwaived: Effect,
    /// The policies that decided `effect`, as indices into the bundle. Empty for the default deny.
    pub deciding: Vec<usize>,
    /// Every policy that held.
    pub held: Vec<usize>,
    /// Every policy whose scope could admit the request.
    pub considered: Vec<usize>,
    /// The policies that are only monitored, and would have decided more strictly.
    pub monitored: Vec<usize>,
    /// The policies that held and that an exception leaves out.
    pub waived: Vec<Waived>,
    /// `@mode("monitor")` does not count: the request would change what protects this program.
    binding: bool,
}

/// A policy that held, and an exception that leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waived {
    /// The policy, as an index into the bundle's.
    pub policy: usize,
    /// The exception, as an index into the bundle's.
    pub exception: usize,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationError {
    /// The policy that failed, where it was a policy.
    pub policy: Option<usize>,
    /// What failed.
    pub message: String,
}

/// A request as Cedar takes it.
pub(super) struct Question(CedarRequest, Entities);

/// The policies of one bundle that may hold for one action on one type of resource.
struct Slice {
    set: PolicySet,
    /// The permits alone, once they were needed.
    permits: OnceLock<PolicySet>,
    /// The attributes that they ask for: Cedar is told no others.
    reads: Reads,
}

/// What was decoded of a bundle: a long-lived process asks the same policies again and again.
#[derive(Default)]
pub(super) struct Decoded {
    names: OnceLock<Names>,
    slices: Mutex<Slices>,
}

#[derive(Default)]
struct Slices {
    decoder: Decoder,
    /// By the policies in them.
    made: HashMap<Vec<usize>, Arc<Slice>>,
}

/// The attribute of the context that leads to the arguments.
const INPUT: &str = "input";

/// More slices than this are not kept: labels come in many combinations.
const SLICES: usize = 512;

/// Asks the policies of a bundle.
pub(super) struct Judge<'a> {
    bundle: &'a Bundle,
    decoded: &'a Decoded,
    names: &'a Names,
}

/// The entity types, parsed once.
struct Names {
    agent: EntityType,
    action: EntityType,
    input: EntityUID,
    resources: [EntityType; 5],
}

impl<'a> Judge<'a> {
    pub(super) fn new(bundle: &'a Bundle, decoded: &'a Decoded) -> Result<Self, EvaluationError> {
        let names = match decoded.names.get() {
            Some(names) => names,
            None => {
                let names = Names::new()?;
                decoded.names.get_or_init(|| names)
            }
        };
        Ok(Self {
            bundle,
            decoded,
            names,
        })
    }

    /// What the policies say of that request.
    ///
    /// # Errors
    /// If a policy errs or the request cannot be put to Cedar. Both are denials.
    pub(super) fn judge(&self, request: &Request) -> Result<Judged, EvaluationError> {
        let (action, kind) = (request.action, request.resource.kind());
        let speaks =
            |policy: &Policy| policy.actions.contains(action) && policy.resources.contains(kind);
        let policies = self.bundle.policies.iter().enumerate();
        let considered: Vec<usize> = policies
            .filter(|(_, policy)| speaks(policy))
            .map(|(index, _)| index)
            .collect();
        // What asks first for a label that is not there does not hold: it is not even decoded.
        let labels = request.resource.labels();
        let may_hold = |index: &&usize| {
            let policy = self.bundle.policies.get(**index);
            policy.is_some_and(|policy| match labels {
                Some(labels) if !policy.requires.is_empty() => {
                    policy.requires.iter().any(|label| labels.contains(label))
                }
                _ => true,
            })
        };
        let members: Vec<usize> = considered.iter().filter(may_hold).copied().collect();
        let slice = self.slice(members)?;
        let question = self.question(request, &slice.reads)?;
        let binding = super::changes_guard(request);
        let mut judged = slice.judge(&question, considered, binding)?;
        judged.settle(self.bundle);
        judged.unwaived = judged.effect;
        Ok(judged)
    }

    fn slice(&self, members: Vec<usize>) -> Result<Arc<Slice>, EvaluationError> {
        // Whoever panicked while it held the lock left whole slices behind.
        let mut slices = self
            .decoded
            .slices
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(slice) = slices.made.get(&members) {
            return Ok(Arc::clone(slice));
        }
        let slice = Arc::new(Slice::build(self.bundle, &members, &mut slices.decoder)?);
        if slices.made.len() >= SLICES {
            slices.made.clear();
        }
        slices.made.insert(members, Arc::clone(&slice));
        Ok(slice)
    }

    /// The request with the attributes that are read.
    pub(super) fn question(
        &self,
        request: &Request,
        reads: &Reads,
    ) -> Result<Question, EvaluationError> {
        let principal = uid(&self.names.agent, &request.principal.session);
        let action = uid(&self.names.action, request.action.name());
        let kind = request.resource.kind();
        let type_name = self
            .names
            .resources
            .get(kind as usize)
            .ok_or_else(|| failure("a resource type is missing"))?;
        let resource = uid(type_name, &request.resource.id());
        let entities = [
            self.entity(&principal, request.principal.attributes(), reads),
            self.entity(&resource, request.resource.attributes(), reads),
            self.action_entity(&action, request.action),
        ];
        let input = reads
            .has(INPUT)
            .then(|| self.input(&request.context.input))
            .flatten();
        // An action's groups have none of their own, and nothing else has ancestors.
        let entities = Entities::from_entities(
            entities.into_iter().chain(input),
            None::<&NoEntitiesSchema>,
            TCComputation::AssumeAlreadyComputed,
            Extensions::all_available(),
        )
        .map_err(|error| failure(&format!("the entities cannot be built: {error}")))?;
        let context = self.values(request.context.attributes(), reads);
        let context = context.map(|(name, value)| (name.into(), value)).collect();
        let [principal, action, resource] =
            [principal, action, resource].map(|uid| EntityUIDEntry::known(uid, None));
        let context = Some(CedarContext::Value(Arc::new(context)));
        let request = CedarRequest::new_unchecked(principal, action, resource, context);
        Ok(Question(request, entities))
    }

    /// The arguments, if there are any: an entity that is not there has no tags.
    fn input(&self, tags: &BTreeMap<String, String>) -> Option<Entity> {
        if tags.is_empty() {
            return None;
        }
        let tags = tags.iter().map(|(name, value)| {
            let value = CedarValue::from(value.as_str());
            (name.as_str().into(), PartialValue::Value(value))
        });
        let uid = self.names.input.clone();
        let none = HashSet::new;
        Some(Entity::new_with_attr_partial_value(
            uid,
            [],
            none(),
            none(),
            tags,
        ))
    }

    fn entity(
        &self,
        uid: &EntityUID,
        attributes: Vec<(&'static str, Value<'_>)>,
        reads: &Reads,
    ) -> Entity {
        let attributes = self.values(attributes, reads);
        let attributes = attributes.map(|(name, value)| (name.into(), PartialValue::Value(value)));
        let none = HashSet::new;
        Entity::new_with_attr_partial_value(uid.clone(), attributes, none(), none(), [])
    }

    fn values<'v>(
        &self,
        attributes: Vec<(&'static str, Value<'v>)>,
        reads: &Reads,
    ) -> impl Iterator<Item = (&'static str, CedarValue)> {
        attributes
            .into_iter()
            .filter(|(name, _)| reads.has(name))
            .map(|(name, value)| (name, self.value(&value)))
    }

    fn value(&self, value: &Value<'_>) -> CedarValue {
        match value {
            Value::Bool(b) => CedarValue::from(*b),
            Value::Long(n) => CedarValue::from(*n),
            Value::String(s) => CedarValue::from(*s),
            Value::Set(all) => {
                CedarValue::set_of_lits(all.iter().map(|s| Literal::from(s.as_str())), None)
            }
            Value::Tags(_) => CedarValue::from(self.names.input.clone()),
        }
    }

    fn action_entity(&self, action: &EntityUID, kind: Action) -> Entity {
        let mut groups = HashSet::new();
        if kind.is_tool_use() {
            groups.insert(uid(&self.names.action, Action::TOOL_USE));
        }
        Entity::new_with_attr_partial_value(action.clone(), [], HashSet::new(), groups, [])
    }
}

impl Judged {
    /// Leaves out what exceptions name, and decides again.
    pub(super) fn waive(&mut self, bundle: &Bundle, waived: Vec<Waived>) {
        self.waived = waived;
        self.settle(bundle);
    }

    /// Decides by what held.
    fn settle(&mut self, bundle: &Bundle) {
        let waived = |index: usize| self.waived.iter().any(|one| one.policy == index);
        let held = || {
            let held = self.held.iter().copied();
            held.filter_map(|index| Some((index, bundle.policies.get(index)?)))
        };
        let watched = |policy: &Policy| policy.monitor && !self.binding;
        let of = |wanted: Verdict| -> Vec<usize> {
            held()
                .filter(|(index, policy)| {
                    policy.verdict == wanted && !watched(policy) && !waived(*index)
                })
                .map(|(index, _)| index)
                .collect()
        };
        let permits = of(Verdict::Permit);
        let (effect, deciding) = match (of(Verdict::Forbid), of(Verdict::Ask)) {
            (forbids, _) if !forbids.is_empty() => (Effect::Deny, forbids),
            _ if permits.is_empty() => (Effect::Deny, Vec::new()),
            (_, asks) if !asks.is_empty() => (Effect::Ask, asks),
            _ => (Effect::Allow, permits),
        };
        let would = held()
            .map(|(_, policy)| policy.verdict.effect())
            .fold(effect, Effect::max);
        let monitored = held()
            .filter(|(index, policy)| {
                watched(policy) && !waived(*index) && policy.verdict.effect() > effect
            })
            .map(|(index, _)| index)
            .collect();
        self.effect = effect;
        self.would = would;
        self.deciding = deciding;
        self.monitored = monitored;
    }
}

impl Slice {
    fn build(
        bundle: &Bundle,
        members: &[usize],
        decoder: &mut Decoder,
    ) -> Result<Self, EvaluationError> {
        let mut set = PolicySet::new();
        let mut reads = Reads::default();
        for index in members {
            let broken = |message: String| EvaluationError {
                policy: Some(*index),
                message,
            };
            let policy = bundle
                .policies
                .get(*index)
                .ok_or_else(|| broken("a policy is missing".to_owned()))?;
            let decoded = decoder
                .policy(&policy.body, &index.to_string())
                .map_err(|error| broken(error.0))?;
            reads.extend(decoder.reads());
            set.add(decoded)
                .map_err(|error| broken(error.to_string()))?;
        }
        Ok(Self {
            set,
            permits: OnceLock::new(),
            reads,
        })
    }

    /// What held; nobody has decided by it yet.
    fn judge(
        &self,
        question: &Question,
        considered: Vec<usize>,
        binding: bool,
    ) -> Result<Judged, EvaluationError> {
        let (first, mut held) = ask(&self.set, question)?;
        // Cedar names the forbids only: what do the permits say without them?
        if first == CedarDecision::Deny && !held.is_empty() {
            held.extend(self.permits(question)?);
        }
        Ok(Judged {
            effect: Effect::Deny,
            would: Effect::Deny,
            unwaived: Effect::Deny,
            deciding: Vec::new(),
            held,
            considered,
            monitored: Vec::new(),
            waived: Vec::new(),
            binding,
        })
    }

    /// The permits that hold.
    fn permits(&self, question: &Question) -> Result<Vec<usize>, EvaluationError> {
        let permits = match self.permits.get() {
            Some(permits) => permits,
            None => {
                let permits = self.set.policies();
                let permits = permits.filter(|policy| policy.effect() == CedarEffect::Permit);
                let permits = PolicySet::from_policies(permits.cloned())
                    .map_err(|error| failure(&error.to_string()))?;
                self.permits.get_or_init(|| permits)
            }
        };
        ask(permits, question).map(|(_, held)| held)
    }
}

/// Cedar's decision and the policies that made it.
pub(super) fn ask(
    set: &PolicySet,
    Question(request, entities): &Question,
) -> Result<(CedarDecision, Vec<usize>), EvaluationError> {
    let response = Authorizer::new().is_authorized(request.clone(), set.as_ref(), entities);
    if let Some(error) = response.diagnostics.errors.first() {
        let AuthorizationError::PolicyEvaluationError { id, error } = error;
        return Err(EvaluationError {
            policy: index_of(id).ok(),
            message: error.to_string(),
        });
    }
    let mut held = response
        .diagnostics
        .reason
        .iter()
        .map(index_of)
        .collect::<Result<Vec<usize>, _>>()?;
    held.sort_unstable();
    Ok((response.decision, held))
}

/// A slice's policies are called by their index in the bundle.
fn index_of(id: &PolicyID) -> Result<usize, EvaluationError> {
    let text: &str = id.as_ref();
    text.parse()
        .map_err(|_| failure("a policy has an id of its own"))
}

fn uid(type_name: &EntityType, id: &str) -> EntityUID {
    EntityUID::from_components(type_name.clone(), Eid::new(id), None)
}

impl Names {
    fn new() -> Result<Self, EvaluationError> {
        let name = |name: &str| {
            EntityTypeName::from_str(&format!("{}::{name}", super::request::NAMESPACE))
                .map(|name| name.as_ref().clone())
                .map_err(|error| failure(&error.to_string()))
        };
        let [path, command, url, tool, text] = ResourceType::ALL.map(|kind| name(kind.name()));
        Ok(Self {
            agent: name("Agent")?,
            action: name("Action")?,
            input: uid(&name(super::request::INPUT)?, "arguments"),
            resources: [path?, command?, url?, tool?, text?],
        })
    }
}

fn failure(message: &str) -> EvaluationError {
    EvaluationError {
        policy: None,
        message: message.to_owned(),
    }
}
