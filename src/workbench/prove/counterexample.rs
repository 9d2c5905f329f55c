//! From what a solver found to a request of ours: the facts by which a claim does not hold.

use cedar_policy::{EntityUid, EvalResult};
use cedar_policy_symcc::Env;
use serde_json::{Map, Value, json};

use super::environment::Environment;
use crate::engine::attribute::{AGENT, Attribute, CONTEXT};
use crate::engine::bundle::Settings;
use crate::engine::request::{CommandFacts, PathFacts, Request, Resource, ToolFacts, UrlFacts};
use crate::engine::schema::attributes;

/// The request that a solver found.
///
/// # Errors
/// If there can be no such request.
pub(in crate::workbench) fn request(
    found: &Env,
    environment: Environment,
    settings: &Settings,
) -> Result<Request, String> {
    let asked = &found.request;
    let none = || "the solver left out what was asked".to_owned();
    let principal = asked.principal().ok_or_else(none)?;
    let resource = asked.resource().ok_or_else(none)?;
    let context = asked.context().ok_or_else(none)?;
    let of = |uid: &EntityUid, name: &str| found.entities.get(uid)?.attr(name)?.ok();
    let mut agent = record(AGENT, |name| of(principal, name));
    let kind = environment.resource;
    let mut thing = record(attributes(kind), |name| of(resource, name));
    let mut circumstances = record(CONTEXT, |name| context.get(name));
    // The solver was not asked about it: see `settled`.
    circumstances.insert("depth_limit".to_owned(), settings.limits.depth.into());
    if let Some(depth) = circumstances.get("depth") {
        agent.insert("depth".to_owned(), depth.clone());
    }
    thing.insert("type".to_owned(), kind.name().to_lowercase().into());
    let request = json!({
        "principal": agent,
        "action": environment.action.name(),
        "resource": thing,
        "context": circumstances,
    });
    let mut request: Request = serde_json::from_value(request)
        .map_err(|_| "the solver found facts that do not fit into any request".to_owned())?;
    // A policy may name an entity itself; facts and name belong together.
    let id = |uid: &EntityUid| AsRef::<str>::as_ref(uid.id()).to_owned();
    if names_something(&id(principal)) {
        request.principal.session = id(principal);
    }
    if names_something(&id(resource)) {
        name_resource(&mut request.resource, id(resource));
    }
    settle(&mut request, settings);
    Ok(request)
}

/// The request with the facts that settings alone decide.
pub(in crate::workbench) fn settle(request: &mut Request, settings: &Settings) {
    request.context.depth_limit = settings.limits.depth;
    request.principal.depth = request.context.depth;
    if let Resource::Tool(tool) = &mut request.resource {
        tool.harmless = tool.server.is_empty() && settings.harmless_tools.contains(&tool.name);
    }
}

/// Solvers call entities nothing, or `@1`, unless a policy names one.
fn names_something(id: &str) -> bool {
    !id.is_empty() && !id.starts_with('@') && !id.chars().all(|c| c.is_ascii_digit())
}

fn name_resource(resource: &mut Resource, id: String) {
    match resource {
        Resource::Path(path) => path.resolved = id,
        Resource::Command(command) => command.text = id,
        Resource::Url(url) => url.given = id,
        Resource::Tool(tool) => tool.name = id,
        Resource::Text(text) => text.kind = id,
    }
}

/// The attributes of a table; what the solver says nothing of is as it would be without anything.
fn record(table: &[Attribute], of: impl Fn(&str) -> Option<EvalResult>) -> Map<String, Value> {
    table
        .iter()
        .filter_map(|attribute| {
            let value = of(attribute.name)
                .and_then(plain)
                .or_else(|| nothing(attribute.cedar))?;
            Some((attribute.name.to_owned(), value))
        })
        .collect()
}

fn nothing(cedar: &str) -> Option<Value> {
    Some(match cedar {
        "Bool" => false.into(),
        "Long" => 0.into(),
        "String" => "".into(),
        "Set<String>" => json!([]),
        "Input" => json!({}),
        _ => return None,
    })
}

fn plain(value: EvalResult) -> Option<Value> {
    Some(match value {
        EvalResult::Bool(value) => value.into(),
        EvalResult::Long(value) => value.into(),
        EvalResult::String(value) => value.into(),
        EvalResult::Set(all) => all.iter().cloned().filter_map(plain).collect(),
        _ => return None,
    })
}

