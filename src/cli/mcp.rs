//! `mcp`: the MCP servers over stdio.

mod books;
mod config;
mod copilot;
pub(super) mod memory;
mod pin;
mod proxy;
pub(crate) mod services;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;

use super::Outcome;
use super::place::Place;
use super::standing::Standing;
use crate::config::depth;
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::mcp::{About, Bridge, Gates, stdio};

/// Serve tools to MCP clients, each call judged by the policies
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Serve what Copilot can do in a workspace, over stdio: what OpenClaw and others start
    Copilot(copilot::Args),
    /// Serve what OpenClaw remembers, read-only, over stdio: what Copilot and others start
    Memory(memory::Args),
    /// Print what a client needs in its settings to find a server
    Config(config::Args),
    /// Serve the tools of another MCP server, governed, over stdio
    Proxy(proxy::Args),
    /// Show how an MCP server describes its tools, and accept that
    Pin(pin::Args),
    /// Serve the HTTP services of `upstreams.toml` and what governs agents, over stdio
    Services(services::Args),
}

/// What every server over stdio is told on its command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Served {
    /// The folder that callers work in, instead of the one that the program is started in
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Outcome {
    match args.verb {
        Verb::Copilot(args) => copilot::run(&args),
        Verb::Memory(args) => memory::run(&args),
        Verb::Config(args) => config::run(&args, out),
        Verb::Proxy(args) => proxy::run(&args),
        Verb::Pin(args) => pin::run(&args, out),
        Verb::Services(args) => services::run(&args),
    }
}

impl Served {
    /// The folder that callers work in, as the system names it.
    pub(super) fn workspace(&self) -> Result<PathBuf, String> {
        let given = match &self.workspace {
            Some(dir) => dir.clone(),
            None => std::env::current_dir()
                .map_err(|error| format!("there is no working directory: {}", words(&error)))?,
        };
        given.canonicalize().map_err(|error| {
            format!(
                "cannot use the folder `{}`: {}",
                given.display(),
                words(&error)
            )
        })
    }

    /// Where policies and state are.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Serves one client over stdio.
    fn serve(
        &self,
        name: &str,
        instructions: &str,
        offer: impl FnOnce(Bridge, &std::path::Path) -> Result<Bridge, String>,
    ) -> Outcome {
        self.serve_by(name, instructions, |bridge, workspace, _| {
            offer(bridge, workspace)
        })
    }

    /// The same, for what asks the gate by itself as well.
    fn serve_by(
        &self,
        name: &str,
        instructions: &str,
        offer: impl FnOnce(Bridge, &std::path::Path, Arc<dyn Gates>) -> Result<Bridge, String>,
    ) -> Outcome {
        let workspace = self.workspace()?;
        let gates: Arc<dyn Gates> = Arc::new(Standing::new(&self.place, &workspace, true));
        let about = About {
            name: name.to_owned(),
            instructions: instructions.to_owned(),
            workspace: workspace
                .to_str()
                .ok_or("the working directory is no UTF-8")?
                .to_owned(),
            depth: depth(|name| std::env::var(name).ok()),
            private: true,
        };
        let bridge = Bridge::new(about, Arc::clone(&gates));
        stdio::serve(|| offer(bridge, &workspace, gates))?;
        Ok(Exit::Ok)
    }
}
