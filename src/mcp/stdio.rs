//! A server for one client, over stdin and stdout. Nothing but the protocol is written to stdout.

use std::io;
use std::time::{Duration, Instant};

use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

use super::Bridge;

/// The threads that serve everybody. One waits for files now and then, see the door.
pub(super) const WORKERS: usize = 3;

/// With less, each way through the gate would map a stack of its own.
const STACK: usize = 8 << 20;
/// What was started on the way may take so long to end.
const FAREWELL: Duration = Duration::from_secs(4);

/// Serves until the client closes its end.
///
/// # Errors
/// In words, if the client does not begin as the protocol says, or the runtime cannot be had.
pub fn serve(bridge: impl FnOnce() -> Result<Bridge, String>) -> Result<(), String> {
    let runtime = runtime().map_err(|error| crate::facts::paths::words(&error))?;
    let ended = runtime.block_on(async {
        let bridge = bridge()?;
        let serving = async {
            let running = match bridge.serve(stdio_pipes()).await {
                Ok(running) => running,
                // A client that closes before it says anything is done.
                Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
                Err(error) => return Err(format!("the client does not speak MCP: {error}")),
            };
            match running.waiting().await {
                Ok(_) => Ok(()),
                Err(_) => Err("the server failed".to_owned()),
            }
        };
        // Whoever is told to end ends what it has started too.
        tokio::select! {
            ended = serving => ended,
            () = told_to_end() => Ok(()),
        }
    });
    let began = Instant::now();
    while runtime.metrics().num_alive_tasks() > 0 && began.elapsed() < FAREWELL {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Whoever still reads stdin is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

#[cfg(unix)]
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

#[cfg(not(unix))]
async fn told_to_end() {
    std::future::pending().await
}

/// The runtime of every server: few threads are enough to wait for many.
///
/// # Errors
/// If the system gives no threads.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
}
