//! What the TOML files may say, and what is underlined when they say something else.

use crate::engine::bundle::{Durability, Handling, Mode, OnFailure, Settings};
use crate::policy::diagnostic::Problem;
use crate::policy::testing::{PERMIT, check, shown};

fn problems(name: &str, text: &str) -> Vec<Problem> {
    check(&[("p.cedar", PERMIT), (name, text)], &[]).problems
}

fn settings(user: &[(&str, &str)], workspace: &[(&str, &str)]) -> Settings {
    let mut files = vec![("p.cedar", PERMIT)];
    files.extend(user);
    let checked = check(&files, workspace);
    let shown = shown(&checked.problems);
    checked
        .bundle
        .unwrap_or_else(|| panic!("{shown:#?}"))
        .settings
}

#[test]
fn everything_wrong_is_underlined() {
    for (name, text, expected) in [
        (
            "approvers.toml",
            "format = 1\n[[approver]]\nname = 'ann'",
            "missing-key [[[approver]]] `key` is missing",
        ),
        (
            "approvers.toml",
            "format = 1\n[[approver]]\nname = 'ann'\nkey = 'ed25519:AAAA'",
            "bad-value ['ed25519:AAAA'] a public key is `ed25519:` and 44 characters of Base64",
        ),
        (
            "approvers.toml",
            "format = 1\n[[approver]]\nname = 'ann'\nkey = 'ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='\n[[approver]]\nname = 'bob'\nkey = 'ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='",
            "duplicate-id ['ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='] this is the key of `ann` too",
        ),
        (
            "approvers.toml",
            "format = 1\n[approvals]\nrequired = 2",
            "bad-value [2] this file names 0 approvers: nobody could approve anything",
        ),
        (
            "approvers.toml",
            "format = 1\n[approvals]\nminutes = 1441",
            "bad-value [1441] `minutes` has to be between 1 and 1440",
        ),
        (
            "approvers.toml",
            "format = 1\n[approvals]\nunverified = 'ask'",
            "bad-value ['ask'] `ask` is no value of `unverified`",
        ),
        (
            "bridge.toml",
            "mode = 'enforce'",
            "missing-key [] `format` is missing",
        ),
        (
            "bridge.toml",
            "format = 2\nmode = 3",
            "unsupported-format [2] this version knows format 1 only",
        ),
        (
            "bridge.toml",
            "format = '1'",
            "wrong-type ['1'] this is a text, not a whole number",
        ),
        (
            "bridge.toml",
            "format = 1\nmod = 'x'",
            "unknown-key [mod] unknown key `mod`",
        ),
        (
            "bridge.toml",
            "format = 1\nmode = 'watch'",
            "bad-value ['watch'] `watch` is no value of `mode`",
        ),
        (
            "bridge.toml",
            "format = 1\nmode = ",
            "toml-syntax [] string values must be quoted, expected literal string",
        ),
        (
            "bridge.toml",
            "format = 1\nformat = 1",
            "toml-syntax [format] duplicate key",
        ),
        (
            "bridge.toml",
            "format = 1\nlimits = 3",
            "wrong-type [3] this is a number, not a table",
        ),
        (
            "bridge.toml",
            "format = 1\nharmless_tools = ['a', 2]",
            "wrong-type [2] this is a number, not a text",
        ),
        (
            "bridge.toml",
            "format = 1\n[limits]\ndepth = 0",
            "bad-value [0] `depth` has to be between 1 and 1000",
        ),
        (
            "bridge.toml",
            "format = 1\n[limits]\ndepth = -1",
            "bad-value [-1] `depth` has to be between 1 and 1000",
        ),
        (
            "bridge.toml",
            "format = 1\n[limits]\ndepth = 1.5",
            "wrong-type [1.5] this is a number, not a whole number",
        ),
        (
            "bridge.toml",
            "format = 1\n[limits]\ndeadline_ms = 99999",
            "bad-value [99999] `deadline_ms` has to be between 10 and 20000",
        ),
        (
            "bridge.toml",
            "format = 1\n[session]\nmax_retries = nan",
            "wrong-type [nan] this is a number, not a number that is finite",
        ),
        (
            "bridge.toml",
            "format = 1\n[session]\nlog_level = 'loud'",
            "bad-value ['loud'] `loud` is no value of `log_level`",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\non_failure = 'ask'",
            "bad-value ['ask'] `ask` is no value of `on_failure`",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\nfile_mib = 0",
            "bad-value [0] `file_mib` has to be between 1 and 1024",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\nmirrors = ['seed', 'ted']",
            "bad-value ['ted'] `ted` is no mirror",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\nmirrors = ['seed']\nseed_mirror = 'logs'",
            "bad-path ['logs'] a mirror's folder starts with `/` or `~/` and has neither wildcards nor `..`",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\nmirrors = ['xpia']\nxpia_mirror = '/logs/../etc'",
            "bad-path ['/logs/../etc'] a mirror's folder starts with `/` or `~/` and has neither wildcards nor `..`",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\nmirrors = ['seed']\nxpia_mirror = '/logs'",
            "bad-value ['/logs'] `xpia_mirror` says something about a mirror that is not wanted",
        ),
        (
            "bridge.toml",
            "format = 1\n[[error]]\nclass = 'a'",
            "missing-key [[[error]]] `handling` is missing",
        ),
        (
            "bridge.toml",
            "format = 1\n[[error]]\nclass = 'a'\nhandling = 'retry'",
            "missing-key [[[error]]] `retries` is missing",
        ),
        (
            "bridge.toml",
            "format = 1\n[[error]]\nclass = 'a'\nhandling = 'skip'\nretries = 2",
            "bad-value [2] `retries` says something about `handling = \"retry\"` only",
        ),
        (
            "bridge.toml",
            "format = 1\n[[error]]\nclass = 'a'\nhandling = 'skip'\npattern = '('",
            "bad-pattern ['('] this is no regular expression: unclosed group",
        ),
        (
            "permission.toml",
            "format = 1\n[[pattern]]\nid = 'a'",
            "missing-key [[[pattern]]] `pattern` is missing",
        ),
        (
            "permission.toml",
            "format = 1\n[[pattern]]\nid = ''\npattern = 'a'",
            "bad-value [''] `id` is empty",
        ),
        (
            "permission.toml",
            "format = 1\n[[pattern]]\nid = 'a'\npattern = 'a'\nexamples = ['a', 'b']",
            "failed-example ['b'] the pattern does not match this example",
        ),
        (
            "permission.toml",
            "format = 1\n[[pattern]]\nid = 'a'\npattern = 'a'\ncounterexamples = ['xay']",
            "failed-example ['xay'] the pattern matches this counterexample",
        ),
        (
            "permission.toml",
            "format = 1\n[[pattern]]\nid = 'a'\npattern = 'a'\non = 'all'",
            "bad-value ['all'] `all` is no value of `on`",
        ),
        (
            "permission.toml",
            "format = 1\npattern = [1]",
            "wrong-type [1] this is a number, not a table",
        ),
        (
            "containment.toml",
            "format = 1\nguard = ['src']",
            "bad-path ['src'] this names no path: a path starts with `/`, `~`, `**/` or a place such as `${workspace}`",
        ),
        (
            "containment.toml",
            "format = 1\nguard = ['/a/[']",
            "bad-path ['/a/['] this names no path: unclosed character class; missing ']'",
        ),
        (
            "containment.toml",
            "format = 1\nworkspace_root = 'x'",
            "bad-path ['x'] the root has to start with `/`",
        ),
        (
            "containment.toml",
            "format = 1\n[[label]]\nname = 'guard'\npaths = []",
            "reserved-label ['guard'] the label `guard` has a list of its own",
        ),
        (
            "containment.toml",
            "format = 1\n[[label]]\nname = 'a'",
            "missing-key [[[label]]] `paths` is missing",
        ),
        (
            "containment.toml",
            "format = 1\n[[program]]\nname = ['a']",
            "missing-key [[[program]]] `names` is missing|unknown-key [name] unknown key `name`",
        ),
        (
            "containment.toml",
            "format = 1\n[[program]]\nnames = ['git']\nexamples = ['got x']",
            "failed-example ['got x'] the entry does not hold for this example",
        ),
        (
            "containment.toml",
            "format = 1\n[[program]]\nnames = ['git']\ncounterexamples = ['/usr/bin/git x']",
            "failed-example ['/usr/bin/git x'] the entry holds for this counterexample",
        ),
        (
            "containment.toml",
            "format = 1\n[[program]]\nnames = ['git']\nexamples = [\"git 'x\"]",
            "failed-example [\"git 'x\"] this is no command line",
        ),
        (
            "containment.toml",
            "format = 1\n[[program]]\nnames = ['a']\noperands = 'all'",
            "bad-value ['all'] `all` is no value of `operands`",
        ),
    ] {
        let problems = problems(name, text);
        assert!(problems.iter().all(Problem::is_error), "{text}");
        assert_eq!(shown(&problems).join("|"), expected, "{text}");
    }
}

