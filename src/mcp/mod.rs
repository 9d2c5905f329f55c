//! MCP: the door for clients that call tools of ours, over stdio or HTTP.
//!
//! One server core: [`Bridge`]. What it offers are [`toolset::Toolset`]s and [`toolset::Resources`];
//! every call passes the gate before it happens, and once more with what came of it. It speaks the
//! protocol of 2026-07-28 and those with `initialize` before it, on the same endpoint (C-13).

mod blocked;
pub mod bridge_resources;
pub mod chain;
pub mod copilot;
mod door;
pub mod http;
pub mod memory;
#[cfg(unix)]
pub mod proxy;
pub mod services;
pub mod stdio;
pub mod toolset;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, request::Parts};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceContents, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;

pub use door::Gates;
pub use rmcp;

use crate::engine::request::ToolFacts;
use crate::gate::event::{Reach, Served, UNKNOWN_SESSION};
use crate::http::metrics::Metrics;
use chain::Chains;
use door::Door;
use toolset::{Call, Resources, Toolset, Unavailable};

/// An MCP server.
#[derive(Debug, Clone)]
pub struct Bridge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    instructions: String,
    door: Door,
    chains: Chains,
    patience: Option<Duration>,
    toolsets: Vec<Arc<dyn Toolset>>,
    resources: Vec<Arc<dyn Resources>>,
}

/// What a server needs to know of itself.
#[derive(Debug, Clone)]
pub struct About {
    /// The name that clients see, and the server of the tools that nobody offers.
    pub name: String,
    /// What models are told of it.
    pub instructions: String,
    /// The folder that callers work in: paths are judged from there.
    pub workspace: String,
    /// How many agents stand above the program.
    pub depth: u32,
    /// Whether one client has it for itself, as over stdio.
    pub private: bool,
}

impl Bridge {
    /// A server without anything to offer.
    #[must_use]
    pub fn new(about: About, gates: Arc<dyn Gates>) -> Self {
        let session = if about.private {
            chain::fresh()
        } else {
            UNKNOWN_SESSION.to_owned()
        };
        Self(Arc::new(Inner {
            name: about.name,
            instructions: about.instructions,
            door: Door {
                gates,
                workspace: about.workspace,
                session,
                metrics: None,
            },
            chains: Chains::below(about.depth),
            patience: None,
            toolsets: Vec::new(),
            resources: Vec::new(),
        }))
    }

