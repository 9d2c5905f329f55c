//! `audit report`: a period as a page.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::time::{since, until};
use super::{days, open};
use crate::audit::query::Filter;
use crate::audit::read;
use crate::audit::report::numbers::Report;
use crate::audit::report::text::visible_json;
use crate::audit::report::{Collector, Known, html, markdown};
use crate::audit::verify::files;
use crate::cli::place::Place;
use crate::cli::progress::Progress;
use crate::cli::{Outcome, policy};
use crate::engine::bundle::Bundle;
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::policy::Locations;

/// Show a period as a page: what was decided, by what, how fast, and where the guard was off
///
/// Needs no key: a copy of a record can be reported on any machine. Which policies never matched is told
/// of the ones in force here, or of those in `--policies`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Times are UTC: `2026-01-02`, `2026-01-02T03:04:05Z`, or how long ago: `90m`, `7d`, `2w`.\n\
    Exit codes: 0 reported · 1 it cannot be read or written · 3 policy invalid · 64 usage."
)]
pub(super) struct Args {
    /// Files of a record, in any order, or its directory [default: this installation's record]
    paths: Vec<PathBuf>,
    /// Nothing older
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Only what is older; a day counts as a whole
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// The form [default: by the ending of the output, else md]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write, and to replace if it is there [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The directory that policies are read from
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// The directory that record, key and compiled policies are kept in
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    state: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Markdown
    Md,
    /// One page with charts, for a browser
    Html,
    /// The numbers, for programs
    Json,
}

/// The policies that are asked about.
enum Policies {
    Known(Box<Bundle>),
    NotGiven,
    Broken,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let files = args.files()?;
    if let Some(output) = &args.output {
        spare(output, &files)?;
    }
    let policies = match args.known() {
        Ok(policies) => policies,
        Err(problems) => {
            policy::show_problems(&problems, &mut anstream::stderr())?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let report = args.collect(&files, &policies)?;
    let text = match args.format() {
        Format::Md => markdown::render(&report),
        Format::Html => html::render(&report),
        Format::Json => visible_json(&format!("{:#}\n", serde_json::to_value(&report)?)),
    };
    match &args.output {
        None => out.write_all(text.as_bytes())?,
        Some(output) => replace(output, &text)
            .map_err(|error| format!("cannot write `{}`: {}", output.display(), words(&error)))?,
    }
    Ok(Exit::Ok)
}

impl Args {
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        if self.paths.is_empty() {
            return days(self.state.as_deref());
        }
        let listed = files::list(&self.paths).map_err(|error| error.0)?;
        Ok(listed.files)
    }

    fn format(&self) -> Format {
        let ending = self.output.as_ref().and_then(|path| path.extension());
        let by_ending = match ending.and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Format::Html,
            Some("json") => Format::Json,
            _ => Format::Md,
        };
        self.format.unwrap_or(by_ending)
    }

    /// The policies: those of a directory that was named, else of this installation. A record from
    /// elsewhere was not judged by these.
    fn known(&self) -> Result<Policies, Vec<crate::policy::Problem>> {
        let known = |bundle| Policies::Known(Box::new(bundle));
        if !self.paths.is_empty() {
            let Some(dir) = &self.policies else {
                return Ok(Policies::NotGiven);
            };
            let locations = Locations::only(dir);
            return crate::policy::load(&locations).map(known);
        }
        let place = Place {
            policies: self.policies.clone(),
            state: self.state.clone(),
        };
        let cwd = std::env::current_dir().ok();
        match place.policies(cwd.as_deref()) {
            Ok(bundle) => Ok(known(bundle)),
            Err(problems) if self.policies.is_some() => Err(problems),
            // A report is what a person wants who looks for the reason.
            Err(_) => Ok(Policies::Broken),
        }
    }

    fn collect(&self, files: &[PathBuf], policies: &Policies) -> Result<Report, String> {
        let known = match policies {
            Policies::Known(bundle) => Known::Policies(bundle),
            Policies::NotGiven => Known::NotGiven,
            Policies::Broken => Known::Broken,
        };
        let mut collector = Collector::new(self.since, self.until, &known);
        let days = Filter {
            since: collector.wants_since(),
            until: self.until,
            ..Filter::default()
        };
        let files: Vec<&PathBuf> = files.iter().filter(|file| days.wants_day(file)).collect();
        let size = |file: &&PathBuf| file.metadata().map_or(0, |metadata| metadata.len());
        let mut progress = Progress::bytes(files.iter().map(size).sum());
        for file in files {
            collector
                .file(open(file)?, &mut |bytes| {
                    progress.at(usize::try_from(bytes).unwrap_or(usize::MAX));
                })
                .map_err(|error| format!("cannot read `{}`: {}", file.display(), words(&error)))?;
        }
        Ok(collector.finish())
    }
}

/// No report takes the place of a record.
fn spare(output: &Path, files: &[PathBuf]) -> Result<(), String> {
    let real = |path: &Path| path.canonicalize().ok();
    let output_is = real(output);
    let listed = files.iter().any(|file| real(file) == output_is);
    if read::day_of(output).is_some() || (output_is.is_some() && listed) {
        return Err(format!(
            "`{}` is a file of a record\nhelp: name another file with `--output`",
            output.display()
        ));
    }
    Ok(())
}

/// Writes a file whole or not at all; into what is no plain file, such as a pipe, as it comes.
fn replace(output: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(output).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(output, text);
    }
    let folder = output.parent().filter(|folder| *folder != Path::new(""));
    // Only for the owner, as the record is.
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(output)?;
    Ok(())
}
