//! What attributes can be: the values of those that have few, and the names that the tables give.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::formula::Test;
use crate::engine::action::Action;
use crate::engine::bundle::Bundle;
use crate::engine::containment::{FOUND, PRIVATE_ADDRESS};
use crate::engine::redaction::Packed;
use crate::engine::request::ResourceType;
use crate::facts::tools::Tool;
use crate::gate::event::EventName;
use crate::policy::diagnostic::{alternatives, quote, suggest};

/// One of the circumstances that a policy is asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Environment {
    /// What is to be done.
    pub(super) action: Action,
    /// To what.
    pub(super) resource: ResourceType,
}

/// Why a test never holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Never {
    /// It is for the person to know.
    Said {
        /// What is wrong.
        message: String,
        /// What would be right.
        help: String,
    },
    /// `policy check` says so already.
    Known,
}

/// What attributes can be under one bundle.
#[derive(Debug, Default)]
pub(super) struct Domain {
    values: BTreeMap<&'static str, Vec<String>>,
    path_labels: BTreeSet<String>,
    command_labels: BTreeSet<String>,
    patterns: BTreeSet<String>,
    secrets: OnceCell<Option<BTreeSet<String>>>,
    health: OnceCell<Option<BTreeSet<String>>>,
    packed: Option<[Packed; 2]>,
}

/// The attributes that have few values, with those that do not depend on the bundle.
const VALUES: [(&str, &[&str]); 9] = [
    (
        "principal.host",
        &["copilot", "claude", "vscode", "xpia", "openclaw", "mcp"],
    ),
    (
        "context.operation",
        &["", "read", "list", "create", "update", "delete", "move"],
    ),
    ("context.interactive", &["yes", "no", "unknown"]),
    (
        "resource.tier",
        &["", "read_only", "draft_only", "governance"],
    ),
    (
        "resource.trust",
        &["", "sandboxed", "trusted_read", "trusted_write"],
    ),
    (
        "resource.access",
        &["", "read_only", "approval_required", "deny"],
    ),
    (
        "resource.mode",
        &[
            "",
            "autonomous",
            "draft_only",
            "propose_certify_apply",
            "blocked",
            "never",
        ],
    ),
    ("resource.description", &["", "accepted", "new", "changed"]),
    (
        "resource.code",
        &[
            "", "judged", "quiet", "file", "inline", "stdin", "written", "unknown", "decoded",
            "download",
        ],
    ),
];

impl Domain {
    /// What attributes can be under that bundle.
    pub(super) fn of(bundle: &Bundle) -> Self {
        let settings = &bundle.settings;
        let containment = &settings.containment;
        let mut values: BTreeMap<&'static str, Vec<String>> = VALUES
            .iter()
            .map(|(subject, values)| {
                let values = values.iter().map(|value| (*value).to_owned());
                (*subject, values.collect())
            })
            .collect();
        let events = EventName::ALL.iter().map(|event| event.snake().to_owned());
        values.insert("context.event", events.collect());
        let mut entities = vec![String::new()];
        entities.extend(
            settings
                .entities
                .all
                .iter()
                .map(|entity| entity.name.clone()),
        );
        values.insert("context.entity", entities);
        let found = FOUND.iter().filter(|name| **name != PRIVATE_ADDRESS);
        let path_labels = containment
            .labels
            .iter()
            .map(|label| label.name.clone())
            .chain(found.map(|name| (*name).to_owned()))
            .collect();
        let programs = containment.programs.all().filter_map(Result::ok);
        let variables = containment.variables.iter();
        let command_labels = programs
            .flat_map(|entry| entry.labels.clone())
            .chain(variables.flat_map(|entry| entry.labels.iter().chain(&entry.used).cloned()))
            .chain(
                containment
                    .leading
                    .iter()
                    .flat_map(|entry| entry.labels.clone()),
            )
            .chain([PRIVATE_ADDRESS.to_owned()])
            .collect();
        Self {
            values,
            path_labels,
            command_labels,
            patterns: settings.patterns.iter().map(|p| p.id.clone()).collect(),
            packed: Some([
                settings.redaction.secrets.clone(),
                settings.redaction.phi.clone(),
            ]),
            ..Self::default()
        }
    }

    /// Every value of the subject, where it has few.
    pub(super) fn values(&self, subject: &str) -> Option<&[String]> {
        self.values.get(subject).map(Vec::as_slice)
    }

    /// Why the test of an attribute never holds there, if it is known not to.
    pub(super) fn never(&self, env: Environment, subject: &str, test: &Test) -> Option<Never> {
        match test {
            Test::Is(text) => self
                .not_among(subject, text)
                .or_else(|| canonical(env, subject, text))
                .or_else(|| form(subject, text, text)),
            Test::Like(pattern) => {
                let values = self.values(subject);
                if values.is_some_and(|all| !all.iter().any(|v| pattern.wildcard_match(v))) {
                    return Some(self.few(subject, &pattern.to_string()));
                }
                let text = pattern.to_string();
                let start = text.split('*').next().unwrap_or_default();
                form(subject, &text, start)
            }
            Test::Has(name) => self.has_never(env, subject, name),
            Test::True | Test::Empty | Test::Below(_) => None,
        }
    }

