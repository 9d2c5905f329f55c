//! What can be found in a record: a closed list of words, explained in `audit/README.md`.

use std::fmt;

use serde::Serialize;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Something stands there that is no line of a record.
    Form,
    /// A line is not the one that the next was chained to.
    Edited,
    /// A line stands between two that are chained to each other.
    Inserted,
    /// Numbers are missing.
    Missing,
    /// A line stands before one that it belongs behind.
    Order,
    /// A line, or its number, was there already.
    Duplicate,
    /// A clock went back, or was set.
    Clock,
    /// The last line of a file was cut short.
    Torn,
    /// A line that was cut short, and that the writer told of.
    Recovered,
    /// What came before was not looked at.
    Part,
    /// The lines are not those that a checkpoint was made of, or a checkpoint is none.
    Checkpoint,
    /// A checkpoint is signed with another key.
    Key,
    /// The record is not the one that a checkpoint was made of which was kept elsewhere.
    Rewritten,
    /// Checkpoints stopped.
    Uncovered,
    /// Old files were removed, and the record tells.
    Removed,
}

/// How grave it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The record is not what was written.
    Problem,
    /// Somebody should know.
    Warning,
    /// It has an innocent reason.
    Note,
}

impl What {
    /// Everything that can be found.
    pub const ALL: [Self; 15] = [
        Self::Form,
        Self::Edited,
        Self::Inserted,
        Self::Missing,
        Self::Order,
        Self::Duplicate,
        Self::Clock,
        Self::Torn,
        Self::Recovered,
        Self::Part,
        Self::Checkpoint,
        Self::Key,
        Self::Rewritten,
        Self::Uncovered,
        Self::Removed,
    ];

    /// How grave it is.
    #[must_use]
    pub const fn level(self) -> Level {
        match self {
            Self::Form
            | Self::Edited
            | Self::Inserted
            | Self::Missing
            | Self::Order
            | Self::Duplicate
            | Self::Checkpoint
            | Self::Key
            | Self::Rewritten => Level::Problem,
            Self::Clock | Self::Uncovered => Level::Warning,
            Self::Torn | Self::Recovered | Self::Part | Self::Removed => Level::Note,
        }
    }

    /// Its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Edited => "edited",
            Self::Inserted => "inserted",
            Self::Missing => "missing",
            Self::Order => "order",
            Self::Duplicate => "duplicate",
            Self::Clock => "clock",
            Self::Torn => "torn",
            Self::Recovered => "recovered",
            Self::Part => "part",
            Self::Checkpoint => "checkpoint",
            Self::Key => "key",
            Self::Rewritten => "rewritten",
            Self::Uncovered => "uncovered",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// Where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// The line there, from 1.
    pub line: u64,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub what: What,
    /// Where.
    pub place: Place,
    /// The number of the line, if it has one.
    pub seq: Option<u64>,
    /// In words.
    pub text: String,
    /// What should be there; hashes are shortened.
    pub expected: Option<String>,
    /// What is there instead.
    pub found: Option<String>,
}