#[test]
fn every_problem_of_every_file_is_found() {
    let checked = check(
        &[
            ("a.cedar", "permit(principal action, resource);"),
            (
                "bridge.toml",
                "format = 1\nmod = 'x'\nmode = 'x'\n[audit]\ndurable = 1",
            ),
            ("permission.toml", "x ="),
        ],
        &[("b.cedar", PERMIT)],
    );
    assert!(checked.bundle.is_none());
    let codes: Vec<_> = checked.problems.iter().map(|p| p.code.name()).collect();
    assert_eq!(
        codes,
        [
            "cedar-syntax",
            "unknown-key",
            "bad-value",
            "unknown-key",
            "toml-syntax",
            "loosens"
        ]
    );
}

#[test]
fn helps_name_what_is_legal() {
    for (text, help) in [
        ("format = 1\nmode = 'x'", "it is `enforce` or `monitor`"),
        ("format = 1\nmod = 'x'", "did you mean `mode`?"),
        (
            "format = 1\n[limits]\nxyz = 1",
            "known here: `depth`, `event_bytes`, `deadline_ms` or `result_bytes`",
        ),
        ("mode = 'enforce'", "write `format = 1` at the top"),
    ] {
        let problems = problems("bridge.toml", text);
        assert_eq!(problems[0].help.as_deref(), Some(help));
    }
}

