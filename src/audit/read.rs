//! Reading the record from its end, in constant memory.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::AuditError;

/// How much is read at once.
const BLOCK: u64 = 64 << 10;

/// What the names of the record's files begin with.
const RECORD: &str = "audit-";

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
    dated(dir, RECORD)
}

/// The files whose names begin so and go on with a day, oldest first.
pub(super) fn dated(dir: &Path, prefix: &str) -> Result<Vec<PathBuf>, AuditError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AuditError::io("read", dir, &error)),
    };
    let mut days: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| dated_part(path, prefix).is_some())
        .collect();
    days.sort_by_cached_key(|path| {
        dated_part(path, prefix).map(|(day, part)| (day.to_owned(), part))
    });
    Ok(days)
}

/// The day of a file of the record, and which of its parts it is: `2026-11-21` and 0 of
/// `audit-2026-11-21.jsonl`, 1 of `audit-2026-11-21.1.jsonl`. Files of a record sort by that.
#[must_use]
pub fn part_of(path: &Path) -> Option<(&str, u32)> {
    dated_part(path, RECORD)
}

/// The day of a file of the record.
#[must_use]
pub fn day_of(path: &Path) -> Option<&str> {
    part_of(path).map(|(day, _)| day)
}

fn dated_part<'a>(path: &'a Path, prefix: &str) -> Option<(&'a str, u32)> {
    let name = path
        .file_name()?
        .to_str()?
        .strip_prefix(prefix)?
        .strip_suffix(".jsonl")?;
    let (day, part) = match name.split_once('.') {
        None => (name, 0),
        // One spelling only, so that no two files are the same part.
        Some((day, part)) => (
            day,
            part.parse()
                .ok()
                .filter(|n: &u32| *n > 0 && n.to_string() == part)?,
        ),
    };
    day.parse::<jiff::civil::Date>().ok().map(|_| (day, part))
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

/// The newest line of one file that `wanted` says yes to.
pub(super) fn last_in(
    path: &Path,
    wanted: &impl Fn(&Value) -> bool,
) -> std::io::Result<Option<Value>> {
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
    fn the_parts_of_a_day_come_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "audit-2026-01-01.jsonl",
            "audit-2026-01-02.jsonl",
            "audit-2026-01-02.1.jsonl",
            "audit-2026-01-02.10.jsonl",
            "audit-2026-01-03.jsonl",
        ];
        for name in names.iter().rev().chain(&[
            "audit-2026-01-02.01.jsonl",
            "audit-2026-01-02.0.jsonl",
            "audit-soon.jsonl",
            "checkpoints-2026-01-02.jsonl",
        ]) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let days = days(dir.path()).unwrap();
        assert_eq!(
            days.iter()
                .map(|day| day.file_name().unwrap())
                .collect::<Vec<_>>(),
            names
        );
        assert_eq!(part_of(&days[3]), Some(("2026-01-02", 10)));
    }

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
