//! What the Cedar files may say, and what is underlined when they say something else.

use super::nesting;
use crate::engine::Engine;
use crate::engine::action::{Action, ActionSet};
use crate::engine::bundle::Verdict;
use crate::engine::decision::{Effect, Obligation};
use crate::engine::request::{
    Agent, Context, Request, Resource, ResourceSet, ResourceType, TextFacts,
};
use crate::policy::diagnostic::Code;
use crate::policy::testing::{PERMIT, check, shown};

const HEAD: &str = "@id(\"a\") @reason(\"b\")";

#[test]
fn everything_wrong_is_underlined() {
    let forbid = "forbid(principal, action, resource);";
    let permit = "permit(principal, action, resource);";
    for (annotations, policy, expected) in [
        (
            "@id(\"a\")",
            forbid,
            "missing-annotation [@id(\"a\") forbid(principal, action, resource);] the policy has no `@reason`: the sentence that agent and person read",
        ),
        (
            "@reason(\"b\")",
            forbid,
            "missing-annotation [@reason(\"b\") forbid(principal, action, resource);] the policy has no `@id`: the name that reasons and records give",
        ),
        (
            "@id @reason(\"b\")",
            forbid,
            "bad-annotation [@id] an id is made of letters, digits, `-`, `_` and `.`",
        ),
        (
            "@id(\"a:b\") @reason(\"b\")",
            forbid,
            "bad-annotation [@id(\"a:b\")] an id is made of letters, digits, `-`, `_` and `.`",
        ),
        (
            "@id(\"a\") @reason(\" \")",
            forbid,
            "bad-annotation [@reason(\" \")] `@reason` says nothing",
        ),
        (
            "@id(\"a\") @reason(\"b\\nc\")",
            forbid,
            "bad-annotation [@reason(\"b\\nc\")] `@reason` has to be one line of plain text",
        ),
        (
            "@id(\"a\") @reason(\"not {path}\")",
            forbid,
            "unknown-placeholder [{path}] nothing fills `{path}`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @help(\"{Tool}\")",
            forbid,
            "unknown-placeholder [{Tool}] nothing fills `{Tool}`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @desicion(\"ask\")",
            forbid,
            "unknown-annotation [@desicion(\"ask\")] unknown annotation `@desicion`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @decision(\"deny\")",
            forbid,
            "bad-annotation [@decision(\"deny\")] `deny` is no value of `@decision`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @decision(\"ask\")",
            permit,
            "bad-annotation [@decision(\"ask\")] `@decision` may stand on a forbid only",
        ),
        (
            "@id(\"a\") @reason(\"b\") @mode(\"monitor\")",
            permit,
            "bad-annotation [@mode(\"monitor\")] `@mode` may stand on a forbid only",
        ),
        (
            "@id(\"a\") @reason(\"b\") @mode(\"enforce\")",
            forbid,
            "bad-annotation [@mode(\"enforce\")] `enforce` is no value of `@mode`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @obligation(\"record:sync\")",
            forbid,
            "bad-annotation [@obligation(\"record:sync\")] `@obligation` may stand on a permit only",
        ),
        (
            "@id(\"a\") @reason(\"b\") @obligation(\"record:sync x\")",
            permit,
            "bad-annotation [@obligation(\"record:sync x\")] `x` is no value of `@obligation`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @severity(\"High\")",
            forbid,
            "bad-annotation [@severity(\"High\")] `High` is no value of `@severity`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @waivable(\"all\")",
            forbid,
            "bad-annotation [@waivable(\"all\")] `all` is no value of `@waivable`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @decision(\"ask\") @approvals(\"0\")",
            forbid,
            "bad-annotation [@approvals(\"0\")] `0` is no value of `@approvals`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @decision(\"ask\") @approvals(\"2 3\")",
            forbid,
            "bad-annotation [@approvals(\"2 3\")] `3` is no value of `@approvals`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @decision(\"ask\") @approvals(\" \")",
            forbid,
            "bad-annotation [@approvals(\" \")] ` ` is no value of `@approvals`",
        ),
        (
            "@id(\"a\") @reason(\"b\") @approvals(\"2\")",
            forbid,
            "bad-annotation [@approvals(\"2\")] `@approvals` may stand on a forbid with `@decision(\"ask\")` only",
        ),
        (
            "@id(\"a\") @id(\"b\")",
            forbid,
            "cedar-syntax [@id(\"b\")] duplicate annotation: @id",
        ),
        (
            HEAD,
            "permit(principal == ?principal, action, resource);",
            "template [@id(\"a\") @reason(\"b\") permit(principal == ?principal, action, resource);] policies with slots are not supported",
        ),
        (
            HEAD,
            "forbid(principal action, resource);",
            "cedar-syntax [action] unexpected token `action`",
        ),
        (
            HEAD,
            "forbid(principal, action, resource) when { f(1) };",
            "cedar-syntax [f(1)] `f` is not a valid function",
        ),
        (
            HEAD,
            "forbid(principal, action, resource) when { context.dept > 1 };",
            "validation [context.dept] attribute `dept` in the context not found",
        ),
        (
            HEAD,
            "forbid(principal, action == Bridge::Action::\"raed\", resource);",
            "validation [Bridge::Action::\"raed\"] unrecognized action `Bridge::Action::\"raed\"`",
        ),
        (
            HEAD,
            "forbid(principal, action, resource is Bridge::Pth);",
            "validation [Bridge::Pth] unrecognized entity type `Bridge::Pth`",
        ),
        (
            HEAD,
            "forbid(principal, action, resource is Bridge::Path) when { resource.given == 3 };",
            "validation [resource.given == 3] the types Long and String are not compatible",
        ),
    ] {
        let text = format!("{annotations} {policy}");
        let checked = check(&[("p.cedar", PERMIT), ("x.cedar", &text)], &[]);
        assert!(checked.bundle.is_none(), "{text}");
        assert_eq!(shown(&checked.problems).join("|"), expected, "{text}");
    }
}

