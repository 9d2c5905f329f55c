//! From one event to the requests that it is.

mod commands;
mod paths;
mod served;

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::cleaning::{Cleaner, Found, Rulebook};
use super::event::{Body, Event, EventName, ToolCall};
use super::place::{Installation, Lookout};
use crate::engine::REQUEST_LIMIT;
use crate::engine::action::Action;
use crate::engine::bundle::Bundle;
use crate::engine::containment::Places;
use crate::engine::decision::FaultClass;
use crate::engine::injection::Said;
use crate::engine::pattern::{Haystack, PatternError, PatternScope};
use crate::engine::redaction;
use crate::engine::request::{Agent, Context, Request, Resource, TextFacts};
use crate::facts::chain::{Lineage, agents_above};
use crate::facts::names::Names;
use crate::facts::paths::Workspace;
use crate::facts::tools::{self, Tool};

/// Why an event could not be made into requests. Always a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What is broken.
    pub class: FaultClass,
    /// In words.
    pub text: String,
}

/// The requests of an event, and the facts that the record wants besides.
#[derive(Debug)]
pub(super) struct Questions<'a> {
    /// The requests.
    pub requests: Vec<Request>,
    /// The agent with its depth.
    pub agent: Agent,
    /// The canonical name of the tool, or empty.
    pub tool: String,
    /// The working directory, resolved.
    pub cwd: String,
    /// The workspace root, resolved.
    pub root: Option<PathBuf>,
    /// The entity that the agent works for, or empty.
    pub entity: String,
    /// The places that exceptions may name, where there are any.
    pub places: Option<Places>,
    /// Who takes out of its texts what must not go on.
    pub cleaner: Cleaner<'a>,
    /// What must not go on.
    pub found: Found,
}

/// What an event is looked at with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means<'a> {
    pub(super) bundle: &'a Bundle,
    pub(super) rules: &'a Rulebook,
    pub(super) here: &'a Installation,
    pub(super) lookout: &'a Lookout,
    /// What placeholders depend on.
    pub(super) key: [u8; 32],
}

/// The requests that an event is.
///
/// # Errors
/// If the working directory cannot be used, or the arguments are not what the tool takes.
pub(super) fn questions<'a>(event: &Event, means: &Means<'a>) -> Result<Questions<'a>, Fault> {
    let Means {
        bundle,
        rules,
        here,
        lookout,
        key,
    } = *means;
    let home = here.home.as_deref();
    let configured = bundle.settings.containment.workspace_root.as_deref();
    let cwd = event
        .cwd
        .as_deref()
        .ok_or_else(|| input("the event names no working directory"))?;
    let workspace = here
        .workspace(cwd, configured)
        .map_err(|text| input(&text))?;

    let mut agent = event.agent.clone();
    agent.depth = Lineage::new(&here.state)
        .depth(event.agent_id.as_deref(), agent.parent.as_deref())
        .max(here.depth)
        .max(agent.depth)
        .max(if here.count_ancestors {
            agents_above(&bundle.settings.containment.agents)
        } else {
            0
        });
    let around = lookout.around(here, &workspace);
    let places = around.places.clone();
    let of_exceptions = (!bundle.settings.exceptions.is_empty()).then(|| places.clone());
    let entities = &bundle.settings.entities;
    let folder = workspace.root.as_deref().unwrap_or(&workspace.cwd);
    let entity = entities.at(&display(folder), &places);
    let phi = entities.phi(entity);
    let cleaner = rules.cleaner(event, bundle, phi, key).map_err(unclean)?;
    let found = cleaner.look(event).map_err(unclean)?;
    let mut asker = Asker {
        bundle,
        home,
        state: &here.state,
        context: Context {
            event: event.name.snake().to_owned(),
            cwd: display(&workspace.cwd),
            workspace: workspace.root.as_deref().map(display).unwrap_or_default(),
            depth: agent.depth,
            depth_limit: bundle.settings.limits.depth,
            interactive: event.host.interactive.to_owned(),
            can_replace_results: event.host.replaces_results,
            entity: entity.map(|entity| entity.name.clone()).unwrap_or_default(),
            phi,
            can_replace_prompts: event.host.replaces_prompts,
            secrets: found.secrets.clone(),
            health: found.health.clone(),
            placeholder: found.placeholder,
            ..Context::default()
        },
        agent: agent.clone(),
        places,
        workspace,
        names: &around.names,
        mount: OnceCell::new(),
    };
    let cwd = asker.context.cwd.clone();
    let entity = asker.context.entity.clone();
    let root = asker.workspace.root.clone();
    let tool = match (&event.served, event.call()) {
        (Some(served), _) => served.tool.qualified(),
        (None, Some(call)) => Tool::identify(&call.name, &call.args).facts.qualified(),
        (None, None) => String::new(),
    };
    let requests = match (&event.served, &event.body) {
        (Some(served), Body::Call(call)) => {
            asker.at_home(call, here, |asker| asker.served(served, call))?
        }
        (None, Body::Call(call)) if event.name != EventName::PreMcpToolCall => {
            asker.at_home(call, here, |asker| asker.call(call))?
        }
        (Some(served), Body::Content { content, .. }) if !served.tool.trust.is_empty() => {
            asker.context.signals = asker.signals(content)?;
            asker.texts(event.name, &event.body, &tool)
        }
        (_, body) => asker.texts(event.name, body, &tool),
    };
    Ok(Questions {
        requests,
        agent,
        tool,
        cwd,
        root,
        entity,
        places: of_exceptions,
        cleaner,
        found,
    })
}

