//! `bridge.toml`

use serde_json::json;

use super::Document;
use super::shape::{Field, Shape, Table, field, flag, format, texts};
use crate::engine::bundle::{AuditSettings, Limits, LogLevel, SessionSettings};
use crate::policy::settings::bridge::{AUDIT, ERROR, KEYS, LIMITS, SESSION};
use crate::policy::settings::redaction::SWITCHES;

pub(super) fn document() -> Document {
    Document {
        name: "bridge",
        files: "bridge.toml",
        about: "How the bridge itself behaves: mode, limits, sessions, the record, advice about errors.",
        root: Table::new(
            KEYS,
            [
                format(),
                field(
                    "mode",
                    Shape::Choice(vec!["enforce", "monitor"]),
                    "Whether judgements bind. In `monitor` they are recorded as `would_decide`, and only faults and the protection of the bridge itself bind.",
                )
                .default("enforce"),
                texts(
                    "harmless_tools",
                    "Tools of the hosts that change nothing outside the host.",
                ),
                field("limits", Shape::Table(limits()), "What is too much."),
                field("session", Shape::Table(session()), "How sessions are accompanied."),
                field("audit", Shape::Table(audit()), "How the record is kept."),
                field(
                    "error",
                    Shape::Tables(error()),
                    "What a host is advised to do about an error: the first entry that fits.",
                ),
                field(
                    "redaction",
                    Shape::Table(Table::new(
                        SWITCHES,
                        [texts(
                            "packs",
                            "Packs of redaction rules that say `enabled = false` and are on all the same, by name.",
                        )],
                    )),
                    "Which packs of redaction rules are on.",
                ),
            ],
        ),
    }
}

fn limits() -> Table {
    let usual = Limits::default();
    let number = |name, range, default: u32, about| {
        field(name, Shape::Number(range), about).default(default)
    };
    Table::new(
        LIMITS,
        [
            number(
                "depth",
                1..=1000,
                usual.depth,
                "An agent with so many agents above it may do nothing more.",
            ),
            number(
                "event_bytes",
                1024..=8 << 20,
                usual.event_bytes,
                "The largest event, in bytes. A larger one is refused.",
            ),
            number(
                "deadline_ms",
                10..=20_000,
                usual.deadline_ms,
                "The milliseconds after which a hook answers deny, whatever it was doing. Keep it far below the host's own limit.",
            ),
            number(
                "result_bytes",
                100..=u32::MAX,
                usual.result_bytes,
                "The bytes of a tool's result that go to the model, where a policy says `truncate`.",
            ),
        ],
    )
}

fn session() -> Table {
    let usual = SessionSettings::default();
    Table::new(
        SESSION,
        [
            field(
                "project_context",
                Shape::Text,
                "A text for every session and prompt. The environment's COPILOT_PROJECT_CONTEXT stands above it.",
            )
            .default(""),
            field(
                "max_retries",
                Shape::Fraction,
                "How often a host is advised to retry, at least once. The environment's COPILOT_MAX_RETRIES stands above it.",
            )
            .default(usual.max_retries),
            field(
                "log_level",
                Shape::Choice(LogLevel::NAMES.to_vec()),
                "How much the operational log says. The environment's COPILOT_LOG_LEVEL stands above it.",
            )
            .default(usual.log_level.name()),
        ],
    )
}

fn audit() -> Table {
    let usual = AuditSettings::default();
    let directory = |name, about| -> Field {
        // Neither a wildcard nor `.` and `..` as a name.
        let form = r"^(/|~/)(?!(.*/)?\.{1,2}(/|$))[^*?\[\]{}\\]*$";
        field(name, Shape::Form(form), about)
    };
    Table::new(
        AUDIT,
        [
            field(
                "durability",
                Shape::Choice(vec!["os", "sync"]),
                "`os`: the record is written before the answer. `sync`: and it is on the disk itself.",
            )
            .default("os"),
            field(
                "on_failure",
                Shape::Choice(vec!["deny", "allow"]),
                "What happens to a call whose record cannot be written.",
            )
            .default("deny"),
            field(
                "file_mib",
                Shape::Number(1..=1024),
                "A file of the record that has so many MiB is followed by another one of the same day.",
            )
            .default(usual.file_mib),
            field(
                "retention_days",
                Shape::Number(0..=36_500),
                "Files that are so many days old are removed, and the record says so. 0: they stay for ever.",
            )
            .default(usual.retention_days),
            field(
                "mirrors",
                Shape::Texts(Box::new(Shape::Choice(vec!["seed", "xpia"]))),
                "Logs of older programs that are written besides the record.",
            ),
            directory("seed_mirror", "The directory of the mirror `seed`."),
            directory("xpia_mirror", "The directory of the mirror `xpia`."),
        ],
    )
    .with_rule(wanted("seed_mirror", "seed"))
    .with_rule(wanted("xpia_mirror", "xpia"))
}

/// The directory of a mirror says nothing where the mirror is not wanted.
fn wanted(key: &str, mirror: &str) -> serde_json::Value {
    json!({
        "if": { "required": [key] },
        "then": {
            "required": ["mirrors"],
            "properties": { "mirrors": { "contains": { "const": mirror } } },
        },
    })
}

fn error() -> Table {
    Table::new(
        ERROR,
        [
            field("class", Shape::Filled, "The name of the class, for the record.").required(),
            field(
                "pattern",
                Shape::Text,
                "A regular expression that the message must match. Without it every message does.",
            ),
            flag("ignore_case", "Whether the pattern ignores case."),
            flag(
                "recoverable_only",
                "Whether only errors that the host calls recoverable belong to it.",
            ),
            field(
                "handling",
                Shape::Choice(vec!["retry", "skip", "abort"]),
                "What the host is advised to do.",
            )
            .required(),
            field(
                "retries",
                Shape::Number(1..=u32::MAX),
                "How often, for `handling = \"retry\"` only. `session.max_retries` bounds it in any case.",
            ),
            field(
                "notification",
                Shape::Text,
                "What the user is told; `{message}` is the error's message.",
            )
            .default(""),
        ],
    )
    .with_rule(json!({
        "if": { "properties": { "handling": { "const": "retry" } } },
        "then": { "required": ["retries"] },
        "else": { "not": { "required": ["retries"] } },
    }))
}
