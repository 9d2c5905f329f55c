//! A roster that nothing names: its names are redacted nowhere.

use std::collections::BTreeSet;

use crate::policy::diagnostic::quote;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::Desk;

pub(super) const RULE: Rule = Rule {
    code: Code::UnusedRoster,
    find,
};

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    let mut named = BTreeSet::new();
    for toml in desk.tables("entities.toml") {
        let root = toml.root();
        let entities = root.tables("entity").into_iter().map(|(table, _)| table);
        for table in entities.chain([root]) {
            named.extend(
                table
                    .texts("rosters")
                    .into_iter()
                    .map(|(name, _)| name.strip_prefix("rosters/").unwrap_or(name).to_owned()),
            );
        }
    }
    for file in desk.sources.iter().flat_map(|source| &source.files) {
        let Some(name) = file.name.strip_prefix("rosters/") else {
            continue;
        };
        if !named.contains(name) {
            let text = format!(
                "nothing in entities.toml names the roster `{}`",
                quote(name)
            );
            let problem = Problem::warning(Code::UnusedRoster, text)
                .help("the names in it are redacted nowhere: add it to an entity's `rosters`, or to those of everybody");
            let line = file.text.find('\n').unwrap_or(file.text.len());
            found.push(problem.at(file, 0..line));
        }
    }
}
