//! `injection.toml`: what looks like an instruction to a model in the words of an MCP server.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;

use super::permission::compile;
use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::bundle::Settings;
use crate::engine::injection::{Said, Signal};
use crate::engine::pattern::{Awake, Haystack};
use crate::policy::diagnostic::{Code, Problem, alternatives, quote};
use crate::policy::layer::Layer;

/// The keys of the file.
pub const KEYS: &[Key] = &[key("format", Merge::PerFile), key("signal", Merge::Union)];

/// The keys of `[[signal]]`.
pub const SIGNAL: &[Key] = &[
    key("id", Merge::PerFile),
    key("description", Merge::PerFile),
    key("pattern", Merge::PerFile),
    key("words", Merge::PerFile),
    key("where", Merge::PerFile),
    key("examples", Merge::PerFile),
    key("counterexamples", Merge::PerFile),
];

/// What a signal may look at.
pub const WHERE: [(&str, Said); 2] = [("description", Said::Description), ("result", Said::Result)];

/// More signals of a workspace would be a way to make every call slow.
const WORKSPACE_SIGNALS: usize = 64;

/// Adds the file's signals.
pub(super) fn apply(settings: &mut Settings, root: Table<'_>, reader: &mut Reader<'_>) {
    root.check(KEYS, reader);
    for (index, table) in root.tables("signal", reader).into_iter().enumerate() {
        if reader.file.layer == Layer::Workspace && index >= WORKSPACE_SIGNALS {
            let text = format!("a workspace may have {WORKSPACE_SIGNALS} signals");
            return reader.push(table.span(), Problem::error(Code::TooLarge, text));
        }
        let Some((at, signal)) = read(&table, reader) else {
            continue;
        };
        let mut known = settings.injection.signals.iter();
        if known.any(|known| known.id() == signal.id()) {
            let text = format!("there is another signal `{}`", quote(signal.id()));
            reader.push(at, Problem::error(Code::DuplicateId, text));
            continue;
        }
        settings.injection.signals.push(signal);
    }
}

fn read(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<(Range<usize>, Signal)> {
    table.check(SIGNAL, reader);
    let id = table.required_text("id", reader);
    // For people only.
    let _ = table.text("description", reader);
    let pattern = match table.has("pattern") {
        true => table.required_text("pattern", reader),
        false => None,
    };
    let words = table.texts("words", reader);
    let said = places(table, reader);
    let examples = table.texts("examples", reader);
    let counterexamples = table.texts("counterexamples", reader);
    let id = id?;
    let at = id.span();
    let (signal, span) = match (pattern, table.has("words")) {
        (Some(pattern), false) => {
            let span = pattern.span();
            let signal = Signal::of_pattern(id.into_inner(), pattern.into_inner(), &said);
            (signal, span)
        }
        (None, true) => {
            let blank = words.iter().find(|words| words.get_ref().trim().is_empty());
            if let Some(blank) = blank {
                let problem = Problem::error(Code::BadValue, "these are no words");
                reader.push(blank.span(), problem);
                return None;
            }
            if words.is_empty() {
                let problem = Problem::error(Code::BadValue, "the list holds no words");
                reader.push(table.span_of("words"), problem);
                return None;
            }
            let words: Vec<String> = words.into_iter().map(Spanned::into_inner).collect();
            let signal = Signal::of_phrases(id.into_inner(), &words, &said);
            (signal, table.span_of("words"))
        }
        (pattern, words) => {
            let (code, text) = if words && pattern.is_some() {
                (
                    Code::BadValue,
                    "a signal has a `pattern` or `words`, not both",
                )
            } else if table.has("pattern") {
                return None;
            } else {
                (Code::MissingKey, "`pattern` or `words` is missing")
            };
            reader.push(at, Problem::error(code, text));
            return None;
        }
    };
    let thorough = reader.thorough;
    if thorough {
        let awake = compile(signal.compile(), span, reader)?;
        try_on(&awake, &examples, true, reader);
        try_on(&awake, &counterexamples, false, reader);
    }
    Some((at, signal))
}

/// Where a signal is looked for: everywhere, unless something is said.
fn places(table: &Table<'_>, reader: &mut Reader<'_>) -> BTreeSet<Said> {
    if !table.has("where") {
        return WHERE.into_iter().map(|(_, said)| said).collect();
    }
    let mut said = BTreeSet::new();
    let texts = table.texts("where", reader);
    if texts.is_empty() {
        let problem = Problem::error(Code::BadValue, "a signal is looked for somewhere")
            .help("write `description`, `result` or both");
        reader.push(table.span_of("where"), problem);
    }
    for text in texts {
        match WHERE.iter().find(|(name, _)| *name == text.get_ref()) {
            Some((_, place)) => {
                said.insert(*place);
            }
            None => {
                let wrong = format!("`{}` is no value of `where`", quote(text.get_ref()));
                let problem = Problem::error(Code::BadValue, wrong).help(format!(
                    "it is {}",
                    alternatives(WHERE.map(|(name, _)| name))
                ));
                reader.push(text.span(), problem);
            }
        }
    }
    said
}

fn try_on(signal: &Awake<'_>, examples: &[Spanned<String>], wanted: bool, reader: &mut Reader<'_>) {
    for example in examples {
        if signal.matches(&Haystack::new(example.get_ref())) != wanted {
            let text = if wanted {
                "the signal does not match this example"
            } else {
                "the signal matches this counterexample"
            };
            reader.push(example.span(), Problem::error(Code::FailedExample, text));
        }
    }
}
