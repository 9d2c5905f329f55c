//! The hooks that each host is given.
//!
//! Every event has an entry without a matcher: Copilot CLI drops an entry whose matcher it does
//! not like, and what is dropped is allowed. EVENT and dialect are named, so that a hook which
//! cannot read its stdin still knows the shape of its answer.

use std::path::Path;

use serde_json::{Value, json};

use super::SetupError;
use super::settings::Wanted;

/// What the host waits for. It is far above our own deadline, because a hook that a host gives up
/// on is a call that passes.
pub(super) const TIMEOUT_SEC: u64 = 30;

/// The events of Copilot CLI 1.0.102.
pub(super) const COPILOT_EVENTS: [&str; 15] = [
    "sessionStart",
    "sessionEnd",
    "userPromptSubmitted",
    "userPromptTransformed",
    "preToolUse",
    "permissionRequest",
    "preMcpToolCall",
    "postToolUse",
    "postToolUseFailure",
    "errorOccurred",
    "agentStop",
    "subagentStart",
    "subagentStop",
    "preCompact",
    "notification",
];

/// The events that Claude Code documents, of which VS Code documents a part.
pub(super) const CLAUDE_EVENTS: [&str; 9] = [
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "Notification",
];

/// What a hook is called with, besides its event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// This program.
    pub(super) program: &'a Path,
    /// The base policies.
    pub(super) policies: &'a Path,
    /// The state directory, or `None` for the caller's own.
    pub(super) state: Option<&'a Path>,
}

/// The hook file of Copilot CLI.
pub(super) fn copilot_file(call: Call<'_>) -> Result<String, SetupError> {
    let mut hooks = serde_json::Map::new();
    for event in COPILOT_EVENTS {
        let entry = json!({
            "type": "command",
            "exec": text(call.program)?,
            "args": arguments(call, &kebab(event), "copilot")?,
            "timeoutSec": TIMEOUT_SEC,
        });
        hooks.insert(event.to_owned(), json!([entry]));
    }
    let file = json!({"version": 1, "hooks": hooks});
    Ok(format!("{file:#}\n"))
}

/// What goes into the settings of Claude Code.
///
/// VS Code reads the same file, in the same form, and Copilot CLI does not read it in a home: so
/// one entry serves two hosts, and no call is judged twice.
pub(super) fn claude_hooks(call: Call<'_>) -> Result<Vec<Wanted>, SetupError> {
    CLAUDE_EVENTS
        .iter()
        .map(|event| {
            let mut words = vec![text(call.program)?.to_owned()];
            words.extend(arguments(call, event, "claude")?);
            let command = shlex::try_join(words.iter().map(String::as_str)).map_err(|_| {
                SetupError::new("a path holds a byte that no shell can be given", "")
            })?;
            let entry = json!({"type": "command", "command": command, "timeout": TIMEOUT_SEC});
            Ok(Wanted::item(&["hooks", event], json!({"hooks": [entry]})))
        })
        .collect()
}

/// What goes into managed settings: no hooks but the managed ones, and no way around prompts.
/// Copilot CLI and Claude Code have the same names for it.
pub(super) fn managed() -> Vec<Wanted> {
    vec![
        Wanted::value(&["allowManagedHooksOnly"], json!(true)),
        Wanted::value(
            &["permissions", "disableBypassPermissionsMode"],
            json!("disable"),
        ),
    ]
}

/// An entry of a hook or settings file, whoever wrote it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) event: String,
    /// A matcher, of the entry or of the group that it is in.
    pub(super) matcher: Option<String>,
    pub(super) body: Value,
}

/// The entries under `hooks`, in the form of either host.
pub(super) fn entries(file: &Value) -> Vec<Found> {
    let mut found = Vec::new();
    let events = file.get("hooks").and_then(Value::as_object);
    for (event, list) in events.into_iter().flatten() {
        for entry in list.as_array().into_iter().flatten() {
            let matcher = |value: &Value| Some(value.get("matcher")?.as_str()?.to_owned());
            let group = entry.get("hooks").and_then(Value::as_array);
            let inner = group.map_or_else(|| vec![entry], |group| group.iter().collect());
            found.extend(inner.into_iter().map(|body| Found {
                event: event.clone(),
                matcher: matcher(entry).or_else(|| matcher(body)),
                body: body.clone(),
            }));
        }
    }
    found
}

