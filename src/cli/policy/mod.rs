//! `policy`: the workbench of those who write policies, one file a verb.

mod check;
mod compile;
mod edit;
mod import;
mod lint;

use std::io::Write;

use super::Outcome;
use crate::policy::Problem;
use crate::policy::diagnostic::render;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Say everything that is wrong with the policies, with file, line and column
    Check(check::Args),
    /// Say what is odd about policies that are in order: dead, shadowed, too broad, leading astray
    Lint(lint::Args),
    /// Compile the policies that are in force here, so that hooks start faster
    Compile(compile::Args),
    /// Edit a copy of the policies, check it, and put it in their place only if it is in order
    Edit(edit::Args),
    /// Turn a legacy permission policy in JSON into policy files
    Import(import::Args),
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Outcome {
    match args.verb {
        Verb::Check(args) => check::run(&args, out),
        Verb::Lint(args) => lint::run(&args, out),
        Verb::Compile(args) => compile::run(&args, out),
        Verb::Edit(args) => edit::run(&args, out),
        Verb::Import(args) => import::run(&args, out),
    }
}

pub(crate) fn show_problems(problems: &[Problem], out: &mut dyn Write) -> std::io::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    // The stream below takes the colours out where nobody can see them.
    out.write_all(render::text(problems, true).as_bytes())
}
