//! `audit show`: all that the record says of one decision.

use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::row::{request, shown};
use super::{days, directory, open};
use crate::audit::query::lines;
use crate::cli::{Format, Outcome};
use crate::exit::Exit;

/// Show all that the record says of one decision
///
/// From the record alone: the policies may have changed since. `explain < event.json` says what those
/// of today make of an event.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The number of a line, or the host's id of a call: all that happened to it is shown
    #[arg(value_name = "SEQ|ID")]
    which: String,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The directory that record and key are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let dir = directory(args.state.as_deref());
    let number: Option<u64> = args.which.parse().ok();
    let quoted = Value::from(args.which.as_str()).to_string();
    let mut found = 0;
    for day in days(args.state.as_deref())? {
        lines(open(&day)?, &mut |line| {
            let numbered = number.is_some_and(|number| has_number(line, number));
            if !numbered && memchr::memmem::find(line, quoted.as_bytes()).is_none() {
                return Ok(());
            }
            let Ok(value) = serde_json::from_slice::<Value>(line) else {
                return Ok(());
            };
            let is = |name: &str, wanted: &Value| value.get(name) == Some(wanted);
            if !numbered && !is("call", &Value::from(args.which.as_str())) {
                return Ok(());
            }
            found += 1;
            match args.format {
                Format::Json => writeln!(out, "{value:#}"),
                Format::Text => {
                    if found > 1 {
                        writeln!(out)?;
                    }
                    tree(&value, out)
                }
            }
        })?;
    }
    if found == 0 {
        return Err(format!(
            "the record in `{}` has no line `{}`\nhelp: `copilot-bridge audit query` lists them, with `--format csv` by number",
            dir.display(),
            args.which
        )
        .into());
    }
    Ok(Exit::Ok)
}

/// Whether that is the line's number, without reading all of it.
fn has_number(line: &[u8], number: u64) -> bool {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    let digits = number.to_string();
    memchr::memmem::find(line, digits.as_bytes()).is_some()
        && serde_json::from_slice::<Numbered>(line).is_ok_and(|line| line.seq == number)
}

const HEAD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

fn tree(line: &Value, out: &mut dyn Write) -> io::Result<()> {
    let text = |name: &str| line.get(name).map(shown).unwrap_or_default();
    let mut head = |name: &str, value: String| match value.as_str() {
        "" => Ok(()),
        value => writeln!(out, "{HEAD}{name:<9}{HEAD:#} {value}"),
    };
    head("number", text("seq"))?;
    head("when", text("ts"))?;
    let dialect = match text("dialect").as_str() {
        "" => String::new(),
        dialect => format!(" ({dialect})"),
    };
    head(
        "event",
        format!("{}{dialect}, {}", text("event"), text("kind")),
    )?;
    head("session", text("session"))?;
    head("call", text("call"))?;
    let above = match text("parent").as_str() {
        "" => String::new(),
        parent => format!(", started by {parent}"),
    };
    if !text("agent").is_empty() || text("depth") != "0" {
        head(
            "agent",
            format!("{} at depth {}{above}", text("agent"), text("depth"))
                .trim()
                .to_owned(),
        )?;
    }
    head("entity", text("entity"))?;
    head(
        "where",
        format!(
            "{} (user {}, process {})",
            text("host"),
            text("uid"),
            text("pid")
        ),
    )?;
    head("cwd", text("cwd"))?;
    head("tool", text("tool"))?;
    head("arguments", text("args_redacted"))?;
    for one in list(line, "requests") {
        requested(one, out)?;
    }
    if line.get("truncated").is_some() {
        writeln!(
            out,
            "\n{DIM}the line was too long: some of it was left out{DIM:#}"
        )?;
    }
    decided(line, out)
}

fn list<'a>(line: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    line.get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn requested(one: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{HEAD}request{HEAD:#}   {}", request(one))?;
    for part in ["resource", "context"] {
        let facts = one.get(part).and_then(Value::as_object);
        for (name, value) in facts.into_iter().flatten() {
            let empty = match value {
                Value::Null | Value::Bool(false) => true,
                Value::String(text) => text.is_empty(),
                Value::Array(all) => all.is_empty(),
                _ => false,
            };
            // What is said above, and what the context leaves out, says nothing here.
            if name == "type" || (part == "context" && empty) {
                continue;
            }
            let value = match value {
                Value::String(_) => format!("`{}`", shown(value)),
                Value::Array(all) => {
                    format!("[{}]", all.iter().map(shown).collect::<Vec<_>>().join(", "))
                }
                value => shown(value),
            };
            writeln!(out, "  {DIM}{name}{DIM:#} {value}")?;
        }
    }
    Ok(())
}

fn decided(line: &Value, out: &mut dyn Write) -> io::Result<()> {
    let text = |name: &str| line.get(name).map(shown).unwrap_or_default();
    let decision = text("decision");
    let colour = match decision.as_str() {
        "allow" => AnsiColor::Green,
        "ask" => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    let style = colour.on_default().bold();
    writeln!(out, "\n{HEAD}decision{HEAD:#}  {style}{decision}{style:#}")?;
    if text("would_decide") != decision {
        writeln!(
            out,
            "{HEAD}would be{HEAD:#}  {} if nothing were only monitored",
            text("would_decide")
        )?;
    }
    for reason in list(line, "reasons") {
        let part = |name: &str| reason.get(name).map(shown).unwrap_or_default();
        let place = match part("file").as_str() {
            "" => String::new(),
            file => format!(" ({file}:{})", part("line")),
        };
        writeln!(out, "  {}{place}", part("id"))?;
    }
    for redaction in list(line, "redactions") {
        let part = |name: &str| redaction.get(name).map(shown).unwrap_or_default();
        writeln!(
            out,
            "{HEAD}redacted{HEAD:#}  {} at {}, {} times #{}",
            part("rule"),
            part("pointer"),
            part("count"),
            part("fingerprint")
        )?;
    }
    let mut rest = |name: &str, value: String| match value.as_str() {
        "" => Ok(()),
        value => writeln!(out, "{HEAD}{name:<9}{HEAD:#} {value}"),
    };
    let duties: Vec<String> = list(line, "obligations").map(shown).collect();
    rest("had to", duties.join(", "))?;
    rest("fault", text("error_class"))?;
    let detail = line.get("detail").and_then(Value::as_object);
    for (name, value) in detail.into_iter().flatten() {
        if !value.is_null() {
            rest("detail", format!("{name} {}", shown(value)))?;
        }
    }
    let trace = line.get("trace").and_then(|trace| trace.get("traceparent"));
    rest("trace", trace.map(shown).unwrap_or_default())?;
    rest("policies", text("policy_digest"))?;
    rest(
        "took",
        format!(
            "{} µs, version {}",
            text("latency_us"),
            text("engine_version")
        ),
    )
}
