//! `audit/samples`: a small record of made-up events, for queries and for those who write a reader.
//!
//! They are lines as the program forms them, with fixed values. When the form changes:
//! `UPDATE_FIXTURES=1 cargo test --test integration samples`, and read the diff.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use copilot_bridge::audit::checkpoint;
use copilot_bridge::audit::key::Key;
use copilot_bridge::audit::record::v1::{Entry, Kind, Stamp, line};
use copilot_bridge::audit::tree::Tree;
use copilot_bridge::engine::action::Action;
use copilot_bridge::engine::decision::{Effect, FaultClass, Obligation, Reason};
use copilot_bridge::engine::redaction::Hit;
use copilot_bridge::engine::request::{
    Agent, CommandFacts, Context, PathFacts, Request, Resource, TextFacts, ToolFacts, UrlFacts,
};
use data_encoding::{BASE64, HEXLOWER};
use ed25519_dalek::SigningKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::program::{Stage, run};

const WORKSPACE: &str = "/srv/code/shop";

/// Policies with their files and lines, as they were when this was written.
const POLICIES: [(&str, &str, u32); 16] = [
    ("ask-custom-tool", "permission.cedar", 84),
    ("ask-network", "permission.cedar", 32),
    ("ask-unlisted-program", "containment.cedar", 181),
    ("errors", "permission.cedar", 227),
    ("guard", "containment.cedar", 161),
    ("mcp-tools", "permission.cedar", 70),
    ("outside-read", "containment.cedar", 75),
    ("outside-write", "containment.cedar", 87),
    ("private-address", "permission.cedar", 39),
    ("privileged-command", "containment.cedar", 304),
    ("prompts", "permission.cedar", 174),
    ("read-workspace", "containment.cedar", 6),
    ("results", "permission.cedar", 185),
    ("sessions", "permission.cedar", 223),
    ("shell-tools", "permission.cedar", 23),
    ("write-roots", "containment.cedar", 53),
];

/// One event, before it is a line.
struct Told {
    kind: Kind,
    event: &'static str,
    tool: Option<&'static str>,
    args: Option<Value>,
    cleaned: Option<Value>,
    requests: Vec<Request>,
    effect: Effect,
    would: Effect,
    policies: Vec<&'static str>,
    obligations: Vec<Obligation>,
    hits: Vec<Hit>,
    latency: Option<u64>,
    class: Option<FaultClass>,
    said: Option<String>,
    detail: Value,
}

/// Who worked, in which session.
struct Session {
    id: String,
    dialect: &'static str,
    agent: Option<&'static str>,
    entity: Option<&'static str>,
}

#[test]
fn the_samples_are_as_the_program_writes_them() {
    let dir = dir();
    let mut files = Vec::new();
    for (day, text) in samples() {
        files.push((format!("audit-{day}.jsonl"), text));
        let lines = files.iter().filter(|(name, _)| name.starts_with("audit-"));
        let lines: String = lines.map(|(_, text)| text.as_str()).collect();
        files.push((format!("checkpoints-{day}.jsonl"), checkpoint(&lines)));
    }
    for (name, text) in files {
        let path = dir.join(name);
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::create_dir_all(&dir).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let same = found == text;
        assert!(
            same,
            "`{}` is of another form; UPDATE_FIXTURES=1 writes it anew",
            path.display()
        );
    }
}

#[test]
fn the_samples_are_whole() {
    let stage = Stage::new();
    let mut command = stage.command(&["audit", "verify"]);
    command.arg(dir());
    let answer = run(command);
    assert_eq!(answer.code, 0, "{answer:?}");
    let whole =
        ": whole\n2 checkpoints cover it up to number 61, signed with copilot-bridge/samples+";
    assert!(answer.text.contains(whole), "{answer:?}");
}

/// The line of a checkpoint over all lines so far, by a key that nobody keeps secret.
fn checkpoint(lines: &str) -> String {
    let state = tempfile::tempdir().unwrap();
    let seed = [7; 32];
    let name = "copilot-bridge/samples";
    let key = SigningKey::from_bytes(&seed).verifying_key();
    let public = signed_note::new_ed25519_verifier_key(name, &key);
    let hash = public.split('+').nth(1).unwrap();
    let private = BASE64.encode(&[&[1], &seed[..]].concat());
    let path = checkpoint::path(state.path());
    fs::write(&path, format!("PRIVATE+KEY+{name}+{hash}+{private}")).unwrap();
    let mut mode = fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o600);
    fs::set_permissions(&path, mode).unwrap();
    let mut tree = Tree::default();
    let mut last = [0; 32];
    let mut ts = String::new();
    for line in lines.lines() {
        last = Sha256::digest(line).into();
        tree.push(&last);
        let line: Value = serde_json::from_str(line).unwrap();
        line["ts"].as_str().unwrap().clone_into(&mut ts);
    }
    let signer = checkpoint::Signer::of(state.path()).unwrap();
    let made = checkpoint::Checkpoint::sign(&signer, &tree, last, &ts).unwrap();
    format!("{}\n", made.to_json())
}

