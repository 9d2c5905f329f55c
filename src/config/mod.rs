//! Settings that a file and the environment may both have: the file first, then the environment.
//!
//! Only what cannot loosen a judgement is read from the environment (R-000-47, 49, 50, 51). A
//! `.env` file is never read: the workspace belongs to the agent.

pub mod openclaw;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::engine::bundle::{LogLevel, Settings};

/// `COPILOT_BRIDGE_DEPTH`: how many agents stand above whoever starts this program.
pub const DEPTH: &str = "COPILOT_BRIDGE_DEPTH";

/// `COPILOT_PROJECT_CONTEXT`: a text for every session and prompt.
pub const PROJECT_CONTEXT: &str = "COPILOT_PROJECT_CONTEXT";
/// `COPILOT_MAX_RETRIES`: a number, rounded down, at least 1.
pub const MAX_RETRIES: &str = "COPILOT_MAX_RETRIES";
/// `COPILOT_LOG_LEVEL`: debug, info, warning, error, none or all.
pub const LOG_LEVEL: &str = "COPILOT_LOG_LEVEL";
/// `COPILOT_AUDIT_LOG_DIR`: another directory for the record, where it is safe.
pub const AUDIT_LOG_DIR: &str = "COPILOT_AUDIT_LOG_DIR";

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A policy file, by its layer and key.
    File(String),
    /// An environment variable.
    Environment(&'static str),
    /// Nobody said: this program's own default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(layer) => write!(f, "bridge.toml ({layer})"),
            Self::Environment(variable) => write!(f, "environment ({variable})"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

/// How deep the environment says that this program stands; it can only raise what is known, and what
/// is no number counts for nothing.
#[must_use]
pub fn depth(variable: impl Fn(&'static str) -> Option<String>) -> u32 {
    variable(DEPTH)
        .and_then(|depth| depth.parse().ok())
        .unwrap_or(0)
}

/// The settings that are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// A text for every session and prompt; may be empty.
    pub project_context: Setting<String>,
    /// How often a host may retry.
    pub max_retries: Setting<u32>,
    /// How much the operational log says.
    pub log_level: Setting<LogLevel>,
}

/// A variable whose value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The variable.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// What it should be.
    pub expected: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            variable,
            value,
            expected,
        } = self;
        write!(f, "`{variable}` is `{value}`, but has to be {expected}")
    }
}

impl std::error::Error for ConfigError {}

