//! `explain`: why an event is allowed, asked or denied; `explain --last`: why was I stopped?

mod shell;

use std::io::{Read, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::place::Place;
use super::{Format, Outcome, policy};
use crate::engine::attribute::Value as Fact;
use crate::engine::bundle::Bundle;
use crate::engine::decision::{Effect, Reason};
use crate::engine::describe;
use crate::engine::exception::Exception;
use crate::engine::explain::{Why, why};
use crate::engine::permission::Judged;
use crate::engine::request::Request;
use crate::exit::Exit;
use crate::gate::event::{Event, EventName};
use crate::gate::{Gate, Passage, Sink};
use crate::hook::{self, dialect::Dialect};

#[derive(Debug, clap::Args)]
#[command(after_help = "Reads an event on stdin, as a host writes it:\n  \
    copilot-bridge explain < event.json\n\
    Exit codes: 0 allow or ask, 2 deny, 3 policy invalid.")]
pub(crate) struct Args {
    /// Show the last call that was asked or denied, from the record
    #[arg(long)]
    last: bool,
    /// Show what a command line would run here, and what becomes of it
    #[arg(long, value_name = "LINE", conflicts_with = "last")]
    shell: Option<String>,
    /// The event's name, where the event does not say it itself [default: pre-tool-use]
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// The dialect of the event [default: told from the event]
    #[arg(long, value_parser = Dialect::NAMES)]
    dialect: Option<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.last {
        return last(args, out);
    }
    if let Some(line) = &args.shell {
        return shell::run(args, line, out);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    let name = match &args.event {
        Some(name) => Some(EventName::parse(name).ok_or_else(|| format!("`{name}` is no event"))?),
        None => None,
    };
    let dialect = args
        .dialect
        .as_deref()
        .and_then(|name| Dialect::from_name(name, false));
    let (event, dialect) = hook::parse(&bytes, name, dialect)?;
    let cwd = event.cwd.as_deref().map(std::path::Path::new);
    let bundle = match args.place.policies(cwd) {
        Ok(bundle) => bundle,
        Err(problems) => {
            policy::show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let gate = Gate::new(Ok(bundle.clone()), args.place.installation(), Sink::Null);
    let passage = gate.walk(&event, Duration::ZERO);
    let shown = Shown {
        event: &event,
        dialect,
        bundle: &bundle,
        passage: &passage,
    };
    match args.format {
        Format::Text => shown.text(out)?,
        Format::Json => writeln!(out, "{:#}", shown.json())?,
    }
    Ok(exit_of(&passage))
}

/// The exit code that tells what became of the event.
fn exit_of(passage: &Passage) -> Exit {
    match passage.outcome.effect() {
        Effect::Deny => Exit::Denied,
        Effect::Allow | Effect::Ask => Exit::Ok,
    }
}

/// One event's way through the gate, ready to be shown.
pub(crate) struct Shown<'a> {
    pub(crate) event: &'a Event,
    pub(crate) dialect: Dialect,
    pub(crate) bundle: &'a Bundle,
    pub(crate) passage: &'a Passage,
}

const HEAD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

fn colour(effect: Effect) -> Style {
    let colour = match effect {
        Effect::Allow => AnsiColor::Green,
        Effect::Ask => AnsiColor::Yellow,
        Effect::Deny => AnsiColor::Red,
    };
    colour.on_default().bold()
}

impl Shown<'_> {
    fn text(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Self {
            event,
            bundle,
            passage,
            ..
        } = self;
        let agent = &event.agent;
        writeln!(
            out,
            "{HEAD}event{HEAD:#}     {} ({}), session {}",
            event.name.snake(),
            event.dialect,
            agent.session
        )?;
        if let Some(cwd) = &event.cwd {
            writeln!(out, "{HEAD}cwd{HEAD:#}       {cwd}")?;
        }
        if let Some(trace) = &passage.judgement {
            if !trace.tool.is_empty() {
                writeln!(out, "{HEAD}tool{HEAD:#}      {}", trace.tool)?;
            }
            for (request, judged) in &trace.verdicts {
                let effect = judged.as_ref().map_or(Effect::Deny, |judged| judged.effect);
                let style = colour(effect);
                writeln!(
                    out,
                    "\n{HEAD}request{HEAD:#}   {} → {style}{effect}{style:#}",
                    describe(request)
                )?;
                for (name, value) in request.resource.attributes() {
                    writeln!(out, "  {DIM}{name}{DIM:#} {}", fact(&value))?;
                }
                match judged {
                    Ok(judged) => {
                        for (index, why) in why(bundle, request, &judged.considered) {
                            self.policy_line(index, &why, out)?;
                            self.exception_lines(index, judged, out)?;
                        }
                    }
                    Err(error) => writeln!(out, "  cannot be judged: {}", error.message)?,
                }
            }
        }
        let effect = passage.outcome.effect();
        let style = colour(effect);
        writeln!(out, "\n{HEAD}decision{HEAD:#}  {style}{effect}{style:#}")?;
        if let Some(trace) = &passage.judgement
            && trace.would_decide != effect
        {
            writeln!(
                out,
                "{HEAD}would be{HEAD:#}  {} if nothing were only monitored, and without any exception",
                trace.would_decide
            )?;
        }
        for reason in passage.judgement.iter().flat_map(|trace| &trace.monitored) {
            writeln!(
                out,
                "{HEAD}watched{HEAD:#}   {} ({}:{})",
                reason.id, reason.file, reason.line
            )?;
        }
        for (exception, cause) in self.lapsed() {
            writeln!(
                out,
                "{HEAD}exception{HEAD:#} {} ({}:{}) is {cause}: until {}, {}",
                exception.id,
                exception.file,
                exception.line,
                until(exception),
                exception.owner
            )?;
        }
        for reason in passage.outcome.reasons() {
            reason_line(reason, out)?;
        }
        let (answer, code) = hook::preview(self.dialect, event.name, &passage.outcome);
        writeln!(
            out,
            "\n{HEAD}answer{HEAD:#}    {answer}\n{HEAD}exit{HEAD:#}      {code}"
        )
    }

    fn policy_line(&self, index: usize, why: &Why, out: &mut dyn Write) -> std::io::Result<()> {
        let Some(policy) = self.bundle.policies.get(index) else {
            return Ok(());
        };
        let verdict = match policy.verdict {
            crate::engine::bundle::Verdict::Permit => "permit",
            crate::engine::bundle::Verdict::Ask => "ask",
            crate::engine::bundle::Verdict::Forbid => "forbid",
        };
        let place = format!("{}:{}", policy.file, policy.line);
        match why {
            Why::Held => writeln!(
                out,
                "  {HEAD}held{HEAD:#}      {verdict} {} ({place})",
                policy.id
            ),
            Why::Scope => Ok(()),
            Why::When(part) => writeln!(
                out,
                "  {DIM}not{DIM:#}       {verdict} {} ({place}): false is `{part}`",
                policy.id
            ),
            Why::Unless(part) => writeln!(
                out,
                "  {DIM}not{DIM:#}       {verdict} {} ({place}): unless `{part}`",
                policy.id
            ),
            Why::Unknown(error) => writeln!(
                out,
                "  ?         {verdict} {} ({place}): {error}",
                policy.id
            ),
        }
    }

    /// The exceptions that leave out a policy that held.
    fn exception_lines(
        &self,
        policy: usize,
        judged: &Judged,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        let waived = judged.waived.iter().filter(|one| one.policy == policy);
        for exception in waived.filter_map(|one| self.exception(one.exception)) {
            writeln!(
                out,
                "  {HEAD}left out{HEAD:#}  by the exception {} ({}:{}) until {}, {}: {}",
                exception.id,
                exception.file,
                exception.line,
                until(exception),
                exception.owner,
                exception.reason
            )?;
        }
        Ok(())
    }

    fn exception(&self, index: usize) -> Option<&Exception> {
        self.bundle.settings.exceptions.get(index)
    }

    /// The exceptions that would fit but are not in force, and why not.
    fn lapsed(&self) -> impl Iterator<Item = (&Exception, &'static str)> {
        let trace = self.passage.judgement.iter();
        trace
            .flat_map(|trace| &trace.lapsed)
            .filter_map(|one| Some((self.exception(one.exception)?, one.cause.words())))
    }

    fn json(&self) -> Value {
        let Self {
            event,
            bundle,
            passage,
            ..
        } = self;
        let requests: Vec<Value> = passage
            .judgement
            .iter()
            .flat_map(|trace| &trace.verdicts)
            .map(|(request, judged)| {
                json!({
                    "request": request,
                    "in_words": describe(request),
                    "decision": judged.as_ref().map_or(Effect::Deny, |judged| judged.effect),
                    "error": judged.as_ref().err().map(|error| &error.message),
                    "policies": judged.as_ref().map(|judged| policies_json(bundle, request, judged)).unwrap_or_default(),
                })
            })
            .collect();
        let (answer, code) = hook::preview(self.dialect, event.name, &passage.outcome);
        json!({
            "version": 1,
            "event": event.name.snake(),
            "dialect": event.dialect,
            "session": event.agent.session,
            "cwd": event.cwd,
            "tool": passage.judgement.as_ref().map(|trace| &trace.tool),
            "requests": requests,
            "decision": passage.outcome.effect(),
            "would_decide": passage.judgement.as_ref().map(|trace| trace.would_decide),
            "monitored": passage.judgement.as_ref().map(|trace| &trace.monitored),
            "lapsed_exceptions": self.lapsed().map(|(exception, cause)| json!({
                "id": exception.id, "because": cause, "until": until(exception), "owner": exception.owner,
            })).collect::<Vec<_>>(),
            "reasons": passage.outcome.reasons(),
            "answer": {"stdout": answer, "exit": code},
            "policy_digest": bundle.digest,
        })
    }
}

/// From when on an exception means nothing.
fn until(exception: &Exception) -> String {
    Timestamp::from_second(exception.expires)
        .map(|time| time.to_string())
        .unwrap_or_default()
}

fn policies_json(bundle: &Bundle, request: &Request, judged: &Judged) -> Vec<Value> {
    why(bundle, request, &judged.considered)
        .into_iter()
        .filter_map(|(index, why)| {
            let policy = bundle.policies.get(index)?;
            let (held, because) = match why {
                Why::Held => (Some(true), None),
                Why::Scope => (Some(false), Some("its scope".to_owned())),
                Why::When(part) => (Some(false), Some(format!("when: {part}"))),
                Why::Unless(part) => (Some(false), Some(format!("unless: {part}"))),
                Why::Unknown(error) => (None, Some(error)),
            };
            let waived = judged.waived.iter().filter(|one| one.policy == index);
            let exceptions: Vec<Value> = waived
                .filter_map(|one| bundle.settings.exceptions.get(one.exception))
                .map(|one| {
                    json!({
                        "id": one.id, "file": one.file, "line": one.line, "until": until(one),
                        "owner": one.owner, "reason": one.reason,
                    })
                })
                .collect();
            Some(json!({
                "id": policy.id, "file": policy.file, "line": policy.line,
                "effect": policy.verdict.effect(), "held": held, "because": because,
                "left_out_by": exceptions,
            }))
        })
        .collect()
}

pub(crate) fn reason_line(reason: &Reason, out: &mut dyn Write) -> std::io::Result<()> {
    let place = if reason.file.is_empty() {
        String::new()
    } else {
        format!(" ({}:{})", reason.file, reason.line)
    };
    writeln!(out, "  {}{place}: {}", reason.id, reason.text)?;
    if !reason.help.is_empty() {
        writeln!(out, "    next: {}", reason.help)?;
    }
    Ok(())
}

fn fact(value: &Fact<'_>) -> String {
    match value {
        Fact::Bool(b) => b.to_string(),
        Fact::Long(n) => n.to_string(),
        Fact::String(s) => format!("`{}`", s.replace('\n', "\\n")),
        Fact::Set(all) => format!("[{}]", all.iter().cloned().collect::<Vec<_>>().join(", ")),
        Fact::Tags(all) => {
            let names: Vec<&str> = all.keys().map(String::as_str).collect();
            format!("{{{}}}", names.join(", "))
        }
    }
}

/// The newest call that was asked or denied, as the record has it. The arguments are not in it.
fn last(args: &Args, out: &mut dyn Write) -> Outcome {
    let state = args.place.state();
    let record = crate::audit::read::last(&state, |record| {
        matches!(
            record.get("decision").and_then(Value::as_str),
            Some("ask" | "deny")
        )
    })?;
    let Some(record) = record else {
        writeln!(
            out,
            "nothing was asked or denied yet (the record is in `{}`)",
            state.join("audit").display()
        )?;
        return Ok(Exit::Ok);
    };
    if args.format == Format::Json {
        writeln!(out, "{record:#}")?;
        return Ok(Exit::Ok);
    }
    let text = |key: &str| {
        record
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or("-")
            .to_owned()
    };
    let effect = if text("decision") == "deny" {
        Effect::Deny
    } else {
        Effect::Ask
    };
    let style = colour(effect);
    writeln!(out, "{HEAD}when{HEAD:#}      {}", text("ts"))?;
    writeln!(
        out,
        "{HEAD}event{HEAD:#}     {} ({}), session {}",
        text("event"),
        text("dialect"),
        text("session")
    )?;
    writeln!(out, "{HEAD}cwd{HEAD:#}       {}", text("cwd"))?;
    writeln!(out, "{HEAD}tool{HEAD:#}      {}", text("tool"))?;
    for request in record
        .get("requests")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let action = request.get("action").and_then(Value::as_str).unwrap_or("-");
        let resource = request
            .get("resource")
            .map(Value::to_string)
            .unwrap_or_default();
        writeln!(out, "{HEAD}request{HEAD:#}   {action} {resource}")?;
    }
    writeln!(out, "{HEAD}decision{HEAD:#}  {style}{effect}{style:#}")?;
    for reason in record
        .get("reasons")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let part = |key: &str| {
            reason
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let line = reason
            .get("line")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        writeln!(out, "  {} ({}:{line})", part("id"), part("file"))?;
    }
    writeln!(
        out,
        "The policies say why in full: `copilot-bridge explain < event.json`."
    )?;
    Ok(Exit::Ok)
}
