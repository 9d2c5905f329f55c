//! `policy`: check, compile, edit and import policies.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::Outcome;
use super::place::Place;
use crate::engine::bundle::Bundle;
use crate::exit::Exit;
use crate::policy::{self, Base, Locations, Problem};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Say everything that is wrong with the policies, with file, line and column
    Check(Check),
    /// Compile the policies that are in force here, so that hooks start faster
    Compile(Compile),
}

#[derive(Debug, clap::Args)]
struct Check {
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
}

#[derive(Debug, clap::Args)]
struct Compile {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Outcome {
    match args.verb {
        Verb::Check(args) => check(&args, out),
        Verb::Compile(args) => compile(&args, out),
    }
}

fn check(args: &Check, out: &mut dyn Write) -> Outcome {
    let locations = match &args.dir {
        Some(dir) => Locations {
            organisation: None,
            base: Base::Configured(dir.clone()),
            workspace: None,
        },
        None => args
            .place
            .locations(std::env::current_dir().ok().as_deref()),
    };
    let checked = policy::check(&locations);
    show_problems(&checked.problems, out)?;
    let _ = args.format;
    Ok(match &checked.bundle {
        Some(bundle) => {
            writeln!(out, "ok: {} policies", bundle.policies.len())?;
            Exit::Ok
        }
        None => Exit::PolicyInvalid,
    })
}

fn compile(args: &Compile, out: &mut dyn Write) -> Outcome {
    let locations = args
        .place
        .locations(std::env::current_dir().ok().as_deref());
    match policy::load(&locations) {
        Ok(bundle) => {
            let path = policy::compile::write(&args.place.state(), &bundle)?;
            writeln!(
                out,
                "compiled {} policies into `{}`",
                bundle.policies.len(),
                path.display()
            )?;
            Ok(Exit::Ok)
        }
        Err(problems) => {
            show_problems(&problems, out)?;
            Ok(Exit::PolicyInvalid)
        }
    }
}

/// The policies that are in force for an agent that works in `cwd`.
pub(crate) fn open(place: &Place, cwd: Option<&Path>) -> Result<Bundle, Vec<Problem>> {
    policy::open(&place.locations(cwd), Some(&place.state()))
}

pub(crate) fn show_problems(problems: &[Problem], out: &mut dyn Write) -> std::io::Result<()> {
    for problem in problems {
        writeln!(out, "{}: {}", problem.severity.name(), problem.one_line())?;
    }
    Ok(())
}
