//! `entities.toml`: whose data agents work with.

use std::sync::Arc;

use toml::Spanned;

use super::containment::paths;
use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::bundle::Settings;
use crate::engine::entity::Entity;
use crate::policy::diagnostic::{Code, Problem, quote};
use crate::policy::source::SourceFile;

/// The keys of the file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("rosters", Merge::BaseOnly),
    key("common_names", Merge::BaseOnly),
    key("entity", Merge::BaseOnly),
];

/// The keys of `[[entity]]`.
pub const ENTITY: &[Key] = &[
    key("name", Merge::PerFile),
    key("aliases", Merge::PerFile),
    key("workspaces", Merge::PerFile),
    key("phi", Merge::PerFile),
    key("clearances", Merge::PerFile),
    key("rosters", Merge::PerFile),
];

/// The rosters that the file names, and the surnames that are words.
#[derive(Default)]
pub(super) struct Named {
    /// Names of files in the directory of rosters, and where they are named.
    pub(super) rosters: Vec<(Arc<SourceFile>, Spanned<String>)>,
    /// Surnames that are ordinary words too.
    pub(super) common: Vec<String>,
}

/// Adds the file's entities, and what it says of names.
pub(super) fn apply(
    settings: &mut Settings,
    named: &mut Named,
    root: Table<'_>,
    reader: &mut Reader<'_>,
) {
    root.check(KEYS, reader);
    let mut note = |rosters: Vec<Spanned<String>>, file: &Arc<SourceFile>| {
        let rosters = rosters.into_iter().map(|name| (Arc::clone(file), name));
        named.rosters.extend(rosters);
    };
    note(root.texts("rosters", reader), reader.file);
    named.common = plain(root.texts("common_names", reader));
    for table in root.tables("entity", reader) {
        table.check(ENTITY, reader);
        note(table.texts("rosters", reader), reader.file);
        let Some(name) = table.required_text("name", reader) else {
            continue;
        };
        let aliases = table.texts("aliases", reader);
        let known = &settings.entities;
        let taken = [&name].into_iter().chain(&aliases);
        for word in taken.filter(|word| known.named(word.get_ref()).is_some()) {
            let problem = Problem::error(
                Code::DuplicateId,
                format!("there is another entity `{}`", quote(word.get_ref())),
            )
            .help("names are compared without regard to case");
            reader.push(word.span(), problem);
        }
        let workspaces = paths(table.texts("workspaces", reader), reader);
        settings.entities.all.push(Entity {
            name: name.into_inner(),
            aliases: plain(aliases),
            workspaces,
            // Only who says so has none.
            phi: !table.has("phi") || table.flag("phi", reader),
            clearances: plain(table.texts("clearances", reader)),
        });
    }
}

fn plain(texts: Vec<Spanned<String>>) -> Vec<String> {
    texts.into_iter().map(Spanned::into_inner).collect()
}
