//! A client of OpenClaw's gateway, protocol version 4 over WebSocket (R-000-24, R-000-65; C-19).
//!
//! One task holds the connection and comes back when it is lost, waiting longer each time. Who asks
//! while there is none is told so at once.

mod connection;
mod device;
mod frame;

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::memory::{Found, Hit, Memory};
use crate::config::openclaw::Gateway as Address;
pub use device::Device;

/// The gateway gives no more results to one search.
const MOST_RESULTS: usize = 50;

/// A gateway, by all who ask it. The connection ends with the last of them.
#[derive(Debug, Clone)]
pub struct Gateway {
    calls: mpsc::Sender<Call>,
    state: watch::Receiver<State>,
    pace: Pace,
}

/// Why the gateway does not answer a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayError {
    /// There is no connection, and why.
    NotReachable(String),
    /// It refuses, in its own words.
    Refused(String),
    /// It takes too long.
    TimedOut,
    /// Too many questions are open.
    Busy,
    /// What it answers is not what was asked for.
    Unreadable,
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReachable(why) => write!(f, "OpenClaw's gateway is not reachable: {why}"),
            Self::Refused(why) => write!(f, "OpenClaw's gateway refuses: {why}"),
            Self::TimedOut => f.write_str("OpenClaw's gateway takes too long"),
            Self::Busy => f.write_str("OpenClaw's gateway has too many open questions"),
            Self::Unreadable => f.write_str("OpenClaw's gateway answers something else"),
        }
    }
}

impl std::error::Error for GatewayError {}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// From a question to its answer.
    request: Duration,
    /// From nothing to a connection that was greeted.
    connect: Duration,
    /// How long a question waits for the first connection.
    patience: Duration,
    /// The longest pause before the first new try; it doubles with each.
    shortest_pause: Duration,
    /// The longest pause of all.
    longest_pause: Duration,
    /// A connection that stood so long was a good one, and pauses begin anew.
    stable: Duration,
    /// The other side is asked for a sign of life after so long, and given up after twice that.
    quiet: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            patience: Duration::from_secs(1),
            shortest_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            stable: Duration::from_secs(10),
            quiet: Duration::from_secs(30),
        }
    }
}

/// Whether there is a connection.
#[derive(Debug, Clone)]
enum State {
    /// Nobody knows yet.
    Connecting,
    Up,
    Down(String),
}

/// A question, and where its answer goes.
#[derive(Debug)]
struct Call {
    method: &'static str,
    params: Value,
    answer: oneshot::Sender<Result<Value, GatewayError>>,
}

impl Gateway {
    /// Begins to connect, and returns at once. It has to be called within a tokio runtime.
    #[must_use]
    pub fn start(address: Address, device: Device) -> Self {
        Self::start_with(address, device, connection::Trust::System, Pace::default())
    }

    fn start_with(address: Address, device: Device, trust: connection::Trust, pace: Pace) -> Self {
        let (calls, questions) = mpsc::channel(connection::MOST_OPEN);
        let (says, state) = watch::channel(State::Connecting);
        let there = connection::There {
            address,
            device,
            trust,
        };
        tokio::spawn(connection::keep(there, pace, questions, says));
        Self { calls, state, pace }
    }

    /// What OpenClaw's own index has: keywords, and meaning where the user set that up. Transcripts of
    /// sessions, which it may search too, are left out.
    ///
    /// # Errors
    /// If the gateway is not reachable or does not answer; the longest wait is 10 s.
    pub async fn memory_search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, GatewayError> {
        // It refuses a search for nothing.
        if query.trim().is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let params = json!({"query": query, "maxResults": limit.min(MOST_RESULTS)});
        let payload = self.call("memory.search", params).await?;
        let mut hits = frame::hits(&payload).ok_or(GatewayError::Unreadable)?;
        hits.truncate(limit);
        Ok(hits)
    }

    async fn call(&self, method: &'static str, params: Value) -> Result<Value, GatewayError> {
        self.settled().await?;
        let (answer, answered) = oneshot::channel();
        let call = Call {
            method,
            params,
            answer,
        };
        self.calls.try_send(call).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => GatewayError::Busy,
            mpsc::error::TrySendError::Closed(_) => gone(),
        })?;
        match tokio::time::timeout(self.pace.request, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(lost()),
            Err(_) => Err(GatewayError::TimedOut),
        }
    }

    /// Waits until it is known whether there is a connection, but not for long.
    async fn settled(&self) -> Result<(), GatewayError> {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| !matches!(state, State::Connecting));
        match tokio::time::timeout(self.pace.patience, known).await {
            Ok(Ok(state)) => match &*state {
                State::Down(why) => Err(GatewayError::NotReachable(why.clone())),
                State::Up | State::Connecting => Ok(()),
            },
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(GatewayError::NotReachable("it takes too long".to_owned())),
        }
    }
}

/// What OpenClaw's own search finds; where it is not to be had or finds nothing, what the files say.
///
/// # Errors
/// If the files cannot be searched because the runtime ends.
pub async fn search(
    gateway: Option<&Gateway>,
    memory: &Memory,
    query: &str,
    limit: usize,
) -> Result<Found, GatewayError> {
    let limit = limit.min(super::memory::MOST_HITS);
    if let Some(gateway) = gateway {
        match gateway.memory_search(query, limit).await {
            // An index that is not built yet has nothing.
            Ok(hits) if hits.is_empty() => {}
            Ok(hits) => return Ok(Found::of(query, hits)),
            Err(error) => {
                let (pid, error) = (std::process::id(), error.to_string());
                tracing::info!(pid, error, "the memory is searched in its files");
            }
        }
    }
    let (memory, query) = (memory.clone(), query.to_owned());
    let work = tokio::task::spawn_blocking(move || memory.search(&query, limit));
    work.await.map_err(|_| gone())
}

fn lost() -> GatewayError {
    GatewayError::NotReachable("the connection was lost".to_owned())
}

fn gone() -> GatewayError {
    GatewayError::NotReachable("this program ends".to_owned())
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