#[test]
fn values_arrive() {
    let bridge = r#"
        format = 1
        mode = "monitor"
        harmless_tools = ["a", "b", "a"]
        [limits]
        depth = 0x0a
        event_bytes = 65_536
        [session]
        max_retries = 2.9
        log_level = "error"
        [audit]
        durability = "sync"
        on_failure = "allow"
        file_mib = 8
        retention_days = 400
        [[error]]
        class = "x"
        pattern = "y"
        ignore_case = true
        handling = "retry"
        retries = 2
    "#;
    let settings = settings(&[("bridge.toml", bridge)], &[]);
    assert_eq!(settings.mode, Mode::Monitor);
    assert_eq!(settings.harmless_tools, ["a", "b"]);
    assert_eq!(
        (settings.limits.depth, settings.limits.event_bytes),
        (10, 65_536)
    );
    assert_eq!(settings.limits.deadline_ms, 1000);
    assert_eq!(settings.session.max_retries, 2);
    assert_eq!(settings.audit.durability, Durability::Sync);
    assert_eq!(settings.audit.on_failure, OnFailure::Allow);
    assert_eq!(settings.audit.file_mib, 8);
    assert_eq!(settings.audit.retention_days, 400);
    assert_eq!(settings.errors[0].handling, Handling::Retry);
    assert!(
        settings.errors[0]
            .pattern
            .as_ref()
            .unwrap()
            .matches(&[crate::engine::pattern::Haystack::new("Y")])
            .unwrap()
    );
    assert_eq!(settings.origins["limits.depth"], "user");
    assert!(!settings.origins.contains_key("limits.deadline_ms"));
}

