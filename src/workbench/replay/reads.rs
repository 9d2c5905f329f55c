//! Which facts policies read: nothing else can change what they say.
//!
//! Cedar has no way to an attribute but its name, so the names in a policy are all that it can ask for.

use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use crate::engine::action::Action;
use crate::engine::attribute::{AGENT, Attribute, COMMAND, CONTEXT, PATH, TEXT, TOOL, URL, Value};
use crate::engine::bundle::{Bundle, Policy};
use crate::engine::codec::Decoder;
use crate::engine::containment::GUARD;
use crate::engine::request::{Request, ResourceType};
use crate::engine::schema;

/// Some of the facts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts(u64);

/// Whose fact it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The agent.
    Principal,
    /// What the action is done to.
    Resource,
    /// The circumstances.
    Context,
}

impl Owner {
    const ALL: [Self; 3] = [Self::Principal, Self::Resource, Self::Context];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|owner| owner.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Resource => "resource",
            Self::Context => "context",
        }
    }
}

/// Which bit each fact has. The first two are the ids of the entities.
static NAMES: LazyLock<Vec<(Owner, &'static str)>> = LazyLock::new(|| {
    let mut names = vec![(Owner::Principal, ID), (Owner::Resource, ID)];
    let mut add = |owner, attributes: &[Attribute]| {
        for attribute in attributes {
            if !names.contains(&(owner, attribute.name)) {
                names.push((owner, attribute.name));
            }
        }
    };
    add(Owner::Principal, AGENT);
    add(Owner::Context, CONTEXT);
    for table in [PATH, COMMAND, URL, TOOL, TEXT] {
        add(Owner::Resource, table);
    }
    names
});

/// The bits of a resource's attributes and of the context's, in the order of their tables.
static ALIGNED: LazyLock<[Vec<Facts>; 6]> = LazyLock::new(|| {
    let of = |owner, attributes: &[Attribute]| {
        let names = attributes.iter().map(|attribute| attribute.name);
        names.map(|name| Facts::of(owner, name)).collect()
    };
    [
        of(Owner::Resource, PATH),
        of(Owner::Resource, COMMAND),
        of(Owner::Resource, URL),
        of(Owner::Resource, TOOL),
        of(Owner::Resource, TEXT),
        of(Owner::Context, CONTEXT),
    ]
});

/// What stands for an entity itself, as in `resource == Bridge::Tool::"bash"`.
const ID: &str = "";

/// So many ids stand in front.
const IDS: usize = 2;

impl Facts {
    /// None.
    pub const NONE: Self = Self(0);

    /// Every fact.
    pub const ALL: Self = Self(u64::MAX);

    /// The fact of that name; every fact if there is none of that name.
    #[must_use]
    pub fn of(owner: Owner, name: &str) -> Self {
        let among = |table: &[Attribute]| table.iter().position(|one| one.name == name);
        let known = match owner {
            Owner::Principal => among(AGENT).map(|place| IDS + place),
            Owner::Context => among(CONTEXT).map(|place| IDS + AGENT.len() + place),
            Owner::Resource => NAMES.iter().position(|known| *known == (owner, name)),
        };
        known.map_or(Self::ALL, |bit| Self(1 << bit))
    }

    /// The entity itself.
    #[must_use]
    pub const fn id(owner: Owner) -> Self {
        match owner {
            Owner::Principal => Self(1),
            Owner::Resource => Self(2),
            // It has none.
            Owner::Context => Self::ALL,
        }
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any is among both.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those that are among both, as policies write them: `resource.arguments`.
    #[must_use]
    pub fn common(self, other: Self) -> Vec<String> {
        let both = self.0 & other.0;
        let named = NAMES.iter().enumerate();
        named
            .filter(|(bit, _)| both & (1 << bit) != 0)
            .map(|(_, (owner, name))| match *name {
                ID => owner.name().to_owned(),
                name => format!("{}.{name}", owner.name()),
            })
            .collect()
    }
}

/// Which facts the policies of a bundle read.
#[derive(Debug)]
pub struct Reads {
    policies: Vec<Facts>,
    /// By action, what is read about each type of resource.
    about: Vec<[Facts; ResourceType::ALL.len()]>,
}

impl Reads {
    /// Those of a bundle's policies.
    #[must_use]
    pub fn of(bundle: &Bundle) -> Self {
        let mut decoder = Decoder::default();
        let policies = bundle.policies.iter();
        let policies: Vec<Facts> = policies
            .map(|policy| read_by(policy, &mut decoder).unwrap_or(Facts::ALL))
            .collect();
        let about = Action::ALL.map(|action| {
            ResourceType::ALL.map(|kind| among(bundle, &policies, (action, kind), &|_| true))
        });
        Self {
            policies,
            about: about.to_vec(),
        }
    }

