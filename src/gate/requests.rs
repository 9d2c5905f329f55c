//! From one event to the requests that it is.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::event::{Body, Event, EventName, ToolCall};
use super::place::Installation;
use crate::engine::REQUEST_LIMIT;
use crate::engine::action::Action;
use crate::engine::bundle::Bundle;
use crate::engine::containment::Places;
use crate::engine::decision::FaultClass;
use crate::engine::pattern::{Haystack, PatternScope};
use crate::engine::request::{
    Agent, CommandFacts, Context, PathFacts, Request, Resource, TextFacts, UrlFacts,
};
use crate::facts::chain::Lineage;
use crate::facts::paths::{self, Resolved, Workspace};
use crate::facts::scripts::Scripts;
use crate::facts::shell::{self, Access, CodeSource, PathUse, Surroundings};
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
#[derive(Debug, Clone)]
pub(super) struct Questions {
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
}

/// The requests that an event is.
///
/// # Errors
/// If the working directory cannot be used, or the arguments are not what the tool takes.
pub(super) fn questions(
    event: &Event,
    bundle: &Bundle,
    here: &Installation,
) -> Result<Questions, Fault> {
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
        .max(here.depth);
    let asker = Asker {
        bundle,
        home,
        state: &here.state,
        places: here.places(&workspace),
        context: Context {
            event: event.name.snake().to_owned(),
            cwd: display(&workspace.cwd),
            workspace: workspace.root.as_deref().map(display).unwrap_or_default(),
            depth: agent.depth,
            depth_limit: bundle.settings.limits.depth,
            interactive: event.host.interactive.to_owned(),
            can_replace_results: event.host.replaces_results,
            ..Context::default()
        },
        agent: agent.clone(),
        workspace,
    };
    let cwd = asker.context.cwd.clone();
    let root = asker.workspace.root.clone();
    let tool = event
        .call()
        .map(|call| Tool::identify(&call.name, &call.args).facts.qualified())
        .unwrap_or_default();
    let requests = match &event.body {
        Body::Call(call) if event.name != EventName::PreMcpToolCall => asker.call(call)?,
        Body::Call(_) => asker.text(Action::Session, event.name.snake(), 0, &tool),
        Body::Result { text, .. } => asker.text(Action::Result, "result", text.len(), &tool),
        Body::Prompt { text } => asker.text(Action::Prompt, "prompt", text.len(), ""),
        Body::Error { message, .. } => asker.text(Action::Error, "error", message.len(), ""),
        Body::Start { .. } | Body::End { .. } | Body::Subagent { .. } | Body::Notice { .. } => {
            asker.text(Action::Session, event.name.snake(), 0, "")
        }
    };
    Ok(Questions {
        requests,
        agent,
        tool,
        cwd,
        root,
    })
}

struct Asker<'a> {
    bundle: &'a Bundle,
    home: Option<&'a Path>,
    state: &'a Path,
    places: Places,
    workspace: Workspace,
    agent: Agent,
    context: Context,
}

