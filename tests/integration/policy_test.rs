//! `policy test`: decision tests beside policies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run};

/// A stage whose policies have just these tests, and what becomes of them.
fn tested(tests: &str, more: &[&str]) -> Answer {
    let stage = Stage::new();
    let dir = with_tests(&stage, tests);
    test(&stage, &dir, more)
}

/// The default policies with just these tests.
fn with_tests(stage: &Stage, tests: &str) -> PathBuf {
    let dir = stage.policies();
    fs::remove_dir_all(dir.join("tests")).unwrap();
    fs::create_dir(dir.join("tests")).unwrap();
    fs::write(dir.join("tests/own.toml"), format!("format = 1\n{tests}")).unwrap();
    dir
}

fn test(stage: &Stage, dir: &Path, more: &[&str]) -> Answer {
    let mut command = stage.command(&["policy", "test"]);
    command.arg(dir).args(more);
    run(command)
}

/// A test of one line, with what comes out.
fn one(what: &str) -> String {
    format!("[[test]]\nname = \"it\"\n{what}\n")
}

const PUSH: &str = "command = \"git push origin main\"\ndecision = \"ask\"";

#[test]
fn our_own_tests_come_to_everything() {
    let stage = Stage::new();
    let all = ["--coverage", "--coverage-threshold", "100"];
    let answer = test(&stage, &stage.policies(), &all);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.text.contains("coverage: 100 %"), "{answer:?}");
    assert!(!answer.text.contains("no test comes"), "{answer:?}");
}

#[test]
fn the_policies_of_this_program_carry_their_tests() {
    let stage = Stage::new();
    let answer = run(stage.command(&["policy", "test", "--format", "json"]));
    assert_eq!(answer.code, 0, "{answer:?}");
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/tests")).unwrap();
    let mut committed: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    committed.sort();
    let mut carried: Vec<String> = answer.json()["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|test| test["file"].as_str().unwrap().to_owned())
        .collect();
    carried.dedup();
    let carried: Vec<&str> = carried
        .iter()
        .map(|file| file.strip_prefix("<embedded>/tests/").unwrap())
        .collect();
    assert_eq!(carried, committed);
}

#[test]
fn every_example_of_the_documentation_runs() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/testing.md")).unwrap();
    let (mut tests, mut commands) = (0, 0);
    for block in page.split("```").skip(1).step_by(2) {
        let stage = Stage::new();
        if let Some(text) = block.strip_prefix("toml\nformat = 1\n") {
            let dir = with_tests(&stage, text);
            let answer = test(&stage, &dir, &[]);
            assert_eq!(answer.code, 0, "{block}\n{}", answer.text);
            tests += 1;
        } else {
            let lines = block.strip_prefix("console\n").unwrap();
            stage.policies();
            for line in lines.lines() {
                let words = shlex::split(line.strip_prefix("$ copilot-bridge ").unwrap()).unwrap();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let mut command = stage.command(&words);
                command.current_dir(stage.path("."));
                let answer = run(command);
                assert_eq!(answer.code, 0, "{line}: {answer:?}");
                commands += 1;
            }
        }
    }
    assert!(tests >= 5 && commands >= 7, "{tests} {commands}");
}

