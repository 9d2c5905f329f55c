//! Connections: how many there may be, how long one may say nothing, and how they end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Service;

use super::checks::AGAIN;
use super::metrics::Metrics;
use super::refusals::Cause;
use super::{Doorkeeper, End};

/// No head of a request is longer, in bytes.
const HEAD_BYTES: usize = 64 << 10;

/// Where the system has no descriptor left, one waits for so long.
const PAUSE: Duration = Duration::from_millis(50);

/// So many of those who are refused are told why at once; the others are hung up on.
const TOLD: usize = 64;

/// How long one who is refused may take to listen.
const LISTENS: Duration = Duration::from_millis(200);

/// How long the connections have to close, once nothing runs.
const CLOSING: Duration = Duration::from_secs(1);

/// Takes connections until the end.
pub(super) async fn accept(
    listener: TcpListener,
    app: Router,
    keeper: &Arc<Doorkeeper>,
    metrics: &Arc<Metrics>,
    end: &End,
) {
    let places = Arc::new(Semaphore::new(keeper.limits.connections));
    let told = Arc::new(Semaphore::new(TOLD));
    let closing = GracefulShutdown::new();
    let next = async || match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(_) => {
            tokio::time::sleep(PAUSE).await;
            None
        }
    };
    loop {
        let stream = tokio::select! {
            () = end.asked.cancelled() => break,
            stream = next() => stream,
        };
        let Some(stream) = stream else { continue };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let connection = Connection {
                    place,
                    keeper: Arc::clone(keeper),
                    metrics: Arc::clone(metrics),
                };
                let watcher = closing.watcher();
                tokio::spawn(connection.serve(stream, app.clone(), watcher));
            }
            Err(_) => refuse(stream, keeper, &told, Cause::Connections),
        }
    }
    keeper.draining.store(true, Ordering::SeqCst);
    keeper.running.close();
    let mut closed = pin!(closing.shutdown());
    let mut all_closed = false;
    let mut bound = pin!(tokio::time::sleep(keeper.limits.drain));
    loop {
        tokio::select! {
            () = &mut closed, if !all_closed => all_closed = true,
            () = keeper.running.wait() => break,
            () = &mut bound => break,
            stream = next() => if let Some(stream) = stream {
                refuse(stream, keeper, &told, Cause::Draining);
            },
        }
    }
    end.come.cancel();
    if !all_closed {
        let _ = tokio::time::timeout(CLOSING, closed).await;
    }
}

struct Connection {
    place: OwnedSemaphorePermit,
    keeper: Arc<Doorkeeper>,
    metrics: Arc<Metrics>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, app: Router, watcher: Watcher) {
        let Self {
            place,
            keeper,
            metrics,
        } = self;
        metrics.connections.inc();
        // Answers are small, and somebody waits for them.
        let _ = stream.set_nodelay(true);
        let spoke = AtomicBool::new(false);
        let answer = service_fn(|request: hyper::Request<Incoming>| {
            spoke.store(true, Ordering::Relaxed);
            app.clone().call(request)
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(keeper.limits.head)
            .max_buf_size(HEAD_BYTES);
        let connection = builder.serve_connection(TokioIo::new(stream), answer);
        let ended: Result<(), hyper::Error> = watcher.watch(connection).await;
        // One that spoke before may be silent, and is closed without a word.
        if ended.is_err_and(|error| error.is_timeout()) && !spoke.load(Ordering::Relaxed) {
            keeper.refusals.note(Cause::HeadTimeout);
        }
        metrics.connections.dec();
        drop(place);
    }
}

/// Says why, to whoever listens, and hangs up.
fn refuse(mut stream: TcpStream, keeper: &Doorkeeper, told: &Arc<Semaphore>, cause: Cause) {
    keeper.refusals.note(cause);
    let Ok(turn) = Arc::clone(told).try_acquire_owned() else {
        return;
    };
    let body = format!(
        "{{\"error\":\"{}\",\"cause\":\"{}\",\"retry_after\":{AGAIN}}}",
        cause.text(),
        cause.name()
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         retry-after: {AGAIN}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    tokio::spawn(async move {
        let said = async {
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
            // Hung up on before it has been read, the answer would be lost.
            let mut sink = [0; 4096];
            while stream.read(&mut sink).await? > 0 {}
            std::io::Result::Ok(())
        };
        let _ = bounded(said).await;
        drop(turn);
    });
}

async fn bounded<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(LISTENS, work).await.ok()
}
