//! What was judged, as it stands in a line, and texts that are bounded there.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::key::Key;
use crate::engine::action::Action;
use crate::engine::request::{Request, Resource};

/// No text is longer as JSON; a longer one is replaced by its HMAC and length.
const TEXT_LIMIT: usize = 512;

/// One request.
#[derive(Serialize)]
pub(super) struct Asked<'a> {
    action: Action,
    resource: Thing<'a>,
    context: Circumstances<'a>,
}

/// What it is about.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thing<'a> {
    Path {
        given: Text<'a>,
        resolved: Text<'a>,
        inside: bool,
        exists: bool,
        link: bool,
        fault: Text<'a>,
        labels: &'a BTreeSet<String>,
    },
    Command {
        text: Text<'a>,
        program: Text<'a>,
        arguments: usize,
        certain: bool,
        code: &'a str,
        beside: &'a BTreeSet<String>,
        labels: &'a BTreeSet<String>,
    },
    Url {
        given: Text<'a>,
    },
    /// What is said only of tools that this program serves stands there only for those.
    Tool {
        server: Text<'a>,
        name: Text<'a>,
        known: bool,
        harmless: bool,
        #[serde(skip_serializing_if = "str::is_empty")]
        tier: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        trust: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        access: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        mode: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
    },
    Text {
        kind: &'a str,
        bytes: u64,
    },
}

#[derive(Serialize)]
struct Circumstances<'a> {
    operation: &'a str,
    workspace: Text<'a>,
    depth_limit: u32,
    interactive: &'a str,
    can_replace_results: bool,
    patterns: &'a BTreeSet<String>,
    can_replace_prompts: bool,
    secrets: &'a BTreeSet<String>,
    health: &'a BTreeSet<String>,
    placeholder: bool,
    phi: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    signals: &'a BTreeSet<String>,
}

/// A text, or its HMAC and length where it is long.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Text<'a> {
    Plain(&'a str),
    Hidden(Hidden),
}

/// A text that does not stand there.
#[derive(Serialize)]
pub(super) struct Hidden {
    hmac: String,
    len: usize,
}

impl<'a> Asked<'a> {
    /// Command lines and addresses that were not cleaned are hidden.
    pub(super) fn of(request: &'a Request, clean: bool, key: &Key) -> Self {
        let text = |value: &'a str| text(value, key);
        let spoken = |value: &'a str| match clean {
            true => text(value),
            false => Text::Hidden(Hidden::of(value, key)),
        };
        let resource = match &request.resource {
            Resource::Path(path) => Thing::Path {
                given: text(&path.given),
                resolved: text(&path.resolved),
                inside: path.inside,
                exists: path.exists,
                link: path.link,
                fault: text(&path.fault),
                labels: &path.labels,
            },
            Resource::Command(command) => Thing::Command {
                text: spoken(&command.text),
                program: text(&command.program),
                arguments: command.arguments.len(),
                certain: command.certain,
                code: &command.code,
                beside: &command.beside,
                labels: &command.labels,
            },
            Resource::Url(url) => Thing::Url {
                given: spoken(&url.given),
            },
            Resource::Tool(tool) => Thing::Tool {
                server: text(&tool.server),
                name: text(&tool.name),
                known: tool.known,
                harmless: tool.harmless,
                tier: &tool.tier,
                trust: &tool.trust,
                access: &tool.access,
                mode: &tool.mode,
                description: &tool.description,
            },
            Resource::Text(facts) => Thing::Text {
                kind: &facts.kind,
                bytes: facts.bytes,
            },
        };
        let context = &request.context;
        Self {
            action: request.action,
            resource,
            context: Circumstances {
                operation: &context.operation,
                workspace: text(&context.workspace),
                depth_limit: context.depth_limit,
                interactive: &context.interactive,
                can_replace_results: context.can_replace_results,
                patterns: &context.patterns,
                can_replace_prompts: context.can_replace_prompts,
                secrets: &context.secrets,
                health: &context.health,
                placeholder: context.placeholder,
                phi: context.phi,
                signals: &context.signals,
            },
        }
    }
}

impl Hidden {
    pub(super) fn of(value: &str, key: &Key) -> Self {
        Self {
            hmac: key.hmac(value.as_bytes()),
            len: value.len(),
        }
    }
}

impl From<Hidden> for Value {
    fn from(Hidden { hmac, len }: Hidden) -> Self {
        json!({"hmac": hmac, "len": len})
    }
}

impl From<Text<'_>> for Value {
    fn from(text: Text<'_>) -> Self {
        match text {
            Text::Plain(text) => Self::String(text.to_owned()),
            Text::Hidden(hidden) => hidden.into(),
        }
    }
}

/// A text, or what stands for it.
pub(super) fn text<'a>(value: &'a str, key: &Key) -> Text<'a> {
    // A control character takes six bytes there, and the quotes two: few texts have to be counted.
    let surely_fits = value.len() * 6 + 2 <= TEXT_LIMIT;
    let fits = || value.len() <= TEXT_LIMIT && json!(value).to_string().len() <= TEXT_LIMIT;
    if surely_fits || fits() {
        Text::Plain(value)
    } else {
        Text::Hidden(Hidden::of(value, key))
    }
}