impl Asker<'_> {
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

        let mut requests =
            vec![self.ask(tool.action, Resource::Tool(tool.facts.clone()), &context)];
        match (tool.action, tool.facts.name.as_str()) {
            (Action::Shell, "bash") => self.command(call, &context, &mut requests)?,
            (Action::Shell, _) => self.unread_command(call, &context, &mut requests),
            (_, "apply_patch") => self.patch(call, &context, &mut requests)?,
            (Action::Url, _) => self.addresses(call, &context, &mut requests)?,
            (Action::Read | Action::Write, _) => {
                self.paths(&tool, call, &context, &mut requests)?
            }
            // Nobody knows what a foreign tool does with a path: it is taken to write.
            _ if !tool.facts.known => {
                for given in self.path_arguments(&call.args)? {
                    requests.push(self.path(Action::Write, &given, &context));
                }
            }
            _ => {}
        }
        Ok(requests)
    }

    fn path_arguments(&self, args: &Value) -> Result<Vec<String>, Fault> {
        let data_keys = &self.bundle.settings.containment.data_keys;
        distinct(tools::path_arguments(args, data_keys))
    }

    fn paths(
        &self,
        tool: &Tool,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        let mut given = self.path_arguments(&call.args)?;
        if tool.facts.name == "glob" {
            given.extend(glob_base(&call.args));
        }
        // A search without a path searches the working directory.
        if given.is_empty() && tool.operation == "list" {
            given.push(".".to_owned());
        }
        for path in &given {
            requests.push(self.path(tool.action, path, context));
        }
        Ok(())
    }

    fn patch(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        let patch = match &call.args {
            Value::String(patch) => patch,
            Value::Object(fields) => ["input", "patch", "diff"]
                .iter()
                .find_map(|key| match fields.get(*key) {
                    Some(Value::String(patch)) => Some(patch),
                    _ => None,
                })
                .ok_or_else(|| input("`apply_patch` comes without a patch"))?,
            _ => return Err(input("`apply_patch` comes without a patch")),
        };
        let files = tools::patch_files(patch);
        if files.is_empty() {
            return Err(input("the patch names no file"));
        }
        for (operation, path) in distinct(files)? {
            let context = Context {
                operation: operation.to_owned(),
                ..context.clone()
            };
            requests.push(self.path(Action::Write, &path, &context));
        }
        Ok(())
    }

    fn addresses(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        let mut texts = Vec::new();
        tools::texts(&call.args, &mut texts);
        texts.retain(|text| text.contains("://"));
        for given in distinct(texts)? {
            let facts = UrlFacts {
                given: given.to_owned(),
            };
            requests.push(self.ask(Action::Url, Resource::Url(facts), context));
        }
        Ok(())
    }

    fn command(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        let Some(line) = command_line(call) else {
            self.unread_command(call, context, requests);
            return Ok(());
        };
        let mut cwd = self.workspace.cwd.clone();
        for given in self.path_arguments(&without_command(&call.args))? {
            let path = self.path(Action::Read, &given, context);
            if let Resource::Path(facts) = &path.resource {
                cwd = PathBuf::from(&facts.resolved);
            }
            requests.push(path);
        }
        let here = Surroundings {
            cwd: &cwd,
            root: self.workspace.root.as_deref(),
            home: self.home,
        };
        let analysed = shell::analyse(line, &self.bundle.settings.containment, here);
        for path in distinct(analysed.paths)? {
            requests.push(self.path_use(&path, context));
        }
        for command in analysed.commands {
            let mut labels = command.labels;
            // A program given by its path is what stands there, not what its name promises.
            if command.path.contains('/') && !self.is_system(&command.path, &cwd) {
                labels.remove("everyday");
            }
            let mut code = command.code;
            let written = Scripts::new(self.state, self.workspace.root.as_deref().unwrap_or(&cwd));
            if code == CodeSource::File && command.scripts.iter().any(|path| written.holds(path)) {
                code = CodeSource::Written;
            }
            let facts = CommandFacts {
                text: command.text,
                program: command.program,
                subcommand: command.subcommand,
                arguments: command.arguments.into_iter().collect(),
                certain: command.certain,
                code: code.name().to_owned(),
                labels,
            };
            requests.push(self.ask(Action::Shell, Resource::Command(facts), context));
        }
        let said = requests
            .iter()
            .any(|request| matches!(request.resource, Resource::Command(_)));
        if analysed.uncertain.is_some() || !said {
            let facts = CommandFacts {
                text: line.to_owned(),
                certain: analysed.uncertain.is_none(),
                ..CommandFacts::default()
            };
            requests.push(self.ask(Action::Shell, Resource::Command(facts), context));
        }
        Ok(())
    }

    fn is_system(&self, path: &str, cwd: &Path) -> bool {
        let resolved = paths::resolve(path, cwd, self.home);
        let target = display(&resolved.target);
        let written = display(&resolved.written);
        let containment = &self.bundle.settings.containment;
        containment
            .path_labels(&target, &written, &self.places)
            .contains("system")
    }

    fn path_use(&self, path: &PathUse, context: &Context) -> Request {
        let (action, operation) = match path.access {
            Access::Read => (Action::Read, "read"),
            Access::Write => (Action::Write, "update"),
            Access::Delete => (Action::Write, "delete"),
        };
        let context = Context {
            operation: operation.to_owned(),
            ..context.clone()
        };
        let resolved = paths::resolve(&path.given, &path.cwd, self.home);
        self.resolved(action, &path.given, resolved, &context)
    }

    /// A command line that is not understood, or that stands where nobody expects it: its text is
    /// the only fact.
    fn unread_command(&self, call: &ToolCall, context: &Context, requests: &mut Vec<Request>) {
        let facts = CommandFacts {
            text: command_line(call).map_or_else(|| call.args.to_string(), str::to_owned),
            ..CommandFacts::default()
        };
        requests.push(self.ask(Action::Shell, Resource::Command(facts), context));
    }

    fn path(&self, action: Action, given: &str, context: &Context) -> Request {
        let resolved = self.workspace.resolve(given, self.home);
        self.resolved(action, given, resolved, context)
    }

    fn resolved(
        &self,
        action: Action,
        given: &str,
        resolved: Resolved,
        context: &Context,
    ) -> Request {
        let target = display(&resolved.target);
        let containment = &self.bundle.settings.containment;
        let written = display(&resolved.written);
        let mut labels = containment.path_labels(&target, &written, &self.places);
        if context.operation == "delete" || context.operation == "move" {
            // Who takes a folder away takes what is below it.
            let exists = |path: &str| Path::new(path).symlink_metadata().is_ok();
            labels.extend(containment.labels_below(&target, &self.places, &exists));
        }
        let facts = PathFacts {
            given: given.to_owned(),
            inside: resolved.fault.is_none() && self.workspace.contains(&resolved.target),
            exists: resolved.exists,
            link: resolved.link,
            fault: resolved.fault.unwrap_or_default(),
            resolved: target,
            labels,
        };
        self.ask(action, Resource::Path(facts), context)
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

/// The keys that hosts use for a command line.
const COMMAND_KEYS: [&str; 4] = ["command", "cmd", "script", "input"];

fn command_line(call: &ToolCall) -> Option<&str> {
    COMMAND_KEYS
        .iter()
        .find_map(|key| call.args.get(key)?.as_str())
}

/// The arguments besides the command line.
fn without_command(args: &Value) -> Value {
    let mut rest = args.clone();
    if let Value::Object(fields) = &mut rest {
        fields.retain(|key, _| !COMMAND_KEYS.contains(&key.as_str()));
    }
    rest
}

/// The folder that a glob starts from, where it leaves the working directory.
fn glob_base(args: &Value) -> Option<String> {
    let pattern = args.get("pattern")?.as_str()?;
    let fixed = pattern
        .split(['*', '?', '[', '{'])
        .next()
        .unwrap_or_default();
    shell::looks_like_path(pattern).then(|| {
        if pattern.contains("..") {
            pattern.to_owned()
        } else {
            fixed.to_owned()
        }
    })
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn input(text: &str) -> Fault {
    Fault {
        class: FaultClass::InputError,
        text: text.to_owned(),
    }
}
