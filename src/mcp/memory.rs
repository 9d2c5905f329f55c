//! The tools by which Copilot and others read what OpenClaw remembers (R-000-02, R-000-21, R-000-22).
//! None of them writes.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::toolset::{Call, Toolset, Unavailable};
use crate::config::openclaw::Gateway as Address;
use crate::engine::request::ToolFacts;
use crate::gate::event::{Reach, Served};
use crate::openclaw::gateway::{self, Device, Gateway};
use crate::openclaw::memory::{DEFAULT_FILE, DEFAULT_LIMIT, MOST_HITS, Memory};

/// The name of the server in policies and in the record.
const SERVER: &str = "openclaw-memory";

/// No query is longer, in characters.
const QUERY_LIMIT: usize = 1_000;

const SEARCH: &str = "openclaw_memory_search";
const READ: &str = "openclaw_memory_read";
const PREFERENCES: &str = "openclaw_user_prefs";

/// The tools, and what they are.
const OFFERS: [(&str, &str); 3] = [
    (
        SEARCH,
        "Search OpenClaw's memory. Answers with the entries that fit best, each with its file and a score.",
    ),
    (
        READ,
        "Read a file of OpenClaw's memory: MEMORY.md, or one that a search found.",
    ),
    (
        PREFERENCES,
        "Read what the user told OpenClaw about themselves (USER.md).",
    ),
];

/// The tools, for one OpenClaw.
#[derive(Debug)]
pub struct Remembered {
    memory: Memory,
    gateway: Option<(Address, Device)>,
    connected: OnceLock<Gateway>,
}

/// What a call asks for, once its arguments are understood.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Search(String, usize),
    /// A file, or the preferences.
    Read(Option<String>),
}

impl Remembered {
    /// The tools for that memory. A gateway is asked before the files, and connected to with the first
    /// search.
    #[must_use]
    pub const fn new(memory: Memory, gateway: Option<(Address, Device)>) -> Self {
        Self {
            memory,
            gateway,
            connected: OnceLock::new(),
        }
    }

    async fn answer(&self, asked: Asked) -> Result<String, String> {
        let file = match asked {
            Asked::Read(file) => file,
            Asked::Search(query, limit) => return self.search(&query, limit).await,
        };
        let memory = self.memory.clone();
        let work = tokio::task::spawn_blocking(move || match file {
            Some(file) => memory.read(&file),
            None => memory.prefs(),
        });
        match work.await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err("Error: the tool failed".to_owned()),
        }
    }

    async fn search(&self, query: &str, limit: usize) -> Result<String, String> {
        let gateway = self.gateway.clone().map(|(address, device)| {
            let start = || Gateway::start(address, device);
            self.connected.get_or_init(start)
        });
        let found = gateway::search(gateway, &self.memory, query, limit).await;
        found
            .map(|found| found.to_string())
            .map_err(|error| error.to_string())
    }
}

impl Toolset for Remembered {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Tool>, Unavailable>> {
        let tools = OFFERS.map(|(name, description)| {
            let tool = Tool::new(name, description, Arc::new(schema(name)));
            tool.with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
        });
        async { Ok(tools.into()) }.boxed()
    }

    fn served<'a>(
        &'a self,
        name: &'a str,
        _: &'a JsonObject,
    ) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        let served = OFFERS
            .iter()
            .any(|(known, _)| *known == name)
            .then(|| Served {
                tool: ToolFacts {
                    server: SERVER.to_owned(),
                    name: name.to_owned(),
                    known: true,
                    tier: "read_only".to_owned(),
                    ..ToolFacts::default()
                },
                // Files of the memory alone, which lie outside of every workspace: the tool is what is judged.
                reach: Reach::Nothing,
                provider: SERVER.to_owned(),
                ..Served::default()
            });
        async { Ok(served) }.boxed()
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        let asked = Asked::of(call.name, call.arguments);
        async move {
            let answer = match asked {
                Ok(asked) => self.answer(asked).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
                Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
            }
        }
        .boxed()
    }
}

impl Asked {
    fn of(name: &str, arguments: &JsonObject) -> Result<Self, String> {
        match name {
            SEARCH => {
                let query = text(arguments, "query")?.ok_or("Error: `query` is missing")?;
                if query.chars().count() > QUERY_LIMIT {
                    return Err(format!(
                        "Error: `query` has more than {QUERY_LIMIT} characters"
                    ));
                }
                Ok(Self::Search(query.to_owned(), limit(arguments)?))
            }
            READ => {
                let file = text(arguments, "file")?.unwrap_or(DEFAULT_FILE);
                Ok(Self::Read(Some(file.to_owned())))
            }
            PREFERENCES => Ok(Self::Read(None)),
            _ => Err(format!("Error: there is no tool `{name}`")),
        }
    }
}

fn text<'a>(arguments: &'a JsonObject, name: &str) -> Result<Option<&'a str>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("Error: `{name}` has to be a text")),
    }
}

fn limit(arguments: &JsonObject) -> Result<usize, String> {
    let wrong = || "Error: `limit` has to be a whole number".to_owned();
    match arguments.get("limit") {
        None | Some(Value::Null) => Ok(DEFAULT_LIMIT),
        Some(Value::Number(number)) => {
            // More than there is to give is no fault.
            let number = number.as_u64().ok_or_else(wrong)?;
            Ok(usize::try_from(number).map_or(MOST_HITS, |number| number.min(MOST_HITS)))
        }
        Some(_) => Err(wrong()),
    }
}

fn schema(name: &str) -> JsonObject {
    let (properties, required) = match name {
        SEARCH => (
            json!({
                "query": {
                    "type": "string", "maxLength": QUERY_LIMIT,
                    "description": "Words to look for.",
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MOST_HITS, "default": DEFAULT_LIMIT,
                    "description": "So many entries at most.",
                },
            }),
            json!(["query"]),
        ),
        READ => (
            json!({"file": {
                "type": "string", "default": DEFAULT_FILE,
                "description": "The file, as a search names it.",
            }}),
            json!([]),
        ),
        _ => (json!({}), json!([])),
    };
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required);
    schema
}
