//! Ending cleanly when the program is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::ShipError;

/// How long it may take until a signal is seen.
const TICK: Duration = Duration::from_millis(50);

/// Whether the program was told to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on Ctrl-C, SIGTERM and SIGHUP only ask to end.
    ///
    /// # Errors
    /// If the system does not let us listen.
    pub fn on_signals() -> Result<Self, ShipError> {
        let stop = Self::default();
        let flag = Arc::clone(&stop.0);
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .map_err(|error| ShipError(format!("cannot listen for signals: {error}")))?;
        Ok(stop)
    }

    /// Whether it was told to.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits so long, or until it is told to end: then it is true.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            if self.is_asked() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(TICK));
        }
    }

    /// What the work gives. Once it is told to end, the work has so much time left; then it is given up.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn during<T: Send + 'static>(
        &self,
        grace: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, ShipError> {
        let (done, result) = mpsc::sync_channel(1);
        thread::Builder::new()
            .name("request".to_owned())
            .spawn(move || {
                let _ = done.send(work());
            })
            .map_err(|error| ShipError(format!("cannot start a thread: {error}")))?;
        let mut until = None;
        loop {
            match result.recv_timeout(TICK) {
                Ok(value) => return Ok(Some(value)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ShipError("the request ended without an answer".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_asked() {
                let until = *until.get_or_insert_with(|| Instant::now() + grace);
                if Instant::now() >= until {
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_done_is_kept_and_work_that_hangs_is_given_up() {
        let stop = Stop::default();
        assert_eq!(stop.during(GRACE, || 7).unwrap(), Some(7));
        assert!(!stop.wait(Duration::from_millis(1)));
        stop.0.store(true, Ordering::Relaxed);
        assert_eq!(stop.during(GRACE, || 7).unwrap(), Some(7));
        let started = Instant::now();
        assert!(stop.wait(Duration::from_mins(1)));
        let hangs = || thread::sleep(Duration::from_mins(1));
        assert_eq!(stop.during(GRACE, hangs).unwrap(), None);
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    const GRACE: Duration = Duration::from_millis(100);
}
