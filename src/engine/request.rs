//! One question to the engine: who wants to do what, to what, in which circumstances.
//!
//! Every field here is a *fact* that policies can read; by which names, [`super::attribute`] says.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::action::Action;

/// The Cedar namespace of every entity and action.
pub const NAMESPACE: &str = "Bridge";

/// The type of the entity whose tags are the arguments of an MCP tool.
pub const INPUT: &str = "Input";

/// One question to the engine. An event may be several.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// Who asks.
    pub principal: Agent,
    /// What is to be done.
    pub action: Action,
    /// To what it is to be done.
    pub resource: Resource,
    /// In which circumstances.
    pub context: Context,
}

/// The agent that asks: `Bridge::Agent`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Agent {
    /// The program that the agent runs in: `copilot`, `claude`, `vscode`, `xpia`.
    pub host: String,
    /// The host's id of the session, or `unknown`.
    pub session: String,
    /// How many agents stand above this one; a person's own agent is 0.
    pub depth: u32,
    /// The id of the agent that started this one.
    pub parent: Option<String>,
    /// The host's name for this kind of sub-agent.
    pub kind: Option<String>,
}

/// What the action is done to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Resource {
    /// A file or folder: `Bridge::Path`.
    Path(PathFacts),
    /// A command line: `Bridge::Command`.
    Command(CommandFacts),
    /// An address: `Bridge::Url`.
    Url(UrlFacts),
    /// A tool of a host or of an MCP server: `Bridge::Tool`.
    Tool(ToolFacts),
    /// A text that goes to or comes from a model: `Bridge::Text`.
    Text(TextFacts),
}

/// The facts about a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathFacts {
    /// The path as the agent wrote it.
    pub given: String,
    /// The path that the kernel would reach: absolute, every link followed.
    pub resolved: String,
    /// Whether `resolved` is the workspace root or below it.
    pub inside: bool,
    /// Whether something exists there.
    pub exists: bool,
    /// Whether a symbolic link was followed on the way.
    pub link: bool,
    /// Why the path could not be resolved; empty if it could.
    pub fault: String,
    /// The labels that `containment.toml` gives to `given` or `resolved`.
    pub labels: BTreeSet<String>,
}

/// The facts about a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommandFacts {
    /// The command line as the agent wrote it.
    pub text: String,
    /// The program's name without its folder; empty where it is not certain.
    pub program: String,
    /// The first word after the program that is no option; empty where there is none.
    pub subcommand: String,
    /// The words after the program.
    pub arguments: BTreeSet<String>,
    /// Whether all that matters of it is known.
    pub certain: bool,
    /// Where the code comes from that it runs; empty if it runs none.
    pub code: String,
    /// The labels of all commands and paths of its line.
    pub beside: BTreeSet<String>,
    /// The labels that the program tables of `containment.toml` give.
    pub labels: BTreeSet<String>,
}

/// The facts about an address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UrlFacts {
    /// The address as the agent wrote it.
    pub given: String,
    /// The scheme, in lower case.
    pub scheme: String,
    /// The host as it is looked up: a name in lower case, or an address in its plain form.
    pub host: String,
    /// The port, or the scheme's own; 0 where there is none.
    pub port: u16,
    /// Whether the host is this machine, its network, or the cloud's metadata.
    pub private: bool,
    /// Why it cannot be told where the address leads; empty if it can.
    pub fault: String,
}

/// The facts about a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolFacts {
    /// The MCP server, or empty for the host's own tools.
    pub server: String,
    /// The tool's canonical name, without its server.
    pub name: String,
    /// Whether the host's own tool map knows it.
    pub known: bool,
    /// Whether `bridge.toml` lists it among the host's harmless tools.
    pub harmless: bool,
    /// What a tool does that goes through this program: `read_only`, `draft_only`, `governance`; else
    /// empty (R-003-12).
    pub tier: String,
    /// How far another MCP server behind this program is trusted: `sandboxed`, `trusted_read`,
    /// `trusted_write`; else empty (R-003-65).
    pub trust: String,
    /// What `upstreams.toml` says of one tool of such a server: `read_only`, `approval_required`,
    /// `deny`; else empty (R-003-65).
    pub access: String,
    /// How far it may go by itself: `autonomous`, `draft_only`, `propose_certify_apply`, `blocked`,
    /// `never`; else empty (R-003-42).
    pub mode: String,
    /// What the pin says of such a server's description of it: `accepted`, `new`, `changed`; else
    /// empty.
    pub description: String,
}

