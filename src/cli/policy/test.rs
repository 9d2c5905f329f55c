//! `policy test`: whether policies decide as their tests say.

mod watch;

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::gate::event::{Event, EventName};
use crate::hook::dialect::Dialect;
use crate::policy::diagnostic::render;
use crate::policy::{self, Code, Locations, Problem, SourceFile, layer};
use crate::workbench::suite::coverage::{Coverage, Observer};
use crate::workbench::suite::report::{github, json, junit, text};
use crate::workbench::suite::{self, Filter, Report, Suite};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A directory of policies with `tests/` in it, or files of tests [default: what is in force here]
    #[arg(value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// Only tests whose names hold this text, or that this glob fits; may be given several times
    #[arg(long, value_name = "TEXT", value_parser = Filter::new)]
    filter: Vec<Filter>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Say which policies, patterns, labels and rules no test comes to
    #[arg(long)]
    coverage: bool,
    /// Fail if tests come to less than so much of the policies
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    coverage_threshold: Option<u8>,
    /// Test again whenever policies or tests change, until Ctrl-C
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people, with the place underlined
    Text,
    /// For programs
    Json,
    /// For build servers, as XML
    Junit,
    /// For GitHub, as workflow commands
    Github,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let subject = match Subject::of(args) {
        Ok(subject) => subject,
        Err(error) => {
            writeln!(anstream::stderr(), "error: {error}")?;
            return Ok(Exit::Usage);
        }
    };
    if args.watch {
        return watch::run(&subject.watched(), out, &mut |out| {
            once(args, &subject, out)
        });
    }
    once(args, &subject, out)
}

/// What is tested, and by what.
struct Subject {
    locations: Locations,
    /// Files of tests that were named; none for those beside the policies.
    files: Vec<PathBuf>,
}

impl Subject {
    fn of(args: &Args) -> Result<Self, String> {
        let (dirs, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
            args.paths.iter().partition(|path| path.is_dir());
        let locations = match dirs.as_slice() {
            [] => args
                .place
                .locations(std::env::current_dir().ok().as_deref()),
            [_, ..] if args.place.policies.is_some() => {
                return Err(
                    "the policies are named twice: as a directory and by `--policies`".into(),
                );
            }
            [dir] => Locations::only(dir),
            [_, second, ..] => {
                return Err(format!(
                    "only one directory of policies can be tested at a time, not `{}` as well",
                    second.display()
                ));
            }
        };
        Ok(Self {
            locations,
            files: files.into_iter().cloned().collect(),
        })
    }

    /// The files of tests.
    fn tests(&self) -> Result<Vec<Arc<SourceFile>>, Vec<Problem>> {
        if self.files.is_empty() {
            return suite::files(&self.locations);
        }
        let mut problems = Vec::new();
        let mut files = Vec::new();
        for path in &self.files {
            match std::fs::read_to_string(path) {
                Ok(text) => files.push(SourceFile::alone(path, text)),
                Err(error) => {
                    let words = crate::facts::paths::words(&error);
                    let problem =
                        Problem::error(Code::Unreadable, format!("cannot be read: {words}"));
                    problems.push(problem.of(&SourceFile::alone(path, String::new())));
                }
            }
        }
        if problems.is_empty() {
            Ok(files)
        } else {
            Err(problems)
        }
    }

    /// Every place where something may change.
    fn watched(&self) -> Vec<PathBuf> {
        let layers = [
            layer::Layer::Organisation,
            layer::Layer::User,
            layer::Layer::Workspace,
        ];
        let dirs = layers
            .into_iter()
            .filter_map(|layer| layer::dir(&self.locations, layer));
        let dirs = dirs.chain(self.files.iter().filter_map(|file| file.parent()));
        let here = |dir: &Path| {
            if dir.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                dir.to_path_buf()
            }
        };
        dirs.map(here).filter(|dir| dir.is_dir()).collect()
    }
}

/// What came of one run.
struct Ran {
    report: Report,
    coverage: Option<Coverage>,
}

