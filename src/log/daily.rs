//! A file a day, of which a few are kept.
//!
//! `tracing-appender` makes files that others may read, follows links, waits at a FIFO and says on stderr
//! what goes wrong with it: a hook may do none of that.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tracing_subscriber::fmt::MakeWriter;

use crate::audit::AuditError;
use crate::audit::private::append_privately;

/// So many files are kept: two weeks in which something was said every day.
pub const KEPT: usize = 14;

const PREFIX: &str = "copilot-bridge.";
const ENDING: &str = ".log";

/// The directory of the log.
#[must_use]
pub fn dir(state: &Path) -> PathBuf {
    state.join("log")
}

/// Whether the log can be written, without leaving anything behind.
///
/// # Errors
/// In words, if it cannot.
pub fn check(state: &Path) -> Result<PathBuf, AuditError> {
    let dir = dir(state);
    let path = dir.join(name(today()));
    if path.symlink_metadata().is_ok() {
        return append_privately(&path).map(|_| dir);
    }
    let folder = if dir.symlink_metadata().is_ok() {
        &dir
    } else {
        state
    };
    match tempfile::tempfile_in(folder) {
        Ok(_) => Ok(dir),
        Err(error) => Err(AuditError::io("write in", folder, &error)),
    }
}

/// The file of the day.
#[derive(Debug)]
pub(super) struct Daily {
    dir: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    day: Date,
    file: File,
}

impl Daily {
    /// Opens today's file below a state directory that is there.
    pub(super) fn open(state: &Path) -> Result<Self, AuditError> {
        if !is_ours(state) {
            let why = format!("`{}` belongs to another user", state.display());
            return Err(AuditError(why));
        }
        let dir = dir(state);
        make(&dir)?;
        let open = Mutex::new(Open::at(&dir, today())?);
        Ok(Self { dir, open })
    }
}

impl Open {
    fn at(dir: &Path, day: Date) -> Result<Self, AuditError> {
        let path = dir.join(name(day));
        let file = append_privately(&path)?;
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            prune(dir);
        }
        Ok(Self { day, file })
    }
}

impl<'a> MakeWriter<'a> for Daily {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        // Whoever holds it may be waiting for a disk.
        let mut open = self.open.try_lock().ok();
        if let Some(open) = &mut open
            && open.day != today()
            && let Ok(next) = Open::at(&self.dir, today())
        {
            **open = next;
        }
        Line(open)
    }
}

/// Writes a line in one piece, or not at all: nobody is told what became of it.
pub(super) struct Line<'a>(Option<MutexGuard<'a, Open>>);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(open) = &mut self.0 {
            let _ = open.file.write(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whoever looks at the installation of another user leaves nothing there.
#[cfg(unix)]
fn is_ours(state: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = nix::unistd::geteuid().as_raw();
    state.metadata().is_ok_and(|metadata| metadata.uid() == own)
}

#[cfg(not(unix))]
fn is_ours(state: &Path) -> bool {
    state.is_dir()
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

fn name(day: Date) -> String {
    format!("{PREFIX}{day}{ENDING}")
}

/// Makes the directory, but not the state directory: where nothing is installed, nothing is logged.
fn make(dir: &Path) -> Result<(), AuditError> {
    let mut builder = DirBuilder::new();
    builder.recursive(false);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(AuditError::io("make", dir, &error))
        }
        _ => Ok(()),
    }
}

/// Removes the oldest files of this log.
fn prune(dir: &Path) {
    let mut days: Vec<Date> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let day = name.to_str()?.strip_prefix(PREFIX)?.strip_suffix(ENDING)?;
            day.parse().ok()
        })
        .collect();
    days.sort();
    let old = days.len().saturating_sub(KEPT);
    for day in days.into_iter().take(old) {
        // Another process may have been faster.
        let _ = fs::remove_file(dir.join(name(day)));
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_day_is_a_new_file_and_the_oldest_go() {
        let state = tempfile::tempdir().unwrap();
        let dir = dir(state.path());
        fs::create_dir(&dir).unwrap();
        for day in 1..=20 {
            fs::write(
                dir.join(format!("copilot-bridge.2026-01-{day:02}.log")),
                "x",
            )
            .unwrap();
        }
        fs::write(dir.join("copilot-bridge.notes.log"), "mine").unwrap();
        let daily = Daily::open(state.path()).unwrap();
        let today = name(today());
        let found = names(&dir);
        assert_eq!(found.len(), KEPT + 1);
        assert_eq!(found[0], "copilot-bridge.2026-01-08.log");
        assert!(found.contains(&today) && found.contains(&"copilot-bridge.notes.log".to_owned()));

        // A process that goes on over midnight goes on in the next day's file.
        let yesterday = daily.open.lock().unwrap().day.yesterday().unwrap();
        *daily.open.lock().unwrap() = Open::at(&dir, yesterday).unwrap();
        daily.make_writer().write_all(b"a line\n").unwrap();
        assert_eq!(fs::read_to_string(dir.join(&today)).unwrap(), "a line\n");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir.join(&today)), 0o600);
    }

    #[test]
    fn nothing_is_left_with_another_user() {
        // Only root can be shown one: a directory that it gives away.
        let state = tempfile::tempdir().unwrap();
        let other = nix::unistd::Uid::from_raw(12_345);
        if nix::unistd::chown(state.path(), Some(other), None).is_err() {
            assert!(!is_ours(Path::new("/")));
            return;
        }
        assert!(Daily::open(state.path()).is_err());
        assert_eq!(names(state.path()), [""; 0]);
    }

    #[test]
    fn checking_leaves_nothing_behind() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(check(state.path()).unwrap(), dir(state.path()));
        assert_eq!(names(state.path()), [""; 0]);
        make(&dir(state.path())).unwrap();
        assert_eq!(
            dir(state.path()).metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        let path = dir(state.path()).join(name(today()));
        fs::create_dir(&path).unwrap();
        assert!(check(state.path()).is_err());
    }
}
