//! `permission.toml`

use super::Document;
use super::shape::{Shape, Table, field, flag, format, texts};
use crate::policy::settings::permission::{KEYS, PATTERN};

pub(super) fn document() -> Document {
    Document {
        name: "permission",
        files: "permission.toml",
        about: "Patterns over the arguments of tools. A policy asks for one with `context.patterns.contains(\"id\")`.",
        root: Table::new(
            KEYS,
            [
                format(),
                field(
                    "pattern",
                    Shape::Tables(pattern()),
                    "A regular expression with a name.",
                ),
            ],
        ),
    }
}

fn pattern() -> Table {
    Table::new(
        PATTERN,
        [
            field(
                "id",
                Shape::Filled,
                "The name by which policies ask for it.",
            )
            .required(),
            field(
                "pattern",
                Shape::Filled,
                "The expression, in the syntax of Rust's regex crate without Unicode classes.",
            )
            .required(),
            flag("ignore_case", "Whether it ignores case."),
            field(
                "on",
                Shape::Choice(vec!["values", "json"]),
                "What it is tried on: each text in the arguments, or the arguments as JSON.",
            )
            .default("values"),
            texts("examples", "Texts that it has to match."),
            texts("counterexamples", "Texts that it must not match."),
        ],
    )
}
