//! What a call that was stopped would need in order to be allowed, or why nothing is proposed for it.

use crate::engine::action::Action;
use crate::engine::bundle::{Bundle, Verdict};
use crate::engine::containment::{Containment, GUARD};
use crate::engine::permission::Judged;
use crate::engine::request::{CommandFacts, PathFacts, Request, Resource, ToolFacts, UrlFacts};
use crate::workbench::replay::{Facts, Owner, Told};

/// What a request needs in order to be allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A row of `containment.toml`.
    Program {
        /// The program.
        program: String,
        /// Its subcommand; nothing where its first word is no word of a command.
        subcommand: Option<String>,
    },
    /// A further root.
    Path {
        /// Whether it is written.
        write: bool,
        /// The folder, or the file where the folder above is too wide.
        folder: String,
    },
    /// An exception from policies that ask.
    Unless {
        /// Those policies, as indices into the bundle.
        policies: Vec<usize>,
        /// Of what.
        what: Exempt,
    },
}

/// What policies that ask would let through.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exempt {
    /// Addresses of a host, by `https` on its usual port.
    Host(String),
    /// A tool.
    Tool {
        /// The MCP server, or empty for the host's own.
        server: String,
        /// The tool.
        name: String,
    },
}

/// The labels of a path that neither forbid nor ask.
const PLAIN: [&str; 7] = [
    "root_read",
    "root_write",
    "session",
    "sink",
    "system",
    "temp",
    "toolchain",
];

/// The label of a program that may run without a question.
pub(super) const EVERYDAY: &str = "everyday";

/// What the request needs.
///
/// # Errors
/// Why nothing is proposed for it, in words.
pub(super) fn need(told: &Told, judged: &Judged, bundle: &Bundle) -> Result<Need, String> {
    let request = &told.request;
    let hidden = Facts::id(Owner::Resource)
        .and(Facts::of(Owner::Resource, "labels"))
        .and(Facts::of(Owner::Context, "secrets"));
    if told.unknown.meets(hidden) {
        return Err("the record hides what it is about".to_owned());
    }
    if request.resource.has_label(GUARD) {
        return Err("it is what protects the bridge itself".to_owned());
    }
    let context = &request.context;
    if !context.secrets.is_empty() || !context.health.is_empty() || context.placeholder {
        return Err("its arguments hold a secret, health information or a placeholder".to_owned());
    }
    if judged.deciding.is_empty() {
        return Err("no policy permits it: a person writes the permit".to_owned());
    }
    match &request.resource {
        Resource::Command(command) => program(told, command, &bundle.settings.containment),
        Resource::Path(path) => folder(request, path),
        Resource::Url(url) => host(url).and_then(|what| unless(what, judged, bundle)),
        Resource::Tool(tool) => exempt(request, tool).and_then(|what| unless(what, judged, bundle)),
        Resource::Text(_) => Err("it is no call of a tool".to_owned()),
    }
}

fn program(told: &Told, command: &CommandFacts, tables: &Containment) -> Result<Need, String> {
    if !command.certain || command.program.is_empty() {
        return Err("what it does cannot be told from the line alone".to_owned());
    }
    if !["", "judged", "quiet"].contains(&command.code.as_str()) {
        return Err(format!(
            "it runs code that was not judged: {}",
            command.code
        ));
    }
    let labels: Vec<&str> = command.labels.iter().map(String::as_str).collect();
    if labels.contains(&EVERYDAY) {
        return Err("its program is everyday already, and something else stops it".to_owned());
    }
    if !labels.is_empty() {
        return Err(format!("its program is labelled `{}`", labels.join("`, `")));
    }
    let named = |names: &Vec<String>| names.contains(&command.program);
    if tables.interpreters.iter().any(|entry| named(&entry.names))
        || tables.wrappers.iter().any(|entry| named(&entry.names))
    {
        return Err("its program runs other programs".to_owned());
    }
    if !is_word(&command.program, "._+-") {
        return Err("its program has no plain name".to_owned());
    }
    if told.unknown.meets(Facts::of(Owner::Resource, "subcommand")) {
        return Err("the record does not tell its words".to_owned());
    }
    let subcommand = Some(command.subcommand.clone());
    Ok(Need::Program {
        program: command.program.clone(),
        subcommand: subcommand.filter(|word| is_subcommand(word)),
    })
}

/// Whether a word is what programs call their commands: no path, no number, no name of a file.
fn is_subcommand(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.len() <= 32
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_:".contains(c))
}

fn is_word(word: &str, also: &str) -> bool {
    !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

fn folder(request: &Request, path: &PathFacts) -> Result<Need, String> {
    if !path.fault.is_empty() {
        return Err("where it leads cannot be told".to_owned());
    }
    if path.inside {
        return Err("it is in the workspace, and something else stops it".to_owned());
    }
    let odd = |label: &&String| !PLAIN.contains(&label.as_str());
    if let Some(label) = path.labels.iter().find(odd) {
        return Err(format!("it is labelled `{label}`"));
    }
    if request.context.operation == "delete" || request.context.operation == "move" {
        return Err("it takes something away outside of the workspace".to_owned());
    }
    if !path.resolved.starts_with('/')
        || path.resolved.contains(['*', '?', '[', '{', '"', '\\'])
        || path.resolved.contains(char::is_control)
    {
        return Err("its path has characters that a pattern would read otherwise".to_owned());
    }
    let above = || path.resolved.rsplit_once('/').map(|(above, _)| above);
    let folder = match request.context.operation.as_str() {
        "list" => path.resolved.as_str(),
        _ => above().unwrap_or_default(),
    };
    Ok(Need::Path {
        write: request.action == Action::Write,
        folder: match folder.matches('/').count() {
            // A file that lies in a folder such as `/tmp` is named by itself.
            0 | 1 => path.resolved.clone(),
            _ => folder.to_owned(),
        },
    })
}

fn host(url: &UrlFacts) -> Result<Exempt, String> {
    if !url.fault.is_empty() {
        return Err("where it leads cannot be told".to_owned());
    }
    if url.private {
        return Err("it is an address inside the network, or the cloud's metadata".to_owned());
    }
    if url.scheme != "https" || url.port != 443 {
        return Err("it is not reached by `https` on the usual port".to_owned());
    }
    if !url.host.contains('.') || !is_word(&url.host, ".-") {
        return Err("its host has no plain name".to_owned());
    }
    Ok(Exempt::Host(url.host.clone()))
}

fn exempt(request: &Request, tool: &ToolFacts) -> Result<Exempt, String> {
    if !matches!(request.action, Action::Mcp | Action::CustomTool) {
        return Err(format!(
            "a tool that does `{}` is for a person to allow",
            request.action.name()
        ));
    }
    if !is_word(&tool.name, "._-/") || !(tool.server.is_empty() || is_word(&tool.server, "._-/")) {
        return Err("the tool has no plain name".to_owned());
    }
    Ok(Exempt::Tool {
        server: tool.server.clone(),
        name: tool.name.clone(),
    })
}

/// An exception from the policies that decided, if all that they do is ask.
fn unless(what: Exempt, judged: &Judged, bundle: &Bundle) -> Result<Need, String> {
    for index in &judged.deciding {
        let Some(policy) = bundle.policies.get(*index) else {
            continue;
        };
        if policy.verdict != Verdict::Ask {
            return Err(format!("`{}` forbids it", policy.id));
        }
    }
    Ok(Need::Unless {
        policies: judged.deciding.clone(),
        what,
    })
}
