//! `bridge.toml`: how the bridge itself behaves.

use toml::Spanned;

use super::merge::{intersect, lower};
use super::mirrors;
use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::bundle::{Durability, ErrorRule, Handling, LogLevel, Mode, OnFailure, Settings};
use crate::engine::pattern::{Pattern, PatternScope};
use crate::policy::diagnostic::{Code, Problem};

/// The keys of the file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("mode", Merge::BaseOnly),
    key("harmless_tools", Merge::Intersect),
    key("limits", Merge::PerFile),
    key("session", Merge::PerFile),
    key("audit", Merge::PerFile),
    key("error", Merge::BaseOnly),
    key("redaction", Merge::PerFile),
];

/// The keys of `[limits]`.
pub const LIMITS: &[Key] = &[
    key("depth", Merge::Min),
    key("event_bytes", Merge::Min),
    key("deadline_ms", Merge::Min),
    key("result_bytes", Merge::Min),
];

/// The keys of `[session]`.
pub const SESSION: &[Key] = &[
    key("project_context", Merge::BaseOnly),
    key("max_retries", Merge::BaseOnly),
    key("log_level", Merge::BaseOnly),
];

/// The keys of `[audit]`.
pub const AUDIT: &[Key] = &[
    key("durability", Merge::Max),
    key("on_failure", Merge::BaseOnly),
    key("file_mib", Merge::BaseOnly),
    key("retention_days", Merge::BaseOnly),
    key("mirrors", Merge::BaseOnly),
    key("seed_mirror", Merge::BaseOnly),
    key("xpia_mirror", Merge::BaseOnly),
];

/// The keys of `[[error]]`.
pub const ERROR: &[Key] = &[
    key("class", Merge::PerFile),
    key("pattern", Merge::PerFile),
    key("ignore_case", Merge::PerFile),
    key("recoverable_only", Merge::PerFile),
    key("handling", Merge::PerFile),
    key("retries", Merge::PerFile),
    key("notification", Merge::PerFile),
];

const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("monitor", Mode::Monitor)];

const DURABILITIES: [(&str, Durability); 2] = [("os", Durability::Os), ("sync", Durability::Sync)];

const FAILURES: [(&str, OnFailure); 2] = [("deny", OnFailure::Deny), ("allow", OnFailure::Allow)];

const HANDLINGS: [(&str, Handling); 3] = [
    ("retry", Handling::Retry),
    ("skip", Handling::Skip),
    ("abort", Handling::Abort),
];

/// Lets the file speak: it sets what the base may set, and otherwise tightens.
pub(super) fn apply(settings: &mut Settings, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    if let Some(mode) = root.choice("mode", &MODES, reader) {
        settings.mode = mode.into_inner();
        origin(settings, "mode", reader);
    }
    if root.has("harmless_tools") {
        let tools = root.texts("harmless_tools", reader);
        intersect(
            &mut settings.harmless_tools,
            tools,
            "harmless_tools",
            reader,
        );
        origin(settings, "harmless_tools", reader);
    }
    if let Some(limits) = root.table("limits", reader) {
        apply_limits(settings, limits, reader);
    }
    if let Some(session) = root.table("session", reader) {
        apply_session(settings, session, reader);
    }
    if let Some(audit) = root.table("audit", reader) {
        apply_audit(settings, audit, reader);
    }
    let rules: Vec<_> = root
        .tables("error", reader)
        .into_iter()
        .filter_map(|table| error_rule(table, reader))
        .collect();
    if root.has("error") {
        settings.errors = rules;
        origin(settings, "error", reader);
    }
}

fn apply_limits(settings: &mut Settings, table: Table<'_>, reader: &mut Reader<'_>) {
    table.check(LIMITS, reader);
    let mut limit = |name, range, pick: fn(&mut Settings) -> &mut u32| {
        if let Some(value) = table.number(name, range, reader) {
            lower(pick(settings), &value, name, reader);
            origin(settings, &format!("limits.{name}"), reader);
        }
    };
    limit("depth", 1..=1000, |s| &mut s.limits.depth);
    // The host's document is refused above 8 MiB in any case.
    limit("event_bytes", 1024..=8 << 20, |s| &mut s.limits.event_bytes);
    // Hosts let a call run when a hook is late: no deadline may come near to theirs.
    limit("deadline_ms", 10..=20_000, |s| &mut s.limits.deadline_ms);
    limit("result_bytes", 100..=u32::MAX, |s| {
        &mut s.limits.result_bytes
    });
}

