//! `injection.toml`

use super::Document;
use super::shape::{Shape, Table, field, format, texts};
use crate::policy::settings::injection::{KEYS, SIGNAL};

pub(super) fn document() -> Document {
    Document {
        name: "injection",
        files: "injection.toml",
        about: "What looks like an instruction to a model in what MCP servers say. A policy asks for it with `context.signals`.",
        root: Table::new(
            KEYS,
            [
                format(),
                field("signal", Shape::Tables(signal()), "A sign, with a name."),
            ],
        ),
    }
}

fn signal() -> Table {
    Table::new(
        SIGNAL,
        [
            field(
                "id",
                Shape::Filled,
                "The name by which policies ask for it.",
            )
            .required(),
            field("description", Shape::Text, "What it is a sign of, for people."),
            field(
                "pattern",
                Shape::Filled,
                "An expression, in the syntax of Rust's regex crate without Unicode classes. It ignores case.",
            ),
            field(
                "words",
                Shape::Several(Box::new(Shape::Form(r"\S"))),
                "Phrases, in any case and with any space between their words.",
            ),
            field(
                "where",
                Shape::Several(Box::new(Shape::Choice(vec!["description", "result"]))),
                "What is looked at: descriptions of tools, results of tools; both unless something is said.",
            ),
            texts("examples", "Texts that it has to match."),
            texts("counterexamples", "Texts that it must not match."),
        ],
    )
    .with_one_of(&["pattern", "words"])
}
