//! HTTP services as tools and resources (R-003-09…14). Which there are stands in `upstreams.toml`; a
//! change of that file counts as soon as the gate judges by it.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use percent_encoding::percent_decode_str;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate, Tool, ToolAnnotations,
};

use super::chain::{Chain, DEPTH_HEADER, DEPTH_KEY};
use super::door::Gates;
use super::toolset::{Call, Resources, Toolset, Unavailable};
use crate::engine::request::ToolFacts;
use crate::engine::upstream::{Origin, Service, ServiceResource, Upstreams};
use crate::facts::beneath::Beneath;
use crate::facts::paths::words;
use crate::gate::event::{Reach, Served};
use crate::upstream::{Client, Route};

/// What a read of a resource is called in policies and in the record.
pub(super) const READ: &str = "resources/read";

/// What is said where there are no policies to go by.
pub(super) const UNUSABLE: &str =
    "the policies cannot be used: a person runs `copilot-bridge policy check`";

/// No file is longer that is a resource, in bytes.
const FILE_LIMIT: u64 = 4 << 20;

/// The services of the policies that are in force, or one of them.
#[derive(Debug, Clone)]
pub struct Services {
    gates: Arc<dyn Gates>,
    only: Option<String>,
    ready: Arc<Mutex<Ready>>,
}

/// Services, ready to be called, and the settings that they come from.
#[derive(Debug, Clone, Default)]
struct Ready {
    from: Option<Upstreams>,
    clients: Arc<Vec<Client>>,
}

impl Services {
    /// Those that the policies of `gates` name; with `only`, just that one.
    ///
    /// # Errors
    /// If there is no service of that name, or one cannot be made ready. Where the policies cannot be
    /// used, nothing is offered before they can.
    pub fn new(gates: Arc<dyn Gates>, only: Option<&str>) -> Result<Self, String> {
        let services = Self {
            gates,
            only: only.map(str::to_owned),
            ready: Arc::default(),
        };
        let ready = match services.ready() {
            Err(unavailable) if unavailable.0 == UNUSABLE => return Ok(services),
            ready => ready.map_err(|unavailable| unavailable.to_string())?,
        };
        match only {
            Some(name) if ready.is_empty() => Err(format!(
                "no service is called `{name}`: services stand in `upstreams.toml` of the base layer"
            )),
            _ => Ok(services),
        }
    }

    /// The services by the policies that are in force now. Where those cannot be used, the last ones:
    /// the gate denies whatever is asked of them, and says why.
    fn ready(&self) -> Result<Arc<Vec<Client>>, Unavailable> {
        let gate = self.gates.current();
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(upstreams) = gate.upstreams() else {
            return match &ready.from {
                Some(_) => Ok(Arc::clone(&ready.clients)),
                None => Err(Unavailable(UNUSABLE.into())),
            };
        };
        if ready.from.as_ref() != Some(upstreams) {
            let wanted =
                |service: &&Service| self.only.as_ref().is_none_or(|name| *name == service.name);
            let clients = upstreams.services.iter().filter(wanted).map(Client::new);
            let clients = clients
                .collect::<Result<Vec<Client>, _>>()
                .map_err(|fault| Unavailable(fault.0.into()))?;
            *ready = Ready {
                from: Some(upstreams.clone()),
                clients: Arc::new(clients),
            };
        }
        Ok(Arc::clone(&ready.clients))
    }

    async fn now(&self) -> Result<Arc<Vec<Client>>, Unavailable> {
        let this = self.clone();
        // Files are looked at there.
        match tokio::task::spawn_blocking(move || this.ready()).await {
            Ok(ready) => ready,
            Err(_) => Err(Unavailable("the services failed".into())),
        }
    }
}

impl Toolset for Services {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Tool>, Unavailable>> {
        async {
            let clients = self.now().await?;
            let routes = clients.iter().flat_map(Client::routes);
            Ok(routes.map(offer).collect())
        }
        .boxed()
    }

    fn served<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a JsonObject,
    ) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        async move {
            let clients = self.now().await?;
            Ok(find(&clients, name).map(|(client, route)| Served {
                tool: ToolFacts {
                    tier: route.tool.tier.clone(),
                    mode: route.tool.mode.clone(),
                    ..tool(client.service(), name)
                },
                entity: route.entity(arguments),
                ..served(client.service())
            }))
        }
        .boxed()
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        async move {
            let failed = |text: String| CallToolResult::error(vec![ContentBlock::text(text)]);
            let clients = match self.now().await {
                Ok(clients) => clients,
                Err(unavailable) => return failed(unavailable.to_string()),
            };
            let Some((client, route)) = find(&clients, call.name) else {
                return failed(format!("there is no tool `{}` any more", call.name));
            };
            let headers = headers(call.chain);
            match client.call(route, call.arguments, &headers).await {
                Ok(answer) => CallToolResult::success(vec![ContentBlock::text(answer.text)]),
                Err(fault) => failed(fault.0),
            }
        }
        .boxed()
    }
}

