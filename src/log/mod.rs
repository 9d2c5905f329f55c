//! The operational log: what this program does and what goes wrong with it. It is no record: nothing
//! depends on it, and what cannot be written is lost.
//!
//! `<state>/log/copilot-bridge.YYYY-MM-DD.log` (UTC), one JSON object a line. It says ids, sizes,
//! times and sentences of this program, and nothing of what agents, people and tools say.
//!
//! Until the first event that the level lets through, nothing is installed and no file is opened.

mod daily;

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

pub use daily::{KEPT, check, dir};

use crate::engine::bundle::LogLevel;
use daily::Daily;

/// Nothing was said yet.
const ASLEEP: u8 = 0;

/// Another thread is at it; whoever waited for it could wait for a disk.
const WAKING: u8 = 1;

/// Events are written.
const AWAKE: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(ASLEEP);

/// Whether an event of that severity is to be written. If so, and it is the first one of this process,
/// the log is opened. Where there is no state directory, there is no log.
pub fn wake(state: &Path, level: LogLevel, severity: Level) -> bool {
    let Some(most) = most(level).filter(|most| severity <= *most) else {
        return false;
    };
    match STATE.compare_exchange(ASLEEP, WAKING, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {
            let open = install(state, most);
            STATE.store(if open { AWAKE } else { ASLEEP }, Ordering::SeqCst);
            open
        }
        Err(found) => found == AWAKE,
    }
}

/// What a level lets through; nothing if that is nothing.
const fn most(level: LogLevel) -> Option<Level> {
    match level {
        LogLevel::All => Some(Level::TRACE),
        LogLevel::Debug => Some(Level::DEBUG),
        LogLevel::Info => Some(Level::INFO),
        LogLevel::Warning => Some(Level::WARN),
        LogLevel::Error => Some(Level::ERROR),
        LogLevel::None => None,
    }
}

fn install(state: &Path, most: Level) -> bool {
    let Ok(daily) = Daily::open(state) else {
        return false;
    };
    // Libraries may say what agents said.
    let ours = Targets::new().with_target(env!("CARGO_CRATE_NAME"), most);
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_writer(daily)
        // These would go to stderr, which belongs to the host's protocol.
        .log_internal_errors(false);
    let subscriber = tracing_subscriber::registry().with(ours).with(lines);
    tracing::subscriber::set_global_default(subscriber).is_ok()
}

/// How long something took, as the log says it.
#[must_use]
pub fn microseconds(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

/// Times the phases of an event, where the log wants to know them.
#[derive(Debug)]
pub struct Stopwatch(Option<Instant>);

impl Stopwatch {
    /// Starts, if the log is awake and says as much.
    #[must_use]
    pub fn start() -> Self {
        Self(tracing::enabled!(Level::DEBUG).then(Instant::now))
    }

    /// Says how long the phase took that ends here, in microseconds.
    pub fn lap(&mut self, phase: &'static str) {
        if let Some(since) = self.0.as_mut() {
            let now = Instant::now();
            let us = microseconds(now.duration_since(*since));
            tracing::debug!(pid = std::process::id(), phase, us, "phase");
            *since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_lets_through_what_is_as_severe() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        for (level, severity) in [
            (LogLevel::None, Level::ERROR),
            (LogLevel::Error, Level::WARN),
            (LogLevel::Info, Level::DEBUG),
            (LogLevel::Debug, Level::TRACE),
        ] {
            assert!(!wake(dir.path(), level, severity), "{level:?} {severity}");
        }
        assert!(!wake(&gone, LogLevel::All, Level::ERROR));
        assert!(!gone.exists());
        assert!(!dir.path().join("log").exists());
    }
}
