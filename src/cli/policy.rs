//! `policy`: check, compile, edit and import policies.

use std::io::Write;
use std::path::PathBuf;

use super::Outcome;
use super::place::Place;
use crate::exit::Exit;
use crate::policy::compile::Readers;
use crate::policy::diagnostic::render;
use crate::policy::edit::{Answer, Edited};
use crate::policy::{self, Base, Layer, Locations, Problem};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Say everything that is wrong with the policies, with file, line and column
    Check(Check),
    /// Compile the policies that are in force here, so that hooks start faster
    Compile(Compile),
    /// Edit a copy of the policies, check it, and put it in their place only if it is in order
    Edit(Edit),
    /// Turn a legacy permission policy in JSON into policy files
    Import(Import),
}

#[derive(Debug, clap::Args)]
struct Check {
    /// A directory of policies [default: the ones that are in force here]
    dir: Option<PathBuf>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people, with the place underlined
    Text,
    /// For programs
    Json,
    /// For code scanning
    Sarif,
}

#[derive(Debug, clap::Args)]
struct Compile {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Edit {
    /// The policies of the workspace instead of the user's
    #[arg(long)]
    workspace: bool,
    /// The editor [default: VISUAL, then EDITOR, then vi]
    #[arg(long, value_name = "COMMAND")]
    editor: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The legacy form has `allowedTools`, `blockedTools`, `askTools` and `blockedPatterns`. \
    What cannot be taken over without a change of meaning is an error."
)]
struct Import {
    /// The legacy policy
    file: PathBuf,
    /// The directory to write; it must not hold policies yet [default: show the files]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Add the default containment: paths, commands, and what protects the bridge itself
    #[arg(long)]
    contained: bool,
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Outcome {
    match args.verb {
        Verb::Check(args) => check(&args, out),
        Verb::Compile(args) => compile(&args, out),
        Verb::Edit(args) => edit(&args, out),
        Verb::Import(args) => import(&args, out),
    }
}

fn check(args: &Check, out: &mut dyn Write) -> Outcome {
    let locations = match &args.dir {
        Some(dir) => Locations {
            organisation: None,
            base: Base::Configured(dir.clone()),
            workspace: None,
        },
        None => args
            .place
            .locations(std::env::current_dir().ok().as_deref()),
    };
    let checked = policy::check(&locations);
    match args.format {
        Format::Text => {
            show_problems(&checked.problems, out)?;
            if let Some(bundle) = &checked.bundle {
                writeln!(out, "ok: {} policies", bundle.policies.len())?;
            }
        }
        Format::Json => writeln!(out, "{:#}", render::json(&checked.problems))?,
        Format::Sarif => writeln!(out, "{:#}", render::sarif(&checked.problems))?,
    }
    Ok(if checked.bundle.is_some() {
        Exit::Ok
    } else {
        Exit::PolicyInvalid
    })
}

fn compile(args: &Compile, out: &mut dyn Write) -> Outcome {
    let locations = args
        .place
        .locations(std::env::current_dir().ok().as_deref());
    match policy::load(&locations) {
        Ok(bundle) => {
            let path = policy::compile::write(&args.place.state(), &bundle, Readers::Owner)?;
            writeln!(
                out,
                "compiled {} policies into `{}`",
                bundle.policies.len(),
                path.display()
            )?;
            Ok(Exit::Ok)
        }
        Err(problems) => {
            show_problems(&problems, out)?;
            Ok(Exit::PolicyInvalid)
        }
    }
}

fn edit(args: &Edit, out: &mut dyn Write) -> Outcome {
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

fn import(args: &Import, out: &mut dyn Write) -> Outcome {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| format!("cannot read `{name}`: {error}"))?;
    let imported = match policy::import::import(&name, &text) {
        Ok(imported) => imported,
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::Failed);
        }
    };
    show_problems(&imported.warnings, out)?;
    let mut files: policy::edit::Files = imported.files.into_iter().collect();
    if args.contained {
        files.extend(
            policy::source::EMBEDDED
                .iter()
                .filter(|(name, _)| name.starts_with("containment."))
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned())),
        );
    } else {
        writeln!(
            out,
            "note: the legacy form says nothing of paths, and nothing here protects the bridge itself; --contained adds that"
        )?;
    }
    let Some(dir) = &args.into else {
        for (name, text) in &files {
            writeln!(out, "---- {name}\n{text}")?;
        }
        return Ok(Exit::Ok);
    };
    match policy::edit::publish(Layer::User, dir, &policy::edit::Files::new(), &files) {
        Ok(names) => {
            writeln!(out, "wrote {} into `{}`", names.join(", "), dir.display())?;
            Ok(Exit::Ok)
        }
        Err(problem) => {
            show_problems(&[problem], out)?;
            Ok(Exit::Failed)
        }
    }
}

pub(crate) fn show_problems(problems: &[Problem], out: &mut dyn Write) -> std::io::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    // The stream below takes the colours out where nobody can see them.
    out.write_all(render::text(problems, true).as_bytes())
}
