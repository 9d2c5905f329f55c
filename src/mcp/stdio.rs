//! A server for one client, over stdin and stdout. Nothing but the protocol is written to stdout.

use std::io;

use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

use super::Bridge;

/// Serves until the client closes its end.
///
/// # Errors
/// In words, if the client does not begin as the protocol says, or the runtime cannot be had.
pub fn serve(bridge: impl FnOnce() -> Result<Bridge, String>) -> Result<(), String> {
    runtime()
        .map_err(|error| error.to_string())?
        .block_on(async {
            let running = match bridge()?.serve(stdio_pipes()).await {
                Ok(running) => running,
                // A client that closes before it says anything is done.
                Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
                Err(error) => return Err(format!("the client does not speak MCP: {error}")),
            };
            // Whoever is told to end ends what was started on the way too.
            let ended = tokio::select! {
                ended = running.waiting() => ended.is_ok(),
                () = told_to_end() => true,
            };
            ended
                .then_some(())
                .ok_or_else(|| "the server failed".to_owned())
        })
}

async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ];
    let signals = kinds.into_iter().filter_map(|kind| signal(kind).ok());
    let waiting = signals.map(|mut signal| Box::pin(async move { signal.recv().await }));
    let waiting: Vec<_> = waiting.collect();
    if waiting.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(waiting).await;
}

/// The runtime of every server: two threads are enough to wait for many.
///
/// # Errors
/// If the system gives no threads.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
