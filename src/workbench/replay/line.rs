//! A line of the record as requests again, as far as the record tells them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::reads::{Facts, Owner, all_about};
use crate::audit::line::{Reason, Text};
use crate::audit::record::v1::Kind;
use crate::engine::action::Action;
use crate::engine::bundle::Settings;
use crate::engine::decision::Effect;
use crate::engine::redaction::contains_placeholder;
use crate::engine::request::{
    Agent, CommandFacts, Context, PathFacts, Request, Resource, ResourceType, TextFacts, ToolFacts,
};
use crate::facts::url;

/// What a line has that a judgement depends on, borrowed from its bytes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Recorded<'a> {
    /// The version of its form.
    pub v: u64,
    /// Its number.
    pub seq: u64,
    /// When it was written.
    pub ts: Text<'a>,
    /// What it is about.
    pub kind: Text<'a>,
    /// The event.
    pub event: Text<'a>,
    /// The dialect: the host's name.
    pub dialect: Text<'a>,
    /// The session.
    pub session: Text<'a>,
    /// The agent above.
    pub parent: Text<'a>,
    /// How many agents stand above.
    pub depth: Option<u32>,
    /// Whom the agent works for.
    pub entity: Text<'a>,
    /// The working directory.
    pub cwd: Text<'a>,
    /// The tool.
    pub tool: Text<'a>,
    /// What was judged.
    pub requests: Vec<Asked<'a>>,
    /// Whether something was left out.
    pub truncated: bool,
    /// The answer.
    pub decision: Effect,
    /// The policies that decided.
    pub reasons: Vec<Reason<'a>>,
    /// The answer if nothing were only monitored.
    pub would_decide: Effect,
    /// The policies.
    pub policy_digest: Text<'a>,
    /// What was broken.
    pub error_class: Text<'a>,
}

/// One request, as it is recorded.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub struct Asked<'a> {
    action: Action,
    resource: Thing<'a>,
    #[serde(default)]
    context: Circumstances<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Thing<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    given: Text<'a>,
    #[serde(default)]
    resolved: Text<'a>,
    inside: Option<bool>,
    exists: Option<bool>,
    link: Option<bool>,
    #[serde(default)]
    fault: Text<'a>,
    labels: Option<BTreeSet<String>>,
    #[serde(default)]
    text: Text<'a>,
    #[serde(default)]
    program: Text<'a>,
    arguments: Option<usize>,
    certain: Option<bool>,
    #[serde(default)]
    code: Text<'a>,
    beside: Option<BTreeSet<String>>,
    #[serde(default)]
    server: Text<'a>,
    #[serde(default)]
    name: Text<'a>,
    known: Option<bool>,
    harmless: Option<bool>,
    #[serde(default)]
    tier: Text<'a>,
    #[serde(default)]
    trust: Text<'a>,
    #[serde(default)]
    access: Text<'a>,
    #[serde(default)]
    mode: Text<'a>,
    #[serde(default)]
    description: Text<'a>,
    #[serde(rename = "kind", default)]
    of: Text<'a>,
    bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Circumstances<'a> {
    operation: Text<'a>,
    workspace: Text<'a>,
    depth_limit: Option<u32>,
    interactive: Text<'a>,
    can_replace_results: Option<bool>,
    patterns: Option<BTreeSet<String>>,
    can_replace_prompts: Option<bool>,
    secrets: Option<BTreeSet<String>>,
    health: Option<BTreeSet<String>>,
    placeholder: Option<bool>,
    phi: Option<bool>,
    signals: BTreeSet<String>,
}

/// A request, and the facts about it that the record does not tell.
#[derive(Debug, Clone)]
pub struct Told {
    /// What was asked; a fact that is not known is empty there.
    pub request: Request,
    /// What is not known.
    pub unknown: Facts,
}

