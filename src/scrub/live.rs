//! Whether somebody is still writing to a transcript.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::file::Identity;

/// What is known of open files is not asked for again so soon.
const FRESH: Duration = Duration::from_millis(500);

/// Looks for sessions that go on.
#[derive(Debug)]
pub struct Sessions {
    quiet: Duration,
    open: Option<(Instant, HashSet<(u64, u64)>)>,
}

impl Sessions {
    /// A transcript that was not written to for so long is one that a session may have left.
    #[must_use]
    pub const fn new(quiet: Duration) -> Self {
        Self { quiet, open: None }
    }

    /// Why a file is to be left alone, if it is.
    pub fn going_on(&mut self, path: &Path, was: &Identity) -> Option<String> {
        let age = was
            .modified()
            .map(|then| SystemTime::now().duration_since(then).unwrap_or_default());
        if age.is_none_or(|age| age < self.quiet) {
            let seconds = self.quiet.as_secs();
            return Some(format!(
                "it was written to less than {seconds} s ago (`--older-than`)"
            ));
        }
        if let Some(process) = holder(path) {
            return Some(format!("process {process} uses this session"));
        }
        let numbers = was.numbers()?;
        let stale = |taken: &Instant| taken.elapsed() > FRESH;
        if self.open.as_ref().is_none_or(|(taken, _)| stale(taken)) {
            self.open = Some((Instant::now(), written()));
        }
        let (_, open) = self.open.as_ref()?;
        open.contains(&numbers)
            .then(|| "a process has it open for writing".to_owned())
    }
}

/// The process that Copilot CLI noted beside a session as its user, if it is still there.
fn holder(path: &Path) -> Option<u32> {
    let folders = path.ancestors().skip(1).take(3);
    folders
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let process = name.to_str()?.strip_prefix("inuse.")?;
            process.strip_suffix(".lock")?.parse().ok()
        })
        .find(|process| lives(*process))
}

#[cfg(unix)]
fn lives(process: u32) -> bool {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    let Ok(process) = i32::try_from(process) else {
        return false;
    };
    let known = kill(nix::unistd::Pid::from_raw(process), None);
    process > 0 && matches!(known, Ok(()) | Err(Errno::EPERM))
}

#[cfg(not(unix))]
const fn lives(_: u32) -> bool {
    // It cannot be told here: to be on the safe side, it lives.
    true
}

/// The files that processes which this user may look at have open for writing.
#[cfg(target_os = "linux")]
fn written() -> HashSet<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let mut found = HashSet::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let name = process.file_name();
        if !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let descriptors = std::fs::read_dir(process.path().join("fd"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            let info = process.path().join("fdinfo").join(descriptor.file_name());
            if std::fs::read_to_string(info).is_ok_and(|info| writes(&info))
                && let Ok(file) = std::fs::metadata(descriptor.path())
                && file.is_file()
            {
                found.insert((file.dev(), file.ino()));
            }
        }
    }
    found
}

#[cfg(not(target_os = "linux"))]
fn written() -> HashSet<(u64, u64)> {
    HashSet::new()
}

/// Whether the flags of a descriptor let it write: the lowest two bits, in octal digits.
#[cfg(target_os = "linux")]
fn writes(info: &str) -> bool {
    info.lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & 3 != 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::scrub::file;

    #[test]
    fn who_writes_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let writer = std::fs::File::create(&path).unwrap();
        let mut sessions = Sessions::new(Duration::ZERO);
        let was = file::open(&path, false).unwrap().was;
        assert!(
            sessions
                .going_on(&path, &was)
                .unwrap()
                .contains("open for writing")
        );
        drop(writer);
        let mut sessions = Sessions::new(Duration::ZERO);
        assert_eq!(sessions.going_on(&path, &was), None);
        let mut sessions = Sessions::new(Duration::from_secs(60));
        assert!(sessions.going_on(&path, &was).unwrap().contains("60 s"));
    }

    #[test]
    fn a_session_in_use_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        let was = file::open(&path, false).unwrap().was;
        let lock = |process: u32| folder.path().join(format!("inuse.{process}.lock"));
        std::fs::write(lock(0), "").unwrap();
        std::fs::write(lock(u32::MAX), "").unwrap();
        let mut sessions = Sessions::new(Duration::ZERO);
        assert_eq!(sessions.going_on(&path, &was), None);
        std::fs::write(lock(std::process::id()), "").unwrap();
        assert!(
            sessions
                .going_on(&path, &was)
                .unwrap()
                .contains("uses this session")
        );
    }
}
