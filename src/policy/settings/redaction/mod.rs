//! `redaction/*.toml`: packs of rules, one in each file.

pub(crate) mod example;
pub mod rule;

use std::collections::BTreeSet;
use std::sync::Arc;

use toml::Spanned;

use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::redaction::{
    Allow, Conditions, Packed, Redaction, Rule, RuleError, Ruleset, Severity, Shape, Words,
    check_expression,
};
use crate::policy::diagnostic::{Code, Problem, quote};
use crate::policy::layer::Layer;
use crate::policy::source::{EMBEDDED, Source, SourceFile};
use example::Example;

/// The directory of the packs, in the directory of a layer.
pub const DIR: &str = "redaction";

/// Whether a file of that name is a pack.
#[must_use]
pub fn is_pack(name: &str) -> bool {
    name.strip_prefix(DIR)
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|file| file.ends_with(".toml"))
}

/// Whether the packs of these layers are those that this program carries, to the letter.
pub(super) fn is_shipped(sources: &[Source]) -> bool {
    let files = sources.iter().flat_map(|source| &source.files);
    let found = files
        .filter(|file| is_pack(&file.name))
        .map(|file| (file.name.as_str(), file.text.as_str()));
    let carried = EMBEDDED.iter().copied().filter(|(name, _)| is_pack(name));
    found.eq(carried)
}

/// The keys of a file.
pub const KEYS: &[Key] = &[
    key("format", Merge::PerFile),
    key("pack", Merge::PerFile),
    key("purpose", Merge::PerFile),
    key("enabled", Merge::PerFile),
    key("allow", Merge::PerFile),
    key("rule", Merge::Union),
];

/// The keys of `[allow]`.
pub const ALLOW: &[Key] = &[
    key("exact", Merge::PerFile),
    key("values", Merge::PerFile),
    key("patterns", Merge::PerFile),
];

/// The keys of `[redaction]` in `bridge.toml`.
pub const SWITCHES: &[Key] = &[key("packs", Merge::Union)];

/// The rule for the names of the rosters.
pub const NAMES: &str = "roster-name";

/// More rules of a workspace would be a way to make every call slow.
const WORKSPACE_RULES: usize = 64;

/// What a pack is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Secrets,
    Phi,
}

const PURPOSES: [(&str, Purpose); 2] = [("secrets", Purpose::Secrets), ("phi", Purpose::Phi)];

/// The packs of all layers.
#[derive(Default)]
pub(super) struct Packs {
    packs: Vec<Pack>,
    /// Packs that a `bridge.toml` switches on, and where it does.
    wanted: Vec<(Arc<SourceFile>, Spanned<String>)>,
    /// The rule for the names of the rosters.
    names: Option<Rule>,
}

struct Pack {
    name: String,
    purpose: Purpose,
    enabled: bool,
    allow: Allow,
    entries: Vec<Entry>,
}

/// A rule, and what its author says it does.
struct Entry {
    rule: Rule,
    file: Arc<SourceFile>,
    id: std::ops::Range<usize>,
    examples: Vec<Example>,
}

impl Packs {
    /// Adds the pack of a file.
    pub(super) fn apply(&mut self, root: Table<'_>, reader: &mut Reader<'_>) {
        root.check(KEYS, reader);
        let Some(name) = root.required_text("pack", reader) else {
            return;
        };
        // An allow-list holds for its pack: nobody else may add to one.
        if self.packs.iter().any(|pack| pack.name == *name.get_ref()) {
            let problem = Problem::error(
                Code::DuplicateId,
                format!("there is another pack `{}`", quote(name.get_ref())),
            )
            .help("a pack is one file; give yours a name of its own");
            return reader.push(name.span(), problem);
        }
        let purpose = root
            .choice("purpose", &PURPOSES, reader)
            .map_or(Purpose::Secrets, Spanned::into_inner);
        let enabled = !root.has("enabled") || root.flag("enabled", reader);
        let name = name.into_inner();
        let allow = root
            .table("allow", reader)
            .map(|table| allow(&name, table, reader))
            .unwrap_or_default();
        let mut pack = Pack {
            name,
            purpose,
            enabled,
            allow,
            entries: Vec::new(),
        };
        for (index, table) in root.tables("rule", reader).into_iter().enumerate() {
            if reader.file.layer == Layer::Workspace && index >= WORKSPACE_RULES {
                let problem = Problem::error(
                    Code::TooLarge,
                    format!("a workspace's pack may have {WORKSPACE_RULES} rules"),
                );
                reader.push(table.span(), problem);
                break;
            }
            let Some((rule, id, examples)) = rule::read(&pack.name, table, reader) else {
                continue;
            };
            let entry = Entry {
                rule,
                file: Arc::clone(reader.file),
                id,
                examples,
            };
            match self.known(&entry.rule.id, &pack) {
                Some(place) => {
                    let problem = Problem::error(
                        Code::DuplicateId,
                        format!("there is another rule `{}`", quote(&entry.rule.id)),
                    )
                    .help(format!("the other one is at {place}"));
                    reader.push(entry.id, problem);
                }
                None => pack.entries.push(entry),
            }
        }
        self.packs.push(pack);
    }

    /// Adds the names of the rosters as a rule of their own.
    pub(super) fn add_names(&mut self, names: BTreeSet<String>) {
        if names.is_empty() {
            return;
        }
        let words = Words::new(names.into_iter().collect(), true);
        self.names = Some(Rule {
            id: NAMES.to_owned(),
            description: "A name of a roster.".to_owned(),
            severity: Severity::High,
            kind: NAMES.to_owned(),
            pack: NAMES.to_owned(),
            keywords: words.keywords(),
            shape: Shape::Words(words),
            conditions: Conditions::default(),
        });
    }

