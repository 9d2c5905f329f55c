//! `policy compile`: the policies in the form that hooks read.

use std::io::Write;

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::policy;
use crate::policy::compile::Readers;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let locations = args
        .place
        .locations(std::env::current_dir().ok().as_deref());
    match policy::load(&locations) {
        Ok(bundle) => {
            let path = policy::compile::write(&args.place.state(), &bundle, Readers::Owner)?;
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