/// The settings that are in force, given the files and a way to look into the environment.
///
/// # Errors
/// If a variable has a value that cannot be used.
pub fn effective(
    settings: &Settings,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Effective, ConfigError> {
    let from_file = |key: &str| {
        settings
            .origins
            .get(key)
            .map_or(Origin::Default, |layer| Origin::File(layer.clone()))
    };
    let said = |name: &'static str| variable(name).filter(|value| !value.trim().is_empty());
    let session = &settings.session;
    Ok(Effective {
        project_context: match said(PROJECT_CONTEXT) {
            Some(value) => Setting {
                value,
                origin: Origin::Environment(PROJECT_CONTEXT),
            },
            None => Setting {
                value: session.project_context.clone(),
                origin: from_file("session.project_context"),
            },
        },
        max_retries: match said(MAX_RETRIES) {
            Some(value) => Setting {
                value: retries(&value)?,
                origin: Origin::Environment(MAX_RETRIES),
            },
            None => Setting {
                value: session.max_retries,
                origin: from_file("session.max_retries"),
            },
        },
        log_level: match said(LOG_LEVEL) {
            Some(value) => Setting {
                value: LogLevel::from_name(value.trim()).ok_or_else(|| ConfigError {
                    variable: LOG_LEVEL,
                    expected: format!("one of {}", LogLevel::NAMES.join(", ")),
                    value,
                })?,
                origin: Origin::Environment(LOG_LEVEL),
            },
            None => Setting {
                value: session.log_level,
                origin: from_file("session.log_level"),
            },
        },
    })
}

/// How much the operational log says. A variable that says nothing that can be used counts for nothing
/// here: [`effective`] refuses it.
#[must_use]
pub fn log_level(
    settings: &Settings,
    variable: impl Fn(&'static str) -> Option<String>,
) -> LogLevel {
    variable(LOG_LEVEL)
        .and_then(|value| LogLevel::from_name(value.trim()))
        .unwrap_or(settings.session.log_level)
}

/// A number of retries: rounded down, at least 1 (R-000-51, R-000-62).
fn retries(value: &str) -> Result<u32, ConfigError> {
    /// More than this is no number of retries.
    const MOST: f64 = 1000.0;
    let refuse = || ConfigError {
        variable: MAX_RETRIES,
        value: value.to_owned(),
        expected: format!("a number up to {MOST}"),
    };
    let number: f64 = value.trim().parse().map_err(|_| refuse())?;
    if !number.is_finite() || number > MOST {
        return Err(refuse());
    }
    let mut count = 1;
    while f64::from(count + 1) <= number {
        count += 1;
    }
    Ok(count)
}

/// What became of `COPILOT_AUDIT_LOG_DIR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditDirectory {
    /// It is not set.
    Unset,
    /// It is where the record goes.
    Honoured(PathBuf),
    /// It is not safe, and the record stays where it was.
    Ignored(String),
}

/// Whether the directory of `COPILOT_AUDIT_LOG_DIR` may hold the record: only under the rules for
/// base layers, and only outside the workspace.
#[must_use]
pub fn audit_directory(value: Option<&str>, workspace: Option<&Path>) -> AuditDirectory {
    let Some(value) = value.filter(|value| !value.trim().is_empty()) else {
        return AuditDirectory::Unset;
    };
    let ignored =
        |why: &str| AuditDirectory::Ignored(format!("`{AUDIT_LOG_DIR}` is ignored: {why}"));
    let path = Path::new(value);
    if !path.is_absolute() {
        return ignored("it is not absolute");
    }
    let Ok(resolved) = path.canonicalize() else {
        return ignored("there is no such directory");
    };
    let Ok(metadata) = resolved.metadata() else {
        return ignored("it cannot be looked at");
    };
    if !metadata.is_dir() {
        return ignored("it is no directory");
    }
    if workspace.is_some_and(|root| resolved.starts_with(root)) {
        return ignored("it is inside the workspace");
    }
    if let Err(why) = owned_safely(&metadata) {
        return ignored(why);
    }
    AuditDirectory::Honoured(resolved)
}

#[cfg(unix)]
fn owned_safely(metadata: &std::fs::Metadata) -> Result<(), &'static str> {
    use std::os::unix::fs::MetadataExt;
    let own = nix::unistd::geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != own {
        return Err("it belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("its group or everyone may write to it");
    }
    Ok(())
}

#[cfg(not(unix))]
fn owned_safely(_: &std::fs::Metadata) -> Result<(), &'static str> {
    Err("who may write to it cannot be told on this system")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &str) -> Result<Effective, ConfigError> {
        effective(&Settings::default(), |asked| {
            (asked == name).then(|| value.to_owned())
        })
    }

    #[test]
    fn the_environment_stands_above_the_file() {
        let mut settings = Settings::default();
        settings.session.project_context = "from the file".into();
        settings
            .origins
            .insert("session.project_context".into(), "user".into());
        let file = effective(&settings, |_| None).unwrap();
        assert_eq!(file.project_context.value, "from the file");
        assert_eq!(file.project_context.origin, Origin::File("user".into()));
        let both = effective(&settings, |name| {
            (name == PROJECT_CONTEXT).then(|| "X".into())
        })
        .unwrap();
        assert_eq!(both.project_context.value, "X");
    }

    #[test]
    fn retries_are_rounded_down_and_at_least_one() {
        for (value, expected) in [("3", 3), ("2.9", 2), ("0", 1), ("-1", 1), ("1000", 1000)] {
            assert_eq!(
                with(MAX_RETRIES, value).unwrap().max_retries.value,
                expected,
                "{value}"
            );
        }
        for value in ["many", "1e9", "NaN", "inf", "3x"] {
            let error = with(MAX_RETRIES, value).unwrap_err();
            assert!(error.to_string().contains(value), "{error}");
        }
    }

    #[test]
    fn a_level_that_is_none_is_an_error() {
        assert_eq!(
            with(LOG_LEVEL, "debug").unwrap().log_level.value,
            LogLevel::Debug
        );
        let error = with(LOG_LEVEL, "loud").unwrap_err().to_string();
        assert_eq!(
            error,
            "`COPILOT_LOG_LEVEL` is `loud`, but has to be one of debug, info, warning, error, none, all"
        );
    }

    #[test]
    fn the_log_obeys_the_environment_then_the_file() {
        let mut settings = Settings::default();
        settings.session.log_level = LogLevel::Error;
        for (said, level) in [
            (None, LogLevel::Error),
            (Some(""), LogLevel::Error),
            (Some("loud"), LogLevel::Error),
            (Some(" debug "), LogLevel::Debug),
        ] {
            let found = log_level(&settings, |_| said.map(str::to_owned));
            assert_eq!(found, level, "{said:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_unsafe_directory_for_the_record_is_ignored() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        assert!(matches!(
            audit_directory(Some(path), None),
            AuditDirectory::Honoured(_)
        ));
        let root = dir.path().canonicalize().unwrap();
        assert!(matches!(
            audit_directory(Some(path), Some(&root)),
            AuditDirectory::Ignored(_)
        ));
        assert!(matches!(
            audit_directory(Some("relative"), None),
            AuditDirectory::Ignored(_)
        ));
        assert!(matches!(
            audit_directory(Some("/gone/x"), None),
            AuditDirectory::Ignored(_)
        ));
        assert_eq!(audit_directory(None, None), AuditDirectory::Unset);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(
            audit_directory(Some(path), None),
            AuditDirectory::Ignored(_)
        ));
    }
}
