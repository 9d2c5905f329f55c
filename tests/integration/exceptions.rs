//! Rolling policies out: what is only monitored, and exceptions, from the file to the report.

use std::fs;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::program::{Answer, Stage, run, send};

/// A day that none of these tests sees.
const FAR: &str = "2099-01-01";

/// A stage with the default policies as a user has them, and something added to them.
struct Rollout {
    stage: Stage,
    policies: PathBuf,
}

impl Rollout {
    fn new() -> Self {
        let stage = Stage::new();
        let policies = stage.policies();
        Self { stage, policies }
    }

    fn excepting(entry: &str) -> Self {
        let rollout = Self::new();
        rollout.except(entry);
        rollout
    }

    /// One exception for these policies, with a scope in TOML.
    fn except(&self, entry: &str) {
        let text = format!(
            "format = 1\n\n[[exception]]\nid = \"trial\"\nreason = \"a trial\"\nowner = \"platform-team\"\n{entry}\n"
        );
        fs::write(self.policies.join("exceptions.toml"), text).unwrap();
    }

    fn add(&self, name: &str, text: &str) {
        fs::write(self.policies.join(name), text).unwrap();
    }

    /// Changes a line of a policy file.
    fn replace(&self, name: &str, old: &str, new: &str) {
        let path = self.policies.join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{old}");
        fs::write(path, text.replacen(old, new, 1)).unwrap();
    }

    fn judge(&self, tool: &str, args: &Value) -> Answer {
        self.event("pre-tool-use", &self.stage.call(tool, args))
    }

    fn shell(&self, line: &str) -> Answer {
        self.judge("bash", &json!({"command": line}))
    }

    fn event(&self, name: &str, event: &Value) -> Answer {
        let mut hook = self.stage.hook(name, &[]);
        hook.arg("--policies").arg(&self.policies);
        send(hook, event.to_string().as_bytes())
    }

    fn verb(&self, words: &[&str]) -> Answer {
        let mut command = self.stage.command(words);
        command.arg("--policies").arg(&self.policies);
        command.arg("--state").arg(self.stage.state());
        run(command)
    }

    fn check(&self) -> Answer {
        let mut command = self.stage.command(&["policy", "check"]);
        command.arg(&self.policies);
        run(command)
    }

    fn explain(&self, tool: &str, args: &Value, form: &str) -> Answer {
        let mut command = self.stage.command(&["explain", "--format", form]);
        command.arg("--policies").arg(&self.policies);
        command.arg("--state").arg(self.stage.state());
        send(command, self.stage.call(tool, args).to_string().as_bytes())
    }

    fn last(&self) -> Value {
        self.stage.record().pop().unwrap()
    }

    fn line_of(&self, name: &str, start: &str) -> usize {
        let text = fs::read_to_string(self.policies.join(name)).unwrap();
        1 + text
            .lines()
            .position(|line| line.starts_with(start))
            .unwrap()
    }
}

const PUSH: &str =
    "policies = [\"ask-changes-history\"]\ncommands = [\"git push\"]\nexpires = 2099-01-01";