#[test]
fn a_mirror_is_guarded_where_it_is() {
    let bridge = "format = 1\n[audit]\nmirrors = ['xpia', 'seed', 'xpia']\nseed_mirror = '~/x'";
    let settings = settings(&[("bridge.toml", bridge)], &[]);
    let mirrors: Vec<_> = (settings.audit.mirrors.iter())
        .map(|mirror| (mirror.shape.name(), mirror.dir.as_deref()))
        .collect();
    assert_eq!(mirrors, [("seed", Some("~/x")), ("xpia", None)]);
    let mut labels = settings.containment.labels.iter();
    let guard = labels.find(|label| label.name == "guard").unwrap();
    let sources: Vec<&str> = guard.paths.iter().map(|it| it.source.as_str()).collect();
    assert_eq!(sources, ["~/x", "~/.claude/logs/xpia"]);
    assert_eq!(settings.origins["audit.mirrors"], "user");
    assert!(!settings.origins.contains_key("audit.xpia_mirror"));
}

#[test]
fn retries_are_floored_and_at_least_one() {
    for (written, retries) in [
        ("0", 1),
        ("-3", 1),
        ("0.5", 1),
        ("3", 3),
        ("2.99", 2),
        ("1e12", u32::MAX),
    ] {
        let bridge = format!("format = 1\n[session]\nmax_retries = {written}");
        let settings = settings(&[("bridge.toml", &bridge)], &[]);
        assert_eq!(settings.session.max_retries, retries, "{written}");
    }
}

#[test]
fn a_lower_layer_tightens() {
    let settings = settings(
        &[
            (
                "bridge.toml",
                "format = 1\nharmless_tools = ['a', 'b']\n[limits]\ndepth = 5",
            ),
            (
                "containment.toml",
                "format = 1\nguard = ['/a']\ndata_keys = ['x', 'y']",
            ),
            (
                "permission.toml",
                "format = 1\n[[pattern]]\nid = 'a'\npattern = 'a'",
            ),
        ],
        &[
            (
                "bridge.toml",
                "format = 1\nharmless_tools = ['b']\n[limits]\ndepth = 2\n[audit]\ndurability = 'sync'",
            ),
            (
                "containment.toml",
                "format = 1\nguard = ['/b', '/a']\ndata_keys = ['y']",
            ),
            (
                "permission.toml",
                "format = 1\n[[pattern]]\nid = 'b'\npattern = 'b'",
            ),
        ],
    );
    assert_eq!(settings.harmless_tools, ["b"]);
    assert_eq!(settings.limits.depth, 2);
    assert_eq!(settings.origins["limits.depth"], "workspace");
    assert_eq!(settings.audit.durability, Durability::Sync);
    assert_eq!(settings.containment.data_keys, ["y"]);
    let guard = &settings.containment.labels[0];
    assert!(guard.as_written && guard.name == "guard");
    let paths: Vec<_> = guard
        .paths
        .iter()
        .map(|path| path.source.as_str())
        .collect();
    assert_eq!(paths, ["/a", "/b"]);
    assert_eq!(settings.patterns.len(), 2);
}

