//! The statements of a line, followed in the order that a shell would.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::found::found;
use super::glob;
use super::state::{Arg, Below, Input, Origin, State, Value};
use super::syntax::{At, parse};
use super::word::{self, Piece};
use super::{Line, PathUse, Surroundings};
use crate::engine::containment::Containment;
use crate::engine::program::Output;

/// What takes longer to parse is not followed: some broken lines take time by their square.
const PATIENCE: Duration = Duration::from_millis(40);

/// Code inside of code inside of code is not followed any deeper.
const DEPTH: usize = 12;

/// More statements than this are not followed.
const STEPS: usize = 4_000;

/// Nor what is nested more deeply: each level is one of the stack as well.
const LEVELS: usize = 160;

/// Nor commands inside of commands.
pub(super) const INSIDE: usize = 24;

pub(super) struct Walker<'a> {
    pub(super) tables: &'a Containment,
    pub(super) here: Surroundings<'a>,
    pub(super) line: Line,
    /// The files that the line itself writes, and where what is in them comes from.
    pub(super) written: HashMap<PathBuf, Origin>,
    /// The paths that were noted already.
    pub(super) seen: HashSet<PathUse>,
    /// The files that the command at hand runs.
    pub(super) scripts: Vec<PathBuf>,
    /// How many commands the one at hand stands inside of.
    pub(super) inside: usize,
    /// What the variables are called to whose values the words at hand lead.
    pub(super) used: BTreeSet<String>,
    /// Whether something was saved from the network under a name that nobody knows.
    pub(super) saved_somewhere: bool,
    /// The files and folders that the newest command was given.
    pub(super) given: Vec<Arg>,
    /// How many blocks are open that the grammar took for programs.
    pub(super) blocks: usize,
    depth: usize,
    levels: usize,
    steps: usize,
    /// What its patterns may still cost.
    pub(super) globs: glob::Budget,
    /// How long all its code together may still take to parse.
    patience: Duration,
}

impl<'a> Walker<'a> {
    pub(super) fn new(tables: &'a Containment, here: Surroundings<'a>) -> Self {
        Self {
            tables,
            here,
            line: Line::default(),
            written: HashMap::new(),
            seen: HashSet::new(),
            scripts: Vec::new(),
            inside: 0,
            used: BTreeSet::new(),
            saved_somewhere: false,
            given: Vec::new(),
            blocks: 0,
            depth: 0,
            levels: 0,
            steps: 0,
            globs: glob::Budget::of_a_line(),
            patience: PATIENCE,
        }
    }

    pub(super) fn line(mut self, text: &str) -> Line {
        let mut state = State::at(self.here.cwd);
        self.code(text, &mut state, &Input::default());
        self.line
    }

    pub(super) fn uncertain(&mut self, why: &'static str) {
        self.line.uncertain.get_or_insert(why);
    }

    /// Shell code, from the line or from inside of it.
    pub(super) fn code(&mut self, text: &str, state: &mut State, input: &Input) -> Origin {
        if self.depth >= DEPTH || text.len() > super::LENGTH_LIMIT {
            self.uncertain("its code goes too deep");
            return Origin::Unknown;
        }
        let begun = Instant::now();
        let tree = parse(text, self.patience);
        self.patience = self.patience.saturating_sub(begun.elapsed());
        let Some(tree) = tree else {
            self.uncertain("it takes too long to be read");
            return Origin::Unknown;
        };
        let root = At::root(&tree, text);
        if root.is_broken() {
            self.uncertain("its syntax is not understood");
        }
        self.depth += 1;
        let origin = self.statement(root, state, input);
        self.depth -= 1;
        origin
    }