#[test]
fn an_exception_lets_through_what_it_names_and_says_so_everywhere() {
    let rollout = Rollout::excepting(PUSH);
    assert_eq!(rollout.shell("git push origin main").decision(), "allow");
    let line = rollout.last();
    assert_eq!(
        (&line["decision"], &line["would_decide"]),
        (&json!("allow"), &json!("ask"))
    );
    assert_eq!(
        line["detail"]["exceptions"],
        json!([{
            "id": "user:trial", "owner": "platform-team", "expires": "2099-01-02T00:00:00Z",
            "policies": ["user:ask-changes-history"],
        }])
    );
    assert_eq!(
        rollout.shell("git rebase main").decision(),
        "ask",
        "another command"
    );
    assert_eq!(rollout.last()["detail"], json!({}));
    assert_eq!(
        rollout.shell("git push && sudo ls").decision(),
        "deny",
        "the rest of the line is judged as ever"
    );

    let shown = rollout.explain("bash", &json!({"command": "git push"}), "text");
    let place = format!("{}:3", rollout.policies.join("exceptions.toml").display());
    for part in [
        format!(
            "left out  by the exception user:trial ({place}) until 2099-01-02T00:00:00Z, platform-team: a trial"
        ),
        "would be  ask".to_owned(),
        "decision  allow".to_owned(),
    ] {
        assert!(shown.text.contains(&part), "{part}: {}", shown.text);
    }
    let value = rollout
        .explain("bash", &json!({"command": "git push"}), "json")
        .json();
    let policies = value["requests"][1]["policies"].as_array().unwrap();
    let left_out = |policy: &&Value| policy["id"] == "user:ask-changes-history";
    let policy = policies.iter().find(left_out).unwrap();
    assert_eq!(
        policy["left_out_by"][0]["owner"], "platform-team",
        "{policy}"
    );

    let report = rollout
        .verb(&["audit", "report", "--format", "json"])
        .json();
    let used = &report["exceptions"]["rows"][0];
    assert_eq!(used["name"], "user:trial");
    assert_eq!(
        (&used["count"], &used["owner"]),
        (&json!(2), &json!("platform-team"))
    );
    assert_eq!(used["last"], rollout.last()["ts"]);
    assert_eq!(report["unused_exceptions"]["unused"], json!([]));
    assert_eq!(
        report["marked"]["signs"]["monitored"], 0,
        "an exception is no monitor"
    );
    let page = rollout.verb(&["audit", "report"]).text;
    assert!(
        page.contains("| `user:trial` | `platform-team` | 2 |"),
        "{page}"
    );
    let html = rollout.verb(&["audit", "report", "--format", "html"]).text;
    assert!(html.contains("platform-team"), "{html}");

    let mut query = rollout
        .stage
        .command(&["audit", "query", "--format", "json"]);
    query
        .args(["--exception", "trial", "--state"])
        .arg(rollout.stage.state());
    assert_eq!(run(query).text.lines().count(), 2);
    assert!(rollout.check().text.contains("policies, 1 exception"));
    let config = rollout.verb(&["config", "show"]).text;
    assert!(
        config.contains("exceptions = {\"user:trial\":\"2099-01-02T00:00:00Z\"}"),
        "{config}"
    );
}

