//! Redirections: what a command reads and what it writes.

use std::path::PathBuf;

use super::Access;
use super::state::{Arg, Input, Origin, State};
use super::syntax::At;
use super::walk::{Walker, is_word};

impl Walker<'_> {
    /// The redirections of a command: what it reads becomes its input; what it writes is returned.
    pub(super) fn redirects(
        &mut self,
        redirects: &[At<'_>],
        state: &mut State,
        input: &mut Input,
    ) -> Vec<PathBuf> {
        let mut outputs = Vec::new();
        for redirect in redirects {
            match redirect.kind() {
                "file_redirect" => self.file_redirect(*redirect, state, input, &mut outputs),
                "heredoc_redirect" => {
                    let body = redirect
                        .named()
                        .into_iter()
                        .find(|c| c.kind() == "heredoc_body");
                    let quoted = redirect.named().iter().any(|c| {
                        c.kind() == "heredoc_start" && c.text().contains(['\'', '"', '\\'])
                    });
                    let text = body.map(|body| body.text().to_owned()).unwrap_or_default();
                    let start = redirect
                        .named()
                        .into_iter()
                        .find(|c| c.kind() == "heredoc_start");
                    if start.is_some_and(|start| !start.text().is_ascii()) {
                        self.uncertain("the end of a here-document cannot be told");
                    }
                    let mut open = false;
                    if let Some(body) = body.filter(|_| !quoted) {
                        open = body
                            .named()
                            .iter()
                            .any(|part| part.kind() != "heredoc_content");
                        self.look_inside(body, state);
                        open |= self.backquoted(body.text(), state);
                    }
                    let origin = if open { Origin::Unknown } else { Origin::Here };
                    *input = Input {
                        present: true,
                        text: (!open).then_some(text),
                        origin,
                        lists: None,
                    };
                    for inner in redirect.fields("redirect") {
                        self.file_redirect(inner, state, input, &mut outputs);
                    }
                }
                "herestring_redirect" => {
                    let words: Vec<Arg> = redirect
                        .named()
                        .into_iter()
                        .flat_map(|word| self.words(word, state))
                        .collect();
                    let known = words.iter().all(|word| word.known);
                    let text = words.iter().map(|word| word.text.as_str());
                    *input = Input {
                        present: true,
                        text: known.then(|| text.collect::<Vec<_>>().join(" ")),
                        origin: words
                            .iter()
                            .map(|word| word.origin)
                            .max()
                            .unwrap_or_default(),
                        lists: None,
                    };
                }
                _ => self.uncertain("a redirection is not understood"),
            }
        }
        outputs
    }

    pub(super) fn file_redirect(
        &mut self,
        at: At<'_>,
        state: &mut State,
        input: &mut Input,
        outputs: &mut Vec<PathBuf>,
    ) {
        let sign = at
            .children()
            .into_iter()
            .find(|child| !child.is_named())
            .map_or("", At::kind);
        let targets: Vec<Arg> = at
            .fields("destination")
            .into_iter()
            .flat_map(|word| self.words(word, state))
            .collect();
        for target in targets {
            let joined = matches!(sign, ">&" | "<&" | ">&-" | "<&-");
            if joined && target.known && target.text.chars().all(|c| c.is_ascii_digit() || c == '-')
            {
                continue;
            }
            let reads = matches!(sign, "<" | "<&");
            if target.pipe {
                if reads {
                    *input = Input {
                        present: true,
                        origin: target.origin,
                        ..Input::default()
                    };
                }
                continue;
            }
            if !target.known {
                self.uncertain("where it is redirected to cannot be told");
                if target.text.is_empty() {
                    continue;
                }
            }
            if reads {
                *input = Input {
                    present: true,
                    origin: Origin::Unknown,
                    ..Input::default()
                };
                self.path(Access::Read, &target, state);
            } else {
                self.path(Access::Write, &target, state);
                outputs.extend(self.places(&target, state));
            }
        }
    }

    /// Runs what stands in backquotes, which the grammar does not see in a here-document. Whether
    /// there was anything.
    fn backquoted(&mut self, text: &str, state: &State) -> bool {
        let mut parts = vec![String::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (c, parts.last_mut()) {
                ('\\', Some(part)) => part.extend(chars.next()),
                ('`', _) => parts.push(String::new()),
                (c, Some(part)) => part.push(c),
                _ => {}
            }
        }
        if parts.len().is_multiple_of(2) {
            self.uncertain("its syntax is not understood");
        }
        for part in parts.iter().skip(1).step_by(2) {
            self.code(part, &mut state.clone(), &Input::default());
        }
        parts.len() > 1
    }

    /// Remembers where the content of the files comes from that a command wrote.
    pub(super) fn write_outputs(&mut self, outputs: &[PathBuf], origin: Origin) {
        for path in outputs {
            let known = self.written.entry(path.clone()).or_default();
            *known = origin.max(*known);
        }
    }

    /// What the grammar hangs below a here-document: the rest of the line.
    pub(super) fn behind_heredoc(
        &mut self,
        redirects: &[At<'_>],
        origin: Origin,
        state: &mut State,
    ) {
        for redirect in redirects.iter().filter(|r| r.kind() == "heredoc_redirect") {
            for part in redirect.named() {
                match part.kind() {
                    "heredoc_start"
                    | "heredoc_body"
                    | "heredoc_end"
                    | "file_redirect"
                    | "herestring_redirect"
                    | "heredoc_redirect"
                    | "file_descriptor" => {}
                    // An argument of the command itself, which `simple` took.
                    kind if is_word(kind) => {}
                    "pipeline" => {
                        let input = Input {
                            present: true,
                            origin,
                            ..Input::default()
                        };
                        self.pipeline(&part.named(), state, &input);
                    }
                    _ => {
                        let input = Input {
                            present: true,
                            origin: Origin::Unknown,
                            ..Input::default()
                        };
                        self.perhaps(&[part], state, &input);
                    }
                }
            }
        }
    }
}
