//! `containment.toml`: labels of paths and programs.

use toml::Spanned;

use super::merge::{add, intersect};
use super::programs;
use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::bundle::Settings;
use crate::engine::containment::{Containment, GUARD, GlobError, Inside, PathLabel, PathPattern};
use crate::policy::diagnostic::{Code, Problem, quote};

/// The keys of the file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("workspace_root", Merge::BaseOnly),
    key("data_keys", Merge::Intersect),
    key("any_shell", Merge::Intersect),
    key("mounts", Merge::Max),
    key("hard_links", Merge::Max),
    key("guard", Merge::Union),
    key("starts_code", Merge::Union),
    key("credentials", Merge::Union),
    key("label", Merge::BaseOnly),
    key("program", Merge::BaseOnly),
    key("wrapper", Merge::BaseOnly),
    key("interpreter", Merge::BaseOnly),
    key("variable", Merge::BaseOnly),
    key("leading", Merge::BaseOnly),
];

/// The keys of `[[label]]`.
pub const LABEL: &[Key] = &[key("name", Merge::PerFile), key("paths", Merge::PerFile)];

/// Whether something counts as inside the workspace.
const INSIDE: [(&str, Inside); 2] = [("inside", Inside::Inside), ("outside", Inside::Outside)];

/// The label of a program that is an agent.
const AGENT: &str = "starts_agent";

/// The labels that forbid: the path as it was written counts too, and every layer may add to them.
pub const RESERVED: [&str; 3] = [GUARD, "starts_code", "credentials"];

/// What holds before any file spoke: the reserved labels, of no path yet.
pub(super) fn empty() -> Containment {
    Containment {
        labels: RESERVED
            .iter()
            .map(|name| PathLabel {
                name: (*name).to_owned(),
                as_written: true,
                paths: Vec::new(),
            })
            .collect(),
        ..Containment::default()
    }
}

/// Lets the file speak: it sets what the base may set, and otherwise adds to what forbids.
pub(super) fn apply(settings: &mut Settings, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    let containment = &mut settings.containment;
    if let Some(dir) = root.text("workspace_root", reader) {
        if dir.get_ref().starts_with('/') {
            containment.workspace_root = Some(dir.into_inner());
            let origin = ("workspace_root".to_owned(), reader.layer());
            settings.origins.extend([origin]);
        } else {
            let problem = Problem::error(Code::BadPath, "the root has to start with `/`");
            reader.push(dir.span(), problem);
        }
    }
    if root.has("data_keys") {
        let keys = root.texts("data_keys", reader);
        intersect(&mut containment.data_keys, keys, "data_keys", reader);
    }
    if root.has("any_shell") {
        let programs = root.texts("any_shell", reader);
        intersect(&mut containment.any_shell, programs, "any_shell", reader);
    }
    if let Some(mounts) = root.choice("mounts", &INSIDE, reader) {
        containment.mounts = containment.mounts.max(mounts.into_inner());
    }
    if let Some(links) = root.choice("hard_links", &INSIDE, reader) {
        containment.hard_links = containment.hard_links.max(links.into_inner());
    }
    for name in RESERVED {
        let new = paths(root.texts(name, reader), reader);
        if let Some(label) = containment.labels.iter_mut().find(|l| l.name == name) {
            for path in new {
                add(&mut label.paths, path);
            }
        }
    }
    for table in root.tables("label", reader) {
        add_label(containment, table, reader);
    }
    for table in root.tables("program", reader) {
        let Some(entry) = programs::program(table, reader) else {
            continue;
        };
        if entry.labels.iter().any(|label| label == AGENT) {
            containment.agents.extend(entry.names.iter().cloned());
        }
        if containment.programs.push(&entry).is_err() {
            let problem = Problem::error(Code::TooLarge, "there are too many programs");
            return reader.push(table.span(), problem);
        }
    }
    for table in root.tables("wrapper", reader) {
        containment
            .wrappers
            .extend(programs::wrapper(table, reader));
    }
    for table in root.tables("interpreter", reader) {
        let entry = programs::interpreter(table, reader);
        containment.interpreters.extend(entry);
    }
    for table in root.tables("leading", reader) {
        let entry = programs::leading(table, reader);
        containment.leading.extend(entry);
    }
    for table in root.tables("variable", reader) {
        containment
            .variables
            .extend(programs::variable(table, reader));
    }
}

fn add_label(containment: &mut Containment, table: Table<'_>, reader: &mut Reader<'_>) {
    table.check(LABEL, reader);
    let name = table.required_text("name", reader);
    if !table.has("paths") {
        table.missing("paths", reader);
    }
    let paths = paths(table.texts("paths", reader), reader);
    let Some(name) = name else { return };
    let word = name.get_ref();
    if RESERVED.contains(&word.as_str()) {
        let problem = Problem::error(
            Code::ReservedLabel,
            format!("the label `{word}` has a list of its own"),
        )
        .help(format!("add the paths to `{word} = […]` instead"));
        return reader.push(name.span(), problem);
    }
    if containment.labels.iter().any(|label| label.name == *word) {
        let problem = Problem::error(
            Code::DuplicateId,
            format!("there is another label `{}`", quote(word)),
        );
        return reader.push(name.span(), problem);
    }
    containment.labels.push(PathLabel {
        name: name.into_inner(),
        as_written: false,
        paths,
    });
}

pub(crate) fn paths(texts: Vec<Spanned<String>>, reader: &mut Reader<'_>) -> Vec<PathPattern> {
    texts
        .into_iter()
        .filter_map(|text| match PathPattern::new(text.get_ref()) {
            Ok(pattern) => Some(pattern),
            Err(GlobError(error)) => {
                let problem = Problem::error(Code::BadPath, format!("this names no path: {error}"));
                reader.push(text.span(), problem);
                None
            }
        })
        .collect()
}