#[test]
fn every_key_of_the_scope_narrows_it() {
    let stage = Stage::new();
    let workspace = stage.workspace();
    let workspace = workspace.to_str().unwrap();
    let shell = |line: &str| ("bash", json!({"command": line}));
    for (policy, scope, call, decision) in [
        (
            "ask-changes-history",
            "actions = ['shell']",
            shell("git push"),
            "allow",
        ),
        (
            "ask-changes-history",
            "actions = ['read']",
            shell("git push"),
            "ask",
        ),
        (
            "ask-changes-history",
            "tools = ['bash']",
            shell("git push"),
            "allow",
        ),
        (
            "ask-changes-history",
            "tools = ['view']",
            shell("git push"),
            "ask",
        ),
        (
            "ask-changes-history",
            "commands = ['git']",
            shell("git push"),
            "allow",
        ),
        (
            "ask-changes-history",
            "commands = ['git fetch']",
            shell("git push"),
            "ask",
        ),
        (
            "ask-changes-history",
            "sessions = ['session-1']",
            shell("git push"),
            "allow",
        ),
        (
            "ask-changes-history",
            "sessions = ['session-2']",
            shell("git push"),
            "ask",
        ),
        (
            "ask-changes-history",
            "agents = ['copilot']",
            shell("git push"),
            "allow",
        ),
        (
            "ask-changes-history",
            "agents = ['claude']",
            shell("git push"),
            "ask",
        ),
        (
            "ask-changes-history",
            "workspaces = ['WS']",
            shell("git push"),
            "allow",
        ),
        (
            "ask-changes-history",
            "workspaces = ['WS/src']",
            shell("git push"),
            "ask",
        ),
        (
            "ask-changes-history",
            "tools = ['bash']\nagents = ['claude']",
            shell("git push"),
            "ask",
        ),
        (
            "ask-secret-file-read",
            "paths = ['${workspace}/.env']",
            ("view", json!({"path": ".env"})),
            "allow",
        ),
        (
            "ask-secret-file-read",
            "paths = ['${workspace}/.env']",
            ("view", json!({"path": "src/.env"})),
            "ask",
        ),
        (
            "ask-network",
            "hosts = ['docs.example.com']",
            ("web_fetch", json!({"url": "https://docs.example.com/a"})),
            "allow",
        ),
        (
            "ask-network",
            "hosts = ['*.example.com']",
            ("web_fetch", json!({"url": "https://docs.example.com/a"})),
            "allow",
        ),
        (
            "ask-network",
            "hosts = ['example.com']",
            ("web_fetch", json!({"url": "https://docs.example.com/a"})),
            "ask",
        ),
        (
            "ask-mcp",
            "tools = ['triv-add']",
            ("triv-add", json!({"a": 1})),
            "allow",
        ),
        (
            "ask-mcp",
            "tools = ['triv-add']",
            ("triv-sub", json!({"a": 1})),
            "ask",
        ),
    ] {
        let rollout = Rollout::new();
        let scope = scope.replace("WS", rollout.stage.workspace().to_str().unwrap());
        rollout.except(&format!(
            "policies = [\"{policy}\"]\n{scope}\nexpires = {FAR}"
        ));
        let (tool, args) = call;
        let answer = rollout.judge(tool, &args);
        assert_eq!(
            answer.decision(),
            decision,
            "{scope}, {args}: {answer:?} {workspace}"
        );
    }
}

#[test]
fn an_exception_that_has_expired_changes_nothing() {
    let rollout = Rollout::excepting(
        "policies = [\"ask-changes-history\"]\ncommands = [\"git push\"]\nexpires = 2020-06-30",
    );
    assert_eq!(rollout.shell("git push").decision(), "ask");
    assert_eq!(rollout.last()["detail"], json!({}));
    let check = rollout.check();
    assert_eq!(check.code, 0);
    for part in [
        "warning[expiry]: this exception expired at 2020-07-01 00:00 UTC",
        "exceptions.toml:9:11",
    ] {
        assert!(check.text.contains(part), "{part}: {}", check.text);
    }
    let shown = rollout
        .explain("bash", &json!({"command": "git push"}), "text")
        .text;
    assert!(
        shown.contains("user:trial") && shown.contains("is expired: until 2020-07-01"),
        "{shown}"
    );
    let report = rollout
        .verb(&["audit", "report", "--format", "json"])
        .json();
    assert_eq!(report["exceptions"]["rows"], json!([]));
    assert_eq!(report["unused_exceptions"]["unused"][0]["id"], "user:trial");
}

/// Makes the record say that its last line was written at that time.
fn last_written(stage: &Stage, ts: &str) {
    let path = stage.state().join("audit/lock");
    let text = fs::read_to_string(&path).unwrap();
    let mut tip: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    tip["ts"] = ts.into();
    let json = tip.to_string();
    let sum = HEXLOWER.encode(&Sha256::digest(&json));
    fs::write(&path, format!("{json}\n{}\n", sum.get(..16).unwrap())).unwrap();
}

#[test]
fn a_clock_behind_the_record_expires_every_exception() {
    let rollout = Rollout::excepting(PUSH);
    assert_eq!(rollout.shell("git push").decision(), "allow");
    last_written(&rollout.stage, "2098-01-01T00:00:00.000000Z");
    let shown = rollout
        .explain("bash", &json!({"command": "git push"}), "text")
        .text;
    assert!(
        shown.contains("because the clock stands behind the record"),
        "{shown}"
    );
    assert_eq!(rollout.shell("git push").decision(), "ask");
    // The record goes on with the clock as it is.
    assert_eq!(rollout.shell("git push").decision(), "allow");
}

