//! `copilot-bridge register` and `unregister`: what other programs are told of us.

use std::io::Write;
use std::path::PathBuf;

use crate::setup::openclaw::{self, Parts, Wish};
use crate::setup::place::{Overrides, Places};
use crate::setup::{Ending, Rooms, SetupError};

/// Tell OpenClaw of the gate, and of the MCP server
///
/// The gate is a plugin: OpenClaw asks it before every tool call, and every result passes it. What is not
/// ours in the settings stays as it is, and a copy of them is left beside them.
#[derive(Debug, clap::Args)]
pub(crate) struct Register {
    #[command(subcommand)]
    host: Host,
}

/// Take back what `register` wrote
#[derive(Debug, clap::Args)]
pub(crate) struct Unregister {
    #[command(subcommand)]
    host: Host,
}

#[derive(Debug, clap::Subcommand)]
enum Host {
    /// OpenClaw: `openclaw.json`, and a plugin in the state directory
    Openclaw(Openclaw),
}

#[derive(Debug, clap::Args)]
struct Openclaw {
    /// Only the plugin, which asks before each call
    #[arg(long)]
    plugin: bool,
    /// Only the MCP server, through which OpenClaw calls Copilot
    #[arg(long)]
    mcp: bool,
    /// OpenClaw's settings; else `OPENCLAW_CONFIG_PATH`, `OPENCLAW_STATE_DIR`, `~/.openclaw/openclaw.json`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The folder of the policies
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// The folder of the record, the key and the plugin
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The program that OpenClaw calls, this one by default
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Instead of the home of the passwd entry
    #[arg(long, value_name = "DIR", hide = true)]
    home: Option<PathBuf>,
    /// What stands before `/etc` and `/var`
    #[arg(long, value_name = "DIR", hide = true)]
    etc: Option<PathBuf>,
}

impl Openclaw {
    fn places(&self) -> Result<Places, SetupError> {
        Places::find(&Overrides {
            policies: self.policies.clone(),
            state: self.state.clone(),
            binary: self.binary.clone(),
            home: self.home.clone(),
            etc: self.etc.clone(),
            ..Overrides::default()
        })
    }

    fn wish(&self) -> Wish {
        let both = self.plugin == self.mcp;
        Wish {
            config: self.config.clone(),
            parts: Parts {
                plugin: both || self.plugin,
                mcp: both || self.mcp,
            },
            dry_run: self.dry_run,
        }
    }
}

/// Registers.
pub(crate) fn register(
    args: &Register,
    rooms: &dyn Rooms,
    out: &mut dyn Write,
) -> Result<Ending, SetupError> {
    let Host::Openclaw(args) = &args.host;
    openclaw::register(&args.places()?, &args.wish(), rooms, out)
}

/// Takes back.
pub(crate) fn unregister(args: &Unregister, out: &mut dyn Write) -> Result<Ending, SetupError> {
    let Host::Openclaw(args) = &args.host;
    openclaw::unregister(&args.places()?, &args.wish(), out)
}
