//! Simple commands: what they are, and what the tables say of them.

use super::code::code_from;
use super::state::{Arg, Input, Origin, State, Value};
use super::syntax::At;
use super::walk::Walker;
use super::{Access, CodeSource, Command, glob};
use crate::engine::containment::PRIVATE_ADDRESS;
use crate::engine::program::{CodeOperand, Output, Program};
use crate::facts::url;

/// Builtins whose words a shell evaluates once more, as arithmetic or as names.
const EVALUATING: [&str; 8] = [
    "test", "[", "let", "printf", "read", "unset", "wait", "declare",
];

impl Walker<'_> {
    /// A command as the grammar gives it.
    pub(super) fn simple(
        &mut self,
        at: At<'_>,
        outer: &[At<'_>],
        state: &mut State,
        input: &Input,
    ) -> Origin {
        // Behind `!` the grammar takes a block for a program.
        match at.field("name").map(At::text) {
            Some("{") => {
                self.blocks += 1;
                return self.code(at.text().trim_start_matches('{'), state, input);
            }
            Some("}") if self.blocks > 0 => return Origin::Here,
            Some("}") => self.uncertain("its syntax is not understood"),
            _ => {}
        }
        let place = self.line.commands.len();
        self.inside += 1;
        let mut words = Vec::new();
        let mut redirects = outer.to_vec();
        let mut variables = Vec::new();
        for child in at.children() {
            match child.kind() {
                "variable_assignment" => variables.push(child),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    redirects.push(child);
                }
                _ => words.push(child),
            }
        }
        // What stands behind `<<EOF` on its line belongs to the command as well.
        for redirect in redirects.iter().filter(|r| r.kind() == "heredoc_redirect") {
            words.extend(redirect.fields("argument"));
        }
        let args = self.words_of(&words, state);
        let mut input = input.clone();
        let outputs = self.redirects(&redirects, state, &mut input);
        let mut settings = Vec::new();
        for variable in variables {
            let name = variable.field("name").map_or("", At::text).to_owned();
            let value = variable.field("value");
            if let Some(value) = value {
                self.words(value, state);
            }
            settings.push((name, value.map_or("", At::text).to_owned()));
        }
        self.inside -= 1;
        let origin = self.invoke(args, place, at.text(), &settings, state, &input);
        self.write_outputs(&outputs, origin);
        self.behind_heredoc(&redirects, origin, state);
        origin
    }

    /// A command's words, expanded: what it is and what it runs, noted before the commands from
    /// `place` on. Returns where its output comes from.
    pub(super) fn invoke(
        &mut self,
        args: Vec<Arg>,
        place: usize,
        text: &str,
        variables: &[(String, String)],
        state: &mut State,
        input: &Input,
    ) -> Origin {
        if !self.step() {
            return Origin::Unknown;
        }
        let used = std::mem::take(&mut self.used);
        let Some((first, rest)) = args.split_first() else {
            self.set(variables, text);
            return Origin::Here;
        };
        // What ends with `/` is no program.
        if !first.known || first.glob || first.text.is_empty() || first.text.ends_with('/') {
            self.push(Command {
                text: text.to_owned(),
                code: code_from(first.origin),
                ..Command::default()
            });
            return Origin::Unknown;
        }
        let program = first.text.rsplit('/').next().unwrap_or_default();
        if let Some(body) = state.functions.get(&first.text).cloned() {
            self.set(variables, text);
            return self.code(&body, state, input);
        }
        let known: Vec<String> = rest
            .iter()
            .filter(|arg| arg.known)
            .map(|arg| arg.text.clone())
            .collect();
        let words = rest
            .iter()
            .map(|arg| arg.known.then_some(arg.text.as_str()));
        let front = self.tables.front(program, words);
        let subcommand = front.subcommand.and_then(|index| rest.get(index));
        let subcommand = subcommand.map_or("", |arg| arg.text.as_str());
        let (mut labels, entries) = self.tables.program_labels(program, subcommand, &known);
        labels.extend(front.labels);
        for (name, value) in variables {
            labels.extend(self.tables.variable_labels(name, value).cloned());
        }
        for name in &used {
            labels.extend(self.tables.use_labels(name).cloned());
        }
        if self.sends_within(&entries, &known) {
            labels.insert(PRIVATE_ADDRESS.to_owned());
        }

        let mut command = Command {
            text: text.to_owned(),
            program: program.to_owned(),
            path: first.text.clone(),
            subcommand: subcommand.to_owned(),
            certain: true,
            complete: rest.iter().all(|arg| arg.known && !arg.glob && !arg.pipe),
            ..Command::default()
        };
        if EVALUATING.contains(&program)
            && known
                .iter()
                .any(|word| word.contains('[') && (word.contains("$(") || word.contains('`')))
        {
            command.certain = false;
        }
        self.inside += 1;
        let tables = self.tables;
        let wrapper = tables
            .wrappers
            .iter()
            .find(|wrapper| wrapper.names.iter().any(|name| name == program));
        // What it prints may be what it was given.
        let given = rest.iter().map(|arg| arg.origin).max().unwrap_or_default();
        let mut origin = input.origin.max(given);
        if let Some(wrapper) = wrapper
            && let Some(inner) = self.wrapped(wrapper, rest, state, input)
        {
            // What it does is among the commands.
            command.code = CodeSource::Judged;
            origin = origin.max(inner);
        }
        let interpreter = tables
            .interpreters
            .iter()
            .find(|entry| entry.names.iter().any(|name| name == program));
        if let Some(interpreter) = interpreter {
            let code = self.code_source(interpreter, rest, state, input);
            command.code = command.code.worse_of(code);
        }
        if first.text.contains('/') {
            self.path(Access::Read, first, state);
            command.own = self.file(first, state);
        }
        self.inside -= 1;
        let before = self.line.paths.len();
        // The words of what it runs are not its own.
        let wraps =
            wrapper.is_some_and(|w| w.after.is_empty()) && command.code == CodeSource::Judged;
        let moved = self.moved(&front.folders, state);
        self.given.clear();
        let sure = wraps || self.operands(&entries, rest, input, moved.as_ref().unwrap_or(state));
        command.searches = wrapper.is_some_and(|w| !w.after.is_empty());
        command.reads = self.line.paths.len() > before;
        self.builtin(program, rest, state);
        // What a script makes of its words is its own affair.
        let takes_any = interpreter.is_some_and(|entry| entry.operand == CodeOperand::File);
        if (!sure && !takes_any) || self.may_be_options(rest, state) {
            command.certain = false;
        }
        command.scripts = std::mem::take(&mut self.scripts);
        let outputs = entries.iter().map(|entry| entry.output);
        command.output = outputs
            .max_by_key(|output| *output as u8)
            .unwrap_or_default();
        match command.output {
            Output::Own | Output::Filter | Output::Names | Output::Visible => {}
            Output::Decoded => origin = origin.max(Origin::Decoded),
            Output::Download => {
                origin = Origin::Download;
                self.downloads(&entries, rest, state);
            }
        }
        command.labels = labels;
        command.arguments = known;
        self.push_at(place, command);
        origin
    }

    /// Whether a pattern among the words matches a file that is called like an option.
    fn may_be_options(&mut self, args: &[Arg], state: &State) -> bool {
        let open = |arg: &&Arg| arg.glob && arg.text.starts_with(['*', '?', '[', '-']);
        args.iter().filter(open).any(|arg| {
            state.cwds.iter().any(|cwd| {
                glob::expand(&arg.text, cwd, &mut self.globs).is_none_or(|names| {
                    names
                        .iter()
                        .any(|name| name.starts_with('-') && *name != arg.text)
                })
            })
        })
    }

    /// Where a program works that is told to work in other folders.
    fn moved(&mut self, folders: &[String], state: &State) -> Option<State> {
        let mut moved = (!folders.is_empty()).then(|| state.clone())?;
        for folder in folders {
            let folder = Arg::known(folder.as_str());
            self.path(Access::Read, &folder, &moved);
            moved.change_dir(&folder, self.here.home, &mut self.globs);
        }
        moved.settle();
        Some(moved)
    }

    /// Whether a program that fetches is given an address inside the network: of a machine, not of
    /// this one.
    fn sends_within(&self, entries: &[&Program], words: &[String]) -> bool {
        let fetches = entries.iter().any(|entry| entry.output == Output::Download);
        fetches && words.iter().any(|word| url::leads_within(word))
    }

    fn set(&mut self, variables: &[(String, String)], text: &str) {
        let labels: Vec<String> = variables
            .iter()
            .flat_map(|(name, value)| self.tables.variable_labels(name, value).cloned())
            .collect();
        if !labels.is_empty() {
            self.setting(text, labels);
        }
    }

    /// What changes the shell itself.
    fn builtin(&mut self, program: &str, args: &[Arg], state: &mut State) {
        match program {
            "cd" | "pushd" | "chdir" => {
                let target = args.iter().find(|arg| !arg.is_option());
                let home = Arg::known("~");
                let target = target.unwrap_or(&home);
                if target.is("-") && state.previous.is_empty() {
                    self.uncertain("the folder that it runs in cannot be told");
                }
                state.change_dir(target, self.here.home, &mut self.globs);
            }
            "popd" => {
                if state.previous.is_empty() {
                    self.uncertain("the folder that it runs in cannot be told");
                }
                state.lost = true;
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for name in args.iter().filter(|arg| !arg.is_option()) {
                    let value = Value::unknown(Origin::Unknown);
                    state.variables.insert(name.text.clone(), value);
                }
            }
            "printf" if args.first().is_some_and(|arg| arg.is("-v")) => {
                if let Some(name) = args.get(1) {
                    let value = Value::unknown(Origin::Unknown);
                    state.variables.insert(name.text.clone(), value);
                }
            }
            "alias" => {
                for arg in args {
                    match arg.text.split_once('=') {
                        Some((_, body)) if arg.known => {
                            self.code(body, &mut state.clone(), &Input::default());
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}
