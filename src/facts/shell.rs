//! The words of a command line that is nothing but plain words.
//!
//! A line with anything that a shell would act on is not understood here, and says so.

/// A command line longer than this is not looked into.
pub const LENGTH_LIMIT: usize = 10_000;

/// The words of a plain command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// The program without its folder.
    pub program: String,
    /// The program as written.
    pub path: String,
    /// The words after it.
    pub arguments: Vec<String>,
}

/// What a shell acts on, wherever it stands outside single quotes.
const ACTIVE: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '{', '}', '[', ']', '*', '?', '!', '#', '~',
    '\n', '\r', '^', '%',
];

impl Plain {
    /// The words of the line, or `None` if it is more than plain words.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        if line.len() > LENGTH_LIMIT || !is_plain(line) {
            return None;
        }
        let mut words = shlex::split(line)?.into_iter();
        let path = words.next()?;
        // `NAME=value program` sets the environment, which may run anything.
        if path.is_empty() || path.contains('=') {
            return None;
        }
        let program = path.rsplit('/').next().unwrap_or(&path).to_owned();
        if program.is_empty() {
            return None;
        }
        Some(Self {
            program,
            path,
            arguments: words.collect(),
        })
    }

    /// The first argument that is no option, or nothing.
    #[must_use]
    pub fn subcommand(&self) -> &str {
        self.arguments
            .iter()
            .find(|argument| !argument.starts_with('-'))
            .map_or("", String::as_str)
    }
}

/// Whether the line holds nothing that a shell acts on. A `%` in a word such as `+%F` is plain.
fn is_plain(line: &str) -> bool {
    let mut single = false;
    let mut double = false;
    line.chars().all(|c| match c {
        '\'' if !double => {
            single = !single;
            true
        }
        '"' if !single => {
            double = !double;
            true
        }
        '%' | '^' | '~' | '*' | '?' | '[' | ']' | '{' | '}' | '#' | '|' | '&' | ';' | '<' | '>'
        | '(' | ')'
            if single || double =>
        {
            true
        }
        '%' => true,
        '!' | '$' | '`' | '\\' if single => true,
        c if ACTIVE.contains(&c) => false,
        c if c.is_control() && c != '\t' => false,
        // Look-alikes of blanks, quotes and dashes, and marks that reorder text.
        c => c.is_ascii() || c.is_alphanumeric(),
    }) && !single
        && !double
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
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_understood() {
        for (line, program, arguments) in [
            ("ls -la", "ls", vec!["-la"]),
            ("/usr/bin/git  status", "git", vec!["status"]),
            (
                "git commit -m 'fix $(x) | y'",
                "git",
                vec!["commit", "-m", "fix $(x) | y"],
            ),
            (
                "git commit -m \"fix; it\"",
                "git",
                vec!["commit", "-m", "fix; it"],
            ),
            ("date +%F", "date", vec!["+%F"]),
            ("echo ''", "echo", vec![""]),
            ("echo résumé", "echo", vec!["résumé"]),
        ] {
            let plain = Plain::parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(plain.program, program, "{line}");
            assert_eq!(plain.arguments, arguments, "{line}");
        }
    }

    #[test]
    fn what_a_shell_acts_on_is_not_plain() {
        for line in [
            "",
            " ",
            "a | b",
            "a; b",
            "a && b",
            "a > b",
            "$(a)",
            "`a`",
            "echo $HOME",
            "X=1 a",
            "a\nb",
            "ls *",
            "ls ~",
            "echo \"$x\"",
            "echo \"a\\\"b\"",
            "git reset\\ --hard",
            "'unclosed",
            "a #b",
            "ls\u{a0}x",
            "ls \u{202e}x",
            "\u{feff}ls",
            "!!",
            "{ls,-la}",
            "a\0b",
            "/bin/",
        ] {
            assert_eq!(Plain::parse(line), None, "{line:?}");
        }
        assert_eq!(Plain::parse(&"a ".repeat(6_000)), None);
    }
}
