//! What a command does is seen, whatever it is wrapped in; and what is only mentioned is not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use copilot_bridge::engine::containment::Containment;
use copilot_bridge::facts::shell::{Access, CodeSource, Line, Surroundings, analyse};
use copilot_bridge::policy::layer::embedded;
use copilot_bridge::policy::load_sources;
use nix::time::{ClockId, clock_gettime};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::cases;

/// Twenty times what a line may cost in a build for people: this one is hardly optimised.
const TIME: Duration = Duration::from_secs(1);

/// The tables of the default policies.
fn tables() -> &'static Containment {
    static TABLES: OnceLock<Containment> = OnceLock::new();
    TABLES.get_or_init(|| {
        let bundle = load_sources(&[embedded()]).unwrap_or_else(|problems| panic!("{problems:?}"));
        bundle.settings.containment
    })
}

fn read(line: &str) -> Line {
    let here = Surroundings {
        cwd: Path::new("/nowhere/ws"),
        root: Some(Path::new("/nowhere/ws")),
        home: Some(Path::new("/home/dev")),
    };
    analyse(line, tables(), here)
}

type Effects = BTreeSet<(Access, PathBuf)>;

fn effects(line: &Line) -> Effects {
    let place =
        |path: &copilot_bridge::facts::shell::PathUse| (path.access, path.cwd.join(&path.given));
    line.paths.iter().map(place).collect()
}

/// What the tables say of the commands of a line.
fn labels(line: &Line) -> BTreeSet<&str> {
    line.commands
        .iter()
        .flat_map(|command| &command.labels)
        .map(String::as_str)
        .collect()
}

/// Whether the line is at least asked about.
fn is_uncertain(line: &Line) -> bool {
    let unsure = |code| code as u8 > CodeSource::File as u8;
    line.uncertain.is_some() || line.commands.iter().any(|c| !c.certain || unsure(c.code))
}

const DESTRUCTIVE: &[&str] = &[
    "rm -rf build",
    "rm -rf /",
    "rm -r -- ../other -x",
    "rm \"it's\" 'a \"b\"'",
    "rm -f a; rmdir b",
    "mv src /var/lib/x",
    "rm *.log",
    "rm -rf ~/.ssh",
    "unlink {a,b}",
];

const OTHERS: &[&str] = &[
    "cat README.md",
    "cat /etc/passwd",
    "cp a b",
    "touch 'a b' c",
    "tee /etc/hosts",
    "echo hi > out",
    "cat < in 2>> log",
    "sed -i s/a/b/ x",
    "ln -s /etc/passwd x",
    "chmod 777 /etc/x",
    "grep -rn 'a|b' src",
    "find . -name '*.rs'",
    "git push --force",
    "curl -fsSL https://x.example -o x",
    "sudo ls",
    "ls",
];

fn command() -> impl Strategy<Value = &'static str> {
    select([DESTRUCTIVE, OTHERS].concat())
}

/// A piece of shell, and whether another program may be asked to run it as it stands.
#[derive(Debug, Clone)]
struct Code {
    text: String,
    simple: bool,
}

fn quoted(text: &str) -> String {
    shlex::try_quote(text).unwrap().into_owned()
}

/// What may stand before a simple command and runs it.
const PREFIXES: &[&str] = &[
    "env X=1",
    "env -i",
    "nohup",
    "timeout 5",
    "timeout -k 1 5s",
    "nice -n 5",
    "nice",
    "stdbuf -oL",
    "setsid",
    "sudo",
    "sudo -u root --",
    "ionice -c 2",
    "flock /nowhere/lock",
    "busybox",
    "time",
    "xargs",
    "xargs -n 1",
];

