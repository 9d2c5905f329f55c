//! What a server offers: tools and resources. Whoever offers them never sees a call that the gate did
//! not let through.

use std::borrow::Cow;
use std::fmt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, CallToolResult, ErrorData, InputResponses, JsonObject, ReadResourceResult,
    Resource, ResourceTemplate, Tool,
};
use rmcp::service::RequestContext;

use super::chain::Chain;
use crate::gate::event::Served;
use crate::gate::outcome::Cleared;

/// Tools that this program serves.
pub trait Toolset: fmt::Debug + Send + Sync {
    /// The tools, as clients are told of them.
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Tool>, Unavailable>>;

    /// What policies may ask of a call, or nothing where there is no tool of that name. It has to be
    /// said before anything happens: the gate judges by it.
    ///
    /// `arguments` are as the client sent them, but for the depth.
    fn served<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a JsonObject,
    ) -> BoxFuture<'a, Result<Option<Served>, Unavailable>>;

    /// Calls the tool. An error is a result that says so.
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult>;

    /// The same for tools that may need something of the client first.
    ///
    /// # Errors
    /// If the call is no call of that tool at all.
    fn respond<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        self.call(call)
            .map(|result| Ok(CallToolResponse::from(result)))
            .boxed()
    }
}

/// Resources that this program serves.
pub trait Resources: fmt::Debug + Send + Sync {
    /// Those that have an address of their own.
    fn resources(&self) -> BoxFuture<'_, Result<Vec<Resource>, Unavailable>>;

    /// The forms of the addresses of all others.
    fn templates(&self) -> BoxFuture<'_, Result<Vec<ResourceTemplate>, Unavailable>>;

    /// What policies may ask when that address is read, or nothing where nobody has it.
    fn served<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Option<Served>, Unavailable>>;

    /// Reads what is at an address.
    fn read<'a>(
        &'a self,
        uri: &'a str,
        call: Call<'a>,
    ) -> BoxFuture<'a, Result<ReadResourceResult, Unavailable>>;
}

/// A call that the gate let through.
#[derive(Debug)]
pub struct Call<'a> {
    /// The tool.
    pub name: &'a str,
    /// Its arguments.
    pub arguments: &'a JsonObject,
    /// What the client answered to what the tool needed.
    pub input: Option<&'a InputResponses>,
    /// What the tool gave the client to keep in the meantime. Anybody may have changed it.
    pub state: Option<&'a str>,
    /// The chain of calls that it is part of, for what is called on its behalf.
    pub chain: &'a Chain,
    /// The request, with its peer and what ends it early.
    pub context: &'a RequestContext<RoleServer>,
    /// The proof that it may happen.
    pub cleared: &'a Cleared,
}

/// Why there is nothing to offer just now, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub Cow<'static, str>);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}