pub(crate) fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("audit/samples")
}

/// The days with their lines.
fn samples() -> Vec<(&'static str, String)> {
    let session = |id: &str, dialect, agent, entity| Session {
        id: id.to_owned(),
        dialect,
        agent,
        entity,
    };
    let long = "s-".repeat(300);
    let days = [
        (
            "2026-03-02",
            vec![
                (session("s-1", "copilot", None, None), first_session()),
                (
                    session("s-2", "claude", None, Some("acme")),
                    second_session(),
                ),
            ],
        ),
        (
            "2026-03-03",
            vec![
                (
                    session("s-3", "copilot", Some("a-1"), None),
                    third_session(),
                ),
                (session(&long, "vscode", None, None), fourth_session()),
            ],
        ),
    ];
    let mut pen = Pen {
        seq: 0,
        prev: "0".repeat(64),
        key: Key::from_bytes([7; 32]),
    };
    days.into_iter()
        .map(|(day, sessions)| {
            let start: Timestamp = format!("{day}T08:00:00.000125Z").parse().unwrap();
            let mut time = start;
            let mut text = String::new();
            for (session, all) in sessions {
                for told in all {
                    text.push_str(&pen.line(&told, &session, time, day));
                    let step = 53 + pen.seq % 7 * 211;
                    time += SignedDuration::from_secs(i64::try_from(step).unwrap());
                }
            }
            (day, text)
        })
        .collect()
}

/// Work as it should be, with what a gate is there for in between.
fn first_session() -> Vec<Told> {
    vec![
        session("session_start", json!({"source": "new"})),
        prompt(58),
        read("README.md", Effect::Allow, "read-workspace"),
        result("view", json!({"path": "README.md"}), 812),
        read("src/cart.ts", Effect::Allow, "read-workspace"),
        result("view", json!({"path": "src/cart.ts"}), 4_210),
        shell("npm test", "npm", Effect::Allow, "shell-tools"),
        Told {
            detail: json!({"result_bytes": 96, "failed": true}),
            ..result("bash", json!({"command": "npm test"}), 96)
        },
        read("../billing/keys.txt", Effect::Deny, "outside-read"),
        read("../billing/keys.txt", Effect::Deny, "outside-read"),
        shell(
            "sudo chown -R build .",
            "sudo",
            Effect::Deny,
            "privileged-command",
        ),
        write("src/cart.ts", "update", Effect::Allow, "write-roots"),
        result("edit", json!({"path": "src/cart.ts"}), 64),
        read(".env", Effect::Allow, "read-workspace"),
        found(
            result("view", json!({"path": ".env"}), 240),
            &[("github-pat", "/text", 1), ("private-key-pem", "/text", 2)],
        ),
        fetch("https://docs.example.com/cart", Effect::Ask, "ask-network"),
        session("session_end", json!({"source": "complete"})),
    ]
}

fn second_session() -> Vec<Told> {
    vec![
        session("session_start", json!({"source": "startup"})),
        prompt(1_900),
        fetch("http://10.0.0.8/admin", Effect::Deny, "private-address"),
        write(
            "../handbook/notes.md",
            "create",
            Effect::Deny,
            "outside-write",
        ),
        monitored(shell("make deploy", "make", Effect::Allow, "shell-tools")),
        result("bash", json!({"command": "make deploy"}), 10_240),
        found(
            shell(
                "curl -u me:«redacted:curl-user#k3k3k3k3» https://api.example.com",
                "curl",
                Effect::Ask,
                "ask-network",
            ),
            &[("curl-user", "/args/command", 1)],
        ),
        fault("the event cannot be read: expected value at line 1 column 1"),
        excepted(Told {
            latency: Some(91_500),
            ..shell("git push", "git", Effect::Allow, "shell-tools")
        }),
        result("bash", json!({"command": "git push"}), 55_000),
        // Nobody judged this one before it ran.
        result("mystery", json!({"what": "unknown"}), 12),
        custom("mystery", json!({"what": "unknown"})),
        read(".ssh/config", Effect::Deny, "guard"),
        session("session_end", json!({"source": "logout"})),
    ]
}

