//! `copilot-bridge init`: installs the hooks.

use std::io::Write;

use clap::ValueEnum;

use crate::setup::install::{self, Wish};
use crate::setup::place::{Overrides, Places};
use crate::setup::{Ending, Host, Rooms, Scope, SetupError};

/// Install the hooks, with policies to start from
///
/// Without a scope, the hooks are the caller's own: they do not enforce, because a workspace's
/// `disableAllHooks` switches them off. Only `--machine` enforces. What `init` did not write it
/// never overwrites, and `uninstall` takes all of it back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: ScopeFlags,
    /// The programs that shall ask
    #[arg(long, value_enum, default_value = "copilot")]
    host: HostChoice,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    places: Overrides,
}

/// Installs the hooks.
pub(crate) fn run(
    args: &Args,
    rooms: &dyn Rooms,
    out: &mut dyn Write,
) -> Result<Ending, SetupError> {
    let places = Places::find(&args.places)?;
    let scope = args.scope.scope();
    if args.host == HostChoice::All && scope == Scope::Machine {
        writeln!(
            out,
            "note: VS Code documents no machine-wide hooks, and gets none"
        )?;
    }
    let wish = Wish {
        scope,
        hosts: args.host.hosts(scope),
        dry_run: args.dry_run,
    };
    install::init(&places, &wish, rooms, out)
}

/// Whose hooks are meant; the caller's own without a flag.
#[derive(Debug, clap::Args)]
pub(crate) struct ScopeFlags {
    /// For the caller alone, which is what is meant without a flag
    #[arg(long, conflicts_with_all = ["machine", "repo"])]
    user: bool,
    /// For everybody on this machine, beside managed settings that shut out foreign hooks
    #[arg(long, conflicts_with = "repo")]
    machine: bool,
    /// For everybody who works in this repository
    #[arg(long)]
    repo: bool,
}

impl ScopeFlags {
    /// The scope that the flags name.
    pub(crate) const fn scope(&self) -> Scope {
        match (self.user, self.machine, self.repo) {
            (false, true, _) => Scope::Machine,
            (false, false, true) => Scope::Repo,
            (true, ..) | (false, false, false) => Scope::User,
        }
    }
}

/// The hosts that a flag can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostChoice {
    /// GitHub Copilot CLI
    Copilot,
    /// Claude Code
    Claude,
    /// Visual Studio Code, which shares its hooks with Claude Code
    Vscode,
    /// All of them
    All,
}

impl HostChoice {
    /// The hosts that can have hooks in this scope.
    pub(crate) fn hosts(self, scope: Scope) -> Vec<Host> {
        match self {
            Self::Copilot => vec![Host::Copilot],
            Self::Claude => vec![Host::Claude],
            Self::Vscode => vec![Host::Vscode],
            Self::All if scope == Scope::Machine => vec![Host::Copilot, Host::Claude],
            Self::All => vec![Host::Copilot, Host::Claude, Host::Vscode],
        }
    }
}
