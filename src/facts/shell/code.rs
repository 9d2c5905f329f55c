//! Commands inside of commands: what wrappers run, and where interpreters get their code.

use std::path::PathBuf;

use super::found::found;
use super::state::{Arg, Input, Origin, State};
use super::walk::Walker;
use super::{Access, CodeSource, Command, looks_like_path};
use crate::engine::program::{CodeOperand, Interpreter, Wrapper, is_word};
use crate::facts::paths::resolve;

impl Walker<'_> {
    /// The command inside of a wrapper, if there is one.
    pub(super) fn wrapped(
        &mut self,
        wrapper: &Wrapper,
        args: &[Arg],
        state: &mut State,
        input: &Input,
    ) -> Option<Origin> {
        let says = |arg: &&Arg| wrapper.except.iter().any(|word| is_word(&arg.text, word));
        if args
            .iter()
            .take_while(|arg| arg.is_option())
            .any(|arg| says(&arg))
        {
            return None;
        }
        if !wrapper.after.is_empty() {
            return self.wrapped_after(wrapper, args, state, input);
        }
        let mut variables = Vec::new();
        let mut folders = Vec::new();
        let mut index = 0;
        let mut placeholder: Option<String> = None;
        while let Some(arg) = args.get(index) {
            if !arg.known {
                break;
            }
            let assignment = arg.text.split_once('=').filter(|_| wrapper.assignments);
            let next = args.get(index + 1);
            if arg.text == "--" {
                index += 1;
                break;
            } else if wrapper.folders.contains(&arg.text) {
                folders.extend(next.cloned());
                index += 2;
            } else if wrapper.valued.contains(&arg.text) {
                let marks = matches!(arg.text.as_str(), "-I" | "--replace");
                let mark = next.filter(|_| marks).map(|mark| mark.text.clone());
                placeholder = mark.or(placeholder);
                index += 2;
            } else if arg.is_option() {
                let long = arg.text.split_once('=');
                let folder = long.filter(|(name, _)| wrapper.folders.iter().any(|f| f == name));
                folders.extend(folder.map(|(_, folder)| Arg::known(folder)));
                if wrapper.appends {
                    placeholder = mark_of(&arg.text).or(placeholder);
                }
                index += 1;
            } else if let Some((name, value)) = assignment {
                variables.push((name.to_owned(), value.to_owned()));
                index += 1;
            } else {
                break;
            }
        }
        let operands = index..index + usize::from(wrapper.operands);
        index = operands.end;
        let mut inner = args.get(index..)?.to_vec();
        if inner.is_empty() {
            return None;
        }
        // What stands there may be a file that it makes, or locks.
        for operand in args.get(operands).unwrap_or_default() {
            if looks_like_path(&operand.text) {
                self.path(Access::Write, operand, state);
            }
        }
        let mut inside = state.clone();
        for folder in &folders {
            self.path(Access::Read, folder, &inside);
            inside.change_dir(folder, self.here.home, &mut self.globs);
        }
        inside.settle();
        if wrapper.joins {
            if inner.iter().any(|arg| !arg.known) {
                let origin = inner.iter().map(|arg| arg.origin).max().unwrap_or_default();
                return Some(self.unread(&inner, origin));
            }
            return Some(self.code(&joined(&inner), &mut inside, input));
        }
        if wrapper.appends {
            let added = input
                .lists
                .clone()
                .unwrap_or_else(|| vec![Arg::unknown(input.origin)]);
            match placeholder {
                Some(mark) => inner = replaced(inner, &mark, &added),
                None => inner.extend(added),
            }
        }
        let text = joined(&inner);
        let place = self.line.commands.len();
        Some(self.invoke(inner, place, &text, &variables, &mut inside, input))
    }

    /// `find … -exec COMMAND {} +`
    fn wrapped_after(
        &mut self,
        wrapper: &Wrapper,
        args: &[Arg],
        state: &mut State,
        input: &Input,
    ) -> Option<Origin> {
        let roots = found(args);
        let mut origin = None;
        for (index, _) in args
            .iter()
            .enumerate()
            .filter(|(_, arg)| wrapper.after.iter().any(|word| arg.is(word)))
        {
            let inner: Vec<Arg> = args
                .iter()
                .skip(index + 1)
                .take_while(|arg| !matches!(arg.text.as_str(), ";" | "+"))
                .cloned()
                .collect();
            let marked = inner.iter().any(|arg| arg.text.contains("{}"));
            let mut inner = replaced(inner, "{}", &roots);
            if wrapper.appends && !marked {
                inner.extend(roots.iter().cloned());
            }
            let text = joined(&inner);
            let place = self.line.commands.len();
            let ran = self.invoke(inner, place, &text, &[], &mut state.clone(), input);
            origin = origin.max(Some(ran));
        }
        origin
    }

    /// Words that are code nobody can read.
    fn unread(&mut self, args: &[Arg], origin: Origin) -> Origin {
        self.push(Command {
            text: joined(args),
            code: code_from(origin),
            ..Command::default()
        });
        origin
    }

    /// Where an interpreter's code comes from. Shell code that is known is followed.
    pub(super) fn code_source(
        &mut self,
        entry: &Interpreter,
        args: &[Arg],
        state: &mut State,
        input: &Input,
    ) -> CodeSource {
        let mut index = 0;
        let mut ends = false;
        let mut worst = CodeSource::None;
        while let Some(arg) = args.get(index) {
            index += 1;
            if !arg.known {
                return code_from(arg.origin);
            }
            let text = arg.text.as_str();
            if text == "--" {
                ends = true;
                continue;
            }
            // `+x` is an option to a shell as well.
            let plus = entry.shell && text.len() > 1 && text.starts_with('+');
            if ends || !(arg.is_option() || plus) {
                // Its code may stand behind words that are none.
                if matches!(entry.operand, CodeOperand::Nowhere | CodeOperand::Input) {
                    continue;
                }
                if text == "-" {
                    break;
                }
                if entry.operand == CodeOperand::Code && !entry.shell {
                    if worst == CodeSource::None {
                        worst = self.judge(entry, arg, state, input);
                    }
                    continue;
                }
                let operand = args.get(index - 1..).unwrap_or_default();
                let brought = worst != CodeSource::None;
                return worst.worse_of(match entry.operand {
                    CodeOperand::File if brought && !entry.shell => CodeSource::None,
                    CodeOperand::File => self.file_or_pipe(arg, state, input, entry),
                    CodeOperand::Code => self.judge(entry, arg, state, input),
                    CodeOperand::All => {
                        let whole = Arg {
                            known: operand.iter().all(|arg| arg.known),
                            origin: operand.iter().map(|a| a.origin).max().unwrap_or_default(),
                            ..Arg::known(joined(operand))
                        };
                        let code = self.judge(entry, &whole, state, input);
                        let more = operand.len() == 1 && input.present && !entry.shell;
                        match more.then(|| self.code_on_input(entry, state, input)) {
                            Some(input) => code.worse_of(input),
                            None => code,
                        }
                    }
                    CodeOperand::Nowhere | CodeOperand::Input => CodeSource::None,
                });
            }
            if entry.stdin.iter().any(|word| is_word(text, word)) {
                return worst.worse_of(self.code_on_input(entry, state, input));
            }
            if entry.modules.iter().any(|word| is_word(text, word)) {
                return worst;
            }
            if let Some(option) = entry.options.iter().find(|word| is_word(text, word)) {
                let attached = text.strip_prefix(option.as_str());
                let attached = attached.map(|rest| rest.trim_start_matches('='));
                let code = match attached.filter(|rest| !rest.is_empty() && !entry.shell) {
                    Some(rest) => Arg::known(rest),
                    // Between `-c` and the code there may be more options.
                    None => {
                        let next = args.iter().skip(index).find(|arg| !arg.is_option());
                        index += 1;
                        next.cloned().unwrap_or_default()
                    }
                };
                worst = worst.worse_of(self.judge(entry, &code, state, input));
                if entry.shell {
                    return worst;
                }
            } else if entry.valued.iter().any(|word| ends_with(text, word)) {
                index += 1;
            }
        }
        let takes_input = matches!(
            entry.operand,
            CodeOperand::File | CodeOperand::All | CodeOperand::Input
        );
        if worst != CodeSource::None || !takes_input || !input.present {
            return worst;
        }
        self.code_on_input(entry, state, input)
    }

    fn code_on_input(
        &mut self,
        entry: &Interpreter,
        state: &mut State,
        input: &Input,
    ) -> CodeSource {
        match &input.text {
            Some(text) => self.judge(entry, &Arg::known(text.as_str()), state, &Input::default()),
            None => match input.origin {
                Origin::Here | Origin::Unknown => CodeSource::Stdin,
                other => code_from(other),
            },
        }
    }

    fn judge(
        &mut self,
        entry: &Interpreter,
        code: &Arg,
        state: &mut State,
        input: &Input,
    ) -> CodeSource {
        if code.pipe || !code.known {
            return code_from(code.origin);
        }
        if entry.is_quiet(&code.text) == Ok(true) {
            return CodeSource::Quiet;
        }
        if entry.shell {
            self.code(&code.text, &mut state.clone(), input);
            return CodeSource::Judged;
        }
        CodeSource::Inline
    }

    fn file_or_pipe(
        &mut self,
        arg: &Arg,
        state: &mut State,
        input: &Input,
        entry: &Interpreter,
    ) -> CodeSource {
        if arg.pipe {
            return code_from(arg.origin);
        }
        if matches!(
            arg.text.as_str(),
            "/dev/stdin" | "/proc/self/fd/0" | "/dev/fd/0"
        ) {
            return self.code_on_input(entry, state, input);
        }
        // Some fetch what they run.
        if arg.text.contains("://") {
            return CodeSource::Download;
        }
        self.path(Access::Read, arg, state);
        self.file(arg, state)
    }

    /// Where the code in a file comes from.
    pub(super) fn file(&mut self, arg: &Arg, state: &State) -> CodeSource {
        let places = self.places(arg, state);
        if let Some(origin) = places
            .iter()
            .flat_map(|place| place.ancestors().filter_map(|path| self.written.get(path)))
            .max()
        {
            return match origin {
                Origin::Here | Origin::Unknown => CodeSource::Written,
                other => code_from(*other),
            };
        }
        let targets: Vec<PathBuf> = places
            .iter()
            .map(|place| resolve(&place.to_string_lossy(), place, self.here.home))
            .filter(|resolved| resolved.fault.is_none())
            .map(|resolved| resolved.target)
            .collect();
        let inside = |target: &PathBuf| self.here.root.is_some_and(|root| target.starts_with(root));
        if targets.is_empty() || targets.len() < places.len() || !targets.iter().all(inside) {
            return CodeSource::Unknown;
        }
        self.scripts.extend(targets);
        if self.saved_somewhere {
            return CodeSource::Download;
        }
        CodeSource::File
    }
}

