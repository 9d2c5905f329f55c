//! `policy lint`: what is odd about policies that are in order.

use std::io::Write;
use std::path::PathBuf;

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::policy::diagnostic::{render, suggest};
use crate::policy::{self, Code, Locations, Problem, Severity};
use crate::workbench::lint::{self, hipaa};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A directory of policies [default: the ones that are in force here]
    dir: Option<PathBuf>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// From which findings on the exit code is 1
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Level::Warning)]
    fail_on: Level,
    /// Look for what this rule finds, and nothing else
    #[arg(long, value_name = "RULE", conflicts_with = "hipaa")]
    rule: Option<String>,
    /// Say what a rule finds, why it matters and what to do; `all` lists the rules
    #[arg(long, value_name = "RULE", conflicts_with_all = ["dir", "hipaa", "rule"])]
    explain: Option<String>,
    /// Answer the points of a health checklist instead, as text or JSON
    #[arg(long)]
    hipaa: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people, with the place underlined
    Text,
    /// For programs
    Json,
    /// For code scanning
    Sarif,
    /// For the log of a GitHub workflow, which shows it beside the lines
    Github,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Level {
    /// What may well be meant
    Note,
    /// What is odd
    Warning,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if let Some(rule) = &args.explain {
        return explain(rule, out);
    }
    if args.hipaa && matches!(args.format, Format::Sarif | Format::Github) {
        return usage("the checklist is shown as `text` or `json`");
    }
    let only = match args.rule.as_deref().map(rule).transpose() {
        Ok(only) => only,
        Err(text) => return usage(&text),
    };
    let locations = match &args.dir {
        Some(dir) => Locations::only(dir),
        None => args
            .place
            .locations(std::env::current_dir().ok().as_deref()),
    };
    let (checked, reading) = policy::read(&locations);
    let Some(bundle) = &checked.bundle else {
        show(args.format, &checked.problems, out)?;
        return Ok(Exit::PolicyInvalid);
    };
    if args.hipaa {
        let rows = hipaa::checklist(&reading, bundle, &checked.problems)?;
        return checklist(&rows, args.format, out);
    }
    let found = lint::lint(&reading, bundle, &checked.problems, only);
    show(args.format, &found, out)?;
    if args.format == Format::Text && found.is_empty() {
        writeln!(out, "ok: {} policies", bundle.policies.len())?;
    }
    let least = match args.fail_on {
        Level::Note => Severity::Note,
        Level::Warning => Severity::Warning,
    };
    Ok(if found.iter().any(|problem| problem.severity >= least) {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

fn show(format: Format, problems: &[Problem], out: &mut dyn Write) -> std::io::Result<()> {
    match format {
        Format::Text => show_problems(problems, out),
        Format::Json => writeln!(out, "{:#}", render::json(problems)),
        Format::Sarif => writeln!(out, "{:#}", render::sarif(problems)),
        Format::Github => out.write_all(render::github(problems).as_bytes()),
    }
}

fn rule(name: &str) -> Result<Code, String> {
    let rules = lint::rules();
    if let Some(code) = rules.iter().find(|code| code.name() == name) {
        return Ok(*code);
    }
    let help = suggest(name, rules.iter().map(|code| code.name()))
        .unwrap_or_else(|| "`--explain all` lists them".to_owned());
    Err(format!("there is no rule `{name}`: {help}"))
}

fn usage(text: &str) -> Outcome {
    writeln!(anstream::stderr(), "error: {text}")?;
    Ok(Exit::Usage)
}

fn explain(name: &str, out: &mut dyn Write) -> Outcome {
    if name == "all" {
        for code in lint::rules() {
            writeln!(out, "{:<18} {}", code.name(), code.description())?;
        }
        return Ok(Exit::Ok);
    }
    match rule(name) {
        Ok(code) => {
            let text = lint::explain(code).unwrap_or(code.description());
            writeln!(out, "{text}")?;
            Ok(Exit::Ok)
        }
        Err(text) => usage(&text),
    }
}

fn checklist(rows: &[hipaa::Row], format: Format, out: &mut dyn Write) -> Outcome {
    let count = |state: hipaa::State| rows.iter().filter(|row| row.state == state).count();
    let failed = count(hipaa::State::Fail);
    if format == Format::Json {
        writeln!(out, "{:#}", hipaa::json(rows))?;
    } else {
        for row in rows {
            writeln!(out, "{} {:<7}  {}", row.id, row.state.name(), row.text)?;
            writeln!(out, "                  {} ({})", row.says, row.basis)?;
            for place in &row.evidence {
                writeln!(out, "                  {place}")?;
            }
        }
        let (passed, unknown) = (count(hipaa::State::Pass), count(hipaa::State::Unknown));
        writeln!(out, "\n{passed} pass, {failed} fail, {unknown} unknown")?;
    }
    Ok(if failed > 0 { Exit::Failed } else { Exit::Ok })
}
