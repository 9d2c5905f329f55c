//! The tools by which OpenClaw and others work through Copilot: today those for files (R-000-17,
//! R-000-18). The tools that need a session of Copilot are not offered before there are sessions.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::toolset::{Call, Toolset, Unavailable};
use crate::engine::action::Action;
use crate::engine::request::ToolFacts;
use crate::facts::beneath::{self, Beneath};
use crate::facts::paths::words;
use crate::gate::event::{Reach, ReachedPath, Served};

/// The name of the server in policies and in the record.
const SERVER: &str = "copilot";

/// No path is longer, in characters (R-000-66).
const PATH_LIMIT: usize = 1_000;

/// No content is longer, in characters (R-000-66).
const CONTENT_LIMIT: usize = 500_000;

/// A larger file is not read, in bytes.
const FILE_LIMIT: u64 = 4 << 20;

/// A list has no more names.
const NAMES: usize = 10_000;

/// The tools, for one workspace.
#[derive(Debug)]
pub struct Copilot {
    workspace: PathBuf,
}

/// What a call asks for, once its arguments are understood.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Read(PathBuf),
    Create(PathBuf, String),
    List(PathBuf),
}

/// One tool.
struct Offer {
    name: &'static str,
    description: &'static str,
    tier: &'static str,
    action: Action,
    operation: &'static str,
}

const OFFERS: [Offer; 3] = [
    Offer {
        name: "copilot_read_file",
        description: "Read a text file of the workspace that Copilot works in.",
        tier: "read_only",
        action: Action::Read,
        operation: "read",
    },
    Offer {
        name: "copilot_create_file",
        description: "Create a file in the workspace that Copilot works in, with the folders above it, or replace what is in it.",
        tier: "governance",
        action: Action::Write,
        operation: "create",
    },
    Offer {
        name: "copilot_list_files",
        description: "List the files and folders in a folder of the workspace that Copilot works in.",
        tier: "read_only",
        action: Action::Read,
        operation: "list",
    },
];

impl Copilot {
    /// The tools for that workspace.
    #[must_use]
    pub fn new(workspace: &Path) -> Self {
        Self {
            workspace: workspace.to_path_buf(),
        }
    }

    fn answer(&self, asked: &Asked) -> Result<String, String> {
        let failed = |doing: &str, path: &Path, error: &io::Error| {
            format!(
                "Error: cannot {doing} `{}`: {}",
                path.display(),
                words(error)
            )
        };
        let root = Beneath::new(&self.workspace)
            .map_err(|error| failed("open", &self.workspace, &error))?;
        match asked {
            Asked::Read(path) => root
                .open(path)
                .and_then(text)
                .map_err(|error| failed("read", path, &error)),
            Asked::Create(path, content) => root
                .create(path)
                .and_then(|mut file| file.write_all(content.as_bytes()))
                .map(|()| format!("Created {}", path.display()))
                .map_err(|error| failed("create", path, &error)),
            Asked::List(path) => {
                let names = root
                    .open(path)
                    .and_then(|dir| beneath::names(&dir, NAMES + 1))
                    .map_err(|error| failed("list", path, &error))?;
                if names.len() > NAMES {
                    return Err(format!("Error: there are more than {NAMES} files"));
                }
                Ok(names.join("\n"))
            }
        }
    }
}

impl Toolset for Copilot {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Tool>, Unavailable>> {
        let tools = OFFERS.iter().map(|offer| {
            let tool = Tool::new(offer.name, offer.description, Arc::new(schema(offer.name)));
            tool.with_annotations(
                ToolAnnotations::new()
                    .read_only(offer.action == Action::Read)
                    .open_world(false),
            )
        });
        let tools = tools.collect();
        async { Ok(tools) }.boxed()
    }

