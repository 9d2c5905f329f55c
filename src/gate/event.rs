//! What arrived, in our words. Every dialect parses into this, and only into this.

use std::time::Duration;

use serde_json::Value;

use crate::audit::record::v1::Trace;
use crate::engine::action::Action;
use crate::engine::request::{Agent, ToolFacts};

/// The id of a session that the host does not name.
pub const UNKNOWN_SESSION: &str = "unknown";

/// The events of Copilot CLI 1.0.102; the other hosts' events are among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventName {
    /// A session starts.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// A person sends a prompt.
    UserPromptSubmitted,
    /// The host has added its own text to a prompt.
    UserPromptTransformed,
    /// A tool is about to be called.
    PreToolUse,
    /// The host is about to ask a person for permission.
    PermissionRequest,
    /// A call is about to be sent to an MCP server.
    PreMcpToolCall,
    /// A tool has answered.
    PostToolUse,
    /// A tool has failed.
    PostToolUseFailure,
    /// The host met an error.
    ErrorOccurred,
    /// The agent wants to stop.
    AgentStop,
    /// A sub-agent starts.
    SubagentStart,
    /// A sub-agent wants to stop.
    SubagentStop,
    /// The host is about to shorten the conversation.
    PreCompact,
    /// The host tells the person something.
    Notification,
}

impl EventName {
    /// Every event.
    pub const ALL: [Self; 15] = [
        Self::SessionStart,
        Self::SessionEnd,
        Self::UserPromptSubmitted,
        Self::UserPromptTransformed,
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PreMcpToolCall,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::ErrorOccurred,
        Self::AgentStop,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::PreCompact,
        Self::Notification,
    ];

    /// The name on our own command line: `pre-tool-use`.
    #[must_use]
    pub const fn kebab(self) -> &'static str {
        match self {
            Self::SessionStart => "session-start",
            Self::SessionEnd => "session-end",
            Self::UserPromptSubmitted => "user-prompt-submitted",
            Self::UserPromptTransformed => "user-prompt-transformed",
            Self::PreToolUse => "pre-tool-use",
            Self::PermissionRequest => "permission-request",
            Self::PreMcpToolCall => "pre-mcp-tool-call",
            Self::PostToolUse => "post-tool-use",
            Self::PostToolUseFailure => "post-tool-use-failure",
            Self::ErrorOccurred => "error-occurred",
            Self::AgentStop => "agent-stop",
            Self::SubagentStart => "subagent-start",
            Self::SubagentStop => "subagent-stop",
            Self::PreCompact => "pre-compact",
            Self::Notification => "notification",
        }
    }

    /// The name in the record and in the context of a request: `pre_tool_use`.
    #[must_use]
    pub const fn snake(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::SessionEnd => "session_end",
            Self::UserPromptSubmitted => "user_prompt_submitted",
            Self::UserPromptTransformed => "user_prompt_transformed",
            Self::PreToolUse => "pre_tool_use",
            Self::PermissionRequest => "permission_request",
            Self::PreMcpToolCall => "pre_mcp_tool_call",
            Self::PostToolUse => "post_tool_use",
            Self::PostToolUseFailure => "post_tool_use_failure",
            Self::ErrorOccurred => "error_occurred",
            Self::AgentStop => "agent_stop",
            Self::SubagentStart => "subagent_start",
            Self::SubagentStop => "subagent_stop",
            Self::PreCompact => "pre_compact",
            Self::Notification => "notification",
        }
    }

    /// The event of that name, in any host's spelling: `preToolUse`, `PreToolUse`,
    /// `pre-tool-use`, `pre_tool_use`; `UserPromptSubmit` and `Stop` are Claude's own.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let flat = flat(name);
        Self::ALL
            .into_iter()
            .find(|event| event.kebab().replace('-', "") == flat)
            .or(match flat.as_str() {
                "userpromptsubmit" => Some(Self::UserPromptSubmitted),
                "stop" => Some(Self::AgentStop),
                "sessionstop" => Some(Self::SessionEnd),
                "pretool" => Some(Self::PreToolUse),
                "posttool" => Some(Self::PostToolUse),
                _ => None,
            })
    }

    /// Whether the host waits for our answer before it goes on, so that a denial can block.
    #[must_use]
    pub const fn can_block(self) -> bool {
        matches!(
            self,
            Self::PreToolUse
                | Self::PermissionRequest
                | Self::PostToolUse
                | Self::UserPromptSubmitted
                | Self::UserPromptTransformed
        )
    }
}

