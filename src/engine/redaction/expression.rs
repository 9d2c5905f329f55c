//! Regular expressions over bytes, compiled when somebody asks for them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::{primitives::PatternID, syntax};

use super::Fault;

/// More compiled code than this is a defect of an expression, not a need.
const SIZE_LIMIT: usize = 4 << 20;

/// An expression that is looked for in so many bytes is worth the faster engines.
const MUCH: usize = 48 << 10;

/// An expression that compiles when it is asked for.
#[derive(Default)]
pub(super) struct Lazy {
    quick: OnceLock<Option<Expression>>,
    thorough: OnceLock<Option<Expression>>,
    /// So many bytes it was looked for in.
    bytes: AtomicUsize,
}

/// A compiled expression, and the group that is the secret.
pub(super) struct Expression {
    pub(super) regex: meta::Regex,
    pub(super) group: Option<usize>,
}

impl Lazy {
    /// The expression, to be looked for in so many bytes.
    pub(super) fn get(
        &self,
        bytes: usize,
        source: impl Fn() -> String,
    ) -> Result<&Expression, Fault> {
        // For a few bytes, building the faster engines would take longer than they save.
        let much = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MUCH;
        let cell = if much { &self.thorough } else { &self.quick };
        cell.get_or_init(|| compile(&source(), much).ok())
            .as_ref()
            .ok_or(Fault::Broken)
    }
}

/// One expression that matches what one of several matches.
pub(super) fn either(patterns: &[String]) -> String {
    let groups: Vec<String> = patterns.iter().map(|p| format!("(?:{p})")).collect();
    groups.join("|")
}

/// Whether an expression compiles, and does not match the empty text.
///
/// # Errors
/// One sentence that says why it does not.
pub fn check_expression(source: &str) -> Result<(), String> {
    let expression = compile(source, false)?;
    if expression.regex.is_match(b"") {
        return Err("it matches the empty text".to_owned());
    }
    Ok(())
}

fn compile(source: &str, thorough: bool) -> Result<Expression, String> {
    let config = meta::Config::new()
        .nfa_size_limit(Some(SIZE_LIMIT))
        .which_captures(WhichCaptures::All)
        .utf8_empty(false)
        .auto_prefilter(thorough)
        .hybrid(thorough)
        .onepass(false)
        .dfa(false);
    let regex = meta::Builder::new()
        .configure(config)
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .build(source)
        .map_err(|error| sentence(&error))?;
    let group = regex.group_info().to_index(PatternID::ZERO, "secret");
    Ok(Expression { regex, group })
}

/// Why an expression does not compile, in one line.
fn sentence(error: &meta::BuildError) -> String {
    if error.size_limit().is_some() {
        let limit = SIZE_LIMIT >> 20;
        return format!("it needs more than {limit} MiB when it is compiled");
    }
    let text = match error.syntax_error() {
        Some(error) => error.to_string(),
        None => error.to_string(),
    };
    let last = text.lines().last().unwrap_or(&text).trim();
    let last = last.strip_prefix("error: ").unwrap_or(last);
    format!("this is no regular expression: {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_may_not_match_nothing() {
        assert_eq!(check_expression("a+"), Ok(()));
        let error = check_expression("a*").unwrap_err();
        assert_eq!(error, "it matches the empty text");
        let error = check_expression("a(").unwrap_err();
        assert_eq!(error, "this is no regular expression: unclosed group");
        assert!(check_expression(r"(?=a)b").is_err());
    }
}
