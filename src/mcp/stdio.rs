//! A server for one client, over stdin and stdout. Nothing but the protocol is written to stdout.

use std::io;

use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

use super::Bridge;

/// With less, each way through the gate would map a stack of its own.
const STACK: usize = 8 << 20;

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
            match running.waiting().await {
                Ok(_) => Ok(()),
                Err(_) => Err("the server failed".to_owned()),
            }
        })
}

/// The runtime of every server: two threads are enough to wait for many.
///
/// # Errors
/// If the system gives no threads.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
}