#[test]
fn where_the_end_of_the_record_is_unreadable_no_exception_holds() {
    let rollout = Rollout::excepting(PUSH);
    let lock = rollout.stage.state().join("audit/lock");
    assert_eq!(
        rollout.shell("git push").decision(),
        "allow",
        "there is no record yet"
    );
    for spoil in [
        |lock: &PathBuf| fs::write(lock, "{}\nx\n").unwrap(),
        |lock: &PathBuf| fs::remove_file(lock).unwrap(),
    ] {
        spoil(&lock);
        assert_eq!(rollout.shell("git push").decision(), "ask");
        assert_eq!(
            rollout.shell("git push").decision(),
            "allow",
            "the next line mends it"
        );
    }
}

#[test]
fn what_protects_the_bridge_has_no_exception() {
    let rollout = Rollout::excepting(&format!(
        "policies = [\"no-writes\", \"git-internals\"]\nactions = [\"write\"]\nexpires = {FAR}"
    ));
    rollout.add(
        "own.cedar",
        "@id(\"no-writes\") @reason(\"nothing is written here\")\n\
         forbid(principal, action == Bridge::Action::\"write\", resource);\n",
    );
    let create = |path: &str| rollout.judge("create", &json!({"path": path, "file_text": "x"}));
    assert_eq!(create("b.txt").decision(), "allow");
    let answer = create(".copilot-bridge/policies/x.cedar");
    assert_eq!(answer.decision(), "deny");
    for policy in ["user:guard ", "user:no-writes "] {
        assert!(answer.reason().contains(policy), "{policy}: {answer:?}");
    }
    assert_eq!(
        rollout.last()["detail"]["exceptions"][0]["policies"],
        json!(["user:no-writes"]),
        "for the tool, which is no guarded file"
    );
    for policy in ["guard", "guard-command"] {
        rollout.except(&format!(
            "policies = [\"{policy}\"]\ntools = [\"create\"]\nexpires = {FAR}"
        ));
        let check = rollout.check();
        assert_eq!(check.code, 3);
        let said = format!(
            "error[not-exempt]: `{policy}` protects the bridge itself: it has no exceptions"
        );
        assert!(check.text.contains(&said), "{}", check.text);
        assert!(
            check.text.contains("exceptions.toml:7:13"),
            "{}",
            check.text
        );
    }
}

#[test]
fn neither_faults_nor_what_nothing_permits_have_an_exception() {
    let all =
        format!("policies = [\"outside-read\", \"errs\"]\nactions = [\"read\"]\nexpires = {FAR}");
    let rollout = Rollout::new();
    rollout.add("own.cedar", "@id(\"errs\") @reason(\"x\")\nforbid(principal, action == Bridge::Action::\"shell\", resource);\n");
    rollout.except(&all);
    let answer = rollout.judge("view", &json!({"path": "../outside/secret.txt"}));
    assert_eq!(answer.decision(), "deny", "no permit");
    assert!(
        answer.reason().contains("no policy permits this"),
        "{answer:?}"
    );
    rollout.add(
        "own.cedar",
        "@id(\"errs\") @reason(\"x\")\nforbid(principal, action == Bridge::Action::\"read\", resource)\n\
         when { context.depth + 9223372036854775807 > 0 && context.depth - 9223372036854775807 - 2 < 0 };\n",
    );
    let answer = rollout.judge("view", &json!({"path": "a.txt"}));
    assert_eq!(answer.decision(), "deny", "{answer:?}");
    assert_eq!(rollout.last()["error_class"], "evaluation_error");
}