    fn sequence(&mut self, parts: &[At<'_>], state: &mut State, input: &Input) -> Origin {
        let mut origin = Origin::Here;
        for part in parts {
            origin = origin.max(self.statement(*part, state, input));
            state.settle();
        }
        origin
    }

    /// Something that may run or not, or several times.
    pub(super) fn perhaps(&mut self, parts: &[At<'_>], state: &mut State, input: &Input) -> Origin {
        let before = state.clone();
        let origin = self.sequence(parts, state, input);
        state.or(&before);
        origin
    }

    /// Where its output comes from.
    pub(super) fn statement(&mut self, at: At<'_>, state: &mut State, input: &Input) -> Origin {
        if !self.step() {
            return Origin::Unknown;
        }
        self.levels += 1;
        let origin = self.any_statement(at, state, input);
        self.levels -= 1;
        origin
    }

    pub(super) fn enter(&mut self) {
        self.levels += 1;
    }

    pub(super) fn leave(&mut self) {
        self.levels -= 1;
    }

    /// Counts a step. False: there were too many, or they go too deep.
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps > STEPS || self.levels > LEVELS || self.inside > INSIDE {
            self.uncertain("it has too many parts, one inside of the other");
            return false;
        }
        true
    }

    fn any_statement(&mut self, at: At<'_>, state: &mut State, input: &Input) -> Origin {
        match at.kind() {
            "program" if at.has(";;") => {
                self.uncertain("its syntax is not understood");
                self.sequence(&at.named(), state, input)
            }
            "program" | "do_group" | "else_clause" => self.sequence(&at.named(), state, input),
            "compound_statement" if at.has("((") => self.look_inside(at, state),
            "compound_statement" => self.sequence(&at.named(), state, input),
            "subshell" => self.sequence(&at.named(), &mut state.clone(), input),
            "negated_command" => self.sequence(&at.named(), state, input),
            "comment" | "heredoc_body" | "heredoc_end" => Origin::Here,
            "command" => self.simple(at, &[], state, input),
            "list" => self.list(at, state, input),
            "pipeline" => self.pipeline(&at.named(), state, input),
            "redirected_statement" => self.redirected(at, state, input),
            "variable_assignment" => {
                self.assign(at, state);
                Origin::Here
            }
            "variable_assignments" => {
                for part in at.named() {
                    self.assign(part, state);
                }
                Origin::Here
            }
            "declaration_command" | "unset_command" => self.declaration(at, state, input),
            "if_statement" | "elif_clause" | "while_statement" | "case_item" => {
                // The first part is the condition; what it does happens at least once.
                let mut parts = at.named();
                if matches!(at.kind(), "case_item") {
                    let (values, rest): (Vec<_>, Vec<_>) =
                        parts.into_iter().partition(|part| is_word(part.kind()));
                    for value in values {
                        self.words(value, state);
                    }
                    parts = rest;
                }
                let looped = at.kind() == "while_statement";
                let (clauses, parts): (Vec<_>, Vec<_>) = parts
                    .into_iter()
                    .partition(|part| matches!(part.kind(), "elif_clause" | "else_clause"));
                let mut origin = self.perhaps(&parts, state, input);
                for clause in clauses {
                    origin = origin.max(self.perhaps(&[clause], state, input));
                }
                if looped {
                    origin = origin.max(self.again(&parts, state, input));
                }
                origin
            }
            "for_statement" | "c_style_for_statement" => self.for_loop(at, state, input),
            "case_statement" => {
                let (words, items): (Vec<_>, Vec<_>) = at
                    .named()
                    .into_iter()
                    .partition(|part| is_word(part.kind()));
                for word in words {
                    self.words(word, state);
                }
                let before = state.clone();
                let mut after = before.clone();
                let mut origin = Origin::Here;
                for item in items {
                    let mut branch = before.clone();
                    origin = origin.max(self.statement(item, &mut branch, input));
                    after.or(&branch);
                }
                *state = after;
                origin
            }
            "function_definition" => self.function(at, state),
            "test_command" => self.test(at, state),
            kind if is_word(kind) => {
                self.words(at, state);
                Origin::Unknown
            }
            "ERROR" => {
                self.uncertain("its syntax is not understood");
                self.look_inside(at, state)
            }
            _ => {
                self.uncertain("a part of it is not understood");
                self.look_inside(at, state)
            }
        }
    }

    /// Finds commands in what has no place of its own here.
    pub(super) fn look_inside(&mut self, at: At<'_>, state: &mut State) -> Origin {
        if !self.step() {
            return Origin::Unknown;
        }
        self.levels += 1;
        for child in at.named() {
            match child.kind() {
                "command" | "pipeline" | "list" | "redirected_statement" | "subshell" => {
                    self.statement(child, &mut state.clone(), &Input::default());
                }
                "command_substitution" | "process_substitution" => {
                    self.substitution(child, state);
                }
                _ => {
                    self.look_inside(child, state);
                }
            }
        }
        self.levels -= 1;
        Origin::Unknown
    }

    fn list(&mut self, at: At<'_>, state: &mut State, input: &Input) -> Origin {
        let parts = at.named();
        let (Some(first), rest) = (parts.first(), parts.get(1..).unwrap_or_default()) else {
            return Origin::Here;
        };
        let before = state.clone();
        let mut origin = self.statement(*first, state, input);
        if at.has("||") {
            state.settle();
            let after = state.clone();
            // The second part runs where the first one failed.
            state.or(&before);
            origin = origin.max(self.sequence(rest, state, input));
            state.or(&after);
            return origin;
        }
        for part in rest {
            // It runs only where the first part did not fail.
            let mut failed = std::mem::take(&mut state.failed);
            let after = state.clone();
            origin = origin.max(self.statement(*part, state, input));
            let (cwds, lost) = (state.cwds.clone(), state.lost);
            state.or(&after);
            failed.extend(std::mem::replace(&mut state.cwds, cwds));
            state.failed.append(&mut failed);
            state.lost = lost;
        }
        origin
    }

    pub(super) fn pipeline(
        &mut self,
        stages: &[At<'_>],
        state: &mut State,
        input: &Input,
    ) -> Origin {
        let mut input = input.clone();
        let mut origin = Origin::Here;
        for stage in stages {
            let before = self.line.commands.len();
            origin = self.statement(*stage, &mut state.clone(), &input);
            input = Input {
                present: true,
                origin,
                text: self.echoed(before, origin),
                lists: self.listed(before, state, &input),
            };
        }
        origin
    }

    /// What the newest command prints, if that can be told: `echo` and `printf` with known words.
    fn echoed(&self, before: usize, origin: Origin) -> Option<String> {
        let [command] = self.line.commands.get(before..)? else {
            return None;
        };
        let prints = matches!(command.program.as_str(), "echo" | "printf");
        let plain = command
            .arguments
            .iter()
            .all(|word| !word.contains(['%', '\\']));
        (prints && command.certain && command.complete && plain && origin == Origin::Here)
            .then(|| command.arguments.join(" "))
    }

    /// The folders whose files the newest command lists, or filters from such a list.
    fn listed(&self, before: usize, state: &State, input: &Input) -> Option<Vec<Arg>> {
        let newest = self.line.commands.get(before..)?;
        let [command] = newest else {
            return None;
        };
        if !command.certain || state.lost {
            return None;
        }
        match command.output {
            Output::Names | Output::Visible => {}
            // A filter of the list, if it reads no file of its own.
            Output::Filter => return input.lists.clone().filter(|_| !command.reads),
            _ => return None,
        }
        let hidden = command.output == Output::Names;
        let below = |named: &str| {
            let named = named.to_owned();
            Some(Below { named, hidden })
        };
        // Where the table tells how, what it finds; else files below what it was given.
        if command.searches {
            let words: Vec<Arg> = command.arguments.iter().map(Arg::known).collect();
            return Some(found(&words));
        }
        let mut given = self.given.clone();
        if given.is_empty() {
            given.push(Arg::known("."));
        }
        for arg in &mut given {
            arg.below = below("*");
        }
        Some(given)
    }

    fn redirected(&mut self, at: At<'_>, state: &mut State, input: &Input) -> Origin {
        let redirects = at.fields("redirect");
        let body = at.field("body");
        let mut input = input.clone();
        if let Some(body) = body.filter(|body| body.kind() == "command") {
            return self.simple(body, &redirects, state, &input);
        }
        let outputs = self.redirects(&redirects, state, &mut input);
        let origin = body.map_or(Origin::Here, |body| self.statement(body, state, &input));
        self.write_outputs(&outputs, origin);
        self.behind_heredoc(&redirects, origin, state);
        origin
    }

    fn assign(&mut self, at: At<'_>, state: &mut State) -> Option<String> {
        let name = at.field("name")?;
        if name.kind() == "subscript" {
            self.look_inside(name, state);
        }
        let value = at.field("value");
        if value.is_some_and(has_hidden_code) {
            self.uncertain("a variable in it holds what arithmetic would run");
        }
        let mut new = match value {
            Some(word) => self.value(word, state),
            None => Value::known(""),
        };
        let name = name.text().split('[').next().unwrap_or_default().to_owned();
        if at.has("+=") {
            new = Value::unknown(new.origin);
        }
        if name == "IFS" {
            // Words are then split elsewhere.
            self.uncertain("it changes where words are split");
        }
        let text = value.map_or("", At::text);
        let labels: Vec<String> = self.tables.variable_labels(&name, text).cloned().collect();
        if !labels.is_empty() {
            self.setting(at.text(), labels);
        }
        state.variables.insert(name.clone(), new);
        Some(name)
    }

    /// Setting a variable that the tables know, as a command of its own.
    pub(super) fn setting(&mut self, text: &str, labels: Vec<String>) {
        let command = super::Command {
            text: text.to_owned(),
            certain: true,
            labels: labels.into_iter().collect(),
            ..super::Command::default()
        };
        self.push(command);
    }

    /// Notes a command, before those that stand inside of it.
    pub(super) fn push_at(&mut self, index: usize, mut command: super::Command) {
        command.depth = self.inside;
        if !self.line.commands.contains(&command) {
            let index = index.min(self.line.commands.len());
            self.line.commands.insert(index, command);
        }
    }

    pub(super) fn push(&mut self, command: super::Command) {
        self.push_at(self.line.commands.len(), command);
    }

    /// What a word may be as the value of a variable: it is not split.
    fn value(&mut self, at: At<'_>, state: &mut State) -> Value {
        let mut pieces = Vec::new();
        self.pieces(at, state, &mut pieces);
        if let [Piece::Value(value, _)] = pieces.as_slice() {
            return value.clone();
        }
        let mut value = Value::default();
        for arg in word::expand(quoted(pieces)) {
            value.open |= !arg.known;
            value.globs |= arg.glob;
            value.origin = value.origin.max(arg.origin);
            if arg.known {
                value.texts.push(arg.text);
            }
        }
        value
    }

    fn declaration(&mut self, at: At<'_>, state: &mut State, input: &Input) -> Origin {
        if has_hidden_code(at) {
            self.uncertain("a declaration evaluates what stands in an index");
        }
        let mut args = Vec::new();
        for child in at.children() {
            match child.kind() {
                "variable_assignment" => {
                    let name = self.assign(child, state);
                    args.extend(name.map(|name| Arg::known(format!("{name}=…"))));
                }
                "variable_name" | "simple_expansion" if at.kind() == "unset_command" => {
                    let labels: Vec<String> = self
                        .tables
                        .variable_labels(child.text(), "")
                        .cloned()
                        .collect();
                    if !labels.is_empty() {
                        self.setting(at.text(), labels);
                    }
                    state.variables.remove(child.text());
                    args.push(Arg::known(child.text()));
                }
                "variable_name" => args.push(Arg::known(child.text())),
                _ if !child.is_named() => args.push(Arg::known(child.text())),
                _ => args.extend(self.words(child, state)),
            }
        }
        let mut options = args.iter().filter(|arg| arg.is_option());
        if options.any(|arg| arg.text.contains('n')) {
            self.uncertain("it makes a name stand for a variable");
        }
        if args.iter().skip(1).any(|arg| !arg.is_option()) {
            // It sets what it names, and shows nothing.
            return Origin::Here;
        }
        let place = self.line.commands.len();
        self.invoke(args, place, at.text(), &[], state, input)
    }

    fn for_loop(&mut self, at: At<'_>, state: &mut State, input: &Input) -> Origin {
        let mut value = Value::default();
        for word in at.fields("value") {
            for arg in self.words(word, state) {
                value.open |= !arg.known;
                value.globs |= arg.glob;
                value.origin = value.origin.max(arg.origin);
                value.texts.extend(arg.known.then_some(arg.text));
            }
        }
        if at.kind() == "c_style_for_statement" {
            self.look_inside(at, &mut state.clone());
        }
        if let Some(name) = at.field("variable") {
            if name.text().starts_with(|c: char| c.is_ascii_digit()) {
                self.uncertain("its syntax is not understood");
            }
            state.variables.insert(name.text().to_owned(), value);
        }
        let body: Vec<_> = at.field("body").into_iter().collect();
        let origin = self.perhaps(&body, state, input);
        origin.max(self.again(&body, state, input))
    }

    /// A loop's next turn. Where it would go further each time, nobody knows where it ends.
    fn again(&mut self, parts: &[At<'_>], state: &mut State, input: &Input) -> Origin {
        let before = state.clone();
        let origin = self.perhaps(parts, state, input);
        state.lost |= state.cwds != before.cwds;
        for (name, value) in &mut state.variables {
            value.open |= before.variables.get(name) != Some(value);
        }
        origin
    }

    fn function(&mut self, at: At<'_>, state: &mut State) -> Origin {
        let (Some(name), Some(body)) = (at.field("name"), at.field("body")) else {
            self.uncertain("a function is not understood");
            return Origin::Unknown;
        };
        // Whoever calls it: what is in it is judged here.
        state
            .functions
            .insert(name.text().to_owned(), body.text().to_owned());
        self.statement(body, &mut state.clone(), &Input::default());
        Origin::Here
    }

    /// `[[ … ]]` and `[ … ]`: arithmetic in it would run what stands in an index.
    fn test(&mut self, at: At<'_>, state: &mut State) -> Origin {
        if has_hidden_code(at) {
            self.uncertain("a test evaluates what stands in an index");
        }
        self.look_inside(at, state);
        Origin::Here
    }
}

pub(super) fn is_word(kind: &str) -> bool {
    matches!(
        kind,
        "word"
            | "number"
            | "string"
            | "raw_string"
            | "ansi_c_string"
            | "translated_string"
            | "concatenation"
            | "simple_expansion"
            | "expansion"
            | "command_substitution"
            | "process_substitution"
            | "arithmetic_expansion"
            | "brace_expression"
            | "extglob_pattern"
            | "regex"
            | "array"
    )
}

/// Whether a quoted text in it holds a substitution that arithmetic would run.
fn has_hidden_code(at: At<'_>) -> bool {
    let text = at.text();
    if matches!(at.kind(), "raw_string" | "ansi_c_string") {
        return text.contains('[') && (text.contains("$(") || text.contains('`'));
    }
    at.named().into_iter().any(has_hidden_code)
}

fn quoted(mut pieces: Vec<Piece>) -> Vec<Piece> {
    for piece in &mut pieces {
        match piece {
            Piece::Char(_, quoted) | Piece::Value(_, quoted) => *quoted = true,
            Piece::Pipe(_) => {}
        }
    }
    pieces
}
