//! `sandbox`: a command that reaches only what the policies let an agent reach.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::Command;

use super::place::{Here, Place};
use super::{Outcome, policy};
use crate::exit::Exit;
use crate::sandbox::{self, Disk, Plan};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The command's exit code is handed on. What is granted, and what is not held back: \
    see docs/containment.md."
)]
pub(crate) struct Args {
    /// Show what would be granted, and run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
    /// The command and its arguments
    #[arg(
        last = true,
        value_name = "COMMAND",
        required_unless_present = "dry_run"
    )]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if !cfg!(target_os = "linux") {
        return Err(
            "`sandbox` is not available here\nhelp: it needs Landlock, which is Linux".into(),
        );
    }
    let Here {
        bundle,
        installation: here,
        workspace,
        ..
    } = match args.place.here()? {
        Ok(here) => here,
        Err(problems) => {
            policy::show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    let containment = &bundle.settings.containment;
    let mut places = here.places(&workspace);
    if !args.dry_run {
        make(&places.temp);
    }
    // Another user may have made the folder first.
    places.temp.retain(|dir| is_own(Path::new(dir), here.uid));
    let plan = sandbox::plan(containment, &places, &workspace, &Disk)?;
    if args.dry_run {
        return show(&plan, out);
    }
    execute(&args.command, &plan, places.temp.first())
}

fn show(plan: &Plan, out: &mut dyn Write) -> Outcome {
    for (path, access) in &plan.grants {
        writeln!(out, "{access:5}  {}", path.display())?;
    }
    for (pattern, why) in &plan.left_out {
        writeln!(out, "-      {pattern}    # {why}")?;
    }
    Ok(Exit::Ok)
}

/// Becomes the command: its exit code, or the signal that ends it, is then ours.
#[cfg(target_os = "linux")]
fn execute(words: &[OsString], plan: &Plan, temp: Option<&String>) -> Outcome {
    use std::os::unix::process::CommandExt;

    let (program, arguments) = words.split_first().ok_or("there is no command to run")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(temp) = temp {
        command.env("TMPDIR", temp);
    }
    sandbox::landlock::restrict(plan)?;
    let error = command.exec();
    Err(format!(
        "`{}` cannot be run in the sandbox: {}\nhelp: `--dry-run` shows what may be executed",
        program.display(),
        crate::facts::paths::words(&error)
    )
    .into())
}

#[cfg(not(target_os = "linux"))]
fn execute(_: &[OsString], _: &Plan, _: Option<&String>) -> Outcome {
    Ok(Exit::Failed)
}

/// Makes the folders that only this user may enter. If it cannot, there is none to grant.
#[cfg(unix)]
fn make(folders: &[String]) {
    use std::os::unix::fs::DirBuilderExt;

    for folder in folders {
        let _ = std::fs::DirBuilder::new().mode(0o700).create(folder);
    }
}

#[cfg(not(unix))]
fn make(_: &[String]) {}

#[cfg(unix)]
fn is_own(folder: &Path, uid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;

    let found = folder.symlink_metadata();
    found.is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

#[cfg(not(unix))]
fn is_own(_: &Path, _: u32) -> bool {
    false
}
