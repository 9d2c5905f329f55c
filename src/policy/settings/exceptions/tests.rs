//! What an exception may say, which layer may say it, and what is underlined where it may not.

use crate::engine::exception::{CommandName, HostName, Subject};
use crate::policy::diagnostic::Problem;
use crate::policy::layer::Layer;
use crate::policy::load::{Checked, check_sources};
use crate::policy::source::Source;
use crate::policy::testing::shown;

const POLICIES: &str = r#"
@id("p") @reason("r") permit(principal, action, resource);
@id("ask") @reason("r") @decision("ask") forbid(principal, action == Bridge::Action::"shell", resource is Bridge::Command);
@id("firm") @reason("r") forbid(principal, action, resource is Bridge::Path) when { resource.link };
@id("loose") @reason("r") @waivable("user") forbid(principal, action, resource is Bridge::Path) when { resource.fault != "" };
@id("guard") @reason("r") forbid(principal, action == Bridge::Action::"write", resource is Bridge::Path)
when { resource.labels.contains("guard") };
@id("texts") @reason("r") forbid(principal, action == Bridge::Action::"prompt", resource is Bridge::Text) when { context.phi };
"#;

const FORBID: &str = "@id(\"own\") @reason(\"r\") forbid(principal, action, resource is Bridge::Path) when { resource.link };";

/// A complete entry, but for what is added.
fn entry(more: &str) -> String {
    let mut text = "format = 1\n[[exception]]\n".to_owned();
    for line in [
        "id = 'x'",
        "reason = 'r'",
        "owner = 'o'",
        "expires = 2099-01-01",
    ] {
        let (key, _) = line.split_once(' ').unwrap();
        let starts = |other: &str| other.trim_start().starts_with(&format!("{key} "));
        if !more.lines().any(starts) {
            text.push_str(&format!("{line}\n"));
        }
    }
    text + more
}

fn source(layer: Layer, files: &[(&str, &str)]) -> Source {
    let files = files.iter();
    let files = files.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Source::new(layer, layer.prefix(), files)
}

fn user(exceptions: &str) -> Checked {
    check_sources(&[source(
        Layer::User,
        &[("p.cedar", POLICIES), ("exceptions.toml", exceptions)],
    )])
}

/// All problems but the warning that 2099 is far away.
fn problems(checked: &Checked) -> Vec<String> {
    let all = checked.problems.iter();
    let all = all.filter(|problem| !problem.message.contains("more than a year"));
    shown(&all.cloned().collect::<Vec<Problem>>())
}

