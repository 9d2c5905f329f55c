//! What an agent can want to do. The names are the permission kinds of the Copilot SDK (R-001-15).

use serde::{Deserialize, Serialize};

/// One action of the Cedar schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Looks at a file, a folder or a search result.
    Read,
    /// Creates, changes, moves or deletes a file.
    Write,
    /// Runs a command line.
    Shell,
    /// Calls a tool of an MCP server.
    Mcp,
    /// Fetches from the network.
    Url,
    /// Reads or changes what the agent remembers.
    Memory,
    /// Calls a tool that is none of the above.
    CustomTool,
    /// Changes the host's hooks.
    Hook,
    /// Changes the host's extensions.
    Extension,
    /// A person's prompt goes to the model.
    Prompt,
    /// A tool's result goes to the model.
    Result,
    /// A model is called.
    ModelCall,
    /// An answer goes to a client.
    Respond,
    /// Another agent is started.
    Delegate,
    /// A session starts, ends, or tells something of itself.
    Session,
    /// The host reports an error.
    Error,
}

impl Action {
    /// Every action, in the order of their bits in an [`ActionSet`].
    pub const ALL: [Self; 16] = [
        Self::Read,
        Self::Write,
        Self::Shell,
        Self::Mcp,
        Self::Url,
        Self::Memory,
        Self::CustomTool,
        Self::Hook,
        Self::Extension,
        Self::Prompt,
        Self::Result,
        Self::ModelCall,
        Self::Respond,
        Self::Delegate,
        Self::Session,
        Self::Error,
    ];

    /// The name of the action group that holds every use of a tool.
    pub const TOOL_USE: &'static str = "tool_use";

    /// The action's name, as policies write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Shell => "shell",
            Self::Mcp => "mcp",
            Self::Url => "url",
            Self::Memory => "memory",
            Self::CustomTool => "custom_tool",
            Self::Hook => "hook",
            Self::Extension => "extension",
            Self::Prompt => "prompt",
            Self::Result => "result",
            Self::ModelCall => "model_call",
            Self::Respond => "respond",
            Self::Delegate => "delegate",
            Self::Session => "session",
            Self::Error => "error",
        }
    }

    /// The action of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Whether the action belongs to the group `tool_use`.
    #[must_use]
    pub const fn is_tool_use(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::Write
                | Self::Shell
                | Self::Mcp
                | Self::Url
                | Self::Memory
                | Self::CustomTool
                | Self::Hook
                | Self::Extension
        )
    }
}

/// The actions that a policy's scope admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionSet(u32);

impl ActionSet {
    /// No action.
    pub const NONE: Self = Self(0);

    /// Every action.
    pub const EVERY: Self = Self(u32::MAX);

    /// The group `tool_use`.
    #[must_use]
    pub fn tool_use() -> Self {
        Action::ALL
            .into_iter()
            .filter(|action| action.is_tool_use())
            .fold(Self::NONE, Self::with)
    }

    /// This set and that action.
    #[must_use]
    pub const fn with(self, action: Action) -> Self {
        Self(self.0 | 1 << action as u32)
    }

    /// The members of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether that action is in the set.
    #[must_use]
    pub const fn contains(self, action: Action) -> bool {
        self.0 & (1 << action as u32) != 0
    }
}
