//! `tests/*.toml`

use serde_json::{Value, json};

use super::Document;
use super::shape::{Field, Shape, Table, field, flag, format, texts, words};
use crate::engine::decision::Obligation;
use crate::policy::settings::upstreams::servers::{ACCESS, MODES, TRUST};
use crate::policy::settings::upstreams::services::TIERS;
use crate::workbench::suite::DESCRIPTIONS;
use crate::workbench::suite::{DEFAULTS, ENTITY, FILE, KEYS, PROP, SERVED};

pub(super) fn document() -> Document {
    Document {
        name: "tests",
        files: "tests/*.toml",
        about: "Decision tests: what is tried, and what the policies have to say of it.",
        root: Table::new(
            FILE,
            [
                format(),
                field(
                    "defaults",
                    Shape::Table(defaults()),
                    "What every test of the file has, unless it says otherwise.",
                ),
                field("test", Shape::Tables(test()), "One decision test.").required(),
            ],
        ),
    }
}

fn defaults() -> Table {
    let more = [
        field(
            "labels",
            Shape::Lists,
            "Further paths of labels, for these tests only.",
        ),
        field(
            "entities",
            Shape::Entries(Table::new(
                ENTITY,
                [
                    field("name", Shape::Filled, "Its name.").required(),
                    field(
                        "phi",
                        Shape::Flag,
                        "Whether its texts hold health information.",
                    )
                    .default(true),
                ],
            )),
            "Further entities, for these tests only: names, or tables.",
        ),
    ];
    Table::new(DEFAULTS, circumstances().into_iter().chain(more))
}

fn circumstances() -> [Field; 7] {
    [
        field(
            "cwd",
            Shape::Text,
            "The folder at hand, below the workspace.",
        ),
        field(
            "depth",
            Shape::Number(0..=64),
            "How many agents stand above this one.",
        )
        .default(0),
        field("entity", Shape::Text, "For whom the agent works."),
        field(
            "files",
            Shape::Entries(prop()),
            "What is there: paths, with `/` behind a folder, or tables. A path is below the workspace, absolute, or begins with `~/`.",
        ),
        field("host", Shape::Text, "The dialect of the host."),
        field(
            "interactive",
            Shape::Choice(vec!["yes", "no", "unknown"]),
            "Whether a person can be asked.",
        ),
        field("session", Shape::Text, "The id of the session."),
    ]
}

fn prop() -> Table {
    Table::new(
        PROP,
        [
            field("path", Shape::Filled, "Where it is.").required(),
            field("text", Shape::Text, "What it holds."),
            field("link", Shape::Text, "It is a symbolic link to that."),
            field("hard_link", Shape::Text, "It is another name of that."),
        ],
    )
    .with_rule(
        json!({ "not": any(&[&["text", "link"], &["text", "hard_link"], &["link", "hard_link"]]) }),
    )
}

fn test() -> Table {
    Table::new(
        KEYS,
        happens()
            .into_iter()
            .chain(circumstances())
            .chain(expected()),
    )
    .with_one_of(&[
        "command", "read", "write", "url", "tool", "prompt", "result", "error", "event", "request",
        "served",
    ])
    // With `result`, `tool` says whose result it is.
    .with_exception("tool", "result")
    .with_rule(json!({ "dependencies": {
            "args": any(&[&["tool"], &["result"], &["served"]]),
            "on": any(&[&["event"]]),
            "recoverable": any(&[&["error"]]),
            "only": any(&[&["policies"], &["obligations"], &["rules"]]),
            "text": any(&[&["result"], &["prompt"], &["event"]]),
            "error_class": any(&[&["error"], &["event"]]),
            "handling": any(&[&["error"], &["event"]]),
        } }))
}

fn happens() -> [Field; 15] {
    [
        field("name", Shape::Filled, "What the test shows, in a sentence.").required(),
        field("command", Shape::Text, "A command line is about to be run."),
        field("read", Shape::Text, "A file is about to be read."),
        field("write", Shape::Text, "A file is about to be written."),
        field("url", Shape::Text, "An address is about to be fetched."),
        field(
            "tool",
            Shape::Filled,
            "A tool is about to be called, of an MCP server as `server-tool`; with `result`, the tool that it comes from.",
        ),
        field(
            "prompt",
            Shape::Text,
            "A person says this. What stands between `<<` and `>>` may not go on.",
        ),
        field(
            "result",
            Shape::Text,
            "A tool brings this. What stands between `<<` and `>>` may not go on.",
        ),
        field("error", Shape::Text, "The host reports this error."),
        field("event", Shape::Free, "A whole event in the JSON of a host."),
        field(
            "request",
            Shape::Free,
            "What the policies are asked, where no host has a tool that would ask it.",
        ),
        field(
            "served",
            Shape::Table(served()),
            "A tool that this program serves over MCP is about to be called.",
        ),
        field("args", Shape::Free, "The arguments of the tool."),
        field(
            "on",
            Shape::Text,
            "The name of the event, where it does not say it itself.",
        ),
        flag(
            "recoverable",
            "Whether the host calls the error recoverable.",
        ),
    ]
}

fn served() -> Table {
    Table::new(
        SERVED,
        [
            field("server", Shape::Filled, "The server of the tool.").required(),
            field("tool", Shape::Filled, "The tool's name.").required(),
            words("tier", &TIERS, "What a tool of a service does."),
            words("mode", &MODES, "How far it may go by itself."),
            words(
                "trust",
                &TRUST,
                "How far the MCP server behind this program is trusted.",
            ),
            words("access", &ACCESS, "What is said of that server's tool."),
            words(
                "description",
                &DESCRIPTIONS,
                "What the pin says of how that server describes the tool.",
            ),
        ],
    )
}

fn expected() -> [Field; 9] {
    let effects = || Shape::Choice(vec!["allow", "ask", "deny"]);
    let obligations = Obligation::ALL.map(Obligation::name).to_vec();
    [
        field("decision", effects(), "What the answer has to be.").required(),
        field(
            "would_decide",
            effects(),
            "What the answer has to be if nothing were only monitored.",
        ),
        texts(
            "policies",
            "Ids that have to have decided, with or without their layers.",
        ),
        field(
            "obligations",
            Shape::Texts(Box::new(Shape::Choice(obligations))),
            "What has to be done to the text.",
        ),
        texts(
            "rules",
            "Redaction rules that have to have found something.",
        ),
        flag(
            "only",
            "Whether the names in `policies`, `obligations` and `rules` are all there may be.",
        ),
        field("text", Shape::Text, "What has to be left of the text."),
        field(
            "error_class",
            Shape::Text,
            "The class that the error has to have.",
        ),
        field(
            "handling",
            Shape::Choice(vec!["retry", "skip", "abort"]),
            "What the host has to be advised to do.",
        ),
    ]
}

/// One of these sets of keys is there.
fn any(sets: &[&[&str]]) -> Value {
    let sets: Vec<Value> = sets
        .iter()
        .map(|names| json!({ "required": names }))
        .collect();
    json!({ "anyOf": sets })
}
