//! Policies with proposals written into them, with everything around left as it was.

use serde::Deserialize;
use toml::Spanned;

use super::need::{EVERYDAY, Exempt};
use crate::engine::bundle::Policy;
use crate::policy::source::Source;

/// The file of the tables.
pub(super) const TABLES: &str = "containment.toml";

/// The texts of one layer, being changed.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    base: Source,
    /// Where a policy ends, and what is put before that, by file.
    clauses: Vec<(String, usize, String)>,
    rows: String,
    read: Vec<String>,
    write: Vec<String>,
}

#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    label: Vec<Label>,
}

#[derive(Deserialize)]
struct Label {
    name: String,
    paths: Spanned<Vec<String>>,
}

impl Draft {
    /// A draft of that layer.
    #[must_use]
    pub(super) const fn of(base: Source) -> Self {
        Self {
            base,
            clauses: Vec::new(),
            rows: String::new(),
            read: Vec::new(),
            write: Vec::new(),
        }
    }

    /// Whether the layer has tables to write into.
    #[must_use]
    pub(super) fn has_tables(&self) -> bool {
        self.base.file(TABLES).is_some()
    }

    /// Whether a policy stands in a file of the layer.
    #[must_use]
    pub(super) fn has_policy(&self, policy: &Policy) -> bool {
        self.end_of(policy).is_some()
    }

    /// A program more that may run: with these subcommands, or whatever follows it if there are none.
    pub(super) fn program(&mut self, remark: &str, program: &str, subcommands: &[&str]) {
        let remark = comment(remark, "# ");
        let subcommands = match subcommands {
            [] => String::new(),
            words => format!("subcommands = [{}]\n", list(words)),
        };
        self.rows.push_str(&format!(
            "\n{remark}[[program]]\nnames = [{}]\n{subcommands}labels = [\"{EVERYDAY}\"]\n",
            quoted(program)
        ));
    }

    /// A root more.
    pub(super) fn root(&mut self, remark: &str, write: bool, folder: &str) {
        let lines: String = comment(remark, "    # ");
        let entry = format!("{lines}    {},\n", quoted(folder));
        if write {
            self.write.push(entry);
        } else {
            self.read.push(entry);
        }
    }

    /// What a policy lets through besides: several tools of one server are one clause.
    pub(super) fn unless(&mut self, remark: &str, policy: &Policy, what: &[Exempt]) {
        let Some((file, end)) = self.end_of(policy) else {
            return;
        };
        let mut hosts = Vec::new();
        let mut parts = Vec::new();
        for one in what {
            match one {
                Exempt::Host(host) => hosts.push(host.as_str()),
                Exempt::Tool { server, name } => parts.push(format!(
                    "(resource is Bridge::Tool && resource.server == {} && resource.name == {})",
                    quoted(server),
                    quoted(name)
                )),
            }
        }
        if !hosts.is_empty() {
            parts.push(format!(
                "(resource is Bridge::Url && resource.scheme == \"https\" && resource.port == 443 &&\n   [{}].contains(resource.host))",
                list(&hosts)
            ));
        }
        let remark = comment(remark, "// ");
        let clause = format!("\n{remark}unless {{\n  {}\n}}", parts.join(" ||\n  "));
        self.clauses.push((file, end, clause));
    }

    /// The layer with all of it.
    #[must_use]
    pub(super) fn source(&self) -> Source {
        let files = self.base.files.iter().map(|file| {
            let mut text = file.text.clone();
            let mut clauses: Vec<_> = self
                .clauses
                .iter()
                .filter(|(name, ..)| *name == file.name)
                .collect();
            // From behind, so that the places stay what they are.
            clauses.sort_by_key(|(_, end, _)| std::cmp::Reverse(*end));
            for (_, end, clause) in clauses {
                if text.is_char_boundary(*end) {
                    text.insert_str(*end, clause);
                }
            }
            if file.name == TABLES {
                text = self.tables(&text);
            }
            (file.name.clone(), text)
        });
        Source::new(self.base.layer, self.base.dir.clone(), files)
    }

