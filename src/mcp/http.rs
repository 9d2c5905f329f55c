//! The same server for many clients, over Streamable HTTP: without sessions for clients of 2026-07-28,
//! with those of rmcp for the ones that begin with `initialize` (C-13).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::http::Limits;
use crate::http::refusals::{Cause, Refusals};

/// Where it is served.
pub const PATH: &str = "/mcp";

/// There are no more sessions at once.
const SESSIONS: usize = 1_000;

/// A session that nobody uses ends after so long.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// Pages of this machine may call; the listener lets through only those of this program.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The server as a route, behind [`crate::http`]. Its sessions end with `over`.
pub fn routes<S>(server: S, limits: &Limits, over: CancellationToken) -> Router
where
    S: ServerHandler + Clone,
{
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    let sessions = Arc::new(sessions);
    let config = StreamableHttpServerConfig::default()
        .with_allowed_origins(ORIGINS)
        .enforce_origin_validation()
        .with_json_response(true)
        .with_max_request_body_bytes(limits.body_bytes)
        .with_cancellation_token(over);
    let service = StreamableHttpService::new(
        move || io::Result::Ok(server.clone()),
        Arc::clone(&sessions),
        config,
    );
    Router::new()
        .route_service(PATH, service)
        .layer(from_fn_with_state(sessions, room))
}

/// Refuses what would begin one session too many. Who says neither a session nor a version of the
/// protocol may be about to begin one.
async fn room(
    State(sessions): State<Arc<LocalSessionManager>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let may_begin = !headers.contains_key("mcp-session-id") && !headers.contains_key("mcp-method");
    if may_begin && sessions.sessions.read().await.len() >= SESSIONS {
        if let Some(refusals) = request.extensions().get::<Refusals>() {
            refusals.note(Cause::Sessions);
        }
        return crate::http::refusal(Cause::Sessions);
    }
    next.run(request).await
}
