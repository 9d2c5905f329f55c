//! `approvers.toml`

use super::Document;
use super::shape::{PUBLIC_KEY, Shape, Table, field, format, texts, words};
use crate::engine::approver::{Approvers, Demand};
use crate::policy::settings::approvers::{APPROVALS, APPROVER, KEYS, LONGEST_MINUTES, UNVERIFIED};

/// What people and groups are called.
const NAME: &str = "^[A-Za-z][A-Za-z0-9._-]{0,63}$";

pub(super) fn document() -> Document {
    Document {
        name: "approvers",
        files: "approvers.toml",
        about: "Who may approve what policies ask, and what an approval takes. The base layer's alone.",
        root: Table::new(
            KEYS,
            [
                format(),
                field(
                    "approvals",
                    Shape::Table(approvals()),
                    "What an approval takes.",
                ),
                field(
                    "approver",
                    Shape::Tables(approver()),
                    "A person who may approve. No two have the same name, or the same key.",
                ),
            ],
        ),
    }
}

fn approvals() -> Table {
    let default = Approvers::default();
    Table::new(
        APPROVALS,
        [
            field(
                "minutes",
                Shape::Number(1..=LONGEST_MINUTES),
                "So many minutes an approval is valid at most.",
            )
            .default(default.minutes),
            field(
                "required",
                Shape::Number(1..=u32::from(Demand::MOST)),
                "So many different people have to approve, where no policy says otherwise. As many have to be named here.",
            )
            .default(default.required),
            words(
                "unverified",
                &UNVERIFIED,
                "Whether an approval counts that no key signed. With `accept`, every program of the user can approve.",
            )
            .default("refuse"),
        ],
    )
}

fn approver() -> Table {
    Table::new(
        APPROVER,
        [
            field(
                "name",
                Shape::Form(NAME),
                "The name that the record has: a letter, then letters, digits, `-`, `_` and `.`.",
            )
            .required(),
            field(
                "key",
                Shape::Form(PUBLIC_KEY),
                "The line of the public key, as `copilot-bridge key new` prints it.",
            )
            .required(),
            field(
                "groups",
                Shape::Texts(Box::new(Shape::Form(NAME))),
                "The groups that the person belongs to, which `@approvals` of a policy may demand.",
            ),
            texts(
                "policies",
                "Globs of policies, by id with layer: every policy that asks has to match one. Without it, any.",
            ),
            texts(
                "entities",
                "Globs: the entity that the agent works for has to match one. Without it, any.",
            ),
            texts(
                "sessions",
                "Globs: the session has to match one. Without it, any.",
            ),
        ],
    )
}
