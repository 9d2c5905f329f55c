//! What a person is being asked, so that the host's own permission request for the same call is
//! not taken for a new one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::AuditError;

/// A question is forgotten after this time.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// So many old questions are looked at whenever a new one is kept.
const SWEEP: usize = 64;

/// Keeps a question, by its HMAC.
///
/// # Errors
/// If the state directory cannot be written.
pub fn remember(state: &Path, hmac: &str) -> Result<(), AuditError> {
    let dir = dir(state);
    super::private::create_private_dir(&dir)?;
    let path = dir.join(hmac);
    super::private::private(
        fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true),
    )
    .open(&path)
    .map_err(|error| AuditError::io("keep the question", &path, &error))?;
    sweep(&dir);
    Ok(())
}

/// Whether that question was kept, and not too long ago.
#[must_use]
pub fn was_asked(state: &Path, hmac: &str) -> bool {
    dir(state)
        .join(hmac)
        .symlink_metadata()
        .is_ok_and(|metadata| is_fresh(&metadata))
}

fn dir(state: &Path) -> PathBuf {
    state.join("asked")
}

fn is_fresh(metadata: &fs::Metadata) -> bool {
    metadata
        .modified()
        .ok()
        .and_then(|time| time.elapsed().ok())
        .is_none_or(|age| age < KEPT)
}

fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten().take(SWEEP) {
        if entry.metadata().is_ok_and(|metadata| !is_fresh(&metadata)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!was_asked(dir.path(), "abc"));
        remember(dir.path(), "abc").unwrap();
        remember(dir.path(), "abc").unwrap();
        assert!(was_asked(dir.path(), "abc"));
        assert!(!was_asked(dir.path(), "abd"));
    }
}