#[test]
fn all_problems_of_a_file_are_found() {
    let text =
        "forbid(principal action, resource);\npermit(principal, action, resource) when { 1 == };";
    let problems = check(&[("x.cedar", text)], &[]).problems;
    let lines: Vec<_> = problems
        .iter()
        .map(|p| p.position().unwrap().line)
        .collect();
    assert_eq!(lines, [1, 2]);
    let text =
        "@ib(\"x\") @severity(\"x\") permit(principal, action, resource) when { context.x };";
    assert_eq!(check(&[("x.cedar", text)], &[]).problems.len(), 4);
}

#[test]
fn a_lower_layer_may_only_forbid() {
    for (text, expected) in [
        (PERMIT, format!("loosens [{PERMIT}] a layer below the base may forbid, but not permit")),
        (
            "@id(\"a\") @reason(\"b\") @mode(\"monitor\") forbid(principal, action, resource);",
            "loosens [@mode(\"monitor\")] only the base layer may have policies that are merely watched".to_owned(),
        ),
    ] {
        let checked = check(&[("p.cedar", PERMIT)], &[("w.cedar", text)]);
        assert!(checked.bundle.is_none());
        assert_eq!(shown(&checked.problems), [expected]);
    }
}

#[test]
fn ids_carry_their_layer_and_are_unique_in_it() {
    let forbid =
        "@id(\"p\") @reason(\"say \\\"yes\\\"\") @help(\"h\") forbid(principal, action, resource);";
    let bundle = check(&[("p.cedar", PERMIT)], &[("w.cedar", forbid)])
        .bundle
        .unwrap();
    let ids: Vec<_> = bundle.policies.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(ids, ["user:p", "workspace:p"]);
    assert_eq!(
        bundle.policies[1].reason,
        "the workspace's policy says: \"say 'yes'\""
    );
    assert_eq!(
        bundle.policies[1].help,
        "the workspace's policy says: \"h\""
    );

    let twice = check(&[("p.cedar", PERMIT), ("q.cedar", PERMIT)], &[]);
    assert_eq!(
        shown(&twice.problems),
        ["duplicate-id [@id(\"p\")] there is another policy `p` in user/p.cedar:1"]
    );
}

