//! `policy diff`: by text, by proof where the program can, and by the tests beside the policies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::program::{Answer, Stage, run};

fn diff(stage: &Stage, old: &Path, new: &Path, more: &[&str]) -> Answer {
    let mut command = stage.command(&["policy", "diff"]);
    command.args([old, new]).args(more);
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    run(command)
}

/// The default policies, and the same again after some changes.
fn sides(stage: &Stage, changes: &[(&str, &str, &str)]) -> (PathBuf, PathBuf) {
    let new = stage.path("new");
    fs::rename(stage.policies(), &new).unwrap();
    for (file, from, to) in changes {
        let path = new.join(file);
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(text.contains(from), "{from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
    }
    (stage.policies(), new)
}

fn changed(report: &Value) -> Vec<String> {
    let policies = report["policies"].as_array().unwrap().iter();
    policies
        .map(|change| format!("{} {}", change["change"], change["id"]).replace('"', ""))
        .collect()
}

#[test]
fn layout_comments_and_places_are_no_difference() {
    let stage = Stage::new();
    let (old, new) = sides(
        &stage,
        &[
            ("autonomy.cedar", "// How far", "// Otherwise: how far"),
            (
                "containment.cedar",
                "when { resource.inside };",
                "when\n{\n  // here\n  resource.inside\n};",
            ),
            ("bridge.toml", "# How the", "# This is how the"),
        ],
    );
    let moved = fs::read_to_string(new.join("autonomy.cedar")).unwrap();
    fs::remove_file(new.join("autonomy.cedar")).unwrap();
    fs::write(new.join("other.cedar"), moved).unwrap();
    let answer = diff(&stage, &old, &new, &["--format", "json"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let report = answer.json();
    assert_eq!(report["result"], "same");
    assert_eq!(report["policies"], Value::Array(Vec::new()));
    assert_eq!(report["settings"], Value::Array(Vec::new()));
    assert_ne!(report["old"]["digest"], report["new"]["digest"]);
}

#[test]
fn embedded_and_installed_policies_are_compared_by_their_names() {
    let stage = Stage::new();
    let answer = diff(&stage, Path::new("embedded"), &stage.policies(), &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.text.contains("the same"), "{answer:?}");
}

#[test]
fn a_sentence_that_changed_changes_no_answer() {
    let stage = Stage::new();
    let (old, new) = sides(
        &stage,
        &[(
            "autonomy.cedar",
            "publishes something under your name",
            "publishes something",
        )],
    );
    let answer = diff(&stage, &old, &new, &["--no-tests"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    for part in [
        "changed `ask-publish`: reason",
        "    - @reason(\"`{resource}` publishes something under your name\")",
        "    + @reason(\"`{resource}` publishes something\")",
        "nothing that could change an answer is different",
    ] {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
}

#[test]
fn policies_and_settings_are_told_by_their_names() {
    let stage = Stage::new();
    let (old, new) = sides(
        &stage,
        &[
            (
                "autonomy.cedar",
                "@id(\"ask-kill\")",
                "@id(\"ask-to-kill\")",
            ),
            ("bridge.toml", "depth = 3", "depth = 4"),
            ("bridge.toml", "    \"think\",\n", ""),
            ("containment.toml", "    \"~/.aws\",\n", ""),
        ],
    );
    let answer = diff(&stage, &old, &new, &["--no-tests", "--format", "json"]);
    let report = answer.json();
    assert_eq!(changed(&report), ["removed ask-kill", "added ask-to-kill"]);
    let settings = report["settings"].as_array().unwrap();
    let keys: Vec<&str> = settings
        .iter()
        .map(|s| s["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["harmless_tools", "limits.depth", "credentials"]);
    assert_eq!(settings[1]["change"]["old"], "3");
    assert_eq!(settings[2]["change"]["removed"][0], "\"~/.aws\"");
    assert_eq!(report["not_covered"][0], "containment.toml");
}

#[test]
fn tables_that_nobody_proves_leave_the_answer_open() {
    let stage = Stage::new();
    let (old, new) = sides(&stage, &[("containment.toml", "    \"~/.aws\",\n", "")]);
    let answer = diff(&stage, &old, &new, &["--no-tests"]);
    assert_eq!(answer.code, 4, "{answer:?}");
    assert!(answer.text.contains("not covered by proofs"), "{answer:?}");
    assert_eq!(
        diff(&stage, &old, &new, &["--no-tests", "--fail-on", "none"]).code,
        0
    );
}

#[test]
fn tests_beside_the_policies_show_which_calls_change() {
    let stage = Stage::new();
    let (old, new) = sides(
        &stage,
        &[(
            "containment.toml",
            "    \"~/.aws\",\n",
            "    \"~/.aws-sso\",\n",
        )],
    );
    fs::create_dir_all(new.join("tests")).unwrap();
    fs::write(
        new.join("tests/new.toml"),
        "format = 1\n\n[[test]]\nname = \"aws is closed\"\nread = \"~/.aws/config\"\ndecision = \"deny\"\n\n\
         [[test]]\nname = \"sso is closed\"\nread = \"~/.aws-sso/x\"\ndecision = \"deny\"\npolicies = [\"credentials\"]\n\n\
         [[test]]\nname = \"aws is guarded\"\nwrite = \"src/.aws/x\"\ndecision = \"allow\"\n",
    )
    .unwrap();
    let answer = diff(&stage, &old, &new, &["--format", "json"]);
    let report = answer.json();
    let by = &report["observed"][0];
    assert_eq!(by["source"], "tests", "{report}");
    assert!(by["judged"].as_u64().unwrap() >= 3, "{report}");
    // All are denied before and after, by one policy or another.
    assert_eq!(by["flips"], Value::Array(Vec::new()), "{report}");
    assert_eq!(answer.code, 4, "{answer:?}");
}

#[test]
fn a_call_that_a_test_makes_is_looser_or_stricter() {
    let stage = Stage::new();
    let (old, new) = sides(
        &stage,
        &[(
            "containment.toml",
            "\"~/.cargo/bin\"",
            "\"~/elsewhere\", \"~/.cargo/bin\"",
        )],
    );
    for dir in [&old, &new] {
        fs::create_dir_all(dir.join("tests")).unwrap();
        fs::write(
            dir.join("tests/own.toml"),
            "format = 1\n\n[[test]]\nname = \"elsewhere is closed\"\nread = \"~/elsewhere/x\"\ndecision = \"deny\"\n",
        )
        .unwrap();
    }
    let answer = diff(&stage, &old, &new, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.text.contains("looser: deny -> allow")
            && answer.text.contains("elsewhere is closed"),
        "{answer:?}"
    );
    assert_eq!(diff(&stage, &new, &old, &["--fail-on", "stricter"]).code, 1);
    let github = diff(&stage, &old, &new, &["--format", "github"]);
    assert!(
        github
            .text
            .contains("::error title=looser::deny -> allow: elsewhere is closed"),
        "{github:?}"
    );
    // Nothing stricter was found, but the tables are not all that there is.
    assert_eq!(diff(&stage, &old, &new, &["--fail-on", "stricter"]).code, 4);
}

#[test]
fn recorded_calls_are_judged_by_both() {
    let stage = Stage::new();
    for line in ["git push", "pkill make", "ls"] {
        stage.judge("bash", &json!({ "command": line }));
    }
    let (old, new) = sides(
        &stage,
        &[(
            "autonomy.cedar",
            "@decision(\"ask\")\n@reason(\"`{resource}` ends",
            "@reason(\"`{resource}` ends",
        )],
    );
    let record = stage.days().remove(0);
    let more = ["--no-tests", "--format", "json", "--records"];
    let mut more = more.to_vec();
    more.push(record.to_str().unwrap());
    let answer = diff(&stage, &old, &new, &more);
    assert_eq!(answer.code, 1, "{answer:?}");
    let report = answer.json();
    let by = &report["observed"][0];
    assert_eq!(by["source"], "record", "{by}");
    assert_eq!(
        (&by["judged"], &by["stricter"], &by["looser"]),
        (&3.into(), &1.into(), &0.into())
    );
    let flip = &by["flips"][0];
    assert!(
        flip["call"].as_str().unwrap().contains("pkill make"),
        "{flip}"
    );
    assert_eq!(
        (&flip["from"], &flip["to"]),
        (&"ask".into(), &"deny".into())
    );
    assert_eq!(flip["policies"][0], "user:ask-kill");
}

#[test]
fn what_only_watches_is_looser_as_a_whole() {
    let stage = Stage::new();
    let (old, new) = sides(
        &stage,
        &[("bridge.toml", "mode = \"enforce\"", "mode = \"monitor\"")],
    );
    let answer = diff(&stage, &old, &new, &["--no-tests", "--format", "json"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert_eq!(answer.json()["looser"], true);
    assert_eq!(
        diff(&stage, &new, &old, &["--no-tests", "--format", "json"]).json()["stricter"],
        true
    );
}

#[test]
fn a_side_that_is_broken_is_compared_with_nothing() {
    let stage = Stage::new();
    let policies = stage.policies();
    let answer = diff(&stage, &policies, &stage.path("gone"), &[]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("missing-policies"), "{answer:?}");
}

#[cfg(not(feature = "analysis"))]
#[test]
fn without_proofs_a_policy_that_changed_leaves_the_answer_open() {
    let stage = Stage::new();
    let (old, new) = sides(
        &stage,
        &[(
            "autonomy.cedar",
            "@decision(\"ask\")\n@reason(\"`{resource}` ends",
            "@reason(\"`{resource}` ends",
        )],
    );
    let answer = diff(&stage, &old, &new, &["--no-tests"]);
    assert_eq!(answer.code, 4, "{answer:?}");
    assert!(answer.text.contains("nothing was proved"), "{answer:?}");
}

#[cfg(feature = "analysis")]
mod solved {
    use super::*;

    fn shifts(report: &Value) -> Vec<String> {
        let all = report["proofs"]["environments"].as_array().unwrap();
        let lines = all.iter().flat_map(|environment| {
            let name = environment["environment"].as_str().unwrap();
            environment["shifts"]
                .as_array()
                .unwrap()
                .iter()
                .map(move |shift| {
                    let text = |key: &str| shift[key].as_str().unwrap();
                    format!(
                        "{} {name} {} {}",
                        text("direction"),
                        text("from"),
                        text("to")
                    )
                })
        });
        lines.collect()
    }

    #[test]
    fn each_policy_that_loosens_or_tightens_is_shown_with_a_call() {
        let stage = Stage::new();
        let (old, new) = sides(
            &stage,
            &[
                (
                    "autonomy.cedar",
                    "@decision(\"ask\")\n@reason(\"`{resource}` ends",
                    "@reason(\"`{resource}` ends",
                ),
                (
                    "containment.cedar",
                    "@id(\"wipes\")",
                    "@id(\"wipes\")\n@decision(\"ask\")",
                ),
                (
                    "containment.cedar",
                    "@id(\"persistence\")",
                    "@id(\"persistence\")\n@decision(\"ask\")",
                ),
            ],
        );
        let answer = diff(&stage, &old, &new, &["--no-tests", "--format", "json"]);
        assert_eq!(answer.code, 1, "{answer:?}");
        let report = answer.json();
        assert_eq!(
            (&report["looser"], &report["stricter"]),
            (&true.into(), &true.into())
        );
        assert_eq!(
            shifts(&report),
            [
                "looser shell Command deny ask",
                "looser shell Command deny ask",
                "stricter shell Command ask deny",
            ]
        );
        let text = diff(&stage, &old, &new, &["--no-tests"]).text;
        for part in [
            "19 of 20 kinds of requests are answered as before",
            "deny (user:wipes) -> ask (user:wipes)",
            "deny (user:persistence) -> ask (user:persistence)",
            "looser for some calls, stricter for others",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_is_written_otherwise_and_means_the_same_is_proved_to() {
        let stage = Stage::new();
        let (old, new) = sides(
            &stage,
            &[(
                "containment.cedar",
                "when { resource.labels.containsAny([\"root_read\", \"root_write\"]) };",
                "when { !(!resource.labels.contains(\"root_write\") && !resource.labels.contains(\"root_read\")) };",
            )],
        );
        let answer = diff(&stage, &old, &new, &["--no-tests"]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(
            answer.text.contains("changed `read-roots`: conditions"),
            "{answer:?}"
        );
        assert!(
            answer.text.contains("the calls are answered as before"),
            "{answer:?}"
        );
    }

    #[test]
    fn limits_and_harmless_tools_are_proved_with_the_policies() {
        let stage = Stage::new();
        let (old, new) = sides(
            &stage,
            &[
                ("bridge.toml", "depth = 3", "depth = 2"),
                (
                    "bridge.toml",
                    "    \"think\",\n",
                    "    \"think\",\n    \"ponder\",\n",
                ),
            ],
        );
        let answer = diff(&stage, &old, &new, &["--no-tests", "--format", "json"]);
        assert_eq!(answer.code, 1, "{answer:?}");
        let report = answer.json();
        let shifts = shifts(&report);
        assert!(
            shifts.contains(&"stricter write Path allow deny".to_owned()),
            "{shifts:?}"
        );
        assert!(
            shifts.contains(&"looser custom_tool Tool ask allow".to_owned()),
            "{shifts:?}"
        );
        assert!(report["not_covered"].as_array().unwrap().is_empty());
        let answer = diff(&stage, &old, &new, &["--no-tests", "--fail-on", "none"]);
        assert_eq!(answer.code, 0);
    }

    #[test]
    fn only_the_way_that_matters_fails() {
        let stage = Stage::new();
        let (old, new) = sides(
            &stage,
            &[(
                "containment.cedar",
                "@id(\"wipes\")",
                "@id(\"wipes\")\n@decision(\"ask\")",
            )],
        );
        let code = |old: &Path, new: &Path, on: &str| {
            diff(&stage, old, new, &["--no-tests", "--fail-on", on]).code
        };
        assert_eq!(code(&old, &new, "looser"), 1);
        assert_eq!(code(&old, &new, "stricter"), 0);
        assert_eq!(code(&new, &old, "looser"), 0);
        assert_eq!(code(&new, &old, "stricter"), 1);
    }

    #[test]
    fn a_policy_that_may_fail_leaves_the_answer_open() {
        let stage = Stage::new();
        let (old, new) = sides(&stage, &[]);
        fs::write(
            new.join("extra.cedar"),
            "@id(\"overflow\") @reason(\"x\") @mode(\"monitor\")\n\
             forbid(principal, action == Bridge::Action::\"mcp\", resource)\n\
             when { (context.depth + 1) * 9223372036854775807 > 0 };\n",
        )
        .unwrap();
        let answer = diff(&stage, &old, &new, &["--no-tests"]);
        assert_eq!(answer.code, 4, "{answer:?}");
        assert!(
            answer
                .text
                .contains("the new policy `user:overflow` may fail there"),
            "{answer:?}"
        );
    }
}
