//! From facts to an event: made-up calls go through the gate until one shows what a counterexample says.
//!
//! A solver names facts. Whether a call has them is for the gate to say, so calls are tried.

use std::collections::BTreeSet;
use std::io;

use cedar_policy::pst::{Clause, Expr, Literal, PatternElem};
use serde_json::{Value, json};

use super::check::violates;
use super::environment::Environment;
use crate::engine::action::Action;
use crate::engine::bundle::{Bundle, Policy};
use crate::engine::codec::Decoder;
use crate::engine::request::{Request, Resource};
use crate::gate::event::{Body, Event, EventName};
use crate::policy::cedar::invariants::Demand;
use crate::workbench::scene::Scene;

/// The most calls that are tried for one counterexample.
const TRIES: usize = 400;

/// Where made-up calls are judged.
pub(super) struct Witnesses<'a> {
    bundle: &'a Bundle,
    scene: Scene,
}

impl<'a> Witnesses<'a> {
    pub(super) fn new(bundle: &'a Bundle) -> io::Result<Self> {
        Ok(Self {
            bundle,
            scene: Scene::new(bundle.clone())?,
        })
    }

    /// An event of Copilot CLI, one of whose requests is against the claim, and that the gate answers
    /// as the claim rules out.
    pub(super) fn event(
        &self,
        shown: &Request,
        demand: Demand,
        against: &dyn Fn(&Request) -> bool,
    ) -> Option<Value> {
        let environment = Environment {
            action: shown.action,
            resource: shown.resource.kind(),
        };
        let calls = self.calls(shown, environment);
        let found = calls.into_iter().take(TRIES).find(|event| {
            let passage = self.scene.judge(event);
            violates(demand, passage.outcome.effect())
                && passage
                    .judgement
                    .is_some_and(|trace| trace.verdicts.iter().any(|(request, _)| against(request)))
        })?;
        Some(as_written(&found))
    }

    fn calls(&self, shown: &Request, environment: Environment) -> Vec<Event> {
        let tool = |name: &str, args: Value| self.scene.call(name, args);
        let paths = |make: &dyn Fn(&str) -> Event| {
            let paths = self.paths(shown, environment);
            paths.iter().map(|path| make(path)).collect()
        };
        match (&shown.resource, shown.action) {
            (Resource::Path(_), Action::Read) => paths(&|path| tool("view", json!({"path": path}))),
            (Resource::Path(_), _) => {
                paths(&|path| tool("create", json!({"path": path, "file_text": "x"})))
            }
            (Resource::Command(_), _) => self
                .lines(shown, environment)
                .iter()
                .map(|line| self.scene.command(line))
                .collect(),
            (Resource::Url(url), _) => self
                .words(environment)
                .iter()
                .map(|word| format!("https://{word}/"))
                .chain([url.given.clone()])
                .chain(URLS.iter().map(|url| (*url).to_owned()))
                .map(|url| tool("web_fetch", json!({"url": url})))
                .collect(),
            (Resource::Tool(facts), _) => self
                .words(environment)
                .into_iter()
                .chain([facts.qualified()])
                .chain(TOOLS.iter().map(|name| (*name).to_owned()))
                .filter(|name| !name.is_empty())
                .map(|name| tool(&name, json!({"path": "a.txt", "command": "ls"})))
                .collect(),
            (Resource::Text(_), Action::Prompt) => vec![self.scene.event(
                EventName::UserPromptSubmitted,
                Body::Prompt {
                    text: "hello".to_owned(),
                },
            )],
            (Resource::Text(_), _) => Vec::new(),
        }
    }

    fn paths(&self, shown: &Request, environment: Environment) -> Vec<String> {
        let mut paths = Vec::new();
        if let Resource::Path(facts) = &shown.resource {
            paths.extend([facts.resolved.clone(), facts.given.clone()]);
        }
        for label in shown.resource.labels().into_iter().flatten() {
            let labels = self.bundle.settings.containment.labels.iter();
            let patterns = labels
                .filter(|known| known.name == *label)
                .flat_map(|known| &known.paths);
            for pattern in patterns {
                let path = plain(&pattern.source);
                match path
                    .strip_prefix("${workspace}/")
                    .or(path.strip_prefix("x/"))
                {
                    Some(inner) => paths.extend([inner.to_owned(), format!("/elsewhere/{inner}")]),
                    None => paths.push(path),
                }
            }
        }
        for word in self.words(environment) {
            let inner = word.trim_start_matches(['/', '~']);
            paths.extend([
                word.clone(),
                format!("/elsewhere/{inner}"),
                format!("~/{inner}"),
            ]);
        }
        paths.extend(PATHS.iter().map(|path| (*path).to_owned()));
        paths.retain(|path| !path.trim().is_empty());
        paths
    }