/// The request with plain facts in the place of those that do not matter, so that a person sees those
/// that do. `still` says whether it is a counterexample yet.
pub(in crate::workbench) fn plainer(
    request: Request,
    still: &mut dyn FnMut(&Request) -> bool,
) -> Request {
    let labels = request.resource.labels().cloned().unwrap_or_default();
    let mut best = request;
    let mut attempt = |change: &dyn Fn(&mut Request)| {
        let mut other = best.clone();
        change(&mut other);
        if other != best && still(&other) {
            best = other;
        }
    };
    attempt(&|r| {
        r.principal.parent = None;
        r.principal.kind = None;
    });
    let set = |at: &mut String, text: &str| text.clone_into(at);
    attempt(&|r| set(&mut r.principal.host, "copilot"));
    attempt(&|r| set(&mut r.principal.session, "session"));
    attempt(&|r| {
        r.context.depth = 0;
        r.principal.depth = 0;
    });
    attempt(&|r| set(&mut r.context.event, "pre_tool_use"));
    attempt(&|r| set(&mut r.context.cwd, "/work"));
    attempt(&|r| set(&mut r.context.workspace, "/work"));
    attempt(&|r| set(&mut r.context.tool, ""));
    attempt(&|r| set(&mut r.context.operation, ""));
    attempt(&|r| set(&mut r.context.interactive, "unknown"));
    attempt(&|r| set(&mut r.context.entity, ""));
    attempt(&|r| r.context.can_replace_results = true);
    attempt(&|r| r.context.can_replace_prompts = true);
    attempt(&|r| r.context.phi = false);
    attempt(&|r| r.context.placeholder = false);
    attempt(&|r| r.context.patterns.clear());
    attempt(&|r| r.context.secrets.clear());
    attempt(&|r| r.context.health.clear());
    for label in labels {
        attempt(&|r| match &mut r.resource {
            Resource::Path(path) => {
                path.labels.remove(&label);
            }
            Resource::Command(command) => {
                command.labels.remove(&label);
            }
            Resource::Url(_) | Resource::Tool(_) | Resource::Text(_) => {}
        });
    }
    plainer_resource(best, still)
}

/// A change of a resource that makes it plainer.
type Change<T> = fn(&mut T);

fn plainer_resource(request: Request, still: &mut dyn FnMut(&Request) -> bool) -> Request {
    let mut best = request;
    let mut attempt = |change: &dyn Fn(&mut Resource)| {
        let mut other = best.clone();
        change(&mut other.resource);
        if other != best && still(&other) {
            best = other;
        }
    };
    for change in PATH {
        attempt(&|resource| {
            if let Resource::Path(path) = resource {
                change(path);
            }
        });
    }
    for change in COMMAND {
        attempt(&|resource| {
            if let Resource::Command(command) = resource {
                change(command);
            }
        });
    }
    for change in URL {
        attempt(&|resource| {
            if let Resource::Url(url) = resource {
                change(url);
            }
        });
    }
    for change in TOOL {
        attempt(&|resource| {
            if let Resource::Tool(tool) = resource {
                change(tool);
            }
        });
    }
    attempt(&|resource| {
        if let Resource::Text(text) = resource {
            "text".clone_into(&mut text.kind);
        }
    });
    best
}

const PATH: [Change<PathFacts>; 6] = [
    |path| path.fault.clear(),
    |path| path.link = false,
    |path| path.exists = true,
    |path| path.resolved = format!("{}file", folder(path)),
    |path| {
        if !path.resolved.starts_with(folder(path)) {
            let inner = path.resolved.trim_start_matches('/');
            path.resolved = format!("{}{inner}", folder(path));
        }
    },
    |path| path.given.clone_from(&path.resolved),
];

fn folder(path: &PathFacts) -> &'static str {
    if path.inside { "/work/" } else { "/elsewhere/" }
}

const COMMAND: [Change<CommandFacts>; 7] = [
    |command| command.code.clear(),
    |command| command.subcommand.clear(),
    |command| command.arguments.clear(),
    |command| command.beside.clear(),
    |command| command.certain = true,
    |command| "program".clone_into(&mut command.program),
    |command| command.text.clone_from(&command.program),
];

const URL: [Change<UrlFacts>; 6] = [
    |url| url.fault.clear(),
    |url| url.private = false,
    |url| "https".clone_into(&mut url.scheme),
    |url| "example.com".clone_into(&mut url.host),
    |url| url.port = 443,
    |url| url.given = format!("{}://{}/", url.scheme, url.host),
];

const TOOL: [Change<ToolFacts>; 3] = [
    |tool| tool.server.clear(),
    |tool| tool.known = true,
    |tool| "some_tool".clone_into(&mut tool.name),
];
