//! The hosts' JSON: one file a dialect, both directions in it.

mod claude;
mod copilot;
mod openclaw;
mod xpia;

use serde_json::{Map, Value};

use super::fields::{FieldError, Fields};
use crate::engine::request::Agent;
use crate::gate::event::{Body, Capabilities, Event, EventName, UNKNOWN_SESSION};
use crate::gate::outcome::{Outcome, sentences};

/// One host's way to write events and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// GitHub Copilot CLI, camelCase events.
    Copilot,
    /// Claude Code, and Copilot CLI's PascalCase events.
    Claude,
    /// VS Code, which writes as Claude Code does.
    Vscode,
    /// Our plugin for OpenClaw.
    Openclaw,
    /// The amplihack XPIA hook (R-004-14, R-004-15).
    Xpia {
        /// Denials leave with exit code 0, as the original's did (R-004-28).
        legacy_exit: bool,
    },
}

/// What goes out: one JSON object, a text for stderr, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The one line for stdout, without a line feed.
    pub stdout: String,
    /// What a person or the host reads on stderr; usually nothing.
    pub stderr: String,
    /// The exit code.
    pub code: u8,
}

impl Dialect {
    /// The names that a person may write; `auto` besides.
    pub const NAMES: [&'static str; 5] = ["copilot", "claude", "vscode", "openclaw", "xpia"];

    /// The dialect of that name.
    #[must_use]
    pub fn from_name(name: &str, legacy_exit: bool) -> Option<Self> {
        Some(match name {
            "copilot" => Self::Copilot,
            "claude" => Self::Claude,
            "vscode" => Self::Vscode,
            "openclaw" => Self::Openclaw,
            "xpia" => Self::Xpia { legacy_exit },
            _ => return None,
        })
    }

    /// The dialect's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copilot => "copilot",
            Self::Claude => "claude",
            Self::Vscode => "vscode",
            Self::Openclaw => "openclaw",
            Self::Xpia { .. } => "xpia",
        }
    }

    /// The dialect that an event is written in, as far as it shows.
    #[must_use]
    pub fn detect(event: &Value) -> Self {
        if event.get("toolUse").is_some() {
            Self::Xpia { legacy_exit: false }
        } else if event.get("hookEventName").is_some() {
            Self::Vscode
        } else if event.get("hook_event_name").is_some() && event.get("sessionId").is_none() {
            Self::Claude
        } else {
            Self::Copilot
        }
    }

    /// The event that those fields are.
    ///
    /// # Errors
    /// In words, if a field is missing, of the wrong type, or said twice with different values.
    pub fn parse(self, name: EventName, value: &Value) -> Result<Event, String> {
        let fields = Fields::of(value)?;
        if let Some(said) = fields.text(&["hook_event_name", "hookEventName", "hookName"])?
            && EventName::parse(said) != Some(name)
        {
            return Err(format!(
                "it is `{}`, but says of itself that it is another event",
                name.kebab()
            ));
        }
        let agent_id = fields.id(&["agentId", "agent_id"])?;
        let session = fields.id(&["sessionId", "session_id"])?;
        let event = Event {
            name,
            dialect: self.name(),
            call: fields.id(&["toolCallId", "tool_call_id", "tool_use_id"])?,
            agent: Agent {
                host: self.name().to_owned(),
                session: session.unwrap_or_else(|| UNKNOWN_SESSION.to_owned()),
                depth: 0,
                parent: fields.id(&["parentAgentId", "parent_agent_id"])?,
                kind: fields.id(&["agentType", "agent_type"])?,
            },
            agent_id,
            cwd: fields.text(&["cwd"])?.map(str::to_owned),
            host: self.capabilities(),
            body: body(name, fields)?,
            served: None,
        };
        match self {
            Self::Openclaw => openclaw::understand(event, fields),
            _ => Ok(event),
        }
    }

    /// The answer to an event.
    #[must_use]
    pub fn render(self, name: EventName, outcome: &Outcome) -> Answer {
        match self {
            Self::Copilot => copilot::render(name, outcome),
            Self::Claude | Self::Vscode => claude::render(name, outcome),
            Self::Openclaw => openclaw::render(name, outcome),
            Self::Xpia { legacy_exit } => xpia::render(name, outcome, legacy_exit),
        }
    }

    const fn capabilities(self) -> Capabilities {
        match self {
            Self::Copilot => copilot::CAPABILITIES,
            Self::Claude | Self::Vscode => claude::CAPABILITIES,
            Self::Openclaw => openclaw::CAPABILITIES,
            Self::Xpia { .. } => xpia::CAPABILITIES,
        }
    }
}

