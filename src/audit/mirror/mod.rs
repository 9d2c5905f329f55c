//! Mirrors: the logs of older programs, written besides the record for those who still read them.
//!
//! A line of a mirror is made from the line of the record: what is hidden there is hidden here. It
//! is written once that line is in the record, and nothing depends on it.

mod seed;
mod xpia;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::AuditError;
use super::key::Key;
use super::private::{append_privately, create_private_dir};
use super::record::v1::{self, Entry, Stamp};
use crate::engine::bundle::{Mirror, MirrorShape};

/// Texts that the record only counts. Of these, HMAC and length are written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Texts<'a> {
    /// The prompt, or the error's message.
    pub said: Option<&'a str>,
    /// What takes the place of the result or the prompt.
    pub replacement: Option<&'a str>,
    /// What is added for the model.
    pub context: Option<&'a str>,
    /// What the user is told of an error.
    pub notification: Option<&'a str>,
}

/// A line of the record, as mirrors are made from it.
#[derive(Debug)]
pub struct Source<'a> {
    line: Value,
    texts: Texts<'a>,
    key: Key,
    now: jiff::Timestamp,
}

/// Where mirrors may be.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The state directory.
    pub state: &'a Path,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// The directory of the record: the first bridge's files are called as those there.
    pub record: &'a Path,
}

impl<'a> Source<'a> {
    /// The line that the record has of an entry, but for its place there.
    #[must_use]
    pub fn of(entry: &Entry<'_>, texts: Texts<'a>, key: Key) -> Self {
        let now = jiff::Timestamp::now();
        let longest = "x".repeat(64);
        // As long as a real one can be, so that nothing fits here that does not fit there.
        let stamp = Stamp {
            seq: u64::MAX,
            ts: longest.clone(),
            mono: u64::MAX,
            boot: longest.clone(),
            host: longest.clone(),
            uid: u32::MAX,
            pid: u32::MAX,
            prev: longest,
        };
        let line = v1::line(entry, &stamp, &key);
        Self {
            line: serde_json::from_slice(&line).unwrap_or_default(),
            texts,
            key,
            now,
        }
    }

    /// Writes the line into a mirror, if it has a form there.
    ///
    /// # Errors
    /// If the mirror's directory or file cannot be made, used or written.
    pub fn write(&self, mirror: &Mirror, places: Places<'_>) -> Result<(), AuditError> {
        let Some((name, line)) = (match mirror.shape {
            MirrorShape::Seed => seed::line(self),
            MirrorShape::Xpia => xpia::line(self),
        }) else {
            return Ok(());
        };
        let dir = dir(mirror, places)?;
        create_private_dir(&dir)?;
        if is_same(&dir, places.record) {
            return Err(AuditError(format!(
                "`{}` is the directory of the record itself",
                dir.display()
            )));
        }
        let path = dir.join(name);
        let line = format!("{line}\n");
        let written = append_privately(&path)?
            .write(line.as_bytes())
            .map_err(|error| AuditError::io("write", &path, &error))?;
        if written == line.len() {
            return Ok(());
        }
        let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Err(AuditError::io("write", &path, &error))
    }

    fn hidden(&self, text: &str) -> Value {
        json!({"hmac": self.key.hmac(text.as_bytes()), "len": text.len()})
    }

    /// A field of the record's line, if there is anything in it.
    fn field(&self, name: &str) -> Option<&Value> {
        self.line.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> &str {
        self.line
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The policies that decided, as far as the record names them.
    fn reasons(&self) -> impl Iterator<Item = &Value> {
        self.field("reasons")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    }
}

/// The directory of a mirror.
///
/// # Errors
/// If it is below the home, and nobody knows where that is.
pub fn dir(mirror: &Mirror, places: Places<'_>) -> Result<PathBuf, AuditError> {
    let named = mirror.dir.as_deref().unwrap_or(mirror.shape.usual_dir());
    if let Some(below) = named.strip_prefix("${state}/") {
        return Ok(places.state.join(below));
    }
    match (named.strip_prefix("~/"), places.home) {
        (Some(below), Some(home)) => Ok(home.join(below)),
        (Some(_), None) => Err(AuditError(format!(
            "`{named}` is below a home that is not known"
        ))),
        (None, _) => Ok(PathBuf::from(named)),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        // What cannot be told apart is not written to.
        _ => true,
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