/// Whether something in the arguments may stand for the user's home.
fn names_home(args: &Value) -> bool {
    let mut texts = Vec::new();
    tools::texts(args, &mut texts);
    let marks = ["~", "HOME", "USERPROFILE", "%7e", "%7E", "\\"];
    let named = |text: &&str| marks.iter().any(|mark| text.contains(mark));
    texts.iter().any(named)
}

struct Asker<'a> {
    bundle: &'a Bundle,
    home: Option<&'a Path>,
    state: &'a Path,
    places: Places,
    workspace: Workspace,
    agent: Agent,
    context: Context,
    /// What policies name and what it is; looked up with the first path.
    names: &'a OnceLock<Names>,
    /// The mount that the workspace root lies on.
    mount: OnceCell<Option<u64>>,
}

impl<'a> Asker<'a> {
    /// The requests of a call, and those that it is where the environment says that home is elsewhere.
    fn at_home(
        &mut self,
        call: &ToolCall,
        here: &'a Installation,
        requests: impl Fn(&Self) -> Result<Vec<Request>, Fault>,
    ) -> Result<Vec<Request>, Fault> {
        let mut all = requests(self)?;
        if here.said_home.is_some() && names_home(&call.args) {
            self.home = here.said_home.as_deref();
            self.places.home = self.home.map(display);
            all.extend(requests(self)?);
        }
        Ok(all)
    }
}