#[test]
fn what_came_otherwise_is_underlined() {
    for (tests, under, said, why) in [
        (
            one("command = \"git push origin main\"\ndecision = \"allow\""),
            "decision = \"allow\"\n  |            ^^^^^^^",
            "it: expected allow, got ask",
            "ask-changes-history at ",
        ),
        (
            one(&format!("{PUSH}\npolicies = [\"ask-publish\"]")),
            "policies = [\"ask-publish\"]\n  |             ^^^^^^^^^^^^^",
            "it: expected that `ask-publish` decided",
            "it is `user:ask-changes-history`",
        ),
        (
            one(&format!("{PUSH}\npolicies = [\"ask-changes-histroy\"]")),
            "             ^^^^^^^^^^^^^^^^^^^^^",
            "it: expected that `ask-changes-histroy` decided",
            "did you mean `ask-changes-history`?",
        ),
        (
            one("command = \"ls\"\ndecision = \"allow\"\npolicies = [\"commands\"]\nonly = true"),
            "policies = [\"commands\"]\n  |            ^^^^^^^^^^^^",
            "it: expected no others, but `user:shell-tools` decided too",
            "",
        ),
        (
            one("result = \"x\"\ndecision = \"allow\"\nobligations = [\"record:sync\"]"),
            "^^^^^^^^^^^^^",
            "it: expected that `record:sync` is owed",
            "it is `redact:secrets`, `truncate`",
        ),
        (
            one("result = \"x\"\ndecision = \"allow\"\nrules = [\"github-pat\"]"),
            "^^^^^^^^^^^^",
            "it: expected that `github-pat` found something",
            "there is none",
        ),
        (
            one("prompt = \"a\"\ndecision = \"allow\"\ntext = \"b\""),
            "text = \"b\"\n  |        ^^^",
            "it: another text goes on",
            "this goes on: a",
        ),
        (
            one("prompt = \"say <<hello>>\"\ndecision = \"allow\""),
            "prompt = \"say <<hello>>\"\n  |          ^^^^^^^^^^^^^^^",
            "it: `hello` goes on",
            "no rule took it out",
        ),
        (
            one("command = \"ls\"\ndecision = \"allow\"\nwould_decide = \"deny\""),
            "would_decide = \"deny\"\n  |                ^^^^^^",
            "it: expected deny, got allow",
            "",
        ),
        (
            one("error = \"boom\"\ndecision = \"allow\"\nerror_class = \"transient\""),
            "^^^^^^^^^^^",
            "it: expected transient, got other",
            "",
        ),
        (
            one("error = \"boom\"\ndecision = \"allow\"\nhandling = \"retry\""),
            "^^^^^^^",
            "it: expected retry, got abort",
            "",
        ),
        (
            one("entity = \"Evrest\"\nread = \"a\"\ndecision = \"allow\""),
            "entity = \"Evrest\"\n  |          ^^^^^^^^",
            "no entity is called `Evrest`",
            "entities.toml",
        ),
        (
            one("files = [\"../x\"]\nread = \"a\"\ndecision = \"allow\""),
            "files = [\"../x\"]\n  |          ^^^^^^",
            "this cannot be made: it would not be in the made-up workspace or home",
            "",
        ),
    ] {
        let answer = tested(&tests, &[]);
        assert_eq!(answer.code, 1, "{answer:?}");
        for part in [under, said, why, "own.toml:", "0 passed, 1 failed"] {
            let told = answer.text.contains(part);
            assert!(told, "{part}\n{}", answer.text);
        }
    }
}

#[test]
fn what_is_wrong_with_a_test_is_underlined() {
    for (tests, under, said) in [
        (
            one("comand = \"ls\"\ndecision = \"ask\""),
            "^^^^^^",
            "unknown key `comand`",
        ),
        (
            one("decision = \"ask\""),
            "^^^^^^^^",
            "the test does not say what happens",
        ),
        (
            one("command = \"ls\"\nread = \"a\"\ndecision = \"ask\""),
            "^^^",
            "a test is about one thing, and this one has `command` already",
        ),
        (one("command = \"ls\""), "^^^^^^^^", "`decision` is missing"),
        (
            one("command = 1\ndecision = \"ask\""),
            "^",
            "this is a number, not a text",
        ),
        (
            one("command = \"ls\"\ndecision = \"no\""),
            "^^^^",
            "`no` is no value of `decision`",
        ),
        (
            one("command = \"ls\"\ndecision = \"ask\"\nobligations = [\"redact\"]"),
            "^^^^^^^^",
            "`redact` is no obligation",
        ),
        (
            one("command = \"ls\"\ndecision = \"ask\"\ntext = \"ls\""),
            "^^^^",
            "`text` belongs to `result` or `prompt`",
        ),
        (
            one("command = \"ls\"\ndecision = \"ask\"\nargs = {}"),
            "^^",
            "`args` belongs to `tool`, `result` or `served`",
        ),
        (
            one("command = \"ls\"\ndecision = \"ask\"\nonly = true"),
            "^^^^",
            "`only` has nothing to be about",
        ),
        (
            one("command = \"ls\"\ndecision = \"ask\"\nhost = \"emacs\""),
            "^^^^",
            "`emacs` is no host: it is one of copilot, claude, vscode, openclaw, xpia",
        ),
        (
            one("on = \"before-tool\"\nevent = { prompt = \"x\" }\ndecision = \"ask\""),
            "^^^^^^^^^^^^^",
            "`before-tool` is no event of a host",
        ),
        (
            one("event = { toolArgs = {} }\ndecision = \"ask\""),
            "^^^^^^^^^^^^^^^^^",
            "it names no tool",
        ),
        (
            one("tool = \"x\"\nargs = { at = 2030-01-01 }\ndecision = \"ask\""),
            "^^^^^^^^^^",
            "this is a date, not what JSON has",
        ),
        (
            one(
                "files = [{ path = \"a\", text = \"\", link = \"b\" }]\nread = \"a\"\ndecision = \"ask\"",
            ),
            "^^^^^^^^^^^^",
            "a file has a `text`, or is a `link` or a `hard_link`",
        ),
        (
            one("request = { action = \"fly\" }\ndecision = \"ask\""),
            "^^^^^^^^^^^",
            "a request has an `action`",
        ),
        (
            one(
                "cwd = \"a\"\nrequest = { action = \"hook\", resource = { type = \"tool\" } }\ndecision = \"ask\"",
            ),
            "^^^",
            "`cwd` belongs to an event",
        ),
        (
            format!("{}{}", one(PUSH), one(PUSH)),
            "^^^^",
            "there is another test `it`",
        ),
        (String::new(), "^", "the file holds no test"),
        ("[default]\n".to_owned(), "^^^^^^^", "unknown key `default`"),
        ("x = \n".to_owned(), "^", ""),
    ] {
        let answer = tested(&tests, &[]);
        assert_eq!(answer.code, 3, "{tests}\n{answer:?}");
        for part in [under, said, "tests/own.toml:"] {
            let told = answer.text.contains(part);
            assert!(told, "{part}\n{}", answer.text);
        }
    }
}

