//! `policy import`: from the legacy form in JSON.

use std::io::Write;
use std::path::PathBuf;

use super::show_problems;
use crate::cli::Outcome;
use crate::exit::Exit;
use crate::policy::{self, Layer};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The legacy form has `allowedTools`, `blockedTools`, `askTools` and `blockedPatterns`. \
    What cannot be taken over without a change of meaning is an error."
)]
pub(super) struct Args {
    /// The legacy policy
    file: PathBuf,
    /// The directory to write; it must not hold policies yet [default: show the files]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Add the default containment: paths, commands, and what protects the bridge itself
    #[arg(long)]
    contained: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| format!("cannot read `{name}`: {error}"))?;
    let imported = match policy::import::import(&name, &text) {
        Ok(imported) => imported,
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::Failed);
        }
    };
    show_problems(&imported.warnings, out)?;
    let mut files: policy::edit::Files = imported.files.into_iter().collect();
    if args.contained {
        files.extend(
            policy::source::EMBEDDED
                .iter()
                .filter(|(name, _)| name.starts_with("containment."))
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned())),
        );
    } else {
        writeln!(
            out,
            "note: the legacy form says nothing of paths, and nothing here protects the bridge itself; --contained adds that"
        )?;
    }
    let Some(dir) = &args.into else {
        for (name, text) in &files {
            writeln!(out, "---- {name}\n{text}")?;
        }
        return Ok(Exit::Ok);
    };
    match policy::edit::publish(Layer::User, dir, &policy::edit::Files::new(), &files) {
        Ok(names) => {
            writeln!(out, "wrote {} into `{}`", names.join(", "), dir.display())?;
            Ok(Exit::Ok)
        }
        Err(problem) => {
            show_problems(&[problem], out)?;
            Ok(Exit::Failed)
        }
    }
}
