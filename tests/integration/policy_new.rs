//! `policy new`: templates that are in order, and that each decide something of their own.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::bridge::gate::event::{Event, EventName};
use super::bridge::hook::dialect::Dialect;
use super::bridge::policy::{Base, Locations, load};
use super::bridge::workbench::suite::{Suite, files};
use super::bridge::workbench::templates::TEMPLATES;
use super::program::{Answer, Stage, run, send};

fn new(stage: &Stage, template: &str) -> Answer {
    let mut command = stage.command(&["policy", "new", "--template", template]);
    command.arg(stage.path(template));
    run(command)
}

fn verb(stage: &Stage, words: &[&str], dir: &Path) -> Answer {
    let mut command = stage.command(words);
    command.arg(dir);
    run(command)
}

#[test]
fn every_template_passes_check_is_in_form_and_holds_its_tests() {
    let stage = Stage::new();
    let list = run(stage.command(&["policy", "new", "--list"]));
    assert_eq!(list.code, 0);
    assert_eq!(list.text.lines().count(), TEMPLATES.len());
    for template in TEMPLATES {
        assert!(list.text.contains(template.name));
        let answer = new(&stage, template.name);
        assert_eq!(answer.code, 0, "{answer:?}");
        let dir = stage.path(template.name);
        let check = verb(&stage, &["policy", "check"], &dir);
        assert_eq!(check.code, 0, "{check:?}");
        assert!(check.text.starts_with("ok: "), "{}", check.text);
        let form = verb(&stage, &["policy", "fmt", "--check"], &dir);
        assert_eq!((form.code, form.text.as_str()), (0, ""), "{form:?}");
        // What it says of itself holds.
        let report = tests(&dir, &dir);
        let failed: Vec<String> = report
            .failed()
            .map(|t| format!("{}: {:?}", t.name, t.problems))
            .collect();
        assert!(failed.is_empty(), "{}: {failed:#?}", template.name);
        assert!(report.tried.len() >= 10, "{}", template.name);
        // And not only because the defaults say it too.
        let defaults = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let otherwise = tests(&dir, &defaults);
        assert!(
            otherwise.failed().count() >= 5,
            "{} decides what the defaults do",
            template.name
        );
    }
}

/// The tests of one directory by the policies of another.
fn tests(tests: &Path, policies: &Path) -> super::bridge::workbench::suite::Report {
    let at = |dir: &Path| Locations {
        base: Base::Configured(dir.to_owned()),
        ..Locations::default()
    };
    let parse = |host: Option<&str>, name: EventName, event: &Value| -> Result<Event, String> {
        let dialect = host.map_or_else(
            || Some(Dialect::detect(event)),
            |host| Dialect::from_name(host, false),
        );
        dialect.unwrap().parse(name, event)
    };
    let suite = Suite::load(&files(&at(tests)).unwrap(), &parse).unwrap();
    suite.run(&load(&at(policies)).unwrap()).unwrap()
}

/// The same calls through the hook: what it answers under each template.
#[test]
fn the_hook_answers_by_the_template() {
    let bash = |line: &str| ("bash", json!({"command": line}));
    let calls = [
        bash("npm install left-pad"),
        ("web_fetch", json!({"url": "http://localhost:3000/"})),
        (
            "edit",
            json!({"path": "src/main.rs", "old_str": "a", "new_str": "b"}),
        ),
        (
            "edit",
            json!({"path": "README.md", "old_str": "a", "new_str": "b"}),
        ),
        bash("cargo test"),
        bash("curl https://example.com/x"),
        bash("git commit -m x"),
    ];
    for (template, decisions) in [
        (
            "",
            ["allow", "deny", "allow", "allow", "allow", "allow", "allow"],
        ),
        (
            "web-app",
            ["ask", "allow", "allow", "allow", "allow", "allow", "allow"],
        ),
        (
            "hipaa",
            ["allow", "deny", "allow", "allow", "allow", "deny", "allow"],
        ),
        (
            "ci-runner",
            ["allow", "deny", "allow", "allow", "allow", "allow", "deny"],
        ),
        (
            "read-only-reviewer",
            ["deny", "deny", "deny", "deny", "deny", "deny", "deny"],
        ),
        (
            "docs-writer",
            ["ask", "deny", "deny", "allow", "ask", "ask", "allow"],
        ),
    ] {
        let stage = Stage::new();
        let dir = if template.is_empty() {
            stage.policies()
        } else {
            assert_eq!(new(&stage, template).code, 0);
            stage.path(template)
        };
        let mut compile = stage.command(&["policy", "compile", "--policies"]);
        compile.arg(&dir).arg("--state").arg(stage.state());
        assert_eq!(run(compile).code, 0);
        let answers = calls.iter().map(|(tool, args)| {
            let hook = stage.hook("pre-tool-use", &["--policies", dir.to_str().unwrap()]);
            send(hook, stage.call(tool, args).to_string().as_bytes()).decision()
        });
        assert_eq!(answers.collect::<Vec<_>>(), decisions, "{template}");
    }
}

#[test]
fn policies_that_are_there_stay() {
    let stage = Stage::new();
    stage.write("web-app/mine.cedar", "// mine\n");
    let answer = new(&stage, "web-app");
    assert_eq!(answer.code, 1, "{answer:?}");
    assert_eq!(
        fs::read_dir(stage.path("web-app"))
            .unwrap()
            .flatten()
            .filter(|e| e.file_name() != ".lock")
            .count(),
        1
    );
    // Nor does one template write over another, nor over tests.
    assert_eq!(new(&stage, "hipaa").code, 0);
    let again = new(&stage, "hipaa");
    assert_eq!(again.code, 1);
    assert!(again.errors.contains("holds policies already"), "{again:?}");
    stage.write("docs-writer/tests/docs-writer.toml", "mine");
    assert_eq!(new(&stage, "docs-writer").code, 1);
    for words in [
        &["policy", "new", "x"][..],
        &["policy", "new", "--template", "nobody", "x"],
        &["policy", "new", "--template", "hipaa"],
    ] {
        assert_eq!(run(stage.command(words)).code, 64, "{words:?}");
    }
}
