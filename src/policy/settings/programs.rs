//! The tables of `containment.toml` that speak of programs and of variables.

use std::ops::Range;

use toml::Spanned;

use super::permission::compile;
use super::table::{Key, Merge, Reader, Table, key};
use crate::engine::pattern::{Awake, Pattern, PatternScope};
use crate::engine::program::{
    CodeOperand, Interpreter, Leading, Operands, Output, Program, Variable, Wrapper,
};
use crate::policy::diagnostic::{Code, Problem};

/// The keys of `[[program]]`.
pub const PROGRAM: &[Key] = &[
    key("names", Merge::PerFile),
    key("subcommands", Merge::PerFile),
    key("with", Merge::PerFile),
    key("besides", Merge::PerFile),
    key("without", Merge::PerFile),
    key("labels", Merge::PerFile),
    key("operands", Merge::PerFile),
    key("output", Merge::PerFile),
    key("data_options", Merge::PerFile),
    key("input_options", Merge::PerFile),
    key("output_options", Merge::PerFile),
    key("saving_options", Merge::PerFile),
    key("data_operands", Merge::PerFile),
    key("examples", Merge::PerFile),
    key("counterexamples", Merge::PerFile),
];

/// The keys of `[[wrapper]]`.
pub const WRAPPER: &[Key] = &[
    key("names", Merge::PerFile),
    key("valued", Merge::PerFile),
    key("operands", Merge::PerFile),
    key("assignments", Merge::PerFile),
    key("appends", Merge::PerFile),
    key("except", Merge::PerFile),
    key("folders", Merge::PerFile),
    key("after", Merge::PerFile),
    key("joins", Merge::PerFile),
];

/// The keys of `[[interpreter]]`.
pub const INTERPRETER: &[Key] = &[
    key("names", Merge::PerFile),
    key("options", Merge::PerFile),
    key("valued", Merge::PerFile),
    key("stdin", Merge::PerFile),
    key("modules", Merge::PerFile),
    key("shell", Merge::PerFile),
    key("operand", Merge::PerFile),
    key("quiet", Merge::PerFile),
    key("loud", Merge::PerFile),
    key("examples", Merge::PerFile),
    key("counterexamples", Merge::PerFile),
];

/// The keys of `[[variable]]`.
pub const VARIABLE: &[Key] = &[
    key("names", Merge::PerFile),
    key("labels", Merge::PerFile),
    key("used", Merge::PerFile),
    key("harmless", Merge::PerFile),
    key("examples", Merge::PerFile),
    key("counterexamples", Merge::PerFile),
];

/// The keys of `[[leading]]`.
pub const LEADING: &[Key] = &[
    key("names", Merge::PerFile),
    key("valued", Merge::PerFile),
    key("folders", Merge::PerFile),
    key("options", Merge::PerFile),
    key("labels", Merge::PerFile),
    key("harmless", Merge::PerFile),
    key("examples", Merge::PerFile),
    key("counterexamples", Merge::PerFile),
];

/// More operands in front than this are a mistake.
const OPERANDS: std::ops::RangeInclusive<u32> = 0..=8;

