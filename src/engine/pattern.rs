//! Patterns over text, compiled only where one of their literals occurs.

use std::cmp::Reverse;

use memchr::memmem;
use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};
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

/// A text longer than this is worth a faster engine, in bytes.
const LARGE: usize = 64 << 10;

/// More compiled code than this is a defect of the pattern, not a need.
const SIZE_LIMIT: usize = 1 << 20;

/// More alternatives than this would take longer to look for than the pattern itself.
const LITERALS: usize = 48;

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
        let pattern = Self::unchecked(id, source, ignore_case, scope);
        pattern.compile()?;
        Ok(pattern)
    }

    /// A pattern for whoever compiles it next, and says so if it does not.
    #[must_use]
    pub fn unchecked(id: String, source: String, ignore_case: bool, scope: PatternScope) -> Self {
        let literals = required_literals(&source);
        Self {
            id,
            source,
            ignore_case,
            scope,
            literals,
        }
    }

    /// The same for a pattern that is looked for in few texts: to find out which of them it need not
    /// be compiled for would cost more.
    #[must_use]
    pub const fn rare(id: String, source: String) -> Self {
        Self {
            id,
            source,
            ignore_case: false,
            scope: PatternScope::Values,
            literals: Vec::new(),
        }
    }

    /// The pattern with its expression compiled, to try it on many texts.
    ///
    /// # Errors
    /// If the expression does not compile, which [`Pattern::new`] excluded.
    pub fn compile(&self) -> Result<Awake<'_>, PatternError> {
        self.build(false)
    }

    fn build(&self, large: bool) -> Result<Awake<'_>, PatternError> {
        // For a few short texts, making the faster engines takes longer than they save.
        let config = meta::Config::new()
            .nfa_size_limit(Some(SIZE_LIMIT))
            .which_captures(WhichCaptures::None)
            .utf8_empty(false)
            .auto_prefilter(large)
            .hybrid(large)
            .onepass(false)
            .dfa(false);
        let syntax = syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .case_insensitive(self.ignore_case);
        let regex = meta::Builder::new()
            .configure(config)
            .syntax(syntax)
            .build(&self.source)
            .map_err(|error| {
                let text = match error.syntax_error() {
                    Some(error) => error.to_string(),
                    None => error.to_string(),
                };
                PatternError(one_line(&text))
            })?;
        Ok(Awake {
            pattern: self,
            regex,
        })
    }

    /// Whether one of the texts matches.
    ///
    /// # Errors
    /// If the expression does not compile, which [`Pattern::new`] excluded.
    pub fn matches(&self, texts: &[Haystack<'_>]) -> Result<bool, PatternError> {
        if !texts.iter().any(|text| self.wakes(text)) {
            return Ok(false);
        }
        let large = texts.iter().any(|text| text.text.len() > LARGE);
        let awake = self.build(large)?;
        Ok(texts.iter().any(|text| awake.matches(text)))
    }

    fn wakes(&self, text: &Haystack<'_>) -> bool {
        text.holds_one_of(&self.literals)
    }
}

/// A pattern whose expression is compiled.
#[derive(Debug)]
pub struct Awake<'a> {
    pattern: &'a Pattern,
    regex: meta::Regex,
}

impl Awake<'_> {
    /// Whether the text matches. The literals are asked too: they are part of the answer.
    #[must_use]
    pub fn matches(&self, text: &Haystack<'_>) -> bool {
        self.pattern.wakes(text) && self.regex.is_match(text.text.as_bytes())
    }
}

/// A text and its lower case, made once for all the patterns that look at it.
#[derive(Debug)]
pub struct Haystack<'a> {
    text: &'a str,
    lower: String,
    /// Of a long text they would say nothing.
    pairs: Option<Pairs>,
}

/// The pairs of neighbouring bytes in a text, as bits. Most texts that are looked for begin or end with
/// one that is not among them, which is told faster than by looking.
#[derive(Debug, Default)]
struct Pairs([u64; PAIR_WORDS]);

const PAIR_WORDS: usize = 16;

/// A longer text has most pairs.
const PAIRED: usize = 512;

impl Pairs {
    fn of(text: &[u8]) -> Self {
        let mut pairs = Self::default();
        for pair in text.windows(2) {
            let (word, bit) = Self::place(pair);
            if let Some(word) = pairs.0.get_mut(word) {
                *word |= bit;
            }
        }
        pairs
    }

    /// Whether a text with these pairs may hold that one.
    fn may_hold(&self, text: &[u8]) -> bool {
        let has = |pair: &[u8]| {
            let (word, bit) = Self::place(pair);
            self.0.get(word).is_some_and(|word| word & bit != 0)
        };
        text.first_chunk::<2>().is_none_or(|pair| has(pair))
            && text.last_chunk::<2>().is_none_or(|pair| has(pair))
    }

    fn place(pair: &[u8]) -> (usize, u64) {
        let mixed = pair.iter().fold(0_u32, |mixed, byte| {
            mixed.wrapping_mul(37) + u32::from(*byte)
        });
        ((mixed >> 6) as usize % PAIR_WORDS, 1 << (mixed & 63))
    }
}