#[test]
fn annotations_arrive() {
    let text = r#"// first

@id("a") @reason("r {tool} {} {2,3}")
@decision("ask") @severity("high") @waivable("user") @help("h {resource}")
forbid(principal, action == Bridge::Action::"read", resource is Bridge::Path);

@id("b") @reason("r") @mode("monitor") forbid(principal, action, resource);
@id("c") @reason("r") @obligation("record:sync") permit(principal, action, resource);
"#;
    let bundle = check(&[("x.cedar", text)], &[]).bundle.unwrap();
    let [a, b, c] = &bundle.policies[..] else {
        panic!()
    };
    assert_eq!(
        (a.file.as_str(), a.line, a.verdict),
        ("user/x.cedar", 3, Verdict::Ask)
    );
    assert_eq!(
        (a.reason.as_str(), a.help.as_str()),
        ("r {tool} {} {2,3}", "h {resource}")
    );
    assert_eq!(
        (a.severity.as_str(), a.waivable, a.monitor),
        ("high", true, false)
    );
    assert_eq!((b.line, b.verdict, b.monitor), (7, Verdict::Forbid, true));
    assert_eq!(
        (c.verdict, &c.obligations[..]),
        (Verdict::Permit, &[Obligation::RecordSync][..])
    );
}

#[test]
fn scopes_become_sets() {
    let read = ActionSet::NONE.with(Action::Read);
    for (scope, actions, resources) in [
        ("action, resource", ActionSet::EVERY, ResourceSet::EVERY),
        (
            "action == Bridge::Action::\"read\", resource",
            read,
            ResourceSet::EVERY,
        ),
        (
            "action in [Bridge::Action::\"read\", Bridge::Action::\"url\"], resource",
            read.with(Action::Url),
            ResourceSet::EVERY,
        ),
        (
            "action in Bridge::Action::\"tool_use\", resource",
            ActionSet::tool_use(),
            ResourceSet::EVERY,
        ),
        (
            "action in [Bridge::Action::\"tool_use\", Bridge::Action::\"delegate\"], resource",
            ActionSet::tool_use().with(Action::Delegate),
            ResourceSet::EVERY,
        ),
        (
            "action, resource is Bridge::Path",
            ActionSet::EVERY,
            ResourceSet::only(ResourceType::Path),
        ),
        (
            "action, resource == Bridge::Tool::\"x\"",
            ActionSet::EVERY,
            ResourceSet::only(ResourceType::Tool),
        ),
        (
            "action, resource is Bridge::Url in Bridge::Url::\"x\"",
            ActionSet::EVERY,
            ResourceSet::only(ResourceType::Url),
        ),
    ] {
        let text = format!("{HEAD} permit(principal, {scope});");
        let bundle = check(&[("x.cedar", &text)], &[]).bundle.unwrap();
        assert_eq!(bundle.policies[0].actions, actions, "{scope}");
        assert_eq!(bundle.policies[0].resources, resources, "{scope}");
    }
}

#[test]
fn approvals_that_nobody_can_give_are_warned_of() {
    let text = |demand: &str| {
        format!(
            "{PERMIT} @id(\"q\") @reason(\"r\") @decision(\"ask\") @approvals(\"{demand}\") forbid(principal, action, resource);"
        )
    };
    let ann = "format = 1\n[[approver]]\nname = \"ann\"\ngroups = [\"security\"]\n\
        key = \"ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\"\n";
    for (demand, possible) in [("1 security", true), ("2", false), ("web", false)] {
        let files = [("x.cedar", &*text(demand)), ("approvers.toml", ann)];
        let checked = check(&files, &[]);
        let expected = format!(
            "unapprovable [@approvals(\"{demand}\")] nobody can give these approvals, so what this policy asks about is denied"
        );
        let expected: &[String] = if possible { &[] } else { &[expected] };
        assert_eq!(shown(&checked.problems), expected);
        assert!(checked.bundle.is_some());
    }
}

