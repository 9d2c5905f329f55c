//! `policy prove`. What a solver has to do with is tried where the program has one in it.

use std::path::Path;

use super::program::{Answer, Stage, run};

fn prove(stage: &Stage, dir: &Path, more: &[&str]) -> Answer {
    let mut command = stage.command(&["policy", "prove"]);
    command.arg(dir).args(more);
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    run(command)
}

#[test]
fn the_built_in_properties_are_shown_as_cedar() {
    let stage = Stage::new();
    let answer = run(stage.command(&["policy", "prove", "--properties"]));
    assert_eq!(answer.code, 0, "{answer:?}");
    for id in [
        "read-inside",
        "write-inside",
        "guard",
        "credentials",
        "fault",
        "depth",
    ] {
        assert!(answer.text.contains(&format!("@id(\"{id}\")")), "{id}");
    }
}

#[test]
fn invalid_policies_and_invariants_are_not_asked_about() {
    let stage = Stage::new();
    let policies = stage.policies();
    stage.write(
        "claims.cedar",
        "@id(\"a\") forbid(principal, action, resource) when { context.dept > 1 };\n\
         @id(\"guard\") forbid(principal, action, resource);\n",
    );
    let claims = stage.path("claims.cedar");
    let answer = prove(
        &stage,
        &policies,
        &["--invariant", claims.to_str().unwrap()],
    );
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("claims.cedar:1:"), "{answer:?}");
    stage.write(
        "claims.cedar",
        "@id(\"guard\") forbid(principal, action, resource);\n",
    );
    let answer = prove(
        &stage,
        &policies,
        &["--invariant", claims.to_str().unwrap()],
    );
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(
        answer.text.contains("there is another property `guard`"),
        "{answer:?}"
    );
    stage.write("policies/broken.cedar", "permit(principal,");
    assert_eq!(prove(&stage, &policies, &[]).code, 3);
    let gone = stage.path("gone.cedar");
    let stage = Stage::new();
    let answer = prove(
        &stage,
        &stage.policies(),
        &["--invariant", gone.to_str().unwrap()],
    );
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.text.contains("gone.cedar"), "{answer:?}");
}

#[test]
fn a_property_that_there_is_not_is_an_error() {
    let stage = Stage::new();
    let answer = prove(&stage, &stage.policies(), &["--only", "gaurd"]);
    assert_eq!(answer.code, 64, "{answer:?}");
    assert!(
        answer.errors.contains("there is no property `gaurd`"),
        "{answer:?}"
    );
}

#[cfg(not(feature = "analysis"))]
#[test]
fn without_the_feature_nothing_is_proved_and_the_program_says_so() {
    let stage = Stage::new();
    let answer = prove(&stage, &stage.policies(), &[]);
    assert_eq!(answer.code, 4, "{answer:?}");
    assert!(answer.errors.contains("--features analysis"), "{answer:?}");
    assert!(!answer.text.contains("proved"), "{answer:?}");
    let answer = prove(&stage, &stage.policies(), &["--format", "json"]);
    assert_eq!(
        (answer.code, &answer.json()["status"]),
        (4, &"unknown".into())
    );
}

#[cfg(feature = "analysis")]
mod solved {
    use std::fs;

    use serde_json::Value;

    use super::*;
    use crate::program::send;