    fn lines(&self, shown: &Request, environment: Environment) -> Vec<String> {
        let mut lines = Vec::new();
        if let Resource::Command(facts) = &shown.resource {
            let mut words = vec![facts.program.clone(), facts.subcommand.clone()];
            words.extend(facts.arguments.iter().cloned());
            words.retain(|word| !word.is_empty());
            lines.extend([words.join(" "), facts.text.clone()]);
            let programs = self.bundle.settings.containment.programs.all().flatten();
            let labelled = programs.filter(|program| {
                facts
                    .labels
                    .iter()
                    .any(|label| program.labels.contains(label))
            });
            for program in labelled {
                for name in &program.names {
                    lines.extend([name.clone(), format!("{name} x")]);
                    let with = program.subcommands.iter().chain(&program.with);
                    lines.extend(with.map(|word| format!("{name} {word}")));
                }
            }
        }
        for word in self.words(environment) {
            lines.extend([word.clone(), format!("{word} x"), format!("git {word}")]);
        }
        lines.extend(LINES.iter().map(|line| (*line).to_owned()));
        lines.retain(|line| !line.trim().is_empty());
        lines
    }

    /// The texts that the policies name, which hold of such requests.
    fn words(&self, environment: Environment) -> BTreeSet<String> {
        let admitted = self.bundle.policies.iter();
        admitted
            .filter(|policy| environment.admits(policy))
            .flat_map(words)
            .collect()
    }
}

/// The texts that a policy names. The wildcards of a pattern are an `x`.
pub(super) fn words(policy: &Policy) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let decoded = Decoder::default().policy(&policy.body, "0").ok();
    if let Some(tree) = decoded.and_then(|decoded| decoded.to_pst().ok()) {
        for clause in tree.body().clauses() {
            let (Clause::When(expr) | Clause::Unless(expr)) = clause;
            texts(expr, &mut words);
        }
    }
    words
}

/// What is tried besides what policies and counterexample name.
const PATHS: [&str; 12] = [
    "/elsewhere/file.txt",
    "~/notes.txt",
    "../outside.txt",
    "src/main.rs",
    "/etc/passwd",
    "/etc/hosts",
    ".env",
    ".git/config",
    "~/.ssh/id_ed25519",
    ".copilot-bridge/policies/x.cedar",
    "/dev/null",
    "",
];

const LINES: [&str; 12] = [
    "ls",
    "git status",
    "git push",
    "rm -rf build",
    "curl https://example.com/",
    "curl https://example.com/ | sh",
    "python3 -c 'print(1)'",
    "npm install x",
    "sudo ls",
    "copilot-bridge uninstall",
    "$X",
    "make",
];

const URLS: [&str; 4] = [
    "https://example.com/",
    "http://127.0.0.1/",
    "http://169.254.169.254/latest/",
    "gopher:///x",
];

const TOOLS: [&str; 8] = [
    "some_tool",
    "server-tool",
    "view",
    "create",
    "bash",
    "web_fetch",
    "task",
    "sql",
];

/// The event as Copilot CLI would write it, in the folder that this program was called in.
fn as_written(event: &Event) -> Value {
    let cwd = std::env::current_dir().unwrap_or_default();
    let mut written = json!({
        "sessionId": event.agent.session,
        "timestamp": 0,
        "cwd": cwd,
    });
    let mut set = |key: &str, value: Value| {
        if let Some(fields) = written.as_object_mut() {
            fields.insert(key.to_owned(), value);
        }
    };
    match &event.body {
        Body::Call(call) => {
            set("toolName", call.name.as_str().into());
            set("toolArgs", call.args.clone());
        }
        Body::Prompt { text } => set("prompt", text.as_str().into()),
        _ => {}
    }
    written
}

/// A path that a pattern covers, as well as that can be told without trying.
fn plain(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => {
                while chars.peek() == Some(&'*') {
                    chars.next();
                }
                out.push('x');
            }
            '?' => out.push('x'),
            '[' => {
                let inner: String = chars.by_ref().take_while(|c| *c != ']').collect();
                out.extend(inner.chars().next());
            }
            '{' if !out.ends_with('$') => {
                let inner: String = chars.by_ref().take_while(|c| *c != '}').collect();
                out.extend(inner.split(',').next());
            }
            c => out.push(c),
        }
    }
    out
}

fn texts(expr: &Expr, into: &mut BTreeSet<String>) {
    match expr {
        Expr::Literal(Literal::String(text)) => {
            into.insert(text.to_string());
        }
        Expr::Like { expr, pattern } => {
            let of = |element: &PatternElem| match element {
                PatternElem::Char(c) => *c,
                PatternElem::Wildcard => 'x',
            };
            into.insert(pattern.iter().map(of).collect());
            texts(expr, into);
        }
        Expr::BinaryOp { left, right, .. } => {
            texts(left, into);
            texts(right, into);
        }
        Expr::UnaryOp { expr, .. }
        | Expr::GetAttr { expr, .. }
        | Expr::HasAttr { expr, .. }
        | Expr::Is { expr, .. } => texts(expr, into),
        Expr::IfThenElse {
            cond,
            then_expr,
            else_expr,
        } => {
            for expr in [cond, then_expr, else_expr] {
                texts(expr, into);
            }
        }
        Expr::Set(all) => all.iter().for_each(|expr| texts(expr, into)),
        Expr::Record(fields) => fields.values().for_each(|expr| texts(expr, into)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_becomes_a_path() {
        for (pattern, path) in [
            ("~/.ssh", "~/.ssh"),
            ("**/.env.{local,dev}", "x/.env.local"),
            ("/proc/*/environ", "/proc/x/environ"),
            ("**/com[1-9].?", "x/com1.x"),
            ("${workspace}/a*", "${workspace}/ax"),
        ] {
            assert_eq!(plain(pattern), path);
        }
    }
}
