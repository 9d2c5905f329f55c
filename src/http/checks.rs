//! What every request is asked before anything behind the door sees it, in this order: is it meant for
//! this machine, does a page of somebody else send it, who sends it, how much is it.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use serde_json::json;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Doorkeeper;
use super::metrics::{CONTENT_TYPE as METRICS_TYPE, Metrics};
use super::refusals::Cause;
use super::token::Rejected;

/// The one address that needs no token: it says that the program lives, and nothing else.
const ALIVE: &str = "/healthz";

/// Whoever was refused for want of room may come again after so many seconds.
pub(super) const AGAIN: u64 = 1;

/// Names under which people put tokens into addresses.
const TOKEN_NAMES: [&str; 9] = [
    "access_token",
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "key",
    "token",
    "x-api-key",
];

/// The rooms behind the checks, with what every listener has.
pub(super) fn behind(keeper: Arc<Doorkeeper>, rooms: Router, metrics: Arc<Metrics>) -> Router {
    let told = move || async move { ([(CONTENT_TYPE, METRICS_TYPE)], metrics.text()) };
    rooms
        .route("/metrics", get(told))
        .route(ALIVE, get(async || "ok\n"))
        .layer(from_fn_with_state(keeper, check))
}

async fn check(State(keeper): State<Arc<Doorkeeper>>, request: Request, next: Next) -> Response {
    match pass(&keeper, request, next).await {
        Ok(response) => response,
        Err(cause) => {
            keeper.refusals.note(cause);
            refusal(cause)
        }
    }
}

async fn pass(keeper: &Doorkeeper, request: Request, next: Next) -> Result<Response, Cause> {
    if keeper.draining.load(Ordering::SeqCst) {
        return Err(Cause::Draining);
    }
    let (mut parts, body) = request.into_parts();
    let host = host(&parts.uri, &parts.headers).ok_or(Cause::Host)?;
    if !own_origin(&parts.headers, &host) {
        return Err(Cause::Origin);
    }
    if parts.uri.path() == ALIVE {
        return Ok(next.run(Request::from_parts(parts, Body::empty())).await);
    }
    token(keeper, &parts.uri, &parts.headers)?;
    // What runs is waited for, but for the streams that a client only listens to.
    let running = (parts.method != Method::GET).then(|| keeper.running.token());
    let most = keeper.limits.body_bytes;
    let body = tokio::time::timeout(keeper.limits.body, whole(&parts.headers, body, most))
        .await
        .map_err(|_| Cause::BodyTimeout)??;
    parts.extensions.insert(keeper.refusals.clone());
    let answered = next.run(Request::from_parts(parts, Body::from(body)));
    let response = tokio::time::timeout(keeper.limits.request, answered)
        .await
        .map_err(|_| Cause::RequestTimeout)?;
    Ok(response.map(|body| Body::new(Held { body, running })))
}

/// What is answered to whoever is refused.
#[must_use]
pub fn refusal(cause: Cause) -> Response {
    let status = match cause {
        Cause::Host | Cause::Origin => StatusCode::FORBIDDEN,
        Cause::TokenMissing
        | Cause::TokenWrong
        | Cause::TokenExpired
        | Cause::TokenInQuery
        | Cause::AuthorizationTwice => StatusCode::UNAUTHORIZED,
        Cause::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Cause::BodyTimeout | Cause::HeadTimeout => StatusCode::REQUEST_TIMEOUT,
        Cause::RequestTimeout => StatusCode::GATEWAY_TIMEOUT,
        Cause::Connections | Cause::Sessions | Cause::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut said = json!({"error": cause.text(), "cause": cause.name()});
    if status == StatusCode::SERVICE_UNAVAILABLE
        && let Some(said) = said.as_object_mut()
    {
        said.insert("retry_after".to_owned(), AGAIN.into());
    }
    let mut response = (status, axum::Json(said)).into_response();
    let headers = response.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED => {
            let challenge = match cause {
                Cause::TokenMissing => "Bearer realm=\"copilot-bridge\"",
                _ => "Bearer realm=\"copilot-bridge\", error=\"invalid_token\"",
            };
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, HeaderValue::from(AGAIN));
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

/// The host that a request is meant for, if that is this machine, however it is reached: through a
/// tunnel the port is another one.
fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut said = headers.get_all(HOST).iter();
    let header: Authority = said.next()?.to_str().ok()?.parse().ok()?;
    if said.next().is_some() || !is_here(&header) {
        return None;
    }
    match uri.authority() {
        Some(named) if !is_here(named) => None,
        _ => Some(header),
    }
}

fn is_here(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    !authority.as_str().contains('@')
        && (host.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// Whether a request comes from no page, or from one of this program.
fn own_origin(headers: &HeaderMap, host: &Authority) -> bool {
    headers.get_all(ORIGIN).iter().all(|origin| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix("http://"));
        origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_str()))
    })
}

