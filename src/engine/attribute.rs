//! The facts of a request by the names that policies read them by.
//!
//! The tables of names and types are what `schemas/bridge.cedarschema` is generated from.

use std::collections::{BTreeMap, BTreeSet};

use super::request::{Agent, Context, Resource};

/// A fact's value, in the few types that the schema uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// Cedar `Bool`.
    Bool(bool),
    /// Cedar `Long`.
    Long(i64),
    /// Cedar `String`.
    String(&'a str),
    /// Cedar `Set<String>`.
    Set(&'a BTreeSet<String>),
    /// The entity `Bridge::Input`, whose tags these are.
    Tags(&'a BTreeMap<String, String>),
}

/// One attribute of an entity type or of the context: its name, Cedar type and meaning.
#[derive(Debug, Clone, Copy)]
pub struct Attribute {
    /// The name, as policies write it.
    pub name: &'static str,
    /// The Cedar type; an optional attribute's ends in `?`.
    pub cedar: &'static str,
    /// What it says.
    pub doc: &'static str,
}

const fn attribute(name: &'static str, cedar: &'static str, doc: &'static str) -> Attribute {
    Attribute { name, cedar, doc }
}

/// The attributes of `Bridge::Agent`.
pub const AGENT: &[Attribute] = &[
    attribute(
        "host",
        "String",
        "copilot, claude, vscode, xpia, openclaw or mcp",
    ),
    attribute("session", "String", "the host's id of the session"),
    attribute("depth", "Long", "how many agents stand above this one"),
    attribute("parent", "String?", "the agent that started this one"),
    attribute(
        "kind",
        "String?",
        "the host's name for this kind of sub-agent",
    ),
];

/// The attributes of `Bridge::Path`.
pub const PATH: &[Attribute] = &[
    attribute("given", "String", "as the agent wrote it"),
    attribute("resolved", "String", "absolute, every link followed"),
    attribute("inside", "Bool", "in the workspace"),
    attribute("exists", "Bool", "something is there"),
    attribute("link", "Bool", "a symbolic link was followed"),
    attribute("fault", "String", "why it could not be resolved, or empty"),
    attribute("labels", "Set<String>", "given by containment.toml"),
];

/// The attributes of `Bridge::Command`.
pub const COMMAND: &[Attribute] = &[
    attribute(
        "text",
        "String",
        "one simple command, or the whole line where it is not understood",
    ),
    attribute(
        "program",
        "String",
        "its program, or empty where not certain",
    ),
    attribute(
        "subcommand",
        "String",
        "the first word that is no option, or empty",
    ),
    attribute("arguments", "Set<String>", "the words after the program"),
    attribute("certain", "Bool", "all that matters of it is known"),
    attribute(
        "code",
        "String",
        "judged, quiet, file, inline, stdin, written, unknown, decoded, download or empty: where the code comes from that it runs",
    ),
    attribute(
        "beside",
        "Set<String>",
        "the labels of all commands and paths of its line",
    ),
    attribute("labels", "Set<String>", "given by containment.toml"),
];

/// The attributes of `Bridge::Url`.
pub const URL: &[Attribute] = &[
    attribute("given", "String", "as the agent wrote it"),
    attribute("scheme", "String", "in lower case"),
    attribute("host", "String", "a name, or an address in its plain form"),
    attribute("port", "Long", "given or the scheme's own, else 0"),
    attribute(
        "private",
        "Bool",
        "this machine, its network or the cloud's metadata",
    ),
    attribute(
        "fault",
        "String",
        "why it cannot be told where it leads, or empty",
    ),
];

/// The attributes of `Bridge::Tool`.
pub const TOOL: &[Attribute] = &[
    attribute("server", "String", "the MCP server, or empty"),
    attribute("name", "String", "the canonical name"),
    attribute("known", "Bool", "one of the host's own tools"),
    attribute("harmless", "Bool", "listed as harmless in bridge.toml"),
    attribute(
        "tier",
        "String",
        "read_only, draft_only, governance or empty: what a tool does that this program serves",
    ),
    attribute(
        "trust",
        "String",
        "sandboxed, trusted_read, trusted_write or empty: how far an MCP server behind this program is trusted",
    ),
    attribute(
        "access",
        "String",
        "read_only, approval_required, deny or empty: what upstreams.toml says of a tool of such a server",
    ),
    attribute(
        "mode",
        "String",
        "autonomous, draft_only, propose_certify_apply, blocked, never or empty: how far a tool may go by itself",
    ),
    attribute(
        "description",
        "String",
        "accepted, new, changed or empty: what the pins say of how such a server describes the tool",
    ),
];

/// The attributes of `Bridge::Text`.
pub const TEXT: &[Attribute] = &[
    attribute(
        "kind",
        "String",
        "prompt, result, error or the event's name",
    ),
    attribute("bytes", "Long", "its length"),
];

/// The attributes of the context.
pub const CONTEXT: &[Attribute] = &[
    attribute("event", "String", "pre_tool_use, …"),
    attribute("tool", "String", "the tool; server-tool for MCP"),
    attribute(
        "operation",
        "String",
        "read, list, create, update, delete, move or empty",
    ),
    attribute("cwd", "String", "the working directory"),
    attribute("workspace", "String", "the workspace root"),
    attribute("depth", "Long", "how many agents stand above this one"),
    attribute("depth_limit", "Long", "the limit of bridge.toml"),
    attribute(
        "interactive",
        "String",
        "yes, no or unknown: can a person be asked",
    ),
    attribute(
        "can_replace_results",
        "Bool",
        "the host lets us replace results",
    ),
    attribute(
        "patterns",
        "Set<String>",
        "ids of permission.toml that match the arguments",
    ),
    attribute(
        "can_replace_prompts",
        "Bool",
        "the host lets us replace prompts",
    ),
    attribute(
        "secrets",
        "Set<String>",
        "ids of the rules that found secrets in the text or the arguments",
    ),
    attribute(
        "health",
        "Set<String>",
        "ids of the rules that found health information there",
    ),
    attribute(
        "placeholder",
        "Bool",
        "the arguments hold what was put in the place of a secret",
    ),
    attribute("entity", "String", "whom the agent works for, or empty"),
    attribute(
        "signals",
        "Set<String>",
        "ids of injection.toml that match what an MCP server says",
    ),
    attribute("input", "Input", "the arguments of an MCP tool, as tags"),
    attribute("phi", "Bool", "the texts may hold health information"),
];

impl Agent {
    /// The attributes in the order of [`AGENT`], absent ones left out.
    #[must_use]
    pub fn attributes(&self) -> Vec<(&'static str, Value<'_>)> {
        let mut all = vec![
            ("host", Value::String(&self.host)),
            ("session", Value::String(&self.session)),
            ("depth", Value::Long(i64::from(self.depth))),
        ];
        all.extend(self.parent.as_deref().map(|v| ("parent", Value::String(v))));
        all.extend(self.kind.as_deref().map(|v| ("kind", Value::String(v))));
        all
    }
}

impl Resource {
    /// The attributes, in the order of the type's table.
    #[must_use]
    pub fn attributes(&self) -> Vec<(&'static str, Value<'_>)> {
        match self {
            Self::Path(path) => vec![
                ("given", Value::String(&path.given)),
                ("resolved", Value::String(&path.resolved)),
                ("inside", Value::Bool(path.inside)),
                ("exists", Value::Bool(path.exists)),
                ("link", Value::Bool(path.link)),
                ("fault", Value::String(&path.fault)),
                ("labels", Value::Set(&path.labels)),
            ],
            Self::Command(command) => vec![
                ("text", Value::String(&command.text)),
                ("program", Value::String(&command.program)),
                ("subcommand", Value::String(&command.subcommand)),
                ("arguments", Value::Set(&command.arguments)),
                ("certain", Value::Bool(command.certain)),
                ("code", Value::String(&command.code)),
                ("beside", Value::Set(&command.beside)),
                ("labels", Value::Set(&command.labels)),
            ],
            Self::Url(url) => vec![
                ("given", Value::String(&url.given)),
                ("scheme", Value::String(&url.scheme)),
                ("host", Value::String(&url.host)),
                ("port", Value::Long(i64::from(url.port))),
                ("private", Value::Bool(url.private)),
                ("fault", Value::String(&url.fault)),
            ],
            Self::Tool(tool) => vec![
                ("server", Value::String(&tool.server)),
                ("name", Value::String(&tool.name)),
                ("known", Value::Bool(tool.known)),
                ("harmless", Value::Bool(tool.harmless)),
                ("tier", Value::String(&tool.tier)),
                ("trust", Value::String(&tool.trust)),
                ("access", Value::String(&tool.access)),
                ("mode", Value::String(&tool.mode)),
                ("description", Value::String(&tool.description)),
            ],
            Self::Text(text) => vec![
                ("kind", Value::String(&text.kind)),
                (
                    "bytes",
                    Value::Long(i64::try_from(text.bytes).unwrap_or(i64::MAX)),
                ),
            ],
        }
    }
}

impl Context {
    /// The attributes in the order of [`CONTEXT`].
    #[must_use]
    pub fn attributes(&self) -> Vec<(&'static str, Value<'_>)> {
        vec![
            ("event", Value::String(&self.event)),
            ("tool", Value::String(&self.tool)),
            ("operation", Value::String(&self.operation)),
            ("cwd", Value::String(&self.cwd)),
            ("workspace", Value::String(&self.workspace)),
            ("depth", Value::Long(i64::from(self.depth))),
            ("depth_limit", Value::Long(i64::from(self.depth_limit))),
            ("interactive", Value::String(&self.interactive)),
            ("can_replace_results", Value::Bool(self.can_replace_results)),
            ("patterns", Value::Set(&self.patterns)),
            ("can_replace_prompts", Value::Bool(self.can_replace_prompts)),
            ("secrets", Value::Set(&self.secrets)),
            ("health", Value::Set(&self.health)),
            ("placeholder", Value::Bool(self.placeholder)),
            ("entity", Value::String(&self.entity)),
            ("signals", Value::Set(&self.signals)),
            ("input", Value::Tags(&self.input)),
            ("phi", Value::Bool(self.phi)),
        ]
    }
}
