//! What `containment.toml` says about programs, as tables: the shell room reads them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::pattern::{Awake, Haystack, Pattern, PatternError};

/// What is known about a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its names.
    pub names: Vec<String>,
    /// Only with one of these subcommands; empty: with any.
    pub subcommands: Vec<String>,
    /// Only with one of these words among the arguments; empty: with any.
    pub with: Vec<String>,
    /// Only without all of these words.
    pub without: Vec<String>,
    /// The labels that it then carries.
    pub labels: Vec<String>,
    /// What it does to the paths that it is given.
    pub operands: Operands,
    /// What it prints.
    pub output: Output,
    /// Options whose value is data and no path.
    pub data_options: Vec<String>,
    /// Options whose value is a path that is read.
    pub input_options: Vec<String>,
    /// Options whose value is a path that is written.
    pub output_options: Vec<String>,
    /// How many operands in front are data, unless a data option took their place.
    pub data_operands: u8,
}

/// What a program does to the paths that it is given.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Operands {
    /// Its operands are no paths, and whatever they hold does no harm.
    None,
    /// Nobody said: what looks like a path is taken for one that is read.
    #[default]
    Guess,
    /// It looks at them.
    Read,
    /// It looks at all of them but the last, and writes that one.
    Copy,
    /// The last is a link to the others.
    Link,
    /// It changes them.
    Write,
    /// It takes all of them but the last away, and writes that one.
    Move,
    /// It takes them away, and what is below them.
    Delete,
}

/// What a program prints, for whatever takes it as code or as names of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Something of its own.
    #[default]
    Own,
    /// What it was given, or less of it.
    Filter,
    /// Names of files below the folders that it is given.
    Names,
    /// What it was given, decoded.
    Decoded,
    /// What came over the network.
    Download,
}

impl Output {
    /// Each of them with its name in `containment.toml`; what is its own has none.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("filter", Self::Filter),
        ("names", Self::Names),
        ("decoded", Self::Decoded),
        ("download", Self::Download),
    ];
}

impl Operands {
    /// Each of them with its name in `containment.toml`; guessing has none.
    pub const NAMED: [(&'static str, Self); 7] = [
        ("none", Self::None),
        ("read", Self::Read),
        ("copy", Self::Copy),
        ("link", Self::Link),
        ("write", Self::Write),
        ("move", Self::Move),
        ("delete", Self::Delete),
    ];
}

/// A program that runs the command among its own words: `timeout 5 make`, `find -exec rm {} +`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapper {
    /// Its names.
    pub names: Vec<String>,
    /// Options that take the next word as their value.
    pub valued: Vec<String>,
    /// How many operands stand before the command.
    pub operands: u8,
    /// Whether `NAME=value` words may stand before the command.
    pub assignments: bool,
    /// Whether words that nobody sees here are added to the command.
    pub appends: bool,
    /// Options with which it runs nothing.
    pub except: Vec<String>,
    /// Words after which a command stands, up to `;` or `+`; empty: it stands behind the options.
    pub after: Vec<String>,
    /// Whether the words are put together and read as shell code.
    pub joins: bool,
}

/// A program that runs code: from an option, a file, or its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// Its names.
    pub names: Vec<String>,
    /// Options whose value is code.
    pub options: Vec<String>,
    /// Options that take the next word as their value, and it is no code.
    pub valued: Vec<String>,
    /// Options after which the code comes from the standard input, whatever follows.
    pub stdin: Vec<String>,
    /// Options behind which a module stands, and no code.
    pub modules: Vec<String>,
    /// Whether the code is shell, and can be read here.
    pub shell: bool,
    /// Where code stands if no option brings it.
    pub operand: CodeOperand,
    /// Code that one of these matches is harmless.
    pub quiet: Vec<Pattern>,
    /// Code that one of these matches is not.
    pub loud: Vec<Pattern>,
}

/// Where an interpreter finds its code if no option brings it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeOperand {
    /// The first operand is a file of code; without one, the standard input is code.
    #[default]
    File,
    /// The first operand is code.
    Code,
    /// All operands together are code.
    All,
    /// Nowhere else.
    Nowhere,
}

impl CodeOperand {
    /// Each of them with its name in `containment.toml`.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("file", Self::File),
        ("code", Self::Code),
        ("all", Self::All),
        ("nowhere", Self::Nowhere),
    ];
}

