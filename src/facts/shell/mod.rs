//! What a command line runs: every simple command with its words, whatever wraps it, and every
//! path that it names.
//!
//! tree-sitter-bash reads the line; what stands here follows it as a shell would: quotes, braces,
//! variables set on the way, `cd`, functions, pipes, wrappers (`timeout 5 …`), and code that is
//! given to a shell as a word or on its input. Which programs wrap, which run code and what they do
//! to their operands is said by the tables of `containment.toml`. What is not understood is never
//! taken for harmless: it makes the line uncertain.

mod code;
mod command;
mod expand;
mod found;
mod glob;
mod operands;
mod redirect;
mod state;
mod syntax;
mod walk;
mod word;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::engine::containment::Containment;
use crate::engine::program::Output;

/// A command line longer than this is not looked into, in bytes.
pub const LENGTH_LIMIT: usize = 10_000;

/// Whether every shell reads a line alike, PowerShell and cmd too: plain words, one command.
#[must_use]
pub fn is_plain(line: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._/=+:-".contains(c);
    // `/s` is an option to cmd, and `C:x` a file of a drive.
    let odd = |word: &str| word.starts_with('/') || word.get(1..2) == Some(":");
    line.chars().all(plain) && !line.split(' ').any(odd)
}

/// Where a command line would run.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The working directory, resolved.
    pub cwd: &'a Path,
    /// The workspace root, resolved.
    pub root: Option<&'a Path>,
    /// The user's home.
    pub home: Option<&'a Path>,
}

/// What a command line does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Its simple commands, those inside of wrappers and of code included.
    pub commands: Vec<Command>,
    /// The paths that it names.
    pub paths: Vec<PathUse>,
    /// Why it is not understood, if it is not.
    pub uncertain: Option<&'static str>,
}

/// One simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// As it is written; for a command inside of a wrapper, its words.
    pub text: String,
    /// The program without its folder, or empty.
    pub program: String,
    /// The program as written.
    pub path: String,
    /// The first word behind it that is no option, or empty.
    pub subcommand: String,
    /// The words behind the program, as far as they are known.
    pub arguments: Vec<String>,
    /// Whether all that matters of it is known.
    pub certain: bool,
    /// What the tables say of it.
    pub labels: BTreeSet<String>,
    /// What it prints, as the tables have it.
    pub output: Output,
    /// Where the code comes from that it runs.
    pub code: CodeSource,
    /// Where the program's own file comes from, if it is named by its path.
    pub own: CodeSource,
    /// Whether all of its words are known.
    pub complete: bool,
    /// How many commands it stands inside of.
    pub depth: usize,
    /// Whether it reads files that it names.
    pub reads: bool,
    /// Whether it lists the files for which an expression holds.
    pub searches: bool,
    /// The files that it runs code from, resolved.
    pub scripts: Vec<PathBuf>,
}

/// Where the code comes from that a command runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CodeSource {
    /// It runs none.
    #[default]
    None,
    /// From the line itself, and what it does is among the commands.
    Judged,
    /// From the line itself, and the tables call it harmless.
    Quiet,
    /// A file of the workspace.
    File,
    /// From the line itself, in a language that is not read here.
    Inline,
    /// From the standard input.
    Stdin,
    /// A file that this line writes, or that an agent wrote before.
    Written,
    /// From somewhere that nobody knows.
    Unknown,
    /// It was encoded.
    Decoded,
    /// It comes over the network.
    Download,
}

impl CodeSource {
    /// The one that is less trusted.
    #[must_use]
    pub const fn worse_of(self, other: Self) -> Self {
        if (other as u8) > (self as u8) {
            other
        } else {
            self
        }
    }

    /// The word that policies know it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Judged => "judged",
            Self::Quiet => "quiet",
            Self::File => "file",
            Self::Inline => "inline",
            Self::Stdin => "stdin",
            Self::Written => "written",
            Self::Unknown => "unknown",
            Self::Decoded => "decoded",
            Self::Download => "download",
        }
    }
}

/// What a command does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Looks at it.
    Read,
    /// Changes it or makes it.
    Write,
    /// Takes it away, with all that is below it.
    Delete,
}

/// A path that a line names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathUse {
    /// What is done to it.
    pub access: Access,
    /// The path as the program gets it.
    pub given: String,
    /// The directory that it starts from.
    pub cwd: PathBuf,
    /// Where it stands for files that match a pattern: the folder that they are below.
    pub below: Option<String>,
}

/// What the line does.
#[must_use]
pub fn analyse(line: &str, tables: &Containment, here: Surroundings<'_>) -> Line {
    if line.len() > LENGTH_LIMIT {
        return not_understood("it is too long to be looked into");
    }
    if let Some(why) = disguised(line) {
        return not_understood(why);
    }
    walk::Walker::new(tables, here).line(line)
}

fn not_understood(why: &'static str) -> Line {
    Line {
        uncertain: Some(why),
        ..Line::default()
    }
}

/// Characters that make a line look like another one than a shell reads.
fn disguised(line: &str) -> Option<&'static str> {
    let odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(
                c,
                '\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{1680}' | '\u{180e}' | '\u{feff}'
            )
            || ('\u{2000}'..='\u{200f}').contains(&c)
            || ('\u{2028}'..='\u{202f}').contains(&c)
            || ('\u{205f}'..='\u{206f}').contains(&c)
            || matches!(c, '\u{3000}' | '\u{3164}' | '\u{ffa0}')
            || ('\u{e0000}'..='\u{e007f}').contains(&c)
    };
    if line.chars().any(odd) {
        return Some("it holds characters that cannot be seen, or change what is seen");
    }
    let depth = line
        .chars()
        .scan(0_i32, |depth, c| {
            match c {
                '(' | '{' | '[' => *depth += 1,
                ')' | '}' | ']' => *depth = (*depth - 1).max(0),
                _ => {}
            }
            Some(*depth)
        })
        .max();
    (depth > Some(64)).then_some("its brackets go too deep")
}

/// Whether a bare word holds what looks like a sign of the shell, a path or an address, and is none.
fn looks_like_another(word: &str) -> bool {
    let sign = |c: char| {
        matches!(c, '\u{2010}'..='\u{2015}' | '\u{2024}'..='\u{2026}' | '\u{2044}' | '\u{2212}' | '\u{2215}' | '\u{29f8}')
            // Full-width letters, digits and signs of paths and options.
            || matches!(c, '\u{ff0d}'..='\u{ff19}' | '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5e}')
    };
    !word.is_ascii() && (word.contains(sign) || word.contains("://"))
}

/// Whether a word is likely to be taken for a path that matters: absolute, upwards, or a home.
#[must_use]
pub fn looks_like_path(word: &str) -> bool {
    word.starts_with(['/', '~'])
        || word.starts_with("./")
        || word.split('/').any(|part| part == "..")
        || word
            .get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}

/// The part of a word that may be a path: the value of `--option=value`, else the word itself.
#[must_use]
pub fn path_part(word: &str) -> &str {
    if word.starts_with('-') {
        word.split_once('=').map_or("", |(_, value)| value)
    } else {
        word
    }
}

#[cfg(test)]
mod tests;
