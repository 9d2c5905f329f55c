//! `mcp config`: what a client needs in its settings to find a server of ours (C-14).

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::http::{Loopback, token};
use crate::mcp::http::PATH;

/// The name of the server over HTTP in the settings of clients.
const NAME: &str = "copilot-bridge";

/// VS Code asks for the token once, and keeps it where it keeps secrets.
const INPUT: &str = "copilot-bridge-token";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Over HTTP no token is printed: the client takes it from `COPILOT_BRIDGE_TOKEN` in its \
    environment, and VS Code asks for it once."
)]
pub(crate) struct Args {
    /// The client
    #[arg(value_enum)]
    client: Client,
    /// The server over stdio, instead of the one that the client has use for
    #[arg(long, value_enum, conflicts_with = "http")]
    server: Option<Server>,
    /// Let it reach `copilot-bridge serve`, instead of starting a server by itself
    #[arg(long)]
    http: bool,
    /// Where `serve` listens
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:48080",
        requires = "http"
    )]
    listen: Loopback,
    /// The folder that the client works in; without it, the one that it starts the server in
    #[arg(long, value_name = "DIR", conflicts_with = "http")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// The clients whose settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    /// Visual Studio Code: `.vscode/mcp.json`, or `mcp.json` of the profile
    Vscode,
    /// GitHub Copilot CLI: `~/.copilot/mcp-config.json`
    Copilot,
    /// Claude Code: `.mcp.json`
    Claude,
    /// OpenClaw: `openclaw.json`
    Openclaw,
}

/// The servers over stdio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Server {
    /// The files of a workspace: what OpenClaw has use for
    Copilot,
    /// What OpenClaw remembers: what all others have use for
    Memory,
}

/// How a client reaches the server.
enum Way {
    Http {
        url: String,
    },
    Stdio {
        server: Server,
        command: String,
        args: Vec<String>,
    },
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let way = match args.http {
        true => Way::Http {
            url: format!("http://{}{PATH}", args.listen),
        },
        false => Way::Stdio {
            server: args.server(),
            command: text(&std::env::current_exe()?)?,
            args: words(args)?,
        },
    };
    let state = args.place.state();
    let settings = settings(args.client, &way, &token::path(&state));
    writeln!(out, "{settings:#}")?;
    Ok(Exit::Ok)
}

impl Args {
    fn server(&self) -> Server {
        self.server.unwrap_or(match self.client {
            Client::Openclaw => Server::Copilot,
            Client::Vscode | Client::Copilot | Client::Claude => Server::Memory,
        })
    }
}

impl Server {
    /// Its name in the settings of clients.
    const fn name(self) -> &'static str {
        match self {
            Self::Copilot => "copilot",
            Self::Memory => "openclaw-memory",
        }
    }
}

/// The command line of the server over stdio.
fn words(args: &Args) -> Result<Vec<String>, String> {
    let verb = match args.server() {
        Server::Copilot => "copilot",
        Server::Memory => "memory",
    };
    let mut words = vec!["mcp".to_owned(), verb.to_owned()];
    let places = [
        ("--workspace", &args.workspace),
        ("--policies", &args.place.policies),
        ("--state", &args.place.state),
    ];
    for (flag, dir) in places {
        if let Some(dir) = dir {
            let dir = std::path::absolute(dir).map_err(|error| {
                format!(
                    "cannot use the folder `{}`: {}",
                    dir.display(),
                    crate::facts::paths::words(&error)
                )
            })?;
            words.extend([flag.to_owned(), text(&dir)?]);
        }
    }
    Ok(words)
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the path `{}` is no UTF-8", path.display()))
}

fn settings(client: Client, way: &Way, token: &Path) -> Value {
    let bearer = match client {
        Client::Vscode => format!("Bearer ${{input:{INPUT}}}"),
        Client::Copilot | Client::Claude | Client::Openclaw => {
            format!("Bearer ${{{}}}", token::VARIABLE)
        }
    };
    let server = match (client, way) {
        (Client::Openclaw, Way::Http { url }) => json!({
            "url": url, "transport": "streamable-http", "headers": {"Authorization": bearer},
        }),
        (_, Way::Http { url }) => json!({
            "type": "http", "url": url, "headers": {"Authorization": bearer},
        }),
        (Client::Openclaw, Way::Stdio { command, args, .. }) => {
            json!({"command": command, "args": args})
        }
        (_, Way::Stdio { command, args, .. }) => {
            json!({"type": "stdio", "command": command, "args": args})
        }
    };
    let name = match way {
        Way::Http { .. } => NAME,
        Way::Stdio { server, .. } => server.name(),
    };
    match (client, way) {
        (Client::Vscode, Way::Http { .. }) => json!({
            "inputs": [{
                "type": "promptString", "id": INPUT, "password": true,
                "description": format!("the token in {}", token.display()),
            }],
            "servers": {name: server},
        }),
        (Client::Vscode, Way::Stdio { .. }) => json!({"servers": {name: server}}),
        (Client::Copilot, _) => {
            let mut server = server;
            if let Some(server) = server.as_object_mut() {
                server.insert("tools".to_owned(), json!(["*"]));
            }
            json!({"mcpServers": {name: server}})
        }
        (Client::Claude, _) => json!({"mcpServers": {name: server}}),
        (Client::Openclaw, _) => json!({"mcp": {"servers": {name: server}}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_shape() {
        let way = Way::Http {
            url: "http://127.0.0.1:48080/mcp".to_owned(),
        };
        let token = Path::new("/state/token");
        for (client, expected) in [
            (
                Client::Vscode,
                json!({
                    "inputs": [{
                        "type": "promptString", "id": "copilot-bridge-token", "password": true,
                        "description": "the token in /state/token",
                    }],
                    "servers": {"copilot-bridge": {
                        "type": "http", "url": "http://127.0.0.1:48080/mcp",
                        "headers": {"Authorization": "Bearer ${input:copilot-bridge-token}"},
                    }},
                }),
            ),
            (
                Client::Copilot,
                json!({"mcpServers": {"copilot-bridge": {
                    "type": "http", "url": "http://127.0.0.1:48080/mcp",
                    "headers": {"Authorization": "Bearer ${COPILOT_BRIDGE_TOKEN}"}, "tools": ["*"],
                }}}),
            ),
            (
                Client::Claude,
                json!({"mcpServers": {"copilot-bridge": {
                    "type": "http", "url": "http://127.0.0.1:48080/mcp",
                    "headers": {"Authorization": "Bearer ${COPILOT_BRIDGE_TOKEN}"},
                }}}),
            ),
            (
                Client::Openclaw,
                json!({"mcp": {"servers": {"copilot-bridge": {
                    "url": "http://127.0.0.1:48080/mcp", "transport": "streamable-http",
                    "headers": {"Authorization": "Bearer ${COPILOT_BRIDGE_TOKEN}"},
                }}}}),
            ),
        ] {
            assert_eq!(settings(client, &way, token), expected, "{client:?}");
        }
    }
}