impl Resources for Services {
    fn resources(&self) -> BoxFuture<'_, Result<Vec<Resource>, Unavailable>> {
        async {
            let clients = self.now().await?;
            let plain = all(&clients).filter(|(_, one)| one.uri.parameters().next().is_none());
            let plain = plain.map(|(_, one)| {
                let resource = Resource::new(one.uri.to_string(), one.name.clone())
                    .with_mime_type(one.media_type.clone());
                match one.description.as_str() {
                    "" => resource,
                    text => resource.with_description(text),
                }
            });
            Ok(plain.collect())
        }
        .boxed()
    }

    fn templates(&self) -> BoxFuture<'_, Result<Vec<ResourceTemplate>, Unavailable>> {
        async {
            let clients = self.now().await?;
            let forms = all(&clients).filter(|(_, one)| one.uri.parameters().next().is_some());
            let forms = forms.map(|(_, one)| {
                let template = ResourceTemplate::new(one.uri.to_string(), one.name.clone())
                    .with_mime_type(one.media_type.clone());
                match one.description.as_str() {
                    "" => template,
                    text => template.with_description(text),
                }
            });
            Ok(forms.collect())
        }
        .boxed()
    }

    fn served<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Option<Served>, Unavailable>> {
        async move {
            let clients = self.now().await?;
            Ok(at(&clients, uri).map(|(client, _)| Served {
                tool: ToolFacts {
                    tier: "read_only".to_owned(),
                    ..tool(client.service(), READ)
                },
                ..served(client.service())
            }))
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        call: Call<'a>,
    ) -> BoxFuture<'a, Result<ReadResourceResult, Unavailable>> {
        async move {
            let clients = self.now().await?;
            let Some((client, resource)) = at(&clients, uri) else {
                return Err(Unavailable(format!("there is no resource `{uri}`").into()));
            };
            let text = match &resource.from {
                Origin::File(path) => {
                    let path = path.clone();
                    let read = tokio::task::spawn_blocking(move || file(Path::new(&path))).await;
                    match read {
                        Ok(Ok(text)) => text,
                        Ok(Err(error)) => {
                            let text = format!("cannot read `{uri}`: {}", words(&error));
                            return Err(Unavailable(text.into()));
                        }
                        Err(_) => return Err(Unavailable("the resource failed".into())),
                    }
                }
                Origin::Route(route) => {
                    let values = resource.uri.values(uri).unwrap_or_default();
                    let values: Option<Vec<(String, String)>> = values
                        .into_iter()
                        .map(|(name, value)| {
                            let value = percent_decode_str(value).decode_utf8().ok()?;
                            Some((name.to_owned(), value.into_owned()))
                        })
                        .collect();
                    let values =
                        values.ok_or_else(|| Unavailable("this address is no UTF-8".into()))?;
                    let headers = headers(call.chain);
                    let read = client.read(route, &values, &headers).await;
                    read.map_err(|fault| Unavailable(fault.0.into()))?.text
                }
            };
            let contents =
                ResourceContents::text(text, uri).with_mime_type(resource.media_type.clone());
            Ok(ReadResourceResult::new(vec![contents]))
        }
        .boxed()
    }
}

fn offer(route: &Route) -> Tool {
    let tool = &route.tool;
    Tool::new(
        tool.name.clone(),
        tool.description.clone(),
        Arc::new(route.schema.clone()),
    )
    .with_annotations(
        ToolAnnotations::new()
            .read_only(tool.tier == "read_only")
            .open_world(true),
    )
}

fn find<'c>(clients: &'c [Client], name: &str) -> Option<(&'c Client, &'c Route)> {
    clients.iter().find_map(|client| {
        let mut routes = client.routes().iter();
        let route = routes.find(|route| route.tool.name == name)?;
        Some((client, route))
    })
}

fn all(clients: &[Client]) -> impl Iterator<Item = (&Client, &ServiceResource)> {
    clients.iter().flat_map(|client| {
        let resources = client.service().resources.iter();
        resources.map(move |one| (client, one))
    })
}

fn at<'c>(clients: &'c [Client], uri: &str) -> Option<(&'c Client, &'c ServiceResource)> {
    all(clients).find(|(_, one)| one.uri.values(uri).is_some())
}

fn tool(service: &Service, name: &str) -> ToolFacts {
    ToolFacts {
        server: service.name.clone(),
        name: name.to_owned(),
        known: true,
        ..ToolFacts::default()
    }
}

fn served(service: &Service) -> Served {
    Served {
        reach: Reach::Nothing,
        provider: service.name.clone(),
        ..Served::default()
    }
}

/// What a service is told of the chain and the trace that a call is part of.
fn headers(chain: &Chain) -> Vec<(&'static str, String)> {
    let passed = chain.passed_on();
    let pairs = [
        (DEPTH_HEADER, DEPTH_KEY),
        ("traceparent", "traceparent"),
        ("tracestate", "tracestate"),
    ];
    let pairs = pairs.into_iter().filter_map(|(header, key)| {
        let value = passed.get(key)?;
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some((header, text))
    });
    pairs.collect()
}

/// The text of a file that is a resource. A link on the way to it, or in its place, may have been put
/// there by an agent: what the file names is what is read, or nothing.
fn file(path: &Path) -> io::Result<String> {
    if fs::canonicalize(path)? != path {
        return Err(io::Error::other("its path leads through a link"));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let file = Beneath::new(folder)?.open(Path::new(name))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let mut text = String::new();
    if file.take(FILE_LIMIT + 1).read_to_string(&mut text)? as u64 > FILE_LIMIT {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}
