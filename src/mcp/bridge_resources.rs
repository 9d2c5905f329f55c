//! What governs an agent, for it to read: policies, limits, how far its tools go by themselves, the
//! settings, and the newest records (`bridge://…`, R-003-14).

use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::door::Gates;
use super::services::{READ, UNUSABLE};
use super::toolset::{Call, Resources, Unavailable};
use crate::audit::read;
use crate::engine::action::Action;
use crate::engine::decision::{Effect, Obligation};
use crate::engine::request::{Agent, Context, Request, Resource as Asked, ToolFacts};
use crate::engine::upstream::{ServerTool, Upstreams};
use crate::gate::Gate;
use crate::gate::event::{Reach, Served};
use crate::policy::source::Source;

/// The name of the server in policies and in the record.
const SERVER: &str = "bridge";

/// So many records are the newest ones.
const RECENT: usize = 50;

const POLICIES: &str = "bridge://policies";
const FILE: &str = "bridge://policies/";
const LIMITS: &str = "bridge://limits";
const AUTONOMY: &str = "bridge://autonomy";
const CONFIG: &str = "bridge://config";
const AUDIT: &str = "bridge://audit/recent";

/// Those that are always there, their names, and what they are.
const FIXED: [(&str, &str, &str); 5] = [
    (
        POLICIES,
        "Policies",
        "The files of policies that are in force, and each policy in them.",
    ),
    (
        LIMITS,
        "Limits",
        "How deep, how large and how slow a call may be.",
    ),
    (
        AUTONOMY,
        "Autonomy ladder",
        "How far each tool of upstreams.toml may go by itself, and what the policies say of it now.",
    ),
    (
        CONFIG,
        "Configuration",
        "The settings that are in force, and where each comes from.",
    ),
    (
        AUDIT,
        "Newest records",
        "The last 50 lines of the record, redacted as they were written.",
    ),
];

/// Names in rosters are people's, and examples in packs look like secrets: they are shown to nobody.
const PRIVATE: [&str; 2] = ["redaction/", "rosters/"];

/// Where what is shown comes from.
pub trait Books: fmt::Debug + Send + Sync {
    /// The files of all layers of policies, the base first.
    ///
    /// # Errors
    /// In words, if they cannot be read.
    fn sources(&self) -> Result<Vec<Source>, String>;

    /// The settings that are in force, and where each comes from.
    ///
    /// # Errors
    /// In words, if they cannot be told.
    fn configuration(&self) -> Result<Value, String>;

    /// The directory that the record is kept in.
    fn state(&self) -> PathBuf;
}

/// The resources.
#[derive(Debug, Clone)]
pub struct BridgeResources {
    gates: Arc<dyn Gates>,
    books: Arc<dyn Books>,
}

impl BridgeResources {
    /// Those of the policies of `gates`.
    #[must_use]
    pub fn new(gates: Arc<dyn Gates>, books: Arc<dyn Books>) -> Self {
        Self { gates, books }
    }

    /// The addresses of the files of policies, with their texts.
    fn files(&self) -> Result<Vec<(String, String)>, String> {
        let sources = self.books.sources()?;
        let mut files = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            for file in &source.files {
                if PRIVATE.iter().any(|folder| file.name.starts_with(folder)) {
                    continue;
                }
                // Of two files with one name, the base's has it.
                let name = match index {
                    0 => format!("{FILE}{}", file.name),
                    _ => format!("{FILE}{}:{}", source.layer.prefix(), file.name),
                };
                files.push((name, file.text.clone()));
            }
        }
        Ok(files)
    }

    fn text(&self, uri: &str) -> Result<(String, &'static str), String> {
        let gate = self.gates.current();
        let json = match uri {
            POLICIES => self.policies(&gate)?,
            LIMITS => serde_json::to_value(gate.limits()).map_err(|error| error.to_string())?,
            AUTONOMY => autonomy(&gate),
            CONFIG => self.books.configuration()?,
            AUDIT => recent(&self.books)?,
            _ => {
                let files = self.files()?;
                let file = files.into_iter().find(|(name, _)| name == uri);
                let (_, text) = file.ok_or_else(|| format!("there is no resource `{uri}`"))?;
                return Ok((text, media_type(uri)));
            }
        };
        Ok((format!("{json:#}"), "application/json"))
    }

    fn policies(&self, gate: &Gate) -> Result<Value, String> {
        let files: Vec<String> = self.files()?.into_iter().map(|(uri, _)| uri).collect();
        let bundle = gate.policies().ok_or(UNUSABLE)?;
        let policies = bundle.policies.iter().map(|policy| {
            json!({
                "id": policy.id,
                "verdict": policy.verdict,
                "severity": policy.severity,
                "reason": policy.reason,
                "help": policy.help,
            })
        });
        Ok(json!({
            "files": files,
            "mode": bundle.settings.mode,
            "policies": policies.collect::<Vec<_>>(),
        }))
    }
}