impl Recorded<'_> {
    /// The kind; nothing for one that this version does not know.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Kind::named(self.kind.plain()?)
    }

    /// The requests, read with those settings: they say where a subcommand stands.
    #[must_use]
    pub fn requests(&self, settings: &Settings) -> Vec<Told> {
        self.requests
            .iter()
            .filter_map(|asked| self.request(asked, settings))
            .collect()
    }

    fn request(&self, asked: &Asked<'_>, settings: &Settings) -> Option<Told> {
        let mut facts = Known(Facts::NONE);
        let principal = Agent {
            host: facts.text(&self.dialect, Owner::Principal, "host"),
            session: facts.text(&self.session, Owner::Principal, "session"),
            depth: facts.plain(self.depth, Owner::Principal, "depth"),
            parent: match &self.parent {
                Text::Absent => None,
                parent => Some(facts.text(parent, Owner::Principal, "parent")),
            },
            kind: None,
        };
        // No line names the kind of sub-agent.
        facts.lacks(Owner::Principal, "kind");
        if facts.0.meets(Facts::of(Owner::Principal, "session")) {
            facts.0 = facts.0.and(Facts::id(Owner::Principal));
        }
        let mut resource = facts.resource(&asked.resource, settings)?;
        if let Resource::Tool(tool) = &mut resource
            && !facts.0.meets(Facts::id(Owner::Resource))
        {
            // A program that is an agent stands there too, and is never harmless.
            tool.harmless = tool.server.is_empty()
                && settings.harmless_tools.contains(&tool.name)
                && (tool.known || asked.action != Action::Delegate);
        }
        let context = self.context(&asked.context, &mut facts);
        if asked.action == Action::Mcp {
            // No line has the arguments as they were.
            facts.lacks(Owner::Context, "input");
        }
        Some(Told {
            request: Request {
                principal,
                action: asked.action,
                resource,
                context,
            },
            unknown: facts.0,
        })
    }

    fn context(&self, asked: &Circumstances<'_>, facts: &mut Known) -> Context {
        let of = Owner::Context;
        Context {
            event: facts.text(&self.event, of, "event"),
            tool: facts.optional(&self.tool, of, "tool"),
            operation: facts.text(&asked.operation, of, "operation"),
            cwd: facts.text(&self.cwd, of, "cwd"),
            workspace: facts.text(&asked.workspace, of, "workspace"),
            depth: facts.plain(self.depth, of, "depth"),
            depth_limit: facts.plain(asked.depth_limit, of, "depth_limit"),
            interactive: facts.text(&asked.interactive, of, "interactive"),
            can_replace_results: facts.plain(asked.can_replace_results, of, "can_replace_results"),
            patterns: facts.plain(asked.patterns.clone(), of, "patterns"),
            can_replace_prompts: facts.plain(asked.can_replace_prompts, of, "can_replace_prompts"),
            secrets: facts.plain(asked.secrets.clone(), of, "secrets"),
            health: facts.plain(asked.health.clone(), of, "health"),
            placeholder: facts.plain(asked.placeholder, of, "placeholder"),
            entity: facts.optional(&self.entity, of, "entity"),
            phi: facts.plain(asked.phi, of, "phi"),
            signals: asked.signals.clone(),
            input: BTreeMap::new(),
        }
    }
}

/// Takes facts off a line, and keeps in mind which are not there.
struct Known(Facts);

impl Known {
    fn lacks(&mut self, owner: Owner, name: &str) {
        self.0 = self.0.and(Facts::of(owner, name));
    }

    fn plain<T: Default>(&mut self, value: Option<T>, owner: Owner, name: &str) -> T {
        if value.is_none() {
            self.lacks(owner, name);
        }
        value.unwrap_or_default()
    }

    /// A text that is there, whole and as it was.
    fn text(&mut self, text: &Text<'_>, owner: Owner, name: &str) -> String {
        match text.plain() {
            Some(text) if !contains_placeholder(text) => text.to_owned(),
            Some(text) => {
                self.lacks(owner, name);
                text.to_owned()
            }
            None => {
                self.lacks(owner, name);
                String::new()
            }
        }
    }

    /// A text that may well be absent.
    fn optional(&mut self, text: &Text<'_>, owner: Owner, name: &str) -> String {
        match text {
            Text::Absent => String::new(),
            text => self.text(text, owner, name),
        }
    }

    fn resource(&mut self, thing: &Thing<'_>, settings: &Settings) -> Option<Resource> {
        let before = self.0;
        self.0 = Facts::NONE;
        let resource = match thing.kind.plain()? {
            "path" => Resource::Path(self.path(thing)),
            "command" => Resource::Command(self.command(thing, settings)),
            "url" => Resource::Url(self.url(thing)),
            "tool" => Resource::Tool(self.tool(thing)),
            "text" => Resource::Text(self.text_facts(thing)),
            _ => return None,
        };
        if self.0 != Facts::NONE {
            let named = match resource.kind() {
                ResourceType::Path => &["given", "resolved"][..],
                ResourceType::Command => &["text"],
                ResourceType::Url => &["given"],
                ResourceType::Tool => &["server", "name"],
                ResourceType::Text => &["kind"],
            };
            let named = named.iter().map(|name| Facts::of(Owner::Resource, name));
            if named.into_iter().any(|fact| self.0.meets(fact)) {
                self.0 = self.0.and(Facts::id(Owner::Resource));
            }
        }
        self.0 = self.0.and(before);
        Some(resource)
    }

