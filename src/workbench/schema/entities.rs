//! `entities.toml`

use super::Document;
use super::shape::{Shape, Table, field, format, texts};
use crate::policy::settings::entities::{ENTITY, KEYS};

pub(super) fn document() -> Document {
    Document {
        name: "entities",
        files: "entities.toml",
        about: "Whose data agents work with: customers, houses, departments that are kept apart.",
        root: Table::new(
            KEYS,
            [
                format(),
                texts(
                    "rosters",
                    "Rosters of everybody: text files in `rosters/`, a name a line.",
                ),
                texts(
                    "common_names",
                    "Surnames that are ordinary words too: without a given name they count behind a title only.",
                ),
                field(
                    "entity",
                    Shape::Tables(entity()),
                    "One whose data is kept apart. As soon as one is named, health information is redacted for every agent that works for nobody known.",
                ),
            ],
        ),
    }
}

fn entity() -> Table {
    Table::new(
        ENTITY,
        [
            field(
                "name",
                Shape::Filled,
                "Its name, compared without regard to case.",
            )
            .required(),
            texts("aliases", "Its other names."),
            texts(
                "workspaces",
                "Where its agents work: paths and globs, `~/` for the home.",
            ),
            field(
                "phi",
                Shape::Flag,
                "Whether its texts hold health information.",
            )
            .default(true),
            texts(
                "clearances",
                "The providers of models that may see its texts.",
            ),
            texts("rosters", "The names of its people: files in `rosters/`."),
        ],
    )
}
