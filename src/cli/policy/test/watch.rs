//! Testing again whenever something changes.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use notify::{Event, EventKind, RecursiveMode, Watcher, recommended_watcher};

use crate::cli::Outcome;
use crate::exit::Exit;

/// Editors write a file in several steps: after so long without one, it is whole.
const QUIET: Duration = Duration::from_millis(150);

/// Runs `test` now and after each change below `dirs`, until the program is ended.
pub(super) fn run(
    dirs: &[PathBuf],
    out: &mut dyn Write,
    test: &mut dyn FnMut(&mut dyn Write) -> Outcome,
) -> Outcome {
    if dirs.is_empty() {
        return Err(
            "there is no directory to watch: the policies are those of this program".into(),
        );
    }
    loop {
        // Before the run: a change during it is not missed. Anew each time: a directory that was
        // published is another one than before.
        let (sender, changes) = channel();
        let mut watcher = recommended_watcher(sender)?;
        for dir in dirs {
            watcher.watch(dir, RecursiveMode::Recursive)?;
        }
        if let Err(error) = test(out) {
            writeln!(anstream::stderr(), "error: {error}")?;
        }
        writeln!(out, "waiting for a change; Ctrl-C ends this\n")?;
        out.flush()?;
        if !changed(&changes) {
            return Ok(Exit::Failed);
        }
    }
}

/// Waits for a change, and until nothing more changes. False: nobody tells of changes any more.
fn changed(changes: &Receiver<notify::Result<Event>>) -> bool {
    loop {
        match changes.recv() {
            Ok(Ok(event)) if is_change(&event) => break,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    loop {
        match changes.recv_timeout(QUIET) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Whether a file is another one now; that somebody read it is no change.
const fn is_change(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Access(_))
}