    fn path(&mut self, thing: &Thing<'_>) -> PathFacts {
        let of = Owner::Resource;
        PathFacts {
            given: self.text(&thing.given, of, "given"),
            resolved: self.text(&thing.resolved, of, "resolved"),
            inside: self.plain(thing.inside, of, "inside"),
            exists: self.plain(thing.exists, of, "exists"),
            link: self.plain(thing.link, of, "link"),
            fault: self.text(&thing.fault, of, "fault"),
            labels: self.plain(thing.labels.clone(), of, "labels"),
        }
    }

    fn command(&mut self, thing: &Thing<'_>, settings: &Settings) -> CommandFacts {
        let of = Owner::Resource;
        let mut facts = CommandFacts {
            text: self.text(&thing.text, of, "text"),
            program: self.text(&thing.program, of, "program"),
            certain: self.plain(thing.certain, of, "certain"),
            code: self.text(&thing.code, of, "code"),
            beside: self.plain(thing.beside.clone(), of, "beside"),
            labels: self.plain(thing.labels.clone(), of, "labels"),
            ..CommandFacts::default()
        };
        match (thing.arguments, facts.program.as_str()) {
            // What is not understood has neither.
            (Some(0), "") if thing.program.plain() == Some("") => {}
            (Some(count), _) => match words(&facts, count) {
                Some(words) => {
                    facts.subcommand = subcommand(&facts.program, &words, settings);
                    facts.arguments = words.into_iter().collect();
                }
                None => self.lacks_words(),
            },
            (None, _) => self.lacks_words(),
        }
        facts
    }

    fn lacks_words(&mut self) {
        self.lacks(Owner::Resource, "subcommand");
        self.lacks(Owner::Resource, "arguments");
    }

    fn url(&mut self, thing: &Thing<'_>) -> crate::engine::request::UrlFacts {
        let given = self.text(&thing.given, Owner::Resource, "given");
        if self.0 != Facts::NONE {
            self.0 = self.0.and(all_about(ResourceType::Url));
        }
        url::facts(&given)
    }

    fn tool(&mut self, thing: &Thing<'_>) -> ToolFacts {
        let of = Owner::Resource;
        ToolFacts {
            server: self.text(&thing.server, of, "server"),
            name: self.text(&thing.name, of, "name"),
            known: self.plain(thing.known, of, "known"),
            harmless: self.plain(thing.harmless, of, "harmless"),
            // Only what this program serves has these.
            tier: self.optional(&thing.tier, of, "tier"),
            trust: self.optional(&thing.trust, of, "trust"),
            access: self.optional(&thing.access, of, "access"),
            mode: self.optional(&thing.mode, of, "mode"),
            description: self.optional(&thing.description, of, "description"),
        }
    }

    fn text_facts(&mut self, thing: &Thing<'_>) -> TextFacts {
        let of = Owner::Resource;
        TextFacts {
            kind: self.text(&thing.of, of, "kind"),
            bytes: self.plain(thing.bytes, of, "bytes"),
        }
    }
}

/// The words behind the program, where the line leaves no doubt: plain words, as many different ones
/// as were counted.
///
/// The words of a command inside of another are recorded with blanks between them. Were a blank part
/// of one, there would be more words here than were counted.
fn words(facts: &CommandFacts, count: usize) -> Option<Vec<String>> {
    let odd = |c: char| "$`*?[]{}~\\;&|<>()!#\n\r".contains(c) || (c.is_control() && c != '\t');
    if contains_placeholder(&facts.text) || facts.text.contains(odd) {
        return None;
    }
    let mut words = shlex::split(&facts.text)?.into_iter();
    let first = words.next()?;
    if first.contains('=') || first.rsplit('/').next() != Some(facts.program.as_str()) {
        return None;
    }
    let words: Vec<String> = words.collect();
    let different: BTreeSet<&String> = words.iter().collect();
    (different.len() == count && words.len() == count).then_some(words)
}

fn subcommand(program: &str, words: &[String], settings: &Settings) -> String {
    let front = settings
        .containment
        .front(program, words.iter().map(|word| Some(word.as_str())));
    let word = front.subcommand.and_then(|index| words.get(index));
    word.cloned().unwrap_or_default()
}