fn flat(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// One event of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Which event it is.
    pub name: EventName,
    /// The dialect that it was written in.
    pub dialect: &'static str,
    /// The host's id of the call, where it has one.
    pub call: Option<String>,
    /// Who caused it. Its depth is not known yet.
    pub agent: Agent,
    /// The id of the sub-agent, if it was one.
    pub agent_id: Option<String>,
    /// The working directory, as the host wrote it.
    pub cwd: Option<String>,
    /// What the host can do with our answer.
    pub host: Capabilities,
    /// What the event is about.
    pub body: Body,
    /// What is known of a call of a tool that this program serves itself.
    pub served: Option<Served>,
}

/// A call of a tool that this program serves over MCP.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Served {
    /// The tool, with all that policies may ask of it.
    pub tool: ToolFacts,
    /// The files that it reaches.
    pub reach: Reach,
    /// How an MCP server behind this program describes the tool; empty for any other.
    pub description: String,
    /// SHA-256 over what a pin covers of that description, in hexadecimal; empty for any other.
    pub pin: String,
    /// Whose data the call is about, as its arguments say.
    pub entity: Option<String>,
    /// Who answers the call.
    pub provider: String,
    /// The trace that the call is part of.
    pub trace: Option<Trace>,
    /// How long the tool took, once it has answered.
    pub took: Option<Duration>,
}

/// The files that a served tool reaches.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Reach {
    /// Nobody knows: whatever its arguments look like.
    #[default]
    Unknown,
    /// None of this machine.
    Nothing,
    /// These.
    Paths(Vec<ReachedPath>),
}

/// A file that a served tool reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedPath {
    /// Read or write.
    pub action: Action,
    /// `read`, `list`, `create`, `update`, `delete` or `move`.
    pub operation: &'static str,
    /// The path, as the call names it.
    pub path: String,
}

/// What a host can do with our answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it can ask a person: `yes`, `no`, or `unknown`.
    pub interactive: &'static str,
    /// Whether it lets us replace a tool's result.
    pub replaces_results: bool,
    /// Whether it lets us replace a prompt.
    pub replaces_prompts: bool,
}

impl Capabilities {
    /// Whether the host lets us replace the text that such an event brings.
    #[must_use]
    pub const fn replaces(self, event: EventName) -> bool {
        match event {
            EventName::PostToolUse => self.replaces_results,
            EventName::UserPromptSubmitted | EventName::UserPromptTransformed => {
                self.replaces_prompts
            }
            _ => false,
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A tool that is about to be called.
    Call(ToolCall),
    /// What a tool answered, or why it failed.
    Result {
        /// The call.
        call: ToolCall,
        /// The answer's text, or the error's.
        text: String,
        /// Whether the tool failed.
        failed: bool,
    },
    /// What an MCP tool answered, with its structure.
    Content {
        /// The call.
        call: ToolCall,
        /// All of the answer that holds text.
        content: Value,
        /// Whether the tool failed.
        failed: bool,
    },
    /// A prompt.
    Prompt {
        /// Its text.
        text: String,
    },
    /// A session starts.
    Start {
        /// `new`, `resume`, …
        source: String,
    },
    /// A session ends.
    End {
        /// Why; empty where the host does not say.
        reason: String,
    },
    /// The host met an error.
    Error {
        /// Its message.
        message: String,
        /// Whether the host believes that it can go on.
        recoverable: bool,
        /// Where it happened, in the host's words.
        context: String,
    },
    /// A sub-agent starts.
    Subagent {
        /// Its id.
        id: String,
        /// The agent that started it.
        parent: Option<String>,
    },
    /// Something else that is only recorded.
    Notice {
        /// One line about it, in the host's words.
        text: String,
    },
}

/// A tool and its arguments, as the host wrote them.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool's name in the host's spelling.
    pub name: String,
    /// An object, or the text of a patch.
    pub args: Value,
}

impl Event {
    /// The tool call that the event is about, if it is about one.
    #[must_use]
    pub const fn call(&self) -> Option<&ToolCall> {
        match &self.body {
            Body::Call(call) | Body::Result { call, .. } | Body::Content { call, .. } => Some(call),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_the_same_event() {
        for event in EventName::ALL {
            assert_eq!(EventName::parse(event.kebab()), Some(event));
            assert_eq!(EventName::parse(event.snake()), Some(event));
        }
        assert_eq!(EventName::parse("preToolUse"), Some(EventName::PreToolUse));
        assert_eq!(
            EventName::parse("PreMcpToolCall"),
            Some(EventName::PreMcpToolCall)
        );
        assert_eq!(
            EventName::parse("UserPromptSubmit"),
            Some(EventName::UserPromptSubmitted)
        );
        assert_eq!(EventName::parse("Stop"), Some(EventName::AgentStop));
        assert_eq!(EventName::parse("postResult"), None);
        assert_eq!(EventName::parse(""), None);
    }
}
