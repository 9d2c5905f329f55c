//! `permission.toml`: patterns over the arguments of tools.

use std::ops::Range;

use toml::Spanned;

use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::bundle::Settings;
use crate::engine::pattern::{Awake, Haystack, Pattern, PatternError, PatternScope};
use crate::policy::diagnostic::{Code, Problem, quote};
use crate::policy::layer::Layer;

/// The keys of the file.
pub const KEYS: &[Key] = &[key("format", Merge::PerFile), key("pattern", Merge::Union)];

/// The keys of `[[pattern]]`.
pub const PATTERN: &[Key] = &[
    key("id", Merge::PerFile),
    key("pattern", Merge::PerFile),
    key("ignore_case", Merge::PerFile),
    key("on", Merge::PerFile),
    key("examples", Merge::PerFile),
    key("counterexamples", Merge::PerFile),
];

/// More patterns of a workspace would be a way to make every call slow.
const WORKSPACE_PATTERNS: usize = 64;

const SCOPES: [(&str, PatternScope); 2] = [
    ("values", PatternScope::Values),
    ("json", PatternScope::Json),
];

/// Adds the file's patterns.
pub(super) fn apply(settings: &mut Settings, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    for (index, table) in root.tables("pattern", reader).into_iter().enumerate() {
        if reader.file.layer == Layer::Workspace && index >= WORKSPACE_PATTERNS {
            let problem = Problem::error(
                Code::TooLarge,
                format!("a workspace may have {WORKSPACE_PATTERNS} patterns"),
            );
            return reader.push(table.span(), problem);
        }
        let Some((id, pattern)) = read(table, reader) else {
            continue;
        };
        if settings.patterns.iter().any(|known| known.id == pattern.id) {
            let problem = Problem::error(
                Code::DuplicateId,
                format!("there is another pattern `{}`", quote(&pattern.id)),
            );
            reader.push(id, problem);
            continue;
        }
        settings.patterns.push(pattern);
    }
}

/// The pattern, or the problem that it does not compile.
pub(super) fn compile<T>(
    pattern: Result<T, PatternError>,
    span: Range<usize>,
    reader: &mut Reader<'_>,
) -> Option<T> {
    match pattern {
        Ok(pattern) => Some(pattern),
        Err(PatternError(text)) => {
            let problem = Problem::error(
                Code::BadPattern,
                format!("this is no regular expression: {text}"),
            )
            .help("look-around, back-references and Unicode classes are not supported");
            reader.push(span, problem);
            None
        }
    }
}

fn read(table: Table<'_>, reader: &mut Reader<'_>) -> Option<(Range<usize>, Pattern)> {
    table.check(PATTERN, reader);
    let id = table.required_text("id", reader);
    let source = table.required_text("pattern", reader);
    let ignore_case = table.flag("ignore_case", reader);
    let scope = table
        .choice("on", &SCOPES, reader)
        .map(Spanned::into_inner)
        .unwrap_or_default();
    let examples = table.texts("examples", reader);
    let counterexamples = table.texts("counterexamples", reader);
    let (id, source) = (id?, source?);
    let (at, span) = (id.span(), source.span());
    let pattern = Pattern::unchecked(id.into_inner(), source.into_inner(), ignore_case, scope);
    let awake = compile(pattern.compile(), span, reader)?;
    check_examples(&awake, &examples, true, reader);
    check_examples(&awake, &counterexamples, false, reader);
    Some((at, pattern))
}

fn check_examples(
    pattern: &Awake<'_>,
    examples: &[Spanned<String>],
    wanted: bool,
    reader: &mut Reader<'_>,
) {
    for example in examples {
        if pattern.matches(&Haystack::new(example.get_ref())) == wanted {
            continue;
        }
        let text = if wanted {
            "the pattern does not match this example"
        } else {
            "the pattern matches this counterexample"
        };
        reader.push(example.span(), Problem::error(Code::FailedExample, text));
    }
}