/// Variables that change what programs do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Their names; a final `*` stands for any rest.
    pub names: Vec<String>,
    /// The labels of a command that sets one.
    pub labels: Vec<String>,
}

impl Program {
    /// Whether the entry speaks of that command.
    #[must_use]
    pub fn applies(&self, program: &str, subcommand: &str, arguments: &[String]) -> bool {
        let has = |word: &String| arguments.iter().any(|argument| is_word(argument, word));
        self.names.iter().any(|name| name == program)
            && (self.subcommands.is_empty() || self.subcommands.iter().any(|s| s == subcommand))
            && (self.with.is_empty() || self.with.iter().any(has))
            && !self.without.iter().any(has)
    }
}

impl Interpreter {
    /// Whether the tables call this code harmless.
    ///
    /// # Errors
    /// If a pattern does not compile, which loading excluded.
    pub fn is_quiet(&self, code: &str) -> Result<bool, PatternError> {
        let code = [Haystack::new(code)];
        let any = |patterns: &[Pattern]| -> Result<bool, PatternError> {
            for pattern in patterns {
                if pattern.matches(&code)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok(!any(&self.loud)? && (any(&self.quiet)? || self.is_quiet_by_default()))
    }

    /// The same with the patterns compiled, for many texts.
    #[must_use]
    pub fn is_quiet_to(quiet: &[Awake<'_>], loud: &[Awake<'_>], code: &str) -> bool {
        let code = Haystack::new(code);
        let any = |patterns: &[Awake<'_>]| patterns.iter().any(|pattern| pattern.matches(&code));
        !any(loud) && (any(quiet) || (quiet.is_empty() && !loud.is_empty()))
    }

    const fn is_quiet_by_default(&self) -> bool {
        self.quiet.is_empty() && !self.loud.is_empty()
    }
}

impl Variable {
    /// Whether the entry speaks of that variable.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        self.names
            .iter()
            .any(|known| match known.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == known,
            })
    }
}

/// The labels that the entries give, and what the program does to its path operands: the entry
/// that says most.
pub(super) fn labels_of<'a>(
    programs: &'a [Program],
    program: &str,
    subcommand: &str,
    arguments: &[String],
) -> (BTreeSet<String>, Vec<&'a Program>) {
    let entries: Vec<&Program> = programs
        .iter()
        .filter(|entry| entry.applies(program, subcommand, arguments))
        .collect();
    let labels = entries
        .iter()
        .flat_map(|entry| entry.labels.iter().cloned())
        .collect();
    (labels, entries)
}

/// Whether `argument` is the word, `--word=value`, or a cluster of short options that holds `-w`. A
/// `*` at an end of the word stands for anything.
#[must_use]
pub fn is_word(argument: &str, word: &str) -> bool {
    match (word.strip_prefix('*'), word.strip_suffix('*')) {
        (Some(rest), Some(_)) => {
            return rest
                .strip_suffix('*')
                .is_some_and(|inner| argument.contains(inner));
        }
        (Some(end), None) => return argument.ends_with(end),
        (None, Some(start)) => return argument.starts_with(start),
        (None, None) => {}
    }
    if argument == word {
        return true;
    }
    let Some(name) = word.strip_prefix('-') else {
        return false;
    };
    if name.chars().count() > 1 {
        return argument
            .strip_prefix(word)
            .is_some_and(|rest| rest.starts_with('='));
    }
    !name.is_empty()
        && argument
            .strip_prefix('-')
            .is_some_and(|cluster| !cluster.starts_with('-') && cluster.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_clusters() {
        assert!(is_word("-rf", "-f"));
        assert!(is_word("--force=now", "--force"));
        assert!(!is_word("--force-with-lease", "--force"));
        assert!(!is_word("--f", "-f"));
        assert!(is_word("-fplugin=x", "-fplugin"));
        assert!(is_word("SHELL=x", "SHELL=*") && !is_word("XSHELL=x", "SHELL=*"));
        assert!(is_word("a@b", "*@*") && !is_word("ab", "*@*"));
    }

    #[test]
    fn a_star_stands_for_the_rest_of_a_variables_name() {
        let entry = Variable {
            names: vec!["LD_*".into(), "PATH".into()],
            ..Variable::default()
        };
        assert!(entry.covers("LD_PRELOAD") && entry.covers("PATH"));
        assert!(!entry.covers("PATHS") && !entry.covers("OLD_X"));
    }
}
