//! The TOML files of all layers: each key read with its place, then merged as its table says.

pub mod bridge;
pub mod containment;
pub mod entities;
mod merge;
pub mod permission;
pub mod programs;
mod table;

use std::sync::Arc;

use toml::de::DeTable;

pub use table::{Key, Merge};

use super::diagnostic::{Code, Problem};
use super::source::{FORMAT, Source, SourceFile};
use crate::engine::bundle::Settings;
use table::{Reader, Table};

/// What the TOML files of all layers say, the base first, and what is wrong with them.
pub(super) fn load(sources: &[Source], problems: &mut Vec<Problem>) -> Settings {
    let mut settings = Settings {
        containment: containment::empty(),
        ..Settings::default()
    };
    for (index, source) in sources.iter().enumerate() {
        for file in &source.files {
            let apply = match file.name.as_str() {
                "bridge.toml" => bridge::apply,
                "containment.toml" => containment::apply,
                "entities.toml" => entities::apply,
                "permission.toml" => permission::apply,
                _ => continue,
            };
            let mut reader = Reader {
                file,
                base: index == 0,
                problems,
            };
            read(file, &mut reader, |root, reader| {
                apply(&mut settings, root, reader);
            });
        }
    }
    settings
}

fn read(
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