    /// Whether nothing was asked for besides the packs themselves.
    pub(super) const fn is_empty(&self) -> bool {
        self.packs.is_empty() && self.wanted.is_empty() && self.names.is_none()
    }

    /// Takes the `[redaction]` of a `bridge.toml`.
    pub(super) fn switch(&mut self, root: Table<'_>, reader: &mut Reader<'_>) {
        let Some(table) = root.table("redaction", reader) else {
            return;
        };
        table.check(SWITCHES, reader);
        for name in table.texts("packs", reader) {
            self.wanted.push((Arc::clone(reader.file), name));
        }
    }

    /// The rulesets of all packs that are on. `examples`: whether each has to do what it says.
    pub(super) fn finish(&mut self, examples: bool, problems: &mut Vec<Problem>) -> Redaction {
        for (file, name) in &self.wanted {
            match self
                .packs
                .iter_mut()
                .find(|pack| pack.name == *name.get_ref())
            {
                Some(pack) => pack.enabled = true,
                None => {
                    let text = format!("there is no pack `{}`", quote(name.get_ref()));
                    let known: Vec<&str> = self.packs.iter().map(|p| p.name.as_str()).collect();
                    let mut problem = Problem::error(Code::BadValue, text);
                    if !known.is_empty() {
                        let known = crate::policy::diagnostic::alternatives(known);
                        problem = problem.help(format!("the packs are {known}"));
                    }
                    problems.push(problem.at(file, name.span()));
                }
            }
        }
        if problems.iter().any(Problem::is_error) {
            return Redaction::default();
        }
        let redaction = Redaction {
            secrets: self.packed(Purpose::Secrets, problems),
            phi: self.packed(Purpose::Phi, problems),
        };
        if examples {
            self.try_examples(problems);
        }
        redaction
    }

    fn packed(&self, purpose: Purpose, problems: &mut Vec<Problem>) -> Packed {
        let on = |pack: &&Pack| pack.enabled && pack.purpose == purpose;
        let names = self.names.iter().filter(|_| purpose == Purpose::Phi);
        packed(self.packs.iter().filter(on), names.cloned()).unwrap_or_else(|error| {
            problems.push(Problem::error(Code::TooLarge, error.message));
            Packed::default()
        })
    }

    /// Tries the examples of the packs that are on with all of them, and of each other pack alone.
    fn try_examples(&self, problems: &mut Vec<Problem>) {
        let (on, off): (Vec<&Pack>, Vec<&Pack>) = self.packs.iter().partition(|pack| pack.enabled);
        for packs in std::iter::once(on).chain(off.into_iter().map(|pack| vec![pack])) {
            let opened = packed(packs.iter().copied(), None).map(|packed| packed.open());
            if let Ok(Ok(rules)) = opened {
                packs
                    .iter()
                    .for_each(|pack| try_pack(pack, &rules, problems));
            }
        }
    }

    /// Where the rule of that id is, if there is one.
    fn known(&self, id: &str, last: &Pack) -> Option<String> {
        let packs = self.packs.iter().chain([last]);
        let entry = packs
            .flat_map(|pack| &pack.entries)
            .find(|entry| entry.rule.id == id)?;
        let (line, column) = crate::policy::diagnostic::place(&entry.file.text, entry.id.start);
        Some(format!("{}:{line}:{column}", entry.file.path))
    }
}

fn try_pack(pack: &Pack, rules: &Ruleset, problems: &mut Vec<Problem>) {
    for entry in &pack.entries {
        for example in &entry.examples {
            if let Err(text) = example.try_with(rules) {
                let problem = Problem::error(Code::FailedExample, text);
                problems.push(problem.at(&entry.file, example.span()));
            }
        }
    }
}

fn packed<'a>(
    packs: impl Iterator<Item = &'a Pack>,
    names: impl IntoIterator<Item = Rule>,
) -> Result<Packed, RuleError> {
    let (mut rules, mut lists) = (Vec::from_iter(names), Vec::new());
    for pack in packs {
        rules.extend(pack.entries.iter().map(|entry| entry.rule.clone()));
        lists.push(pack.allow.clone());
    }
    Packed::new(&rules, &lists)
}

fn allow(pack: &str, table: Table<'_>, reader: &mut Reader<'_>) -> Allow {
    table.check(ALLOW, reader);
    let patterns = table.texts("patterns", reader);
    for pattern in &patterns {
        expression(pattern, reader);
    }
    Allow {
        pack: pack.to_owned(),
        exact: lower(table.texts("exact", reader)),
        values: lower(table.texts("values", reader)),
        patterns: patterns.into_iter().map(Spanned::into_inner).collect(),
    }
}

/// Notes what is wrong with an expression. Where somebody waits, it is compiled when it is needed:
/// what does not compile then withholds the text.
fn expression(source: &Spanned<String>, reader: &mut Reader<'_>) {
    if reader.thorough
        && let Err(text) = check_expression(source.get_ref())
    {
        let problem = Problem::error(Code::BadPattern, text)
            .help("look-around, back-references and Unicode classes are not supported");
        reader.push(source.span(), problem);
    }
}

fn lower(texts: Vec<Spanned<String>>) -> Vec<String> {
    texts
        .into_iter()
        .map(|text| text.into_inner().to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests;
