//! What is in force, in words: layers, policies by what they are about, labels, patterns, packs.

use std::collections::BTreeMap;

use crate::engine::action::{Action, ActionSet};
use crate::engine::bundle::{Bundle, Policy};
use crate::engine::request::{ResourceSet, ResourceType};
use crate::policy::settings::redaction::is_pack;
use crate::policy::source::{Source, digest};

use super::format;

/// What is in force somewhere.
#[derive(Debug)]
pub struct Overview {
    /// The layers, the base first.
    pub layers: Vec<LayerInForce>,
    /// The policies by what they are about, in the order of the actions.
    pub groups: Vec<Group>,
    /// Labels of paths, and how many patterns give each.
    pub labels: Vec<(String, usize)>,
    /// Labels of commands, and how many entries give each.
    pub commands: Vec<(String, usize)>,
    /// The patterns over arguments.
    pub patterns: Vec<String>,
    /// The packs of redaction rules.
    pub packs: Vec<Pack>,
    /// Whose data is kept apart.
    pub entities: Vec<String>,
}

/// A layer.
#[derive(Debug)]
pub struct LayerInForce {
    /// What the ids of its policies start with.
    pub name: &'static str,
    /// Its directory, as a person finds it.
    pub dir: String,
    /// How many files it has.
    pub files: usize,
    /// How many policies.
    pub policies: usize,
    /// The digest of its files alone.
    pub digest: String,
}

/// Policies that are about the same.
#[derive(Debug)]
pub struct Group {
    /// The actions, in words.
    pub about: String,
    /// Their places in the bundle: what allows first, then what asks, then what denies.
    pub policies: Vec<usize>,
}

/// A pack of redaction rules.
#[derive(Debug)]
pub struct Pack {
    /// Its name.
    pub name: String,
    /// What takes out what it finds.
    pub obligation: &'static str,
    /// Whether it is on.
    pub on: bool,
    /// How many rules of it are on.
    pub rules: usize,
}

impl Overview {
    /// What the bundle of those layers says.
    #[must_use]
    pub fn of(bundle: &Bundle, sources: &[Source]) -> Self {
        let containment = &bundle.settings.containment;
        let mut commands: BTreeMap<String, usize> = BTreeMap::new();
        for program in containment.programs.all().flatten() {
            for label in &program.labels {
                *commands.entry(label.clone()).or_default() += 1;
            }
        }
        let labels = containment.labels.iter();
        Self {
            layers: sources.iter().map(|source| layer(bundle, source)).collect(),
            groups: groups(bundle),
            labels: labels
                .map(|label| (label.name.clone(), label.paths.len()))
                .collect(),
            commands: commands.into_iter().collect(),
            patterns: bundle
                .settings
                .patterns
                .iter()
                .map(|pattern| pattern.id.clone())
                .collect(),
            packs: packs(bundle, sources),
            entities: bundle
                .settings
                .entities
                .all
                .iter()
                .map(|entity| entity.name.clone())
                .collect(),
        }
    }
}

/// The policies of that id, which may have its layer in front.
pub fn policies_named<'b>(bundle: &'b Bundle, id: &'b str) -> impl Iterator<Item = &'b Policy> {
    bundle.policies.iter().filter(move |policy| {
        policy.id == id
            || policy
                .id
                .split_once(':')
                .is_some_and(|(_, bare)| bare == id)
    })
}

/// A policy as it is written, with the comment above it.
#[must_use]
pub fn written(policy: &Policy, sources: &[Source]) -> Option<String> {
    let mut files = sources.iter().flat_map(|source| &source.files);
    let file = files.find(|file| file.path == policy.file)?;
    let bare = policy
        .id
        .split_once(':')
        .map_or(policy.id.as_str(), |(_, bare)| bare);
    let (above, text) = format::commented(&file.text)
        .find(|(_, text)| text.contains(&format!("@id(\"{bare}\")")))?;
    let mut comment: Vec<&str> = above
        .trim_end()
        .lines()
        .rev()
        .take_while(|line| !line.trim().is_empty())
        .collect();
    // What stands apart is not about this policy alone.
    if above.trim_end_matches([' ', '\t']).ends_with("\n\n") {
        comment.clear();
    }
    comment.reverse();
    comment.push(text);
    Some(comment.join("\n"))
}