    /// The same, and its calls are counted.
    #[must_use]
    pub fn metered(mut self, metrics: Arc<Metrics>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.door.metrics = Some(metrics);
        }
        self
    }

    /// The same, and no call takes longer: it is then given up, and its result says so.
    #[must_use]
    pub fn bounded(mut self, patience: Duration) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.patience = Some(patience);
        }
        self
    }

    /// The same, with those tools. Of two tools with one name, the first counts.
    #[must_use]
    pub fn with_tools(mut self, tools: Arc<dyn Toolset>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.toolsets.push(tools);
        }
        self
    }

    /// The same, with those resources.
    #[must_use]
    pub fn with_resources(mut self, resources: Arc<dyn Resources>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.resources.push(resources);
        }
        self
    }

    /// Whoever knows the policies, for those who offer something.
    #[must_use]
    pub fn gates(&self) -> Arc<dyn Gates> {
        Arc::clone(&self.0.door.gates)
    }

    /// The toolset that has a tool of that name, and what policies may ask of the call.
    async fn find(
        &self,
        name: &str,
        arguments: &JsonObject,
    ) -> Result<Option<(&Arc<dyn Toolset>, Served)>, Unavailable> {
        for toolset in &self.0.toolsets {
            if let Some(served) = toolset.served(name, arguments).await? {
                return Ok(Some((toolset, served)));
            }
        }
        Ok(None)
    }

    async fn call(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut arguments = params.arguments.unwrap_or_default();
        let entered = self
            .0
            .chains
            .enter(&context.meta, headers(&context), &mut arguments);
        let (name, chain) = (params.name.as_ref(), &entered.chain);
        let door = &self.0.door;
        let caller = door.caller(&context, chain);
        let (toolset, mut served) = match chain.on_behalf(self.find(name, &arguments)).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                // Whoever tries names is in the record.
                let served = self.unknown(name);
                let _ = door.admit(&caller, &served, &arguments).await;
                return Err(ErrorData::invalid_params(
                    format!("unknown tool `{name}`"),
                    None,
                ));
            }
            Err(unavailable) => {
                let text = ContentBlock::text(unavailable.to_string());
                let result = CallToolResult::error(vec![text]);
                let served = self.unknown(name);
                let result = match door.admit(&caller, &served, &arguments).await {
                    Ok(admitted) => {
                        let took = Duration::ZERO;
                        door.release(&caller, &admitted, &served, took, result)
                            .await
                    }
                    // It is in the record; what helps is why nobody knows the tool.
                    Err(_) => result,
                };
                return Ok(result.into());
            }
        };
        served.trace.clone_from(&chain.trace);
        let admitted = match door.admit(&caller, &served, &arguments).await {
            Ok(admitted) => admitted,
            Err(blocked) => return Ok(blocked.result().into()),
        };
        let began = Instant::now();
        let call = Call {
            name,
            arguments: &arguments,
            input: params.input_responses.as_ref(),
            state: params.request_state.as_deref(),
            chain,
            context: &context,
            cleared: &admitted.cleared,
        };
        let response = tokio::select! {
            response = toolset.respond(call) => response,
            () = context.ct.cancelled() => {
                let text = ContentBlock::text("the call was cancelled");
                Ok(CallToolResult::error(vec![text]).into())
            }
            () = self.out_of_patience() => {
                let text = ContentBlock::text("the call took too long, and was given up");
                Ok(CallToolResult::error(vec![text]).into())
            }
        };
        let took = began.elapsed();
        let result = match response {
            Err(error) => {
                let text = ContentBlock::text(error.message.clone());
                let mut result = CallToolResult::error(vec![text]);
                result.structured_content = error.data;
                let seen = door
                    .release(&caller, &admitted, &served, took, result)
                    .await;
                let text = said(&seen);
                return Err(ErrorData::new(error.code, text, seen.structured_content));
            }
            Ok(CallToolResponse::Complete(result)) => result,
            // What a tool needs is told to a person, or to a model.
            Ok(CallToolResponse::InputRequired(needed)) => {
                let told = serde_json::to_value(&needed).unwrap_or_default();
                let result = CallToolResult::structured(told);
                let seen = door
                    .release(&caller, &admitted, &served, took, result.clone())
                    .await;
                return Ok(if seen.structured_content == result.structured_content {
                    needed.into()
                } else {
                    seen.into()
                });
            }
            // Nothing that is served makes tasks.
            Ok(_) => {
                return Err(ErrorData::internal_error("a tool made a task", None));
            }
        };
        let released = door
            .release(&caller, &admitted, &served, took, result)
            .await;
        Ok(released.into())
    }

    async fn read(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResult, ErrorData> {
        let uri = params.uri;
        let mut arguments = JsonObject::new();
        let entered = self
            .0
            .chains
            .enter(&context.meta, headers(&context), &mut arguments);
        arguments.insert("uri".to_owned(), uri.clone().into());
        let chain = &entered.chain;
        let door = &self.0.door;
        let caller = door.caller(&context, chain);
        let gone = || {
            let text = format!("there is no resource `{uri}`");
            ErrorData::resource_not_found(text, Some(json!({"uri": uri})))
        };
        let mut found = None;
        for resources in &self.0.resources {
            match resources.served(&uri).await {
                Ok(Some(served)) => {
                    found = Some((resources, served));
                    break;
                }
                Ok(None) => {}
                Err(unavailable) => {
                    let served = self.unknown("resources/read");
                    let _ = door.admit(&caller, &served, &arguments).await;
                    return Err(internal(unavailable));
                }
            }
        }
        let Some((resources, mut served)) = found else {
            let _ = door
                .admit(&caller, &self.unknown("resources/read"), &arguments)
                .await;
            return Err(gone());
        };
        served.trace.clone_from(&chain.trace);
        let admitted = match door.admit(&caller, &served, &arguments).await {
            Ok(admitted) => admitted,
            Err(blocked) => return Err(ErrorData::invalid_request(blocked.text, None)),
        };
        let began = Instant::now();
        let call = Call {
            name: &served.tool.name,
            arguments: &arguments,
            input: None,
            state: None,
            chain,
            context: &context,
            cleared: &admitted.cleared,
        };
        let read = resources.read(&uri, call).await;
        let took = began.elapsed();
        // What is read goes the way of a tool's result.
        let blocks = match &read {
            Ok(read) => read
                .contents
                .iter()
                .cloned()
                .map(ContentBlock::resource)
                .collect(),
            Err(unavailable) => vec![ContentBlock::text(unavailable.to_string())],
        };
        let result = if read.is_ok() {
            CallToolResult::success(blocks)
        } else {
            CallToolResult::error(blocks)
        };
        let released = door
            .release(&caller, &admitted, &served, took, result)
            .await;
        if released.is_error == Some(true) {
            return Err(ErrorData::internal_error(said(&released), None));
        }
        let contents = released
            .content
            .into_iter()
            .filter_map(|block| match block {
                ContentBlock::Resource(embedded) => Some(embedded.resource),
                _ => None,
            });
        let contents: Vec<ResourceContents> = contents.collect();
        Ok(ReadResourceResult::new(contents))
    }

    /// Comes when a call that begins now has taken too long.
    async fn out_of_patience(&self) {
        match self.0.patience {
            Some(patience) => tokio::time::sleep(patience).await,
            None => std::future::pending().await,
        }
    }

    /// What is said of a tool that nobody offers.
    fn unknown(&self, name: &str) -> Served {
        Served {
            tool: ToolFacts {
                server: self.0.name.clone(),
                name: name.to_owned(),
                ..ToolFacts::default()
            },
            reach: Reach::Nothing,
            ..Served::default()
        }
    }
}

