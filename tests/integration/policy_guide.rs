//! docs/policy-guide.md: its files are written and its commands run, in their order.
//!
//! Below a command stands what it answers; `…` is anything. A block of another language names the
//! file that it goes into.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use rexpect::session::spawn_command;

use super::program::binary;

const PASSPHRASE: &str = "made up for the guide";

/// The day on the page until which the exception holds; it is moved, so that it is always ahead.
const DAY: &str = "2026-12-31";

struct Practice {
    folder: tempfile::TempDir,
}

#[test]
fn every_command_of_the_guide_answers_as_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/policy-guide.md");
    let page = fs::read_to_string(page).unwrap();
    let practice = Practice::new();
    let mut commands = 0;
    for (language, text) in blocks(&page) {
        match language.split_once(' ') {
            Some((_, file)) => practice.write(file, &text),
            None if language == "console" => {
                for step in format!("\n{text}").split("\n$ ").skip(1) {
                    commands += 1;
                    practice.step(step);
                }
            }
            None => panic!("what is a block of `{language}` for?"),
        }
    }
    assert!(commands > 35, "{commands}");
}

impl Practice {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(binary(), bin.join("copilot-bridge")).unwrap();
        fs::create_dir(folder.path().join("practice")).unwrap();
        Self { folder }
    }

    fn write(&self, file: &str, text: &str) {
        let soon = jiff::Zoned::now().date() + jiff::ToSpan::days(30);
        let path = self.folder.path().join("practice").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace(DAY, &soon.to_string())).unwrap();
    }

    /// Runs one command, and holds its answer against the page.
    fn step(&self, step: &str) {
        let (line, expected) = step.split_once('\n').unwrap_or((step, ""));
        let expected: Vec<&str> = expected.lines().collect();
        let code = expected.iter().find_map(|line| {
            let code = line.strip_prefix("[exit ")?.strip_suffix(']')?;
            Some(code.parse().unwrap())
        });
        let asks = expected
            .iter()
            .filter(|line| line.starts_with("passphrase of "))
            .count();
        let (got, text) = match asks {
            0 => self.run(line),
            asks => self.type_passphrase(line, asks),
        };
        assert_eq!(got, code.unwrap_or(0), "$ {line}\n{text}");
        let expected: Vec<&str> = expected
            .into_iter()
            .filter(|line| !line.starts_with("[exit ") && !line.starts_with("passphrase of "))
            .collect();
        assert!(
            answers(&expected, &text),
            "$ {line}\n{text}\n---- on the page:\n{}",
            expected.join("\n")
        );
    }

    fn run(&self, line: &str) -> (i32, String) {
        let output = self
            .shell(&format!("exec 2>&1\n{line}"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text)
    }

    fn type_passphrase(&self, line: &str, asks: usize) -> (i32, String) {
        let mut terminal = spawn_command(self.shell(line), Some(60_000)).unwrap();
        for _ in 0..asks {
            terminal.exp_string("passphrase of ").unwrap();
            terminal.exp_string(": ").unwrap();
            terminal.send_line(PASSPHRASE).unwrap();
        }
        let text = terminal.exp_eof().unwrap();
        match terminal.process().wait().unwrap() {
            rexpect::process::WaitStatus::Exited(_, code) => (code, text),
            other => panic!("{other:?}"),
        }
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        let path = std::env::var("PATH").unwrap();
        let bin = self.folder.path().join("bin");
        command
            .args(["-c", line])
            .current_dir(self.folder.path().join("practice"))
            .env_clear()
            .env("PATH", format!("{}:{path}", bin.display()));
        command
    }
}

/// Whether the lines of the page are those of the answer; `…` is anything, within a line or over lines.
fn answers(page: &[&str], text: &str) -> bool {
    let pattern: Vec<String> = page
        .iter()
        .map(|line| match line.trim() {
            "…" => "(?s:.*?)".to_owned(),
            line => format!(r"\s*{}\s*?\n", regex::escape(line).replace('…', "[^\n]*")),
        })
        .collect();
    let pattern = format!(r"^{}\s*$", pattern.concat());
    let text = format!("{}\n", text.replace('\r', ""));
    regex::Regex::new(&pattern).unwrap().is_match(&text)
}

fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                open = Some((language.to_string(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, block)) = &mut open {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => found.extend(open.take()),
            _ => {}
        }
    }
    found
}