/// What may stand around any code; `@` is the code, and `;` a line's end behind it.
const CONTEXTS: &[&str] = &[
    "( @; )",
    "{ @; }",
    "if true; then @; fi",
    "if @; then ls; fi",
    "if false; then ls; else @; fi",
    "true && { @; }",
    "false || { @; }",
    "for i in 1; do @; done",
    "while true; do @; break; done",
    "until @; do ls; done",
    "case x in x) @; ;; esac",
    "f() { @; }; f",
    "function g { @; }; g",
    "echo $( @; )",
    "echo \"a $( @; ) b\"",
    "{ @; } | cat",
    "true | { @; }",
    "{ @; } &",
    "{ @; } > out",
    "cat <( @; )",
    "X=$( @; )",
    "ls; @; ls",
    "export X=$( @; )",
    "echo ${X:-$( @; )}",
    "[[ -n $( @; ) ]]",
    "echo $(( 1 + $( @; ) ))",
    "trap - EXIT; @",
];

/// What takes code as a word.
const READERS: &[&str] = &[
    "bash -c @",
    "sh -ec @",
    "/bin/bash -c @",
    "bash --norc -c @ name",
    "bash <<< @",
    "eval @",
    "echo @ | bash",
    "printf %s @ | sh",
    "X=@; eval \"$X\"",
    "X=@; bash -c \"$X\"",
    "script -c @ /dev/null",
    "find . -exec sh -c @ \\;",
];

