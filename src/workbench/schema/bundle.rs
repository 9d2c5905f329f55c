//! `bundle.toml`, beside the directory of policies

use super::Document;
use super::shape::{PUBLIC_KEY, Shape, Table, field, format, words};
use crate::policy::published::OnExpiry;
use crate::policy::settings::{Key, Merge, key};

/// The keys of the file.
const KEYS: &[Key] = &[key("format", Merge::PerFile), key("bundle", Merge::PerFile)];

/// The keys of `[bundle]`.
const BUNDLE: &[Key] = &[
    key("name", Merge::PerFile),
    key("source", Merge::PerFile),
    key("keys", Merge::PerFile),
    key("threshold", Merge::PerFile),
    key("max_age_days", Merge::PerFile),
    key("on_expiry", Merge::PerFile),
    key("user_env", Merge::PerFile),
    key("password_env", Merge::PerFile),
];

/// The name of an environment variable.
const VARIABLE: Shape = Shape::Form("^[A-Za-z0-9_]+$");

pub(super) fn document() -> Document {
    Document {
        name: "bundle",
        files: "../bundle.toml",
        about: "Where bundles of policies come from, and whose signature counts. It stands beside the directory of policies.",
        root: Table::new(
            KEYS,
            [
                format(),
                field(
                    "bundle",
                    Shape::Table(bundle()),
                    "What it takes for a bundle to be put in force.",
                )
                .required(),
            ],
        ),
    }
}

fn bundle() -> Table {
    Table::new(
        BUNDLE,
        [
            field(
                "name",
                Shape::Form("^[a-z0-9][a-z0-9._-]{0,63}$"),
                "What the bundle has to be called.",
            )
            .required(),
            field(
                "source",
                Shape::Form(r"^(/|(file|https?|s3|gs|az|oci)://)[^\x00-\x1f\x7f]+$"),
                "Where it lies: `file://`, `https://`, `s3://`, `gs://`, `az://` or `oci://`, without secrets. Plain `http://` is for this machine only.",
            )
            .required(),
            field(
                "keys",
                Shape::Several(Box::new(Shape::Form(PUBLIC_KEY))),
                "The public keys that count, each once, as `copilot-bridge key new` prints them.",
            )
            .required(),
            field(
                "threshold",
                Shape::Count,
                "So many of the keys have to have signed it.",
            )
            .default(1),
            field(
                "max_age_days",
                Shape::Number(1..=u32::MAX),
                "It expires so many days after it was made, if not before.",
            ),
            words(
                "on_expiry",
                &OnExpiry::ALL,
                "What becomes of calls when it has expired: the stricter of this and of what the bundle says counts.",
            )
            .default(OnExpiry::default().name()),
            field(
                "user_env",
                VARIABLE,
                "The name of the environment variable that holds the user's name.",
            ),
            field(
                "password_env",
                VARIABLE,
                "The name of the environment variable that holds the password, or without a user a bearer token.",
            ),
        ],
    )
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use crate::distribution::pin::{FILE, parse};
    use crate::policy::diagnostic::{Code, Problem};
    use crate::policy::layer::Layer;
    use crate::policy::source::SourceFile;

    /// What the reader says, with what the parser says in its own words where other readers have it.
    pub(in crate::workbench::schema) fn problems(text: &str) -> Vec<Problem> {
        let file = Arc::new(SourceFile {
            layer: Layer::User,
            name: FILE.to_owned(),
            path: format!("/p/{FILE}"),
            text: text.to_owned(),
        });
        let problems = parse(&file).err().unwrap_or_default();
        problems.into_iter().map(sorted).collect()
    }

    fn sorted(mut problem: Problem) -> Problem {
        if problem.code == Code::TomlSyntax {
            problem.code = match problem.message.split('`').next() {
                Some("unknown key ") => Code::UnknownKey,
                Some("missing key ") => Code::MissingKey,
                _ => problem.code,
            };
        }
        let parts = [", expected ", ": it is "];
        let known = parts
            .into_iter()
            .find_map(|part| problem.message.split_once(part));
        if let (None, Some((_, known))) = (&problem.help, known) {
            problem.help = Some(known.to_owned());
        }
        problem
    }
}
