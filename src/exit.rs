//! What an exit code means. Hooks have their own: see `hook/dialect`.

/// The exit codes of every verb but `hook`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It worked; what was asked about is in order.
    Ok,
    /// It did not work, or what was asked about is not in order.
    Failed,
    /// The call that was asked about is denied.
    Denied,
    /// A text or the record could not be looked at whole, and so nothing was let through.
    Withheld,
    /// The policies cannot be used.
    PolicyInvalid,
    /// It could not be found out whether what was asked about holds.
    Unknown,
    /// The command line is wrong.
    Usage,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Denied | Self::Withheld => 2,
            Self::PolicyInvalid => 3,
            Self::Unknown => 4,
            Self::Usage => 64,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
