//! The paths that a command names, and what it does to them.

use std::path::{Path, PathBuf};

use super::found::{found, is_catch_all};
use super::state::{Arg, Below, Input, Origin, State};
use super::walk::Walker;
use super::{Access, PathUse, glob, looks_like_path, path_part};
use crate::engine::program::{Operands, Program, is_word};
use crate::facts::paths::lexical;

impl Walker<'_> {
    /// The paths among a command's words. False: a word that matters is not known.
    pub(super) fn operands(
        &mut self,
        entries: &[&Program],
        args: &[Arg],
        input: &Input,
        state: &State,
    ) -> bool {
        let kind = entries
            .iter()
            .map(|entry| entry.operands)
            .max()
            .unwrap_or_default();
        if kind == Operands::Found {
            for arg in found(args) {
                self.path(Access::Delete, &arg, state);
            }
            return args.iter().all(|arg| arg.known);
        }
        let data = |arg: &Arg| {
            entries
                .iter()
                .any(|entry| entry.data_options.contains(&arg.text))
        };
        let valued = |text: &str| {
            let holds =
                |words: &'_ [String]| words.iter().find(|word| is_word(text, word)).cloned();
            entries.iter().find_map(|entry| {
                let output = holds(&entry.output_options).map(|word| (Access::Write, word));
                output.or_else(|| holds(&entry.input_options).map(|word| (Access::Read, word)))
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
                } else if let Some((access, option)) = valued(&arg.text) {
                    match attached(&arg.text, &option) {
                        Some(value) => self.path(access, &Arg::known(value), state),
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
        self.passes_on(kind, &paths, input, state);
        self.given = paths;
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
                Operands::None | Operands::Found => continue,
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

    /// What comes from elsewhere is in the files that it is written or copied to.
    fn passes_on(&mut self, kind: Operands, paths: &[Arg], input: &Input, state: &State) {
        let Some((last, sources)) = paths.split_last() else {
            return;
        };
        match kind {
            Operands::Write if input.origin > Origin::Unknown => {
                for path in paths {
                    let places = self.places(path, state);
                    self.write_outputs(&places, input.origin);
                }
            }
            Operands::Copy | Operands::Move | Operands::Link => {
                for source in sources {
                    let places = self.places(source, state);
                    let origins = places.iter().filter_map(|place| self.written.get(place));
                    let Some(origin) = origins.max().copied() else {
                        continue;
                    };
                    for place in self.places(last, state) {
                        let names = places.iter().filter_map(|place| place.file_name());
                        let below: Vec<PathBuf> = names.map(|name| place.join(name)).collect();
                        self.write_outputs(&below, origin);
                        self.write_outputs(&[place], origin);
                    }
                }
            }
            _ => {}
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
                below: None,
            });
        }
    }

    /// The files that a download is saved to.
    pub(super) fn downloads(&mut self, entries: &[&Program], args: &[Arg], state: &State) {
        let saving = |arg: &Arg| {
            let words = entries.iter().flat_map(|entry| &entry.output_options);
            words.clone().find(|word| is_word(&arg.text, word))
        };
        let mut named = false;
        for (index, arg) in args.iter().enumerate() {
            let Some(option) = saving(arg) else { continue };
            let value = match attached(&arg.text, option) {
                Some(value) => Some(Arg::known(value)),
                None => args.get(index + 1).cloned(),
            };
            named |= value.as_ref().is_some_and(|value| value.known);
            let places = value.map(|value| self.places(&value, state));
            self.write_outputs(&places.unwrap_or_default(), Origin::Download);
        }
        let by_itself = entries.iter().any(|entry| {
            let words = &entry.saving_options;
            words
                .iter()
                .any(|word| word.is_empty() || args.iter().any(|arg| is_word(&arg.text, word)))
        });
        if !by_itself || named {
            return;
        }
        // It is called as the address ends, if that can be told.
        for arg in args.iter().filter(|arg| !arg.is_option()) {
            let name = arg.text.split(['?', '#']).next().unwrap_or_default();
            match name.trim_end_matches('/').rsplit_once('/') {
                Some((start, name)) if arg.known && !start.ends_with('/') => {
                    let places = self.places(&Arg::known(name), state);
                    self.write_outputs(&places, Origin::Download);
                }
                _ => self.saved_somewhere = true,
            }
        }
    }

    /// Notes a path, from wherever the shell may be.
    pub(super) fn path(&mut self, access: Access, arg: &Arg, state: &State) {
        if arg.pipe {
            return;
        }
        if let Some(below) = &arg.below {
            return self.below(access, arg, below, state);
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
                let (cwd, given) = stepped_up(cwd, given);
                self.add(PathUse {
                    access,
                    given,
                    cwd,
                    below: None,
                });
            }
        }
        // Who takes away all that is in a folder, takes away the folder.
        let (folder, last) = arg.text.rsplit_once('/').unwrap_or((".", &arg.text));
        if access == Access::Delete && arg.glob && is_catch_all(last) {
            let folder = if folder.is_empty() { "/" } else { folder };
            self.path(access, &Arg::known(folder), state);
        }
    }

    /// Files below a folder, of which no more is known than what they are called.
    fn below(&mut self, access: Access, arg: &Arg, below: &Below, state: &State) {
        let folder = Arg {
            below: None,
            ..arg.clone()
        };
        if access != Access::Write && is_catch_all(&below.named) {
            return self.path(access, &folder, state);
        }
        if state.lost && !arg.text.starts_with(['/', '~']) {
            self.uncertain("the folder that it runs in cannot be told");
        }
        self.path(Access::Read, &folder, state);
        let start = arg.text.trim_end_matches('/');
        let given = match below.named.strip_prefix(start) {
            Some(rest) if rest.starts_with('/') => below.named.clone(),
            _ => format!("{start}/{}", below.named.trim_start_matches('/')),
        };
        for cwd in &state.cwds {
            self.add(PathUse {
                access,
                given: given.clone(),
                cwd: cwd.clone(),
                below: below.hidden.then(|| arg.text.clone()),
            });
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

/// The same place without `..` in a folder that is not there yet: the shell could not be in it but
/// for a command of the line that makes it, and then its parent is the folder above.
fn stepped_up(cwd: &Path, mut given: String) -> (PathBuf, String) {
    let mut cwd = cwd.to_path_buf();
    while (given == ".." || given.starts_with("../")) && cwd.symlink_metadata().is_err() {
        cwd.pop();
        given = match given.get(3..).filter(|rest| !rest.is_empty()) {
            Some(rest) => rest.to_owned(),
            None => ".".to_owned(),
        };
    }
    (cwd, given)
}

/// The value that stands with its option: `--output=x`, `-ox`.
fn attached<'a>(text: &'a str, option: &str) -> Option<&'a str> {
    if let Some((_, value)) = text.split_once('=').filter(|_| text.starts_with("--")) {
        return Some(value);
    }
    let letter = option.strip_prefix('-').filter(|rest| rest.len() == 1)?;
    let (_, value) = text.strip_prefix('-')?.split_once(letter)?;
    (!text.starts_with("--") && !value.is_empty()).then_some(value)
}
