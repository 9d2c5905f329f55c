//! `policy lint`: what it finds, what it does not, and what its own documentation says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/policy_lint");

fn lint(stage: &Stage, dir: &Path, more: &[&str]) -> Answer {
    let mut command = stage.command(&["policy", "lint", "--policies"]);
    command
        .arg(dir)
        .arg("--state")
        .arg(stage.state())
        .args(more);
    run(command)
}

/// `FILE:LINE: code: underlined text`, of each finding; only the name of the file.
fn findings(answer: &Answer) -> BTreeSet<String> {
    let json = answer.json();
    let problems = json["problems"].as_array().unwrap();
    problems.iter().map(finding).collect()
}

fn finding(problem: &Value) -> String {
    let file = problem["file"].as_str().unwrap();
    let name = Path::new(file).file_name().unwrap().to_str().unwrap();
    let line = problem["line"].as_u64().unwrap_or(0);
    let text = fs::read_to_string(file).unwrap();
    let row = usize::try_from(line).unwrap().saturating_sub(1);
    let row: Vec<char> = text.lines().nth(row).unwrap_or_default().chars().collect();
    let column = |name: &str| {
        problem[name]
            .as_u64()
            .and_then(|at| usize::try_from(at - 1).ok())
    };
    let end = match problem["end_line"] == problem["line"] {
        true => column("end_column").unwrap_or(0),
        false => row.len(),
    };
    let under: String = row[column("column").unwrap_or(0)..end].iter().collect();
    format!(
        "{name}:{line}: {}: {}",
        problem["code"].as_str().unwrap(),
        under
    )
}

/// What the marks of a file expect: `//~ code` or `//~ code: underlined text` behind the line, `//^`
/// below it.
fn marks(name: &str, text: &str, first: usize) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (mark, up) in [("//~ ", 0), ("#~ ", 0), ("//^ ", 1)] {
            for part in line.split(mark).skip(1) {
                found.push(format!("{name}:{}: {}", first + at - up, part.trim()));
            }
        }
    }
    found
}

/// Lays the files of a fixture over the default policies; what its marks expect.
fn lay(stage: &Stage, dir: &Path, from: &Path) -> Vec<String> {
    let mut expected = Vec::new();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            let below = match name {
                "workspace" => stage.path("ws/.copilot-bridge/policies"),
                _ => dir.join(name),
            };
            fs::create_dir_all(&below).unwrap();
            expected.extend(lay(stage, &below, &path));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let (name, before) = match name.strip_suffix(".append") {
            Some(name) => (name, fs::read_to_string(dir.join(name)).unwrap()),
            None => (name, String::new()),
        };
        expected.extend(marks(name, &text, before.lines().count() + 1));
        fs::write(dir.join(name), before + &text).unwrap();
    }
    expected
}

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir(FIXTURES).unwrap();
    let mut cases: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

#[test]
fn planted_defects_are_found_at_their_places_and_nothing_else() {
    let mut planted = 0;
    for case in cases() {
        let stage = Stage::new();
        let dir = stage.policies();
        let expected = lay(&stage, &dir, &case);
        planted += expected.len();
        let answer = lint(&stage, &dir, &["--format", "json", "--fail-on", "note"]);
        let found = findings(&answer);
        let matches = |expected: &String, found: &String| {
            expected == found
                || (expected.matches(": ").count() == 1
                    && found.starts_with(&format!("{expected}: ")))
        };
        let missed: Vec<_> = expected
            .iter()
            .filter(|expected| !found.iter().any(|found| matches(expected, found)))
            .collect();
        let false_ones: Vec<_> = found
            .iter()
            .filter(|found| !expected.iter().any(|expected| matches(expected, found)))
            .collect();
        assert!(
            missed.is_empty() && false_ones.is_empty(),
            "{}\nmissed: {missed:#?}\nfound: {false_ones:#?}",
            case.display()
        );
        assert_eq!(
            answer.code,
            i32::from(!expected.is_empty()),
            "{}",
            case.display()
        );
    }
    assert!(planted >= 60, "{planted}");
}

