//! The commands of a line, as requests.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::{Asker, Fault, display, distinct};
use crate::engine::action::Action;
use crate::engine::containment::GUARD;
use crate::engine::request::{CommandFacts, Context, Request, Resource, ToolFacts};
use crate::facts::scripts::{self, Scripts};
use crate::facts::shell::{self, Access, CodeSource, Command, Line, PathUse, Surroundings};
use crate::facts::{globs, paths};
use crate::gate::event::ToolCall;

/// The keys that hosts use for a command line.
pub(super) const COMMAND_KEYS: [&str; 4] = ["command", "cmd", "script", "input"];

/// More scripts inside of scripts are not read.
const SCRIPTS: usize = 32;

/// What is taken to be tracked where git's index cannot be looked into.
const MAY_BE_TRACKED: &str = ".github/hooks/copilot-bridge.json";

/// More guarded files below a folder are not compared with a name.
const FOUND_LIMIT: usize = 512;

/// A larger index of git is not searched, in bytes.
const INDEX_LIMIT: u64 = 64 << 20;

impl Asker<'_> {
    pub(super) fn command(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) -> Result<(), Fault> {
        let Some(line) = command_line(call) else {
            self.unread_command(call, context, requests);
            return Ok(());
        };
        let cwd = self.shell_cwd(requests);
        let here = Surroundings {
            cwd: &cwd,
            root: self.workspace.root.as_deref(),
            home: self.home,
        };
        let tables = &self.bundle.settings.containment;
        let mut analysed = shell::analyse(line, tables, here);
        self.read_scripts(&mut analysed, here);
        let Line {
            commands,
            paths,
            uncertain,
        } = analysed;
        let before = requests.len();
        for path in distinct(paths)? {
            requests.push(self.path_use(&path, context));
        }
        let mut beside: BTreeSet<String> = BTreeSet::new();
        for request in requests.iter().skip(before) {
            beside.extend(request.resource.labels().into_iter().flatten().cloned());
        }
        for command in &commands {
            beside.extend(command.labels.iter().cloned());
        }
        let said = !commands.is_empty();
        for command in commands {
            self.one_command(command, &beside, &cwd, context, requests);
        }
        if uncertain.is_some() || !said {
            let facts = CommandFacts {
                text: line.to_owned(),
                certain: uncertain.is_none(),
                ..CommandFacts::default()
            };
            requests.push(self.ask(Action::Shell, Resource::Command(facts), context));
        }
        Ok(())
    }

    /// Whether the line of another shell does what it would do in bash.
    pub(super) fn is_plain(&self, call: &ToolCall) -> bool {
        let known = |program: &str| {
            let tables = &self.bundle.settings.containment;
            tables.any_shell.iter().any(|known| known == program)
        };
        command_line(call)
            .is_some_and(|line| shell::is_plain(line) && line.split(' ').next().is_some_and(known))
    }

    /// A command line that is not understood, or that stands where nobody expects it: its text is
    /// the only fact.
    pub(super) fn unread_command(
        &self,
        call: &ToolCall,
        context: &Context,
        requests: &mut Vec<Request>,
    ) {
        let facts = CommandFacts {
            text: command_line(call).map_or_else(|| call.args.to_string(), str::to_owned),
            ..CommandFacts::default()
        };
        requests.push(self.ask(Action::Shell, Resource::Command(facts), context));
    }

    fn one_command(
        &self,
        command: Command,
        beside: &BTreeSet<String>,
        cwd: &Path,
        context: &Context,
        requests: &mut Vec<Request>,
    ) {
        let labels = command.labels;
        let mut code = command.code;
        // A program given by its path is what stands there, not what its name promises.
        if command.own != CodeSource::None && !self.is_system(&command.path, cwd) {
            code = code.worse_of(command.own);
        }
        if labels.contains("starts_agent") {
            let agent = ToolFacts {
                name: command.program.clone(),
                ..ToolFacts::default()
            };
            requests.push(self.ask(Action::Delegate, Resource::Tool(agent), context));
        }
        if labels.contains("changes_worktree") {
            for path in self.tracked_guard() {
                requests.push(self.path(Action::Write, &path, context));
            }
        }
        let facts = CommandFacts {
            text: command.text,
            program: command.program,
            subcommand: command.subcommand,
            arguments: command.arguments.into_iter().collect(),
            certain: command.certain,
            code: code.name().to_owned(),
            beside: beside.clone(),
            labels,
        };
        requests.push(self.ask(Action::Shell, Resource::Command(facts), context));
    }

    /// Reads the shell scripts that an agent wrote as if their text stood on the line. What cannot
    /// be read keeps its mark.
    fn read_scripts(&self, line: &mut Line, here: Surroundings<'_>) {
        let workspace = self.workspace.root.as_deref().unwrap_or(here.cwd);
        let written = Scripts::new(self.state, workspace);
        let tables = &self.bundle.settings.containment;
        let mut index = 0;
        while let Some(command) = line.commands.get_mut(index) {
            index += 1;
            let runs_file = [command.code, command.own].contains(&CodeSource::File);
            if !runs_file || !command.scripts.iter().any(|path| written.holds(path)) {
                continue;
            }
            let (code, own) = (command.code, command.own);
            let put = |command: &mut Command, source| {
                for (was, now) in [(code, &mut command.code), (own, &mut command.own)] {
                    if was == CodeSource::File {
                        *now = source;
                    }
                }
            };
            put(command, CodeSource::Written);
            let entry = tables
                .interpreters
                .iter()
                .find(|entry| entry.names.contains(&command.program));
            let mut inner = Vec::new();
            for path in &command.scripts {
                let Some(text) = scripts::text(path) else {
                    break;
                };
                let shell = entry.map_or_else(|| scripts::is_shell(&text), |entry| entry.shell);
                let quiet = entry.is_some_and(|entry| entry.is_quiet(&text) == Ok(true));
                if !(shell || quiet) {
                    break;
                }
                inner.push(if quiet {
                    Line::default()
                } else {
                    shell::analyse(&text, tables, here)
                });
            }
            if inner.len() < command.scripts.len() || index > SCRIPTS {
                continue;
            }
            put(command, CodeSource::Judged);
            for inner in inner {
                line.uncertain = line.uncertain.or(inner.uncertain);
                line.paths.extend(inner.paths);
                for command in inner.commands {
                    if !line.commands.contains(&command) {
                        line.commands.push(command);
                    }
                }
            }
        }
    }

    fn is_system(&self, path: &str, cwd: &Path) -> bool {
        let resolved = paths::resolve(path, cwd, self.home);
        self.facts_of(path, resolved).labels.contains("system")
    }

    fn path_use(&self, path: &PathUse, context: &Context) -> Request {
        let (action, operation) = match path.access {
            Access::Read => (Action::Read, "read"),
            Access::Write => (Action::Write, "update"),
            Access::Delete => (Action::Write, "delete"),
        };
        let context = Context {
            operation: operation.to_owned(),
            ..context.clone()
        };
        let resolved = paths::resolve(&path.given, &path.cwd, self.home);
        let mut facts = self.facts_of(&path.given, resolved);
        if path.access == Access::Delete {
            // Who takes a folder away takes what is below it.
            let exists = |path: &str| Path::new(path).symlink_metadata().is_ok();
            let tables = &self.bundle.settings.containment;
            let below = tables.labels_below(&facts.resolved, &self.places, &exists);
            facts.labels.extend(below);
        }
        if let Some(folder) = path.below.as_ref().filter(|_| path.access != Access::Read) {
            let folder = paths::resolve(folder, &path.cwd, self.home).target;
            let name = path.given.rsplit('/').next().unwrap_or_default();
            facts.labels.extend(self.found_below(&folder, name));
        }
        self.ask(action, Resource::Path(facts), &context)
    }

    /// The labels of what is guarded below a folder, and has a name that matches, or stands below
    /// something that has.
    fn found_below(&self, folder: &Path, name: &str) -> BTreeSet<String> {
        let tables = &self.bundle.settings.containment;
        let guarded = tables.forbidden_below(&display(folder), &self.places);
        let mut labels = BTreeSet::new();
        let mut open: Vec<PathBuf> = guarded
            .iter()
            .map(|(_, path, _)| PathBuf::from(path))
            .filter(|path| path.symlink_metadata().is_ok())
            .collect();
        let mut left = FOUND_LIMIT;
        while let Some(path) = open.pop() {
            let Some(next) = left.checked_sub(1) else {
                // Too many to look at: any of them may be meant.
                labels.extend(guarded.iter().map(|(label, ..)| (*label).to_owned()));
                return labels;
            };
            left = next;
            let below = path.strip_prefix(folder).unwrap_or(&path);
            if globs::matches_one(name, below.iter().filter_map(|part| part.to_str())) {
                let path = display(&path);
                labels.extend(tables.path_labels(&path, &path, &self.places));
            }
            let entries = path.read_dir().into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path()));
        }
        labels
    }

    /// The guarded files that git would change with the work tree: those that its index names.
    fn tracked_guard(&self) -> Vec<String> {
        let Some(root) = &self.workspace.root else {
            return Vec::new();
        };
        let Some(index) = git_dir(root).map(|dir| dir.join("index")) else {
            return vec![display(&root.join(MAY_BE_TRACKED))];
        };
        match index.symlink_metadata() {
            Ok(meta) if meta.is_file() && meta.len() <= INDEX_LIMIT => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
            // A FIFO would never end.
            _ => return vec![display(&root.join(MAY_BE_TRACKED))],
        }
        let Ok(index) = fs::read(index) else {
            return Vec::new();
        };
        let containment = &self.bundle.settings.containment;
        let guard = containment.labels.iter().find(|label| label.name == GUARD);
        let patterns = guard.into_iter().flat_map(|label| &label.paths);
        patterns
            .filter_map(|pattern| {
                let rest = ["**/", "${workspace}/"]
                    .iter()
                    .find_map(|start| pattern.source.strip_prefix(start))?;
                let fixed = rest.split(['*', '?', '[', '{']).next()?;
                let start = memmem::find(&index, fixed.as_bytes())?;
                let name = index.get(start..)?.split(|byte| *byte == 0).next()?;
                Some(display(&root.join(String::from_utf8_lossy(name).as_ref())))
            })
            .collect()
    }
}

pub(super) fn command_line(call: &ToolCall) -> Option<&str> {
    COMMAND_KEYS
        .iter()
        .find_map(|key| call.args.get(key)?.as_str())
}

/// Where git keeps its index: `.git`, or what the file `.git` of a work tree names. `None`: nobody
/// can tell.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    match git.metadata() {
        Ok(meta) if meta.is_file() && meta.len() < 4096 => {
            let text = fs::read_to_string(&git).ok()?;
            Some(root.join(text.strip_prefix("gitdir: ")?.trim_end()))
        }
        Ok(meta) if !meta.is_dir() => None,
        _ => Some(git),
    }
}
