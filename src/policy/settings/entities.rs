//! `entities.toml`: whose data agents work with.

use super::containment::paths;
use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::bundle::Settings;
use crate::engine::entity::Entity;
use crate::policy::diagnostic::{Code, Problem, quote};

/// The keys of the file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("entity", Merge::BaseOnly),
];

/// The keys of `[[entity]]`.
pub const ENTITY: &[Key] = &[
    key("name", Merge::PerFile),
    key("aliases", Merge::PerFile),
    key("workspaces", Merge::PerFile),
    key("phi", Merge::PerFile),
    key("clearances", Merge::PerFile),
];

/// Adds the file's entities.
pub(super) fn apply(settings: &mut Settings, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    for table in root.tables("entity", reader) {
        table.check(ENTITY, reader);
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
        let plain = |texts: Vec<toml::Spanned<String>>| {
            texts.into_iter().map(toml::Spanned::into_inner).collect()
        };
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