pub(super) fn program(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Program> {
    table.check(PROGRAM, reader);
    let entry = Program {
        names: names(table, reader)?,
        subcommands: plain(table, "subcommands", reader),
        with: plain(table, "with", reader),
        besides: plain(table, "besides", reader),
        without: plain(table, "without", reader),
        labels: plain(table, "labels", reader),
        operands: table
            .choice("operands", &Operands::NAMED, reader)
            .map(Spanned::into_inner)
            .unwrap_or_default(),
        output: table
            .choice("output", &Output::NAMED, reader)
            .map(Spanned::into_inner)
            .unwrap_or_default(),
        data_options: plain(table, "data_options", reader),
        input_options: plain(table, "input_options", reader),
        output_options: plain(table, "output_options", reader),
        saving_options: plain(table, "saving_options", reader),
        data_operands: small(table, "data_operands", reader),
    };
    if !reader.thorough {
        return Some(entry);
    }
    for (key, wanted) in [("examples", true), ("counterexamples", false)] {
        for example in table.texts(key, reader) {
            let text = match applies(&entry, example.get_ref()) {
                Some(found) if found == wanted => continue,
                Some(false) => "the entry does not hold for this example",
                Some(true) => "the entry holds for this counterexample",
                None => "this is no command line",
            };
            reader.push(example.span(), Problem::error(Code::FailedExample, text));
        }
    }
    Some(entry)
}

pub(super) fn wrapper(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Wrapper> {
    table.check(WRAPPER, reader);
    Some(Wrapper {
        names: names(table, reader)?,
        valued: plain(table, "valued", reader),
        operands: small(table, "operands", reader),
        assignments: table.flag("assignments", reader),
        appends: table.flag("appends", reader),
        except: plain(table, "except", reader),
        folders: plain(table, "folders", reader),
        after: plain(table, "after", reader),
        joins: table.flag("joins", reader),
    })
}

pub(super) fn interpreter(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Interpreter> {
    table.check(INTERPRETER, reader);
    let names = names(table, reader)?;
    let (quiet, loud) = (
        patterns(table, "quiet", reader),
        patterns(table, "loud", reader),
    );
    check_examples(table, &quiet, &loud, reader);
    let plain_of = |patterns: Vec<(Pattern, _)>| patterns.into_iter().map(|(p, _)| p).collect();
    Some(Interpreter {
        names,
        options: plain(table, "options", reader),
        valued: plain(table, "valued", reader),
        stdin: plain(table, "stdin", reader),
        modules: plain(table, "modules", reader),
        shell: table.flag("shell", reader),
        operand: table
            .choice("operand", &CodeOperand::NAMED, reader)
            .map(Spanned::into_inner)
            .unwrap_or_default(),
        quiet: plain_of(quiet),
        loud: plain_of(loud),
    })
}

/// Compiles the patterns, and tries the examples on them.
fn check_examples(table: Table<'_>, quiet: &[Placed], loud: &[Placed], reader: &mut Reader<'_>) {
    // What does not compile holds nowhere: whoever waits for a judgement gets the stricter one.
    if !reader.thorough {
        return;
    }
    let (Some(quiet), Some(loud)) = (compiled(quiet, reader), compiled(loud, reader)) else {
        return;
    };
    for (key, wanted) in [("examples", true), ("counterexamples", false)] {
        for example in table.texts(key, reader) {
            if Interpreter::is_quiet_to(&quiet, &loud, example.get_ref()) != wanted {
                let text = if wanted {
                    "this code is not harmless to the entry"
                } else {
                    "this code is harmless to the entry"
                };
                reader.push(example.span(), Problem::error(Code::FailedExample, text));
            }
        }
    }
}

pub(super) fn variable(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Variable> {
    table.check(VARIABLE, reader);
    Some(Variable {
        names: names(table, reader)?,
        labels: plain(table, "labels", reader),
        used: plain(table, "used", reader),
        harmless: harmless(table, reader),
    })
}

pub(super) fn leading(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Leading> {
    table.check(LEADING, reader);
    Some(Leading {
        names: names(table, reader)?,
        valued: plain(table, "valued", reader),
        folders: plain(table, "folders", reader),
        options: plain(table, "options", reader),
        labels: plain(table, "labels", reader),
        harmless: harmless(table, reader),
    })
}

/// The patterns of values that do no harm; the examples are such values.
fn harmless(table: Table<'_>, reader: &mut Reader<'_>) -> Vec<Pattern> {
    let texts = table.texts("harmless", reader).into_iter();
    let harmless: Vec<Placed> = texts
        .map(|text| {
            let span = text.span();
            (
                Pattern::rare("harmless".to_owned(), text.into_inner()),
                span,
            )
        })
        .collect();
    check_examples(table, &harmless, &[], reader);
    harmless.into_iter().map(|(pattern, _)| pattern).collect()
}

fn names(table: Table<'_>, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let names = plain(table, "names", reader);
    if names.is_empty() {
        table.missing("names", reader);
        return None;
    }
    Some(names)
}

fn plain(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> Vec<String> {
    table
        .texts(name, reader)
        .into_iter()
        .map(Spanned::into_inner)
        .collect()
}

fn small(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> u8 {
    table
        .number(name, OPERANDS, reader)
        .and_then(|number| u8::try_from(number.into_inner()).ok())
        .unwrap_or_default()
}

/// A pattern and where it stands.
type Placed = (Pattern, Range<usize>);

fn patterns(table: Table<'_>, name: &str, reader: &mut Reader<'_>) -> Vec<Placed> {
    let place = |text: Spanned<String>| {
        let span = text.span();
        let scope = PatternScope::Values;
        let pattern = Pattern::unchecked(name.to_owned(), text.into_inner(), false, scope);
        (pattern, span)
    };
    table.texts(name, reader).into_iter().map(place).collect()
}

fn compiled<'p>(patterns: &'p [Placed], reader: &mut Reader<'_>) -> Option<Vec<Awake<'p>>> {
    patterns
        .iter()
        .map(|(pattern, span)| compile(pattern.compile(), span.clone(), reader))
        .collect()
}

/// Whether the entry holds for a command line; `None` if the line is none.
fn applies(entry: &Program, line: &str) -> Option<bool> {
    let words = shlex::split(line)?;
    let (first, arguments) = words.split_first()?;
    let program = first.rsplit('/').next().unwrap_or_default();
    let subcommand = arguments
        .iter()
        .find(|word| !word.starts_with('-'))
        .map_or("", String::as_str);
    Some(entry.applies(program, subcommand, arguments))
}