fn once(args: &Args, subject: &Subject, out: &mut dyn Write) -> Outcome {
    let ran = match tested(args, subject)? {
        Ok(ran) => ran,
        Err(problems) => {
            show_invalid(args.format, &problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let enough = match (&ran.coverage, args.coverage_threshold) {
        (Some(coverage), Some(least)) => coverage.percent() >= least,
        _ => true,
    };
    show(args, &ran, enough, out)?;
    if ran.report.tried.is_empty() {
        let text = if args.filter.is_empty() {
            "there are no tests: write some into `tests/` beside the policies"
        } else {
            "no test has such a name"
        };
        writeln!(anstream::stderr(), "error: {text}")?;
        return Ok(Exit::Failed);
    }
    Ok(if ran.report.passed() && enough {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

fn tested(args: &Args, subject: &Subject) -> Result<Result<Ran, Vec<Problem>>, Box<dyn Error>> {
    let read = layer::read(&subject.locations).and_then(|sources| {
        let bundle = policy::load_sources(&sources)?;
        let suite = Suite::load(&subject.tests()?, &parse)?;
        Ok((sources, bundle, suite))
    });
    let (sources, bundle, suite) = match read {
        Ok(read) => read,
        Err(problems) => return Ok(Err(problems)),
    };
    let suite = suite.filtered(&args.filter);
    if !args.coverage && args.coverage_threshold.is_none() {
        let report = suite.run(&bundle)?;
        let coverage = None;
        return Ok(Ok(Ran { report, coverage }));
    }
    let mut observer = Observer::new(&bundle)?;
    let report = suite.run_seeing(&bundle, &mut |passage| observer.see(passage))?;
    let coverage = Some(observer.coverage(&sources));
    Ok(Ok(Ran { report, coverage }))
}

/// An event in the JSON of a host. Its dialect is the one that the test says, else the one that it
/// shows.
pub(crate) fn parse(host: Option<&str>, name: EventName, event: &Value) -> Result<Event, String> {
    let dialect = match host {
        None => Dialect::detect(event),
        Some(host) => Dialect::from_name(host, false).ok_or_else(|| {
            format!(
                "`{host}` is no host: it is one of {}",
                Dialect::NAMES.join(", ")
            )
        })?,
    };
    dialect.parse(name, event)
}

fn show(args: &Args, ran: &Ran, enough: bool, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let coverage = ran.coverage.as_ref();
    match args.format {
        Format::Text => {
            // The stream below takes the colours out where nobody can see them.
            out.write_all(text::tests(&ran.report, true).as_bytes())?;
            if let Some(coverage) = coverage {
                out.write_all(text::coverage(coverage).as_bytes())?;
            }
        }
        Format::Json => writeln!(out, "{:#}", json::report(&ran.report, coverage))?,
        Format::Junit => out.write_all(junit::report(&ran.report)?.as_bytes())?,
        Format::Github => {
            let here = std::env::current_dir().ok();
            let here = here.as_deref();
            out.write_all(github::tests(&ran.report, here).as_bytes())?;
            if let Some(coverage) = coverage {
                out.write_all(github::coverage(coverage, enough, here).as_bytes())?;
            }
            out.write_all(text::counts(&ran.report).as_bytes())?;
        }
    }
    if let (false, Some(coverage), Some(least)) = (enough, coverage, args.coverage_threshold) {
        let percent = coverage.percent();
        writeln!(
            anstream::stderr(),
            "error: tests come to {percent} % of the policies, which is less than {least} %"
        )?;
    }
    Ok(())
}

fn show_invalid(
    format: Format,
    problems: &[Problem],
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    match format {
        Format::Text => show_problems(problems, out)?,
        Format::Json => writeln!(out, "{:#}", render::json(problems))?,
        Format::Junit => out.write_all(junit::problems(problems)?.as_bytes())?,
        Format::Github => {
            let here = std::env::current_dir().ok();
            out.write_all(github::problems(problems, here.as_deref()).as_bytes())?;
        }
    }
    Ok(())
}
