//! `audit prove`: what somebody without the record can verify.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::directory;
use crate::audit::checkpoint::{self, Checkpoint};
use crate::audit::prove::{Proven, Record, check};
use crate::audit::read;
use crate::audit::tree::Tree;
use crate::audit::verify::files;
use crate::cli::Outcome;
use crate::exit::Exit;
use crate::facts::paths::words;

/// Prove that one line is in the record, to somebody who must not see the others
///
/// The proof holds the line, the hashes that lead from it to the newest checkpoint, and that: a C2SP
/// tlog-proof. With `--since` it proves instead that the record goes on from an older checkpoint.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 proven · 1 not · 64 usage.\n\
    copilot-bridge audit prove 17 > line.tlog-proof\n\
    copilot-bridge audit prove --check line.tlog-proof --key \"$(cat bridge.vkey)\"",
    group = clap::ArgGroup::new("what").required(true).args(["seq", "since", "check"]).multiple(true)
)]
pub(super) struct Args {
    /// The number of the line
    #[arg(conflicts_with_all = ["since", "check"])]
    seq: Option<u64>,
    /// Files of a record, or its directory [default: this installation's record]
    #[arg(conflicts_with = "check")]
    paths: Vec<PathBuf>,
    /// An older checkpoint that the record goes on from
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// A proof to be verified, without any record
    #[arg(long, value_name = "FILE", requires = "key")]
    check: Option<PathBuf>,
    /// The key that its checkpoint has to be signed with, or a file with it (see `audit key`)
    #[arg(long, value_name = "KEY", requires = "check")]
    key: Option<String>,
    /// The directory that record and keys are kept in
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    state: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let old = args.since.as_deref().map(checkpoint::signed).transpose()?;
    let old = old.map(|(signed, _)| signed);
    if let (Some(proof), Some(key)) = (&args.check, &args.key) {
        let key = checkpoint::verifier_key(key)?;
        let wrong = |why: String| format!("`{}` proves nothing: {why}", proof.display());
        let text = text_of(proof).map_err(|error| wrong(words(&error)))?;
        match check(&text, &key, old.as_ref()).map_err(wrong)? {
            Proven::Line { seq, line } => {
                writeln!(out, "number {seq} is in the record:")?;
                out.write_all(&line)?;
                writeln!(out)?;
            }
            Proven::Since { size } => {
                writeln!(
                    out,
                    "the record goes on from the checkpoint of {size} lines"
                )?;
            }
        }
        return Ok(Exit::Ok);
    }
    let (record, newest) = record(args)?;
    let proof = match (args.seq, &old) {
        (Some(seq), _) => record.line(seq, &newest),
        (None, Some(old)) => record.since(old, &newest),
        (None, None) => return Ok(Exit::Usage),
    };
    write!(out, "{}", proof.map_err(|error| error.0)?)?;
    Ok(Exit::Ok)
}

/// The record, and its newest checkpoint.
fn record(args: &Args) -> Result<(Record, Checkpoint), String> {
    let paths = if args.paths.is_empty() {
        super::days(args.state.as_deref())?;
        vec![directory(args.state.as_deref())]
    } else {
        args.paths.clone()
    };
    let listed = files::list(&paths).map_err(|error| error.0)?;
    let dir = listed.files.first().and_then(|file| file.parent());
    let dir = dir.unwrap_or(Path::new("."));
    let newest = checkpoint::newest(dir).map_err(|error| error.0)?;
    let newest = newest.ok_or_else(|| {
        format!(
            "there is no checkpoint in `{}`\nhelp: `copilot-bridge audit checkpoint` makes one",
            dir.display()
        )
    })?;
    let first = listed
        .files
        .first()
        .and_then(|file| files::first(file).ok()?);
    let before = match first {
        None | Some(0 | 1) => Tree::default(),
        Some(first) => checkpoint::of_size(&listed.checkpoints, first - 1)
            .map(|checkpoint| checkpoint.tree)
            .unwrap_or_default(),
    };
    let files = listed.files;
    Ok((Record { files, before }, newest))
}

fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    read::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}