#[test]
fn a_workspace_makes_no_exceptions() {
    let stage = Stage::new();
    stage.write(
        "ws/.copilot-bridge/policies/exceptions.toml",
        "format = 1\n[[exception]]\nid = 'x'\npolicies = ['ask-changes-history']\nreason = 'r'\nowner = 'o'\n\
         expires = 2099-01-01\ntools = ['bash']\n",
    );
    let answer = stage.judge("bash", &json!({"command": "git push"}));
    assert_eq!(answer.decision(), "deny");
    let reason = answer.reason();
    assert!(
        reason.contains("exceptions.toml:2:1: a workspace's policies cannot make exceptions"),
        "{reason}"
    );
}

#[test]
fn compiled_policies_keep_their_exceptions_and_so_does_the_archive() {
    let rollout = Rollout::excepting(PUSH);
    let compiled = rollout.verb(&["policy", "compile"]);
    assert_eq!(compiled.code, 0, "{compiled:?}");
    // What is not read as text cannot be misread: the same answer, from the compiled form.
    assert_eq!(rollout.shell("git push").decision(), "allow");
    let digest = rollout.last()["policy_digest"].as_str().unwrap().to_owned();
    let kept = rollout
        .stage
        .state()
        .join(format!("audit/policies/{digest}.json"));
    let kept: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    let files = kept["layers"][0]["files"].as_array().unwrap();
    let file = files
        .iter()
        .find(|file| file["name"] == "exceptions.toml")
        .unwrap();
    assert!(file["text"].as_str().unwrap().contains("platform-team"));
    fs::remove_file(rollout.policies.join("exceptions.toml")).unwrap();
    assert_eq!(
        rollout.shell("git push").decision(),
        "ask",
        "another digest"
    );
}

