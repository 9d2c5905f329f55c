//! Why a file of the memory is not given, in the words of the tools that were there before (R-000-64).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file is not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Its name holds a null byte.
    NullByte,
    /// Its name leads outside.
    Outside(String),
    /// A link on the way leads outside.
    OutsideByLink(String),
    /// It is inside, but no part of the memory.
    NoMemory(String),
    /// Nothing is there.
    Absent(PathBuf),
    /// It is a folder.
    Folder,
    /// It is neither file nor folder.
    NoFile,
    /// It has more bytes than that.
    TooLarge(u64),
    /// It became something else while it was looked at.
    Changed,
    /// What the system says.
    System(String),
}

impl Fault {
    /// From what the system said when a path was followed (`realpath`) or opened (`open`).
    pub(super) fn of(error: &io::Error, call: &str, path: &Path) -> Self {
        if error.kind() == io::ErrorKind::NotFound {
            return Self::Absent(path.to_owned());
        }
        let named = NAMES
            .iter()
            .find(|(kind, ..)| Some(*kind) == kind_of(error));
        Self::System(match named {
            Some((_, name, words)) => format!("{name}: {words}, {call} '{}'", path.display()),
            None => crate::facts::paths::words(error),
        })
    }

    /// Whether it is not given although it may be there.
    #[must_use]
    pub const fn is_denial(&self) -> bool {
        matches!(
            self,
            Self::NullByte | Self::Outside(_) | Self::OutsideByLink(_) | Self::NoMemory(_)
        )
    }

    /// Whether nothing is there.
    #[must_use]
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::Absent(_))
    }

    /// Whether the name may mean a file of another place.
    pub(super) const fn lets_others_try(&self) -> bool {
        self.weight() < 3
    }

    /// How much it says, among those of several places.
    pub(super) const fn weight(&self) -> u8 {
        match self {
            Self::Outside(_) => 0,
            Self::NoMemory(_) => 1,
            Self::Absent(_) => 2,
            _ => 3,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NullByte => f.write_str("Invalid file path: null bytes not allowed"),
            Self::Outside(file) => write!(
                f,
                "Path traversal detected: \"{file}\" escapes memory directory"
            ),
            Self::OutsideByLink(file) => write!(
                f,
                "Path traversal detected: \"{file}\" escapes memory directory (via symlink)"
            ),
            Self::NoMemory(file) => write!(f, "\"{file}\" is no memory file"),
            Self::Absent(path) => write!(
                f,
                "ENOENT: no such file or directory, open '{}'",
                path.display()
            ),
            Self::Folder => f.write_str("EISDIR: illegal operation on a directory, read"),
            Self::NoFile => f.write_str("it is no plain file"),
            Self::TooLarge(bytes) => write!(f, "it is larger than {} MiB", bytes >> 20),
            Self::Changed => f.write_str("it changed while it was read"),
            Self::System(words) => f.write_str(words),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Forbidden,
    NoFolder,
    Circle,
    LongName,
}

/// What these are called in answers that programs read.
const NAMES: [(Kind, &str, &str); 4] = [
    (Kind::Forbidden, "EACCES", "permission denied"),
    (Kind::NoFolder, "ENOTDIR", "not a directory"),
    (Kind::Circle, "ELOOP", "too many symbolic links encountered"),
    (Kind::LongName, "ENAMETOOLONG", "name too long"),
];

fn kind_of(error: &io::Error) -> Option<Kind> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Some(Kind::Forbidden),
        io::ErrorKind::NotADirectory => Some(Kind::NoFolder),
        io::ErrorKind::InvalidFilename => Some(Kind::LongName),
        _ => is_circle(error).then_some(Kind::Circle),
    }
}

/// Whether a link was met where none may be, or links lead in a circle.
#[cfg(unix)]
pub(super) fn is_circle(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32)
}

#[cfg(not(unix))]
pub(super) fn is_circle(_: &io::Error) -> bool {
    false
}