#[test]
fn the_default_policies_are_clean() {
    let stage = Stage::new();
    let answer = lint(&stage, &stage.policies(), &["--fail-on", "note"]);
    assert_eq!(answer.code, 0, "{}", answer.text);
    assert!(answer.text.starts_with("ok: "), "{}", answer.text);
}

#[test]
fn what_cannot_be_used_is_not_linted() {
    let stage = Stage::new();
    let dir = stage.policies();
    fs::write(dir.join("broken.cedar"), "permit(principal,\n").unwrap();
    let answer = lint(&stage, &dir, &[]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("broken.cedar:"), "{answer:?}");
    assert_eq!(lint(&stage, &dir, &["--hipaa"]).code, 3);
}

#[test]
fn a_note_fails_only_where_that_is_wanted() {
    let stage = Stage::new();
    let dir = stage.policies();
    let path = dir.join("bridge.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("mode = \"enforce\"", "mode = \"monitor\""),
    )
    .unwrap();
    assert_eq!(lint(&stage, &dir, &[]).code, 0);
    let strict = lint(&stage, &dir, &["--fail-on", "note"]);
    assert_eq!(strict.code, 1);
    assert!(strict.text.contains("note[monitor-only]"), "{strict:?}");
    assert!(strict.text.contains("bridge.toml:7:8"), "{strict:?}");
    assert!(strict.text.ends_with("1 note\n"), "{strict:?}");
}

#[test]
fn one_rule_can_be_looked_for() {
    let stage = Stage::new();
    let dir = stage.policies();
    lay(&stage, &dir, &Path::new(FIXTURES).join("shadowed"));
    lay(&stage, &dir, &Path::new(FIXTURES).join("misc"));
    let more = ["--format", "json", "--rule", "unrecorded"];
    let found = findings(&lint(&stage, &dir, &more));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found.first().unwrap().contains("unrecorded"), "{found:?}");
    let unknown = lint(&stage, &dir, &["--rule", "shadwed"]);
    assert_eq!(unknown.code, 64);
    assert!(
        unknown.errors.contains("did you mean `shadowed`?"),
        "{unknown:?}"
    );
    // A comment that silences another rule is none of this one's business.
    let clean = stage.path("clean");
    fs::rename(&dir, stage.path("used")).unwrap();
    fs::rename(stage.policies(), &clean).unwrap();
    assert_eq!(lint(&stage, &clean, &["--rule", "dead-policy"]).code, 0);
    assert_eq!(lint(&stage, &clean, &["--rule", "unused-ignore"]).code, 0);
}

#[test]
fn code_hosts_are_told_in_their_own_forms() {
    let stage = Stage::new();
    let dir = stage.policies();
    lay(&stage, &dir, &Path::new(FIXTURES).join("misc"));
    let github = lint(&stage, &dir, &["--format", "github"]).text;
    assert!(
        github.contains("::notice title=monitor-only,file="),
        "{github}"
    );
    assert!(
        github.contains(",line=2,endLine=2,col=1,endColumn=17::"),
        "{github}"
    );
    assert!(github.contains("::warning title=unrecorded,"), "{github}");
    let sarif = lint(&stage, &dir, &["--format", "sarif"]).json();
    let levels: BTreeSet<&str> = sarif["runs"][0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["level"].as_str().unwrap())
        .collect();
    assert_eq!(levels, ["note", "warning"].into());
}

