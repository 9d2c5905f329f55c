//! Defects that were planted for the purpose: each is reported with its line.
//!
//! `tests/fixtures/defects/VERB/NAME/` holds files that lie over the default policies; those in
//! `workspace/` are a workspace's own. The line that has to be named ends with `<- CODE`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::program::{Stage, run};

#[test]
fn check_names_the_line_of_each_planted_defect() {
    assert!(planted("check") >= 20);
}

#[test]
fn lint_names_the_line_of_each_planted_defect() {
    assert!(planted("lint") >= 9);
}

#[test]
fn test_names_the_line_of_each_planted_defect() {
    assert!(planted("test") >= 3);
}

/// Its owner is a file's, not a line's.
#[cfg(unix)]
#[test]
fn check_names_the_file_that_others_may_write() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    let base = stage.policies();
    let open = base.join("autonomy.cedar");
    fs::set_permissions(&open, PermissionsExt::from_mode(0o666)).unwrap();
    let problems = problems("check", &stage, &base);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0]["code"], "unsafe-file");
    assert_eq!(problems[0]["file"], open.to_str().unwrap());
}

/// Runs `policy VERB` on every defect planted for it. How many there are.
fn planted(verb: &str) -> usize {
    let cases = entries(&fixtures().join(verb));
    let missed: Vec<String> = cases
        .iter()
        .filter_map(|case| missed(verb, case).map(|said| format!("{}: {said}", case.display())))
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    cases.len()
}

/// What was said instead, if a planted defect was not named with its line.
fn missed(verb: &str, case: &Path) -> Option<String> {
    let stage = Stage::new();
    let base = stage.policies();
    let own = stage.workspace().join(".copilot-bridge/policies");
    let mut marks = Vec::new();
    for (from, to) in [
        (case.to_path_buf(), base.clone()),
        (case.join("workspace"), own),
    ] {
        for file in files(&from) {
            let text = fs::read_to_string(&file).unwrap();
            let to = to.join(file.strip_prefix(&from).unwrap());
            for (index, line) in text.lines().enumerate() {
                if let Some((_, code)) = line.split_once("<- ") {
                    let place = to.display().to_string();
                    marks.push((place, index as u64 + 1, code.trim().to_owned()));
                }
            }
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, text).unwrap();
        }
    }
    assert_eq!(marks.len(), 1, "{} plants one defect", case.display());
    let problems = problems(verb, &stage, &base);
    let named = problems.iter().any(|problem| {
        let (file, line, code) = &marks[0];
        problem["file"] == file.as_str()
            && problem["line"] == *line
            && problem["code"] == code.as_str()
    });
    (!named).then(|| format!("{problems:#?}"))
}

/// What a verb says, and of each test that failed.
fn problems(verb: &str, stage: &Stage, base: &Path) -> Vec<Value> {
    let mut command = stage.command(&["policy", verb, "--format", "json", "--policies"]);
    command.arg(base).arg("--state").arg(stage.state());
    let answer = run(command);
    let said: Value = serde_json::from_str(&answer.text).unwrap();
    let lists = said["tests"]
        .as_array()
        .into_iter()
        .flatten()
        .chain([&said]);
    let problems = lists.filter_map(|list| list["problems"].as_array());
    problems.flatten().cloned().collect()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/defects")
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

/// The files of a layer: a `workspace` is another one.
fn files(dir: &Path) -> Vec<PathBuf> {
    entries(dir)
        .into_iter()
        .filter(|path| path.file_name().unwrap() != "workspace")
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
