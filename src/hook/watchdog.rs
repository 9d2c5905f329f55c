//! The watchdog: denies when the deadline passes or the host wants to end us before we answered.
//!
//! Hosts let a call run when its hook is late. So this thread waits beside the work, and answers
//! whatever the work is doing: reading, waiting for a lock, or evaluating.

use std::sync::Arc;
use std::thread;

use super::answer::{self, Turn};
use super::dialect::Answer;

/// Why the watchdog answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The deadline passed.
    Deadline,
    /// The process was told to end.
    Signal,
}

/// Starts the watchdog. `deny` makes its answer; `note` is told once that it answered.
///
/// # Errors
/// If there is no thread or no signal mask to be had. Then nothing guards the deadline.
pub(super) fn start(
    turn: Arc<Turn>,
    deny: impl Fn(Cause) -> Answer + Send + 'static,
    note: impl Fn() + Send + 'static,
) -> std::io::Result<()> {
    let waiter = Waiter::new()?;
    thread::Builder::new()
        .name("watchdog".to_owned())
        .stack_size(256 << 10)
        .spawn(move || {
            let cause = loop {
                let left = turn.left();
                if left.is_zero() {
                    break Cause::Deadline;
                }
                if waiter.wait(left) {
                    break Cause::Signal;
                }
            };
            if turn.take() {
                let code = answer::write(&deny(cause));
                note();
                end(code);
            }
        })?;
    Ok(())
}

#[expect(
    clippy::exit,
    reason = "the main thread may be stuck: this is the only way out in time"
)]
fn end(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// Waits for a signal that ends processes, or for time to pass.
#[cfg(target_os = "linux")]
struct Waiter(nix::sys::signalfd::SignalFd);

#[cfg(target_os = "linux")]
impl Waiter {
    /// The signals are blocked in this thread and all that it starts, so that only the descriptor
    /// sees them.
    fn new() -> std::io::Result<Self> {
        use nix::sys::signal::{SigSet, Signal};
        use nix::sys::signalfd::{SfdFlags, SignalFd};
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block()?;
        Ok(Self(SignalFd::with_flags(
            &signals,
            SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
        )?))
    }

    /// Whether a signal came. False: time passed, or the wait was cut short.
    fn wait(&self, left: std::time::Duration) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        // Rounded up: waking a moment early would mean to wait again for nothing.
        let milliseconds = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        let mut files = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut files, PollTimeout::from(milliseconds)), Ok(ready) if ready > 0)
    }
}

/// Elsewhere only the deadline is watched; a signal ends the process, which these hosts deny.
#[cfg(not(target_os = "linux"))]
struct Waiter;

#[cfg(not(target_os = "linux"))]
impl Waiter {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    fn wait(&self, left: std::time::Duration) -> bool {
        thread::sleep(left);
        false
    }
}