fn third_session() -> Vec<Told> {
    vec![
        session("session_start", json!({"source": "resume"})),
        read("docs/plan.md", Effect::Allow, "read-workspace"),
        result("view", json!({"path": "docs/plan.md"}), 3_000),
        mcp(),
        found(
            result("tickets-list_open", json!({"state": "open"}), 7_700),
            &[("phi-email", "/text", 4)],
        ),
        read("../billing/keys.txt", Effect::Deny, "outside-read"),
        shell(
            "frobnicate --all",
            "frobnicate",
            Effect::Ask,
            "ask-unlisted-program",
        ),
        monitored(read("vendor/lib.js", Effect::Allow, "read-workspace")),
        result("view", json!({"path": "vendor/lib.js"}), 900),
        Told {
            latency: Some(1_000_200),
            class: Some(FaultClass::Deadline),
            policies: vec!["deadline"],
            ..shell("npm run build", "npm", Effect::Deny, "")
        },
        superseded(),
        write("src/cart.ts", "delete", Effect::Allow, "write-roots"),
        result("edit", json!({"path": "src/cart.ts"}), 20),
        write("src/basket.ts", "create", Effect::Allow, "write-roots"),
        result("edit", json!({"path": "src/basket.ts"}), 20),
        session("session_end", json!({"source": "complete"})),
    ]
}

/// Its id is too long to be shown.
fn fourth_session() -> Vec<Told> {
    vec![
        session("session_start", json!({"source": "new"})),
        prompt(240),
        read("src/basket.ts", Effect::Allow, "read-workspace"),
        result("view", json!({"path": "src/basket.ts"}), 1_400),
        write(
            "../handbook/notes.md",
            "update",
            Effect::Deny,
            "outside-write",
        ),
        shell("sudo id", "sudo", Effect::Deny, "privileged-command"),
        fault("the event cannot be read: it is no UTF-8"),
        fetch(
            "https://docs.example.com/basket",
            Effect::Ask,
            "ask-network",
        ),
        found(
            result(
                "web_fetch",
                json!({"url": "https://docs.example.com/basket"}),
                30_000,
            ),
            &[("github-pat", "/text", 1)],
        ),
        shell("git status", "git", Effect::Allow, "shell-tools"),
        result("bash", json!({"command": "git status"}), 310),
        notice(
            Kind::Notification,
            "notification",
            json!({"notice": "idle"}),
        ),
        notice(
            Kind::Error,
            "error_occurred",
            json!({"message_bytes": 44, "recoverable": true, "context": "model_call"}),
        ),
        session("session_end", json!({"source": "user_exit"})),
    ]
}

fn told(kind: Kind, event: &'static str, effect: Effect, policy: &'static str) -> Told {
    Told {
        kind,
        event,
        tool: None,
        args: None,
        cleaned: None,
        requests: Vec::new(),
        effect,
        would: effect,
        policies: vec![policy],
        obligations: Vec::new(),
        hits: Vec::new(),
        latency: None,
        class: None,
        said: None,
        detail: json!({}),
    }
}

fn session(event: &'static str, detail: Value) -> Told {
    notice(Kind::Session, event, detail)
}

fn notice(kind: Kind, event: &'static str, detail: Value) -> Told {
    let (action, policy) = match kind {
        Kind::Error => (Action::Error, "errors"),
        _ => (Action::Session, "sessions"),
    };
    Told {
        requests: vec![request(action, text(event, 0), "")],
        detail,
        ..told(kind, event, Effect::Allow, policy)
    }
}

fn prompt(bytes: usize) -> Told {
    Told {
        requests: vec![request(Action::Prompt, text("prompt", bytes as u64), "")],
        obligations: vec![Obligation::RedactSecrets],
        said: Some("x".repeat(bytes)),
        detail: json!({"context_bytes": null}),
        ..told(
            Kind::Prompt,
            "user_prompt_submitted",
            Effect::Allow,
            "prompts",
        )
    }
}