#[test]
fn everything_wrong_is_underlined() {
    for (more, expected) in [
        (
            "policies = ['ask']",
            "missing-key [[[exception]]] the exception does not say which requests it is for",
        ),
        (
            "policies = ['ask']\ntools = []",
            "bad-value [[]] `tools` names nothing here",
        ),
        (
            "policies = ['ask']\ntools = ['a', '']",
            "bad-value [''] `tools` names nothing here",
        ),
        (
            "policies = []\ntools = ['a']",
            "bad-value [[]] `policies` names nothing here",
        ),
        (
            "tools = ['a']",
            "missing-key [[[exception]]] `policies` is missing",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nowner = ''",
            "bad-value [''] `owner` is empty",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nreason = ' '",
            "bad-value [' '] `reason` says nothing",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nreason = \"a\\nb\"",
            "bad-value [\"a\\nb\"] `reason` has to be one line of plain text",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nid = 'a b'",
            "bad-value ['a b'] an id is made of letters, digits, `-`, `_` and `.`",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nexpires = '2030-01-01'",
            "wrong-type ['2030-01-01'] this is a text, not a date",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nexpires = 2030-01-01T10:00:00",
            "bad-value [2030-01-01T10:00:00] `expires` is no day, and no time with a zone",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nexpires = 10:00:00",
            "bad-value [10:00:00] `expires` is no day, and no time with a zone",
        ),
        (
            "policies = ['ask']\nactions = ['run']",
            "bad-value ['run'] `run` is no action",
        ),
        (
            "policies = ['ask']\nsessions = ['unknown']",
            "bad-value ['unknown'] `unknown` is every session that a host does not name",
        ),
        (
            "policies = ['ask']\nentities = ['everest']",
            "bad-value ['everest'] entities.toml has no entity `everest`",
        ),
        (
            "policies = ['ask']\ncommands = ['/bin/ls']",
            "bad-value ['/bin/ls'] a command is a program without its folder, and maybe its subcommand",
        ),
        (
            "policies = ['ask']\ncommands = ['git push -f']",
            "bad-value ['git push -f'] a command is a program without its folder, and maybe its subcommand",
        ),
        (
            "policies = ['ask']\nhosts = ['https://a.b']",
            "bad-value ['https://a.b'] this names no host",
        ),
        (
            "policies = ['ask']\nhosts = ['*']",
            "bad-value ['*'] this names no host",
        ),
        (
            "policies = ['firm']\npaths = ['src']",
            "bad-path ['src'] this names no path: a path starts with `/`, `~`, `**/` or a place such as `${workspace}`",
        ),
        (
            "policies = ['firm']\npaths = ['/a']\ncommands = ['ls']",
            "bad-value [['ls']] no request is about both `paths` and `commands`",
        ),
        (
            "policies = ['asks']\ntools = ['a']",
            "unknown-policy ['asks'] no layer here has a policy `asks`",
        ),
        (
            "policies = ['user:asks']\ntools = ['a']",
            "unknown-policy ['user:asks'] no layer here has a policy `user:asks`",
        ),
        (
            "policies = ['default:ask']\ntools = ['a']",
            "unknown-policy ['default:ask'] there is no layer `default`",
        ),
        (
            "policies = ['p']\ntools = ['a']",
            "not-exempt ['p'] `p` permits: an exception leaves out what forbids or asks",
        ),
        (
            "policies = ['guard']\ntools = ['a']",
            "not-exempt ['guard'] `guard` protects the bridge itself: it has no exceptions",
        ),
        (
            "policies = ['texts']\ntools = ['a']",
            "not-exempt ['texts'] `texts` is about prompts and results: what is taken out of them has no exceptions",
        ),
        (
            "policies = ['ask']\npaths = ['/a']",
            "no-effect ['ask'] `ask` never judges `paths`",
        ),
        (
            "policies = ['ask']\nactions = ['read']",
            "no-effect ['ask'] `ask` never judges those actions",
        ),
        (
            "policies = ['ask']\ntool = ['a']",
            "unknown-key [tool] unknown key `tool`",
        ),
        (
            "policies = ['ask']\ntools = ['a']\nexpires = 2020-01-01",
            "expiry [2020-01-01] this exception expired at 2020-01-02 00:00 UTC",
        ),
    ] {
        let found = problems(&user(&entry(more)));
        assert!(
            found.contains(&expected.to_owned()),
            "{more}\n{expected}\n{found:#?}"
        );
    }
    let twice = format!(
        "{}\n{}",
        entry("policies = ['ask']\ntools = ['a']"),
        entry("policies = ['ask']\ntools = ['b']").replace("format = 1\n", "")
    );
    assert_eq!(
        problems(&user(&twice)),
        ["duplicate-id ['x'] there is another exception `x`"]
    );
}

