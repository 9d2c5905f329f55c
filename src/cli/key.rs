//! `key`: the keys of people who approve calls and sign policies.

use std::io::Write;
use std::path::PathBuf;

use super::{Outcome, passphrase};
use crate::exit::Exit;
use crate::keys::SigningKey;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make a key behind a passphrase, and print the line that policies name it by
    New(New),
    /// Print the line that policies name a key by
    Show(Show),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The passphrase is typed at the terminal: an agent that runs as the same user \
    can read the file, but cannot open it."
)]
struct New {
    /// The file to write, in PEM; it must not be there yet
    file: PathBuf,
    /// Anybody who reads the file can use the key: for a pipeline that keeps it in a store of secrets
    #[arg(long)]
    without_passphrase: bool,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The key's file
    file: PathBuf,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.verb {
        Verb::New(new) => {
            let chosen = match new.without_passphrase {
                true => None,
                false => Some(passphrase::choose(&format!("`{}`", new.file.display()))?),
            };
            let key = SigningKey::generate()?;
            key.write(&new.file, chosen.as_ref())?;
            writeln!(out, "{}", key.public())?;
        }
        Verb::Show(show) => {
            let key = SigningKey::read(&show.file, || {
                passphrase::ask(&format!("`{}`", show.file.display()))
            })?;
            writeln!(out, "{}", key.public())?;
        }
    }
    Ok(Exit::Ok)
}
