//! What is wrong with a policy file: the sentence, the place, and what a person can do.
//!
//! A problem is a value until the end; [`render`] turns all of them into text, JSON or SARIF.

pub mod render;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::source::SourceFile;

/// One thing that is wrong, or at least odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether it refuses the bundle.
    pub severity: Severity,
    /// Which kind of problem it is.
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// What a person can do about it.
    pub help: Option<String>,
    /// The file, where there is one.
    pub file: Option<Arc<SourceFile>>,
    /// The bytes of that file that are wrong, where they can be told.
    pub span: Option<Range<usize>>,
}

/// Whether a problem refuses the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not, and may well be meant.
    Note,
    /// It does not.
    Warning,
    /// It does.
    Error,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal $description:literal,)+) => {
        /// Which kind of problem it is. The names are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $description] $variant,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The code's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means, in one line.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)+ }
            }
        }
    };
}

codes! {
    MissingPolicies "missing-policies" "a directory of policies is gone, or holds none",
    Unreadable "unreadable" "a file or directory cannot be read",
    UnsafeFile "unsafe-file" "somebody else could change a policy file",
    TooLarge "too-large" "a file, a layer or a policy exceeds a limit",
    UnknownFile "unknown-file" "a file that looks like policy would not be read",
    UnsupportedFile "unsupported-file" "a file whose meaning this version does not know",
    IgnoredFile "ignored-file" "a file beside the policies is not read",
    TomlSyntax "toml-syntax" "a TOML file cannot be parsed",
    UnsupportedFormat "unsupported-format" "a TOML file has a format that this version does not know",
    UnknownKey "unknown-key" "a key that no version knows",
    MissingKey "missing-key" "a required key is not there",
    WrongType "wrong-type" "a value has the wrong type",
    BadValue "bad-value" "a value is not among the legal ones",
    BadPattern "bad-pattern" "a regular expression does not compile",
    BadPath "bad-path" "a path or glob means nothing",
    FailedExample "failed-example" "an example or counterexample contradicts its entry",
    DuplicateId "duplicate-id" "two things have the same name",
    ReservedLabel "reserved-label" "a label has a meaning of its own already",
    Loosens "loosens" "a lower layer may only tighten",
    NoEffect "no-effect" "a lower layer says what changes nothing",
    CedarSyntax "cedar-syntax" "a Cedar file cannot be parsed",
    TooDeep "too-deep" "a policy is nested too deeply",
    Template "template" "policies with slots are not supported",
    Validation "validation" "a policy contradicts the schema",
    ImpossiblePolicy "impossible-policy" "a policy can never hold",
    MissingAnnotation "missing-annotation" "a policy lacks an annotation that it needs",
    UnknownAnnotation "unknown-annotation" "an annotation that means nothing",
    BadAnnotation "bad-annotation" "an annotation's value is not among the legal ones",
    UnknownPlaceholder "unknown-placeholder" "a sentence holds a placeholder that nothing fills",
    UndefinedLabel "undefined-label" "a policy names a label that no file gives",
    UndefinedPattern "undefined-pattern" "a policy names a pattern that no file defines",
    Unapprovable "unapprovable" "nobody can give the approvals that a policy demands",
    UnusedPattern "unused-pattern" "no policy names this pattern",
    UnknownPolicy "unknown-policy" "an exception names a policy that no layer has",
    NotExempt "not-exempt" "an exception names what has no exceptions",
    Expiry "expiry" "an exception has expired, expires soon, or lasts for long",
    BadImport "bad-import" "a legacy policy cannot be taken over",
    Changed "changed" "the files changed in the meantime",
    FailedTest "failed-test" "a decision test expects something else",
    Expired "expired" "the time of a bundle is over",
    Unwritable "unwritable" "a file cannot be written",
    Disproved "disproved" "a property of the policies does not hold",
    NotProved "not-proved" "it could not be found out whether a property of the policies holds",
    DeadPolicy "dead-policy" "a policy can never hold",
    ImpossibleValue "impossible-value" "an attribute is compared with what it can never be",
    NeverTrue "never-true" "a part of a condition can never hold",
    AlwaysTrue "always-true" "a part of a condition always holds",
    Shadowed "shadowed" "a policy changes nothing, because others say the same or more",
    Duplicate "duplicate" "two policies are the same",
    OverBroad "over-broad" "a permit allows what nobody listed",
    LoosePattern "loose-pattern" "a pattern lets more through than it seems to",
    AnyServer "any-server" "a tool is known by a name that every MCP server may give",
    SuggestsDenied "suggests-denied" "a reason or help suggests what the policies deny",
    CanFail "can-fail" "an expression can fail when it is evaluated, and a failure denies",
    MonitorOnly "monitor-only" "a judgement is only recorded",
    Unrecorded "unrecorded" "calls pass that are not recorded",
    AsksNobody "asks-nobody" "a policy asks where nobody can be asked",
    MissingSeverity "missing-severity" "a policy that protects has no severity",
    UnusedLabel "unused-label" "no policy names this label",
    UnusedRoster "unused-roster" "nothing names this roster",
    RedundantEntry "redundant-entry" "an entry of a table says what another one says already",
    PhiNotRedacted "phi-not-redacted" "there is health information, and it is not redacted",
    BadIgnore "bad-ignore" "a comment that silences lint does not say what or why",
    UnusedIgnore "unused-ignore" "a comment silences what lint does not find",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a problem is, counted from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line where it starts.
    pub line: u32,
    /// The column where it starts.
    pub column: u32,
    /// The line where it ends.
    pub end_line: u32,
    /// The column behind its last character.
    pub end_column: u32,
}

