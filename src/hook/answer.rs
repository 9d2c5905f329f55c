//! One atomic state picks who answers: the door, once the record is written, or the watchdog, at
//! the deadline. Whoever takes it writes the one answer; the other never does.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::dialect::Answer;
use crate::engine::bundle::LogLevel;

/// The turn to answer, and the time that is left.
#[derive(Debug)]
pub(super) struct Turn {
    taken: AtomicBool,
    started: Instant,
    deadline_ms: AtomicU64,
    log_level: OnceLock<LogLevel>,
}

impl Turn {
    pub(super) const fn new(started: Instant, deadline: Duration) -> Self {
        Self {
            taken: AtomicBool::new(false),
            started,
            deadline_ms: AtomicU64::new(deadline.as_millis() as u64),
            log_level: OnceLock::new(),
        }
    }

    /// Takes the turn. True exactly once.
    pub(super) fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::SeqCst)
    }

    /// Sets how long the whole call may take, counted from its start.
    pub(super) fn set_deadline(&self, milliseconds: u32) {
        self.deadline_ms
            .store(u64::from(milliseconds), Ordering::SeqCst);
    }

    /// Sets how much the operational log says.
    pub(super) fn set_log_level(&self, level: LogLevel) {
        // Set once, when the policies are read.
        let _ = self.log_level.set(level);
    }

    /// How much the operational log says; nothing before the policies are read.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.log_level.get().copied()
    }

    /// How much time is left.
    pub(super) fn left(&self) -> Duration {
        Duration::from_millis(self.deadline_ms.load(Ordering::SeqCst))
            .saturating_sub(self.started.elapsed())
    }

    /// How long the call has taken.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Writes the answer in one go and gives the exit code: 2 where nobody reads it any more.
pub(super) fn write(answer: &Answer) -> u8 {
    if !answer.stderr.is_empty() {
        // Nobody is promised anything on stderr.
        let _ = writeln!(io::stderr(), "{}", answer.stderr);
    }
    let mut stdout = io::stdout().lock();
    let line = format!("{}\n", answer.stdout);
    match stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => answer.code,
        Err(_) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_is_taken_once() {
        let turn = Turn::new(Instant::now(), Duration::from_secs(1));
        let taken: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| usize::from(turn.take())))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(taken, 1);
    }
}
