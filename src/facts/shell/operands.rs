//! The paths that a command names, and what it does to them.

use std::path::PathBuf;

use super::state::{Arg, Origin, State};
use super::walk::Walker;
use super::{Access, PathUse, glob, looks_like_path, path_part};
use crate::engine::program::{Operands, Program, is_word};
use crate::facts::paths::lexical;

impl Walker<'_> {
    /// The paths among a command's words. False: a word that matters is not known.
    pub(super) fn operands(&mut self, entries: &[&Program], args: &[Arg], state: &State) -> bool {
        let kind = entries
            .iter()
            .map(|entry| entry.operands)
            .max()
            .unwrap_or_default();
        let data = |arg: &Arg| {
            entries
                .iter()
                .any(|entry| entry.data_options.contains(&arg.text))
        };
        let valued = |text: &str| {
            let holds = |words: &[String]| words.iter().any(|word| is_word(text, word));
            entries.iter().find_map(|entry| {
                if holds(&entry.output_options) {
                    Some(Access::Write)
                } else {
                    holds(&entry.input_options).then_some(Access::Read)
                }
            })
        };
        let mut leading = entries
            .iter()
            .map(|entry| entry.data_operands)
            .max()
            .unwrap_or(0);
        if args.iter().any(|arg| arg.known && data(arg)) {
            leading = 0;
        }
        let mut certain = true;
        let mut paths: Vec<Arg> = Vec::new();
        let mut index = 0;
        let mut ends = false;
        while let Some(arg) = args.get(index) {
            index += 1;
            if !arg.known {
                certain &= kind == Operands::None;
                continue;
            }
            if arg.text == "--" && !ends {
                ends = true;
                continue;
            }
            if arg.is_option() && !ends {
                if data(arg) {
                    index += 1;
                } else if let Some(access) = valued(&arg.text) {
                    match arg.text.split_once('=') {
                        Some((_, value)) => self.path(access, &Arg::known(value), state),
                        None => {
                            if let Some(value) = args.get(index) {
                                certain &= value.known;
                                self.path(access, value, state);
                            }
                            index += 1;
                        }
                    }
                } else {
                    let value = path_part(&arg.text);
                    let value = value.rsplit_once('@').map_or(value, |(_, file)| file);
                    if looks_like_path(value) && kind != Operands::None {
                        self.path(Access::Read, &Arg::known(value), state);
                    }
                }
                continue;
            }
            if leading > 0 {
                leading -= 1;
                continue;
            }
            paths.push(arg.clone());
        }
        self.uses(kind, &paths, args, state);
        certain
    }

    fn uses(&mut self, kind: Operands, paths: &[Arg], args: &[Arg], state: &State) {
        let last = paths.len().saturating_sub(1);
        let into = args
            .iter()
            .position(|arg| arg.is("-t") || arg.is("--target-directory"));
        for (index, arg) in paths.iter().enumerate() {
            let is_target = index == last && last > 0 && into.is_none();
            // `@file` and `name=@file`, as what sends a file has it.
            if let Some((start, file)) = arg.text.split_once('@')
                && (start.is_empty() || start.ends_with('='))
                && kind != Operands::None
            {
                self.path(Access::Read, &Arg::known(file), state);
                continue;
            }
            let access = match kind {
                Operands::None => continue,
                Operands::Guess if !looks_like_path(&arg.text) => continue,
                Operands::Guess | Operands::Read => Access::Read,
                Operands::Write => Access::Write,
                Operands::Delete => Access::Delete,
                Operands::Copy | Operands::Move | Operands::Link if is_target => Access::Write,
                Operands::Move => Access::Delete,
                Operands::Link => {
                    self.link(arg, paths.last().filter(|_| last > 0), args, state);
                    continue;
                }
                Operands::Copy => Access::Read,
            };
            // `NAME=path`, as `dd` and `make` have it.
            let operand = match arg.text.split_once('=') {
                Some((_, value)) if looks_like_path(value) => Arg::known(value),
                _ => arg.clone(),
            };
            self.path(access, &operand, state);
        }
        // `cp -t DIR a b`: the option's value is among the operands, where it counts as read too.
        if let Some(dir) = into.and_then(|index| args.get(index + 1)) {
            self.path(Access::Write, dir, state);
        }
    }

    /// What a link leads to: whoever writes to the link writes there. A symbolic link's text is
    /// followed from where the link is.
    fn link(&mut self, target: &Arg, link: Option<&Arg>, args: &[Arg], state: &State) {
        let symbolic = args.iter().any(|arg| arg.known && is_word(&arg.text, "-s"))
            || args.iter().any(|arg| arg.is("--symbolic"));
        if !symbolic || target.text.starts_with(['/', '~']) {
            return self.path(Access::Write, target, state);
        }
        let Some(link) = link else {
            return self.path(Access::Write, target, state);
        };
        for cwd in &state.cwds {
            let place = cwd.join(&link.text);
            let dir = if place.is_dir() {
                place
            } else {
                place.parent().map_or_else(|| cwd.clone(), PathBuf::from)
            };
            self.add(PathUse {
                access: Access::Write,
                given: target.text.clone(),
                cwd: dir,
            });
        }
    }

    /// The files that a download is saved to.
    pub(super) fn downloads(&mut self, entries: &[&Program], args: &[Arg], state: &State) {
        for (index, arg) in args.iter().enumerate() {
            let saves = entries.iter().any(|entry| {
                entry
                    .output_options
                    .iter()
                    .any(|word| is_word(&arg.text, word))
            });
            if saves && let Some(target) = args.get(index + 1) {
                let places = self.places(target, state);
                self.write_outputs(&places, Origin::Download);
            }
        }
    }

    /// Notes a path, from wherever the shell may be.
    pub(super) fn path(&mut self, access: Access, arg: &Arg, state: &State) {
        if arg.pipe {
            return;
        }
        let absolute = arg.text.starts_with(['/', '~']);
        if state.lost && !absolute {
            self.uncertain("the folder that it runs in cannot be told");
        }
        for cwd in &state.cwds {
            let words = if arg.glob {
                match glob::expand(&arg.text, cwd, &mut self.globs) {
                    Some(words) => words,
                    None => {
                        self.uncertain("a pattern in it matches too much");
                        vec![arg.text.clone()]
                    }
                }
            } else {
                vec![arg.text.clone()]
            };
            for given in words {
                self.add(PathUse {
                    access,
                    given,
                    cwd: cwd.clone(),
                });
            }
        }
    }

    fn add(&mut self, path: PathUse) {
        if self.seen.insert(path.clone()) {
            self.line.paths.push(path);
        }
    }

    /// Where a word leads, by text.
    pub(super) fn places(&self, arg: &Arg, state: &State) -> Vec<PathBuf> {
        if !arg.known {
            return Vec::new();
        }
        let given = match (arg.text.strip_prefix("~/"), self.here.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(&arg.text),
        };
        state
            .cwds
            .iter()
            .map(|cwd| lexical(&cwd.join(&given)))
            .collect()
    }
}