#[test]
fn odd_policies_are_warned_of() {
    let permission = "format = 1\n[[pattern]]\nid = \"used\"\npattern = 'x'\n[[pattern]]\nid = \"idle\"\npattern = 'x'";
    for (policy, expected) in [
        (
            "forbid(principal, action == Bridge::Action::\"read\", resource is Bridge::Path) when { resource.labels.contains(\"gaurd\") };",
            "undefined-label [\"gaurd\"] no file gives the label `gaurd`",
        ),
        (
            "forbid(principal, action == Bridge::Action::\"read\", resource is Bridge::Path) when { resource.labels.containsAny([\"guard\", \"x\"]) };",
            "undefined-label [\"x\"] no file gives the label `x`",
        ),
        (
            "forbid(principal, action, resource) when { context.patterns.contains(\"usde\") };",
            "undefined-pattern [\"usde\"] no file defines the pattern `usde`",
        ),
    ] {
        let used = "@id(\"u\") @reason(\"r\") forbid(principal, action, resource) when { context.patterns.contains(\"used\") };";
        let text = format!("{HEAD} {policy} {used}");
        let checked = check(
            &[
                ("p.cedar", PERMIT),
                ("permission.toml", permission),
                ("x.cedar", &text),
            ],
            &[],
        );
        assert!(checked.bundle.is_some(), "warnings refuse nothing");
        assert_eq!(
            shown(&checked.problems),
            [
                "unused-pattern [\"idle\"] no policy names the pattern `idle`",
                expected
            ]
        );
    }
    let never = format!(
        "{HEAD} forbid(principal, action == Bridge::Action::\"read\", resource is Bridge::Command);"
    );
    let checked = check(&[("p.cedar", PERMIT), ("x.cedar", &never)], &[]);
    assert_eq!(checked.problems.len(), 1);
    assert_eq!(checked.problems[0].code.name(), "impossible-policy");
}

#[test]
fn nothing_ends_the_process() {
    for (start, end) in [
        ("(", ")"),
        ("!", ""),
        ("[", "]"),
        ("{a: ", "}"),
        ("true && ", ""),
        ("if true then true else ", ""),
        ("-", ""),
    ] {
        for depth in [nesting::LIMIT - 5, 200_000 / start.len()] {
            let text = format!(
                "{HEAD} forbid(principal, action, resource) when {{ {}true{} }};",
                start.repeat(depth),
                end.repeat(depth)
            );
            let checked = check(&[("p.cedar", PERMIT)], &[("w.cedar", &text)]);
            let deep = checked.problems.iter().any(|p| p.code == Code::TooDeep);
            assert_eq!(deep, depth > nesting::LIMIT, "{start}");
            if let Some(bundle) = checked.bundle {
                let decision = Engine::new(bundle.clone()).decide(&[request()]).decision;
                assert_eq!(decision.effect(), Effect::Deny, "{start}");
            }
        }
    }
}

fn request() -> Request {
    Request {
        principal: Agent::default(),
        action: Action::Session,
        resource: Resource::Text(TextFacts::default()),
        context: Context::default(),
    }
}

#[test]
fn a_base_without_policies_is_refused() {
    let checked = check(&[("x.cedar", "// nothing")], &[]);
    assert_eq!(
        shown(&checked.problems),
        ["missing-policies [?] there is no policy in this directory"]
    );
    assert_eq!(check(&[], &[]).problems.len(), 1);
}

#[test]
fn only_what_is_asked_first_is_required() {
    for (clauses, wanted) in [
        (r#"when { resource.labels.contains("a") }"#, vec!["a"]),
        (
            r#"when { resource.labels.containsAny(["a", "b"]) && context.depth == 1 }"#,
            vec!["a", "b"],
        ),
        (
            r#"when { resource.labels.contains("a") } unless { context.depth == 1 }"#,
            vec!["a"],
        ),
        (
            r#"when { context.depth == 1 && resource.labels.contains("a") }"#,
            vec![],
        ),
        (
            r#"when { resource.labels.contains("a") || context.depth == 1 }"#,
            vec![],
        ),
        (r#"unless { resource.labels.contains("a") }"#, vec![]),
        (r#"when { !resource.labels.contains("a") }"#, vec![]),
        (r#"when { resource.labels.containsAll(["a"]) }"#, vec![]),
        (r#"when { context.patterns.contains("a") }"#, vec![]),
        ("", vec![]),
    ] {
        let text = format!("permit(principal, action, resource) {clauses};");
        let policy: cedar_policy::Policy = text.parse().unwrap();
        let tree = policy.to_pst().unwrap();
        let found = super::references::of(tree.body().clauses()).requires;
        assert_eq!(found, wanted, "{clauses}");
    }
}
