//! Which settings came, went or changed, by their dotted names. Where a line stands says nothing.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Side;
use crate::policy::source::SourceFile;

/// A setting that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// The file, as `bridge.toml`; with its layer, if that is not the base.
    pub file: String,
    /// The dotted name, as `limits.depth`.
    pub key: String,
    /// What is not the same.
    pub change: Change,
}

/// What is not the same of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// One value took the place of another; nothing stands for a setting that is not there.
    Value(Option<String>, Option<String>),
    /// Members of a list came and went.
    Members {
        /// Those that came.
        added: Vec<String>,
        /// Those that went.
        removed: Vec<String>,
    },
    /// The same entries stand in another order, and the first one that fits counts.
    Order,
    /// Names in a roster came and went. They are people's, and are not shown.
    Names {
        /// How many came.
        added: usize,
        /// How many went.
        removed: usize,
    },
}

/// The longest value that is shown whole, in characters.
const LONGEST: usize = 120;

/// The lists of `bridge.toml` of which the first entry that fits counts.
const ORDERED: [&str; 1] = ["error"];

impl SettingChange {
    /// Whether it changes what is true of a call, before any policy is asked.
    #[must_use]
    pub fn is_about_facts(&self) -> bool {
        self.name() != "bridge.toml" && !self.says_nothing()
    }

    /// Whether an answer may be another one for it.
    #[must_use]
    pub fn decides(&self) -> bool {
        let deciding = [
            "mode",
            "harmless_tools",
            "limits.depth",
            "limits.event_bytes",
            "audit.on_failure",
        ];
        self.is_about_facts()
            || (self.name() == "bridge.toml" && deciding.contains(&self.key.as_str()))
    }

    /// Examples prove that a pattern means what it should; they match nothing.
    fn says_nothing(&self) -> bool {
        let last = self.key.rsplit('.').next().unwrap_or_default();
        ["examples", "counterexamples", "description", "severity"].contains(&last)
    }

    fn name(&self) -> &str {
        self.file.rsplit(' ').next().unwrap_or_default()
    }
}

/// The settings that are not the same, in the order of files and names.
pub(super) fn changes(old: &Side, new: &Side) -> Vec<SettingChange> {
    let [before, after] = [old, new].map(files);
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let mut found = Vec::new();
    for name in names {
        let text = |files: &BTreeMap<String, &SourceFile>| {
            files
                .get(name)
                .map_or("", |file| file.text.as_str())
                .to_owned()
        };
        let (a, b) = (text(&before), text(&after));
        if name.ends_with(".txt") {
            found.extend(roster(name, &a, &b));
            continue;
        }
        let table = |text: &str| text.parse::<Table>().unwrap_or_default();
        let (a, b) = (table(&a), table(&b));
        compare(name, "", &a, &b, &mut found);
    }
    found
}

/// The files by their names. The base layer of one side is that of the other, whoever owns it.
fn files(side: &Side) -> BTreeMap<String, &SourceFile> {
    let base = side.sources.first().map(|source| source.layer);
    let mut found = BTreeMap::new();
    for source in &side.sources {
        for file in &source.files {
            if file.name.ends_with(".cedar") {
                continue;
            }
            let name = match Some(source.layer) == base {
                true => file.name.clone(),
                false => format!("{} {}", source.layer, file.name),
            };
            found.insert(name, &**file);
        }
    }
    found
}

fn roster(file: &str, old: &str, new: &str) -> Option<SettingChange> {
    let names = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().map(str::trim);
        let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        names.map(str::to_owned).collect()
    };
    let (old, new) = (names(old), names(new));
    (old != new).then(|| SettingChange {
        file: file.to_owned(),
        key: String::new(),
        change: Change::Names {
            added: new.difference(&old).count(),
            removed: old.difference(&new).count(),
        },
    })
}

fn compare(file: &str, prefix: &str, old: &Table, new: &Table, found: &mut Vec<SettingChange>) {
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let name = match prefix {
            "" => key.clone(),
            prefix => format!("{prefix}.{key}"),
        };
        value(file, &name, old.get(key), new.get(key), found);
    }
}

fn value(
    file: &str,
    name: &str,
    old: Option<&Value>,
    new: Option<&Value>,
    found: &mut Vec<SettingChange>,
) {
    let mut note = |change| {
        found.push(SettingChange {
            file: file.to_owned(),
            key: name.to_owned(),
            change,
        });
    };
    let empty = Value::Array(Vec::new());
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Table(old)), Some(Value::Table(new))) => compare(file, name, old, new, found),
        (old, new) if [old, new].into_iter().flatten().all(Value::is_array) => {
            let [old, new] = [old, new].map(|side| side.unwrap_or(&empty).as_array());
            let (old, new) = (old.map_or(&[][..], |v| v), new.map_or(&[][..], |v| v));
            if old.iter().chain(new).any(Value::is_table) {
                return entries(file, name, old, new, found);
            }
            let members = |all: &[Value]| all.iter().map(shown).collect::<BTreeSet<_>>();
            let (old, new) = (members(old), members(new));
            if old != new {
                note(Change::Members {
                    added: new.difference(&old).cloned().collect(),
                    removed: old.difference(&new).cloned().collect(),
                });
            }
        }
        (old, new) => note(Change::Value(old.map(shown), new.map(shown))),
    }
}