/// The rules, as `--explain all` lists them.
fn rules(stage: &Stage) -> Vec<String> {
    let listed = run(stage.command(&["policy", "lint", "--explain", "all"])).text;
    listed
        .lines()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_example_of_the_documentation_is_found() {
    let stage = Stage::new();
    let rules = rules(&stage);
    assert!(rules.len() >= 20, "{rules:?}");
    for rule in rules {
        let stage = Stage::new();
        let dir = stage.policies();
        lay(&stage, &dir, &Path::new(FIXTURES).join("good"));
        fs::remove_file(dir.join("extra.cedar")).unwrap();
        let text = run(stage.command(&["policy", "lint", "--explain", &rule])).text;
        assert!(
            text.starts_with(&format!("### `{rule}`\n")),
            "{rule}: {text}"
        );
        let (_, block) = text.split_once("```").unwrap();
        let (block, after) = block.split_once("```").unwrap();
        assert!(after.trim().len() > 10, "{rule} does not say what to do");
        let (language, block) = block.split_once('\n').unwrap();
        let (file, block) = match language {
            "cedar" => ("extra.cedar", block),
            _ => block.strip_prefix("# ").unwrap().split_once('\n').unwrap(),
        };
        let path = dir.join(file);
        let old = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, with(&old, block)).unwrap();
        let json = lint(&stage, &dir, &["--format", "json", "--fail-on", "note"]).json();
        let codes: BTreeSet<&str> = json["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|problem| problem["code"].as_str().unwrap())
            .collect();
        let own = BTreeSet::from([rule.as_str()]);
        // A comment that silences nothing leaves what it should have silenced.
        let with_it = match rule.as_str() {
            "bad-ignore" => BTreeSet::from(["bad-ignore", "dead-policy"]),
            // What permits everything leaves nothing to the other permits.
            "over-broad" => BTreeSet::from(["over-broad", "shadowed"]),
            _ => own,
        };
        assert_eq!(codes, with_it, "{rule}");
    }
}

/// A file with an example in it: `key = value` of a file that has the key takes its place.
fn with(old: &str, block: &str) -> String {
    let line = block.lines().next().unwrap();
    let key = line.split(" = ").next().unwrap();
    let starts = format!("{key} = ");
    if line.contains(" = ") && !line.starts_with('#') && old.contains(&starts) {
        let lines = old.lines().map(|old| match old.starts_with(&starts) {
            true => line,
            false => old,
        });
        return lines.collect::<Vec<_>>().join("\n") + "\n";
    }
    format!("{old}\n{block}")
}

#[test]
fn a_rule_that_is_none_cannot_be_explained() {
    let stage = Stage::new();
    let answer = run(stage.command(&["policy", "lint", "--explain", "over-brod"]));
    assert_eq!(answer.code, 64);
    assert!(
        answer.errors.contains("did you mean `over-broad`?"),
        "{answer:?}"
    );
}

/// The states of the rows by their ids.
fn rows(answer: &Answer) -> Vec<(String, String, Value)> {
    let json = answer.json();
    assert_eq!(
        (&json["version"], &json["checklist"]),
        (&json!(1), &json!("hipaa"))
    );
    let rows = json["rows"].as_array().unwrap();
    rows.iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            assert!(
                !text("says").is_empty() && !text("basis").is_empty(),
                "{row}"
            );
            (text("id"), text("state"), row["evidence"].clone())
        })
        .collect()
}