    fn served<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a JsonObject,
    ) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        let served = OFFERS.iter().find(|offer| offer.name == name).map(|offer| {
            let reach = match Asked::of(name, arguments) {
                Ok(Asked::Read(path) | Asked::Create(path, _) | Asked::List(path)) => {
                    let path = self.workspace.join(path);
                    Reach::Paths(vec![ReachedPath {
                        action: offer.action,
                        operation: offer.operation,
                        path: path.to_string_lossy().into_owned(),
                    }])
                }
                // What is not understood is refused by the tool, and reaches nothing.
                Err(_) => Reach::Nothing,
            };
            Served {
                tool: ToolFacts {
                    server: SERVER.to_owned(),
                    name: name.to_owned(),
                    known: true,
                    tier: offer.tier.to_owned(),
                    // Where it writes is what policies look at.
                    mode: "autonomous".to_owned(),
                    ..ToolFacts::default()
                },
                reach,
                provider: SERVER.to_owned(),
                ..Served::default()
            }
        });
        async { Ok(served) }.boxed()
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        let asked = Asked::of(call.name, call.arguments);
        let workspace = self.workspace.clone();
        async move {
            let answer = match asked {
                Ok(asked) => {
                    let work = move || Self { workspace }.answer(&asked);
                    let done = tokio::task::spawn_blocking(work).await;
                    done.unwrap_or_else(|_| Err("Error: the tool failed".to_owned()))
                }
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
            "copilot_read_file" => Ok(Self::Read(path(required(arguments, "path")?)?)),
            "copilot_create_file" => {
                let content = required(arguments, "content")?;
                if content.chars().count() > CONTENT_LIMIT {
                    return Err(format!(
                        "Error: `content` has more than {CONTENT_LIMIT} characters"
                    ));
                }
                let path = path(required(arguments, "path")?)?;
                Ok(Self::Create(path, content.to_owned()))
            }
            "copilot_list_files" => {
                let directory = optional(arguments, "directory")?.unwrap_or_default();
                Ok(Self::List(path(directory)?))
            }
            _ => Err(format!("Error: there is no tool `{name}`")),
        }
    }
}

/// A path of the workspace (R-000-66).
fn path(given: &str) -> Result<PathBuf, String> {
    let windows = given.starts_with('\\') || given.get(1..2) == Some(":");
    let refused = if given.contains('\0') {
        "Error: Null bytes are not allowed".to_owned()
    } else if Path::new(given).is_absolute() || windows {
        "Error: Absolute paths are not allowed".to_owned()
    } else if given.split(['/', '\\']).any(|part| part == "..") {
        "Error: Path traversal is not allowed".to_owned()
    } else if given.chars().count() > PATH_LIMIT {
        format!("Error: a path has at most {PATH_LIMIT} characters")
    } else {
        return Ok(PathBuf::from(given));
    };
    Err(refused)
}

fn required<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, String> {
    optional(arguments, name)?.ok_or_else(|| format!("Error: `{name}` is missing"))
}

fn optional<'a>(arguments: &'a JsonObject, name: &str) -> Result<Option<&'a str>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("Error: `{name}` has to be a text")),
    }
}

fn text(file: File) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut text = String::new();
    if file.take(FILE_LIMIT + 1).read_to_string(&mut text)? as u64 > FILE_LIMIT {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn schema(name: &str) -> JsonObject {
    let path = json!({
        "type": "string", "maxLength": PATH_LIMIT,
        "description": "Relative to the workspace.",
    });
    let (properties, required) = match name {
        "copilot_read_file" => (json!({"path": path}), json!(["path"])),
        "copilot_create_file" => (
            json!({"path": path, "content": {"type": "string", "maxLength": CONTENT_LIMIT}}),
            json!(["path", "content"]),
        ),
        _ => (json!({"directory": path}), json!([])),
    };
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_refused_in_the_words_of_the_original() {
        for (given, expected) in [
            ("a\0b", "Error: Null bytes are not allowed"),
            ("/etc/passwd", "Error: Absolute paths are not allowed"),
            ("C:\\x", "Error: Absolute paths are not allowed"),
            ("\\\\host\\x", "Error: Absolute paths are not allowed"),
            ("a/../../x", "Error: Path traversal is not allowed"),
            ("..\\x", "Error: Path traversal is not allowed"),
        ] {
            assert_eq!(path(given), Err(expected.to_owned()), "{given}");
        }
        assert!(path(&"a".repeat(PATH_LIMIT + 1)).is_err());
        assert_eq!(path("a..b/c"), Ok(PathBuf::from("a..b/c")));
    }
}
