//! From a word of the grammar to the words that it becomes.

use super::state::{Arg, Input, Origin, State, Value};
use super::syntax::At;
use super::walk::Walker;
use super::word::{self, Piece};

impl Walker<'_> {
    /// A word's expansions. Commands inside of it are followed.
    pub(super) fn words(&mut self, at: At<'_>, state: &mut State) -> Vec<Arg> {
        let mut pieces = Vec::new();
        self.pieces(at, state, &mut pieces);
        word::expand(pieces)
    }

    /// The words of a command's nodes. What touches is one word: the grammar cuts some in two.
    pub(super) fn words_of(&mut self, nodes: &[At<'_>], state: &mut State) -> Vec<Arg> {
        let mut args = Vec::new();
        let mut pieces = Vec::new();
        let mut end = None;
        for node in nodes {
            let touches = end.is_some_and(|end| continues(node.between(end, node.start())));
            if !touches && end.is_some() {
                args.extend(word::expand(std::mem::take(&mut pieces)));
            }
            self.pieces(*node, state, &mut pieces);
            end = Some(node.end());
        }
        if end.is_some() {
            args.extend(word::expand(pieces));
        }
        args
    }

    pub(super) fn pieces(&mut self, at: At<'_>, state: &mut State, out: &mut Vec<Piece>) {
        if !self.step() {
            return out.push(Piece::Value(Value::unknown(Origin::Unknown), false));
        }
        self.enter();
        self.pieces_of(at, state, out);
        self.leave();
    }

    fn pieces_of(&mut self, at: At<'_>, state: &mut State, out: &mut Vec<Piece>) {
        match at.kind() {
            "word"
            | "number"
            | "variable_name"
            | "test_operator"
            | "extglob_pattern"
            | "regex"
            | "special_variable_name"
            | "file_descriptor"
            | "brace_expression" => {
                if super::looks_like_another(at.text()) {
                    self.uncertain("it holds characters that look like others");
                }
                word::bare(at.text(), out);
            }
            "raw_string" => word::literal(inner(at.text(), 1), out),
            "ansi_c_string" => match word::ansi_c(inner(at.text().trim_start_matches('$'), 1)) {
                Some(text) => word::literal(&text, out),
                None => out.push(Piece::Value(Value::unknown(Origin::Unknown), true)),
            },
            "translated_string" => {
                for child in at.named() {
                    self.pieces(child, state, out);
                }
            }
            "string" => self.string(at, state, out),
            "concatenation" | "command_name" => {
                let mut end = at.start();
                for child in at.children() {
                    // What stands between is a line that goes on.
                    word::bare(at.between(end, child.start()), out);
                    end = child.end();
                    self.pieces(child, state, out);
                }
            }
            "simple_expansion" | "expansion" => {
                let value = self.variable(at, state);
                out.push(Piece::Value(value, false));
            }
            "command_substitution" => {
                let origin = self.substitution(at, state);
                let value = self.printed(at, state).unwrap_or(Value::unknown(origin));
                out.push(Piece::Value(value, false));
            }
            "process_substitution" => {
                let origin = self.substitution(at, state);
                out.push(Piece::Pipe(origin));
            }
            "arithmetic_expansion" => {
                self.look_inside(at, state);
                // Whatever number it is.
                word::literal("0", out);
            }
            "array" => {
                for child in at.named() {
                    self.words(child, state);
                }
                out.push(Piece::Value(Value::unknown(Origin::Unknown), false));
            }
            _ if !at.is_named() => word::bare(at.text(), out),
            _ => {
                self.uncertain("a word of it is not understood");
                self.look_inside(at, state);
                out.push(Piece::Value(Value::unknown(Origin::Unknown), false));
            }
        }
    }

    fn string(&mut self, at: At<'_>, state: &mut State, out: &mut Vec<Piece>) {
        let before = out.len();
        let mut end = at.start() + 1;
        for child in at.children() {
            let is_quote = child.kind() == "\"";
            word::double_quoted(at.between(end, child.start().max(end)), out);
            end = child.end().max(end);
            if is_quote {
                continue;
            }
            if child.kind() == "string_content" || !child.is_named() {
                word::double_quoted(child.text(), out);
                continue;
            }
            let from = out.len();
            self.pieces(child, state, out);
            for piece in out.iter_mut().skip(from) {
                if let Piece::Value(_, quoted) = piece {
                    *quoted = true;
                }
            }
        }
        if out.len() == before {
            // An empty text is a word all the same.
            out.push(Piece::Value(Value::known(""), true));
        }
    }

    fn variable(&mut self, at: At<'_>, state: &mut State) -> Value {
        let plain = at.named().len() == 1
            && at.named().iter().all(|part| part.kind() != "subscript")
            && at
                .children()
                .iter()
                .all(|c| c.is_named() || matches!(c.kind(), "$" | "${" | "}"));
        let name = at.named().first().map_or("", |name| name.text());
        if at.text() == "$" {
            return Value::known("$");
        }
        let text = at.text();
        if text.ends_with(":}") || text == "${}" {
            self.uncertain("its syntax is not understood");
        }
        if !name.is_empty() && !state.variables.contains_key(name) && !text.contains(":+") {
            self.used.insert(name.to_owned());
        }
        if let Some(value) = trimmed(text, name, state) {
            return value;
        }
        if !plain {
            self.look_inside(at, state);
            if text.starts_with("${!")
                || text.replace("[@]", "").contains('@')
                || text.contains(":=")
            {
                self.uncertain("a variable in it may run code");
            }
            return Value::unknown(Origin::Unknown);
        }
        match name {
            "HOME" if !state.variables.contains_key(name) => match self.here.home {
                Some(home) => Value::known(home.to_string_lossy()),
                None => Value::unknown(Origin::Unknown),
            },
            "PWD" if !state.variables.contains_key(name) => {
                let texts = state
                    .cwds
                    .iter()
                    .map(|cwd| cwd.to_string_lossy().into_owned());
                Value {
                    texts: texts.collect(),
                    open: state.lost,
                    ..Value::default()
                }
            }
            "?" | "$" | "!" | "#" | "LINENO" | "RANDOM" | "UID" | "EUID" | "SECONDS" => {
                Value::known("0")
            }
            _ => state
                .variables
                .get(name)
                .cloned()
                .unwrap_or(Value::unknown(Origin::Unknown)),
        }
    }

    /// The commands of `$(…)` and `<(…)`, and where their output comes from.
    pub(super) fn substitution(&mut self, at: At<'_>, state: &State) -> Origin {
        let mut inner = state.clone();
        let mut origin = Origin::Here;
        for child in at.named() {
            origin = origin.max(if child.kind() == "file_redirect" {
                // `$(< file)`
                let mut outputs = Vec::new();
                self.file_redirect(child, &mut inner, &mut Input::default(), &mut outputs);
                Origin::Unknown
            } else {
                self.statement(child, &mut inner, &Input::default())
            });
        }
        origin
    }

    /// What a substitution prints, for the few commands that can be told.
    fn printed(&mut self, at: At<'_>, state: &State) -> Option<Value> {
        let inner = at.named();
        let [command] = inner.as_slice() else {
            return None;
        };
        let root = self
            .here
            .root
            .map(|root| root.to_string_lossy().into_owned());
        match command.text() {
            "pwd" if !state.lost => {
                let texts = state
                    .cwds
                    .iter()
                    .map(|cwd| cwd.to_string_lossy().into_owned());
                Some(Value {
                    texts: texts.collect(),
                    ..Value::default()
                })
            }
            "git rev-parse --show-toplevel" => root.map(Value::known),
            "nproc" | "id -u" | "id -g" | "date +%s" => Some(Value::known("0")),
            _ => None,
        }
    }
}