impl Asker<'_> {
    /// The one request of an event that brings a text, or nothing.
    fn texts(&self, name: EventName, body: &Body, tool: &str) -> Vec<Request> {
        match body {
            Body::Call(_) => self.text(Action::Session, name.snake(), 0, tool),
            Body::Result { text, .. } => self.text(Action::Result, "result", text.len(), tool),
            Body::Content { content, .. } => {
                let bytes = content.to_string().len();
                self.text(Action::Result, "result", bytes, tool)
            }
            Body::Prompt { text } => self.text(Action::Prompt, "prompt", text.len(), ""),
            Body::Error { message, .. } => self.text(Action::Error, "error", message.len(), ""),
            Body::Start { .. } | Body::End { .. } | Body::Subagent { .. } | Body::Notice { .. } => {
                self.text(Action::Session, name.snake(), 0, "")
            }
        }
    }

    fn text(&self, action: Action, kind: &str, bytes: usize, tool: &str) -> Vec<Request> {
        let mut context = self.context.clone();
        tool.clone_into(&mut context.tool);
        vec![self.ask(
            action,
            Resource::Text(TextFacts {
                kind: kind.to_owned(),
                bytes: bytes as u64,
            }),
            &context,
        )]
    }

    fn call(&self, call: &ToolCall) -> Result<Vec<Request>, Fault> {
        let mut tool = Tool::identify(&call.name, &call.args);
        let harmless = &self.bundle.settings.harmless_tools;
        tool.facts.harmless = tool.facts.server.is_empty() && harmless.contains(&tool.facts.name);
        let mut context = self.context.clone();
        context.tool = tool.facts.qualified();
        tool.operation.clone_into(&mut context.operation);
        context.patterns = self.patterns(&call.args)?;
        if tool.action == Action::Mcp {
            context.input = served::input(&call.args)?;
        }

        let mut requests =
            vec![self.ask(tool.action, Resource::Tool(tool.facts.clone()), &context)];
        match (tool.action, tool.facts.name.as_str()) {
            (Action::Shell, name) => {
                self.shell_paths(call, &context, &mut requests)?;
                if name == "bash" || self.is_plain(call) {
                    self.command(call, &context, &mut requests)?;
                } else {
                    self.unread_command(call, &context, &mut requests);
                }
            }
            (_, "apply_patch") => self.patch(call, &context, &mut requests)?,
            (Action::Url, _) => self.addresses(&tool, call, &context, &mut requests)?,
            (Action::Read | Action::Write, _) => {
                self.paths(&tool, call, &context, &mut requests)?
            }
            _ if !tool.facts.known => self.foreign_paths(call, &context, &mut requests)?,
            _ => {}
        }
        Ok(requests)
    }

    fn path(&self, action: Action, given: &str, context: &Context) -> Request {
        self.ask(action, Resource::Path(self.path_facts(given)), context)
    }

    fn patterns(&self, args: &Value) -> Result<BTreeSet<String>, Fault> {
        let patterns = &self.bundle.settings.patterns;
        let mut texts = Vec::new();
        tools::texts(args, &mut texts);
        let texts: Vec<Haystack<'_>> = texts.into_iter().map(Haystack::new).collect();
        let line = patterns
            .iter()
            .any(|pattern| pattern.scope == PatternScope::Json)
            .then(|| args.to_string());
        let line: Vec<Haystack<'_>> = line.as_deref().map(Haystack::new).into_iter().collect();
        let mut found = BTreeSet::new();
        for pattern in patterns {
            let matches = pattern.matches(match pattern.scope {
                PatternScope::Json => &line,
                PatternScope::Values => &texts,
            });
            let matches = matches.map_err(|error| Fault {
                class: FaultClass::EvaluationError,
                text: format!("the pattern `{}` does not compile: {}", pattern.id, error.0),
            })?;
            if matches {
                found.insert(pattern.id.clone());
            }
        }
        Ok(found)
    }

    /// What looks like an injection in what a tool of another MCP server answered. Names are texts too.
    fn signals(&self, content: &Value) -> Result<BTreeSet<String>, Fault> {
        let mut all = Vec::new();
        tools::texts(content, &mut all);
        names(content, &mut all);
        let injection = &self.bundle.settings.injection;
        injection.find(&all, Said::Result).map_err(unmatched)
    }

    fn ask(&self, action: Action, resource: Resource, context: &Context) -> Request {
        Request {
            principal: self.agent.clone(),
            action,
            resource,
            context: context.clone(),
        }
    }
}

/// More separate things than this in one event are not looked at, but refused: far more than make
/// it a question, and few enough to be looked at in time.
const MOST: usize = 8 * REQUEST_LIMIT;

/// Each thing once. Equal ones must not push others out of sight.
fn distinct<T: Clone + Eq + Hash>(mut things: Vec<T>) -> Result<Vec<T>, Fault> {
    let mut seen = HashSet::new();
    things.retain(|thing| seen.insert(thing.clone()));
    if things.len() > MOST {
        return Err(input(&format!(
            "the call names more than {MOST} separate things"
        )));
    }
    Ok(things)
}

fn names<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                found.push(name);
                names(value, found);
            }
        }
        Value::Array(all) => all.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

fn unmatched(error: PatternError) -> Fault {
    Fault {
        class: FaultClass::EvaluationError,
        text: format!("a signal of injection.toml does not compile: {}", error.0),
    }
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What cannot be looked at whole may hold anything.
fn unclean(fault: redaction::Fault) -> Fault {
    Fault {
        class: FaultClass::ObligationError,
        text: fault.to_string(),
    }
}

fn input(text: &str) -> Fault {
    Fault {
        class: FaultClass::InputError,
        text: text.to_owned(),
    }
}