fn apply_session(settings: &mut Settings, table: Table<'_>, reader: &mut Reader<'_>) {
    table.check(SESSION, reader);
    if let Some(text) = table.text("project_context", reader) {
        settings.session.project_context = text.into_inner();
        origin(settings, "session.project_context", reader);
    }
    if let Some(number) = table.fraction("max_retries", reader) {
        settings.session.max_retries = floored(&number);
        origin(settings, "session.max_retries", reader);
    }
    let levels = LogLevel::NAMES.map(|name| (name, LogLevel::from_name(name).unwrap_or_default()));
    if let Some(level) = table.choice("log_level", &levels, reader) {
        settings.session.log_level = level.into_inner();
        origin(settings, "session.log_level", reader);
    }
}

/// The number without its fraction, and at least 1 (R-000-51).
fn floored(number: &Spanned<f64>) -> u32 {
    let floor = number.get_ref().floor().clamp(1.0, f64::from(u32::MAX));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the range just above"
    )]
    let whole = floor as u32;
    whole
}

fn apply_audit(settings: &mut Settings, table: Table<'_>, reader: &mut Reader<'_>) {
    table.check(AUDIT, reader);
    if let Some(durability) = table.choice("durability", &DURABILITIES, reader) {
        let wanted = *durability.get_ref();
        if !reader.base && (settings.audit.durability, wanted) == (Durability::Sync, Durability::Os)
        {
            let problem = Problem::error(
                Code::Loosens,
                "the layer above waits for the disk: `sync` cannot become `os`",
            );
            reader.push(durability.span(), problem);
        } else {
            settings.audit.durability = wanted;
            origin(settings, "audit.durability", reader);
        }
    }
    if let Some(failure) = table.choice("on_failure", &FAILURES, reader) {
        settings.audit.on_failure = failure.into_inner();
        origin(settings, "audit.on_failure", reader);
    }
    if let Some(size) = table.number("file_mib", 1..=1024, reader) {
        settings.audit.file_mib = size.into_inner();
        origin(settings, "audit.file_mib", reader);
    }
    if let Some(days) = table.number("retention_days", 0..=36_500, reader) {
        settings.audit.retention_days = days.into_inner();
        origin(settings, "audit.retention_days", reader);
    }
    mirrors::apply(settings, table, reader);
}

fn error_rule(table: Table<'_>, reader: &mut Reader<'_>) -> Option<ErrorRule> {
    table.check(ERROR, reader);
    let class = table.required_text("class", reader);
    let ignore_case = table.flag("ignore_case", reader);
    let recoverable_only = table.flag("recoverable_only", reader);
    if !table.has("handling") {
        table.missing("handling", reader);
    }
    let handling = table.choice("handling", &HANDLINGS, reader);
    let retries = table.number("retries", 1..=u32::MAX, reader);
    let notification = table
        .text("notification", reader)
        .map(Spanned::into_inner)
        .unwrap_or_default();
    let source = table.text("pattern", reader);
    let (class, handling) = (class?.into_inner(), handling?.into_inner());
    match (handling, table.has("retries")) {
        (Handling::Retry, false) => table.missing("retries", reader),
        (Handling::Skip | Handling::Abort, true) => {
            let problem = Problem::error(
                Code::BadValue,
                "`retries` says something about `handling = \"retry\"` only",
            );
            reader.push(table.span_of("retries"), problem);
        }
        _ => {}
    }
    let pattern = source.and_then(|source| {
        let span = source.span();
        super::permission::compile(
            Pattern::new(
                class.clone(),
                source.into_inner(),
                ignore_case,
                PatternScope::Values,
            ),
            span,
            reader,
        )
    });
    Some(ErrorRule {
        class,
        pattern,
        recoverable_only,
        handling,
        retries: retries.map_or(0, Spanned::into_inner),
        notification,
    })
}

pub(super) fn origin(settings: &mut Settings, name: &str, reader: &Reader<'_>) {
    settings.origins.insert(name.to_owned(), reader.layer());
}
