//! `policy edit`: as `visudo` does it.

use std::io::Write;

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::place::Place;
use crate::exit::Exit;
use crate::policy::compile::Readers;
use crate::policy::edit::{Answer, Edited};
use crate::policy::{self, Layer};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The policies of the workspace instead of the user's
    #[arg(long)]
    workspace: bool,
    /// The editor [default: VISUAL, then EDITOR, then vi]
    #[arg(long, value_name = "COMMAND")]
    editor: Option<String>,
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let cwd = std::env::current_dir().ok();
    let mut locations = args.place.locations(cwd.as_deref());
    let layer = if args.workspace {
        Layer::Workspace
    } else {
        Layer::User
    };
    if args.workspace && locations.workspace.is_none() {
        locations.workspace = cwd.map(|cwd| cwd.join(policy::layer::WORKSPACE_DIR));
    }
    let editor = args
        .editor
        .clone()
        .or_else(|| std::env::var("VISUAL").ok())
        .or_else(|| std::env::var("EDITOR").ok())
        .unwrap_or_else(|| "vi".to_owned());
    let mut said = Ok(());
    let edited = policy::edit::edit(&locations, layer, &editor, &mut |problems| {
        said = show_problems(problems, out);
        if said.is_ok() && confirmed("edit again?") {
            Answer::EditAgain
        } else {
            Answer::Abandon
        }
    });
    said?;
    match edited {
        Ok(Edited::Unchanged) => writeln!(out, "nothing was changed")?,
        Ok(Edited::Published(names)) => {
            writeln!(out, "published: {}", names.join(", "))?;
            // Hooks find the old compiled form stale, and would compile in memory each time.
            let bundle = policy::load(&locations).map_err(|_| "the policies changed again")?;
            policy::compile::write(&args.place.state(), &bundle, Readers::Owner)?;
        }
        Ok(Edited::Abandoned) => {
            writeln!(out, "the policies are as they were")?;
            return Ok(Exit::PolicyInvalid);
        }
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::Failed);
        }
    }
    Ok(Exit::Ok)
}

/// Whether a person at the terminal says yes. Nobody there is a no.
fn confirmed(question: &str) -> bool {
    use std::io::{BufRead, IsTerminal};
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return false;
    }
    let mut answer = String::new();
    write!(anstream::stderr(), "{question} [Y/n] ").is_ok()
        && stdin
            .lock()
            .read_line(&mut answer)
            .is_ok_and(|length| length > 0)
        && !answer.trim().to_ascii_lowercase().starts_with('n')
}