#[derive(Debug, Clone, Copy)]
enum Wrap {
    Prefix(&'static str),
    Context(&'static str),
    Reader(&'static str),
    Heredoc(&'static str),
    Exec,
}

fn wrap() -> impl Strategy<Value = Wrap> {
    prop_oneof![
        4 => select(PREFIXES).prop_map(Wrap::Prefix),
        4 => select(CONTEXTS).prop_map(Wrap::Context),
        3 => select(READERS).prop_map(Wrap::Reader),
        1 => select(&["bash", "sh -s", "cat | bash", "bash -x"][..]).prop_map(Wrap::Heredoc),
        1 => Just(Wrap::Exec),
    ]
}

impl Code {
    fn wrapped(self, wrap: Wrap) -> Self {
        let lines = self.text.ends_with('\n');
        let one = |text: String, simple| Self { text, simple };
        match wrap {
            Wrap::Prefix(prefix) if self.simple => one(format!("{prefix} {}", self.text), true),
            Wrap::Exec if self.simple && !lines => {
                one(format!("find . -exec {} \\;", self.text), true)
            }
            Wrap::Prefix(_) | Wrap::Exec => {
                one(format!("bash -c {}", quoted(&self.text)), true).wrapped(wrap)
            }
            Wrap::Context(context) => {
                // What ends with a here-document ends with its line.
                let context = if lines {
                    context.replace("@;", "@\n")
                } else {
                    context.to_owned()
                };
                one(context.replace('@', &self.text), false)
            }
            Wrap::Reader(reader) => one(
                reader.replace('@', &quoted(&self.text)),
                reader.contains("sh -"),
            ),
            Wrap::Heredoc(reader) => {
                let mark = (0..)
                    .map(|n| format!("E{n}"))
                    .find(|mark| !self.text.contains(mark))
                    .unwrap();
                one(
                    format!("{reader} <<'{mark}'\n{}\n{mark}\n", self.text),
                    false,
                )
            }
        }
    }
}

/// The same word with each character quoted in some way.
fn requoted(word: &str, ways: &[u8]) -> String {
    let quote = |(c, way): (char, &u8)| match way {
        0 => c.to_string(),
        1 => format!("'{c}'"),
        2 => format!("\"{c}\""),
        3 => format!("$'\\x{:02x}'", u32::from(c)),
        4 => format!("\\{c}"),
        5 => format!("\\\n{c}"),
        _ => format!("''{c}"),
    };
    word.chars().zip(ways.iter().cycle()).map(quote).collect()
}

/// Reads it, and fails if that costs too much time of this thread.
fn in_time(line: &str) -> Result<(), TestCaseError> {
    let clock = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    tables();
    let start = clock();
    let _ = read(line);
    let took = clock() - start;
    prop_assert!(took < TIME, "{:?} took {:?}", line, took);
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_wrapped_command_keeps_its_effects(command in command(), wraps in vec(wrap(), 0..5)) {
        let bare = read(command);
        let simple = !command.contains(';');
        let code = Code { text: command.to_owned(), simple };
        let text = wraps.iter().fold(code, |code, wrap| code.wrapped(*wrap)).text;
        let line = read(&text);
        let kept = effects(&bare).is_subset(&effects(&line)) && labels(&bare).is_subset(&labels(&line));
        prop_assert!(kept || is_uncertain(&line), "{}\n{:#?}", text, line);
    }

    #[test]
    fn what_is_only_mentioned_does_nothing(
        command in select(DESTRUCTIVE), wraps in vec(wrap(), 0..3), printer in select(vec!["echo", "echo -n --"]),
    ) {
        let code = Code { text: command.to_owned(), simple: !command.contains(';') };
        let text = wraps.iter().fold(code, |code, wrap| code.wrapped(*wrap)).text;
        let line = read(&format!("{printer} {}", quoted(&text)));
        prop_assert_eq!(effects(&line), Effects::new(), "{}", text);
        prop_assert_eq!(line.commands.len(), 1, "{:#?}", line);
        prop_assert!(!is_uncertain(&line), "{:#?}", line);
    }

    #[test]
    fn quotes_change_nothing(
        words in vec("[a-z./-]{1,8}", 1..4), program in select(vec!["rm", "cat", "cp", "/bin/rm", "touch"]),
        ways in vec(0..7_u8, 1..12),
    ) {
        let words: Vec<&str> = [program].into_iter().chain(words.iter().map(String::as_str)).collect();
        let plain = words.join(" ");
        let odd: Vec<String> = words.iter().map(|word| requoted(word, &ways)).collect();
        let odd = odd.join(" ");
        let (plain, line) = (read(&plain), read(&odd));
        let same = effects(&plain) == effects(&line) && labels(&plain) == labels(&line);
        prop_assert!(same || is_uncertain(&line), "{}\n{:#?}\n{:#?}", odd, plain, line);
    }

    #[test]
    fn no_text_takes_long(text in "[-a-z0-9 /.~$`'\"(){}\\[\\]<>|&;*?!#=\\\\\n\t%@:,^+]{0,300}") {
        in_time(&text)?;
    }

    #[test]
    fn no_soup_of_tokens_takes_long(tokens in vec(select(TOKENS), 0..120)) {
        in_time(&tokens.join(" "))?;
        in_time(&tokens.concat())?;
    }

    #[test]

    fn nothing_repeated_takes_long(tokens in vec(select(TOKENS), 1..5), count in 1..3_000_usize) {
        let text: String = tokens.join(" ").repeat(count).chars().take(10_000).collect();
        // As much stack as the hook has.
        let read = std::thread::Builder::new().stack_size(8 << 20).spawn(move || in_time(&text));
        read.unwrap().join().unwrap()?;
    }

    #[test]
    fn no_characters_panic(text in any::<String>()) {
        in_time(&text)?;
    }
}

const TOKENS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "in", "do", "done", "while", "case", "esac",
    "function", "f()", "f", "{", "}", "(", ")", "((", "))", "[[", "]]", "$(", "$((", "${", "`",
    "'", "\"", "$'", "<(", "<<E", "<<'E'", "\nE\n", "<<<", ">", ">>", "<", "2>&1", "&>", "|", "|&",
    "||", "&&", "&", ";", ";;", "\n", "!", "#", "X=1", "X+=a", "$X", "${X}", "${X:-a}", "${!X}",
    "$@", "$?", "a[0]=1", "{a,b}", "{1..9}", "*", "?", "[a-z]", "**", "~", "/", "..", "-", "--",
    "\\", "\\\n", "rm", "-rf", "bash", "-c", "eval", "xargs", "find", "-exec", "{}", "+", "\\;",
    "cd", "echo", "a", "é", "\u{0}", "export", "declare", "unset", "trap", "source", "time",
];
