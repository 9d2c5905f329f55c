//! Which files a record consists of, and in which order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::audit::checkpoint::{self, Stored};
use crate::audit::lines::Lines;
use crate::audit::record::fields;
use crate::audit::{AuditError, read};

/// So many lines are looked at for the number that a file begins with.
const FIRST: usize = 8;

/// The files of a record.
#[derive(Debug, Default)]
pub struct Listed {
    /// In the order of the chain.
    pub files: Vec<PathBuf>,
    /// Whether all of a record should be there: a directory was named, and nothing else.
    pub whole: bool,
    /// Whether a part of the last day was not named.
    pub open: bool,
    /// The files of checkpoints beside them, the oldest first.
    pub checkpoints: Vec<Stored>,
    /// How many bytes they have.
    pub bytes: u64,
}

/// The files that are meant by files and directories, in the order of the chain.
///
/// # Errors
/// If one of them cannot be looked at.
pub fn list(paths: &[PathBuf]) -> Result<Listed, AuditError> {
    let mut listed = Listed {
        whole: paths.len() == 1,
        ..Listed::default()
    };
    for path in paths {
        let metadata =
            fs::metadata(path).map_err(|error| AuditError::io("look at", path, &error))?;
        if metadata.is_dir() {
            // A state directory has its record one below.
            let dir = match read::days(path)?.is_empty() {
                true => path.join("audit"),
                false => path.clone(),
            };
            // These first: what they cover is in the files that are listed behind.
            let checkpoints = checkpoint::files(&dir)?;
            listed
                .checkpoints
                .extend(checkpoints.into_iter().map(Stored::at));
            let mut days = read::days(&dir)?;
            if days.is_empty() {
                return Err(AuditError(format!(
                    "there is no record in `{}`",
                    path.display()
                )));
            }
            listed.files.append(&mut days);
        } else if metadata.is_file() {
            listed.whole = false;
            listed.files.push(path.clone());
            let beside = path.parent().zip(read::day_of(path));
            let beside = beside.map(|(dir, day)| checkpoint::file(dir, day));
            listed
                .checkpoints
                .extend(beside.filter(|file| file.is_file()).map(Stored::at));
        } else {
            return Err(AuditError(format!("`{}` is no plain file", path.display())));
        }
    }
    let once = || {
        let mut seen = std::collections::BTreeSet::new();
        move |path: &PathBuf| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone()))
    };
    listed.files.retain(once());
    let mut first = once();
    listed.checkpoints.retain(|file| first(&file.path));
    listed
        .checkpoints
        .sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
    for path in &listed.files {
        listed.bytes += fs::metadata(path).map_or(0, |metadata| metadata.len());
    }
    sort(&mut listed.files)?;
    listed.open = !listed.whole && listed.files.last().is_some_and(|last| goes_on(last));
    Ok(listed)
}

/// Whether there is a later part of a file's day.
fn goes_on(file: &Path) -> bool {
    let (Some((day, part)), Some(dir)) = (read::part_of(file), file.parent()) else {
        return false;
    };
    let later = |other: &PathBuf| read::part_of(other).is_some_and(|of| of.0 == day && of.1 > part);
    read::days(dir).is_ok_and(|days| days.iter().any(later))
}

/// By day where all names tell a different one, else by the number that they begin with.
fn sort(files: &mut [PathBuf]) -> Result<(), AuditError> {
    let days: std::collections::BTreeSet<_> = files
        .iter()
        .filter_map(|path| read::part_of(path))
        .collect();
    if days.len() == files.len() {
        files.sort_by(|a, b| read::part_of(a).cmp(&read::part_of(b)));
        return Ok(());
    }
    let mut numbered = Vec::with_capacity(files.len());
    for path in files.iter() {
        let first = first(path).map_err(|error| AuditError::io("read", path, &error))?;
        numbered.push((first, path.clone()));
    }
    numbered.sort();
    for (place, (_, path)) in files.iter_mut().zip(numbered) {
        *place = path;
    }
    Ok(())
}

/// The number of the first line that has one.
///
/// # Errors
/// If the file cannot be read.
pub fn first(path: &Path) -> io::Result<Option<u64>> {
    let mut lines = Lines::new(read::open(path)?);
    for _ in 0..FIRST {
        let Some(line) = lines.line()? else {
            break;
        };
        if let Ok(head) = fields::head(line.bytes) {
            return Ok(Some(head.seq));
        }
    }
    Ok(None)
}
