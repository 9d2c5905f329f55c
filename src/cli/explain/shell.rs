//! `explain --shell 'LINE'`: the commands of a line, what stands inside of what, and what becomes
//! of each.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Args, DIM, HEAD, colour, exit_of};
use crate::cli::place::Here;
use crate::cli::{Format, Outcome, policy};
use crate::engine::bundle::Bundle;
use crate::engine::decision::Effect;
use crate::engine::permission::Judged;
use crate::engine::request::{PathFacts, Request, Resource};
use crate::exit::Exit;
use crate::facts::shell::{self, Command, Line, Surroundings};
use crate::gate::event::EventName;
use crate::gate::{Gate, Passage, Sink};
use crate::hook::{self, dialect::Dialect};

pub(super) fn run(args: &Args, line: &str, out: &mut dyn Write) -> Outcome {
    let Here {
        cwd,
        bundle,
        installation: here,
        workspace,
    } = match args.place.here()? {
        Ok(here) => here,
        Err(problems) => {
            policy::show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let tables = &bundle.settings.containment;
    let analysed = shell::analyse(
        line,
        tables,
        Surroundings {
            cwd: &workspace.cwd,
            root: workspace.root.as_deref(),
            home: here.home.as_deref(),
        },
    );
    let event = json!({
        "sessionId": "explain",
        "cwd": cwd,
        "toolName": "bash",
        "toolArgs": {"command": line},
    });
    let (event, _) = hook::parse(
        event.to_string().as_bytes(),
        Some(EventName::PreToolUse),
        Some(Dialect::Copilot),
    )?;
    let gate = Gate::new(Ok(bundle.clone()), here, Sink::Null);
    let passage = gate.walk(&event, Duration::ZERO);
    let shown = Shown {
        line,
        analysed: &analysed,
        bundle: &bundle,
        passage: &passage,
    };
    match args.format {
        Format::Text => shown.text(out)?,
        Format::Json => writeln!(out, "{:#}", shown.json())?,
    }
    Ok(exit_of(&passage))
}

struct Shown<'a> {
    line: &'a str,
    analysed: &'a Line,
    bundle: &'a Bundle,
    passage: &'a Passage,
}

impl Shown<'_> {
    fn text(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let effect = self.passage.outcome.effect();
        let style = colour(effect);
        writeln!(
            out,
            "{HEAD}{}{HEAD:#} → {style}{effect}{style:#}",
            self.line
        )?;
        if let Some(why) = self.analysed.uncertain {
            writeln!(out, "  {DIM}not understood{DIM:#} {why}")?;
        }
        for command in &self.analysed.commands {
            let (effect, policies) = self.judged(|request| is(request, command));
            let style = colour(effect);
            let indent = "   ".repeat(command.depth);
            writeln!(
                out,
                "{indent}└─ {} → {style}{effect}{style:#}",
                command.text.replace('\n', "↵")
            )?;
            let labels: Vec<&str> = command.labels.iter().map(String::as_str).collect();
            for (name, value) in [
                ("effects", labels.join(" ")),
                ("code", command.code.name().to_owned()),
                (
                    "open",
                    if command.certain {
                        ""
                    } else {
                        "a word that matters is not known"
                    }
                    .to_owned(),
                ),
                ("by", policies.join(" ")),
                ("excepted", self.excepted(command).join(" ")),
            ] {
                if !value.is_empty() {
                    writeln!(out, "{indent}   {DIM}{name}{DIM:#} {value}")?;
                }
            }
        }
        for (request, facts, effect) in self.paths() {
            let style = colour(effect);
            let place = if facts.inside { "inside" } else { "outside" };
            let labels: Vec<&str> = facts.labels.iter().map(String::as_str).collect();
            writeln!(
                out,
                "{:>6} {} {DIM}{} {place} {}{DIM:#} → {style}{effect}{style:#}",
                verb(request),
                facts.given,
                facts.resolved,
                labels.join(" "),
            )?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let commands = self.analysed.commands.iter().map(|command| {
            let (effect, policies) = self.judged(|request| is(request, command));
            json!({
                "text": command.text,
                "depth": command.depth,
                "program": command.program,
                "labels": command.labels,
                "code": command.code.name(),
                "certain": command.certain,
                "decision": effect,
                "policies": policies,
                "exceptions": self.excepted(command),
            })
        });
        let paths = self.paths().map(|(request, facts, effect)| {
            json!({
                "access": verb(request),
                "given": facts.given,
                "resolved": facts.resolved,
                "inside": facts.inside,
                "labels": facts.labels,
                "decision": effect,
            })
        });
        json!({
            "line": self.line,
            "decision": self.passage.outcome.effect(),
            "uncertain": self.analysed.uncertain,
            "commands": commands.collect::<Vec<_>>(),
            "paths": paths.collect::<Vec<_>>(),
        })
    }

    /// The strictest answer to the requests that are meant, and the policies that gave it.
    fn judged(&self, meant: impl Fn(&Request) -> bool) -> (Effect, Vec<&str>) {
        let mut strictest = Effect::Allow;
        let mut policies = Vec::new();
        for (request, judged) in self.verdicts() {
            let Some(judged) = judged.filter(|_| meant(request)) else {
                continue;
            };
            if judged.effect >= strictest {
                strictest = judged.effect;
                let deciding = judged.deciding.iter();
                policies = deciding
                    .filter_map(|index| self.bundle.policies.get(*index))
                    .map(|policy| policy.id.as_str())
                    .collect();
            }
        }
        (strictest, policies)
    }

    /// The exceptions that leave a policy out for that command.
    fn excepted(&self, command: &Command) -> Vec<&str> {
        let mut ids = Vec::new();
        let meant = self.verdicts().filter(|(request, _)| is(request, command));
        for waived in meant
            .filter_map(|(_, judged)| judged)
            .flat_map(|judged| &judged.waived)
        {
            let exception = self.bundle.settings.exceptions.get(waived.exception);
            if let Some(id) = exception
                .map(|one| one.id.as_str())
                .filter(|id| !ids.contains(id))
            {
                ids.push(id);
            }
        }
        ids
    }

    fn paths(&self) -> impl Iterator<Item = (&Request, &PathFacts, Effect)> {
        self.verdicts().filter_map(|(request, judged)| {
            let Resource::Path(facts) = &request.resource else {
                return None;
            };
            Some((
                request,
                facts,
                judged.map_or(Effect::Deny, |judged| judged.effect),
            ))
        })
    }

    fn verdicts(&self) -> impl Iterator<Item = (&Request, Option<&Judged>)> {
        let trace = self.passage.judgement.as_ref();
        trace
            .into_iter()
            .flat_map(|trace| &trace.verdicts)
            .map(|(request, judged)| (request, judged.as_ref().ok()))
    }
}

fn is(request: &Request, command: &Command) -> bool {
    matches!(&request.resource, Resource::Command(facts)
        if facts.text == command.text && facts.program == command.program)
}

fn verb(request: &Request) -> &str {
    match request.context.operation.as_str() {
        "" => request.action.name(),
        operation => operation,
    }
}