#[test]
fn a_person_hears_before_an_exception_ends() {
    let in_days = |days: i64| {
        let at = jiff::Timestamp::now()
            .checked_add(jiff::SignedDuration::from_hours(days * 24))
            .unwrap();
        let text = entry(&format!(
            "policies = ['ask']\ntools = ['a']\nexpires = {}",
            at.strftime("%Y-%m-%dT%H:%M:%SZ")
        ));
        let checked = user(&text);
        assert!(checked.bundle.is_some(), "a warning refuses nothing");
        let all = checked.problems.iter();
        all.map(|problem| problem.message.split(" at ").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(in_days(-1), ["this exception expired"]);
    assert_eq!(in_days(13), ["this exception expires"]);
    assert_eq!(in_days(15), [""; 0]);
    assert_eq!(in_days(365), [""; 0]);
    assert_eq!(in_days(367), ["this exception lasts for more than a year"]);
}

#[test]
fn an_exception_is_what_the_file_says() {
    let text = entry(
        "policies = ['ask', 'user:firm', 'workspace:other']\ncommands = ['git push', 'make']\nagents = ['copilot']\n\
         expires = 2030-06-30T12:00:00.9+02:00",
    );
    let bundle = user(&text).bundle.unwrap();
    let [exception] = bundle.settings.exceptions.as_slice() else {
        panic!("there is one");
    };
    assert_eq!((exception.id.as_str(), exception.line), ("user:x", 2));
    assert_eq!(exception.policies, ["user:ask", "user:firm"]);
    assert_eq!(
        exception.expires,
        "2030-06-30T10:00:00Z"
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_second()
    );
    let name = |program: &str, subcommand: Option<&str>| CommandName {
        program: program.to_owned(),
        subcommand: subcommand.map(str::to_owned),
    };
    let commands = vec![name("git", Some("push")), name("make", None)];
    assert_eq!(exception.scope.subject, Subject::Commands(commands));
    let text = entry("policies = ['ask']\nhosts = ['A.example', '*.B.example']");
    let bundle = user(&text).bundle.unwrap();
    let host = |name: &str, below| HostName {
        name: name.to_owned(),
        below,
    };
    let hosts = vec![host("a.example", false), host("b.example", true)];
    assert_eq!(
        bundle.settings.exceptions[0].scope.subject,
        Subject::Hosts(hosts)
    );
}

#[test]
fn an_entity_is_known_by_any_of_its_names() {
    let checked = check_sources(&[source(
        Layer::User,
        &[
            ("p.cedar", POLICIES),
            (
                "entities.toml",
                "format = 1\n[[entity]]\nname = 'Everest'\naliases = ['ev']\nworkspaces = ['/w']",
            ),
            (
                "exceptions.toml",
                &entry("policies = ['ask']\nentities = ['EV']"),
            ),
        ],
    )]);
    let bundle = checked.bundle.unwrap();
    assert_eq!(bundle.settings.exceptions[0].scope.entities, ["Everest"]);
}

#[test]
fn a_layer_leaves_out_its_own_policies_those_below_and_what_is_waivable() {
    // Base, the layer below, whose file it is, the policies that it names, and what is said.
    for (of, names, expected) in [
        (
            Layer::Organisation,
            "'firm', 'user:own'",
            Ok(&["org:firm", "user:own"][..]),
        ),
        (
            Layer::Organisation,
            "'workspace:own'",
            Ok(&["workspace:own"]),
        ),
        (Layer::Organisation, "'workspace:none'", Ok(&[])),
        (
            Layer::Organisation,
            "'own'",
            Err("unknown-policy ['own'] no layer here has a policy `own`"),
        ),
        (Layer::User, "'own'", Ok(&["user:own"])),
        (Layer::User, "'loose'", Ok(&["org:loose"])),
        (Layer::User, "'org:loose'", Ok(&["org:loose"])),
        (
            Layer::User,
            "'firm'",
            Err("loosens ['firm'] the layer above does not let `firm` be waived"),
        ),
        (
            Layer::User,
            "'org:firm'",
            Err("loosens ['org:firm'] the layer above does not let `firm` be waived"),
        ),
        (
            Layer::User,
            "'org:none'",
            Err("unknown-policy ['org:none'] no layer here has a policy `org:none`"),
        ),
        (Layer::User, "'workspace:own'", Ok(&["workspace:own"])),
        (
            Layer::Workspace,
            "'own'",
            Err("loosens [[[exception]]] a workspace's policies cannot make exceptions"),
        ),
        (
            Layer::Workspace,
            "'loose'",
            Err("loosens [[[exception]]] a workspace's policies cannot make exceptions"),
        ),
    ] {
        let exceptions = entry(&format!("policies = [{names}]\nactions = ['write']"));
        let layer = |layer: Layer, text: &str| {
            let mut files = vec![("p.cedar", text)];
            if layer == of {
                files.push(("exceptions.toml", &exceptions));
            }
            source(layer, &files)
        };
        let checked = check_sources(&[
            layer(Layer::Organisation, POLICIES),
            layer(Layer::User, FORBID),
            layer(Layer::Workspace, FORBID),
        ]);
        match expected {
            Ok(policies) => {
                assert_eq!(problems(&checked), [""; 0], "{of} {names}");
                let bundle = checked.bundle.unwrap();
                assert_eq!(
                    bundle.settings.exceptions[0].policies, policies,
                    "{of} {names}"
                );
            }
            Err(problem) => {
                assert_eq!(problems(&checked), [problem], "{of} {names}");
                assert!(checked.bundle.is_none());
            }
        }
    }
}

#[test]
fn an_exception_for_a_layer_that_is_not_there_refuses_nothing() {
    let base = |names: &str| {
        let text = entry(&format!("policies = [{names}]\nactions = ['write']"));
        let checked = user(&text);
        (checked.bundle.is_some(), problems(&checked))
    };
    assert_eq!(base("'workspace:own', 'org:firm'"), (true, Vec::new()));
    let (good, found) = base("'own'");
    assert!(
        !good && found[0].starts_with("unknown-policy ['own']"),
        "{found:#?}"
    );
}

#[test]
fn what_cannot_be_read_hides_no_policy_that_is_unknown() {
    let text = entry("policies = ['ask']\ntools = ['a']");
    let checked = check_sources(&[source(
        Layer::User,
        &[
            ("p.cedar", "@id(\"ask\") forbid("),
            ("exceptions.toml", &text),
        ],
    )]);
    let codes: Vec<&str> = checked
        .problems
        .iter()
        .map(|problem| problem.code.name())
        .collect();
    assert_eq!(codes, ["cedar-syntax"]);
}
