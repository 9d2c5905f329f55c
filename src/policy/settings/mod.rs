//! The TOML files of all layers: each key read with its place, then merged as its table says.

pub mod approvers;
pub mod bridge;
pub mod containment;
pub mod entities;
pub mod exceptions;
pub mod injection;
mod merge;
mod mirrors;
pub mod permission;
pub mod programs;
pub mod redaction;
pub mod rosters;
pub(crate) mod table;
pub mod upstreams;

use std::sync::Arc;

use toml::de::DeTable;

pub(crate) use table::key;
pub use table::{Key, Merge};

use super::diagnostic::{Code, Problem};
use super::source::{FORMAT, Source, SourceFile};
use crate::engine::bundle::Settings;
use crate::engine::redaction::Redaction;
use table::{Reader, Table};

/// How much is tried of what the files say.
#[derive(Clone, Copy)]
pub(super) enum Care<'a> {
    /// Expressions have to compile, and redaction rules to do what their examples say: wherever
    /// policies are checked or compiled, but in no hook.
    Thorough,
    /// Somebody waits: packs as this program carries them are taken as it compiled them.
    Quick(&'a dyn Fn() -> Option<Redaction>),
}

/// What the TOML files of all layers say, the base first, and what is wrong with them.
pub(super) fn load(sources: &[Source], care: Care<'_>, problems: &mut Vec<Problem>) -> Settings {
    let thorough = matches!(care, Care::Thorough);
    let mut packs = redaction::Packs::default();
    let mut named = entities::Named::default();
    let mut settings = Settings {
        containment: containment::empty(),
        ..Settings::default()
    };
    for (index, source) in sources.iter().enumerate() {
        for file in &source.files {
            let mut reader = Reader {
                file,
                base: index == 0,
                thorough,
                problems,
            };
            if file.name == "entities.toml" {
                read(file, &mut reader, |root, reader| {
                    entities::apply(&mut settings, &mut named, root, reader);
                });
                continue;
            }
            let apply = match file.name.as_str() {
                "approvers.toml" => approvers::apply,
                "bridge.toml" => bridge::apply,
                "containment.toml" => containment::apply,
                "injection.toml" => injection::apply,
                "permission.toml" => permission::apply,
                "upstreams.toml" => upstreams::apply,
                _ => continue,
            };
            read(file, &mut reader, |root, reader| {
                apply(&mut settings, root, reader);
                if file.name == "bridge.toml" {
                    packs.switch(root, reader);
                }
            });
        }
    }
    packs.add_names(rosters::names(sources, &named, problems));
    let shipped = match care {
        Care::Quick(shipped) if packs.is_empty() && redaction::is_shipped(sources) => shipped(),
        _ => None,
    };
    settings.redaction = shipped.unwrap_or_else(|| {
        read_packs(sources, thorough, &mut packs, problems);
        packs.finish(thorough, problems)
    });
    settings
}

fn read_packs(
    sources: &[Source],
    thorough: bool,
    packs: &mut redaction::Packs,
    problems: &mut Vec<Problem>,
) {
    for (index, source) in sources.iter().enumerate() {
        let files = source.files.iter();
        for file in files.filter(|file| redaction::is_pack(&file.name)) {
            let mut reader = Reader {
                file,
                base: index == 0,
                thorough,
                problems,
            };
            read(file, &mut reader, |root, reader| packs.apply(root, reader));
        }
    }
}

/// Reads a file of this format, and lets `apply` say what its keys mean.
pub(crate) fn read(
    file: &Arc<SourceFile>,
    reader: &mut Reader<'_>,
    apply: impl FnOnce(Table<'_>, &mut Reader<'_>),
) {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    for error in &errors {
        let problem = Problem::error(Code::TomlSyntax, error.message());
        match error.span() {
            Some(span) => reader.push(span, problem),
            None => reader.problems.push(problem.of(file)),
        }
    }
    // What was recovered from a broken file would only lead to problems that are none.
    if !errors.is_empty() {
        return;
    }
    let span = root.span();
    let root = Table::new(root.get_ref(), span);
    if check_format(root, reader) {
        apply(root, reader);
    }
}

/// Whether the file has a format that this version knows. The keys of another would mean nothing.
fn check_format(root: Table<'_>, reader: &mut Reader<'_>) -> bool {
    if !root.has("format") {
        let start = root.span().start;
        let problem = Problem::error(Code::MissingKey, "`format` is missing")
            .help(format!("write `format = {FORMAT}` at the top"));
        reader.push(start..start, problem);
        return true;
    }
    let Some(format) = root.number("format", 0..=u32::MAX, reader) else {
        return true;
    };
    let known = *format.get_ref() == FORMAT;
    if !known {
        let problem = Problem::error(
            Code::UnsupportedFormat,
            format!("this version knows format {FORMAT} only"),
        )
        .help("update this program, or write the file in the format that it knows");
        reader.push(format.span(), problem);
    }
    known
}

#[cfg(test)]
mod tests;
