//! What is refused before the gate sees it: counted one by one, and written to the record in sums, so
//! that a flood does not fill the disk.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;

/// What is refused is in the record after so long, if it is the first of its cause.
const FIRST: Duration = Duration::from_secs(1);

/// Of a cause that goes on, there is at least one line in so long.
const LONGEST: Duration = Duration::from_secs(60);

/// Why a request or a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It names a host that is not this machine: DNS rebinding.
    Host,
    /// A page of another origin sent it.
    Origin,
    /// It has no token.
    TokenMissing,
    /// It has a token that does not count.
    TokenWrong,
    /// It has a token whose time is over.
    TokenExpired,
    /// It has a token in its address, which logs and histories keep.
    TokenInQuery,
    /// It has more than one `Authorization`.
    AuthorizationTwice,
    /// Its body is too large.
    BodyTooLarge,
    /// Its body did not come in time, or broke off.
    BodyTimeout,
    /// Its head did not come in time.
    HeadTimeout,
    /// There is no answer in time.
    RequestTimeout,
    /// There are too many connections.
    Connections,
    /// There are too many sessions.
    Sessions,
    /// The program is about to end.
    Draining,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 14] = [
        Self::Host,
        Self::Origin,
        Self::TokenMissing,
        Self::TokenWrong,
        Self::TokenExpired,
        Self::TokenInQuery,
        Self::AuthorizationTwice,
        Self::BodyTooLarge,
        Self::BodyTimeout,
        Self::HeadTimeout,
        Self::RequestTimeout,
        Self::Connections,
        Self::Sessions,
        Self::Draining,
    ];

    /// The cause's name, in metrics and in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::TokenMissing => "token_missing",
            Self::TokenWrong => "token_wrong",
            Self::TokenExpired => "token_expired",
            Self::TokenInQuery => "token_in_query",
            Self::AuthorizationTwice => "authorization_twice",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyTimeout => "body_timeout",
            Self::HeadTimeout => "head_timeout",
            Self::RequestTimeout => "request_timeout",
            Self::Connections => "connections",
            Self::Sessions => "sessions",
            Self::Draining => "draining",
        }
    }

    /// What is said of it, to whoever was refused and in the record.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Host => "the `Host` is not this machine",
            Self::Origin => "the `Origin` is not this program's",
            Self::TokenMissing => "there is no bearer token",
            Self::TokenWrong => "the token does not count",
            Self::TokenExpired => "the token's time is over",
            Self::TokenInQuery => "a token does not belong into an address",
            Self::AuthorizationTwice => "there is more than one `Authorization`",
            Self::BodyTooLarge => "the body is too large",
            Self::BodyTimeout => "the body did not come in time",
            Self::HeadTimeout => "the head of the request did not come in time",
            Self::RequestTimeout => "there is no answer in time",
            Self::Connections => "there are too many connections",
            Self::Sessions => "there are too many sessions",
            Self::Draining => "the program is about to end",
        }
    }
}

/// Where refusals are written.
pub trait Ledger: fmt::Debug + Send + Sync {
    /// So many times something was refused for that cause. It may wait for a disk.
    fn refused(&self, cause: Cause, times: u64);
}

/// Where those who refuse say so.
#[derive(Debug, Clone)]
pub struct Refusals(Arc<Book>);

#[derive(Debug)]
struct Book {
    metrics: Arc<Metrics>,
    times: [AtomicU64; Cause::ALL.len()],
    closed: CancellationToken,
}

/// A book, and the task that writes it into a ledger until it is closed.
pub(super) fn book(
    metrics: Arc<Metrics>,
    ledger: Arc<dyn Ledger>,
) -> (Refusals, impl Future<Output = ()> + Send) {
    let refusals = Refusals(Arc::new(Book {
        metrics,
        times: Default::default(),
        closed: CancellationToken::new(),
    }));
    let writer = write(refusals.clone(), ledger);
    (refusals, writer)
}

impl Refusals {
    /// Something was refused.
    pub fn note(&self, cause: Cause) {
        self.0.metrics.refused(cause);
        if let Some(times) = self.0.times.get(cause as usize) {
            times.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn close(&self) {
        self.0.closed.cancel();
    }

    fn take(&self, cause: Cause) -> u64 {
        let times = self.0.times.get(cause as usize);
        times.map_or(0, |times| times.swap(0, Ordering::Relaxed))
    }
}

/// Writes one line a cause, ever more rarely while it goes on.
async fn write(refusals: Refusals, ledger: Arc<dyn Ledger>) {
    let start = Instant::now();
    let mut pauses = Cause::ALL.map(|cause| (cause, FIRST, start));
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(FIRST) => false,
            () = refusals.0.closed.cancelled() => true,
        };
        let now = Instant::now();
        let mut lines = Vec::new();
        for (cause, pause, due) in &mut pauses {
            if now < *due && !last {
                continue;
            }
            match refusals.take(*cause) {
                0 => *pause = FIRST,
                times => {
                    lines.push((*cause, times));
                    *due = now + *pause;
                    *pause = (*pause * 2).min(LONGEST);
                }
            }
        }
        if !lines.is_empty() {
            let ledger = Arc::clone(&ledger);
            let written = tokio::task::spawn_blocking(move || {
                for (cause, times) in lines {
                    ledger.refused(cause, times);
                }
            });
            let _ = written.await;
        }
        if last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct Lines(Mutex<Vec<(Cause, u64)>>);

    impl Ledger for Lines {
        fn refused(&self, cause: Cause, times: u64) {
            self.0.lock().unwrap().push((cause, times));
        }
    }

    #[test]
    fn the_causes_stand_in_their_order() {
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
        }
    }

    #[test]
    fn a_flood_is_a_few_lines_and_nothing_is_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let lines = Arc::new(Lines::default());
        let ledger: Arc<dyn Ledger> = Arc::<Lines>::clone(&lines);
        runtime.block_on(async {
            let (refusals, writer) = book(Arc::default(), ledger);
            let writing = tokio::spawn(writer);
            let end = Instant::now() + Duration::from_millis(4_500);
            let mut sent = 0;
            while Instant::now() < end {
                refusals.note(Cause::TokenWrong);
                sent += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            refusals.note(Cause::Host);
            refusals.close();
            writing.await.unwrap();
            let lines = lines.0.lock().unwrap();
            let wrong: Vec<u64> = lines
                .iter()
                .filter(|(cause, _)| *cause == Cause::TokenWrong)
                .map(|(_, times)| *times)
                .collect();
            assert_eq!(wrong.iter().sum::<u64>(), sent);
            assert!((2..=4).contains(&wrong.len()), "{wrong:?}");
            assert!(lines.contains(&(Cause::Host, 1)), "{lines:?}");
        });
    }
}
