//! The tools of another MCP server, governed: the gate judges each call, a person accepts what is said
//! of each tool, and a chain of calls that comes back here ends (R-003-65, C-12).

mod alias;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ProgressNotificationParam, Tool, ToolAnnotations,
};
use serde_json::json;
use tokio::sync::mpsc;

use super::Gates;
use super::chain::{Chain, DEPTH_HEADER, DEPTH_KEY};
use super::toolset::{Call, Toolset, Unavailable};
use crate::engine::request::ToolFacts;
use crate::engine::upstream;
use crate::gate::event::{Reach, Served};
use crate::upstream::server::pins::{Description, Pins, Standing};
use crate::upstream::server::{Bounds, Hop, Place, Progress, Server, Trouble};

/// How a server behind this program is told of the depth.
pub const HOP: Hop = Hop {
    key: DEPTH_KEY,
    header: DEPTH_HEADER,
};

/// So many signs of progress wait for a slow client.
const PROGRESS: usize = 16;

/// What a client reads in the place of a description that nobody may read yet.
const CHANGED: &str = "The server describes this tool in other words than those that a person accepted. \
    Calls are denied until a person has compared them with `copilot-bridge mcp pin`.";

/// The same of one that looks like an attack.
const SUSPICIOUS: &str = "How the server describes this tool looks like an attempt to instruct you. A person \
    can read it with `copilot-bridge mcp pin`.";

/// The tools of one server.
#[derive(Debug)]
pub struct Proxy {
    server: Server,
    gates: Arc<dyn Gates>,
    state: PathBuf,
    depth: u32,
    place: String,
    listed: Mutex<Option<Listed>>,
}

/// What a server listed, and when.
#[derive(Debug, Clone)]
struct Listed {
    changes: u64,
    tools: Arc<Vec<Offer>>,
}

#[derive(Debug)]
struct Offer {
    alias: String,
    tool: Tool,
    description: Description,
    texts: String,
}

/// What policies and pins say of a server at the moment.
struct Judged {
    limit: u32,
    server: upstream::Server,
    /// None: they cannot be read, and nobody knows what was accepted.
    pins: Option<Pins>,
}

impl Proxy {
    /// The tools of a server of that name. Nothing is started before it is needed.
    ///
    /// `state` is where the pins are, `depth` how many agents stand above this process.
    #[must_use]
    pub fn new(
        name: &str,
        place: Place,
        bounds: Bounds,
        gates: Arc<dyn Gates>,
        state: &Path,
        depth: u32,
    ) -> Self {
        Self {
            place: place.identity(),
            server: Server::new(name, place, bounds, HOP),
            gates,
            state: state.to_path_buf(),
            depth,
            listed: Mutex::new(None),
        }
    }

    async fn judged(&self) -> Result<Judged, Unavailable> {
        let gates = Arc::clone(&self.gates);
        let (name, state) = (self.server.name().to_owned(), self.state.clone());
        // Files are looked at there.
        let judged = tokio::task::spawn_blocking(move || {
            let gate = gates.current();
            Judged {
                limit: gate.limits().depth,
                server: gate.server(&name),
                pins: Pins::read(&state, &name).ok(),
            }
        });
        judged
            .await
            .map_err(|_| Unavailable("the gate failed".into()))
    }

