//! The command line: one file a verb. `hook` is recognised before anything else is built.

mod approvals;
mod audit;
mod color;
mod completions;
mod config;
mod demo;
mod doctor;
mod explain;
mod hook;
mod init;
mod journal;
mod key;
#[cfg(all(unix, feature = "serve"))]
mod mcp;
#[cfg(all(unix, feature = "serve"))]
mod offers;
mod passphrase;
mod place;
mod policy;
mod progress;
mod redact;
mod register;
mod rooms;
mod sandbox;
mod schema;
mod scrub;
#[cfg(all(unix, feature = "serve"))]
mod serve;
#[cfg(all(unix, feature = "serve"))]
mod standing;
mod texts;
#[cfg(all(unix, feature = "serve"))]
mod token;
mod uninstall;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::Exit;
use crate::setup::{Ending, SetupError};
use journal::Journal;

/// A policy gate for coding agents: every tool call is judged by Cedar and TOML files, fails
/// closed, and is recorded before it is answered.
#[derive(Debug, Parser)]
#[command(name = "copilot-bridge", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    /// When to use colours
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: color::Color,
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 ok · 1 failed · 2 denied, or withheld · 3 policy invalid · 4 not found out · 64 usage.\n\
    `hook` has the exit codes of the host's protocol: see docs/hosts.md.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show an allowed, an asked and a denied call in a workspace made for it
    Demo(demo::Args),
    /// Install the hooks of a host, and the policies that they judge by
    Init(init::Args),
    /// Take back what `init` wrote
    Uninstall(uninstall::Args),
    /// Tell OpenClaw of the gate, and of the MCP server
    Register(register::Register),
    /// Take back what `register` wrote
    Unregister(register::Unregister),
    /// Look for what is wrong with an installation, and prove that it denies
    Doctor(doctor::Args),
    /// Judge one event of a host: what the installed hooks call
    Hook(hook::Args),
    /// Check, compile, edit or import policies
    Policy(policy::Args),
    /// Say why an event is allowed, asked or denied
    Explain(explain::Args),
    /// Serve tools to MCP clients, each call judged by the policies
    #[cfg(all(unix, feature = "serve"))]
    Mcp(mcp::Args),
    /// Serve the same tools to many clients, over HTTP on the loopback interface
    #[cfg(all(unix, feature = "serve"))]
    Serve(serve::Args),
    /// Make, replace and find the tokens that `serve` lets in
    #[cfg(all(unix, feature = "serve"))]
    Token(token::Args),
    /// Run a command that reaches only what the policies let an agent reach
    Sandbox(sandbox::Args),
    /// Find secrets in files and pipes, and take them out
    Redact(redact::Args),
    /// Take secrets out of what hosts wrote down of their sessions
    Scrub(scrub::Args),
    /// Answer what policies ask, from another terminal than the agent's
    Approvals(approvals::Args),
    /// Verify, search, read and export the record
    Audit(audit::Args),
    /// Show the settings that are in force
    Config(config::Args),
    /// Make keys for people who approve calls and sign policies
    Key(key::Args),
    /// Print the schemas of policies and of the record
    Schema(schema::Args),
    /// Print what a shell needs to complete the command line
    Completions(completions::Completions),
    /// Print the manual page, or write one for each verb
    Man(completions::Man),
}

impl Verb {
    /// Whether the program stays, and answers on stdout what comes in on stdin.
    const fn serves(&self) -> bool {
        #[cfg(all(unix, feature = "serve"))]
        return matches!(self, Self::Mcp(_));
        #[cfg(not(all(unix, feature = "serve")))]
        false
    }
}

/// How a verb shows what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// What a verb says besides its output.
pub(crate) type Outcome = Result<Exit, Box<dyn std::error::Error>>;

/// Runs the verb that the command line names.
#[must_use]
pub fn main() -> ExitCode {
    let started = Instant::now();
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let rest: Vec<OsString> = arguments.collect();
    if rest.first().is_some_and(|verb| verb == "hook") {
        let rest = rest.into_iter().skip(1);
        return ExitCode::from(hook::main(std::iter::once(program).chain(rest), started));
    }
    let hasty = color::Color::of(&rest);
    let line = std::iter::once(program).chain(rest);
    let parsed = Cli::command()
        .try_get_matches_from(line)
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            hasty.apply();
            let _ = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Ok
            };
            return exit.into();
        }
    };
    cli.color.apply();
    let journal = Journal::of(&matches, started);
    journal.iter().for_each(Journal::begins);
    let result = crate::engine::on_known_stack(|| {
        // Whoever serves writes from other threads.
        let mut out = anstream::stdout();
        if cli.verb.serves() {
            return run(cli.verb, &mut out);
        }
        let mut out = out.lock();
        let result = run(cli.verb, &mut out);
        let _ = out.flush();
        result
    });
    let exit = result.unwrap_or_else(|error| {
        // A reader that went away is no failure of ours.
        let gone = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if !gone {
            let text = match error.downcast_ref::<io::Error>() {
                Some(error) => crate::facts::paths::words(error),
                None => error.to_string(),
            };
            let _ = writeln!(anstream::stderr(), "error: {text}");
        }
        Exit::Failed
    });
    journal.iter().for_each(|journal| journal.ends(exit));
    exit.into()
}

fn run(verb: Verb, out: &mut dyn Write) -> Outcome {
    match verb {
        Verb::Demo(args) => demo::run(&args, out),
        Verb::Init(args) => ended(init::run(&args, &rooms::Connected::default(), out)),
        Verb::Uninstall(args) => ended(uninstall::run(&args, out)),
        Verb::Register(args) => ended(register::register(&args, &rooms::Connected::default(), out)),
        Verb::Unregister(args) => ended(register::unregister(&args, out)),
        Verb::Doctor(args) => ended(doctor::run(&args, &rooms::Connected::default(), out)),
        // `main` took it; it is listed for `--help`.
        Verb::Hook(_) => Ok(Exit::Usage),
        Verb::Policy(args) => policy::run(args, out),
        Verb::Explain(args) => explain::run(&args, out),
        #[cfg(all(unix, feature = "serve"))]
        Verb::Mcp(args) => mcp::run(args, out),
        #[cfg(all(unix, feature = "serve"))]
        Verb::Serve(args) => serve::run(&args),
        #[cfg(all(unix, feature = "serve"))]
        Verb::Token(args) => token::run(&args, out),
        Verb::Sandbox(args) => sandbox::run(&args, out),
        Verb::Redact(args) => redact::run(&args, out),
        Verb::Scrub(args) => scrub::run(&args, out),
        Verb::Approvals(args) => approvals::run(&args, out),
        Verb::Audit(args) => audit::run(&args, out),
        Verb::Config(args) => config::run(&args, out),
        Verb::Key(args) => key::run(&args, out),
        Verb::Schema(args) => schema::run(&args, out),
        Verb::Completions(args) => completions::completions(&args, out),
        Verb::Man(args) => completions::man(&args, out),
    }
}

fn ended(result: Result<Ending, SetupError>) -> Outcome {
    match result {
        Ok(Ending::Done) => Ok(Exit::Ok),
        Ok(Ending::Trouble) => Ok(Exit::Failed),
        Err(error) if error.help.is_empty() => Err(error.into()),
        Err(error) => Err(format!("{}\nhelp: {}", error.message, error.help).into()),
    }
}

/// The command line as clap knows it, for the tests of its shape.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}