#[test]
fn tests_are_chosen_by_name() {
    let tests = "[[test]]\nname = \"a push\"\ncommand = \"git push origin main\"\ndecision = \"ask\"\n\
                 [[test]]\nname = \"a list\"\ncommand = \"ls\"\ndecision = \"allow\"\n\
                 [[test]]\nname = \"a wrong one\"\ncommand = \"ls\"\ndecision = \"deny\"\n";
    for (filters, code, said) in [
        (&["--filter", "push"][..], 0, "1 passed, 0 failed"),
        (
            &["--filter", "PUSH", "--filter", "*list"],
            0,
            "2 passed, 0 failed",
        ),
        (&["--filter", "a *"], 1, "2 passed, 1 failed"),
        (&[], 1, "2 passed, 1 failed"),
        (&["--filter", "nothing"], 1, "0 passed, 0 failed"),
    ] {
        let answer = tested(tests, filters);
        assert_eq!(answer.code, code, "{answer:?}");
        assert!(answer.text.ends_with(&format!("{said}\n")), "{answer:?}");
    }
    assert!(
        tested(tests, &["--filter", "nothing"])
            .errors
            .contains("no test has such a name")
    );
}

#[test]
fn without_tests_nothing_passes() {
    let stage = Stage::new();
    let dir = stage.policies();
    fs::remove_dir_all(dir.join("tests")).unwrap();
    let answer = test(&stage, &dir, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("there are no tests"), "{answer:?}");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let stage = Stage::new();
    let dir = stage.policies();
    let name = dir.to_str().unwrap();
    for more in [
        &[name][..],
        &["--policies", name],
        &["--filter", "[a"],
        &["--coverage-threshold", "101"],
        &["--format", "xml"],
    ] {
        let answer = test(&stage, &dir, more);
        assert_eq!(answer.code, 64, "{more:?} {answer:?}");
        assert!(answer.errors.contains("error: "), "{answer:?}");
    }
}

#[test]
fn policies_that_cannot_be_used_are_not_tested() {
    let stage = Stage::new();
    let dir = stage.policies();
    fs::write(dir.join("more.cedar"), "permit(\n").unwrap();
    for (format, said) in [
        ("text", "more.cedar:"),
        ("json", "\"cedar-syntax\""),
        ("junit", "<error"),
        ("github", "::error file="),
    ] {
        let answer = test(&stage, &dir, &["--format", format]);
        assert_eq!(answer.code, 3, "{answer:?}");
        assert!(answer.text.contains(said), "{said} {answer:?}");
    }
}