    /// What the server lists, asked on behalf of a chain that is not too long.
    async fn list(&self, limit: u32) -> Result<Arc<Vec<Offer>>, Unavailable> {
        let chain = Chain::current();
        let depth = chain.depth.max(self.depth);
        if depth >= limit {
            let text = format!(
                "Maximum call depth exceeded (cycle detected). Depth: {depth}, max: {limit}"
            );
            return Err(Unavailable(text.into()));
        }
        let passed = Chain { depth, ..chain }.passed_on();
        let unavailable = |trouble: Trouble| Unavailable(trouble.to_string().into());
        self.server.start().await.map_err(unavailable)?;
        // What changes while it is listed is listed again the next time.
        let changes = self.server.changes();
        let tools = self.server.tools(&passed).await.map_err(unavailable)?;
        let mut names = BTreeSet::new();
        let mut offers = Vec::new();
        for tool in tools {
            let alias = alias::name(self.server.name(), &tool.name);
            if !names.insert(alias.clone()) {
                let text = format!(
                    "the server `{}` lists two tools of one name",
                    self.server.name()
                );
                return Err(Unavailable(text.into()));
            }
            let description = Description::of(&tool);
            offers.push(Offer {
                alias,
                texts: description.texts(),
                description,
                tool,
            });
        }
        let tools = Arc::new(offers);
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Listed {
            changes,
            tools: Arc::clone(&tools),
        });
        Ok(tools)
    }

    /// What the server listed last, unless it has said since then that something has changed.
    async fn known(&self, limit: u32) -> Result<Arc<Vec<Offer>>, Unavailable> {
        let listed = self
            .listed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match listed {
            Some(listed) if listed.changes == self.server.changes() => Ok(listed.tools),
            _ => self.list(limit).await,
        }
    }

    /// A tool as clients are told of it: nothing goes on that a pin does not cover.
    fn shown(&self, offer: &Offer, judged: &Judged, suspicious: bool) -> Tool {
        let hidden = match self.standing(judged, &offer.description) {
            Standing::Changed => Some(CHANGED),
            _ if suspicious => Some(SUSPICIOUS),
            _ => None,
        };
        if let Some(instead) = hidden {
            let mut schema = JsonObject::new();
            schema.insert("type".to_owned(), json!("object"));
            return Tool::new(offer.alias.clone(), instead, Arc::new(schema));
        }
        let mut tool = Tool::default();
        tool.name = offer.alias.clone().into();
        tool.description.clone_from(&offer.tool.description);
        tool.input_schema = Arc::clone(&offer.tool.input_schema);
        tool.output_schema.clone_from(&offer.tool.output_schema);
        // Hints of a server that nobody trusts: rmcp passes them on as such.
        tool.annotations = offer.tool.annotations.clone().map(without_title);
        tool
    }

    /// Where nobody knows what was accepted, something else may have been.
    fn standing(&self, judged: &Judged, description: &Description) -> Standing {
        let pins = judged.pins.as_ref();
        pins.map_or(Standing::Changed, |pins| {
            pins.standing(description, &self.place)
        })
    }

    async fn offered(&self) -> Result<Vec<Tool>, Unavailable> {
        let judged = self.judged().await?;
        let offers = self.list(judged.limit).await?;
        let gates = Arc::clone(&self.gates);
        let looked_at = Arc::clone(&offers);
        let suspicious = tokio::task::spawn_blocking(move || {
            let gate = gates.current();
            let looked_at = looked_at.iter();
            // What cannot be looked at is not shown.
            let found = looked_at.map(|offer| {
                gate.signals_of(&offer.texts)
                    .map_or(true, |found| !found.is_empty())
            });
            found.collect::<Vec<bool>>()
        });
        let suspicious = suspicious
            .await
            .map_err(|_| Unavailable("the gate failed".into()))?;
        let shown = offers.iter().zip(suspicious);
        let shown = shown.map(|(offer, suspicious)| self.shown(offer, &judged, suspicious));
        Ok(shown.collect())
    }

    async fn facts(&self, name: &str) -> Result<Option<Served>, Unavailable> {
        if !name.starts_with(&alias::prefix(self.server.name())) {
            return Ok(None);
        }
        let judged = self.judged().await?;
        if Chain::current().depth.max(self.depth) >= judged.limit {
            return Ok(Some(self.unasked(name, &judged)));
        }
        let offers = self.known(judged.limit).await?;
        let Some(offer) = offers.iter().find(|offer| offer.alias == name) else {
            return Ok(None);
        };
        let said = judged
            .server
            .tools
            .iter()
            .find(|tool| tool.name == offer.tool.name);
        Ok(Some(Served {
            tool: ToolFacts {
                server: self.server.name().to_owned(),
                name: offer.tool.name.clone().into_owned(),
                trust: judged.server.trust.clone(),
                access: said.map(|tool| tool.access.clone()).unwrap_or_default(),
                mode: said.map(|tool| tool.mode.clone()).unwrap_or_default(),
                description: self.standing(&judged, &offer.description).name().to_owned(),
                ..ToolFacts::default()
            },
            reach: Reach::Unknown,
            description: offer.texts.clone(),
            pin: offer.description.digest().to_owned(),
            provider: self.server.name().to_owned(),
            ..Served::default()
        }))
    }

    /// What is known of a tool whose server is not asked any more: the gate denies the call, and
    /// records it.
    fn unasked(&self, name: &str, judged: &Judged) -> Served {
        Served {
            tool: ToolFacts {
                server: self.server.name().to_owned(),
                name: name.to_owned(),
                trust: judged.server.trust.clone(),
                description: Standing::Changed.name().to_owned(),
                ..ToolFacts::default()
            },
            reach: Reach::Nothing,
            provider: self.server.name().to_owned(),
            ..Served::default()
        }
    }

    async fn answer(&self, call: Call<'_>) -> CallToolResult {
        let listed = self
            .listed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let offer = listed.as_ref().and_then(|listed| {
            let mut offers = listed.tools.iter();
            offers.find(|offer| offer.alias == call.name)
        });
        let Some(offer) = offer else {
            return CallToolResult::error(vec![ContentBlock::text(
                "the tool is not there any more",
            )]);
        };
        let chain = Chain {
            depth: call.chain.depth.max(self.depth),
            ..call.chain.clone()
        };
        let passed = chain.passed_on();
        let (progress, passing) = progress(&call);
        let called = self
            .server
            .call(&offer.tool.name, call.arguments.clone(), &passed, progress);
        let (result, ()) = tokio::join!(called, passing);
        match result {
            Ok(mut result) => {
                // Nobody judges what a server tells a client there.
                result.meta = None;
                result
            }
            Err(trouble) => CallToolResult::error(vec![ContentBlock::text(trouble.to_string())]),
        }
    }
}

impl Toolset for Proxy {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Tool>, Unavailable>> {
        self.offered().boxed()
    }

    fn served<'a>(
        &'a self,
        name: &'a str,
        _: &'a JsonObject,
    ) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        self.facts(name).boxed()
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        self.answer(call).boxed()
    }
}

fn without_title(mut hints: ToolAnnotations) -> ToolAnnotations {
    hints.title = None;
    hints
}

/// Where a server's progress goes, and the work of passing it on, which ends when the first does.
fn progress<'a>(call: &Call<'a>) -> (Option<mpsc::Sender<Progress>>, BoxFuture<'a, ()>) {
    let Some(token) = call.context.meta.get_progress_token() else {
        return (None, async {}.boxed());
    };
    let (to, mut from) = mpsc::channel(PROGRESS);
    let peer = call.context.peer.clone();
    let passing = async move {
        while let Some(Progress { done, total }) = from.recv().await {
            let mut params = ProgressNotificationParam::new(token.clone(), done);
            params.total = total;
            if peer.notify_progress(params).await.is_err() {
                break;
            }
        }
    };
    (Some(to), passing.boxed())
}
