//! An entry of a table that says what another one says already.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::policy::diagnostic::quote;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;
use crate::workbench::lint::toml::{Table, Toml};

pub(super) const RULE: Rule = Rule {
    code: Code::RedundantEntry,
    find,
};

/// The lists of paths that forbid.
const LISTS: [&str; 3] = ["guard", "starts_code", "credentials"];

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    for toml in desk.tables("containment.toml") {
        let root = toml.root();
        for list in LISTS {
            paths(toml, &root.texts(list), found);
        }
        for (table, _) in root.tables("label") {
            paths(toml, &table.texts("paths"), found);
        }
        programs(toml, root, found);
    }
}

/// A path covers all that is below it.
fn paths(toml: &Toml<'_>, all: &[(&str, Range<usize>)], found: &mut Vec<Problem>) {
    let plain =
        |path: &str| !path.contains(['*', '?', '[']) && !path.replace("${", "").contains('{');
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, (path, _)) in all.iter().enumerate() {
        known.entry(path.trim_end_matches('/')).or_insert(at);
    }
    for (at, (path, span)) in all.iter().enumerate() {
        let path = path.trim_end_matches('/');
        let same = known.get(path).filter(|first| **first < at).map(|_| path);
        let above = || {
            let above = path
                .rmatch_indices('/')
                .filter_map(|(end, _)| path.get(..end));
            above
                .filter(|above| plain(above))
                .find(|above| known.contains_key(above))
        };
        if let Some(other) = same.or_else(above) {
            let text = format!("`{}` covers this already", quote(other));
            let problem = Problem::note(Code::RedundantEntry, text)
                .help("a path covers itself and all that is below it; remove this one");
            found.push(problem.at(toml.file, span.clone()));
        }
    }
}

/// What has to be fulfilled for a row to hold: fewer of these words, or none, hold for more.
const WIDER: [&str; 3] = ["subcommands", "with", "besides"];

/// What a row says besides labels.
const SAYS: [&str; 5] = [
    "data_options",
    "input_options",
    "output_options",
    "saving_options",
    "labels",
];

/// A row is redundant if, for each of its names, another row holds wherever it does and says as much.
fn programs(toml: &Toml<'_>, root: Table<'_>, found: &mut Vec<Problem>) {
    let rows = root.tables("program");
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, (row, _)) in rows.iter().enumerate() {
        for (name, _) in row.texts("names") {
            by_name.entry(name).or_default().push(at);
        }
    }
    for (at, (row, span)) in rows.iter().enumerate() {
        for (name, place) in row.texts("names") {
            let others = by_name.get(name).map_or(&[][..], Vec::as_slice);
            let other = others.iter().find(|other| {
                let Some((other_row, _)) = rows.get(**other) else {
                    return false;
                };
                // Of two that say the same, the first one stays.
                **other != at
                    && subsumes(*other_row, *row)
                    && (**other < at || !subsumes(*row, *other_row))
            });
            let Some((_, other_span)) = other.and_then(|other| rows.get(*other)) else {
                continue;
            };
            let before = toml.file.text.get(..other_span.start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let text = format!(
                "line {line} says all of this about `{}` already",
                quote(name)
            );
            let problem = Problem::note(Code::RedundantEntry, text)
                .help("remove the name here, or that row if this one is meant to be all");
            let inside = span.start <= place.start;
            found.push(problem.at(toml.file, if inside { place } else { span.clone() }));
        }
    }
}

fn subsumes(wide: Table<'_>, narrow: Table<'_>) -> bool {
    let list = |row: Table<'_>, key: &str| -> Vec<String> {
        row.texts(key)
            .into_iter()
            .map(|(text, _)| text.to_owned())
            .collect()
    };
    let within = |few: &[String], many: &[String]| few.iter().all(|word| many.contains(word));
    WIDER.iter().all(|key| {
        let (wide, narrow) = (list(wide, key), list(narrow, key));
        wide.is_empty() || !narrow.is_empty() && within(&narrow, &wide)
    }) && within(&list(wide, "without"), &list(narrow, "without"))
        && SAYS
            .iter()
            .all(|key| within(&list(narrow, key), &list(wide, key)))
        && operands(wide, narrow)
        && said(narrow, "output").is_none_or(|output| said(wide, "output") == Some(output))
        && narrow.value("data_operands").is_none()
}

/// Of rows that hold together, the one that does the most to its operands counts; to say nothing is
/// more than to say `none`.
fn operands(wide: Table<'_>, narrow: Table<'_>) -> bool {
    match (said(wide, "operands"), said(narrow, "operands")) {
        (_, Some("none")) => true,
        (wide, None) => wide != Some("none"),
        (wide, narrow) => wide == narrow,
    }
}

fn said<'t>(row: Table<'t>, key: &str) -> Option<&'t str> {
    row.text(key).map(|(text, _)| text)
}
