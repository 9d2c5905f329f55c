//! `mcp proxy`: another MCP server, governed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};

use super::Served;
use crate::cli::Outcome;
use crate::config;
use crate::mcp::proxy::Proxy;
use crate::upstream::server::{Address, Bounds, Place, Program};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A person says in upstreams.toml how far the server is trusted, and accepts what it says of \
    its tools with `copilot-bridge mcp pin`. Until then its tools are listed, and every call is asked about."
)]
pub(crate) struct Args {
    /// The name that policies, pins and the record know the server by [default: the program's, or
    /// the host's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long a call may take without a sign of progress, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    #[command(flatten)]
    server: Behind,
    #[command(flatten)]
    served: Served,
}

/// Where a server is, on a command line.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Behind {
    /// The server's address: https, or http on this machine
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env"], required_unless_present = "command")]
    url: Option<String>,
    /// A variable that the server gets besides HOME, PATH and the like; may be repeated
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// A header for the address, with the value of a variable; may be repeated
    #[arg(long, value_name = "HEADER=VARIABLE", value_parser = header, requires = "url")]
    header_env: Vec<(HeaderName, String)>,
    /// The server's command line, without a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let name = args.server.name(args.name.as_deref())?;
    let about = format!(
        "The tools of the MCP server `{name}`. Every call is judged by policies; what is blocked says why, and \
        what a person can do."
    );
    args.served.serve(&name, &about, |bridge, workspace| {
        let place = args.server.place(workspace)?;
        let state = args.served.place.state();
        let gates = bridge.gates();
        let call = Duration::from_secs(args.timeout);
        let bounds = Bounds {
            list: Bounds::default().list.min(call),
            call,
            ..Bounds::default()
        };
        let proxy = Proxy::new(&name, place, bounds, gates, &state, depth());
        Ok(bridge.with_tools(Arc::new(proxy)))
    })
}

/// How many agents stand above this process, as its environment says.
pub(super) fn depth() -> u32 {
    config::depth(|name| std::env::var(name).ok())
}

impl Behind {
    /// The server's name: the one that is given, else one that its place suggests.
    pub(super) fn name(&self, given: Option<&str>) -> Result<String, String> {
        let name = match (given, &self.url, self.command.first()) {
            (Some(name), ..) => name.to_owned(),
            (None, Some(url), _) => Address::new(url, Vec::new())?.host().to_owned(),
            (None, None, Some(program)) => Path::new(program)
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            (None, None, None) => String::new(),
        };
        if name.trim().is_empty() || name.chars().any(char::is_control) || name.len() > 200 {
            return Err("a server needs a name: use `--name`".to_owned());
        }
        Ok(name)
    }

    /// Where it is. A command is started in that folder.
    pub(super) fn place(&self, directory: &Path) -> Result<Place, String> {
        let Some(url) = &self.url else {
            return Ok(Place::Child(Program {
                words: self.command.clone(),
                directory: PathBuf::from(directory),
                variables: self.env.clone(),
                depth: depth(),
            }));
        };
        let headers = self.header_env.iter().map(|(name, variable)| {
            let value = std::env::var(variable)
                .map_err(|_| format!("the variable `{variable}` is not set"))?;
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| format!("the variable `{variable}` holds no value of a header"))?;
            value.set_sensitive(true);
            Ok((name.clone(), value))
        });
        let headers = headers.collect::<Result<Vec<_>, String>>()?;
        Address::new(url, headers).map(Place::Web)
    }
}

fn header(text: &str) -> Result<(HeaderName, String), String> {
    let (name, variable) = text
        .split_once('=')
        .filter(|(_, variable)| !variable.is_empty())
        .ok_or("write `HEADER=VARIABLE`")?;
    let name: HeaderName = name
        .parse()
        .map_err(|_| format!("`{name}` is no name of a header"))?;
    let ours = [
        "accept",
        "mcp-session-id",
        "last-event-id",
        "host",
        "content-length",
    ];
    if ours.contains(&name.as_str()) {
        return Err(format!("the header `{name}` is the protocol's own"));
    }
    Ok((name, variable.to_owned()))
}
