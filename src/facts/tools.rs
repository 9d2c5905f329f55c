//! Which action a host's tool is, under whatever name the host calls it (C-01).

use serde_json::Value;

use crate::engine::action::Action;
use crate::engine::request::ToolFacts;

/// What a tool's name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The facts for the policies. `harmless` is not known here.
    pub facts: ToolFacts,
    /// The action that it is.
    pub action: Action,
    /// What it does to paths: `read`, `list`, `create`, `update`, `delete`, `move` or nothing.
    pub operation: &'static str,
}

/// One tool of the hosts, and every name that they have for it.
struct Known {
    name: &'static str,
    action: Action,
    operation: &'static str,
    aliases: &'static [&'static str],
}

const fn known(
    name: &'static str,
    action: Action,
    operation: &'static str,
    aliases: &'static [&'static str],
) -> Known {
    Known {
        name,
        action,
        operation,
        aliases,
    }
}

/// The tools of Copilot CLI, Claude Code, VS Code and OpenClaw. Names are compared without case.
const TOOLS: &[Known] = &[
    known(
        "bash",
        Action::Shell,
        "",
        &[
            "shell",
            "sh",
            "run_in_terminal",
            "runTerminalCommand",
            "execute_command",
            "exec",
        ],
    ),
    known("powershell", Action::Shell, "", &["pwsh"]),
    known("write_bash", Action::Shell, "", &["write_powershell"]),
    known(
        "view",
        Action::Read,
        "read",
        &["read", "read_file", "readFile", "NotebookRead"],
    ),
    known(
        "grep",
        Action::Read,
        "list",
        &["rg", "grep_search", "textSearch"],
    ),
    known(
        "glob",
        Action::Read,
        "list",
        &["file_search", "fileSearch", "find"],
    ),
    known(
        "list",
        Action::Read,
        "list",
        &["ls", "list_dir", "listDirectory"],
    ),
    known(
        "create",
        Action::Write,
        "create",
        &[
            "write",
            "create_file",
            "createFile",
            "create_directory",
            "createDirectory",
        ],
    ),
    known(
        "edit",
        Action::Write,
        "update",
        &[
            "MultiEdit",
            "NotebookEdit",
            "str_replace",
            "insert",
            "replace_string_in_file",
            "multi_replace_string_in_file",
            "insert_edit_into_file",
            "editFiles",
        ],
    ),
    known("apply_patch", Action::Write, "update", &["applyPatch"]),
    known("move_file", Action::Write, "move", &["rename_file"]),
    known("delete_file", Action::Write, "delete", &["delete"]),
    known(
        "web_fetch",
        Action::Url,
        "",
        &["WebFetch", "fetch_webpage", "fetch"],
    ),
    known("web_search", Action::Url, "", &["WebSearch", "x_search"]),
    known(
        "task",
        Action::Delegate,
        "",
        &["Agent", "runSubagent", "create_agent", "sessions_spawn"],
    ),
    known(
        "store_memory",
        Action::Memory,
        "",
        &["memory", "update_memory"],
    ),
    known("memory_search", Action::Memory, "", &[]),
    known("memory_get", Action::Memory, "", &[]),
    known(
        "write_agent",
        Action::CustomTool,
        "",
        &["SendMessage", "sessions_send"],
    ),
    known("read_agent", Action::CustomTool, "", &["agents_wait"]),
    known("list_agents", Action::CustomTool, "", &["agents_list"]),
    known(
        "read_bash",
        Action::CustomTool,
        "",
        &[
            "BashOutput",
            "TaskOutput",
            "get_terminal_output",
            "read_powershell",
        ],
    ),
    known(
        "stop_bash",
        Action::CustomTool,
        "",
        &["KillBash", "KillShell", "TaskStop", "stop_powershell"],
    ),
    known("list_bash", Action::CustomTool, "", &["list_powershell"]),
    known("report_intent", Action::CustomTool, "", &[]),
    known(
        "update_todo",
        Action::CustomTool,
        "",
        &["TodoWrite", "manage_todo_list", "todo", "update_plan"],
    ),
    known("ask_user", Action::CustomTool, "", &["AskUserQuestion"]),
    known("exit_plan_mode", Action::CustomTool, "", &["ExitPlanMode"]),
    known("skill", Action::CustomTool, "", &["SlashCommand"]),
    known("think", Action::CustomTool, "", &[]),
    known("show_file", Action::CustomTool, "", &[]),
    known("sql", Action::CustomTool, "", &[]),
    known("session_store_sql", Action::CustomTool, "", &[]),
    known(
        "fetch_copilot_cli_documentation",
        Action::CustomTool,
        "",
        &[],
    ),
];

