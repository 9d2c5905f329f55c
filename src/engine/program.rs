//! What `containment.toml` says about programs, as tables: the shell room reads them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::containment::GUARD;
use super::pattern::{Awake, Haystack, Pattern, PatternError};
use super::sleeping::{Named, Sleeping};

/// What is known about a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its names.
    pub names: Vec<String>,
    /// Only with one of these subcommands; empty: with any.
    pub subcommands: Vec<String>,
    /// Only with one of these words among the arguments; empty: with any.
    pub with: Vec<String>,
    /// And with one of these as well; empty: with any.
    pub besides: Vec<String>,
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
    /// Options with which it saves what it fetches under a name of its own; empty: without any.
    pub saving_options: Vec<String>,
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
    /// They are an expression, and it takes away what that finds.
    Found,
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
    /// The same without hidden ones.
    Visible,
    /// What it was given, decoded.
    Decoded,
    /// What came over the network.
    Download,
}

impl Output {
    /// Each of them with its name in `containment.toml`; what is its own has none.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("filter", Self::Filter),
        ("names", Self::Names),
        ("visible", Self::Visible),
        ("decoded", Self::Decoded),
        ("download", Self::Download),
    ];
}

impl Operands {
    /// Each of them with its name in `containment.toml`; guessing has none.
    pub const NAMED: [(&'static str, Self); 8] = [
        ("found", Self::Found),
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
    /// Options whose value is the folder that the command runs in.
    pub folders: Vec<String>,
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
    /// Only on the standard input: operands are no code.
    Input,
}

impl CodeOperand {
    /// Each of them with its name in `containment.toml`.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("input", Self::Input),
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
    /// The labels of a command that is given what the line did not set itself.
    pub used: Vec<String>,
    /// Assignments, `NAME=value` as they are written, that do no harm.
    pub harmless: Vec<Pattern>,
}

/// The options that a program takes before its subcommand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leading {
    /// The names of the program.
    pub names: Vec<String>,
    /// Those that take the next word as their value.
    pub valued: Vec<String>,
    /// Those whose value is the folder that it then works in.
    pub folders: Vec<String>,
    /// Those that give the command the labels.
    pub options: Vec<String>,
    /// The labels.
    pub labels: Vec<String>,
    /// Values of such an option that do no harm.
    pub harmless: Vec<Pattern>,
}

/// What stands before a subcommand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Front {
    /// Where the subcommand stands among the words, if there is one.
    pub subcommand: Option<usize>,
    /// The words that name a folder to work in, in their order.
    pub folders: Vec<String>,
    /// The labels that an option there gives.
    pub labels: BTreeSet<String>,
}

impl Named for Program {
    fn names(&self) -> &[String] {
        &self.names
    }
}

impl Program {
    /// Whether the entry speaks of that command.
    #[must_use]
    pub fn applies(&self, program: &str, subcommand: &str, arguments: &[String]) -> bool {
        let has = |word: &String| arguments.iter().any(|argument| is_word(argument, word));
        self.names.iter().any(|name| name == program)
            && (self.subcommands.is_empty() || self.subcommands.iter().any(|s| s == subcommand))
            && (self.with.is_empty() || self.with.iter().any(has))
            && (self.besides.is_empty() || self.besides.iter().any(has))
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
        self.names.iter().any(|known| is_word(name, known))
    }

    /// Whether it does no harm to set the variable to that value.
    #[must_use]
    pub fn is_harmless(&self, name: &str, value: &str) -> bool {
        !self.harmless.is_empty() && any_matches(&self.harmless, &format!("{name}={value}"))
    }
}

impl Leading {
    /// Reads the words up to the subcommand. A word that is not known is `None`.
    pub fn front<'w>(&self, words: impl Iterator<Item = Option<&'w str>>) -> Front {
        let mut front = Front::default();
        let mut words = words.enumerate();
        let holds = |list: &[String], word: &str| list.iter().any(|known| is_word(word, known));
        while let Some((index, word)) = words.next() {
            let Some(word) = word else { break };
            if !word.starts_with(['-', '+']) {
                front.subcommand = Some(index);
                break;
            }
            let folder = holds(&self.folders, word);
            let odd = holds(&self.options, word);
            let takes = |list: &[String]| list.iter().any(|known| known == word);
            let next = takes(&self.valued) || takes(&self.folders);
            let value = match word.split_once('=').filter(|(name, _)| name.len() > 2) {
                Some((_, value)) => Some(value),
                None if next => words.next().and_then(|(_, word)| word),
                None => None,
            };
            if folder {
                front.folders.extend(value.map(str::to_owned));
            }
            if odd && !value.is_some_and(|value| any_matches(&self.harmless, value)) {
                front.labels.extend(self.labels.iter().cloned());
            }
        }
        front
    }
}

fn any_matches(patterns: &[Pattern], text: &str) -> bool {
    let text = [Haystack::new(text)];
    patterns
        .iter()
        .any(|pattern| pattern.matches(&text) == Ok(true))
}

/// The labels that the entries give, and what the program does to its path operands: the entry
/// that says most.
pub(super) fn labels_of<'a>(
    programs: &'a Sleeping<Program>,
    program: &'a str,
    subcommand: &str,
    arguments: &[String],
) -> (BTreeSet<String>, Vec<&'a Program>) {
    let mut labels = BTreeSet::new();
    let mut entries = Vec::new();
    for entry in programs.named(program) {
        let Ok(entry) = entry else {
            // What the table says of it may be anything.
            labels.insert(GUARD.to_owned());
            continue;
        };
        if entry.applies(program, subcommand, arguments) {
            labels.extend(entry.labels.iter().cloned());
            entries.push(entry);
        }
    }
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

    #[test]
    fn a_subcommand_stands_behind_the_values_of_options() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let entry = Leading {
            valued: words(&["--namespace", "-c"]),
            folders: words(&["-C", "--dir"]),
            options: words(&["-c"]),
            labels: words(&["odd"]),
            ..Leading::default()
        };
        let front = |line: &str| entry.front(line.split(' ').map(Some));
        assert_eq!(front("-v get pods").subcommand, Some(1));
        assert_eq!(front("--namespace x get").subcommand, Some(2));
        assert_eq!(front("--namespace=x get").subcommand, Some(1));
        assert_eq!(front("-C a --dir=b get").folders, ["a", "b"]);
        assert!(front("-c x=y log").labels.contains("odd"));
        assert!(front("switch -c x").labels.is_empty());
    }
}
