//! A server at an address: Streamable HTTP, encrypted unless it is on this machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use futures_util::stream::BoxStream;
use reqwest::redirect::Policy;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::json;
use sse_stream::Sse;
use url::{Host, Url};

use super::Hop;

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);

/// An address, and what is sent along to it.
#[derive(Clone)]
pub struct Address {
    url: Url,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers are secrets.
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

impl Address {
    /// An address as a person writes it.
    ///
    /// # Errors
    /// In words, if it is none, or is not encrypted and not on this machine.
    pub fn new(text: &str, headers: Vec<(HeaderName, HeaderValue)>) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("`{text}` is no address: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an address must hold no password: use `--header-env`".to_owned());
        }
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) => {}
            "http" => {
                return Err(format!(
                    "`{text}` is neither encrypted nor on this machine: use https"
                ));
            }
            other => return Err(format!("`{other}` is not supported: use https")),
        }
        Ok(Self {
            url,
            headers: headers.into_iter().collect(),
        })
    }

    /// The host, as a name for the server.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    pub(super) fn identity(&self) -> String {
        json!({"url": self.url.as_str()}).to_string()
    }

    pub(super) fn connect(
        &self,
        hop: Hop,
        bytes: usize,
    ) -> Result<StreamableHttpClientTransport<Hopping>, String> {
        // Whoever was first is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            // A header with a secret goes to the address that was named, and nowhere else.
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .user_agent(concat!("copilot-bridge/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|_| "cannot be reached: there is no client for HTTP".to_owned())?;
        let config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(self.headers.clone())
            .max_sse_event_size(bytes);
        let client = Hopping { client, hop };
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// A client that says the depth of a call in a header too.
#[derive(Debug, Clone)]
pub(super) struct Hopping {
    client: reqwest::Client,
    hop: Hop,
}

type Stream = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;

impl Hopping {
    fn with_depth(&self, message: &ClientJsonRpcMessage, mut headers: Headers) -> Headers {
        // As it is written: rmcp keeps `_meta` in more than one place.
        let written = serde_json::to_value(message).unwrap_or_default();
        let meta = written.pointer("/params/_meta");
        let depth = meta.and_then(|meta| meta.get(self.hop.key));
        if let Some(value) = depth.and_then(|depth| depth.to_string().parse().ok()) {
            headers.insert(HeaderName::from_static(self.hop.header), value);
        }
        headers
    }
}

impl StreamableHttpClient for Hopping {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let headers = self.with_depth(&message, headers);
        self.client
            .post_message(uri, message, session, auth, headers)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        bytes: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let headers = self.with_depth(&message, headers);
        self.client
            .post_message_with_max_sse_event_size(uri, message, session, auth, headers, bytes)
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.client
            .delete_session(uri, session, auth, headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<Stream, Failure> {
        self.client
            .get_stream(uri, session, last, auth, headers)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: Headers,
        bytes: usize,
    ) -> Result<Stream, Failure> {
        self.client
            .get_stream_with_max_sse_event_size(uri, session, last, auth, headers, bytes)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{
        ClientRequest, GetMeta, ListToolsRequest, NumberOrString, RequestMetaObject,
    };

    #[test]
    fn the_depth_stands_in_a_header_too() {
        let hop = Hop {
            key: "example.com/depth",
            header: "x-depth",
        };
        let client = Hopping {
            client: reqwest_client(),
            hop,
        };
        let message = |meta: serde_json::Value| -> ClientJsonRpcMessage {
            let mut request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
            let meta: RequestMetaObject = serde_json::from_value(meta).unwrap();
            *request.get_meta_mut() = meta;
            ClientJsonRpcMessage::request(request, NumberOrString::Number(1))
        };
        let headers = client.with_depth(&message(json!({"example.com/depth": 2})), Headers::new());
        let depth = headers.get(&HeaderName::from_static("x-depth")).unwrap();
        assert_eq!(depth, "2");
        let headers = client.with_depth(&message(json!({})), Headers::new());
        assert!(headers.is_empty());
    }

    fn reqwest_client() -> reqwest::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::new()
    }

    #[test]
    fn only_this_machine_is_reached_in_the_clear() {
        for good in [
            "https://mcp.example.com/mcp",
            "http://127.0.0.1:8080/mcp",
            "http://[::1]/mcp",
            "http://localhost:1/",
        ] {
            assert!(Address::new(good, Vec::new()).is_ok(), "{good}");
        }
        for (bad, text) in [
            (
                "http://mcp.example.com/mcp",
                "`http://mcp.example.com/mcp` is neither encrypted nor on this machine: use https",
            ),
            ("ftp://127.0.0.1/", "`ftp` is not supported: use https"),
            (
                "https://a:b@example.com/",
                "an address must hold no password: use `--header-env`",
            ),
            (
                "nothing",
                "`nothing` is no address: relative URL without a base",
            ),
        ] {
            assert_eq!(Address::new(bad, Vec::new()).unwrap_err(), text);
        }
    }
}