#[test]
fn a_policy_that_is_only_monitored_is_told_of_and_stops_nothing() {
    let rollout = Rollout::new();
    rollout.replace(
        "containment.cedar",
        "@id(\"ask-changes-history\")\n",
        "@id(\"ask-changes-history\")\n@mode(\"monitor\")\n",
    );
    assert_eq!(rollout.shell("git push").decision(), "allow");
    let line = rollout.last();
    assert_eq!(
        (&line["decision"], &line["would_decide"]),
        (&json!("allow"), &json!("ask"))
    );
    let monitored = &line["detail"]["monitored"];
    let at = rollout.line_of("containment.cedar", "@id(\"ask-changes-history\")");
    assert_eq!(
        (&monitored[0]["id"], &monitored[0]["line"]),
        (&json!("user:ask-changes-history"), &json!(at))
    );
    assert_eq!(rollout.shell("git status").decision(), "allow");
    assert_eq!(rollout.last()["detail"], json!({}));
    let shown = rollout
        .explain("bash", &json!({"command": "git push"}), "text")
        .text;
    for part in ["watched   user:ask-changes-history", "would be  ask"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let report = rollout
        .verb(&["audit", "report", "--format", "json"])
        .json();
    assert_eq!(
        report["monitored"]["rows"][0]["name"],
        "user:ask-changes-history"
    );
    assert_eq!(report["monitored"]["rows"][0]["ask"], 1);
    assert_eq!(report["marked"]["signs"]["monitored"], 1);
    let unmatched = report["never_matched"]["unmatched"].as_array().unwrap();
    assert!(
        !unmatched
            .iter()
            .any(|one| one["id"] == "user:ask-changes-history")
    );

    // An exception shows in advance that nothing will be asked once the mode is gone.
    rollout.except(PUSH);
    assert_eq!(rollout.shell("git push").decision(), "allow");
    assert_eq!(
        rollout.last()["detail"],
        json!({}),
        "no verdict was changed"
    );
}

#[test]
fn monitor_mode_watches_all_but_faults_the_guard_and_redaction() {
    let rollout = Rollout::new();
    rollout.replace("bridge.toml", "mode = \"enforce\"", "mode = \"monitor\"");
    assert_eq!(rollout.shell("sudo ls").decision(), "allow");
    let line = rollout.last();
    assert_eq!(
        (&line["decision"], &line["would_decide"]),
        (&json!("allow"), &json!("deny"))
    );
    assert_eq!(
        line["detail"]["monitored"][0]["id"],
        "user:privileged-command"
    );

    for (file, id) in [
        ("containment.cedar", "guard"),
        ("containment.cedar", "guard-command"),
        ("permission.cedar", "prompt-as-it-is"),
    ] {
        let head = format!("@id(\"{id}\")\n");
        rollout.replace(file, &head, &format!("{head}@mode(\"monitor\")\n"));
    }
    let check = rollout.check();
    assert_eq!(check.code, 0, "{check:?}");
    let warned = check
        .text
        .matches("what protects the bridge is never merely watched")
        .count();
    assert_eq!(warned, 2, "{}", check.text);
    for (call, policy) in [
        (
            rollout.judge(
                "create",
                &json!({"path": ".copilot-bridge/policies/x.cedar", "file_text": "x"}),
            ),
            "user:guard ",
        ),
        (
            rollout.shell("copilot-bridge uninstall"),
            "user:guard-command ",
        ),
    ] {
        assert_eq!(call.decision(), "deny");
        assert!(call.reason().contains(policy), "{call:?}");
    }
    let fault = rollout.event("pre-tool-use", &json!({"sessionId": "s", "timestamp": 1}));
    assert_eq!(fault.decision(), "deny");

    let secret = format!(
        "ghp_{}",
        "x7Kp2mQ9rT4vW1zB8nC5dF3gH6jL0sA2eY4u"
            .chars()
            .rev()
            .collect::<String>()
    );
    let mut result = rollout.stage.call("view", &json!({"path": "a.txt"}));
    result["toolResult"] =
        json!({"resultType": "success", "textResultForLlm": format!("token = {secret}")});
    let answer = rollout.event("post-tool-use", &result);
    assert!(
        answer.text.contains("modifiedResult") && !answer.text.contains(&secret),
        "{answer:?}"
    );
    // This host cannot replace a prompt.
    let prompt = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": rollout.stage.workspace(),
        "prompt": format!("use {secret}"),
    });
    let mut hook = rollout
        .stage
        .hook("user-prompt-submitted", &["--dialect", "claude"]);
    hook.arg("--policies").arg(&rollout.policies);
    let answer = send(hook, prompt.to_string().as_bytes());
    assert!(
        answer.text.contains("block") || answer.code == 2,
        "{answer:?}"
    );
    assert_eq!(rollout.last()["decision"], "deny");
}

#[test]
fn what_nothing_permits_is_named_while_all_is_monitored() {
    let rollout = Rollout::new();
    rollout.replace("bridge.toml", "mode = \"enforce\"", "mode = \"monitor\"");
    let permit = "permit (\n  principal,\n  action == Bridge::Action::\"mcp\",\n  resource is Bridge::Tool\n)";
    rollout.replace(
        "permission.cedar",
        &format!("{permit};"),
        &format!("{permit} when {{ resource.name == \"other\" }};"),
    );
    rollout.replace(
        "permission.cedar",
        "@id(\"ask-mcp\")\n",
        "@id(\"ask-mcp\")\n@mode(\"monitor\")\n",
    );
    assert_eq!(
        rollout.judge("triv-add", &json!({"a": 1})).decision(),
        "allow"
    );
    let line = rollout.last();
    assert_eq!(line["would_decide"], "deny");
    let ids: Vec<&Value> = line["detail"]["monitored"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, ["default-deny"]);
}

#[test]
fn the_exceptions_of_the_documentation_are_in_order() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rollout.md");
    let text = fs::read_to_string(docs).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let rollout = Rollout::new();
    rollout.add("exceptions.toml", file);
    let check = rollout.check();
    assert_eq!(check.code, 0, "{check:?}");
    assert!(!check.text.contains("no-effect"), "{check:?}");
    assert!(check.text.contains("2 exceptions"), "{check:?}");
}