/// Entries of a list are told apart by what names them, not by where they stand.
fn entries(file: &str, name: &str, old: &[Value], new: &[Value], found: &mut Vec<SettingChange>) {
    let [before, after] = [old, new].map(named);
    let find = |all: &[(String, Table)], key: &str| -> Option<Value> {
        let entry = all.iter().find(|(known, _)| known == key);
        entry.map(|(_, table)| Value::Table(table.clone()))
    };
    let mut keys: Vec<&String> = before.iter().chain(&after).map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (a, b) = (find(&before, key), find(&after, key));
        value(
            file,
            &format!("{name}.{key}"),
            a.as_ref(),
            b.as_ref(),
            found,
        );
    }
    let order = |all: &[(String, Table)], other: &[(String, Table)]| -> Vec<String> {
        let keys = all.iter().map(|(key, _)| key.clone());
        keys.filter(|key| other.iter().any(|(known, _)| known == key))
            .collect()
    };
    if ORDERED.contains(&name) && order(&before, &after) != order(&after, &before) {
        found.push(SettingChange {
            file: file.to_owned(),
            key: name.to_owned(),
            change: Change::Order,
        });
    }
}

/// Each entry with its name; the second of one name is `name#2`.
fn named(entries: &[Value]) -> Vec<(String, Table)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let tables = entries.iter().filter_map(Value::as_table);
    tables
        .map(|table| {
            let name = name_of(table);
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let name = match count {
                1 => name,
                number => format!("{name}#{number}"),
            };
            (name, table.clone())
        })
        .collect()
}

fn name_of(table: &Table) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("|"),
        other => other.to_string(),
    };
    let naming = [
        "id",
        "name",
        "class",
        "names",
        "programs",
        "program",
        "subcommands",
        "with",
    ];
    let parts = naming.iter().filter_map(|key| table.get(*key)).map(text);
    let name = parts.collect::<Vec<_>>().join(" ");
    shorten(if name.is_empty() { "entry" } else { &name })
}

fn shown(value: &Value) -> String {
    shorten(&value.to_string().replace('\n', " "))
}

fn shorten(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> Vec<String> {
        let mut found = Vec::new();
        let table = |text: &str| text.parse::<Table>().unwrap();
        compare("bridge.toml", "", &table(old), &table(new), &mut found);
        let line = |change: &SettingChange| format!("{} {:?}", change.key, change.change);
        found.iter().map(line).collect()
    }

    #[test]
    fn what_moved_is_no_change() {
        let old = "a = 1 # one\nb = [\"x\", \"y\"]\n[[p]]\nid = \"q\"\nv = 1\n[[p]]\nid = \"r\"";
        let new = "b = [\n  \"y\",\n  \"x\"\n]\na = 1\n[[p]]\nid = \"r\"\n[[p]]\nv = 1\nid = \"q\"";
        assert_eq!(diff(old, new), [""; 0]);
    }

    #[test]
    fn changes_have_dotted_names() {
        assert_eq!(
            diff(
                "[limits]\ndepth = 3\n[[p]]\nid = \"q\"\nv = [\"a\"]",
                "[limits]\ndepth = 4\nbytes = 1\n[[p]]\nid = \"q\"\nv = [\"b\"]"
            ),
            [
                "limits.bytes Value(None, Some(\"1\"))",
                "limits.depth Value(Some(\"3\"), Some(\"4\"))",
                "p.q.v Members { added: [\"\\\"b\\\"\"], removed: [\"\\\"a\\\"\"] }",
            ]
        );
    }

    #[test]
    fn the_order_of_error_rules_counts() {
        let rules = |a, b| format!("[[error]]\nclass = \"{a}\"\n[[error]]\nclass = \"{b}\"");
        assert_eq!(diff(&rules("x", "y"), &rules("y", "x")), ["error Order"]);
        assert_eq!(diff(&rules("x", "y"), &rules("x", "y")), [""; 0]);
    }

    #[test]
    fn names_of_people_are_counted_and_not_shown() {
        let change = roster("rosters/a.txt", "# x\nA B\nC D\n", "C D\nE F\n").unwrap();
        let names = Change::Names {
            added: 1,
            removed: 1,
        };
        assert_eq!(change.change, names);
        assert_eq!(roster("rosters/a.txt", "A B\n# y\n", "\nA B"), None);
    }
}