impl Problem {
    /// A problem that refuses the bundle.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: one_line(&message.into()),
            help: None,
            file: None,
            span: None,
        }
    }

    /// A problem that a person should know of.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, message)
        }
    }

    /// What a person may want to know of.
    pub fn note(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            ..Self::error(code, message)
        }
    }

    /// The same problem, with what a person can do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(one_line(&help.into()));
        self
    }

    /// The same problem, of that file.
    #[must_use]
    pub fn of(mut self, file: &Arc<SourceFile>) -> Self {
        self.file = Some(Arc::clone(file));
        self
    }

    /// The same problem, at that place of that file.
    #[must_use]
    pub fn at(mut self, file: &Arc<SourceFile>, span: Range<usize>) -> Self {
        self.file = Some(Arc::clone(file));
        self.span = Some(span);
        self
    }

    /// Whether it refuses the bundle.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Where it is, if that can be told.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        let (file, span) = (self.file.as_ref()?, self.span.as_ref()?);
        let (line, column) = place(&file.text, span.start);
        let (end_line, end_column) = place(&file.text, span.end.max(span.start));
        Some(Position {
            line,
            column,
            end_line,
            end_column,
        })
    }

    /// The text that is wrong.
    #[must_use]
    pub fn underlined(&self) -> Option<&str> {
        self.file.as_ref()?.text.get(self.span.clone()?)
    }

    /// `file:line:column: message`, for a denial.
    #[must_use]
    pub fn one_line(&self) -> String {
        let Some(file) = &self.file else {
            return self.message.clone();
        };
        match self.position() {
            Some(at) => format!("{}:{}:{}: {}", file.path, at.line, at.column, self.message),
            None => format!("{}: {}", file.path, self.message),
        }
    }
}

/// The line and column of a byte, counted from 1, in characters.
pub(crate) fn place(text: &str, offset: usize) -> (u32, u32) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = text.get(..end).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (small(line), small(column))
}

/// ``did you mean `x`?`` for the nearest of the known words, if one is near.
pub(crate) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// `` `a`, `b` or `c` ``
pub(crate) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match (words.pop(), words.is_empty()) {
        (None, _) => String::new(),
        (Some(only), true) => only,
        (Some(last), false) => format!("{} or {last}", words.join(", ")),
    }
}

/// Text of others in a sentence of ours: no control characters, and not too much of it.
pub(crate) fn quote(text: &str) -> String {
    const MOST: usize = 80;
    let mut short: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}

fn one_line(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    text.split(char::is_control)
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        assert_eq!(place("", 0), (1, 1));
        assert_eq!(place("ab\ncd", 3), (2, 1));
        assert_eq!(place("äö\nü x", 7), (2, 2));
        assert_eq!(place("ä", 1), (1, 1));
        assert_eq!(place("a", 99), (1, 2));
    }

    #[test]
    fn codes_are_unique_and_kebab_case() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert!(
            names
                .iter()
                .all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["mode", "limits"];
        assert_eq!(suggest("mod", known).unwrap(), "did you mean `mode`?");
        assert_eq!(suggest("xyzzy", known), None);
        assert_eq!(alternatives(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
