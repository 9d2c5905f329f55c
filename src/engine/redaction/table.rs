//! Tables in texts: columns that are secrets whatever stands in them.

use std::ops::Range;

use super::Finding;
use super::chars::normalised;
use super::sets::Sets;

/// The cells of columns that a rule takes: of CSV, TSV and Markdown tables, and of SQL's `insert`.
pub(super) fn cells(sets: Sets<'_>, text: &[u8]) -> Vec<Finding> {
    if !sets.has_fields() {
        return Vec::new();
    }
    let mut spans = Vec::new();
    delimited(sets, text, &mut spans);
    inserted(sets, text, &mut spans);
    spans
        .into_iter()
        .filter_map(|(rule, span)| {
            let bytes = text.get(span.clone())?;
            sets.cell(rule, bytes, span).ok().flatten()
        })
        .collect()
}

/// A column's place and the rule that takes it.
type Columns = Vec<Option<usize>>;

/// Whether a first line names a column that a rule takes.
pub(super) fn is_head(sets: Sets<'_>, line: &[u8]) -> bool {
    sets.has_fields() && columns(sets, line).is_some()
}

/// Where an `insert` begins that has no end yet.
pub(super) fn unfinished(sets: Sets<'_>, text: &[u8]) -> Option<usize> {
    if !sets.has_fields() {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let start = memchr::memmem::rfind(&lower, b"insert into")?;
    let rest = lower.get(start..).unwrap_or_default();
    (!rest.contains(&b';')).then_some(start)
}

/// The delimiter of a head's cells, and the rules that take its columns.
fn columns(sets: Sets<'_>, head: &[u8]) -> Option<(u8, Columns)> {
    let delimiter = [b'|', b'\t', b',', b';']
        .into_iter()
        .find(|byte| head.contains(byte))?;
    let columns: Columns = split(head, 0..head.len(), delimiter)
        .into_iter()
        .map(|cell| sets.field(&normalised(head.get(cell).unwrap_or_default())))
        .collect();
    columns
        .iter()
        .any(Option::is_some)
        .then_some((delimiter, columns))
}

fn delimited(sets: Sets<'_>, text: &[u8], spans: &mut Vec<(usize, Range<usize>)>) {
    let first = memchr::memchr(b'\n', text).unwrap_or(text.len());
    let head = text.get(..first).unwrap_or_default();
    let Some((delimiter, columns)) = columns(sets, head) else {
        return;
    };
    let mut at = first + 1;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let end = at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        for (cell, column) in split(text, at..end, delimiter).into_iter().zip(&columns) {
            if let Some(rule) = column {
                spans.push((*rule, cell));
            }
        }
        at = end + 1;
    }
}

/// The cells of a line, without blanks and quotes.
fn split(text: &[u8], line: Range<usize>, delimiter: u8) -> Vec<Range<usize>> {
    let mut cells = Vec::new();
    let mut start = line.start;
    let mut quote = None;
    for at in line.clone() {
        match text.get(at) {
            Some(byte) if quote == Some(*byte) => quote = None,
            Some(byte @ (b'"' | b'\'')) if quote.is_none() && opens(text, start, at) => {
                quote = Some(*byte);
            }
            Some(byte) if *byte == delimiter && quote.is_none() => {
                cells.push(inner(text, start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.push(inner(text, start..line.end));
    cells
}

/// Whether a quote at that place begins its cell; another one is an apostrophe.
fn opens(text: &[u8], cell: usize, at: usize) -> bool {
    let before = text.get(cell..at).unwrap_or_default();
    before.trim_ascii().is_empty()
}

fn inner(text: &[u8], cell: Range<usize>) -> Range<usize> {
    let bytes = text.get(cell.clone()).unwrap_or_default();
    let quote = |byte: &u8| matches!(byte, b'"' | b'\'' | b' ' | b'\t' | b'\r');
    let lead = bytes.iter().take_while(|byte| quote(byte)).count();
    let rest = bytes.get(lead..).unwrap_or_default();
    let tail = rest.iter().rev().take_while(|byte| quote(byte)).count();
    cell.start + lead..cell.end - tail
}

/// `insert into t(a, b) values ('x', 'y'), …`
fn inserted(sets: Sets<'_>, text: &[u8], spans: &mut Vec<(usize, Range<usize>)>) {
    let lower = text.to_ascii_lowercase();
    for start in memchr::memmem::find_iter(&lower, b"insert into") {
        let Some(names) = parenthesis(text, start) else {
            continue;
        };
        let columns: Columns = split(text, names.clone(), b',')
            .into_iter()
            .map(|cell| sets.field(&normalised(text.get(cell).unwrap_or_default())))
            .collect();
        let behind = lower.get(names.end + 1..).unwrap_or_default();
        if columns.iter().all(Option::is_none) || !behind.trim_ascii_start().starts_with(b"values")
        {
            continue;
        }
        let mut at = names.end + 1;
        while let Some(row) = parenthesis(text, at) {
            let between = text.get(at..row.start - 1).unwrap_or_default();
            if between.contains(&b';') {
                break;
            }
            at = row.end + 1;
            for (cell, column) in split(text, row, b',').into_iter().zip(&columns) {
                if let Some(rule) = column {
                    spans.push((*rule, cell));
                }
            }
        }
    }
}

/// What stands in the next parentheses, quotes respected.
fn parenthesis(text: &[u8], from: usize) -> Option<Range<usize>> {
    let rest = text.get(from..)?;
    let start = from + memchr::memchr(b'(', rest)? + 1;
    let mut quoted = false;
    for (index, byte) in text.get(start..)?.iter().enumerate() {
        match byte {
            b'\'' => quoted = !quoted,
            b')' if !quoted => return Some(start..start + index),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Conditions, Rule, Severity, Shape};
    use super::super::ruleset::Ruleset;
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let rule = Rule {
            id: "f".to_owned(),
            description: String::new(),
            severity: Severity::High,
            kind: String::new(),
            pack: String::new(),
            keywords: Vec::new(),
            shape: Shape::Fields(vec!["dob".to_owned(), "fullname".to_owned()]),
            conditions: Conditions::default(),
        };
        let rules = Ruleset::new(&[rule], &[]).unwrap();
        let cells = cells(Sets(&[&rules]), text.as_bytes());
        let texts = cells.iter().filter_map(|cell| text.get(cell.span.clone()));
        texts.collect()
    }

    #[test]
    fn columns_of_tables_are_found() {
        for (text, wanted) in [
            (
                "id,Full Name,dob\n1,\"Doe, Jo\",1/2/34\n2,,null\n",
                &["Doe, Jo", "1/2/34"][..],
            ),
            ("id\tdob\n1\t1/2/34\r\n", &["1/2/34"]),
            ("| id | dob |\n|----|-----|\n| 1 | 1/2/34 |\n", &["1/2/34"]),
            ("full_name;x\nO'Neil;y\n", &["O'Neil"]),
            ("id,name\n1,dob\n", &[]),
            ("dob\n1/2/34\n", &[]),
            (
                "INSERT INTO t (id, dob, \"full_name\") VALUES (1, '1/2/34', 'O''Neil (x)'), (2, '3/4/56', null);",
                &["1/2/34", "O''Neil (x)", "3/4/56"],
            ),
            ("insert into t(id) values ('dob')", &[]),
        ] {
            assert_eq!(found(text), wanted, "{text}");
        }
    }
}
