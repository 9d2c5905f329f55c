//! `mirrors` of `[audit]` in `bridge.toml`: the logs of older programs that are written besides the
//! record.

use super::bridge::origin;
use super::merge::add;
use super::table::{Reader, Table};
use crate::engine::bundle::{Mirror, MirrorShape, Settings};
use crate::engine::containment::{GUARD, PathPattern};
use crate::policy::diagnostic::{Code, Problem, alternatives, quote};

/// Each mirror, and the key that names its directory.
const SHAPES: [(MirrorShape, &str); 2] = [
    (MirrorShape::Seed, "seed_mirror"),
    (MirrorShape::Xpia, "xpia_mirror"),
];

/// What would be a wildcard or a place of its own in the guard.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// Lets the table speak. What is written there is guarded as the record is.
pub(super) fn apply(settings: &mut Settings, table: Table<'_>, reader: &mut Reader<'_>) {
    let wanted = shapes(table, reader);
    if table.has("mirrors") {
        origin(settings, "audit.mirrors", reader);
    }
    for (shape, key) in SHAPES {
        let dir = dir(table, key, reader);
        let known = wanted.contains(&shape);
        if table.has(key) && !known {
            let problem = Problem::error(
                Code::BadValue,
                format!("`{key}` says something about a mirror that is not wanted"),
            )
            .help(format!("add `{}` to `mirrors`", shape.name()));
            reader.push(table.span_of(key), problem);
        }
        if !known {
            continue;
        }
        if dir.is_some() {
            origin(settings, &format!("audit.{key}"), reader);
        }
        let named = dir.as_deref().unwrap_or(shape.usual_dir());
        let labels = &mut settings.containment.labels;
        if let (Some(guard), Ok(pattern)) = (
            labels.iter_mut().find(|label| label.name == GUARD),
            PathPattern::new(named),
        ) {
            add(&mut guard.paths, pattern);
        }
        add(&mut settings.audit.mirrors, Mirror { shape, dir });
    }
}

fn shapes(table: Table<'_>, reader: &mut Reader<'_>) -> Vec<MirrorShape> {
    let mut wanted = Vec::new();
    for text in table.texts("mirrors", reader) {
        let word = text.get_ref();
        match SHAPES.iter().find(|(shape, _)| shape.name() == word) {
            Some((shape, _)) => add(&mut wanted, *shape),
            None => {
                let problem =
                    Problem::error(Code::BadValue, format!("`{}` is no mirror", quote(word))).help(
                        format!(
                            "it is {}",
                            alternatives(SHAPES.iter().map(|(shape, _)| shape.name()))
                        ),
                    );
                reader.push(text.span(), problem);
            }
        }
    }
    wanted
}

/// The directory that the key names.
fn dir(table: Table<'_>, key: &str, reader: &mut Reader<'_>) -> Option<String> {
    let text = table.text(key, reader)?;
    let word = text.get_ref();
    let plain = (word.starts_with('/') || word.starts_with("~/"))
        && !word.contains(SPECIAL)
        && word.split('/').all(|name| name != "." && name != "..");
    if plain {
        return Some(text.into_inner());
    }
    let problem = Problem::error(
        Code::BadPath,
        "a mirror's folder starts with `/` or `~/` and has neither wildcards nor `..`",
    );
    reader.push(text.span(), problem);
    None
}
