//! Patterns over text, compiled only where one of their literals occurs.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::literal::Extractor;
use serde::{Deserialize, Serialize};

/// A regular expression of a policy file, with what is needed not to compile it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// The id that policies name: `context.patterns.contains("id")`.
    pub id: String,
    /// The expression, in the syntax of the regex crate, without Unicode classes.
    pub source: String,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// What it is matched against.
    pub scope: PatternScope,
    /// Lower-case texts, one of which every match contains; empty if there are none.
    pub literals: Vec<String>,
}

/// What a pattern is matched against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternScope {
    /// Each text in the arguments, decoded.
    #[default]
    Values,
    /// The arguments as one line of JSON: what the legacy policy form did (R-000-37).
    Json,
}

/// An expression that does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError(pub String);

/// More compiled code than this is a defect of the pattern, not a need.
const SIZE_LIMIT: usize = 1 << 20;

/// Looking for a literal in a longer text, in bytes, costs more than compiling the pattern.
const LONG: usize = 32 << 10;

/// Required texts shorter than this would wake the pattern in every text.
const LITERAL_MIN: usize = 2;

impl Pattern {
    /// A pattern whose expression is known to compile.
    ///
    /// # Errors
    /// If the expression does not compile, or would need more than 1 MiB.
    pub fn new(
        id: String,
        source: String,
        ignore_case: bool,
        scope: PatternScope,
    ) -> Result<Self, PatternError> {
        compile(&source, ignore_case)?;
        let literals = required_literals(&source, ignore_case);
        Ok(Self {
            id,
            source,
            ignore_case,
            scope,
            literals,
        })
    }

    /// Whether the text matches.
    ///
    /// # Errors
    /// If the expression does not compile, which [`Pattern::new`] excluded.
    pub fn matches(&self, text: &str) -> Result<bool, PatternError> {
        if !self.is_awake(text) {
            return Ok(false);
        }
        Ok(compile(&self.source, self.ignore_case)?.is_match(text.as_bytes()))
    }

    fn is_awake(&self, text: &str) -> bool {
        // In a long text the compiled pattern finds its literals faster than this does.
        self.literals.is_empty()
            || text.len() > LONG
            || self
                .literals
                .iter()
                .any(|literal| contains_ignore_case(text, literal))
    }
}

fn compile(source: &str, ignore_case: bool) -> Result<Regex, PatternError> {
    RegexBuilder::new(source)
        .unicode(false)
        .case_insensitive(ignore_case)
        .size_limit(SIZE_LIMIT)
        .build()
        .map_err(|error| PatternError(one_line(&error.to_string())))
}

/// The last line of the regex crate's message: its sentence, without the drawing above it.
fn one_line(message: &str) -> String {
    let sentence = message.lines().last().unwrap_or(message).trim();
    let sentence = sentence.strip_prefix("error: ").unwrap_or(sentence);
    sentence.to_owned()
}

fn required_literals(source: &str, ignore_case: bool) -> Vec<String> {
    let parsed = regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(ignore_case)
        .build()
        .parse(source);
    let Ok(hir) = parsed else {
        return Vec::new();
    };
    // A class in front hides a prefix: `\s+rm` has none, but its inner literal is required too.
    best_literals(&hir).unwrap_or_default()
}

fn best_literals(hir: &regex_syntax::hir::Hir) -> Option<Vec<String>> {
    use regex_syntax::hir::HirKind;
    let own = finite_prefixes(hir);
    let inner = match hir.kind() {
        HirKind::Concat(parts) => parts
            .iter()
            .filter_map(best_literals)
            .max_by_key(|literals| shortest(literals)),
        HirKind::Capture(capture) => best_literals(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => best_literals(&repetition.sub),
        HirKind::Alternation(parts) => parts
            .iter()
            .map(best_literals)
            .collect::<Option<Vec<_>>>()
            .map(|all| all.concat()),
        _ => None,
    };
    [own, inner]
        .into_iter()
        .flatten()
        .filter(|literals| !literals.is_empty() && shortest(literals) >= LITERAL_MIN)
        .max_by_key(|literals| shortest(literals))
}

fn finite_prefixes(hir: &regex_syntax::hir::Hir) -> Option<Vec<String>> {
    let literals = Extractor::new().extract(hir);
    literals
        .literals()?
        .iter()
        .map(|literal| {
            std::str::from_utf8(literal.as_bytes())
                .ok()
                .map(str::to_ascii_lowercase)
        })
        .collect()
}

fn shortest(literals: &[String]) -> usize {
    literals.iter().map(String::len).min().unwrap_or(0)
}

/// Whether `text` contains the lower-case `needle`, upper and lower ASCII letters being the same.
pub(crate) fn contains_ignore_case(text: &str, needle: &str) -> bool {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    needle.is_empty()
        || text
            .windows(needle.len())
            .any(|window| window.eq_ignore_ascii_case(needle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(source: &str, ignore_case: bool) -> Pattern {
        Pattern::new("x".into(), source.into(), ignore_case, PatternScope::Values).unwrap()
    }

    #[test]
    fn a_literal_is_found_behind_a_class() {
        assert_eq!(pattern(r"[a-z]+\s+-rf", false).literals, ["-rf"]);
        assert_eq!(pattern(r"(?:foo|bar)+x?", false).literals, ["foo", "bar"]);
        assert!(pattern(r"[0-9]+", false).literals.is_empty());
    }

    #[test]
    fn what_is_not_awake_could_not_match() {
        for (source, text) in [
            (r"rm\s+-rf", "x rm  -rf /"),
            (r"drop table", "DROP table"),
            (r"curl[^|]*\|\s*(ba|z)?sh\b", "curl x | sh"),
            (r"^\s*sudo\b", "  sudo x"),
        ] {
            let pattern = pattern(source, true);
            assert!(pattern.matches(text).unwrap(), "{source} {text}");
        }
    }

    #[test]
    fn a_bad_pattern_is_named_in_one_line() {
        let error = Pattern::new("x".into(), "a(".into(), false, PatternScope::Values).unwrap_err();
        assert_eq!(error.0, "unclosed group");
    }
}