/// The facts about a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TextFacts {
    /// What the text is: `prompt`, `result`, `error`, or the event's name.
    pub kind: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The circumstances of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Context {
    /// The event's name, as the record writes it: `pre_tool_use`, …
    pub event: String,
    /// The canonical name of the tool that the event is about; `server-tool` for an MCP tool.
    pub tool: String,
    /// What is done to a path: `read`, `list`, `create`, `update`, `delete`, `move`; else empty.
    pub operation: String,
    /// The agent's working directory, resolved.
    pub cwd: String,
    /// The workspace root, resolved.
    pub workspace: String,
    /// How many agents stand above this one.
    pub depth: u32,
    /// The limit that `bridge.toml` sets for `depth`.
    pub depth_limit: u32,
    /// Whether the host can ask a person: `yes`, `no` or `unknown`.
    pub interactive: String,
    /// Whether the host lets us replace a tool's result.
    pub can_replace_results: bool,
    /// The ids of the patterns of `permission.toml` that match the tool's arguments.
    pub patterns: BTreeSet<String>,
    /// Whether the host lets us replace a prompt.
    pub can_replace_prompts: bool,
    /// The ids of the rules that found secrets in the text or the arguments.
    pub secrets: BTreeSet<String>,
    /// The ids of the rules that found health information there.
    pub health: BTreeSet<String>,
    /// Whether the arguments hold what we put in the place of a secret.
    pub placeholder: bool,
    /// The entity that the agent works for, or empty.
    pub entity: String,
    /// Whether its texts may hold health information.
    pub phi: bool,
    /// The ids of the signals of `injection.toml` in what an MCP server says.
    pub signals: BTreeSet<String>,
    /// The arguments of an MCP tool: by their path (`message.to.0`), in text.
    pub input: BTreeMap<String, String>,
}

/// The type of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceType {
    /// `Bridge::Path`
    Path,
    /// `Bridge::Command`
    Command,
    /// `Bridge::Url`
    Url,
    /// `Bridge::Tool`
    Tool,
    /// `Bridge::Text`
    Text,
}

impl ResourceType {
    /// Every type, in the order of their bits in a [`ResourceSet`].
    pub const ALL: [Self; 5] = [Self::Path, Self::Command, Self::Url, Self::Tool, Self::Text];

    /// The type's name without its namespace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Path => "Path",
            Self::Command => "Command",
            Self::Url => "Url",
            Self::Tool => "Tool",
            Self::Text => "Text",
        }
    }
}

/// The resource types that a policy's scope admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSet(u8);

impl ResourceSet {
    /// Every type.
    pub const EVERY: Self = Self(u8::MAX);

    /// One type only.
    #[must_use]
    pub const fn only(kind: ResourceType) -> Self {
        Self(1 << kind as u8)
    }

    /// Whether that type is in the set.
    #[must_use]
    pub const fn contains(self, kind: ResourceType) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl Resource {
    /// The resource's type.
    #[must_use]
    pub const fn kind(&self) -> ResourceType {
        match self {
            Self::Path(_) => ResourceType::Path,
            Self::Command(_) => ResourceType::Command,
            Self::Url(_) => ResourceType::Url,
            Self::Tool(_) => ResourceType::Tool,
            Self::Text(_) => ResourceType::Text,
        }
    }

    /// The id of the Cedar entity: what a policy can write behind `resource ==`.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Path(path) if path.resolved.is_empty() => path.given.clone(),
            Self::Path(path) => path.resolved.clone(),
            Self::Command(command) => command.text.clone(),
            Self::Url(url) => url.given.clone(),
            Self::Tool(tool) => tool.qualified(),
            Self::Text(text) => text.kind.clone(),
        }
    }

    /// What `containment.toml` labels it with, if it is of a type that has labels.
    #[must_use]
    pub const fn labels(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::Path(path) => Some(&path.labels),
            Self::Command(command) => Some(&command.labels),
            Self::Url(_) | Self::Tool(_) | Self::Text(_) => None,
        }
    }

    /// Whether a policy file gave it that label.
    #[must_use]
    pub fn has_label(&self, label: &str) -> bool {
        match self {
            Self::Path(path) => path.labels.contains(label),
            Self::Command(command) => command.labels.contains(label),
            Self::Url(_) | Self::Tool(_) | Self::Text(_) => false,
        }
    }
}

impl ToolFacts {
    /// `server-tool`, or the bare name of a host's own tool.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.server.is_empty() {
            self.name.clone()
        } else {
            format!("{}-{}", self.server, self.name)
        }
    }
}
