//! Simple commands: what they are, and what the tables say of them.

use super::code::code_from;
use super::state::{Arg, Input, Origin, State, Value};
use super::syntax::At;
use super::walk::Walker;
use super::{Access, CodeSource, Command, glob};
use crate::engine::program::{CodeOperand, Output};

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
            Some("{") => return self.code(at.text().trim_start_matches('{'), state, input),
            Some("}") => return Origin::Here,
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
        let mut names = Vec::new();
        for variable in variables {
            let name = variable.field("name").map_or("", At::text).to_owned();
            if let Some(value) = variable.field("value") {
                self.words(value, state);
            }
            names.push(name);
        }
        self.inside -= 1;
        let origin = self.invoke(args, place, at.text(), &names, state, &input);
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
        variables: &[String],
        state: &mut State,
        input: &Input,
    ) -> Origin {
        if !self.step() {
            return Origin::Unknown;
        }
        let Some((first, rest)) = args.split_first() else {
            self.set(variables, text);
            return Origin::Here;
        };
        if !first.known || first.glob || first.text.is_empty() {
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
        let subcommand = rest
            .iter()
            .find(|arg| !arg.is_option())
            .filter(|arg| arg.known)
            .map_or("", |arg| arg.text.as_str());
        let (mut labels, entries) = self.tables.program_labels(program, subcommand, &known);
        for name in variables {
            labels.extend(self.tables.variable_labels(name).cloned());
        }
        self.builtin(program, rest, state);

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
        let sure = wraps || self.operands(&entries, rest, state);
        command.reads = self.line.paths.len() > before;
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
            Output::Own | Output::Filter | Output::Names => {}
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
                glob::expand(&arg.text, cwd, &mut self.globs)
                    .is_none_or(|names| names.iter().any(|name| name.starts_with('-')))
            })
        })
    }

    fn set(&mut self, variables: &[String], text: &str) {
        let labels: Vec<String> = variables
            .iter()
            .flat_map(|name| self.tables.variable_labels(name).cloned())
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
                let glob = target.filter(|t| t.known && t.glob);
                if glob.is_some() {
                    state.lost = true;
                } else {
                    state.change_dir(target.unwrap_or(&home), self.here.home);
                }
            }
            "popd" => state.lost = true,
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
