//! HTTP on the loopback interface: what every door that listens has in common. Who may come in, how much
//! one may send, how long one may take, and how it ends (R-003-04, R-003-08, R-003-50, R-003-53).
//!
//! Behind [`serve`] stands an [`axum::Router`] that sees only requests with a token that counts and a
//! body that is there whole. What is refused before that is counted, and in the record.

mod checks;
mod connections;
mod loopback;
pub mod metrics;
pub mod refusals;
pub mod token;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use axum;
pub use checks::refusal;
pub use loopback::Loopback;

use metrics::Metrics;
use refusals::{Ledger, Refusals};
use token::Tokens;

/// What a listener bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// So many connections at once. One more is answered with 503.
    pub connections: usize,
    /// No body has more bytes.
    pub body_bytes: usize,
    /// The head of a request has to be there by then; an idle connection is closed after as long.
    pub head: Duration,
    /// The body has to be there by then.
    pub body: Duration,
    /// An answer has to begin by then.
    pub request: Duration,
    /// What runs when the end comes has so long to finish.
    pub drain: Duration,
}

impl Default for Limits {
    /// As many connections as fit into the 1,024 descriptors that systems give by default.
    fn default() -> Self {
        Self {
            connections: 768,
            body_bytes: 4 << 20,
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            request: Duration::from_secs(600),
            drain: Duration::from_secs(10),
        }
    }
}

/// What is served, and by whose leave.
#[derive(Debug)]
pub struct House {
    /// What stands behind the token.
    pub rooms: Router,
    /// The tokens that count.
    pub tokens: Tokens,
    /// What it bears.
    pub limits: Limits,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where refusals are written.
    pub ledger: Arc<dyn Ledger>,
}

/// How a listener is told to end, and how it tells that it does.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// Cancelled from outside: nothing new begins from then on.
    pub asked: CancellationToken,
    /// Cancelled by the listener: what runs is done, or its time is over.
    pub come: CancellationToken,
}

/// What the requests of a listener share.
struct Doorkeeper {
    tokens: Tokens,
    limits: Limits,
    refusals: Refusals,
    draining: AtomicBool,
    running: TaskTracker,
}

impl fmt::Debug for Doorkeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorkeeper").finish_non_exhaustive()
    }
}

/// Serves until it is asked to end, and what runs then is done.
pub async fn serve(listener: TcpListener, house: House, end: End) {
    let House {
        rooms,
        tokens,
        limits,
        metrics,
        ledger,
    } = house;
    let (refusals, writer) = refusals::book(Arc::clone(&metrics), ledger);
    let writing = tokio::spawn(writer);
    let keeper = Arc::new(Doorkeeper {
        tokens,
        limits,
        refusals,
        draining: AtomicBool::new(false),
        running: TaskTracker::new(),
    });
    let app = checks::behind(Arc::clone(&keeper), rooms, Arc::clone(&metrics));
    connections::accept(listener, app, &keeper, &metrics, &end).await;
    // The writer ends with the last of those who may refuse something.
    keeper.refusals.close();
    let _ = writing.await;
}
