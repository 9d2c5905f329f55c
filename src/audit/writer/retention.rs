//! Files that are older than the record is kept.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::ToSpan;
use jiff::civil::Date;
use serde::Serialize;

use crate::audit::{AuditError, checkpoint, read};
use crate::engine::bundle::AuditSettings;

/// So many files go at once: somebody waits.
const AT_ONCE: usize = 16;

/// What is removed, as a line of the record tells it.
#[derive(Debug, Serialize)]
pub(super) struct Removed {
    files: Vec<String>,
    bytes: u64,
    first: u64,
    last: u64,
}

/// Removes the files that are too old, and the checkpoints made on their days. `record` says so in
/// the record first.
pub(super) fn apply(
    dir: &Path,
    settings: &AuditSettings,
    newest: &Path,
    record: impl FnOnce(Removed) -> Result<(), AuditError>,
) -> Result<(), AuditError> {
    let Some(kept) = kept(settings, newest) else {
        return Ok(());
    };
    let old = |path: &PathBuf| read::day_of(path).is_some_and(|day| *day < *kept);
    let files: Vec<PathBuf> = read::days(dir)?
        .into_iter()
        .filter(old)
        .take(AT_ONCE)
        .collect();
    let Some(removed) = removed(&files) else {
        return Ok(());
    };
    record(removed)?;
    for file in &files {
        // What cannot be removed now is tried again, and told again, with the next file.
        let _ = fs::remove_file(file);
        if let Some(day) = read::day_of(file) {
            let _ = fs::remove_file(checkpoint::file(dir, day));
        }
    }
    Ok(())
}

/// The first day that is kept, counted from that of the newest file.
fn kept(settings: &AuditSettings, newest: &Path) -> Option<String> {
    let days = i64::from(settings.retention_days);
    if days == 0 {
        return None;
    }
    let newest: Date = read::day_of(newest)?.parse().ok()?;
    Some(newest.checked_sub(days.days()).ok()?.to_string())
}

fn removed(files: &[PathBuf]) -> Option<Removed> {
    let numbered = |line: &serde_json::Value| line.get("seq").is_some_and(|seq| seq.is_u64());
    let last = files
        .iter()
        .rev()
        .find_map(|file| read::last_in(file, &numbered).ok().flatten());
    Some(Removed {
        files: files
            .iter()
            .filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()))
            .collect(),
        bytes: files
            .iter()
            .filter_map(|file| Some(file.metadata().ok()?.len()))
            .sum(),
        first: files.iter().find_map(|file| super::end::first(file))?,
        last: last?.get("seq")?.as_u64()?,
    })
}