    fn not_among(&self, subject: &str, text: &str) -> Option<Never> {
        let values = self.values(subject)?;
        (!values.iter().any(|value| value == text)).then(|| self.few(subject, text))
    }

    fn few(&self, subject: &str, text: &str) -> Never {
        let values = self.values(subject).unwrap_or_default();
        let known = values.iter().map(String::as_str).filter(|v| !v.is_empty());
        let help = match suggest(text, known.clone()) {
            Some(help) => help,
            None if known.clone().next().is_none() => "entities.toml names nobody".to_owned(),
            None => format!("it is {}", alternatives(known)),
        };
        Never::Said {
            message: format!("`{subject}` is never `{}`", quote(text)),
            help,
        }
    }

    fn has_never(&self, env: Environment, subject: &str, name: &str) -> Option<Never> {
        let (of_path, of_command) = (
            self.path_labels.contains(name),
            self.command_labels.contains(name),
        );
        let other = |what: &str, other: &str| Never::Said {
            message: format!("no {what} ever carries the label `{}`", quote(name)),
            help: format!("containment.toml gives it to {other}"),
        };
        match (subject, env.resource) {
            ("resource.labels", ResourceType::Path) if !of_path => Some(if of_command {
                other("path", "programs")
            } else {
                Never::Known
            }),
            ("resource.labels", ResourceType::Command) if !of_command => Some(if of_path {
                other("command", "paths; `resource.beside` has those of the line")
            } else {
                Never::Known
            }),
            ("resource.beside", _) if !of_path && !of_command => Some(Never::Known),
            ("context.patterns", _) if !self.patterns.contains(name) => Some(Never::Known),
            ("context.secrets", _) => self.no_rule(name, "secrets", &self.secrets, 0),
            ("context.health", _) => self.no_rule(name, "health information", &self.health, 1),
            _ => None,
        }
    }

    fn no_rule(
        &self,
        name: &str,
        what: &str,
        cell: &OnceCell<Option<BTreeSet<String>>>,
        at: usize,
    ) -> Option<Never> {
        let rules = cell.get_or_init(|| {
            let packed = self.packed.as_ref()?.get(at)?;
            let rules = packed.open().ok()?;
            let about = rules.about().ok()?;
            Some(about.iter().map(|rule| rule.id.clone()).collect())
        });
        let rules = rules.as_ref()?;
        (!rules.contains(name)).then(|| Never::Said {
            message: format!("no rule for {what} is called `{}`", quote(name)),
            help: suggest(name, rules.iter().map(String::as_str))
                .unwrap_or_else(|| "the rules are in redaction/, in packs that are on".to_owned()),
        })
    }
}

/// A host's tool has one name here, whatever the host calls it.
fn canonical(env: Environment, subject: &str, text: &str) -> Option<Never> {
    if env.action == Action::Mcp || !matches!(subject, "resource.name" | "context.tool") {
        return None;
    }
    let tool = Tool::identify(text, &json!({})).facts;
    (tool.known && tool.name != text).then(|| Never::Said {
        message: format!("`{subject}` is never `{}`", quote(text)),
        help: format!(
            "this tool is called `{}` here, whatever the host says",
            tool.name
        ),
    })
}

/// Attributes whose texts have a form of their own.
fn form(subject: &str, text: &str, start: &str) -> Option<Never> {
    let help = match subject {
        "resource.scheme" | "resource.host" if text.chars().any(char::is_uppercase) => {
            "it is in lower case"
        }
        "resource.resolved" | "context.cwd" | "context.workspace"
            if !start.is_empty() && !start.starts_with('/') && !has_drive(start) =>
        {
            "it is absolute, with every link followed and `~` expanded"
        }
        _ => return None,
    };
    Some(Never::Said {
        message: format!("`{subject}` is never `{}`", quote(text)),
        help: help.to_owned(),
    })
}

/// A drive of Windows stands in front, or a share.
fn has_drive(text: &str) -> bool {
    text.starts_with('\\') || text.chars().nth(1) == Some(':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::attribute::{AGENT, Attribute, COMMAND, CONTEXT, TOOL};

    #[test]
    fn the_schema_names_every_value() {
        for (subject, values) in VALUES {
            let (of, name) = subject.split_once('.').unwrap();
            let table: &[Attribute] = match of {
                "principal" => AGENT,
                "context" => CONTEXT,
                _ if TOOL.iter().any(|a| a.name == name) => TOOL,
                _ => COMMAND,
            };
            let doc = table.iter().find(|a| a.name == name).unwrap().doc;
            for value in values.iter().filter(|value| !value.is_empty()) {
                assert!(doc.contains(value), "{subject}: {value}: {doc}");
            }
            let listed = doc.split(": ").next().unwrap().replace(" or ", ", ");
            let words = listed.split(", ").filter(|word| *word != "empty").count();
            let known = values.iter().filter(|value| !value.is_empty()).count();
            assert_eq!(words, known, "{subject}: {doc}");
        }
    }
}
