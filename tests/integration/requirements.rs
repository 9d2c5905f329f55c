//! `docs/requirements.md` is complete, and what it says of our tests is true.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Each source: its number, how many rows it has, and those that ask nothing of this program.
const SOURCES: &[(&str, u8, &[u8])] = &[
    ("000", 68, &[11]),
    ("001", 32, &[1, 3, 5, 6, 9, 10, 11, 18, 20, 21, 22, 28, 31]),
    ("002", 21, &[18, 21]),
    (
        "003",
        65,
        &[3, 5, 9, 10, 11, 22, 24, 30, 34, 36, 41, 43, 47, 55, 56, 57],
    ),
    ("004", 40, &[]),
];

/// What a row may wait for.
const TO_COME: &[&str] = &[
    "containment",
    "redaction",
    "record",
    "workbench",
    "mcp",
    "sessions",
    "webhook",
    "recipe",
];

const HELD: &str = "held by ";
const REPLACED: &str = "replaced: ";
const WAITS: &str = "waits for: ";

#[test]
fn every_requirement_has_its_place() {
    let problems = problems(&document());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_planted_lie_is_found() {
    let row = document()
        .lines()
        .find(|line| line.starts_with("| R-000-31 |"))
        .unwrap()
        .to_owned();
    let here = "tests/integration/requirements.rs";
    for (planted, found) in [
        (String::new(), "R-000-31: it is missing"),
        (format!("{row}\n{row}"), "R-000-31: it stands there twice"),
        (with_state("held by nobody"), "it names no test"),
        (
            with_state("held by `src/gone.rs: t`"),
            "there is no src/gone.rs",
        ),
        (
            with_state(&format!("held by `{here}: no_such_test`")),
            "has no test `no_such_test`",
        ),
        (
            with_state(&format!("held by `{here}: problems`")),
            "has no test `problems`",
        ),
        (with_state("replaced: "), "it gives no reason"),
        (
            with_state("waits for: spring"),
            "`spring` is nothing to wait for",
        ),
        (with_state("waits for: mcp; replaced: x"), "it has 2 states"),
        (with_state("done"), "it has 0 states"),
        (
            format!("{row}\n{}", row.replace("-31", "-99")),
            "R-000-99: nobody asks for it",
        ),
        (format!("{row} more |"), "it has 4 cells"),
    ] {
        let problems = problems(&document().replace(&row, &planted));
        assert!(
            problems.iter().any(|problem| problem.contains(found)),
            "`{planted}` was not found to be `{found}`: {problems:?}"
        );
    }
}

fn with_state(state: &str) -> String {
    format!("| R-000-31 | It asks. | {state} |")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/requirements.md")).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Everything that is wrong with the list.
fn problems(document: &str) -> Vec<String> {
    let asked = asked();
    let mut listed = BTreeSet::new();
    let mut problems = Vec::new();
    for row in document.lines().filter(|line| line.starts_with("| R-")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let id = cells.first().copied().unwrap_or_default();
        let mut wrong = Vec::new();
        if !asked.contains(id) {
            wrong.push("nobody asks for it".to_owned());
        }
        if !listed.insert(id) {
            wrong.push("it stands there twice".to_owned());
        }
        match cells.as_slice() {
            [_, text, state] => {
                if text.is_empty() {
                    wrong.push("it does not say what it asks".to_owned());
                }
                check_state(state, &mut wrong);
            }
            cells => wrong.push(format!("it has {} cells", cells.len())),
        }
        problems.extend(wrong.into_iter().map(|wrong| format!("{id}: {wrong}")));
    }
    let missing = asked.iter().filter(|id| !listed.contains(id.as_str()));
    problems.extend(missing.map(|id| format!("{id}: it is missing")));
    problems
}

/// The ids of every row that asks something of this program.
fn asked() -> BTreeSet<String> {
    SOURCES
        .iter()
        .flat_map(|(source, rows, others)| {
            (1..=*rows)
                .filter(|row| !others.contains(row))
                .map(move |row| format!("R-{source}-{row:02}"))
        })
        .collect()
}

fn check_state(state: &str, wrong: &mut Vec<String>) {
    let states: usize = [HELD, REPLACED, WAITS]
        .iter()
        .map(|mark| format!("{state} ").matches(mark).count())
        .sum();
    if states != 1 {
        wrong.push(format!("it has {states} states"));
    }
    let tests = tests_named(state);
    if state.starts_with(HELD) {
        if tests.is_empty() {
            wrong.push("it names no test".to_owned());
        }
    } else if let Some(names) = state.strip_prefix(WAITS) {
        for name in names.split(';').next().unwrap_or_default().split(',') {
            if !TO_COME.contains(&name.trim()) {
                wrong.push(format!("`{}` is nothing to wait for", name.trim()));
            }
        }
    } else if state.trim_end() == REPLACED.trim_end() {
        wrong.push("it gives no reason".to_owned());
    } else if !state.starts_with(REPLACED) {
        wrong.push("it does not begin with a state".to_owned());
    }
    for (file, test) in tests {
        match fs::read_to_string(root().join(file)) {
            Err(_) => wrong.push(format!("there is no {file}")),
            Ok(text) if !has_test(&text, test) => {
                wrong.push(format!("{file} has no test `{test}`"));
            }
            Ok(_) => {}
        }
    }
}

/// The tests that a state names: `` `file.rs: function` ``.
fn tests_named(state: &str) -> Vec<(&str, &str)> {
    state
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once(".rs: ").map(|_| code))
        .filter_map(|code| code.split_once(": "))
        .collect()
}

/// Whether the text has a function of that name that is a test and is run.
fn has_test(text: &str, name: &str) -> bool {
    text.split_once(&format!("fn {name}("))
        // `#[test]` or `#[tokio::test]`.
        .and_then(|(before, _)| before.rsplit_once("test]"))
        .is_some_and(|(_, between)| !between.contains("fn ") && !between.contains("#[ignore"))
}
