//! `policy prove`: what the policies do with every call that there can be.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::policy::cedar::invariants::{self, Invariant};
use crate::policy::diagnostic::render;
use crate::policy::{self, Base, Locations, Problem};
use crate::workbench::prove::{self, Means, NO_DEAD, NO_ERRORS, Status, Task, report};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 all is proved · 1 something is disproved · 3 policy invalid · \
    4 something could not be found out, or there is no solver · 64 usage."
)]
pub(super) struct Args {
    /// A directory of policies [default: the ones that are in force here]
    dir: Option<PathBuf>,
    /// Cedar policies that say what must hold, besides the built-in properties
    #[arg(long, value_name = "FILE")]
    invariant: Vec<PathBuf>,
    /// Only the properties of these names
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Print the built-in properties, as Cedar
    #[arg(long, conflicts_with_all = ["dir", "invariant", "only"])]
    properties: bool,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    solver: Solver,
    #[command(flatten)]
    place: Place,
}

/// The solver, and how long it may think.
#[derive(Debug, clap::Args)]
pub(super) struct Solver {
    /// The solver [default: `cvc5` in PATH]
    #[arg(long, value_name = "PROGRAM")]
    cvc5: Option<PathBuf>,
    /// How many seconds the solver may think about one question
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people, with the place underlined
    Text,
    /// For programs
    Json,
    /// Annotations of a GitHub workflow
    Github,
}

impl Solver {
    pub(super) fn means(&self) -> Means {
        Means {
            cvc5: self.cvc5.clone(),
            path: std::env::var_os("PATH"),
            limit: Duration::from_secs(u64::from(self.timeout)),
        }
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.properties {
        out.write_all(prove::PROPERTIES.as_bytes())?;
        return Ok(Exit::Ok);
    }
    let locations = match &args.dir {
        Some(dir) => Locations {
            base: Base::Configured(dir.clone()),
            ..Locations::default()
        },
        None => args
            .place
            .locations(std::env::current_dir().ok().as_deref()),
    };
    let read = policy::layer::read(&locations)
        .and_then(|sources| Ok((policy::load_sources(&sources)?, sources)));
    let (bundle, sources) = match read {
        Ok(read) => read,
        Err(problems) => return invalid(&problems, args.format, out),
    };
    let invariants = match written(&args.invariant) {
        Ok(invariants) => invariants,
        Err(problems) => return invalid(&problems, args.format, out),
    };
    if let Some(unknown) = unknown(&args.only, &invariants) {
        writeln!(
            anstream::stderr(),
            "error: there is no property `{unknown}`\nhelp: `copilot-bridge policy prove --properties` prints those that are built in"
        )?;
        return Ok(Exit::Usage);
    }
    let task = Task {
        bundle: &bundle,
        sources: &sources,
        invariants,
        only: &args.only,
    };
    let report = match prove::prove(task, &args.solver.means()) {
        Ok(report) => report,
        Err(why) => return unprovable(&why, args.format, out),
    };
    match args.format {
        Format::Text => report::text(&report, out)?,
        Format::Json => writeln!(out, "{:#}", report::json(&report))?,
        Format::Github => {
            for problem in report::problems(&report) {
                out.write_all(render::github(std::slice::from_ref(problem)).as_bytes())?;
            }
            writeln!(out, "{}", report::summary(&report))?;
        }
    }
    Ok(match report.status() {
        Status::Proved => Exit::Ok,
        Status::Disproved => Exit::Failed,
        Status::Unknown => Exit::Unknown,
    })
}

/// The invariants of those files, or what is wrong with them.
fn written(files: &[PathBuf]) -> Result<Vec<Invariant>, Vec<Problem>> {
    let mut known: Vec<String> = prove::built_in()?
        .into_iter()
        .map(|claim| claim.id)
        .collect();
    known.extend([NO_ERRORS.0, NO_DEAD.0].map(str::to_owned));
    let mut all = Vec::new();
    let mut problems = Vec::new();
    for file in files {
        match invariants::read(file) {
            Ok(found) => all.extend(found),
            Err(found) => problems.extend(found),
        }
    }
    for claim in &all {
        if known.contains(&claim.id) {
            let text = format!("there is another property `{}`", claim.id);
            let problem = Problem::error(policy::Code::DuplicateId, text);
            problems.push(problem.at(&claim.file, claim.span.clone()));
        }
        known.push(claim.id.clone());
    }
    if problems.is_empty() {
        Ok(all)
    } else {
        Err(problems)
    }
}

fn unknown<'a>(only: &'a [String], invariants: &[Invariant]) -> Option<&'a String> {
    let built_in = prove::built_in().unwrap_or_default();
    let known = |id: &str| {
        [NO_ERRORS.0, NO_DEAD.0].contains(&id)
            || built_in
                .iter()
                .chain(invariants)
                .any(|claim| claim.id == id)
    };
    only.iter().find(|id| !known(id))
}

pub(super) fn invalid(problems: &[Problem], format: Format, out: &mut dyn Write) -> Outcome {
    match format {
        Format::Text => show_problems(problems, out)?,
        Format::Json => writeln!(out, "{:#}", render::json(problems))?,
        Format::Github => out.write_all(render::github(problems).as_bytes())?,
    }
    Ok(Exit::PolicyInvalid)
}

/// Nothing is proved, and nothing looks as if it were.
fn unprovable(why: &prove::Unprovable, format: Format, out: &mut dyn Write) -> Outcome {
    match format {
        Format::Text => {
            writeln!(anstream::stderr(), "error: {why}\nhelp: {}", why.help())?;
        }
        Format::Json => writeln!(
            out,
            "{:#}",
            serde_json::json!({
                "version": report::JSON_VERSION,
                "status": Status::Unknown.name(),
                "error": why.to_string(),
                "help": why.help(),
                "properties": [],
            })
        )?,
        Format::Github => writeln!(out, "::error title=not-proved::{why} ({})", why.help())?,
    }
    Ok(Exit::Unknown)
}
