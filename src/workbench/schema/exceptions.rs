//! `exceptions.toml`

use serde_json::{Value, json};

use super::Document;
use super::shape::{Field, Shape, Table, field, format};
use crate::engine::action::Action;
use crate::policy::settings::exceptions::{EXCEPTION, KEYS, LONGEST, SCOPE, SUBJECTS};

/// Where a path begins.
const PATH: &str = r"^(/|~|\*\*/|\$\{[a-z_]+\})";

pub(super) fn document() -> Document {
    Document {
        name: "exceptions",
        files: "exceptions.toml",
        about: "Exceptions: which policies are left out for a while, for whom, and why. They permit nothing. A workspace has none.",
        root: Table::new(
            KEYS,
            [
                format(),
                field(
                    "exception",
                    Shape::Tables(exception()),
                    "A forbid or an ask that is left out for some requests, for a while. All keys of the scope have to fit a request; of one key, one entry has to.",
                ),
            ],
        ),
    }
}

fn exception() -> Table {
    let pairs = SUBJECTS.iter().enumerate().flat_map(|(at, first)| {
        let rest = SUBJECTS.iter().skip(at + 1);
        rest.map(move |second| json!({ "not": { "required": [first, second] } }))
    });
    let table = Table::new(EXCEPTION, said().into_iter().chain(scope())).with_some_of(&SCOPE);
    // A request is about one thing.
    pairs.fold(table, |table, rule: Value| table.with_rule(rule))
}

fn said() -> [Field; 5] {
    [
        field(
            "id",
            Shape::Form("^[A-Za-z0-9._-]{1,500}$"),
            "Its name, which the record has: letters, digits, `-`, `_` and `.`.",
        )
        .required(),
        filled(
            "policies",
            "The ids of the policies that are left out, those of a layer below as `workspace:id`.",
        )
        .required(),
        field(
            "reason",
            Shape::Line(LONGEST),
            "Why, in one line of plain text.",
        )
        .required(),
        field(
            "owner",
            Shape::Line(LONGEST),
            "Who answers for it, in one line of plain text.",
        )
        .required(),
        field(
            "expires",
            Shape::Moment,
            "When it ends: a day, which counts as a whole in UTC, or a time with a zone. Without quotation marks.",
        )
        .required(),
    ]
}

fn scope() -> [Field; 9] {
    let actions = Shape::Choice(Action::ALL.map(Action::name).to_vec());
    [
        field(
            "actions",
            Shape::Several(Box::new(actions)),
            "Requests with one of these actions.",
        ),
        filled(
            "tools",
            "All requests of a call of one of these tools, by canonical name: `bash`, `server-tool`.",
        ),
        forms(
            "paths",
            PATH,
            "Paths and globs as in containment.toml, and what is below them. Not beside `commands` or `hosts`.",
        ),
        forms(
            "commands",
            r"^\s*[^\s/*?]+(\s+[^\s*?]+)?\s*$",
            "Programs by name, each maybe with its subcommand: `git push`. Not beside `paths` or `hosts`.",
        ),
        forms(
            "hosts",
            r"^(\*\.)?[^\s.*?/@\\][^\s*?/@\\]*$",
            "Addresses on these hosts; `*.example.com` is all hosts below, and not itself. Not beside `paths` or `commands`.",
        ),
        forms(
            "workspaces",
            PATH,
            "Agents that work in one of these workspaces, or in one below that folder.",
        ),
        forms(
            "sessions",
            r"^(?!unknown$)[\s\S]*\S",
            "The sessions of these ids.",
        ),
        filled(
            "entities",
            "Agents that work for one of these entities of entities.toml.",
        ),
        filled(
            "agents",
            "Agents in one of these programs: `copilot`, `claude`, `vscode`, `xpia`.",
        ),
    ]
}

/// A list that is not empty, of texts that are not blank.
fn filled(name: &'static str, about: &'static str) -> Field {
    forms(name, r"\S", about)
}

fn forms(name: &'static str, form: &'static str, about: &'static str) -> Field {
    field(name, Shape::Several(Box::new(Shape::Form(form))), about)
}