impl ServerHandler for Bridge {
    fn get_info(&self) -> ServerConfig {
        let tools = !self.0.toolsets.is_empty();
        let resources = !self.0.resources.is_empty();
        let mut capabilities = ServerCapabilities::default();
        if tools {
            capabilities.tools = Some(rmcp::model::ToolsCapability::default());
        }
        if resources {
            capabilities.resources = Some(rmcp::model::ResourcesCapability::default());
        }
        let mut config = ServerConfig::new(capabilities);
        config.server_info = Implementation::new(
            "copilot-bridge".to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
        )
        .with_title(self.0.name.clone());
        if !self.0.instructions.is_empty() {
            config.instructions = Some(self.0.instructions.clone());
        }
        config
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools: Vec<rmcp::model::Tool> = Vec::new();
        let (chains, mut none) = (&self.0.chains, JsonObject::new());
        let entered = chains.enter(&context.meta, headers(&context), &mut none);
        let mut missing = None;
        for toolset in &self.0.toolsets {
            let listed = match entered.chain.on_behalf(toolset.tools()).await {
                Ok(listed) => listed,
                // One that is away takes no tools from the others.
                Err(unavailable) => {
                    missing = Some(unavailable);
                    continue;
                }
            };
            for tool in listed {
                if tools.iter().all(|known| known.name != tool.name) {
                    tools.push(tool);
                }
            }
        }
        match missing {
            Some(unavailable) if tools.is_empty() => Err(internal(unavailable)),
            _ => Ok(ListToolsResult::with_all_items(tools)),
        }
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(params, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut all = Vec::new();
        for resources in &self.0.resources {
            all.extend(resources.resources().await.map_err(internal)?);
        }
        Ok(ListResourcesResult::with_all_items(all))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut all = Vec::new();
        for resources in &self.0.resources {
            all.extend(resources.templates().await.map_err(internal)?);
        }
        Ok(ListResourceTemplatesResult::with_all_items(all))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read(params, context)
            .await
            .map(ReadResourceResponse::from)
    }
}

/// The first text of a result.
fn said(result: &CallToolResult) -> String {
    let text = result.content.iter().find_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.clone()),
        _ => None,
    });
    text.unwrap_or_default()
}

/// The headers of a request that came over HTTP.
fn headers(context: &RequestContext<RoleServer>) -> Option<&HeaderMap> {
    context
        .extensions
        .get::<Parts>()
        .map(|parts| &parts.headers)
}

fn internal(unavailable: Unavailable) -> ErrorData {
    ErrorData::internal_error(unavailable.0, None)
}
