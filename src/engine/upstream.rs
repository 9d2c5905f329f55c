//! What stands behind this program: HTTP services whose routes are tools, and other MCP servers
//! (`upstreams.toml`, R-003-09…14, R-003-65).

use serde::{Deserialize, Serialize};

/// The upstreams of `upstreams.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstreams {
    /// HTTP services.
    pub services: Vec<Service>,
    /// MCP servers.
    pub servers: Vec<Server>,
}

/// An HTTP service whose routes are tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The name: the server of its tools in policies and in the record.
    pub name: String,
    /// The address that routes stand behind, without a slash at its end.
    pub url: String,
    /// How it is told who calls.
    pub auth: Option<Auth>,
    /// Its tools.
    pub tools: Vec<ServiceTool>,
    /// Its resources.
    pub resources: Vec<ServiceResource>,
}

/// How a service is told who calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auth {
    /// The header.
    pub header: String,
    /// What stands in front of the secret, as `Bearer`; may be empty.
    pub scheme: String,
    /// The variables of the environment that hold the secret; the first that is set counts.
    pub variables: Vec<String>,
}

/// A route of a service, as a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTool {
    /// The name that clients call it by.
    pub name: String,
    /// What models are told of it.
    pub description: String,
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The path behind the service's address, with `{parameter}` where an argument stands.
    pub route: String,
    /// `read_only`, `draft_only` or `governance`.
    pub tier: String,
    /// A mode of the autonomy ladder, or empty.
    pub mode: String,
    /// The argument that says whose data it is about, or empty.
    pub entity: String,
    /// The JSON Schema of its arguments, as JSON.
    pub input: String,
}

/// A route of a service, or a file, as a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceResource {
    /// Its address, with `{parameter}` where it is a template.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What clients are told of it.
    pub description: String,
    /// The media type.
    pub media_type: String,
    /// Where it comes from.
    pub from: Origin,
}

/// Where a resource comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A route of the service, read with `GET`.
    Route(String),
    /// A file, by its absolute path.
    File(String),
}

impl Default for Origin {
    fn default() -> Self {
        Self::Route(String::new())
    }
}

/// An MCP server behind this program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The name: the server of its tools in policies and in the record.
    pub name: String,
    /// `sandboxed`, `trusted_read` or `trusted_write`.
    pub trust: String,
    /// What is said of single tools.
    pub tools: Vec<ServerTool>,
}

/// What is said of a tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTool {
    /// The tool's name, as its server writes it.
    pub name: String,
    /// `read_only`, `approval_required` or `deny`.
    pub access: String,
    /// A mode of the autonomy ladder, or empty.
    pub mode: String,
}