fn result(tool: &'static str, args: Value, bytes: u64) -> Told {
    Told {
        tool: Some(tool),
        cleaned: Some(args.clone()),
        args: Some(args),
        requests: vec![request(Action::Result, text("result", bytes), "")],
        obligations: vec![Obligation::RedactSecrets],
        detail: json!({"result_bytes": bytes, "failed": false}),
        ..told(Kind::Result, "post_tool_use", Effect::Allow, "results")
    }
}

fn used(tool: &'static str, args: Value, requests: Vec<Request>, told: Told) -> Told {
    Told {
        tool: Some(tool),
        cleaned: Some(args.clone()),
        args: Some(args),
        requests,
        ..told
    }
}

fn read(path: &str, effect: Effect, policy: &'static str) -> Told {
    let requests = vec![
        request(Action::Read, tool("", "view"), "read"),
        request(Action::Read, file(path), "read"),
    ];
    let told = told(Kind::ToolUse, "pre_tool_use", effect, policy);
    used("view", json!({"path": path}), requests, told)
}

fn write(path: &str, operation: &str, effect: Effect, policy: &'static str) -> Told {
    let requests = vec![
        request(Action::Write, tool("", "edit"), operation),
        request(Action::Write, file(path), operation),
    ];
    let told = told(Kind::ToolUse, "pre_tool_use", effect, policy);
    used("edit", json!({"path": path}), requests, told)
}

fn shell(line: &str, program: &str, effect: Effect, policy: &'static str) -> Told {
    let command = Resource::Command(CommandFacts {
        text: line.to_owned(),
        program: program.to_owned(),
        arguments: line.split(' ').skip(1).map(str::to_owned).collect(),
        certain: true,
        labels: BTreeSet::from(["everyday".to_owned()]),
        ..CommandFacts::default()
    });
    let requests = vec![
        request(Action::Shell, tool("", "bash"), ""),
        request(Action::Shell, command, ""),
    ];
    let told = told(Kind::ToolUse, "pre_tool_use", effect, policy);
    used("bash", json!({"command": line}), requests, told)
}

fn fetch(address: &str, effect: Effect, policy: &'static str) -> Told {
    let url = Resource::Url(UrlFacts {
        given: address.to_owned(),
        ..UrlFacts::default()
    });
    let requests = vec![
        request(Action::Url, tool("", "web_fetch"), ""),
        request(Action::Url, url, ""),
    ];
    let told = told(Kind::ToolUse, "pre_tool_use", effect, policy);
    used("web_fetch", json!({"url": address}), requests, told)
}

fn mcp() -> Told {
    let requests = vec![request(Action::Mcp, tool("tickets", "list_open"), "")];
    let told = told(Kind::ToolUse, "pre_tool_use", Effect::Allow, "mcp-tools");
    used(
        "tickets-list_open",
        json!({"state": "open"}),
        requests,
        told,
    )
}

fn custom(name: &'static str, args: Value) -> Told {
    let requests = vec![request(Action::CustomTool, tool("", name), "")];
    let told = told(
        Kind::ToolUse,
        "pre_tool_use",
        Effect::Ask,
        "ask-custom-tool",
    );
    used(name, args, requests, told)
}

fn fault(error: &str) -> Told {
    Told {
        class: Some(FaultClass::InputError),
        detail: json!({"error": error}),
        ..told(Kind::Fault, "pre_tool_use", Effect::Deny, "input_error")
    }
}

fn superseded() -> Told {
    let detail = json!({
        "pid": 4039, "event": "pre_tool_use", "ts": "2026-03-03T09:10:00.000000Z", "latency_us": 1_000_900,
    });
    Told {
        policies: Vec::new(),
        latency: Some(0),
        detail,
        ..told(Kind::Superseded, "superseded", Effect::Deny, "")
    }
}

/// A policy that is only monitored would have denied it.
fn monitored(told: Told) -> Told {
    let policy = json!({"id": "user:slow-lane", "file": "/home/dev/.config/copilot-bridge/policies/trial.cedar", "line": 3});
    Told {
        would: Effect::Deny,
        detail: json!({"monitored": [policy]}),
        ..told
    }
}

/// An exception let through what would have been asked about.
fn excepted(told: Told) -> Told {
    let exception = json!({
        "id": "user:release-week", "owner": "platform-team", "expires": "2026-03-16T00:00:00Z",
        "policies": ["user:ask-changes-history"],
    });
    Told {
        would: Effect::Ask,
        detail: json!({"exceptions": [exception]}),
        ..told
    }
}

