//! `hook`: what the installed hooks call. Nothing here starts before it is needed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use serde_json::Value;

use super::place::Place;
use crate::config;
use crate::facts::paths::words;
use crate::facts::pins::Pins;
use crate::gate::event::EventName;
use crate::gate::{Gate, Refused, Sink};
use crate::hook::{self, Call, dialect::Dialect};
use crate::policy;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The answer is one JSON object on stdout, in the form of the event. Whatever goes wrong is \
    answered with the event's blocking form; docs/hosts.md has the table."
)]
pub(crate) struct Args {
    /// The event: pre-tool-use, permission-request, post-tool-use, user-prompt-submitted, …
    event: String,
    /// The event's JSON, instead of on stdin
    json: Option<String>,
    /// The host's way to write events and answers
    #[arg(long, default_value = "auto", value_parser = ["auto", "copilot", "claude", "vscode", "openclaw", "xpia"])]
    dialect: String,
    /// Leave with exit code 0 on a denial too, as the original XPIA hook did (only with xpia)
    #[arg(long)]
    legacy_exit: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Parser)]
#[command(name = "copilot-bridge hook")]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// Judges one event. The exit code is the host's protocol.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>, started: Instant) -> u8 {
    let args = match Line::try_parse_from(arguments) {
        Ok(line) => line.args,
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return 0;
        }
        Err(error) => return hook::refuse_usage(&one_line(&error)),
    };
    let dialect = Dialect::from_name(&args.dialect, args.legacy_exit);
    let call = Call {
        event: args.event,
        dialect,
        json: args.json,
        state: args.place.state(),
    };
    let place = args.place;
    let starts = EventName::parse(&call.event) == Some(EventName::SessionStart);
    hook::run(&call, started, move |event| open(&place, event, starts))
}

/// The gate for an event: the policies depend on the folder that the agent works in.
fn open(place: &Place, event: Option<&Value>, starts: bool) -> Gate {
    let text = |name: &str| event.and_then(|event| event.get(name)?.as_str());
    let cwd = text("cwd").map(PathBuf::from);
    let mut here = place.installation();
    // A session that starts, or is taken up again, is where the host says.
    let session = text("sessionId").or_else(|| text("session_id"));
    if let Some(session) = session.filter(|_| !starts) {
        match Pins::new(&here.state).root(session) {
            Ok(pinned) => here.pinned = pinned,
            Err(error) => {
                let problem = format!("the session's workspace cannot be read: {}", words(&error));
                return Gate::new(Err(broken(problem)), here, Sink::State).logging();
            }
        }
    }
    // Whoever moved on to another folder is still judged by what the workspace forbids.
    let below = |root: &PathBuf| !cwd.as_ref().is_some_and(|cwd| cwd.starts_with(root));
    let from = here.pinned.clone().filter(below).or(cwd);
    here.count_ancestors = true;
    here.depth = config::depth(|name| std::env::var(name).ok());
    let bundle = place
        .judging_policies(from.as_deref())
        .map_err(|problems| refused(place, &problems));
    Gate::new(bundle, here, Sink::State).logging()
}

fn broken(problem: String) -> Refused {
    Refused {
        problem,
        help: "a person runs `copilot-bridge doctor`".to_owned(),
    }
}

pub(super) fn refused(place: &Place, problems: &[policy::Problem]) -> Refused {
    let first = problems.first().map_or_else(
        || "the policies cannot be used".to_owned(),
        policy::Problem::one_line,
    );
    let more = match problems.len() {
        0 | 1 => String::new(),
        more => format!(" (and {} more)", more - 1),
    };
    let dir = place
        .policies
        .as_ref()
        .map(|dir| format!(" {}", dir.display()))
        .unwrap_or_default();
    Refused {
        problem: format!("{first}{more}"),
        help: format!("a person runs `copilot-bridge policy check{dir}` and corrects the file"),
    }
}

fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