impl Tool {
    /// The tool of that name. The arguments tell apart what shares a name.
    #[must_use]
    pub fn identify(name: &str, args: &Value) -> Self {
        if name.eq_ignore_ascii_case("str_replace_editor")
            || name.eq_ignore_ascii_case("str_replace_based_edit_tool")
        {
            return Self::editor(args);
        }
        if name.eq_ignore_ascii_case("process") {
            return Self::process(args);
        }
        // Copilot calls `apply_patch` `Edit` in its PascalCase events: the patch is a plain text.
        let name = if name.eq_ignore_ascii_case("edit") && args.is_string() {
            "apply_patch"
        } else {
            name
        };
        let found = TOOLS.iter().find(|tool| {
            tool.name.eq_ignore_ascii_case(name)
                || tool
                    .aliases
                    .iter()
                    .any(|alias| alias.eq_ignore_ascii_case(name))
        });
        if let Some(tool) = found {
            return Self::own(tool.name, tool.action, tool.operation);
        }
        Self::foreign(name)
    }

    fn own(name: &str, action: Action, operation: &'static str) -> Self {
        Self {
            facts: ToolFacts {
                name: name.to_owned(),
                known: true,
                ..ToolFacts::default()
            },
            action,
            operation,
        }
    }

    /// An editor tool that says in an argument what it does.
    fn editor(args: &Value) -> Self {
        match args.get("command").and_then(Value::as_str) {
            Some("view") => Self::own("view", Action::Read, "read"),
            Some("create") => Self::own("create", Action::Write, "create"),
            _ => Self::own("edit", Action::Write, "update"),
        }
    }

    /// OpenClaw's hold on what `exec` left running.
    fn process(args: &Value) -> Self {
        match args.get("action").and_then(Value::as_str) {
            Some("list") => Self::own("list_bash", Action::CustomTool, ""),
            Some("poll" | "log") => Self::own("read_bash", Action::CustomTool, ""),
            Some("kill" | "clear" | "remove") => Self::own("stop_bash", Action::CustomTool, ""),
            _ => Self::own("write_bash", Action::Shell, ""),
        }
    }

    /// A tool of an MCP server (`server-tool`, `server/tool`, `mcp__server__tool`, `server__tool`), or of
    /// nobody.
    ///
    /// The host writes `.` as `-` in one spelling and not in the other, and a server's name may
    /// hold a `-`: all three spellings are brought to the first, which is then cut at its first `-`.
    fn foreign(name: &str) -> Self {
        let flat = match name
            .strip_prefix("mcp__")
            .and_then(|rest| rest.split_once("__"))
        {
            Some((server, tool)) => format!("{server}-{tool}"),
            None => match name.split_once("__") {
                Some((server, tool))
                    if !server.is_empty()
                        && !tool.is_empty()
                        && !server.contains(['-', '/', '.']) =>
                {
                    format!("{server}-{tool}")
                }
                _ => name.to_owned(),
            },
        };
        let flat: String = flat
            .chars()
            .map(|c| if c == '/' || c == '.' { '-' } else { c })
            .collect();
        match flat.split_once('-') {
            Some((server, tool)) if !server.is_empty() && !tool.is_empty() => Self {
                facts: ToolFacts {
                    server: server.to_owned(),
                    name: tool.to_owned(),
                    ..ToolFacts::default()
                },
                action: Action::Mcp,
                operation: "",
            },
            _ => Self {
                facts: ToolFacts {
                    name: flat,
                    ..ToolFacts::default()
                },
                action: Action::CustomTool,
                operation: "",
            },
        }
    }
}

/// Every text in a value, decoded.
pub fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(all) => all.iter().for_each(|value| texts(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_spelling_is_the_same_tool() {
        for (spellings, qualified, action) in [
            (vec!["bash", "Bash", "shell", "exec"], "bash", Action::Shell),
            (vec!["view", "Read", "read_file"], "view", Action::Read),
            (vec!["create", "Write"], "create", Action::Write),
            (vec!["grep", "rg", "Grep"], "grep", Action::Read),
            (vec!["task", "Task", "Agent"], "task", Action::Delegate),
            (
                vec!["triv-add", "triv/add", "mcp__triv__add", "triv__add"],
                "triv-add",
                Action::Mcp,
            ),
            (
                vec!["triv-leak-it-now", "triv/leak-it.now"],
                "triv-leak-it-now",
                Action::Mcp,
            ),
            (
                vec!["my-srv-do_it", "my-srv/do_it", "mcp__my-srv__do_it"],
                "my-srv-do_it",
                Action::Mcp,
            ),
            (
                vec!["triv-add__all", "triv/add__all"],
                "triv-add__all",
                Action::Mcp,
            ),
            (vec!["frobnicate"], "frobnicate", Action::CustomTool),
        ] {
            for name in spellings {
                let tool = Tool::identify(name, &json!({}));
                assert_eq!(tool.facts.qualified(), qualified, "{name}");
                assert_eq!(tool.action, action, "{name}");
            }
        }
        assert_eq!(
            Tool::identify("Edit", &json!("*** Begin Patch")).facts.name,
            "apply_patch"
        );
        assert_eq!(
            Tool::identify("str_replace_editor", &json!({"command": "view"})).action,
            Action::Read
        );
        for (action, name) in [
            ("list", "list_bash"),
            ("poll", "read_bash"),
            ("kill", "stop_bash"),
            ("send-keys", "write_bash"),
            ("whatever", "write_bash"),
        ] {
            let tool = Tool::identify("process", &json!({"action": action}));
            assert_eq!(tool.facts.name, name, "{action}");
        }
    }
}