#[test]
fn every_format_tells_the_same() {
    let tests = format!(
        "{}[[test]]\nname = \"<wrong> & so\"\ncommand = \"ls\"\ndecision = \"deny\"\n",
        one(PUSH)
    );
    let value = tested(&tests, &["--format", "json"]).json();
    assert_eq!(
        (&value["version"], &value["passed"], &value["failed"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let wrong = &value["tests"][1];
    assert_eq!(wrong["decision"], "allow");
    assert_eq!(wrong["line"], 7);
    assert_eq!(
        wrong["policies"],
        json!(["user:shell-tools", "user:commands"])
    );
    assert_eq!(wrong["problems"][0]["line"], 9);
    assert_eq!(value["coverage"], Value::Null);

    let xml = tested(&tests, &["--format", "junit"]).text;
    for part in [
        "tests=\"2\" skipped=\"0\" failures=\"1\" errors=\"0\"",
        "<testcase name=\"it\" classname=\"",
        "name=\"&lt;wrong&gt; &amp; so\"",
        "<failure message=\"&lt;wrong&gt; &amp; so: expected deny, got allow\">",
        "line=\"7\"",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }

    let stage = Stage::new();
    with_tests(&stage, &tests);
    let mut command = stage.command(&["policy", "test", "policies", "--format", "github"]);
    command.current_dir(stage.path("."));
    let answer = run(command);
    let first = "::error file=policies/tests/own.toml,line=9,endLine=9,col=12,endColumn=18,\
                 title=<wrong> & so::<wrong> & so: expected deny, got allow%0A";
    assert!(answer.text.starts_with(first), "{answer:?}");
    assert!(answer.text.ends_with("1 passed, 1 failed\n"), "{answer:?}");
}

#[test]
fn what_no_test_comes_to_is_named() {
    let more = ["--coverage", "--coverage-threshold", "90"];
    let answer = tested(&one(PUSH), &more);
    assert_eq!(answer.code, 1, "{answer:?}");
    for part in [
        "no test comes to the policy `user:credentials`",
        "containment.cedar:",
        "no test comes to the pattern `fork-bomb`",
        "permission.toml:",
        "no test comes to the label `starts_code`",
        "containment.toml:",
        "no test comes to the error rule `transient`",
        "bridge.toml:",
    ] {
        assert!(answer.text.contains(part), "{part}\n{}", answer.text);
    }
    for covered in [
        "`user:ask-changes-history`",
        "`user:commands`",
        "`changes_history`",
    ] {
        let told = answer.text.contains(covered);
        assert!(!told, "{covered}\n{}", answer.text);
    }
    assert!(
        answer.errors.contains("which is less than 90 %"),
        "{answer:?}"
    );
    // What does not have to be there is no failure.
    assert_eq!(tested(&one(PUSH), &["--coverage"]).code, 0);
    let github = tested(&one(PUSH), &["--coverage", "--format", "github"]).text;
    assert!(github.contains("::warning file="), "{github}");
}

#[test]
fn a_label_that_changes_nothing_is_not_come_to() {
    // `secret_file` is carried, but the credentials' policy decides either way.
    let tests = one("read = \"~/.ssh/id_rsa\"\ndecision = \"deny\"");
    let answer = tested(&tests, &["--coverage"]);
    assert!(
        answer.text.contains("the label `secret_file`"),
        "{}",
        answer.text
    );
    assert!(
        !answer.text.contains("the label `credentials`"),
        "{}",
        answer.text
    );
}

#[test]
fn no_test_sees_the_files_of_another() {
    let tests = "[[test]]\nname = \"a\"\nfiles = [{ path = \"d\", link = \"/etc\" }]\nwrite = \"d/x\"\ndecision = \"deny\"\n\
                 [[test]]\nname = \"b\"\nwrite = \"d/x\"\ndecision = \"allow\"\n\
                 [[test]]\nname = \"c\"\nfiles = [\"d/x\", { path = \"e\", hard_link = \"d/x\" }]\nwrite = \"e\"\ndecision = \"ask\"\n\
                 [[test]]\nname = \"d\"\nwrite = \"e\"\ndecision = \"allow\"\n";
    let answer = tested(tests, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn circumstances_are_facts() {
    let stage = Stage::new();
    let tests = "[[test]]\nname = \"a\"\ninteractive = \"no\"\nread = \"a\"\ndecision = \"deny\"\npolicies = [\"never-alone\"]\n\
                 [[test]]\nname = \"b\"\ninteractive = \"yes\"\nread = \"a\"\ndecision = \"allow\"\nwould_decide = \"allow\"\n\
                 [[test]]\nname = \"c\"\nsession = \"s-9\"\nread = \"a\"\ndecision = \"allow\"\nwould_decide = \"deny\"\n";
    let dir = with_tests(&stage, tests);
    fs::write(
        dir.join("more.cedar"),
        "@id(\"never-alone\") @reason(\"nobody is there\") forbid(principal, action, resource)\n\
         when { context.interactive == \"no\" };\n\
         @id(\"watched\") @reason(\"watched\") @mode(\"monitor\") forbid(principal, action, resource)\n\
         when { principal.session == \"s-9\" };\n",
    )
    .unwrap();
    let answer = test(&stage, &dir, &["--coverage"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    for covered in ["never-alone", "watched"] {
        assert!(!answer.text.contains(covered), "{}", answer.text);
    }
}

#[test]
fn tests_are_no_part_of_the_policies() {
    let stage = Stage::new();
    let dir = stage.policies();
    let digest = |more: &str| {
        fs::write(dir.join("tests/own.toml"), more).unwrap();
        let event = stage.call("view", &json!({"path": "a.txt"})).to_string();
        let policies = dir.to_str().unwrap();
        let hook = stage.hook("pre-tool-use", &["--policies", policies]);
        let answer = super::program::send(hook, event.as_bytes());
        assert_eq!(answer.decision(), "allow", "{answer:?}");
        stage.record().pop().unwrap()["policy_digest"].clone()
    };
    assert_eq!(digest("format = 1\n"), digest("this is no TOML"));
    let mut check = stage.command(&["policy", "check"]);
    check.arg(&dir);
    assert_eq!(run(check).code, 0);
    assert_eq!(test(&stage, &dir, &[]).code, 3);
}

#[test]
#[cfg(unix)]
fn tests_that_others_can_write_are_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let stage = Stage::new();
    let dir = with_tests(&stage, &one(PUSH));
    let file = dir.join("tests/own.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let answer = test(&stage, &dir, &[]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("unsafe-file"), "{answer:?}");

    fs::rename(dir.join("tests"), stage.path("elsewhere")).unwrap();
    symlink(stage.path("elsewhere"), dir.join("tests")).unwrap();
    let answer = test(&stage, &dir, &[]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("unsafe-file"), "{answer:?}");
}

#[test]
fn each_layer_brings_its_tests() {
    let stage = Stage::new();
    let dir = with_tests(&stage, &one(PUSH));
    stage.write(
        "ws/.copilot-bridge/policies/more.cedar",
        "@id(\"no-docs\") @reason(\"docs are written by people\")\n\
         forbid(principal, action == Bridge::Action::\"write\", resource is Bridge::Path)\n\
         when { resource.resolved like \"*/docs/*\" };\n",
    );
    stage.write(
        "ws/.copilot-bridge/policies/tests/docs.toml",
        "format = 1\n[[test]]\nname = \"docs\"\nwrite = \"docs/a.md\"\ndecision = \"deny\"\npolicies = [\"workspace:no-docs\"]\n",
    );
    let mut command = stage.command(&["policy", "test", "--format", "json", "--policies"]);
    command.arg(&dir);
    let value = run(command).json();
    assert_eq!(
        (&value["passed"], &value["failed"]),
        (&json!(2), &json!(0)),
        "{value}"
    );
}

#[test]
#[cfg(unix)]
fn a_change_is_tested_at_once() {
    use std::io::{BufRead, BufReader};
    let stage = Stage::new();
    let dir = with_tests(&stage, &one(PUSH));
    let mut command = stage.command(&["policy", "test", "--watch"]);
    let mut child = command.arg(&dir).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = |wanted: &str| {
        let found = lines
            .by_ref()
            .map(Result::unwrap)
            .any(|line| line.starts_with(wanted));
        assert!(found, "{wanted}");
    };
    until("1 passed, 0 failed");
    until("waiting");
    let wrong = one("command = \"ls\"\ndecision = \"deny\"");
    fs::write(dir.join("tests/own.toml"), format!("format = 1\n{wrong}")).unwrap();
    until("0 passed, 1 failed");
    until("waiting");
    fs::write(dir.join("more.cedar"), "permit(\n").unwrap();
    until("error[cedar-syntax]");
    until("waiting");
    child.kill().unwrap();
    child.wait().unwrap();
}