fn token(keeper: &Doorkeeper, uri: &Uri, headers: &HeaderMap) -> Result<(), Cause> {
    let now = jiff::Timestamp::now().as_second();
    let query = uri.query().unwrap_or_default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let named = TOKEN_NAMES
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known));
        if named || keeper.tokens.accept(&value, now).is_ok() {
            return Err(Cause::TokenInQuery);
        }
    }
    let mut said = headers.get_all(AUTHORIZATION).iter();
    let header = said.next().ok_or(Cause::TokenMissing)?;
    if said.next().is_some() {
        return Err(Cause::AuthorizationTwice);
    }
    let header = header.to_str().map_err(|_| Cause::TokenWrong)?;
    let (scheme, token) = header.split_once(' ').ok_or(Cause::TokenMissing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Cause::TokenMissing);
    }
    let accepted = keeper.tokens.accept(token.trim_matches(' '), now);
    accepted.map_err(|rejected| match rejected {
        Rejected::Wrong => Cause::TokenWrong,
        Rejected::Expired => Cause::TokenExpired,
    })
}

/// The whole body, if it is not too large: neither as it says, nor as it comes.
async fn whole(headers: &HeaderMap, body: Body, most: usize) -> Result<Bytes, Cause> {
    let said = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    if said.is_some_and(|said| said > most as u64) {
        return Err(Cause::BodyTooLarge);
    }
    let mut stream = body.into_data_stream();
    let mut first: Option<Bytes> = None;
    let mut rest = Vec::new();
    while let Some(piece) = stream.next().await {
        // It broke off.
        let piece = piece.map_err(|_| Cause::BodyTimeout)?;
        let before = first.as_ref().map_or(0, Bytes::len).max(rest.len());
        if before + piece.len() > most {
            return Err(Cause::BodyTooLarge);
        }
        match &first {
            // Most bodies are one piece.
            None => first = Some(piece),
            Some(begun) => {
                if rest.is_empty() {
                    rest.extend_from_slice(begun);
                }
                rest.extend_from_slice(&piece);
            }
        }
    }
    Ok(match first {
        Some(whole) if rest.is_empty() => whole,
        _ => Bytes::from(rest),
    })
}

/// An answer that is not done before its last byte is out.
struct Held {
    body: Body,
    /// Dropped with the body.
    #[expect(dead_code, reason = "what counts is when it is dropped")]
    running: Option<TaskTrackerToken>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        let plain = Uri::from_static("/mcp");
        for (name, expected) in [
            ("localhost", true),
            ("LocalHost:48080", true),
            ("127.0.0.1:1", true),
            ("127.1.2.3", true),
            ("[::1]:48080", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1@evil.example", false),
            ("evil@127.0.0.1", false),
            ("0.0.0.0", false),
            ("[::ffff:127.0.0.1]", false),
            ("", false),
        ] {
            let found = host(&plain, &headers(&[("host", name)])).is_some();
            assert_eq!(found, expected, "{name}");
        }
        assert!(host(&plain, &headers(&[])).is_none());
        let twice = headers(&[("host", "localhost"), ("host", "localhost")]);
        assert!(host(&plain, &twice).is_none());
        let absolute = Uri::from_static("http://evil.example/mcp");
        assert!(host(&absolute, &headers(&[("host", "localhost")])).is_none());
    }

    #[test]
    fn only_pages_of_this_program_are_origins() {
        let host: Authority = "127.0.0.1:48080".parse().unwrap();
        for (origin, expected) in [
            ("http://127.0.0.1:48080", true),
            ("http://127.0.0.1:48081", false),
            ("http://localhost:48080", false),
            ("https://127.0.0.1:48080", false),
            ("http://evil.example", false),
            ("http://127.0.0.1:48080/", false),
            ("null", false),
            ("", false),
        ] {
            let found = own_origin(&headers(&[("origin", origin)]), &host);
            assert_eq!(found, expected, "{origin}");
        }
        assert!(own_origin(&headers(&[]), &host));
        let both = headers(&[
            ("origin", "http://127.0.0.1:48080"),
            ("origin", "http://evil.example"),
        ]);
        assert!(!own_origin(&both, &host));
    }
}
