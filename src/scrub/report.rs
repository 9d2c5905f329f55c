//! What was found, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::files::Unread;
use super::place::Seen;
use crate::engine::redaction::Severity;

/// The version of the JSON form.
pub const JSON_VERSION: u32 = 1;

/// A secret in a file.
#[derive(Debug, Clone)]
pub struct Found<'a> {
    /// The file, as it was named.
    pub path: String,
    /// Where it stands there, and what found it.
    pub seen: Seen<'a>,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Report<'a> {
    /// The secrets, in the order of files and places.
    pub found: Vec<Found<'a>>,
    /// What could not be looked at.
    pub unread: Vec<Unread>,
    /// How many files were looked at.
    pub files: usize,
}

/// `path:line:column: severity: description [rule] #fingerprint`
#[must_use]
pub fn line(found: &Found<'_>) -> String {
    use anstyle::{AnsiColor, Style};
    let Found { path, seen } = found;
    let colour = match seen.rule.severity {
        Severity::Low => AnsiColor::Cyan,
        Severity::Medium => AnsiColor::Yellow,
        Severity::High | Severity::Critical => AnsiColor::Red,
    };
    let style = Style::new().bold().fg_color(Some(colour.into()));
    format!(
        "{}:{}:{}: {style}{}{style:#}: {} [{}] #{}",
        printable(path),
        seen.start.line,
        seen.start.column,
        severity(seen.rule.severity),
        printable(seen.rule.description.trim_end_matches('.')),
        seen.rule.id,
        seen.fingerprint,
    )
}

/// `2 findings in 1 of 14 files`
#[must_use]
pub fn summary(report: &Report<'_>) -> String {
    let mut paths: Vec<&str> = report.found.iter().map(|found| &*found.path).collect();
    paths.dedup();
    let mut text = counted(report.found.len(), "finding");
    if report.found.is_empty() {
        "no findings".clone_into(&mut text);
    }
    let _ = if paths.is_empty() {
        write!(text, " in {}", counted(report.files, "file"))
    } else {
        write!(
            text,
            " in {} of {}",
            paths.len(),
            counted(report.files, "file")
        )
    };
    if !report.unread.is_empty() {
        let _ = write!(text, ", {} not looked at", report.unread.len());
    }
    text
}

/// A number of things, each of which has that name.
#[must_use]
pub fn counted(number: usize, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {name}{plural}")
}

/// `{"version":1,"files":…,"findings":[…],"errors":[…]}`
#[must_use]
pub fn json(report: &Report<'_>) -> Value {
    let findings: Vec<Value> = report
        .found
        .iter()
        .map(|Found { path, seen }| {
            json!({
                "path": path,
                "line": seen.start.line,
                "column": seen.start.column,
                "end_line": seen.end.line,
                "end_column": seen.end.column,
                "rule": seen.rule.id,
                "description": seen.rule.description,
                "severity": severity(seen.rule.severity),
                "fingerprint": seen.fingerprint,
            })
        })
        .collect();
    let errors: Vec<Value> = report
        .unread
        .iter()
        .map(|unread| json!({"path": unread.path.display().to_string(), "message": unread.message}))
        .collect();
    json!({
        "version": JSON_VERSION,
        "files": report.files,
        "findings": findings,
        "errors": errors,
    })
}

/// A text that a terminal can be shown: no control characters.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// The name of a severity.
#[must_use]
pub const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
}
