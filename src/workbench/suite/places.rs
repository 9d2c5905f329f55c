//! Where the parts of the TOML files stand that tests may come to.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::coverage::Kind;
use crate::policy::SourceFile;
use crate::policy::diagnostic::place;
use crate::policy::settings::containment::RESERVED;
use crate::policy::settings::redaction;

/// A part of a file.
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
    /// Whether it has examples of its own.
    pub(super) examples: bool,
}

/// Adds the parts of a file that was found to be in order.
pub(super) fn of(file: &SourceFile, found: &mut Vec<Place>) {
    let Ok(root) = DeTable::parse(&file.text) else {
        return;
    };
    let root = root.get_ref();
    let mut add = |kind, name: &Spanned<DeValue<'_>>, examples| {
        if let Some(word) = name.get_ref().as_str() {
            found.push(Place {
                kind,
                name: word.to_owned(),
                file: file.path.clone(),
                line: place(&file.text, name.span().start).0,
                examples,
            });
        }
    };
    match file.name.as_str() {
        "permission.toml" => {
            for name in tables(root, "pattern").filter_map(|table| table.get("id")) {
                add(Kind::Pattern, name, false);
            }
        }
        "bridge.toml" => {
            for name in tables(root, "error").filter_map(|table| table.get("class")) {
                add(Kind::ErrorRule, name, false);
            }
        }
        "containment.toml" => {
            for label in tables(root, "label").filter(|label| has_entries(label, "paths")) {
                label.get("name").into_iter().for_each(|name| {
                    add(Kind::Label, name, false);
                });
            }
            for list in ["program", "variable", "leading"] {
                for table in tables(root, list) {
                    let labels = table.get("labels");
                    let labels = labels.and_then(|labels| labels.get_ref().as_array());
                    for name in labels.into_iter().flat_map(|labels| labels.iter()) {
                        add(Kind::Label, name, false);
                    }
                }
            }
            for name in RESERVED {
                let Some((key, _)) = root.get_key_value(name).filter(|_| has_entries(root, name))
                else {
                    continue;
                };
                found.push(Place {
                    kind: Kind::Label,
                    name: name.to_owned(),
                    file: file.path.clone(),
                    line: place(&file.text, key.span().start).0,
                    examples: false,
                });
            }
        }
        name if redaction::is_pack(name) => {
            for rule in tables(root, "rule") {
                if let Some(name) = rule.get("id") {
                    add(Kind::RedactionRule, name, has_entries(rule, "examples"));
                }
            }
        }
        _ => {}
    }
}

/// The tables of `[[name]]`.
fn tables<'t>(root: &'t DeTable<'t>, name: &str) -> impl Iterator<Item = &'t DeTable<'t>> {
    let array = root.get(name).and_then(|value| value.get_ref().as_array());
    let entries = array.into_iter().flat_map(|array| array.iter());
    entries.filter_map(|entry| entry.get_ref().as_table())
}

fn has_entries(table: &DeTable<'_>, name: &str) -> bool {
    let array = table.get(name).and_then(|value| value.get_ref().as_array());
    array.is_some_and(|array| !array.is_empty())
}
