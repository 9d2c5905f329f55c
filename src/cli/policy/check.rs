//! `policy check`: everything that is wrong with the policies.

use std::io::Write;
use std::path::PathBuf;

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::policy::diagnostic::render;
use crate::policy::{self, Locations};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A directory of policies [default: the ones that are in force here]
    dir: Option<PathBuf>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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
    /// For GitHub, as workflow commands
    Github,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let locations = match &args.dir {
        Some(dir) => Locations::only(dir),
        None => args
            .place
            .locations(std::env::current_dir().ok().as_deref()),
    };
    let checked = policy::check(&locations);
    match args.format {
        Format::Text => {
            show_problems(&checked.problems, out)?;
            if let Some(bundle) = &checked.bundle {
                let exceptions = match bundle.settings.exceptions.len() {
                    0 => String::new(),
                    1 => ", 1 exception".to_owned(),
                    more => format!(", {more} exceptions"),
                };
                let policies = bundle.policies.len();
                writeln!(out, "ok: {policies} policies{exceptions}")?;
            }
        }
        Format::Json => writeln!(out, "{:#}", render::json(&checked.problems))?,
        Format::Github => out.write_all(render::github(&checked.problems).as_bytes())?,
        Format::Sarif => writeln!(out, "{:#}", render::sarif(&checked.problems))?,
    }
    Ok(if checked.bundle.is_some() {
        Exit::Ok
    } else {
        Exit::PolicyInvalid
    })
}
