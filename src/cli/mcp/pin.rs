//! `mcp pin`: a person reads how an MCP server describes its tools, and accepts that.

use std::io::{BufRead, BufReader, Write};

use jiff::Timestamp;
use rmcp_model::Tool;
use similar::TextDiff;

use super::proxy::{Behind, depth};
use crate::audit::report::text::visible;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::facts::chain::agent_above;
use crate::mcp::chain::Chain;
use crate::mcp::proxy::HOP;
use crate::mcp::rmcp::model as rmcp_model;
use crate::mcp::stdio;
use crate::upstream::server::pins::{Description, Pins, Standing};
use crate::upstream::server::{Bounds, Place as ServerPlace, Server};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A tool whose description was never accepted is asked about; one whose description has changed \
    is denied. Only a person at a terminal accepts: the server's name has to be typed."
)]
pub(crate) struct Args {
    /// The server's name, as `mcp proxy` has it
    name: String,
    /// Only show what is new and what has changed: what happens without `--accept` as well
    #[arg(long, conflicts_with_all = ["accept", "accept_all"])]
    show: bool,
    /// Accept how this tool is described; may be repeated
    #[arg(long, value_name = "TOOL", conflicts_with = "accept_all")]
    accept: Vec<String>,
    /// Accept how all tools are described
    #[arg(long)]
    accept_all: bool,
    #[command(flatten)]
    server: Behind,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let accepts = args.accept_all || !args.accept.is_empty();
    if accepts {
        args.refuse_agents()?;
    }
    let state = args.place.state();
    let mut pins = Pins::read(&state, &args.name)?;
    let directory = std::env::current_dir()
        .and_then(|dir| dir.canonicalize())
        .map_err(|error| {
            format!(
                "there is no working directory: {}",
                crate::facts::paths::words(&error)
            )
        })?;
    let place = args.server.place(&directory)?;
    let identity = place.identity();
    let tools: Vec<Description> = args.list(place)?.iter().map(Description::of).collect();
    if pins.names().next().is_some() && pins.place() != identity {
        writeln!(
            out,
            "another server: what was accepted is of {}",
            visible(pins.place())
        )?;
        writeln!(
            out,
            "                and this one is          {}",
            visible(&identity)
        )?;
    }
    for name in &args.accept {
        if !tools.iter().any(|tool| tool.name() == name) {
            return Err(format!("the server `{}` has no tool `{name}`", args.name).into());
        }
    }
    let mut open = Vec::new();
    for tool in &tools {
        let standing = pins.standing(tool, &identity);
        show(tool, standing, &pins, out)?;
        if standing != Standing::Accepted {
            open.push(tool);
        }
    }
    let gone = pins
        .names()
        .filter(|name| tools.iter().all(|tool| tool.name() != *name));
    for name in gone {
        writeln!(out, "gone      {}", visible(name))?;
    }
    if !accepts {
        return Ok(if open.is_empty() {
            Exit::Ok
        } else {
            Exit::Denied
        });
    }
    open.retain(|tool| args.accept_all || args.accept.iter().any(|name| name == tool.name()));
    if open.is_empty() {
        writeln!(out, "nothing to accept")?;
        return Ok(Exit::Ok);
    }
    confirm(&args.name)?;
    let now = Timestamp::now().to_string();
    pins.move_to(&identity);
    for tool in &open {
        pins.accept(tool, &now);
    }
    pins.write(&state)?;
    for tool in open {
        writeln!(out, "accepted  {}  {}", visible(tool.name()), tool.digest())?;
    }
    Ok(Exit::Ok)
}

impl Args {
    /// Whoever is judged by what is accepted accepts nothing.
    fn refuse_agents(&self) -> Result<(), String> {
        let by_agent = |what: &str| {
            Err(format!(
                "{what}, and agents accept no descriptions: a person runs this at a terminal"
            ))
        };
        if depth() > 0 {
            return by_agent("this runs below an agent");
        }
        let cwd = std::env::current_dir().ok();
        let bundle = self.place.policies(cwd.as_deref()).map_err(|problems| {
            let first = problems.first().map(crate::policy::Problem::one_line);
            format!("the policies cannot be used: {}", first.unwrap_or_default())
        })?;
        match agent_above(&bundle.settings.containment.agents) {
            Some(agent) => by_agent(&format!("this runs below the agent `{agent}`")),
            None => Ok(()),
        }
    }

    fn list(&self, place: ServerPlace) -> Result<Vec<Tool>, String> {
        let runtime = stdio::runtime().map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let server = Server::new(&self.name, place, Bounds::default(), HOP);
            let listed = server.tools(&Chain::current().passed_on()).await;
            server.stop().await;
            listed.map_err(|trouble| trouble.to_string())
        })
    }
}

/// What a person has to know of a tool before it is accepted.
fn show(
    tool: &Description,
    standing: Standing,
    pins: &Pins,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "{:9} {}", standing.name(), visible(tool.name()))?;
    match standing {
        Standing::Accepted => {}
        Standing::New => {
            for line in tool.shown().lines() {
                writeln!(out, "    {}", visible(line))?;
            }
        }
        Standing::Changed => {
            let before = pins.accepted(tool.name()).map(|old| old.shown());
            let (before, after) = (before.unwrap_or_default(), tool.shown());
            let diff = TextDiff::from_lines(&before, &after);
            let mut unified = diff.unified_diff();
            let text = unified.context_radius(2).to_string();
            for line in text.lines() {
                writeln!(out, "    {}", visible(line))?;
            }
        }
    }
    Ok(())
}

/// A person at the terminal types the name: neither the environment nor a pipe can.
fn confirm(name: &str) -> Result<(), String> {
    let none = |_| "there is no terminal to ask for a confirmation at".to_owned();
    let mut terminal = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(none)?;
    write!(terminal, "type `{name}` to accept this: ").map_err(none)?;
    terminal.flush().map_err(none)?;
    let mut line = String::new();
    BufReader::new(terminal)
        .read_line(&mut line)
        .map_err(none)?;
    if line.trim_end_matches(['\n', '\r']) == name {
        Ok(())
    } else {
        Err("that was another name: nothing is accepted".to_owned())
    }
}
