//! A bar for work that takes long, where somebody watches.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that is done sooner shows nothing.
const LONG: Duration = Duration::from_millis(700);

/// So many files or bytes of so many, on the standard error output of a terminal.
pub(super) struct Progress {
    started: Instant,
    total: usize,
    template: &'static str,
    watched: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        Self::of(total, "{bar:40} {pos}/{len} files, {eta} left")
    }

    /// For bytes instead of files.
    pub(super) fn bytes(total: u64) -> Self {
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        Self::of(total, "{bar:40} {bytes}/{total_bytes}, {eta} left")
    }

    fn of(total: usize, template: &'static str) -> Self {
        Self {
            started: Instant::now(),
            total,
            template,
            watched: std::io::stderr().is_terminal(),
            bar: None,
        }
    }

    /// So many are done.
    pub(super) fn at(&mut self, done: usize) {
        if !self.watched || self.started.elapsed() < LONG {
            return;
        }
        let total = self.total as u64;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(self.template);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(done as u64);
    }

    /// Prints something without the bar in between.
    pub(super) fn beside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
