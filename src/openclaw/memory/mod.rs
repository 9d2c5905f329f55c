//! OpenClaw's memory as files: search, read, preferences (R-000-21, 22, 40, 63, 64).
//!
//! Two places are known. The workspace of today's OpenClaw has `MEMORY.md`, `USER.md` and `memory/`;
//! before that there were `~/.openclaw/memory/` and `~/.openclaw/USER.md`. A file of the workspace
//! stands before one of that name in the older folder.

mod fault;
mod places;
mod root;
mod search;

pub use fault::Fault;
pub use places::Places;
pub use search::{Found, Hit, LeftOut};

/// What is read where no file is named.
pub const DEFAULT_FILE: &str = "MEMORY.md";

/// So many hits are given where nobody says how many.
pub const DEFAULT_LIMIT: usize = 5;

/// More hits are never given.
pub const MOST_HITS: usize = 100;

/// The memory of one OpenClaw, for reading.
#[derive(Debug, Clone)]
pub struct Memory {
    places: Places,
}

impl Memory {
    /// The memory in those places. Nothing is read yet, and they need not be there.
    #[must_use]
    pub const fn new(places: Places) -> Self {
        Self { places }
    }

    /// The lines that share words with the query, best first (R-000-63): `MEMORY.md` and `memory/*.md`
    /// of the workspace, and the older folder's `*.md`. Folders below those are not searched, files that
    /// cannot be read or lead outside are passed over. At most `limit` hits, and [`MOST_HITS`].
    #[must_use]
    pub fn search(&self, query: &str, limit: usize) -> Found {
        search::search(&self.places, query, limit)
    }

    /// One file: of the workspace `MEMORY.md`, `USER.md` and what is below `memory/`, by those names;
    /// of the older folder everything, by the name within it.
    ///
    /// # Errors
    /// If the file leads outside, is too large, or cannot be read.
    pub fn read(&self, file: &str) -> Result<String, ReadError> {
        let mut last = None;
        for root in self.places.memory_that_is_there() {
            match root.read(file) {
                Ok(text) => return Ok(text),
                Err(fault) if fault.lets_others_try() => {
                    let better = |last: &Fault| fault.weight() > last.weight();
                    if last.as_ref().is_none_or(better) {
                        last = Some(fault);
                    }
                }
                Err(fault) => return Err(ReadError::memory(file, fault)),
            }
        }
        let fault = last.or_else(|| self.places.named().read(file).err());
        Err(ReadError::memory(file, fault.unwrap_or(Fault::Changed)))
    }

    /// What the user told OpenClaw about themselves: `USER.md`.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn prefs(&self) -> Result<String, ReadError> {
        for root in self.places.preferences() {
            match root.read(places::PREFERENCES) {
                Err(fault) if fault.is_absence() => {}
                Err(fault) => return Err(ReadError::Preferences(fault)),
                Ok(text) => return Ok(text),
            }
        }
        Err(ReadError::NoPreferences(self.places.preferences_shown()))
    }
}

/// Why a file is not given. Its text is what the tool answers (R-000-64).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// A memory file, as it was asked for.
    Memory(String, Fault),
    /// The preferences.
    Preferences(Fault),
    /// There are no preferences, and that is where they would be.
    NoPreferences(String),
}

impl ReadError {
    fn memory(file: &str, fault: Fault) -> Self {
        Self::Memory(file.to_owned(), fault)
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(_, fault) | Self::Preferences(fault) if fault.is_denial() => {
                write!(f, "Access denied: {fault}")
            }
            Self::Memory(file, fault) => {
                write!(f, "Failed to read memory file \"{file}\": {fault}")
            }
            Self::Preferences(fault) => write!(f, "Failed to read USER.md: {fault}"),
            Self::NoPreferences(place) => write!(
                f,
                "USER.md not found at {place}. Create this file to store user preferences that OpenClaw can reference."
            ),
        }
    }
}

impl std::error::Error for ReadError {}

#[cfg(unix)]
#[cfg(test)]
mod tests;