#[test]
fn a_lower_layer_that_loosens_is_refused() {
    let base = [
        ("p.cedar", PERMIT),
        (
            "bridge.toml",
            "format = 1\n[limits]\ndepth = 3\n[audit]\ndurability = 'sync'",
        ),
        (
            "permission.toml",
            "format = 1\n[[pattern]]\nid = 'a'\npattern = 'a'",
        ),
    ];
    for (name, text, expected) in [
        (
            "bridge.toml",
            "format = 1\nmode = 'monitor'",
            "loosens [mode] `mode` may be set by the base layer only",
        ),
        (
            "bridge.toml",
            "format = 1\nmode = 'enforce'",
            "loosens [mode] `mode` may be set by the base layer only",
        ),
        (
            "bridge.toml",
            "format = 1\n[limits]\ndepth = 4",
            "loosens [4] the layer above limits `depth` to 3",
        ),
        (
            "bridge.toml",
            "format = 1\n[limits]\ndeadline_ms = 2000",
            "loosens [2000] the layer above limits `deadline_ms` to 1000",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\ndurability = 'os'",
            "loosens ['os'] the layer above waits for the disk: `sync` cannot become `os`",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\nmirrors = []",
            "loosens [mirrors] `mirrors` may be set by the base layer only",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\non_failure = 'deny'",
            "loosens [on_failure] `on_failure` may be set by the base layer only",
        ),
        (
            "bridge.toml",
            "format = 1\n[audit]\nretention_days = 1",
            "loosens [retention_days] `retention_days` may be set by the base layer only",
        ),
        (
            "bridge.toml",
            "format = 1\n[session]\nproject_context = 'x'",
            "loosens [project_context] `project_context` may be set by the base layer only",
        ),
        (
            "bridge.toml",
            "format = 1\n[[error]]\nclass = 'a'\nhandling = 'skip'",
            "loosens [error] `error` may be set by the base layer only",
        ),
        (
            "containment.toml",
            "format = 1\n[[label]]\nname = 'system'\npaths = ['/']",
            "loosens [label] `label` may be set by the base layer only",
        ),
        (
            "containment.toml",
            "format = 1\n[[program]]\nnames = ['rm']\nlabels = ['everyday']",
            "loosens [program] `program` may be set by the base layer only",
        ),
        (
            "containment.toml",
            "format = 1\nworkspace_root = '/'",
            "loosens [workspace_root] `workspace_root` may be set by the base layer only",
        ),
        (
            "permission.toml",
            "format = 1\n[[pattern]]\nid = 'a'\npattern = 'x'",
            "duplicate-id ['a'] there is another pattern `a`",
        ),
        (
            "entities.toml",
            "format = 1\n[[entity]]\nname = 'a'\nphi = false",
            "loosens [entity] `entity` may be set by the base layer only",
        ),
    ] {
        let checked = check(&base, &[(name, text)]);
        assert!(checked.bundle.is_none(), "{text}");
        assert_eq!(shown(&checked.problems).join("|"), expected, "{text}");
    }
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let checked = check(
        &[
            ("p.cedar", PERMIT),
            ("bridge.toml", "format = 1\nharmless_tools = ['a']"),
        ],
        &[("bridge.toml", "format = 1\nharmless_tools = ['a', 'b']")],
    );
    assert_eq!(checked.bundle.unwrap().settings.harmless_tools, ["a"]);
    assert_eq!(
        shown(&checked.problems),
        ["no-effect ['b'] `b` is not in the list of the layer above"]
    );
}

#[test]
fn a_workspace_has_a_limited_number_of_patterns() {
    let mut text = String::from("format = 1\n");
    for index in 0..65 {
        text.push_str(&format!("[[pattern]]\nid = 'p{index}'\npattern = 'x'\n"));
    }
    let checked = check(&[("p.cedar", PERMIT)], &[("permission.toml", &text)]);
    assert_eq!(
        shown(&checked.problems),
        ["too-large [[[pattern]]] a workspace may have 64 patterns"]
    );
}

#[test]
fn what_is_wrong_with_an_entity_is_underlined() {
    for (text, expected) in [
        ("[[entity]]", "missing-key [[[entity]]] `name` is missing"),
        ("[[entity]]\nname = ''", "bad-value [''] `name` is empty"),
        (
            "[[entity]]\nname = 'A'\n[[entity]]\nname = 'b'\naliases = ['a']",
            "duplicate-id ['a'] there is another entity `a`",
        ),
        (
            "[[entity]]\nname = 'A'\nworkspaces = ['work']",
            "bad-path ['work'] this names no path: a path starts with `/`, `~`, `**/` or a place such as `${workspace}`",
        ),
        (
            "[[entity]]\nname = 'A'\nphi = 'no'",
            "wrong-type ['no'] this is a text, not `true` or `false`",
        ),
        (
            "[[entity]]\nname = 'A'\nphy = true",
            "unknown-key [phy] unknown key `phy`",
        ),
    ] {
        let problems = problems("entities.toml", &format!("format = 1\n{text}"));
        assert_eq!(shown(&problems).join("|"), expected, "{text}");
    }
}

#[test]
fn an_entity_has_health_information_unless_it_says_not() {
    let text = "format = 1\n[[entity]]\nname = 'A'\n[[entity]]\nname = 'B'\nphi = false";
    let entities = settings(&[("entities.toml", text)], &[]).entities;
    let phi: Vec<bool> = entities.all.iter().map(|entity| entity.phi).collect();
    assert_eq!(phi, [true, false]);
}
