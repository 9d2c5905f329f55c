//! One HTTP service, ready to be called.

use std::fmt;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Method, Response};
use serde_json::{Map, Value};
use url::Url;

use super::arguments::Arguments;
use super::place;
use crate::engine::upstream::{Auth, Service, ServiceTool, Template};

/// No answer is longer, in bytes.
const LIMIT: usize = 4 << 20;

/// So much of an error's text is told, in characters.
const ERROR_TEXT: usize = 2_000;

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);

/// What stands in the place of the secret, should the service send it back.
const SECRET: &str = "[secret]";

/// A service that can be called.
#[derive(Debug)]
pub struct Client {
    service: Service,
    base: Url,
    http: reqwest::Client,
    routes: Vec<Route>,
}

/// A route of a service, as a tool.
#[derive(Debug)]
pub struct Route {
    /// What `upstreams.toml` says of it.
    pub tool: ServiceTool,
    /// The JSON Schema of its arguments.
    pub schema: Map<String, Value>,
    arguments: Arguments,
}

/// What a service answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// JSON with two blanks to each level (R-003-15), or the text as it came.
    pub text: String,
}

/// Why there is no answer, in words that hold no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl Client {
    /// Makes a service ready.
    ///
    /// # Errors
    /// If its address, a schema or this machine's TLS cannot be used.
    pub fn new(service: &Service) -> Result<Self, Fault> {
        // Another provider that was installed before does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base: Url = service
            .url
            .parse()
            .map_err(|_| Fault(format!("service `{}` has no address", service.name)))?;
        let mut builder = reqwest::Client::builder()
            // A route that leads elsewhere is another route: it stands in `upstreams.toml`, or is none.
            .redirect(Policy::none())
            .https_only(base.scheme() == "https")
            .connect_timeout(CONNECT)
            .timeout(Duration::from_secs(u64::from(service.timeout_seconds)))
            .user_agent(concat!("copilot-bridge/", env!("CARGO_PKG_VERSION")));
        if base.scheme() == "http" {
            // What stays on this machine goes through no proxy that a variable names.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Fault(format!("there is no HTTP client: {}", root(&error))))?;
        let routes = service.tools.iter().map(Route::new);
        Ok(Self {
            routes: routes.collect::<Result<_, _>>()?,
            service: service.clone(),
            base,
            http,
        })
    }

    /// What `upstreams.toml` says of it.
    #[must_use]
    pub const fn service(&self) -> &Service {
        &self.service
    }

    /// Its routes that are tools.
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Calls a route. `headers` go along: the chain and the trace that the call is part of.
    ///
    /// # Errors
    /// If the arguments are not what the route takes, or nothing good comes back.
    pub async fn call(
        &self,
        route: &Route,
        arguments: &Map<String, Value>,
        headers: &[(&'static str, String)],
    ) -> Result<Answer, Fault> {
        let mut all = route.arguments.complete(arguments)?;
        let text = |name: &str| all.get(name).and_then(Value::as_str);
        let mut url = self.at(&place::fill(&route.tool.route, text)?)?;
        for name in route.tool.route.parameters() {
            all.shift_remove(name);
        }
        let method = Method::from_bytes(route.tool.method.as_bytes())
            .map_err(|_| Fault("this route has no method".to_owned()))?;
        let mut body = None;
        if method == Method::GET {
            query(&mut url, &all);
        } else {
            body = Some(Value::Object(all).to_string());
        }
        self.send(method, url, body, headers).await
    }

    /// Reads a route with these values in it.
    ///
    /// # Errors
    /// If a value would leave its part of the path, or nothing good comes back.
    pub async fn read(
        &self,
        route: &Template,
        values: &[(String, String)],
        headers: &[(&'static str, String)],
    ) -> Result<Answer, Fault> {
        let value = |name: &str| {
            let mut values = values.iter();
            values
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        let url = self.at(&place::fill(route, value)?)?;
        self.send(Method::GET, url, None, headers).await
    }

    /// The address of a path. Whatever the path is, it is that path at that host.
    fn at(&self, path: &str) -> Result<Url, Fault> {
        let whole = format!("{}{path}", self.service.url);
        let wanted = format!("{}{path}", self.base.path().trim_end_matches('/'));
        Url::parse(&whole)
            .ok()
            .filter(|url| url.origin() == self.base.origin() && url.path() == wanted)
            .ok_or_else(|| Fault("the route leads elsewhere with these arguments".to_owned()))
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<String>,
        headers: &[(&'static str, String)],
    ) -> Result<Answer, Fault> {
        let mut request = self
            .http
            .request(method, url)
            .header(ACCEPT, "application/json, text/*;q=0.9");
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                request = request.header(*name, value);
            }
        }
        let secret = self.service.auth.as_ref().map(secret).transpose()?;
        if let (Some(auth), Some(secret)) = (&self.service.auth, &secret) {
            let (name, value) = header(auth, secret)?;
            request = request.header(name, value);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let said = match request.send().await {
            Ok(response) => self.answer(response).await,
            Err(error) => Err(self.silence(&error)),
        };
        let hide = |text: String| match secret.as_deref() {
            Some(secret) => text.replace(secret, SECRET),
            None => text,
        };
        match said {
            Ok(answer) => Ok(Answer {
                text: hide(answer.text),
            }),
            Err(fault) => Err(Fault(hide(fault.0))),
        }
    }

    async fn answer(&self, mut response: Response) -> Result<Answer, Fault> {
        let name = &self.service.name;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.silence(&error))?
        {
            if bytes.len() + chunk.len() > LIMIT {
                let most = LIMIT >> 20;
                return Err(Fault(format!(
                    "service `{name}` answered with more than {most} MiB"
                )));
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            let text = match serde_json::from_slice::<Value>(&bytes) {
                Ok(json) => format!("{json:#}"),
                Err(_) => String::from_utf8(bytes)
                    .map_err(|_| Fault(format!("service `{name}` answered with no text")))?,
            };
            return Ok(Answer { text });
        }
        let words = status.canonical_reason().unwrap_or_default();
        let said = format!("service `{name}` answered {} {words}", status.as_u16());
        let text = String::from_utf8_lossy(&bytes);
        let text: String = text.trim().chars().take(ERROR_TEXT).collect();
        Err(Fault(match text.as_str() {
            "" => said.trim_end().to_owned(),
            text => format!("{}:\n{text}", said.trim_end()),
        }))
    }

    fn silence(&self, error: &reqwest::Error) -> Fault {
        let name = &self.service.name;
        Fault(if error.is_timeout() {
            let longest = self.service.timeout_seconds;
            format!("service `{name}` did not answer within {longest} s")
        } else if error.is_connect() {
            format!("service `{name}` cannot be reached: {}", root(error))
        } else {
            format!("service `{name}` cannot be understood: {}", root(error))
        })
    }
}

impl Route {
    fn new(tool: &ServiceTool) -> Result<Self, Fault> {
        let wrong = |why: String| Fault(format!("tool `{}`: {why}", tool.name));
        let schema: Value =
            serde_json::from_str(&tool.input).map_err(|error| wrong(error.to_string()))?;
        let arguments = Arguments::new(&schema).map_err(wrong)?;
        let Value::Object(schema) = schema else {
            return Err(wrong("its schema is no object".to_owned()));
        };
        Ok(Self {
            tool: tool.clone(),
            schema,
            arguments,
        })
    }

    /// Whose data a call is about, as its arguments say, or as they are taken where they say nothing.
    #[must_use]
    pub fn entity(&self, arguments: &Map<String, Value>) -> Option<String> {
        let name = self.tool.entity.as_str();
        if name.is_empty() {
            return None;
        }
        let said = arguments
            .get(name)
            .or_else(|| self.arguments.default(name))?;
        Some(said.as_str()?.to_owned())
    }
}

/// Arguments behind the question mark: a list is the same name several times.
fn query(url: &mut Url, arguments: &Map<String, Value>) {
    if arguments.is_empty() {
        return;
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut pairs = url.query_pairs_mut();
    for (name, value) in arguments {
        match value {
            Value::Null => {}
            Value::Array(all) => {
                for one in all {
                    pairs.append_pair(name, &text(one));
                }
            }
            one => {
                pairs.append_pair(name, &text(one));
            }
        }
    }
}

/// What the first variable holds that is set.
fn secret(auth: &Auth) -> Result<String, Fault> {
    let set = |name: &String| std::env::var(name).ok().filter(|value| !value.is_empty());
    auth.variables.iter().find_map(set).ok_or_else(|| {
        let names: Vec<String> = auth
            .variables
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        Fault(format!(
            "none of these variables is set: {}",
            names.join(", ")
        ))
    })
}

fn header(auth: &Auth, secret: &str) -> Result<(HeaderName, HeaderValue), Fault> {
    let value = match auth.scheme.as_str() {
        "" => secret.to_owned(),
        scheme => format!("{scheme} {secret}"),
    };
    let odd = |_| Fault("the secret cannot be sent: it holds what no header may hold".to_owned());
    let name = HeaderName::from_bytes(auth.header.as_bytes())
        .map_err(|_| Fault(format!("`{}` is no header", auth.header)))?;
    let mut value = HeaderValue::from_str(&value).map_err(odd)?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// The innermost reason, without addresses and numbers of the system.
fn root(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn client(url: &str) -> Client {
        Client::new(&Service {
            name: "x".to_owned(),
            url: url.to_owned(),
            timeout_seconds: 5,
            ..Service::default()
        })
        .unwrap()
    }

    #[test]
    fn a_path_is_that_path_at_that_host() {
        let client = client("https://x.example/api");
        assert_eq!(
            client.at("/deals/7").unwrap().as_str(),
            "https://x.example/api/deals/7"
        );
        for path in ["/..", "/a/../b", "/%2e%2e/x", "/a?b", "/a#b"] {
            assert!(client.at(path).is_err(), "{path}");
        }
        let bare = self::client("https://x.example");
        for path in ["@y.example/", ":80/", ".y.example/"] {
            assert!(bare.at(path).is_err(), "{path}");
        }
    }

    #[test]
    fn arguments_of_any_type_stand_in_a_query() {
        let mut url: Url = "https://x.example/a".parse().unwrap();
        let arguments = json!({"q": "a&b=c", "n": 2, "yes": true, "ids": ["1", "2"], "no": null});
        query(&mut url, arguments.as_object().unwrap());
        assert_eq!(url.query(), Some("q=a%26b%3Dc&n=2&yes=true&ids=1&ids=2"));
    }

    #[test]
    fn a_secret_is_shown_to_nobody() {
        let auth = Auth {
            header: "Authorization".to_owned(),
            scheme: "Bearer".to_owned(),
            variables: vec!["COPILOT_BRIDGE_NO_SUCH_VARIABLE".to_owned()],
        };
        assert_eq!(
            secret(&auth).unwrap_err().0,
            "none of these variables is set: `COPILOT_BRIDGE_NO_SUCH_VARIABLE`"
        );
        let (_, value) = header(&auth, "hunter2").unwrap();
        assert_eq!(value.to_str().unwrap(), "Bearer hunter2");
        assert!(!format!("{value:?}").contains("hunter2"));
        let odd = header(&auth, "hunter2\n").unwrap_err().0;
        assert!(!odd.contains("hunter2"), "{odd}");
    }
}
