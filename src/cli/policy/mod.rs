//! `policy`: the workbench of those who write policies, one file a verb.

mod bundle;
mod check;
mod compile;
mod diff;
mod edit;
mod fmt;
mod import;
mod lint;
mod new;
mod prove;
mod replay;
mod show;
mod suggest;
mod test;

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
    /// Make, sign, verify and fetch policies as one signed file, for many machines
    Bundle(bundle::Args),
    /// Say everything that is wrong with the policies, with file, line and column
    Check(check::Args),
    /// Say what is odd about policies that are in order: dead, shadowed, too broad, leading astray
    Lint(lint::Args),
    /// Compile the policies that are in force here, so that hooks start faster
    Compile(compile::Args),
    /// Say what two sets of policies do otherwise
    Diff(diff::Args),
    /// Edit a copy of the policies, check it, and put it in their place only if it is in order
    Edit(edit::Args),
    /// Bring Cedar files into one form
    Fmt(fmt::Args),
    /// Turn a legacy permission policy in JSON into policy files
    Import(import::Args),
    /// Prove what the policies do with every call that there can be
    Prove(prove::Args),
    /// Try whether the policies decide as the tests beside them say
    Test(test::Args),
    /// Judge the calls of a record again, and show what other policies would change
    Replay(replay::Args),
    /// Propose the rules that recorded calls would need in order to be allowed
    Suggest(suggest::Args),
    /// Write policies to begin with, for a kind of work
    New(new::Args),
    /// Say what is in force here, from which layer, in words
    Show(show::Args),
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Outcome {
    match args.verb {
        Verb::Bundle(args) => bundle::run(&args, out),
        Verb::Check(args) => check::run(&args, out),
        Verb::Lint(args) => lint::run(&args, out),
        Verb::Compile(args) => compile::run(&args, out),
        Verb::Diff(args) => diff::run(&args, out),
        Verb::Edit(args) => edit::run(&args, out),
        Verb::Fmt(args) => fmt::run(&args, out),
        Verb::Import(args) => import::run(&args, out),
        Verb::Prove(args) => prove::run(&args, out),
        Verb::Test(args) => test::run(&args, out),
        Verb::Replay(args) => replay::run(&args, out),
        Verb::Suggest(args) => suggest::run(&args, out),
        Verb::New(args) => new::run(&args, out),
        Verb::Show(args) => show::run(&args, out),
    }
}

pub(crate) fn show_problems(problems: &[Problem], out: &mut dyn Write) -> std::io::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    // The stream below takes the colours out where nobody can see them.
    out.write_all(render::text(problems, true).as_bytes())
}