/// Something was taken out.
fn found(told: Told, hits: &[(&str, &str, u32)]) -> Told {
    let hits = hits.iter().map(|(rule, pointer, count)| Hit {
        rule: (*rule).to_owned(),
        pointer: (*pointer).to_owned(),
        count: *count,
        fingerprint: "k3k3k3k3".to_owned(),
    });
    Told {
        hits: hits.collect(),
        ..told
    }
}

fn request(action: Action, resource: Resource, operation: &str) -> Request {
    Request {
        principal: Agent::default(),
        action,
        resource,
        context: Context {
            operation: operation.to_owned(),
            workspace: WORKSPACE.to_owned(),
            depth_limit: 3,
            interactive: "unknown".to_owned(),
            can_replace_results: true,
            can_replace_prompts: true,
            ..Context::default()
        },
    }
}

fn tool(server: &str, name: &str) -> Resource {
    Resource::Tool(ToolFacts {
        server: server.to_owned(),
        name: name.to_owned(),
        known: server.is_empty(),
        ..ToolFacts::default()
    })
}

fn text(kind: &str, bytes: u64) -> Resource {
    Resource::Text(TextFacts {
        kind: kind.to_owned(),
        bytes,
    })
}

fn file(path: &str) -> Resource {
    let outside = path.strip_prefix("../");
    Resource::Path(PathFacts {
        given: path.to_owned(),
        resolved: match outside {
            Some(path) => format!("/srv/code/{path}"),
            None => format!("{WORKSPACE}/{path}"),
        },
        inside: outside.is_none(),
        exists: true,
        ..PathFacts::default()
    })
}

/// Writes lines that are chained to each other.
struct Pen {
    seq: u64,
    prev: String,
    key: Key,
}

impl Pen {
    fn line(&mut self, told: &Told, session: &Session, time: Timestamp, day: &str) -> String {
        self.seq += 1;
        let reasons: Vec<Reason> = told.policies.iter().map(|id| reason(id)).collect();
        // The policies were changed in between.
        let digest = HEXLOWER.encode(&Sha256::digest(format!("policies of {day}")));
        let of_host = !matches!(told.kind, Kind::Superseded | Kind::Fault);
        let entry = Entry {
            kind: told.kind,
            event: told.event,
            dialect: match told.kind {
                Kind::Superseded => "",
                _ => session.dialect,
            },
            session: of_host.then_some(session.id.as_str()),
            call: None,
            agent: session.agent.filter(|_| of_host),
            parent: None,
            depth: u32::from(of_host && session.agent.is_some()),
            entity: session.entity.filter(|_| of_host),
            cwd: of_host.then_some(WORKSPACE),
            tool: told.tool,
            args: told.args.as_ref(),
            args_redacted: told.cleaned.as_ref(),
            data_keys: &[],
            requests: told.requests.iter().map(Cow::Borrowed).collect(),
            redactions: told.hits.iter().collect(),
            decision: told.effect,
            reasons: &reasons,
            would_decide: told.would,
            obligations: told.obligations.clone(),
            policy_digest: (told.kind != Kind::Superseded).then_some(digest.as_str()),
            latency_us: told.latency.unwrap_or(1_500 + self.seq * 37 % 23 * 110),
            error_class: told.class,
            trace: None,
            prompt: told.said.as_deref(),
            detail: told.detail.clone(),
        };
        let boot: Timestamp = "2026-03-01T06:00:00Z".parse().unwrap();
        let since = time.duration_since(boot).as_nanos();
        let stamp = Stamp {
            seq: self.seq,
            ts: time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            mono: u64::try_from(since).unwrap(),
            boot: "00000000-0000-4000-8000-000000000001".to_owned(),
            host: "build-1".to_owned(),
            uid: 1000,
            pid: 4000 + u32::try_from(self.seq).unwrap(),
            prev: self.prev.clone(),
        };
        let bytes = line(&entry, &stamp, &self.key);
        self.prev = HEXLOWER.encode(&Sha256::digest(bytes.strip_suffix(b"\n").unwrap()));
        String::from_utf8(bytes).unwrap()
    }
}

/// Faults stand there without a file.
fn reason(id: &str) -> Reason {
    let known = POLICIES.iter().find(|(name, ..)| *name == id);
    Reason {
        id: known.map_or_else(|| id.to_owned(), |_| format!("default:{id}")),
        file: known.map_or_else(String::new, |(_, file, _)| format!("<embedded>/{file}")),
        line: known.map_or(0, |(.., line)| *line),
        text: String::new(),
        fact: String::new(),
        help: String::new(),
    }
}
