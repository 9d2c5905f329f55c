//! What was proved, for people, for programs and for code hosts.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::{Counterexample, Finding, Property, Report, Status};
use crate::engine::describe;
use crate::policy::Problem;
use crate::policy::diagnostic::render;

/// The version of the JSON form.
pub const JSON_VERSION: u32 = 1;

const DIM: Style = Style::new().dimmed();

/// A table of the properties, and what stands against those that are not proved.
///
/// # Errors
/// If it cannot be written.
pub fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let longest = report.properties.iter().map(|property| property.id.len());
    let width = longest.max().unwrap_or(0);
    for property in &report.properties {
        let status = property.status();
        let style = colour(status);
        writeln!(
            out,
            "{style}{:9}{style:#}  {:width$}  {}  {DIM}{}{DIM:#}",
            status.name(),
            property.id,
            property.text,
            short(property.took),
        )?;
    }
    for property in &report.properties {
        for finding in &property.findings {
            writeln!(out)?;
            let problem = std::slice::from_ref(&finding.problem);
            writeln!(out, "{}", render::snippets(problem, true).trim_end())?;
            if let Some(shown) = &finding.counterexample {
                counterexample(shown, out)?;
            }
        }
    }
    writeln!(out)?;
    if report.monitor {
        writeln!(
            out,
            "note: `mode` is `monitor`: this is what the policies say, but nothing of it binds"
        )?;
    }
    writeln!(out, "{}", summary(report))
}

/// One line: how many properties are what.
#[must_use]
pub fn summary(report: &Report) -> String {
    let count = |status: Status| {
        let all = report.properties.iter();
        all.filter(|property| property.status() == status).count()
    };
    let questions: usize = report
        .properties
        .iter()
        .map(|property| property.questions)
        .sum();
    format!(
        "{} proved, {} disproved, {} unknown: {} policies, {questions} questions to {}, {}",
        count(Status::Proved),
        count(Status::Disproved),
        count(Status::Unknown),
        report.policies,
        report.solver,
        short(report.took),
    )
}

fn counterexample(shown: &Counterexample, out: &mut dyn Write) -> io::Result<()> {
    let deciding = match shown.deciding.is_empty() {
        true => String::new(),
        false => format!(" by {}", shown.deciding.join(", ")),
    };
    writeln!(out, "  the call     {}", describe(&shown.request))?;
    writeln!(out, "  the answer   {}{deciding}", shown.effect)?;
    if !shown.confirmed {
        writeln!(
            out,
            "  the engine does not confirm this: these facts may never come together"
        )?;
    }
    writeln!(out, "  the request  {}", json_of(&shown.request))?;
    match &shown.event {
        Some(event) => writeln!(
            out,
            "  an event     {event}\n               (see it judged: `copilot-bridge explain < event.json`)"
        ),
        None => writeln!(out, "  an event     none was found that has these facts"),
    }
}

/// `{"version":1,"status":…,"properties":[…]}`, for programs.
#[must_use]
pub fn json(report: &Report) -> Value {
    let properties: Vec<Value> = report.properties.iter().map(json_property).collect();
    json!({
        "version": JSON_VERSION,
        "status": report.status().name(),
        "solver": report.solver,
        "policies": report.policies,
        "monitor": report.monitor,
        "ms": millis(report.took),
        "properties": properties,
    })
}

/// Every problem that stands against a property, in the order of the properties.
pub fn problems(report: &Report) -> impl Iterator<Item = &Problem> {
    let findings = report
        .properties
        .iter()
        .flat_map(|property| &property.findings);
    findings.map(|finding| &finding.problem)
}

fn json_property(property: &Property) -> Value {
    let findings: Vec<Value> = property.findings.iter().map(json_finding).collect();
    json!({
        "id": property.id,
        "text": property.text,
        "status": property.status().name(),
        "questions": property.questions,
        "ms": millis(property.took),
        "findings": findings,
    })
}

fn json_finding(finding: &Finding) -> Value {
    let status = match finding.disproved {
        true => Status::Disproved,
        false => Status::Unknown,
    };
    json!({
        "status": status.name(),
        "environment": finding.environment,
        "problem": render::json_problem(&finding.problem),
        "counterexample": finding.counterexample.as_ref().map(json_counterexample),
    })
}

/// A counterexample, for programs.
#[must_use]
pub fn json_counterexample(shown: &Counterexample) -> Value {
    json!({
        "request": json_of(&shown.request),
        "decision": shown.effect,
        "policies": shown.deciding,
        "confirmed": shown.confirmed,
        "event": shown.event,
    })
}

fn json_of(request: &crate::engine::request::Request) -> Value {
    serde_json::to_value(request).unwrap_or_default()
}

const fn colour(status: Status) -> Style {
    let colour = match status {
        Status::Proved => AnsiColor::Green,
        Status::Unknown => AnsiColor::Yellow,
        Status::Disproved => AnsiColor::Red,
    };
    colour.on_default().bold()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn short(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}
