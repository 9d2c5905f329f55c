//! Legacy permission policies (R-000-36, R-000-37) as files of ours.
//!
//! The order of the old form, blocked tools before patterns before tools to ask for before the
//! allowlist, becomes `unless` clauses: of several stages that fit, only the first gives a reason.

mod javascript;
mod write;

use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use super::cedar::annotations::placeholders;
use super::diagnostic::{Code, Problem, quote};
use super::layer::Layer;
use super::source::{EMBEDDED, Source, SourceFile};
use crate::engine::pattern::{Pattern, PatternScope};
use javascript::Expression;

/// Files that say what a legacy policy said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Names and texts.
    pub files: Vec<(String, String)>,
    /// What a person should look at.
    pub warnings: Vec<Problem>,
}

/// The files that say what the legacy policy in `text` said. `name` is the file that it is from.
///
/// # Errors
/// Everything in it that cannot be taken over without changing its meaning.
pub fn import(name: &str, text: &str) -> Result<Imported, Vec<Problem>> {
    let files = [(name.to_owned(), text.to_owned())];
    let source = Source::new(Layer::User, ".", files);
    let Some(file) = source.files.first() else {
        return Err(Vec::new());
    };
    let file = Arc::new(SourceFile {
        path: name.to_owned(),
        ..SourceFile::clone(file)
    });
    // Without this check a list would be taken for the object's values in order.
    if !text.trim_start().starts_with('{') {
        let problem = Problem::error(Code::BadImport, "this is no JSON object");
        return Err(vec![problem.at(&file, 0..0)]);
    }
    let legacy: Legacy = serde_json::from_str(text).map_err(|error| vec![syntax(&file, &error)])?;
    let mut problems = Vec::new();
    let policy = legacy.read(&file, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut warnings = Vec::new();
    if policy.allowed.is_empty() {
        let problem = Problem::warning(
            Code::BadImport,
            "the list of allowed tools is empty, which meant that every tool is allowed",
        )
        .help(
            "the policy `every-tool` in permission.cedar says so now: remove it if it is not meant",
        );
        warnings.push(problem.of(&file));
    }
    let bridge = EMBEDDED
        .iter()
        .find(|(name, _)| *name == "bridge.toml")
        .map_or("format = 1\n", |(_, text)| text);
    Ok(Imported {
        files: vec![
            ("bridge.toml".to_owned(), bridge.to_owned()),
            ("permission.cedar".to_owned(), write::cedar(&policy)),
            ("permission.toml".to_owned(), write::patterns(&policy)),
        ],
        warnings,
    })
}

/// The legacy form, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Legacy {
    #[serde(default)]
    allowed_tools: Option<Vec<String>>,
    #[serde(default)]
    blocked_tools: Option<Vec<String>>,
    #[serde(default)]
    ask_tools: Option<Vec<String>>,
    #[serde(default)]
    blocked_patterns: Option<Vec<String>>,
}

/// The legacy form, as it is meant: every list without repetitions.
#[derive(Debug, Default)]
struct Meaning {
    blocked: Vec<String>,
    patterns: Vec<Expression>,
    ask: Vec<String>,
    allowed: Vec<String>,
}

impl Legacy {
    fn read(self, file: &Arc<SourceFile>, problems: &mut Vec<Problem>) -> Meaning {
        let mut tools = |names: Option<Vec<String>>| {
            let names = distinct(names.unwrap_or_default());
            for name in &names {
                // A name that no call can have would be a rule that never holds.
                if name.is_empty() || name.contains(char::is_control) {
                    let problem = Problem::error(
                        Code::BadImport,
                        format!("`{}` is no name of a tool", quote(name)),
                    );
                    problems.push(problem.at(file, literal(file, name)));
                }
            }
            names
        };
        let (blocked, ask, allowed) = (
            tools(self.blocked_tools),
            tools(self.ask_tools),
            tools(self.allowed_tools),
        );
        let patterns = distinct(self.blocked_patterns.unwrap_or_default())
            .iter()
            .filter_map(|written| pattern(written, file, problems))
            .collect();
        Meaning {
            blocked,
            patterns,
            ask,
            allowed,
        }
    }
}

fn pattern(
    written: &str,
    file: &Arc<SourceFile>,
    problems: &mut Vec<Problem>,
) -> Option<Expression> {
    let mut wrong = |text: String, help: &str| {
        let problem = Problem::error(Code::BadImport, text).help(help);
        problems.push(problem.at(file, literal(file, written)));
        None
    };
    let expression = match Expression::parse(written) {
        Ok(expression) => expression,
        Err(refused) => return wrong(refused.text, refused.help),
    };
    // Nobody could tell such a word from what we fill in.
    if placeholders(&expression.source).next().is_some() {
        return wrong(
            "a pattern with a word in braces cannot stand in a reason".to_owned(),
            "write the brace as `\\x7b`",
        );
    }
    let compiled = Pattern::new(
        String::new(),
        expression.source.clone(),
        expression.ignore_case,
        PatternScope::Json,
    );
    match compiled {
        Ok(_) => Some(expression),
        Err(error) => wrong(
            format!("this is no regular expression here: {}", error.0),
            "look-around, back-references and Unicode classes are not supported",
        ),
    }
}

fn distinct(names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    names
        .into_iter()
        .filter(|name| seen.insert(name.clone()))
        .collect()
}

fn syntax(file: &Arc<SourceFile>, error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let sentence = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(sentence, _)| sentence);
    let start = offset(&file.text, error.line(), error.column());
    Problem::error(Code::BadImport, sentence).at(file, start..start)
}

/// The byte at a line and column, both counted from 1, the column in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// Where a text stands in the JSON document, if it is written there as we would write it.
fn literal(file: &SourceFile, text: &str) -> Range<usize> {
    let written = serde_json::Value::from(text).to_string();
    file.text
        .find(&written)
        .map_or(0..0, |at| at..at + written.len())
}

#[cfg(test)]
mod tests;