    fn status<'a>(report: &'a Value, id: &str) -> &'a str {
        let all = report["properties"].as_array().unwrap();
        let property = all.iter().find(|property| property["id"] == id);
        property.unwrap()["status"].as_str().unwrap()
    }

    fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
        let all = report["properties"].as_array().unwrap();
        let property = all.iter().find(|property| property["id"] == id);
        &property.unwrap()["findings"][0]
    }

    /// The default policies with one more file.
    fn with(stage: &Stage, text: &str) -> std::path::PathBuf {
        let policies = stage.policies();
        fs::write(policies.join("extra.cedar"), text).unwrap();
        policies
    }

    #[test]
    fn the_default_policies_have_every_property() {
        let stage = Stage::new();
        let answer = prove(&stage, &stage.policies(), &[]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(
            answer.text.contains("8 proved, 0 disproved, 0 unknown"),
            "{answer:?}"
        );
    }

    #[test]
    fn a_permit_that_reaches_outside_is_named_with_a_call_that_explain_lets_through() {
        let stage = Stage::new();
        let policies = with(
            &stage,
            "@id(\"markdown\") @reason(\"x\")\n\
             permit(principal, action == Bridge::Action::\"write\", resource is Bridge::Path)\n\
             when { resource.resolved like \"*.md\" };\n",
        );
        let path = policies.join("containment.cedar");
        let text = fs::read_to_string(&path).unwrap();
        let asks = text.replace(
            "@id(\"outside-write\")",
            "@id(\"outside-write\") @decision(\"ask\")",
        );
        fs::write(&path, asks).unwrap();
        let text = prove(&stage, &policies, &[]).text;
        assert!(text.contains("extra.cedar:1:1"), "{text}");
        assert!(text.contains("1 | @id(\"markdown\")"), "{text}");
        assert!(text.contains("  | ^^^^^^^^^^^^^^^"), "{text}");

        let answer = prove(&stage, &policies, &["--format", "json"]);
        assert_eq!(answer.code, 1, "{answer:?}");
        let report = answer.json();
        assert_eq!(status(&report, "write-inside"), "disproved");
        assert_eq!(status(&report, "read-inside"), "proved");
        let shown = &finding(&report, "write-inside")["counterexample"];
        assert_eq!(shown["confirmed"], true, "{shown}");
        assert_eq!(shown["decision"], "ask", "{shown}");
        assert_eq!(shown["request"]["resource"]["inside"], false, "{shown}");
        // The event is a real one: the gate lets it through as well.
        let mut explain = stage.command(&["explain", "--format", "json", "--policies"]);
        explain.arg(&policies);
        let explained = send(explain, shown["event"].to_string().as_bytes());
        assert_eq!(explained.json()["decision"], "ask", "{explained:?}");
    }

    #[test]
    fn what_ought_to_be_denied_is_found_where_it_is_not() {
        for (file, from, to, property) in [
            (
                "permission.cedar",
                "context.depth >= context.depth_limit",
                "context.depth > context.depth_limit",
                "depth",
            ),
            (
                "containment.cedar",
                "when { resource.labels.contains(\"credentials\") };",
                "when { resource.labels.contains(\"credentials\") && !resource.exists };",
                "credentials",
            ),
            (
                "containment.cedar",
                "@id(\"guard\")",
                "@id(\"guard\") @decision(\"ask\")",
                "guard",
            ),
            (
                "containment.cedar",
                "@id(\"unresolvable-path\")",
                "@id(\"unresolvable-path\") @mode(\"monitor\")",
                "fault",
            ),
            (
                "containment.cedar",
                "\"system\",\n       \"toolchain\",",
                "\"system\",\n       \"x\",\n       \"toolchain\",",
                "",
            ),
        ] {
            let stage = Stage::new();
            let policies = stage.policies();
            let path = policies.join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{from}");
            fs::write(&path, text.replace(from, to)).unwrap();
            let claims = [
                "read-inside",
                "write-inside",
                "guard",
                "credentials",
                "fault",
                "depth",
            ];
            let mut more = vec!["--format", "json"];
            more.extend(claims.iter().flat_map(|claim| ["--only", claim]));
            let answer = prove(&stage, &policies, &more);
            let report = answer.json();
            for known in claims {
                let right = if known == property {
                    "disproved"
                } else {
                    "proved"
                };
                assert_eq!(status(&report, known), right, "{known}: {to}");
            }
            assert_eq!(answer.code, i32::from(!property.is_empty()), "{to}");
        }
    }

    #[test]
    fn a_policy_that_can_fail_is_found_and_one_that_cannot_is_not() {
        let stage = Stage::new();
        let policies = with(
            &stage,
            "@id(\"overflow\") @reason(\"x\")\nforbid(principal, action, resource)\n\
             when { (context.depth + 1) * 9223372036854775807 + 1 < 0 };\n\
             @id(\"fits\") @reason(\"x\")\nforbid(principal, action, resource)\n\
             when { context.depth * 1000 > 1000000 };\n",
        );
        let report = prove(&stage, &policies, &["--format", "json"]).json();
        let found = finding(&report, "no-errors");
        assert_eq!(found["status"], "disproved", "{found}");
        assert_eq!(found["problem"]["line"], 1, "{found}");
        assert_eq!(found["counterexample"]["confirmed"], true, "{found}");
        let said = found["counterexample"]["policies"][0].as_str().unwrap();
        assert!(said.contains("user:overflow"), "{said}");
        let all = report["properties"][0]["findings"].as_array().unwrap();
        assert!(all.iter().all(|found| found["problem"]["line"] == 1));
    }

    #[test]
    fn a_policy_that_never_holds_is_found() {
        let stage = Stage::new();
        let policies = with(
            &stage,
            "@id(\"never\") @reason(\"x\")\n\
             forbid(principal, action == Bridge::Action::\"mcp\", resource is Bridge::Tool)\n\
             when { context.depth > 5 && context.depth < 3 };\n\
             @id(\"too-long\") @reason(\"x\")\n\
             forbid(principal, action == Bridge::Action::\"prompt\", resource is Bridge::Text)\n\
             when { resource.bytes > 8388608 };\n",
        );
        let answer = prove(&stage, &policies, &["--only", "no-dead-policy"]);
        assert_eq!(answer.code, 1, "{answer:?}");
        for place in ["extra.cedar:1:1", "extra.cedar:4:1"] {
            assert!(answer.text.contains(place), "{answer:?}");
        }
        assert_eq!(answer.text.matches("holds for no request").count(), 2);
    }

    #[test]
    fn an_invariant_says_what_must_and_what_must_not_be() {
        let stage = Stage::new();
        stage.write(
            "claims.cedar",
            "@id(\"mcp-asked\") @decision(\"ask\") @reason(\"no MCP tool runs unasked\")\n\
             forbid(principal, action == Bridge::Action::\"mcp\", resource)\n\
             when { resource.tier == \"\" && resource.trust == \"\" };\n\
             @id(\"mcp-denied\")\n\
             forbid(principal, action == Bridge::Action::\"mcp\", resource);\n\
             @id(\"readable\")\n\
             permit(principal, action == Bridge::Action::\"read\", resource is Bridge::Path)\n\
             when { resource.inside && resource.labels.isEmpty() && resource.fault == \"\" && context.depth < 3 };\n\
             @id(\"push\") @decision(\"ask\")\n\
             permit(principal, action == Bridge::Action::\"shell\", resource is Bridge::Command)\n\
             when { resource.program == \"git\" };\n",
        );
        let claims = stage.path("claims.cedar");
        let claims = claims.to_str().unwrap();
        let more = ["--invariant", claims, "--format", "json"];
        let answer = prove(&stage, &stage.policies(), &more);
        assert_eq!(answer.code, 1, "{answer:?}");
        let report = answer.json();
        for (id, right) in [
            ("mcp-asked", "proved"),
            ("mcp-denied", "disproved"),
            ("readable", "proved"),
            ("push", "disproved"),
        ] {
            assert_eq!(status(&report, id), right, "{id}");
        }
        let shown = &finding(&report, "mcp-denied")["counterexample"];
        assert_eq!(
            (&shown["confirmed"], &shown["decision"]),
            (&true.into(), &"ask".into())
        );
        // What stops the call is where the caret stands.
        let push = finding(&report, "push");
        assert_eq!(push["counterexample"]["decision"], "deny", "{push}");
        let file = push["problem"]["file"].as_str().unwrap();
        assert!(
            file.ends_with(".cedar") && !file.contains("claims"),
            "{push}"
        );
        let only = prove(
            &stage,
            &stage.policies(),
            &["--invariant", claims, "--only", "mcp-asked"],
        );
        assert_eq!(only.code, 0, "{only:?}");
    }

    #[test]
    fn the_invariants_of_the_docs_hold_of_the_default_policies() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/proofs.md");
        let docs = fs::read_to_string(docs).unwrap();
        let block = docs.split("```cedar\n").nth(1).unwrap();
        let stage = Stage::new();
        stage.write("claims.cedar", block.split("```").next().unwrap());
        let claims = stage.path("claims.cedar");
        let mut more = vec!["--invariant", claims.to_str().unwrap()];
        for id in ["no-unasked-mcp", "workspace-readable", "no-root"] {
            more.extend(["--only", id]);
        }
        let answer = prove(&stage, &stage.policies(), &more);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(answer.text.contains("3 proved"), "{answer:?}");
    }

    #[test]
    fn what_fails_denies_and_so_nothing_must_be_allowed_beside_it() {
        let stage = Stage::new();
        let policies = with(
            &stage,
            "@id(\"overflow\") @reason(\"x\")\n\
             permit(principal, action == Bridge::Action::\"mcp\", resource)\n\
             when { (context.depth + 1) * 9223372036854775807 > 0 };\n",
        );
        stage.write(
            "claims.cedar",
            "@id(\"mcp\") @decision(\"ask\")\n\
             permit(principal, action == Bridge::Action::\"mcp\", resource)\n\
             when { context.depth == 2 && !context.placeholder };\n",
        );
        let claims = stage.path("claims.cedar");
        let more = ["--invariant", claims.to_str().unwrap(), "--format", "json"];
        let report = prove(&stage, &policies, &more).json();
        assert_eq!(status(&report, "mcp"), "unknown");
        let help = finding(&report, "mcp")["problem"]["help"].as_str().unwrap();
        assert!(help.contains("user:overflow"), "{help}");
    }

    #[test]
    fn a_workflow_shows_what_is_disproved_beside_the_line() {
        let stage = Stage::new();
        let policies = with(
            &stage,
            "@id(\"never\") @reason(\"x\")\n\
             forbid(principal, action == Bridge::Action::\"mcp\", resource is Bridge::Tool)\n\
             when { context.depth > 5 && context.depth < 3 };\n",
        );
        let answer = prove(&stage, &policies, &["--format", "github"]);
        assert_eq!(answer.code, 1, "{answer:?}");
        let line = answer.text.lines().next().unwrap();
        assert!(line.starts_with("::error title=disproved,file="), "{line}");
        assert!(line.contains("extra.cedar,line=1,"), "{line}");
    }

    #[test]
    fn without_a_solver_nothing_is_proved_and_the_package_is_named() {
        let stage = Stage::new();
        let mut command = stage.command(&["policy", "prove"]);
        command
            .arg(stage.policies())
            .env("PATH", stage.path("nowhere"));
        let answer = run(command);
        assert_eq!(answer.code, 4, "{answer:?}");
        assert!(answer.errors.contains("apt-get install cvc5"), "{answer:?}");
        assert!(!answer.text.contains("proved"), "{answer:?}");
    }

    /// A program in the place of the solver.
    #[cfg(unix)]
    fn impostor(stage: &Stage, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        stage.write("cvc5", &format!("#!/bin/sh\n{text}\n"));
        let path = stage.path("cvc5");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[cfg(unix)]
    #[test]
    fn a_solver_that_says_the_same_to_everything_is_not_believed() {
        const NAMED: &str = "[ \"$1\" = --version ] && echo 'This is cvc5 version 9' && exit";
        for (text, why) in [
            (
                format!(
                    "{NAMED}\nwhile read x; do case $x in *check-sat*) echo unsat;; esac; done"
                ),
                "wrongly",
            ),
            (
                format!("{NAMED}\nwhile read x; do case $x in *check-sat*) echo sat;; esac; done"),
                "wrongly",
            ),
            (
                format!(
                    "{NAMED}\nwhile read x; do case $x in *check-sat*) echo unknown;; esac; done"
                ),
                "gave up",
            ),
            (format!("{NAMED}\nexit 1"), "ended"),
            (
                format!(
                    "{NAMED}\nwhile read x; do case $x in *check-sat*) echo hello;; esac; done"
                ),
                "ended",
            ),
            (
                "echo 'This is z3 version 4'".to_owned(),
                "does not say that it is cvc5",
            ),
        ] {
            let stage = Stage::new();
            let cvc5 = impostor(&stage, &text);
            let answer = prove(&stage, &stage.policies(), &["--cvc5", &cvc5]);
            assert_eq!(answer.code, 4, "{text}: {answer:?}");
            assert!(answer.errors.contains(why), "{text}: {answer:?}");
            assert!(!answer.text.contains("proved"), "{answer:?}");
        }
    }

    /// A solver that dies, or thinks for ever, once it has shown what it can.
    #[cfg(unix)]
    #[test]
    fn a_solver_that_dies_or_does_not_answer_proves_nothing() {
        for (then, why) in [
            ("exit 1", "the solver ended before it answered"),
            (
                "exec sleep 60",
                "the solver gave up, or found nothing in 1 s",
            ),
        ] {
            let stage = Stage::new();
            // The first two questions are those that try it out.
            let cvc5 = impostor(
                &stage,
                &format!(
                    "[ \"$1\" = --version ] && echo 'This is cvc5 version 9' && exit\n\
                     [ -e {0} ] && {then} && exit\n\
                     n=0\nwhile read x; do case $x in\n\
                     *check-sat*) n=$((n+1)); if [ $n = 1 ]; then echo unsat; else touch {0}; echo sat; fi;;\n\
                     esac; done",
                    stage.path("tried").display()
                ),
            );
            let more = [
                "--cvc5",
                &cvc5,
                "--timeout",
                "1",
                "--only",
                "credentials",
                "--format",
                "json",
            ];
            let answer = prove(&stage, &stage.policies(), &more);
            assert_eq!(answer.code, 4, "{answer:?}");
            let report = answer.json();
            assert_eq!(status(&report, "credentials"), "unknown");
            assert_eq!(finding(&report, "credentials")["problem"]["help"], why);
        }
    }
}
