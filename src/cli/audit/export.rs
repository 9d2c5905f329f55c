//! `audit export`: the record in the form of another system.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::filter::{self, Wanted};
use super::{counted, days, open};
use crate::audit::export::{Exporter, Format};
use crate::audit::lines::Lines;
use crate::audit::query::Filter;
use crate::audit::read;
use crate::audit::verify::files;
use crate::cli::Outcome;
use crate::cli::progress::Progress;
use crate::cli::redact::raw_stdout;
use crate::exit::Exit;
use crate::facts::paths::words;

/// Hand the record on in the form of another system
///
/// What the record hides stays hidden. Each line has its id there, the SHA-256 of its bytes: who gets
/// one twice can tell. Whether a record is whole is said by `audit verify`, not here.
#[derive(Debug, clap::Args)]
#[command(after_help = filter::HELP)]
pub(super) struct Args {
    /// Files of a record, in any order, or its directory [default: this installation's record]
    paths: Vec<PathBuf>,
    /// The form
    #[arg(long, value_enum)]
    format: Format,
    #[command(flatten)]
    wanted: Wanted,
    /// Write to that file, which is there only once it is whole [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The directory that record and key are kept in
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    state: Option<PathBuf>,
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.about()))
    }
}

pub(super) fn run(args: &Args, _: &mut dyn Write) -> Outcome {
    let files = match args.paths.as_slice() {
        [] => days(args.state.as_deref())?,
        paths => files::list(paths).map_err(|error| error.0)?.files,
    };
    let filter = args.wanted.filter();
    let passed_over = match &args.output {
        Some(path) => to_file(path, args.format, &files, &filter)?,
        None => {
            let terminal = io::stdout().is_terminal();
            if args.format.is_binary() && terminal {
                let name = args.format.name();
                return Err(format!(
                    "`{name}` is nothing for a terminal\nhelp: name a file with `--output`"
                )
                .into());
            }
            // The bytes as they are: the usual way out takes escape sequences away.
            let out = BufWriter::new(raw_stdout()?);
            export(args.format, &files, &filter, !terminal, out)?.1
        }
    };
    if passed_over > 0 {
        writeln!(
            anstream::stderr(),
            "warning: {} left out that cannot be read\nhelp: `audit verify` says which",
            counted(passed_over, "line")
        )?;
    }
    Ok(Exit::Ok)
}

/// Writes a file beside the one that is meant, which takes its place when it is whole.
fn to_file(
    path: &Path,
    format: Format,
    files: &[PathBuf],
    filter: &Filter,
) -> Result<u64, Box<dyn std::error::Error>> {
    let shown = path.display();
    let failed = |error: &io::Error| format!("cannot write `{shown}`: {}", words(error));
    // What a link leads to is replaced, not the link.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if target.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(format!("`{shown}` is no plain file").into());
    }
    if read::day_of(&target).is_some() {
        return Err(format!(
            "`{shown}` is named like a day of a record, which nothing else may be"
        )
        .into());
    }
    let dir = match target.parent() {
        Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
        Some(dir) => dir,
        None => return Err(format!("`{shown}` is no plain file").into()),
    };
    let beside = NamedTempFile::new_in(dir).map_err(|error| failed(&error))?;
    let out = beside
        .as_file()
        .try_clone()
        .map_err(|error| failed(&error))?;
    let (out, passed_over) = export(format, files, filter, true, BufWriter::new(out))?;
    let whole = out
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|file| file.sync_all());
    whole.map_err(|error| failed(&error))?;
    beside
        .persist(&target)
        .map_err(|error| failed(&error.error))?;
    Ok(passed_over)
}

/// Hands on what is asked about of all files. How many lines of them could not be read.
fn export(
    format: Format,
    files: &[PathBuf],
    filter: &Filter,
    shows_progress: bool,
    out: BufWriter<File>,
) -> Result<(BufWriter<File>, u64), Box<dyn std::error::Error>> {
    let files: Vec<&PathBuf> = files.iter().filter(|file| filter.wants_day(file)).collect();
    let sizes = files.iter().filter_map(|file| file.metadata().ok());
    let total = sizes.map(|metadata| metadata.len()).sum();
    // A bar and lines on the same terminal are in each other's way.
    let mut progress = shows_progress.then(|| Progress::bytes(total));
    let asks = *filter != Filter::default();
    let mut exporter = Exporter::new(format, out)?;
    let mut done = 0;
    let mut passed_over = 0;
    for path in files {
        let failed =
            |error: io::Error| format!("cannot read `{}`: {}", path.display(), words(&error));
        let mut lines = Lines::new(open(path)?);
        while let Some(line) = lines.line().map_err(failed)? {
            // A line without its end is one that is being written, or never will be.
            if !line.ended {
                break;
            }
            done += line.length + 1;
            if let Some(progress) = &mut progress {
                progress.at(usize::try_from(done).unwrap_or(usize::MAX));
            }
            let bytes = Some(line.bytes).filter(|_| !line.is_too_long());
            let wanted = bytes.filter(|bytes| !asks || filter.wants(bytes));
            match wanted.and_then(|bytes| serde_json::from_slice(bytes).ok()) {
                Some(value @ Value::Object(_)) => exporter.line(line.bytes, &value)?,
                // What cannot be read cannot be asked about.
                _ if asks => {}
                _ => passed_over += 1,
            }
        }
    }
    Ok((exporter.finish()?, passed_over))
}
