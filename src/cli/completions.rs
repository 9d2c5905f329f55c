//! `completions` and `man`: the command line, for shells and for readers.

use std::io::Write;
use std::path::PathBuf;

use clap_complete::Shell;

use super::Outcome;
use crate::exit::Exit;
use crate::facts::paths::words;

/// Print what a shell needs to complete the command line
#[derive(Debug, clap::Args)]
#[command(
    after_help = "copilot-bridge completions bash > ~/.local/share/bash-completion/completions/copilot-bridge\n\
    copilot-bridge completions fish > ~/.config/fish/completions/copilot-bridge.fish\n\
    copilot-bridge completions zsh > \"${fpath[1]}/_copilot-bridge\""
)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

pub(super) fn completions(args: &Completions, out: &mut dyn Write) -> Outcome {
    let mut command = super::command();
    let name = command.get_name().to_owned();
    // Its script for bash names the verbs in two ways where the program's name has a hyphen, and then
    // completes none of them.
    let plain = name.replace('-', "");
    // It panics when it cannot write, so it writes to memory.
    let mut text = Vec::new();
    match args.shell {
        Shell::Bash => clap_complete::generate(args.shell, &mut command, &plain, &mut text),
        shell => clap_complete::generate(shell, &mut command, &name, &mut text),
    }
    out.write_all(String::from_utf8(text)?.replace(&plain, &name).as_bytes())?;
    Ok(Exit::Ok)
}

/// Print the manual page, or write one for each verb
#[derive(Debug, clap::Args)]
#[command(after_help = "copilot-bridge man | man -l -")]
pub(super) struct Man {
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn man(args: &Man, out: &mut dyn Write) -> Outcome {
    let command = super::command();
    let Some(dir) = &args.output else {
        clap_mangen::Man::new(command).render(&mut &mut *out)?;
        return Ok(Exit::Ok);
    };
    let failed = |error: std::io::Error| {
        let why = words(&error);
        format!("cannot write the pages to `{}`: {why}", dir.display())
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command, dir).map_err(failed)?;
    Ok(Exit::Ok)
}
