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
pub mod services;
pub mod stdio;
pub mod toolset;

use std::sync::Arc;
use std::time::Instant;

use axum::http::{HeaderMap, request::Parts};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ResourceContents, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

pub use door::Gates;
pub use rmcp;

use crate::engine::request::ToolFacts;
use crate::gate::event::{Reach, Served, UNKNOWN_SESSION};
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
            },
            chains: Chains::default(),
            toolsets: Vec::new(),
            resources: Vec::new(),
        }))
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
    ) -> Result<CallToolResult, ErrorData> {
        let mut arguments = params.arguments.unwrap_or_default();
        let entered = self
            .0
            .chains
            .enter(&context.meta, headers(&context), &mut arguments);
        let (name, chain) = (params.name.as_ref(), &entered.chain);
        let door = &self.0.door;
        let caller = door.caller(&context, chain);
        let (toolset, mut served) = match self.find(name, &arguments).await {
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
                return Ok(CallToolResult::error(vec![ContentBlock::text(
                    unavailable.to_string(),
                )]));
            }
        };
        served.trace.clone_from(&chain.trace);
        let admitted = match door.admit(&caller, &served, &arguments).await {
            Ok(admitted) => admitted,
            Err(blocked) => return Ok(blocked.result()),
        };
        let began = Instant::now();
        let call = Call {
            name,
            arguments: &arguments,
            chain,
            context: &context,
            cleared: &admitted.cleared,
        };
        let result = tokio::select! {
            result = toolset.call(call) => result,
            () = context.ct.cancelled() => {
                CallToolResult::error(vec![ContentBlock::text("the call was cancelled")])
            }
        };
        let took = began.elapsed();
        Ok(door
            .release(&caller, &admitted, &served, took, result)
            .await)
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
        let gone = || ErrorData::resource_not_found(format!("there is no resource `{uri}`"), None);
        let mut found = None;
        for resources in &self.0.resources {
            if let Some(served) = resources.served(&uri).await.map_err(internal)? {
                found = Some((resources, served));
                break;
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
            let text = released.content.iter().find_map(|block| match block {
                ContentBlock::Text(text) => Some(text.text.clone()),
                _ => None,
            });
            return Err(ErrorData::internal_error(text.unwrap_or_default(), None));
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
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools: Vec<rmcp::model::Tool> = Vec::new();
        for toolset in &self.0.toolsets {
            for tool in toolset.tools().await.map_err(internal)? {
                if tools.iter().all(|known| known.name != tool.name) {
                    tools.push(tool);
                }
            }
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(params, context).await.map(CallToolResponse::from)
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