impl Resources for BridgeResources {
    fn resources(&self) -> BoxFuture<'_, Result<Vec<Resource>, Unavailable>> {
        let this = self.clone();
        async move {
            let fixed = FIXED.iter().map(|(uri, name, about)| {
                Resource::new(*uri, *name)
                    .with_description(*about)
                    .with_mime_type("application/json")
            });
            let mut all: Vec<Resource> = fixed.collect();
            let files = working(move || this.files()).await?;
            all.extend(files.into_iter().map(|(uri, _)| {
                let name = uri.trim_start_matches(FILE).to_owned();
                let media = media_type(&uri);
                Resource::new(uri, name).with_mime_type(media)
            }));
            Ok(all)
        }
        .boxed()
    }

    fn templates(&self) -> BoxFuture<'_, Result<Vec<ResourceTemplate>, Unavailable>> {
        let template = ResourceTemplate::new(format!("{FILE}{{+file}}"), "A file of policies")
            .with_description("One of the files that `bridge://policies` lists.");
        async { Ok(vec![template]) }.boxed()
    }

    fn served<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        let ours = uri.starts_with(FILE) || FIXED.iter().any(|(fixed, ..)| *fixed == uri);
        let served = ours.then(|| Served {
            tool: ToolFacts {
                server: SERVER.to_owned(),
                name: READ.to_owned(),
                known: true,
                tier: "read_only".to_owned(),
                ..ToolFacts::default()
            },
            reach: Reach::Nothing,
            provider: SERVER.to_owned(),
            ..Served::default()
        });
        async { Ok(served) }.boxed()
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        _: Call<'a>,
    ) -> BoxFuture<'a, Result<ReadResourceResult, Unavailable>> {
        let this = self.clone();
        let wanted = uri.to_owned();
        async move {
            let (text, media) = working(move || this.text(&wanted)).await?;
            let contents = ResourceContents::text(text, uri).with_mime_type(media);
            Ok(ReadResourceResult::new(vec![contents]))
        }
        .boxed()
    }
}

/// Looks at files where that holds nobody up.
async fn working<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Unavailable> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|text| Unavailable(text.into())),
        Err(_) => Err(Unavailable("the resource failed".into())),
    }
}

fn media_type(uri: &str) -> &'static str {
    if uri.ends_with(".toml") {
        "application/toml"
    } else {
        "text/plain"
    }
}

/// The tools of `upstreams.toml`, and what the policies say of each.
fn autonomy(gate: &Gate) -> Value {
    let rows = gate.upstreams().map(facts).unwrap_or_default();
    let rows = rows.into_iter().map(|tool| {
        let request = Request {
            principal: Agent {
                host: "mcp".to_owned(),
                ..Agent::default()
            },
            action: Action::Mcp,
            resource: Asked::Tool(tool.clone()),
            context: Context {
                event: "pre_tool_use".to_owned(),
                tool: tool.qualified(),
                interactive: "no".to_owned(),
                depth_limit: u32::MAX,
                ..Context::default()
            },
        };
        let foretold = gate.foretell(&request);
        let (now, reasons, draft) = match &foretold {
            None => (Effect::Deny, &[][..], false),
            Some(foretold) => {
                let draft = foretold.effect == Effect::Allow
                    && foretold.obligations.contains(&Obligation::MarkDraft);
                (foretold.effect, foretold.reasons.as_slice(), draft)
            }
        };
        json!({
            "server": tool.server,
            "tool": tool.name,
            "tier": tool.tier,
            "mode": tool.mode,
            "trust": tool.trust,
            "access": tool.access,
            "now": now,
            "draft": draft,
            "policies": reasons.iter().map(|reason| &reason.id).collect::<Vec<_>>(),
            "reasons": reasons.iter().map(|reason| &reason.text).collect::<Vec<_>>(),
        })
    });
    json!({
        "about": "What the policies say of a call without arguments. Arguments, depth and descriptions may make it stricter.",
        "tools": rows.collect::<Vec<_>>(),
    })
}

fn facts(upstreams: &Upstreams) -> Vec<ToolFacts> {
    let mut all = Vec::new();
    for service in &upstreams.services {
        all.extend(service.tools.iter().map(|tool| ToolFacts {
            server: service.name.clone(),
            name: tool.name.clone(),
            known: true,
            tier: tool.tier.clone(),
            mode: tool.mode.clone(),
            ..ToolFacts::default()
        }));
    }
    for server in &upstreams.servers {
        // `*` stands for the tools of which nothing is said.
        let rest = ServerTool {
            name: "*".to_owned(),
            ..ServerTool::default()
        };
        all.extend(server.tools.iter().chain([&rest]).map(|tool| ToolFacts {
            server: server.name.clone(),
            name: tool.name.clone(),
            known: true,
            trust: server.trust.clone(),
            access: tool.access.clone(),
            mode: tool.mode.clone(),
            ..ToolFacts::default()
        }));
    }
    all
}

/// The newest records, the newest last.
fn recent(books: &Arc<dyn Books>) -> Result<Value, String> {
    let newest = RefCell::new(Vec::new());
    read::last(&books.state(), |line| {
        let mut newest = newest.borrow_mut();
        newest.push(line.clone());
        newest.len() >= RECENT
    })
    .map_err(|error| error.to_string())?;
    let mut newest = newest.into_inner();
    newest.reverse();
    Ok(Value::Array(newest))
}