/// `${name%.ext}` and the like, of a value that is known: what is cut off is a text, or a `*` and a
/// text. `None`: it is something else.
fn trimmed(text: &str, name: &str, state: &State) -> Option<Value> {
    let known = state.variables.get(name).filter(|value| !value.open)?;
    let rest = text
        .strip_prefix("${")?
        .strip_suffix('}')?
        .strip_prefix(name)?;
    let sign = rest.get(..1).filter(|sign| matches!(*sign, "%" | "#"))?;
    let rest = rest.get(1..)?;
    let greedy = rest.starts_with(sign);
    let pattern = rest.strip_prefix(sign).unwrap_or(rest);
    let front = sign == "#";
    let star = if front {
        pattern.strip_prefix('*')
    } else {
        pattern.strip_suffix('*')
    };
    let fixed = star.unwrap_or(pattern);
    // What is behind the start of a name that nobody knows may be anything.
    if known.globs && front && star.is_none() {
        return None;
    }
    if fixed.is_empty() || fixed.contains(|c| "*?[]\\\"'$`{}".contains(c)) {
        return None;
    }
    let cut = |text: &String| {
        let kept = match (front, star.is_some(), greedy) {
            (true, false, _) => text.strip_prefix(fixed),
            (false, false, _) => text.strip_suffix(fixed),
            (true, true, false) => text.split_once(fixed).map(|(_, rest)| rest),
            (true, true, true) => text.rsplit_once(fixed).map(|(_, rest)| rest),
            (false, true, false) => text.rsplit_once(fixed).map(|(rest, _)| rest),
            (false, true, true) => text.split_once(fixed).map(|(rest, _)| rest),
        };
        kept.unwrap_or(text).to_owned()
    };
    Some(Value {
        texts: known.texts.iter().map(cut).collect(),
        ..known.clone()
    })
}

/// A text without the quotes at its ends.
fn inner(text: &str, width: usize) -> &str {
    text.get(width..text.len().saturating_sub(width))
        .unwrap_or_default()
}

/// Whether what stands between two nodes is nothing to a shell: no text, or lines that go on.
fn continues(between: &str) -> bool {
    between.replace("\\\n", "").is_empty()
}
