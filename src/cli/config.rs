//! `config show`: the settings that are in force, and where each comes from.

use std::io::Write;
use std::path::Path;

use jiff::Timestamp;
use serde_json::json;

use super::place::Place;
use super::{Format, Outcome, policy};
use crate::audit::mirror;
use crate::config::{self, AuditDirectory};
use crate::engine::bundle::{Bundle, Settings};
use crate::exit::Exit;
use crate::gate::place::Installation;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Show the settings that are in force here
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Say where each value comes from
    #[arg(long)]
    origin: bool,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Verb::Show(args) = &args.verb;
    let cwd = std::env::current_dir().ok();
    let bundle = match args.place.policies(cwd.as_deref()) {
        Ok(bundle) => bundle,
        Err(problems) => {
            policy::show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let rows = rows(&args.place, &bundle, cwd.as_deref())?;
    match args.format {
        Format::Text => {
            for (key, value, origin) in rows {
                if args.origin {
                    writeln!(out, "{key} = {value}    # {origin}")?;
                } else {
                    writeln!(out, "{key} = {value}")?;
                }
            }
        }
        Format::Json => {
            let all: serde_json::Map<_, _> = rows
                .into_iter()
                .map(|(key, value, origin)| {
                    (key.to_owned(), json!({"value": value, "origin": origin}))
                })
                .collect();
            writeln!(out, "{:#}", serde_json::Value::Object(all))?;
        }
    }
    Ok(Exit::Ok)
}

/// A setting: its name, its value, and where that comes from.
pub(super) type Row = (&'static str, serde_json::Value, String);

/// Every setting that is in force.
///
/// # Errors
/// If a variable of the environment has a value that it cannot have.
pub(super) fn rows(
    place: &Place,
    bundle: &Bundle,
    cwd: Option<&Path>,
) -> Result<Vec<Row>, config::ConfigError> {
    let settings = &bundle.settings;
    let effective = config::effective(settings, |name| std::env::var(name).ok())?;
    let here = place.installation();
    let from = |key: &str| {
        settings.origins.get(key).map_or_else(
            || "default".to_owned(),
            |layer| format!("bridge.toml ({layer})"),
        )
    };
    let variable = std::env::var(config::AUDIT_LOG_DIR).ok();
    let (record, record_origin) = match config::audit_directory(variable.as_deref(), cwd) {
        AuditDirectory::Honoured(dir) => (dir, format!("environment ({})", config::AUDIT_LOG_DIR)),
        AuditDirectory::Unset => (here.state.join("audit"), "state directory".to_owned()),
        AuditDirectory::Ignored(why) => {
            (here.state.join("audit"), format!("state directory; {why}"))
        }
    };
    let limits = &settings.limits;
    Ok(vec![
        ("mode", json!(settings.mode), from("mode")),
        ("limits.depth", json!(limits.depth), from("limits.depth")),
        (
            "limits.event_bytes",
            json!(limits.event_bytes),
            from("limits.event_bytes"),
        ),
        (
            "limits.deadline_ms",
            json!(limits.deadline_ms),
            from("limits.deadline_ms"),
        ),
        (
            "limits.result_bytes",
            json!(limits.result_bytes),
            from("limits.result_bytes"),
        ),
        (
            "session.project_context",
            json!(effective.project_context.value),
            effective.project_context.origin.to_string(),
        ),
        (
            "session.max_retries",
            json!(effective.max_retries.value),
            effective.max_retries.origin.to_string(),
        ),
        (
            "session.log_level",
            json!(effective.log_level.value.name()),
            effective.log_level.origin.to_string(),
        ),
        (
            "audit.durability",
            json!(settings.audit.durability),
            from("audit.durability"),
        ),
        (
            "audit.on_failure",
            json!(settings.audit.on_failure),
            from("audit.on_failure"),
        ),
        (
            "audit.file_mib",
            json!(settings.audit.file_mib),
            from("audit.file_mib"),
        ),
        (
            "audit.retention_days",
            json!(settings.audit.retention_days),
            from("audit.retention_days"),
        ),
        (
            "audit.mirrors",
            json!(mirrors(settings, &here, &record)),
            from("audit.mirrors"),
        ),
        ("audit.directory", json!(record), record_origin),
        (
            "harmless_tools",
            json!(settings.harmless_tools),
            from("harmless_tools"),
        ),
        (
            "policies",
            json!(bundle.policies.len()),
            "all layers".to_owned(),
        ),
        (
            "exceptions",
            json!(exceptions(settings)),
            "exceptions.toml".to_owned(),
        ),
        (
            "policy_digest",
            json!(bundle.digest),
            "all layers".to_owned(),
        ),
    ])
}

/// Each exception that has not expired, and from when on it means nothing.
fn exceptions(settings: &Settings) -> serde_json::Map<String, serde_json::Value> {
    let now = Timestamp::now().as_second();
    let live = settings.exceptions.iter().filter(|one| one.expires > now);
    live.filter_map(|one| {
        let until = Timestamp::from_second(one.expires).ok()?;
        Some((one.id.clone(), json!(until.to_string())))
    })
    .collect()
}

/// Each mirror and its directory.
fn mirrors(
    settings: &Settings,
    here: &Installation,
    record: &Path,
) -> serde_json::Map<String, serde_json::Value> {
    let places = mirror::Places {
        state: &here.state,
        home: here.home.as_deref(),
        record,
    };
    settings
        .audit
        .mirrors
        .iter()
        .map(|one| {
            let dir = mirror::dir(one, places).ok();
            (one.shape.name().to_owned(), json!(dir))
        })
        .collect()
}