impl<'a> Haystack<'a> {
    /// A text to be looked at.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        let lower = text.to_ascii_lowercase();
        Self {
            text,
            pairs: (lower.len() <= PAIRED).then(|| Pairs::of(lower.as_bytes())),
            lower,
        }
    }

    /// The text itself.
    pub(super) const fn text(&self) -> &'a str {
        self.text
    }

    /// Whether one of the lower-case texts is in it, whatever its case. With none to look for, so
    /// it is.
    pub(super) fn holds_one_of(&self, literals: &[String]) -> bool {
        let holds = |literal: &String| {
            let literal = literal.as_bytes();
            self.pairs
                .as_ref()
                .is_none_or(|pairs| pairs.may_hold(literal))
                && memmem::find(self.lower.as_bytes(), literal).is_some()
        };
        literals.is_empty() || literals.iter().any(holds)
    }
}

/// The last line of the regex crate's message: its sentence, without the drawing above it.
fn one_line(message: &str) -> String {
    let sentence = message.lines().last().unwrap_or(message).trim();
    let sentence = sentence.strip_prefix("error: ").unwrap_or(sentence);
    sentence.to_owned()
}

/// Lower-case texts, one of which every match holds in some case; none if there are no such texts.
///
/// The expression is taken with its case: what a match without it holds is the same text in
/// another case.
pub(super) fn required_literals(source: &str) -> Vec<String> {
    let parsed = regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(source);
    let Ok(hir) = parsed else {
        return Vec::new();
    };
    best_literals(&hir).unwrap_or_default()
}

fn best_literals(hir: &Hir) -> Option<Vec<String>> {
    let own = finite_prefixes(hir);
    // A class in front hides a prefix: `\s+rm` has none, but what follows is required too.
    let inner = match hir.kind() {
        HirKind::Concat(parts) => (1..parts.len())
            // Behind a literal only the end of what stands before it is left.
            .filter(|start| {
                !matches!(
                    parts.get(start - 1).map(Hir::kind),
                    Some(HirKind::Literal(_))
                )
            })
            .filter_map(|start| Some(Hir::concat(parts.get(start..)?.to_vec())))
            .map(|rest| finite_prefixes(&rest))
            .chain(parts.iter().map(best_literals))
            .flatten()
            .max_by_key(|literals| quality(literals)),
        HirKind::Capture(capture) => best_literals(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => best_literals(&repetition.sub),
        HirKind::Alternation(parts) => parts
            .iter()
            .map(best_literals)
            .collect::<Option<Vec<_>>>()
            .map(|all| distinct(all.concat())),
        _ => None,
    };
    [own, inner]
        .into_iter()
        .flatten()
        .filter(|literals| quality(literals).0 >= LITERAL_MIN)
        .max_by_key(|literals| quality(literals))
}

fn finite_prefixes(hir: &Hir) -> Option<Vec<String>> {
    let found = Extractor::new().limit_total(LITERALS).extract(hir);
    let texts = found
        .literals()?
        .iter()
        .map(|literal| {
            // The case of other letters is not known here.
            std::str::from_utf8(literal.as_bytes())
                .ok()
                .filter(|text| text.is_ascii())
                .map(str::to_ascii_lowercase)
        })
        .collect::<Option<Vec<_>>>()?;
    Some(distinct(texts))
}

/// Each text once, and none that holds another one: where it occurs, the other does too.
fn distinct(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_by_key(|text| text.len());
    let mut kept: Vec<String> = Vec::new();
    for text in texts {
        if !kept.iter().any(|other| text.contains(other.as_str())) {
            kept.push(text);
        }
    }
    kept
}

/// Long texts occur seldom, and few are found out quickly.
fn quality(literals: &[String]) -> (usize, Reverse<usize>) {
    let shortest = literals.iter().map(String::len).min().unwrap_or(0);
    (shortest, Reverse(literals.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(source: &str, ignore_case: bool) -> Pattern {
        Pattern::new("x".into(), source.into(), ignore_case, PatternScope::Values).unwrap()
    }

    #[test]
    fn what_a_text_holds_is_found_however_long_it_is() {
        for text in ["", "x", "rm", "a rm -rf b", &"rm -rf ".repeat(200)] {
            let haystack = Haystack::new(text);
            for literal in ["", "x", "rm", "rm -rf", "f b", "rf rm", "gone", "mr"] {
                let found = haystack.holds_one_of(&[literal.to_owned()]);
                assert_eq!(found, text.contains(literal), "`{literal}` in `{text}`");
            }
        }
    }

    #[test]
    fn a_literal_is_found_behind_a_class() {
        assert_eq!(pattern(r"[a-z]+\s+-rf", false).literals, ["-rf"]);
        assert_eq!(pattern(r"(?:foo|bar)+x?", false).literals, ["foo", "bar"]);
        assert!(pattern(r"[0-9]+", false).literals.is_empty());
        assert_eq!(
            pattern(r"[a-z]*\.(?:pem|key)$", true).literals,
            [".pem", ".key"]
        );
    }

    #[test]
    fn letters_beyond_ascii_wake_always() {
        let pattern = pattern("(?:rm|(?u:é))", true);
        assert!(pattern.literals.is_empty());
        assert_eq!(pattern.matches(&[Haystack::new("É")]), Ok(true));
    }

    #[test]
    fn a_literal_is_named_once_whatever_its_case() {
        assert_eq!(pattern(r"(?i)connection|conn", true).literals, ["conn"]);
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
            let matches = pattern.matches(&[Haystack::new(text)]);
            assert!(matches.unwrap(), "{source} {text}");
        }
    }

    #[test]
    fn a_bad_pattern_is_named_in_one_line() {
        let error = Pattern::new("x".into(), "a(".into(), false, PatternScope::Values).unwrap_err();
        assert_eq!(error.0, "unclosed group");
    }
}