#[test]
fn the_health_checklist_is_answered_row_by_row() {
    let stage = Stage::new();
    let dir = stage.policies();
    // Nobody is named: whoever asks for the checklist is told.
    let bare = lint(&stage, &dir, &["--hipaa", "--format", "json"]);
    assert_eq!(bare.code, 1);
    let failed = |answer: &Answer| -> Vec<String> {
        let rows = rows(answer).into_iter();
        rows.filter(|(_, state, _)| state == "fail")
            .map(|(id, ..)| id)
            .collect()
    };
    assert_eq!(
        failed(&bare),
        ["01", "02", "04", "05", "06", "07", "16"].map(|id| format!("hipaa-{id}"))
    );
    lay(&stage, &dir, &Path::new(FIXTURES).join("good"));
    fs::remove_file(dir.join("extra.cedar")).unwrap();
    let answer = lint(&stage, &dir, &["--hipaa", "--format", "json"]);
    let all = rows(&answer);
    assert_eq!(answer.code, 0, "{all:#?}");
    let ids: Vec<String> = all.iter().map(|(id, ..)| id.clone()).collect();
    let expected: Vec<String> = (1..=all.len()).map(|n| format!("hipaa-{n:02}")).collect();
    assert_eq!(ids, expected);
    let unknown: Vec<&str> = all
        .iter()
        .filter(|(_, state, _)| state == "unknown")
        .map(|(id, ..)| id.strip_prefix("hipaa-").unwrap())
        .collect();
    assert_eq!(unknown, ["10", "11", "18", "20", "21"]);
    let evidence = |id: &str| {
        all.iter()
            .find(|(own, ..)| own == id)
            .unwrap()
            .2
            .to_string()
    };
    assert!(
        evidence("hipaa-01").contains("entities.toml:4\""),
        "{all:#?}"
    );
    assert!(evidence("hipaa-12").contains("bridge.toml:7\""), "{all:#?}");
    assert!(
        evidence("hipaa-05").contains("permission.cedar:"),
        "{all:#?}"
    );
    // Each of these makes its row fail, and no other.
    for (file, from, to, row) in [
        (
            "bridge.toml",
            "mode = \"enforce\"",
            "mode = \"monitor\"",
            "12",
        ),
        (
            "bridge.toml",
            "on_failure = \"deny\"",
            "on_failure = \"allow\"",
            "14",
        ),
        (
            "bridge.toml",
            "retention_days = 0",
            "retention_days = 2191",
            "17",
        ),
        ("entities.toml", "rosters = [\"everest.txt\"]\n", "", "04"),
        ("rosters/everest.txt", "Example Resident", "# nobody", "04"),
        (
            "autonomy.cedar",
            "@id(\"ask-kill\")",
            "@mode(\"monitor\")\n@id(\"ask-kill\")",
            "13",
        ),
        (
            "permission.cedar",
            "unless { resource.tier != \"\" || resource.trust != \"\" };",
            "when { resource.known };",
            "08",
        ),
        (
            "permission.cedar",
            "@obligation(\"redact:phi\")\n@reason(\"a tool's",
            "@reason(\"a tool's",
            "06",
        ),
        (
            "permission.cedar",
            "@obligation(\"redact:phi\")\n@reason(\"a person's",
            "@reason(\"a person's",
            "05",
        ),
        (
            "containment.cedar",
            "when { resource.labels.containsAny([\"network\", \"remote\"]) };",
            "when { resource.labels.containsAny([\"publishes\"]) };",
            "09",
        ),
    ] {
        let path = dir.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let answer = lint(&stage, &dir, &["--hipaa", "--format", "json"]);
        let failed = failed(&answer);
        assert!(
            failed.contains(&format!("hipaa-{row}")),
            "{row}: {failed:?}"
        );
        assert_eq!(answer.code, 1);
        if matches!(row, "05" | "06") {
            let json = ["--format", "json", "--rule", "phi-not-redacted"];
            let found = findings(&lint(&stage, &dir, &json));
            let at = "entities.toml:4: phi-not-redacted: \"Everest\"".to_owned();
            assert_eq!(found, [at].into(), "{row}");
        }
        fs::write(&path, text).unwrap();
    }
    // 2192 days are six years, with two leap days.
    let path = dir.join("bridge.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("retention_days = 0", "retention_days = 2192"),
    )
    .unwrap();
    let text = lint(&stage, &dir, &["--hipaa"]);
    assert_eq!(text.code, 0, "{}", text.text);
    assert!(text.text.contains("hipaa-17 pass "), "{}", text.text);
    assert!(
        text.text.ends_with("16 pass, 0 fail, 5 unknown\n"),
        "{}",
        text.text
    );
    assert_eq!(
        lint(&stage, &dir, &["--hipaa", "--format", "sarif"]).code,
        64
    );
}