/// The mark that stands for what is added: `-I{}`, `-i`, `--replace=X`.
fn mark_of(option: &str) -> Option<String> {
    let mark = match option {
        "-i" | "--replace" => "{}",
        _ => ["-I", "-i", "--replace="]
            .iter()
            .find_map(|start| option.strip_prefix(start))?,
    };
    Some(mark.to_owned())
}

/// Whether a word is the option, or a cluster of short ones that ends with it.
fn ends_with(text: &str, option: &str) -> bool {
    let letter = option
        .strip_prefix(['-', '+'])
        .filter(|name| name.chars().count() == 1);
    text == option
        || letter.is_some_and(|letter| {
            text.starts_with(['-', '+']) && !text.starts_with("--") && text.ends_with(letter)
        })
}

pub(super) fn code_from(origin: Origin) -> CodeSource {
    match origin {
        Origin::Here | Origin::Unknown => CodeSource::Unknown,
        Origin::Decoded => CodeSource::Decoded,
        Origin::Download => CodeSource::Download,
    }
}

fn joined(args: &[Arg]) -> String {
    let words: Vec<&str> = args
        .iter()
        .map(|arg| if arg.known { arg.text.as_str() } else { "…" })
        .collect();
    words.join(" ")
}

fn replaced(words: Vec<Arg>, mark: &str, with: &[Arg]) -> Vec<Arg> {
    words
        .into_iter()
        .flat_map(|word| {
            if word.text == mark {
                with.to_vec()
            } else if word.text.contains(mark) {
                vec![Arg::unknown(Origin::Unknown)]
            } else {
                vec![word]
            }
        })
        .collect()
}