/// Whether a host of that dialect blocks the call before a tool on this answer.
#[must_use]
pub fn is_denial(dialect: &str, exit: Option<i32>, answer: &Value) -> bool {
    let decision = match dialect {
        "claude" | "vscode" => claude::decision(answer),
        "openclaw" => openclaw::decision(answer),
        _ => copilot::decision(answer),
    };
    exit == Some(2) && decision == Some("deny")
}

/// What an event is about. Fields are read in every host's spelling, whatever the dialect.
fn body(name: EventName, fields: Fields<'_>) -> Result<Body, FieldError> {
    Ok(match name {
        EventName::PreToolUse | EventName::PermissionRequest => Body::Call(fields.call()?),
        EventName::PreMcpToolCall => {
            let mut call = fields.call()?;
            if let Some(server) = fields.text(&["serverName", "server_name"])? {
                call.name = format!("{server}/{}", call.name);
            }
            Body::Call(call)
        }
        EventName::PostToolUse => Body::Result {
            call: fields.call()?,
            text: result_text(fields)?,
            failed: false,
        },
        EventName::PostToolUseFailure => Body::Result {
            call: fields.call()?,
            text: error_message(fields)?.0,
            failed: true,
        },
        EventName::UserPromptSubmitted => Body::Prompt {
            text: fields.text_or_empty(&["prompt"])?,
        },
        EventName::UserPromptTransformed => Body::Prompt {
            text: fields.text_or_empty(&["transformedPrompt", "transformed_prompt"])?,
        },
        EventName::SessionStart => Body::Start {
            source: fields.text_or_empty(&["source"])?,
        },
        EventName::SessionEnd => Body::End {
            reason: fields.text_or_empty(&["reason"])?,
        },
        EventName::ErrorOccurred => {
            let (message, recoverable) = error_message(fields)?;
            Body::Error {
                message,
                recoverable: recoverable || fields.flag(&["recoverable"])?,
                context: fields.text_or_empty(&["errorContext", "error_context"])?,
            }
        }
        EventName::SubagentStart => Body::Subagent {
            id: fields
                .id(&["agentId", "agent_id"])?
                .ok_or("it names no sub-agent")?,
            parent: fields
                .id(&["parentAgentId", "parent_agent_id"])?
                .or(fields.id(&["sessionId", "session_id"])?),
        },
        EventName::AgentStop | EventName::SubagentStop => Body::Notice {
            text: fields.text_or_empty(&["stopReason", "stop_reason"])?,
        },
        EventName::PreCompact => Body::Notice {
            text: fields.text_or_empty(&["trigger"])?,
        },
        EventName::Notification => Body::Notice {
            text: fields.text_or_empty(&["notification_type", "notificationType"])?,
        },
    })
}

/// A tool's answer: a text, or an object that holds it.
fn result_text(fields: Fields<'_>) -> Result<String, FieldError> {
    let result = fields.any(&["toolResult", "tool_result", "tool_response"])?;
    Ok(match result {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value
            .get("textResultForLlm")
            .or_else(|| value.get("text_result_for_llm"))
            .and_then(Value::as_str)
            .map_or_else(|| value.to_string(), str::to_owned),
    })
}

/// An error's message, and whether the error itself says that it is recoverable.
fn error_message(fields: Fields<'_>) -> Result<(String, bool), FieldError> {
    Ok(match fields.any(&["error"])? {
        None => (String::new(), false),
        Some(Value::String(text)) => (text.clone(), false),
        Some(value) => (
            value
                .get("message")
                .and_then(Value::as_str)
                .map_or_else(|| value.to_string(), str::to_owned),
            value.get("recoverable").and_then(Value::as_bool) == Some(true),
        ),
    })
}

/// `{}`, exit 0: what every host takes for "go on".
fn silent() -> Answer {
    object(Map::new(), 0)
}

fn object(fields: Map<String, Value>, code: u8) -> Answer {
    Answer {
        stdout: Value::Object(fields).to_string(),
        stderr: String::new(),
        code,
    }
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The sentence that the host shows.
fn reason(outcome: &Outcome) -> Value {
    Value::String(sentences(outcome.reasons()))
}