    /// What the policies read that may hold for such a request.
    #[must_use]
    pub fn about(&self, request: &Request) -> Facts {
        let kinds = self.about.get(request.action as usize);
        let facts = kinds.and_then(|kinds| kinds.get(request.resource.kind() as usize));
        facts.copied().unwrap_or(Facts::ALL)
    }

    /// The same, without those that ask for a label that the request does not have.
    #[must_use]
    pub fn surely_about(&self, bundle: &Bundle, request: &Request, unknown: Facts) -> Facts {
        let labels = request.resource.labels();
        let known = !unknown.meets(Facts::of(Owner::Resource, "labels"));
        let asked = (request.action, request.resource.kind());
        among(bundle, &self.policies, asked, &|policy| match labels {
            Some(labels) if known && !policy.requires.is_empty() => {
                policy.requires.iter().any(|label| labels.contains(label))
            }
            _ => true,
        })
    }
}

/// What those policies read that count, and speak of that action on that type of resource.
fn among(
    bundle: &Bundle,
    facts: &[Facts],
    (action, kind): (Action, ResourceType),
    counts: &dyn Fn(&Policy) -> bool,
) -> Facts {
    let policies = bundle.policies.iter().zip(facts);
    policies
        .filter(|(policy, _)| policy.actions.contains(action) && policy.resources.contains(kind))
        .filter(|(policy, _)| counts(policy))
        .fold(Facts::NONE, |all, (_, facts)| all.and(*facts))
}

/// A request as far as those facts go: two with the same are judged alike.
pub(super) fn key(request: &Request, facts: Facts, key: &mut Vec<u8>) {
    key.clear();
    key.push(request.action as u8);
    key.push(request.resource.kind() as u8);
    // The engine itself asks for it where policies only watch.
    key.push(u8::from(request.resource.has_label(GUARD)));
    if facts.meets(Facts::id(Owner::Principal)) {
        push_text(&request.principal.session, key);
    }
    if facts.meets(Facts::id(Owner::Resource)) {
        push_text(&request.resource.id(), key);
    }
    for (name, value) in request.principal.attributes() {
        if facts.meets(Facts::of(Owner::Principal, name)) {
            // One that is absent must not make the next one look like it.
            push_text(name, key);
            push(&value, key);
        }
    }
    let [.., context] = &*ALIGNED;
    let resource = ALIGNED.get(request.resource.kind() as usize);
    for (bit, (_, value)) in resource
        .into_iter()
        .flatten()
        .zip(request.resource.attributes())
        .chain(context.iter().zip(request.context.attributes()))
    {
        if facts.meets(*bit) {
            push(&value, key);
        }
    }
}

fn push(value: &Value<'_>, key: &mut Vec<u8>) {
    match value {
        Value::Bool(flag) => key.push(u8::from(*flag)),
        Value::Long(number) => key.extend(number.to_le_bytes()),
        Value::String(text) => push_text(text, key),
        Value::Set(texts) => {
            key.extend((texts.len() as u64).to_le_bytes());
            texts.iter().for_each(|text| push_text(text, key));
        }
        Value::Tags(tags) => {
            key.extend((tags.len() as u64).to_le_bytes());
            for (name, value) in *tags {
                push_text(name, key);
                push_text(value, key);
            }
        }
    }
}

fn push_text(text: &str, key: &mut Vec<u8>) {
    key.extend((text.len() as u64).to_le_bytes());
    key.extend(text.as_bytes());
}

/// The facts that a policy can ask for; `None` if nobody can tell.
fn read_by(policy: &Policy, decoder: &mut Decoder) -> Option<Facts> {
    let decoded = decoder.policy(&policy.body, "0").ok()?;
    let tree = decoded.to_json().ok()?;
    let mut facts = Facts::NONE;
    for owner in [Owner::Principal, Owner::Resource] {
        let scope = tree.get(owner.name())?;
        let by_id =
            !matches!(scope.get("op")?.as_str()?, "All" | "is") || scope.get("in").is_some();
        if by_id {
            facts = facts.and(Facts::id(owner));
        }
    }
    for condition in tree.get("conditions")?.as_array()? {
        walk(condition.get("body")?, &mut facts);
    }
    Some(facts)
}

fn walk(node: &Json, facts: &mut Facts) {
    match node {
        Json::Object(fields) => {
            for (operator, operands) in fields {
                match (operator.as_str(), operands) {
                    ("Var", Json::String(name)) => bare(name, facts),
                    ("." | "has", Json::Object(access)) => attribute(access, facts),
                    // Of which type it is, is known of every request.
                    ("is", Json::Object(test)) if is_variable(test.get("left")) => {
                        test.get("in").iter().for_each(|inner| {
                            *facts = facts.and(Facts::ALL);
                            walk(inner, facts);
                        });
                    }
                    // A text, and no part of an expression.
                    ("Value", _) => {}
                    _ => walk(operands, facts),
                }
            }
        }
        Json::Array(all) => all.iter().for_each(|node| walk(node, facts)),
        _ => {}
    }
}

fn attribute(access: &Map<String, Json>, facts: &mut Facts) {
    let (Some(left), Some(name)) = (access.get("left"), access.get("attr")) else {
        *facts = Facts::ALL;
        return;
    };
    let variable = left.get("Var").and_then(Json::as_str);
    match (variable.and_then(Owner::named), name.as_str()) {
        (Some(owner), Some(name)) => *facts = facts.and(Facts::of(owner, name)),
        // What the expression before the dot comes to, nobody says here.
        _ => *facts = Facts::ALL,
    }
}

fn is_variable(node: Option<&Json>) -> bool {
    node.is_some_and(|node| node.get("Var").is_some())
}

/// A variable that stands alone.
fn bare(name: &str, facts: &mut Facts) {
    match Owner::named(name) {
        Some(Owner::Context) => *facts = Facts::ALL,
        Some(owner) => *facts = facts.and(Facts::id(owner)),
        // The action is known of every request.
        None => {}
    }
}

/// The facts about a resource of that type.
#[must_use]
pub(super) fn all_about(kind: ResourceType) -> Facts {
    let names = schema::attributes(kind).iter().map(|one| one.name);
    names.fold(Facts::id(Owner::Resource), |all, name| {
        all.and(Facts::of(Owner::Resource, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::request::{Agent, CommandFacts, Context, Resource};
    use crate::policy::{Layer, Source, layer, load_sources};

    fn bundle(policy: &str) -> Bundle {
        let text = format!("@id(\"x\")\n@reason(\"x\")\n{policy}");
        let files = [("x.cedar".to_owned(), text)];
        load_sources(&[Source::new(Layer::User, "p", files)]).unwrap()
    }

    fn request() -> Request {
        Request {
            principal: Agent::default(),
            action: Action::Shell,
            resource: Resource::Command(CommandFacts::default()),
            context: Context::default(),
        }
    }

    fn read(policy: &str) -> String {
        let bundle = bundle(policy);
        let facts = Reads::of(&bundle).about(&request());
        if facts == Facts::ALL {
            return "all".to_owned();
        }
        facts.common(Facts::ALL).join(" ")
    }

    #[test]
    fn every_fact_has_a_bit_of_its_own() {
        assert!(NAMES.len() < 64, "{}", NAMES.len());
        for (bit, (owner, name)) in NAMES.iter().enumerate() {
            let fact = match *name {
                ID => Facts::id(*owner),
                name => Facts::of(*owner, name),
            };
            assert_eq!(fact, Facts(1 << bit), "{owner:?} {name}");
        }
    }

    #[test]
    fn what_a_policy_reads_is_what_it_names() {
        let shell = "principal, action == Bridge::Action::\"shell\", resource is Bridge::Command";
        for (policy, facts) in [
            (format!("permit({shell});"), ""),
            (
                format!("permit({shell}) when {{ resource.certain && \"resource.text\" != \"\" }};"),
                "resource.certain",
            ),
            (
                format!("permit({shell}) when {{ resource.arguments.contains(\"-v\") }} unless {{ context.depth > 1 }};"),
                "context.depth resource.arguments",
            ),
            (
                format!("permit({shell}) when {{ principal has kind && principal.kind == \"x\" }};"),
                "principal.kind",
            ),
            (
                format!("permit({shell}) when {{ resource == Bridge::Command::\"ls\" }};"),
                "resource",
            ),
            (
                "permit(principal == Bridge::Agent::\"s\", action, resource);".to_owned(),
                "principal",
            ),
            (
                "permit(principal, action, resource) when { resource is Bridge::Tool };".to_owned(),
                "",
            ),
            // Of another action.
            (
                "permit(principal, action == Bridge::Action::\"url\", resource) when { context.phi };"
                    .to_owned(),
                "",
            ),
            (
                format!("permit({shell}) when {{ (if context.phi then resource else resource).certain }};"),
                "all",
            ),
        ] {
            assert_eq!(read(&policy), facts, "{policy}");
        }
    }

    #[test]
    fn what_no_policy_reads_is_no_part_of_the_key() {
        let bundle = load_sources(&[layer::embedded()]).unwrap();
        let reads = Reads::of(&bundle);
        let of = |request: &Request| {
            let mut bytes = Vec::new();
            key(request, reads.about(request), &mut bytes);
            bytes
        };
        let first = request();
        let mut other = request();
        other.principal.session = "s".to_owned();
        other.context.cwd = "/x".to_owned();
        assert_eq!(of(&first), of(&other));
        other.context.depth = 3;
        assert_ne!(of(&first), of(&other));
        let Resource::Command(command) = &mut other.resource else {
            panic!("it is a command");
        };
        command.labels.insert("network".to_owned());
        other.context.depth = 0;
        assert_ne!(of(&first), of(&other));
    }
}
