//! Reading the record from its end, in constant memory.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::AuditError;

/// How much is read at once.
const BLOCK: u64 = 64 << 10;

/// The newest line that `wanted` says yes to. Lines that are no JSON are passed over.
///
/// # Errors
/// If the record cannot be read. A record that is not there is empty.
pub fn last(state: &Path, wanted: impl Fn(&Value) -> bool) -> Result<Option<Value>, AuditError> {
    for path in days(&state.join("audit"))?.into_iter().rev() {
        if let Some(found) =
            last_in(&path, &wanted).map_err(|error| AuditError::io("read", &path, &error))?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The files of the record, oldest first.
///
/// # Errors
/// If the directory cannot be read. One that is not there has no files.
pub fn days(dir: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AuditError::io("read", dir, &error)),
    };
    let mut days: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| day_of(path).is_some())
        .collect();
    days.sort();
    Ok(days)
}

/// The day of a file of the record: `2026-11-21` of `audit-2026-11-21.jsonl`.
#[must_use]
pub fn day_of(path: &Path) -> Option<&str> {
    let day = path
        .file_name()?
        .to_str()?
        .strip_prefix("audit-")?
        .strip_suffix(".jsonl")?;
    day.parse::<jiff::civil::Date>().ok().map(|_| day)
}

/// A file of the record, to be read.
///
/// # Errors
/// If it cannot be opened, or is no plain file: a FIFO would never end.
pub fn open(path: &Path) -> std::io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(std::io::Error::other("it is no plain file"))
}

fn last_in(path: &Path, wanted: &impl Fn(&Value) -> bool) -> std::io::Result<Option<Value>> {
    let mut file = open(path)?;
    let mut position = file.metadata()?.len();
    // What was read and still lacks its beginning.
    let mut rest: Vec<u8> = Vec::new();
    while position > 0 {
        let size = BLOCK.min(position);
        position -= size;
        file.seek(SeekFrom::Start(position))?;
        let mut block = Vec::new();
        (&mut file).take(size).read_to_end(&mut block)?;
        block.append(&mut rest);
        let mut lines = block.split(|byte| *byte == b'\n');
        if position > 0 {
            rest = lines.next().unwrap_or_default().to_vec();
        }
        for line in lines.rev() {
            if let Ok(value) = serde_json::from_slice::<Value>(line)
                && wanted(&value)
            {
                return Ok(Some(value));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_line_is_found_across_blocks_and_days() {
        let dir = tempfile::tempdir().unwrap();
        let audit = dir.path().join("audit");
        fs::create_dir(&audit).unwrap();
        let long: String = (0..5000)
            .map(|n| format!("{{\"n\":{n},\"d\":\"{}\"}}\n", "x".repeat(40)))
            .collect();
        fs::write(audit.join("audit-2026-01-01.jsonl"), long).unwrap();
        fs::write(audit.join("audit-2026-01-02.jsonl"), "{\"n\":-1}\ntorn").unwrap();
        fs::write(audit.join("notes.txt"), "{\"n\":9}").unwrap();
        let n = |wanted: i64| {
            last(dir.path(), |v| v["n"] == wanted)
                .unwrap()
                .map(|v| v["n"].clone())
        };
        assert_eq!(last(dir.path(), |_| true).unwrap().unwrap()["n"], -1);
        for wanted in [0, 1, 2499, 4999] {
            assert_eq!(n(wanted), Some(wanted.into()));
        }
        assert_eq!(n(5000), None);
        assert_eq!(last(Path::new("/nowhere"), |_| true).unwrap(), None);
    }
}