    fn tables(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, entries) in [("root_write", &self.write), ("root_read", &self.read)] {
            if entries.is_empty() {
                continue;
            }
            let tables = toml::from_str::<Tables>(&text);
            let found = tables.ok().and_then(|tables| {
                let label = tables.label.into_iter().find(|label| label.name == name)?;
                Some(label.paths.span())
            });
            let entries = entries.concat();
            match found.and_then(|span| Some((text.get(span.clone())?.to_owned(), span))) {
                Some((array, span)) => {
                    let inner = array.trim_start_matches('[').trim_end_matches(']').trim();
                    let kept = match inner {
                        "" => String::new(),
                        kept => format!("    {},\n", kept.trim_end_matches(',')),
                    };
                    text.replace_range(span, &format!("[\n{kept}{entries}]"));
                }
                None => text.push_str(&format!(
                    "\n[[label]]\nname = \"{name}\"\npaths = [\n{entries}]\n"
                )),
            }
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text + &self.rows
    }

    /// The file that a policy stands in, and the place of the `;` that ends it.
    fn end_of(&self, policy: &Policy) -> Option<(String, usize)> {
        let file = self
            .base
            .files
            .iter()
            .find(|file| file.path == policy.file)?;
        let line = usize::try_from(policy.line).ok()?.checked_sub(1)?;
        let start: usize = file
            .text
            .split_inclusive('\n')
            .take(line)
            .map(str::len)
            .sum();
        let end = start + end_of_statement(file.text.get(start..)?)?;
        Some((file.name.clone(), end))
    }
}

/// Where the first `;` stands that is in no text and no comment.
fn end_of_statement(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        match character {
            ';' => return Some(place),
            '"' => {
                while let Some((_, inner)) = characters.next() {
                    match inner {
                        '\\' => {
                            characters.next();
                        }
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if characters.peek().is_some_and(|(_, next)| *next == '/') => {
                characters.by_ref().find(|(_, inner)| *inner == '\n');
            }
            _ => {}
        }
    }
    None
}

/// A text as TOML and Cedar both quote it: whoever comes here brings plain words and paths.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn list(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(", ")
}

fn comment(text: &str, mark: &str) -> String {
    text.lines()
        .map(|line| format!("{mark}{}\n", line.replace(char::is_control, "\u{fffd}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Layer, check_sources, layer};

    #[test]
    fn a_statement_ends_outside_of_texts_and_comments() {
        for (text, end) in [
            ("permit(a);", Some(9)),
            ("@reason(\"a;\\\"b;\") x;", Some(19)),
            ("// no; end\nx;", Some(12)),
            ("x", None),
        ] {
            assert_eq!(end_of_statement(text), end, "{text}");
        }
    }

    #[test]
    fn what_is_written_passes_the_check() {
        let bundle = crate::policy::load_sources(&[layer::embedded()]).unwrap();
        let policy = |id: &str| bundle.policies.iter().find(|one| one.id == id).unwrap();
        let mut draft = Draft::of(layer::embedded());
        draft.program("seen 3 times\nby `x\ty`", "mytool", &["build", "test"]);
        draft.program("seen", "other", &[]);
        draft.root("seen", false, "/srv/data");
        draft.root("seen", true, "/srv/out");
        let hosts = [Exempt::Host("docs.rs".to_owned())];
        draft.unless("seen", policy("default:ask-network"), &hosts);
        let tool = |name: &str| Exempt::Tool {
            server: "github".to_owned(),
            name: name.to_owned(),
        };
        draft.unless("seen", policy("default:ask-mcp"), &[tool("a"), tool("b")]);
        let source = draft.source();
        let checked = check_sources(std::slice::from_ref(&source));
        let lines: Vec<_> = checked.problems.iter().map(|one| one.one_line()).collect();
        assert_eq!(lines, [""; 0]);
        let tables = &source.file(TABLES).unwrap().text;
        assert!(tables.contains("paths = [\n    # seen\n    \"/srv/data\",\n]"));
        // Nothing is lost.
        assert_eq!(
            checked.bundle.unwrap().policies.len(),
            bundle.policies.len()
        );
    }

    #[test]
    fn roots_that_are_there_stay() {
        let text = "format = 1\n[[label]]\nname = \"root_read\"\npaths = [\"/a/b\", \"/c/d\"]\n";
        let files = [(TABLES.to_owned(), text.to_owned())];
        let mut draft = Draft::of(Source::new(Layer::User, "p", files));
        draft.root("why", false, "/e/f");
        draft.root("why", true, "/g/h");
        let source = draft.source();
        let text = &source.file(TABLES).unwrap().text;
        assert!(
            text.contains("    \"/a/b\", \"/c/d\",\n    # why\n    \"/e/f\",\n]"),
            "{text}"
        );
        assert!(text.contains("name = \"root_write\"\npaths = [\n    # why\n    \"/g/h\",\n]"));
    }
}
