//! `copilot-bridge uninstall`: takes back what `init` wrote.

use std::io::Write;

use super::init::{HostChoice, ScopeFlags};
use crate::setup::place::{Overrides, Places};
use crate::setup::uninstall::{self, Wish};
use crate::setup::{Ending, SetupError};

/// Take back what `init` wrote
///
/// A file that somebody edited since is left and named. Policies stay without `--purge`, and the
/// record always stays. Give the flags that `init` was given.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scope: ScopeFlags,
    /// The programs that shall no longer ask
    #[arg(long, value_enum, default_value = "all")]
    host: HostChoice,
    /// Take back policies too, unless they were edited or another install uses them
    #[arg(long)]
    purge: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    places: Overrides,
}

/// Takes back what `init` wrote.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Ending, SetupError> {
    let places = Places::find(&args.places)?;
    let scope = args.scope.scope();
    let wish = Wish {
        scope,
        hosts: args.host.hosts(scope),
        purge: args.purge,
        dry_run: args.dry_run,
    };
    uninstall::uninstall(&places, &wish, out)
}
