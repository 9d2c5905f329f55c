//! Comments that silence a rule where something is meant: `// lint: ignore[rule] why`.
//!
//! In a Cedar file one holds for the policy that it stands above or in; in a TOML file for its own
//! line, for the next one, or for the whole table whose header that is.

use std::ops::Range;
use std::sync::Arc;

use super::rules;
use crate::policy::diagnostic::{quote, suggest};
use crate::policy::{Code, Problem, Reading, SourceFile};

/// What a comment starts with.
const MARK: &str = "lint: ignore[";

/// One comment.
struct Ignore {
    file: Arc<SourceFile>,
    span: Range<usize>,
    code: Code,
    /// Where it holds.
    covers: Range<usize>,
    used: bool,
}

/// The findings that no comment silences, and what is wrong with the comments.
pub(super) fn apply(reading: &Reading, found: Vec<Problem>) -> Vec<Problem> {
    let mut kept = Vec::new();
    let mut ignores = Vec::new();
    for file in reading.sources.iter().flat_map(|source| &source.files) {
        // A file without the mark, as most are, is not looked at any further.
        if !file.text.contains(MARK) {
            continue;
        }
        for comment in comments(&file.text, file.name.ends_with(".cedar")) {
            read(reading, file, comment, &mut ignores, &mut kept);
        }
    }
    for problem in found {
        let silenced = ignores.iter_mut().find(|ignore| {
            ignore.code == problem.code
                && problem.file.as_ref() == Some(&ignore.file)
                && problem
                    .span
                    .as_ref()
                    .is_some_and(|at| ignore.covers.contains(&at.start))
        });
        match silenced {
            Some(ignore) => ignore.used = true,
            None => kept.push(problem),
        }
    }
    for ignore in ignores.into_iter().filter(|ignore| !ignore.used) {
        let text = format!("`{}` finds nothing here", ignore.code.name());
        let problem = Problem::warning(Code::UnusedIgnore, text).help("remove the comment");
        kept.push(problem.at(&ignore.file, ignore.span));
    }
    kept
}

fn read(
    reading: &Reading,
    file: &Arc<SourceFile>,
    comment: Range<usize>,
    ignores: &mut Vec<Ignore>,
    kept: &mut Vec<Problem>,
) {
    let text = file.text.get(comment.clone()).unwrap_or_default();
    let Some(rest) = text
        .trim_start_matches(['/', '#', ' ', '\t'])
        .strip_prefix(MARK)
    else {
        return;
    };
    let mut bad = |message: String, help: String| {
        let problem = Problem::warning(Code::BadIgnore, message).help(help);
        kept.push(problem.at(file, comment.clone()));
    };
    let Some((names, reason)) = rest.split_once(']') else {
        return bad(
            "the bracket is not closed".to_owned(),
            "write `lint: ignore[rule] why it is meant`".to_owned(),
        );
    };
    if reason.trim().chars().filter(|c| c.is_alphabetic()).count() < 3 {
        return bad(
            "this comment does not say why".to_owned(),
            "write the reason behind the bracket".to_owned(),
        );
    }
    for name in names.split(',').map(str::trim) {
        let Some(rule) = rules::ALL.iter().find(|rule| rule.code.name() == name) else {
            let known = rules::ALL.iter().map(|rule| rule.code.name());
            bad(
                format!("there is no rule `{}`", quote(name)),
                suggest(name, known)
                    .unwrap_or_else(|| "`policy lint --explain all` lists them".to_owned()),
            );
            continue;
        };
        ignores.push(Ignore {
            file: Arc::clone(file),
            span: comment.clone(),
            code: rule.code,
            covers: covers(reading, file, &comment),
            used: false,
        });
    }
}

/// Where a comment holds.
fn covers(reading: &Reading, file: &Arc<SourceFile>, comment: &Range<usize>) -> Range<usize> {
    if file.name.ends_with(".cedar") {
        return reading
            .policies
            .iter()
            .filter(|policy| policy.file == *file && policy.span.end > comment.start)
            .map(|policy| policy.span.clone())
            .min_by_key(|span| span.start)
            .unwrap_or(comment.clone());
    }
    let before = file.text.get(..comment.start).unwrap_or_default();
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let alone = before
        .get(line..)
        .is_some_and(|text| text.trim().is_empty());
    if !alone {
        return line..comment.end;
    }
    let mut at = comment.end;
    let mut covered: Option<(Range<usize>, bool)> = None;
    for text in file
        .text
        .get(at..)
        .unwrap_or_default()
        .split_inclusive('\n')
    {
        let here = at..at + text.len();
        at = here.end;
        let word = text.trim();
        match &mut covered {
            None if word.is_empty() || word.starts_with('#') => {}
            None => covered = Some((here, word.starts_with('['))),
            // A table goes on to the next header, or to an empty line.
            Some((all, true)) if !word.is_empty() && !word.starts_with('[') => all.end = here.end,
            Some(_) => break,
        }
    }
    covered.map_or(comment.clone(), |(all, _)| all)
}

/// The comments of a file, without what looks like one in a text.
fn comments(text: &str, cedar: bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let comment = if cedar {
            rest.starts_with("//")
        } else {
            rest.starts_with('#')
        };
        if comment {
            let end = rest.find('\n').map_or(text.len(), |end| at + end);
            found.push(at..end);
            at = end;
            continue;
        }
        let quotes: &[&str] = if cedar {
            &["\""]
        } else {
            &["\"\"\"", "'''", "\"", "'"]
        };
        if let Some(quote) = quotes.iter().find(|quote| rest.starts_with(**quote)) {
            at = closed(text, at + quote.len(), quote);
            continue;
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    found
}

/// Behind the end of a text that starts there.
fn closed(text: &str, start: usize, quote: &str) -> usize {
    let mut at = start;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(quote) {
            return at + quote.len();
        }
        let mut next = rest.chars();
        let c = next.next();
        at += c.map_or(1, char::len_utf8);
        if c == Some('\\') && quote.starts_with('"') {
            at += next.next().map_or(0, char::len_utf8);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_outside_of_texts_only() {
        let texts = |text: &'static str, cedar| {
            comments(text, cedar)
                .into_iter()
                .map(|at| text.get(at).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            texts("a // b\n\"// c \\\" // d\" // e", true),
            ["// b", "// e"]
        );
        assert_eq!(
            texts(
                "a = '#' # b\nc = \"\"\"\n# d\n\"\"\" # e\nf = '''\n# g''' # ü",
                false
            ),
            ["# b", "# e", "# ü"]
        );
    }
}
