//! Which room may import from which. The test names the file and the rooms that break the plan.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot read the tree has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each room, its floor, and the rooms on its own floor that it may use.
const ROOMS: &[(&str, u8, &[&str])] = &[
    ("engine", 0, &[]),
    ("wire", 0, &[]),
    ("facts", 1, &[]),
    ("audit", 1, &[]),
    ("log", 1, &["audit"]),
    ("config", 1, &[]),
    ("keys", 1, &["audit"]),
    ("approvals", 1, &["audit", "keys"]),
    ("policy", 1, &["audit", "keys"]),
    ("gate", 2, &[]),
    ("openclaw", 3, &[]),
    ("sandbox", 3, &[]),
    ("scrub", 3, &[]),
    ("ship", 3, &[]),
    ("distribution", 3, &[]),
    ("http", 3, &[]),
    ("upstream", 3, &[]),
    ("workbench", 3, &[]),
    ("hook", 4, &[]),
    ("mcp", 4, &[]),
    ("setup", 5, &["hook"]),
    ("cli", 5, &["setup", "exit"]),
    ("exit", 5, &[]),
];

/// No file is longer.
const LINES: usize = 800;

#[test]
fn no_room_imports_from_above() {
    let mut broken = Vec::new();
    for (room, file) in files() {
        let text = code(&file);
        for used in imports(&text) {
            if used == room || allowed(&room, &used) {
                continue;
            }
            broken.push(format!(
                "{}: `{room}` may not import `{used}`",
                file.display()
            ));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_room_has_a_floor() {
    let known: BTreeSet<&str> = ROOMS.iter().map(|(room, ..)| *room).collect();
    let found: BTreeSet<String> = files().into_iter().map(|(room, _)| room).collect();
    let unlisted: Vec<_> = found
        .iter()
        .filter(|room| !known.contains(room.as_str()))
        .collect();
    assert!(unlisted.is_empty(), "rooms without a floor: {unlisted:?}");
    let gone: Vec<_> = known
        .iter()
        .filter(|room| !found.contains(**room))
        .collect();
    assert!(gone.is_empty(), "floors without a room: {gone:?}");
}

#[test]
fn no_file_is_too_long() {
    for (_, file) in files() {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= LINES, "{} has {lines} lines", file.display());
    }
}

#[test]
fn a_planted_import_is_found() {
    assert_eq!(imports("use crate::gate::Gate;\n"), ["gate"]);
    assert_eq!(
        imports("let x = crate::hook::run();\nuse crate::{engine::x, facts};"),
        ["hook", "engine", "facts"]
    );
    assert!(!allowed("engine", "gate"));
    assert!(!allowed("facts", "audit"));
    assert!(!allowed("nobody", "engine"));
    assert!(allowed("gate", "facts"));
    assert!(allowed("policy", "audit"));
}

#[test]
fn words_that_belong_to_one_room_stand_nowhere_else() {
    for (word, home) in [
        (
            "\"permissionDecision\"",
            &["hook/dialect/", "audit/mirror/seed.rs"][..],
        ),
        ("hookSpecificOutput", &["hook/dialect/claude.rs"]),
        ("println!", &[]),
    ] {
        for (_, file) in files() {
            let path = file.to_str().unwrap().replace('\\', "/");
            if home.iter().any(|home| path.contains(home)) {
                continue;
            }
            assert!(!code(&file).contains(word), "{path} holds {word}");
        }
    }
}

fn allowed(room: &str, used: &str) -> bool {
    let floors: BTreeMap<&str, (u8, &[&str])> = ROOMS
        .iter()
        .map(|(room, floor, own)| (*room, (*floor, *own)))
        .collect();
    match (floors.get(room), floors.get(used)) {
        (Some((floor, own)), Some((other, _))) => other < floor || own.contains(&used),
        _ => false,
    }
}

/// The rooms that a file names behind `crate::`.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = text.get(at + 7..).unwrap_or_default();
        if let Some(group) = rest.strip_prefix('{') {
            let group = group.split('}').next().unwrap_or_default();
            found.extend(group.split(',').map(|item| word(item.trim())));
        } else {
            found.push(word(rest));
        }
    }
    found.retain(|room| !room.is_empty() && room.chars().all(|c| c.is_lowercase() || c == '_'));
    found
}

fn word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// A file without its tests.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn files() -> Vec<(String, PathBuf)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&source, &source, &mut found);
    assert!(found.len() > 10, "the tree was not found");
    found
}

fn walk(source: &Path, dir: &Path, found: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(source, &path, found);
            continue;
        }
        let inner = path.strip_prefix(source).unwrap();
        let first = inner
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap();
        let room = first.trim_end_matches(".rs");
        if path.extension().is_none_or(|extension| extension != "rs") {
            panic!("{} is no Rust file", path.display());
        }
        // `lib.rs` and `main.rs` are the doorplate, not rooms.
        if !matches!(first, "lib.rs" | "main.rs") {
            found.push((room.to_owned(), path.clone()));
        }
    }
}
