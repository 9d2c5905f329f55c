//! `policy show`: what is in force here, from which layer, in words.

use super::program::{Answer, Stage, run};

const ADDED: &str = "// Nobody edits it by hand.\n@id(\"lock-file\")\n@reason(\"`{resource}` is written by the package manager\")\nforbid (principal, action == Bridge::Action::\"write\", resource is Bridge::Path)\nwhen { resource.resolved like \"*/package-lock.json\" };\n";

fn show(stage: &Stage, words: &[&str]) -> Answer {
    let mut command = stage.command(&["policy", "show"]);
    command
        .args(words)
        .arg("--policies")
        .arg(stage.path("policies"));
    command.arg("--state").arg(stage.state());
    run(command)
}

/// The user's policies, with one that is only watched, and a workspace that adds something.
fn stage() -> Stage {
    let stage = Stage::new();
    let dir = stage.policies();
    let path = dir.join("autonomy.cedar");
    let text = std::fs::read_to_string(&path).unwrap();
    let watched = text.replacen(
        "@decision(\"ask\")",
        "@decision(\"ask\")\n@mode(\"monitor\")",
        1,
    );
    std::fs::write(path, watched).unwrap();
    stage.write("ws/.copilot-bridge/policies/mine.cedar", ADDED);
    stage.write(
        "ws/.copilot-bridge/policies/bridge.toml",
        "format = 1\n[limits]\ndepth = 2\n",
    );
    stage
}

#[test]
fn everything_in_force_is_told_with_its_place() {
    let stage = stage();
    let answer = show(&stage, &[]);
    assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{answer:?}");
    let text = &answer.text;
    assert!(
        !text.contains('\u{1b}'),
        "no colours where nobody can see them"
    );
    let mut at = 0;
    for wanted in [
        "Layers\n  base  user       ",
        "policies, 12 files, owner ",
        "adds  workspace  ",
        "1 policy, 2 files",
        "adds lock-file, limits.depth",
        "Settings\n  mode                     enforce (bridge.toml (user))\n",
        "  limits.depth             2 (bridge.toml (workspace))\n",
        "\nread\n  allow  read-workspace            reading inside the workspace is allowed",
        "\nwrite\n",
        "  deny   workspace:lock-file       the workspace's policy says: \"the path is written",
        "\nshell\n",
        "  ask    ask-publish               the command publishes something under your name; monitored",
        "\nwhatever happens\n",
        "\nLabels of paths",
        "guard ",
        "\nPatterns over arguments\n  pipe-to-shell, ",
        "\nRedaction\n  secrets ",
        "  legacy       off",
    ] {
        let found = text.get(at..).unwrap().find(wanted);
        at += found.unwrap_or_else(|| panic!("`{wanted}` is not behind {at} of\n{text}"));
    }
    // Paths of a test are long, and digests are one word.
    let long = text
        .lines()
        .filter(|line| line.chars().count() > 100 && !line.contains('/'));
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
    // Every policy is there, once.
    let json = show(&stage, &["--format", "json"]).json();
    for policy in json["policies"].as_array().unwrap() {
        let id = policy["id"].as_str().unwrap();
        let shown = id.strip_prefix("user:").unwrap_or(id);
        let rows = text.lines().filter(|line| {
            let mut words = line.split_whitespace();
            ["allow", "ask", "deny"].contains(&words.next().unwrap_or_default())
                && words.next() == Some(shown)
        });
        assert_eq!(rows.count(), 1, "{id}");
    }
}

#[test]
fn programs_read_the_same() {
    let stage = stage();
    let json = show(&stage, &["--format", "json"]).json();
    assert_eq!(json["version"], 1);
    assert_eq!(json["layers"][0]["layer"], "user");
    assert_eq!(json["layers"][1]["policies"], 1);
    assert_eq!(json["settings"]["limits.depth"]["value"], 2);
    assert_eq!(
        json["settings"]["limits.depth"]["origin"],
        "bridge.toml (workspace)"
    );
    let policies = json["policies"].as_array().unwrap();
    let publish = policies
        .iter()
        .find(|policy| policy["id"] == "user:ask-publish")
        .unwrap();
    assert_eq!(
        (&publish["verdict"], &publish["monitor"]),
        (&"ask".into(), &true.into())
    );
    assert_eq!(publish["actions"], serde_json::json!(["shell"]));
    assert!(json["labels"]["paths"]["credentials"].as_u64().unwrap() > 5);
    assert!(json["labels"]["commands"]["everyday"].as_u64().unwrap() > 5);
    // `config show` says the same of settings.
    let mut config = stage.command(&["config", "show", "--format", "json", "--policies"]);
    config
        .arg(stage.path("policies"))
        .arg("--state")
        .arg(stage.state());
    assert_eq!(run(config).json(), json["settings"]);
}

#[test]
fn one_policy_is_shown_in_full() {
    let stage = stage();
    let answer = show(&stage, &["--policy", "lock-file"]);
    assert_eq!(answer.code, 0);
    assert!(
        answer.text.starts_with("workspace:lock-file  deny  "),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("mine.cedar:2\n"), "{}", answer.text);
    assert!(answer.text.ends_with(ADDED), "{}", answer.text);
    let full = show(
        &stage,
        &["--policy", "user:ask-publish", "--format", "json"],
    )
    .json();
    let text = full["policies"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("@id(\"ask-publish\")") && text.ends_with(';'),
        "{text}"
    );
    let none = show(&stage, &["--policy", "nobody"]);
    assert_eq!(none.code, 1);
    assert!(
        none.errors.contains("there is no policy `nobody` here"),
        "{none:?}"
    );
}

#[test]
fn what_is_broken_is_told_instead() {
    let stage = stage();
    stage.write(
        "ws/.copilot-bridge/policies/mine.cedar",
        "permit(principal, action, resource) whn { true };",
    );
    let answer = show(&stage, &[]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(
        answer.text.contains("mine.cedar:1:37") && answer.text.contains("^^^"),
        "{}",
        answer.text
    );
}

#[test]
fn colours_are_as_they_are_wished_for() {
    let stage = stage();
    let colours = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = stage.command(words);
        command.args(["--policies"]).arg(stage.path("policies"));
        command.envs(variables.iter().copied());
        let answer = run(command);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.text.contains('\u{1b}')
    };
    let show = ["policy", "show"];
    assert!(!colours(&show, &[]));
    assert!(colours(&show, &[("CLICOLOR_FORCE", "1")]));
    assert!(!colours(
        &show,
        &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]
    ));
    // The flag stands above the variables, before the verb and behind it.
    assert!(colours(
        &["policy", "show", "--color", "always"],
        &[("NO_COLOR", "1")]
    ));
    assert!(colours(&["--color=always", "policy", "show"], &[]));
    assert!(!colours(
        &["policy", "show", "--color", "never"],
        &[("CLICOLOR_FORCE", "1")]
    ));
    assert!(!colours(&["policy", "show", "--color", "auto"], &[]));
    let refused = run(stage.command(&["policy", "show", "--color", "sometimes"]));
    assert_eq!(refused.code, 64);
    // Help and mistakes have them too.
    let help = run(stage.command(&["--color", "always", "--help"]));
    assert!(help.text.contains('\u{1b}'), "{}", help.text);
    let wrong = run(stage.command(&["policy", "nothing", "--color=always"]));
    assert!(
        wrong.errors.contains('\u{1b}') && wrong.code == 64,
        "{wrong:?}"
    );
    // A hook has none: it answers programs.
    let hook = run(stage.command(&["hook", "pre-tool-use", "--color", "never"]));
    assert_eq!(hook.code, 2, "{hook:?}");
}
