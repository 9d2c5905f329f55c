//! A reason or help that suggests what the policies deny.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::json;

use crate::engine::decision::Effect;
use crate::policy::diagnostic::quote;
use crate::policy::{Code, Problem};
use crate::workbench::lint::Rule;
use crate::workbench::lint::desk::{Desk, Subject};
use crate::workbench::scene::Scene;

pub(super) const RULE: Rule = Rule {
    code: Code::SuggestsDenied,
    find,
};

/// What a sentence suggests to do.
#[derive(Debug, PartialEq, Eq)]
enum Suggestion {
    /// To run this.
    Command(String),
    /// To read this.
    Read(String),
    /// To write this.
    Write(String),
}

fn find(desk: &Desk<'_>, found: &mut Vec<Problem>) {
    let programs: BTreeSet<String> = desk
        .bundle
        .settings
        .containment
        .programs
        .all()
        .filter_map(Result::ok)
        .flat_map(|entry| entry.names.clone())
        .collect();
    let mut all: Vec<(&Subject<'_>, &str, Suggestion, Range<usize>)> = Vec::new();
    for subject in &desk.policies {
        for key in ["reason", "help"] {
            let Some((text, _)) = subject.written.annotations.get(key) else {
                continue;
            };
            for (words, suggestion) in suggestions(text, &programs) {
                all.push((subject, key, suggestion, inside(subject, key, &words)));
            }
        }
    }
    if all.is_empty() {
        return;
    }
    let scene = match Scene::new(desk.bundle.clone()) {
        Ok(scene) => scene,
        Err(error) => {
            let text = format!("no suggestion could be judged: {error}");
            return found.push(Problem::warning(Code::SuggestsDenied, text));
        }
    };
    for (subject, key, suggestion, at) in all {
        let (event, text) = match &suggestion {
            Suggestion::Command(line) => (scene.command(line), line),
            Suggestion::Read(path) => (scene.call("view", json!({"path": path})), path),
            Suggestion::Write(path) => {
                let args = json!({"path": path, "file_text": ""});
                (scene.call("create", args), path)
            }
        };
        let outcome = scene.judge(&event).outcome;
        if outcome.effect() != Effect::Deny {
            continue;
        }
        let by = outcome
            .reasons()
            .first()
            .map_or_else(String::new, |reason| {
                let id = reason.id.split_once(':').map_or(&*reason.id, |(_, id)| id);
                match reason.file.is_empty() {
                    true => format!("`{id}`"),
                    false => format!("`{id}` ({}:{})", reason.file, reason.line),
                }
            });
        let text = format!("the {key} suggests `{}`, which {by} denies", quote(text));
        let problem = Problem::warning(Code::SuggestsDenied, text)
            .help("suggest what is allowed, or say that a person does it");
        found.push(problem.at(&subject.written.file, at));
    }
}

/// The place of some words in an annotation.
fn inside(subject: &Subject<'_>, key: &str, words: &str) -> Range<usize> {
    let whole = subject.written.place(key);
    let text = subject
        .written
        .file
        .text
        .get(whole.clone())
        .unwrap_or_default();
    match text.find(words) {
        Some(at) => whole.start + at..whole.start + at + words.len(),
        None => whole,
    }
}

/// Words behind which something to do stands.
const VERBS: [&str; 8] = [
    "use", "run", "try", "call", "type", "execute", "read", "write",
];

/// What a sentence suggests, as it says it. What it leaves to a person is no suggestion, nor is what
/// it warns of.
fn suggestions(text: &str, programs: &BTreeSet<String>) -> Vec<(String, Suggestion)> {
    let mut found = Vec::new();
    for clause in clauses(text) {
        let lower = clause.to_lowercase();
        let for_others = [
            "person",
            "administrator",
            "instead of",
            "not ",
            "never",
            "n't",
        ];
        if for_others.iter().any(|word| lower.contains(word)) {
            continue;
        }
        let mut quoted = false;
        for (piece, in_quotes) in clause.split('`').zip([false, true].into_iter().cycle()) {
            if in_quotes && !piece.contains('{') {
                quoted = true;
                let before = clause.split(piece).next().unwrap_or_default();
                found.extend(read(piece, before, programs).map(|s| (piece.to_owned(), s)));
            }
        }
        if !quoted {
            found.extend(bare(clause, programs));
        }
    }
    found
}

/// The parts of a sentence that stand for themselves: whoever is their subject. Quotes are not taken
/// apart.
fn clauses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        let rest = text.get(at..).unwrap_or_default();
        quoted ^= c == '`';
        let ends = [";", ". ", ", or ", ", else "]
            .iter()
            .any(|end| rest.starts_with(end));
        if ends && !quoted {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at + 1;
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

fn read(piece: &str, before: &str, programs: &BTreeSet<String>) -> Option<Suggestion> {
    let first = piece.split_whitespace().next()?;
    let path = ["/", "~/", "./", "../"]
        .iter()
        .any(|start| piece.starts_with(start));
    if path && first == piece {
        let before = before.to_lowercase();
        let writes = ["write", "save", "put", "create", "into", "copy"];
        let writes = writes.iter().any(|word| before.contains(word));
        return Some(match writes {
            true => Suggestion::Write(piece.to_owned()),
            false => Suggestion::Read(piece.to_owned()),
        });
    }
    let program = first.rsplit('/').next().unwrap_or(first);
    let known = programs.contains(program);
    // A single word is a name, unless the sentence says to run it.
    let run = before
        .trim_end_matches('`')
        .split_whitespace()
        .next_back()
        .is_some_and(|verb| VERBS.contains(&verb.to_lowercase().as_str()));
    (known && (run || first != piece)).then(|| Suggestion::Command(piece.to_owned()))
}

/// `use git push --force`, without quotes.
fn bare(clause: &str, programs: &BTreeSet<String>) -> Option<(String, Suggestion)> {
    let words: Vec<&str> = clause.split_whitespace().collect();
    let verb = words
        .iter()
        .position(|word| VERBS.contains(&word.to_lowercase().as_str()))?;
    let rest = words.get(verb + 1..)?;
    let line = rest
        .iter()
        .take_while(|word| !["instead", "or", "and", "to", "for", "if", "then"].contains(word))
        .copied()
        .collect::<Vec<_>>()
        .join(" ");
    let line = line.trim_end_matches(['.', '!', '"']).to_owned();
    let first = line.split(' ').next().unwrap_or_default();
    // An ordinary word may be a program's name too: only one with more behind it is meant.
    let meant = programs.contains(first) && line.contains(' ');
    meant.then(|| (line.clone(), Suggestion::Command(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_suggested_is_read() {
        let programs = ["git", "curl", "sudo", "file"].map(str::to_owned).into();
        let found = |text| -> Vec<Suggestion> {
            suggestions(text, &programs)
                .into_iter()
                .map(|(_, s)| s)
                .collect()
        };
        let command = |line: &str| vec![Suggestion::Command(line.to_owned())];
        assert_eq!(found("use `git push --force`"), command("git push --force"));
        assert_eq!(
            found("run sudo make install instead"),
            command("sudo make install")
        );
        assert_eq!(found("run `sudo`"), command("sudo"));
        assert_eq!(
            found("save it to `/etc/motd`"),
            [Suggestion::Write("/etc/motd".into())]
        );
        assert_eq!(
            found("see `~/.ssh/id`"),
            [Suggestion::Read("~/.ssh/id".into())]
        );
        for nothing in [
            "a person runs `sudo make install`",
            "a person does it: `git push` for branches, `curl x` for files",
            "approve it, or let a person run `sudo make`",
            "do not use `curl x | sh`",
            "`{resource}` holds credentials",
            "add an `unless` to this policy",
            "the limit is `limits.depth`",
            "use a git command",
            "read the file that is meant",
            "`git` is governed",
        ] {
            assert_eq!(found(nothing), [], "{nothing}");
        }
    }
}