impl Found {
    /// The words of the command, if it can be told without a shell.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        let get = |name: &str| self.body.get(name).and_then(Value::as_str);
        if let Some(program) = get("exec") {
            let rest = self.body.get("args").and_then(Value::as_array);
            let rest = rest.into_iter().flatten().filter_map(Value::as_str);
            return Some(
                [program]
                    .into_iter()
                    .chain(rest)
                    .map(str::to_owned)
                    .collect(),
            );
        }
        shlex::split(get("command").or_else(|| get("bash"))?)
    }

    /// Whether it calls this program's `hook` verb, wherever that is.
    pub(super) fn is_ours(&self) -> bool {
        self.words().is_some_and(|words| {
            words.get(1).is_some_and(|verb| verb == "hook")
                && words.iter().any(|word| word == "--dialect")
        })
    }

    /// After so many seconds the host gives up, and allows.
    pub(super) fn timeout(&self) -> u64 {
        ["timeoutSec", "timeout"]
            .iter()
            .find_map(|name| self.body.get(name)?.as_u64())
            .unwrap_or(TIMEOUT_SEC)
    }
}

fn arguments(call: Call<'_>, event: &str, dialect: &str) -> Result<Vec<String>, SetupError> {
    let policies = text(call.policies)?;
    let mut words = vec!["hook", event, "--dialect", dialect, "--policies", policies];
    if let Some(state) = call.state {
        words.extend(["--state", text(state)?]);
    }
    Ok(words.into_iter().map(str::to_owned).collect())
}

fn kebab(camel: &str) -> String {
    camel.chars().fold(String::new(), |mut words, letter| {
        if letter.is_ascii_uppercase() {
            words.push('-');
        }
        words.push(letter.to_ascii_lowercase());
        words
    })
}

fn text(path: &Path) -> Result<&str, SetupError> {
    path.to_str().ok_or_else(|| {
        SetupError::new(
            format!("`{}` is not UTF-8, and a hook file is", path.display()),
            "",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call<'static> {
        Call {
            program: Path::new("/opt/it's here/copilot-bridge"),
            policies: Path::new("/p"),
            state: Some(Path::new("/s")),
        }
    }

    #[test]
    fn each_event_of_copilot_cli_has_one_entry_without_a_matcher() {
        let file: Value = serde_json::from_str(&copilot_file(call()).unwrap()).unwrap();
        let found = entries(&file);
        assert_eq!(found.len(), COPILOT_EVENTS.len());
        assert!(
            found
                .iter()
                .all(|entry| entry.is_ours() && entry.matcher.is_none())
        );
        let mcp = found
            .iter()
            .find(|entry| entry.event == "preMcpToolCall")
            .unwrap();
        assert_eq!(
            mcp.words().unwrap()[1..],
            [
                "hook",
                "pre-mcp-tool-call",
                "--dialect",
                "copilot",
                "--policies",
                "/p",
                "--state",
                "/s"
            ]
        );
        assert_eq!(mcp.body["exec"], "/opt/it's here/copilot-bridge");
        assert_eq!(mcp.timeout(), TIMEOUT_SEC);
    }

    #[test]
    fn a_shell_gives_back_the_words_that_were_quoted() {
        let hooks = claude_hooks(call()).unwrap();
        assert_eq!(hooks.len(), CLAUDE_EVENTS.len());
        let file = json!({"hooks": {"PreToolUse": [hooks[0].value]}});
        let found = entries(&file).remove(0);
        assert!(found.is_ours());
        assert_eq!(found.words().unwrap()[0], "/opt/it's here/copilot-bridge");
        assert_eq!(found.words().unwrap()[2], "PreToolUse");
    }

    #[test]
    fn a_matcher_of_a_group_or_an_entry_is_seen() {
        let file = json!({"hooks": {
            "a": [{"matcher": "x", "hooks": [{"command": "true"}]}],
            "b": [{"matcher": "y", "bash": "true"}],
            "c": [{"type": "http", "url": "http://localhost/"}],
            "d": 3,
        }});
        let found = entries(&file);
        let matchers: Vec<_> = found.iter().map(|entry| entry.matcher.as_deref()).collect();
        assert_eq!(matchers, [Some("x"), Some("y"), None]);
        assert!(found.iter().all(|entry| !entry.is_ours()));
    }
}