/// The sentence of a policy for whoever reads it without a call: what it is about has no name yet.
#[must_use]
pub fn sentence(policy: &Policy) -> String {
    let kinds: Vec<ResourceType> = ResourceType::ALL
        .into_iter()
        .filter(|kind| policy.resources.contains(*kind))
        .collect();
    let noun = match kinds.as_slice() {
        [ResourceType::Path] => "the path",
        [ResourceType::Command] => "the command",
        [ResourceType::Url] => "the address",
        [ResourceType::Tool] => "the tool",
        [ResourceType::Text] => "the text",
        _ => "it",
    };
    let text = policy
        .reason
        .replace("tool `{tool}`", "tool")
        .replace("\"{resource}\"", "")
        .replace("`{resource}`", noun);
    let text = text
        .replace("`{tool}`", "the tool")
        .replace("{resource}", noun)
        .replace("{tool}", "the tool");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn layer(bundle: &Bundle, source: &Source) -> LayerInForce {
    let name = source.layer.prefix();
    let of_it = |policy: &&Policy| {
        policy
            .id
            .split_once(':')
            .is_some_and(|(layer, _)| layer == name)
    };
    LayerInForce {
        name,
        dir: source.dir.clone(),
        files: source.files.len(),
        policies: bundle.policies.iter().filter(of_it).count(),
        digest: digest(std::slice::from_ref(source)),
    }
}

fn groups(bundle: &Bundle) -> Vec<Group> {
    let mut groups: Vec<(usize, Group)> = Vec::new();
    for (index, policy) in bundle.policies.iter().enumerate() {
        let (rank, about) = about(policy);
        match groups.iter_mut().find(|(_, group)| group.about == about) {
            Some((_, group)) => group.policies.push(index),
            None => {
                let policies = vec![index];
                groups.push((rank, Group { about, policies }));
            }
        }
    }
    groups.sort_by_key(|(rank, _)| *rank);
    let effect = |index: &usize| {
        bundle
            .policies
            .get(*index)
            .map(|policy| policy.verdict.effect())
    };
    groups
        .into_iter()
        .map(|(_, mut group)| {
            group.policies.sort_by_key(effect);
            group
        })
        .collect()
}

/// What a policy is about, and where that stands among the others.
fn about(policy: &Policy) -> (usize, String) {
    let actions: Vec<Action> = Action::ALL
        .into_iter()
        .filter(|action| policy.actions.contains(*action))
        .collect();
    let first = actions
        .first()
        .and_then(|first| Action::ALL.iter().position(|action| action == first));
    let is_tools = |kind| policy.resources != ResourceSet::EVERY && policy.resources.contains(kind);
    match actions.as_slice() {
        _ if policy.actions == ActionSet::EVERY || actions.len() == Action::ALL.len() => {
            (Action::ALL.len() + 1, "whatever happens".to_owned())
        }
        _ if policy.actions == ActionSet::tool_use() && is_tools(ResourceType::Tool) => {
            (Action::ALL.len(), "every use of a tool".to_owned())
        }
        [one] => (first.unwrap_or_default(), one.name().to_owned()),
        many => {
            let names: Vec<&str> = many.iter().map(|action| action.name()).collect();
            (Action::ALL.len(), names.join(", "))
        }
    }
}

fn packs(bundle: &Bundle, sources: &[Source]) -> Vec<Pack> {
    let redaction = &bundle.settings.redaction;
    let mut packs = Vec::new();
    for (rules, obligation) in [
        (&redaction.secrets, "redact:secrets"),
        (&redaction.phi, "redact:phi"),
    ] {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        if let Ok(set) = rules.open() {
            for rule in set.about().unwrap_or_default() {
                *counts.entry(rule.pack.clone()).or_default() += 1;
            }
        }
        packs.extend(counts.into_iter().map(|(name, rules)| Pack {
            name,
            obligation,
            on: true,
            rules,
        }));
    }
    let files = sources.iter().flat_map(|source| &source.files);
    for file in files.filter(|file| is_pack(&file.name)) {
        let table: toml::Table = file.text.parse().unwrap_or_default();
        let text = |key| {
            table
                .get(key)
                .and_then(toml::Value::as_str)
                .unwrap_or_default()
        };
        let (name, purpose) = (text("pack"), text("purpose"));
        if packs.iter().any(|pack| pack.name == name) {
            continue;
        }
        packs.push(Pack {
            name: name.to_owned(),
            obligation: if purpose == "phi" {
                "redact:phi"
            } else {
                "redact:secrets"
            },
            on: false,
            rules: 0,
        });
    }
    packs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{layer::embedded, load_sources};

    #[test]
    fn every_policy_is_in_one_group_and_has_its_text() {
        let sources = [embedded()];
        let bundle = load_sources(&sources).unwrap();
        let overview = Overview::of(&bundle, &sources);
        let mut all: Vec<usize> = overview
            .groups
            .iter()
            .flat_map(|group| group.policies.clone())
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..bundle.policies.len()).collect::<Vec<_>>());
        assert_eq!(overview.groups[0].about, "read");
        for policy in &bundle.policies {
            let text = written(policy, &sources).unwrap();
            assert!(text.contains("@reason(") && text.ends_with(';'), "{text}");
            let said = sentence(policy);
            assert!(!said.contains('{'), "{said}");
        }
        let off: Vec<&str> = overview
            .packs
            .iter()
            .filter(|pack| !pack.on)
            .map(|pack| pack.name.as_str())
            .collect();
        assert_eq!(off, ["legacy"]);
        assert!(
            overview
                .packs
                .iter()
                .any(|pack| pack.name == "secrets" && pack.rules > 50)
        );
        assert!(
            overview
                .labels
                .iter()
                .any(|(name, count)| name == "guard" && *count > 5)
        );
        assert!(
            overview
                .commands
                .iter()
                .any(|(name, count)| name == "everyday" && *count > 20)
        );
    }

    #[test]
    fn a_policy_is_found_with_its_layer_or_without() {
        let sources = [embedded()];
        let bundle = load_sources(&sources).unwrap();
        for id in ["ask-publish", "default:ask-publish"] {
            assert_eq!(policies_named(&bundle, id).count(), 1);
        }
        assert_eq!(policies_named(&bundle, "user:ask-publish").count(), 0);
        let found = policies_named(&bundle, "ask-publish").next().unwrap();
        assert_eq!(
            sentence(found),
            "the command publishes something under your name"
        );
    }
}
