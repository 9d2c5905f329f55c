//! `redact`: secrets in files and pipes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Outcome;
use super::progress::Progress;
use super::texts::{Opened, Wanted};
use crate::engine::redaction::{Fault, Redactor};
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::scrub::file::{self, Fresh, Refusal};
use crate::scrub::files::{self, Listed, Unread};
use crate::scrub::pipe::{self, Broken, Part};
use crate::scrub::place::Seen;
use crate::scrub::report::{self, Found, Report};
use crate::scrub::{sarif, text};

/// What a pipe is called in reports.
const PIPE: &str = "<stdin>";

/// Find secrets in files and pipes, and take them out
///
/// What is found is named by file, line, column and rule, and never shown. Of folders, the files that
/// ripgrep would search are looked at. Without an installation, fingerprints and placeholders are
/// other ones with each run.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 ok · 1 findings, with --check · 2 not all of it could be looked at · \
    3 policy invalid · 64 usage.\nThe forms of the output: see docs/redaction.md."
)]
pub(crate) struct Args {
    /// Files and folders, or `-` for the standard input [default: .]
    #[arg(conflicts_with = "stdin")]
    paths: Vec<PathBuf>,
    /// End with 1 if anything is found
    #[arg(long)]
    check: bool,
    /// Replace what is found by placeholders, in the files themselves
    #[arg(long, conflicts_with_all = ["check", "stdin"])]
    write: bool,
    /// Redact the standard input to the standard output, and change nothing else of it
    #[arg(long)]
    stdin: bool,
    /// How findings are shown
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Look at hidden files and folders too
    #[arg(long)]
    hidden: bool,
    #[command(flatten)]
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// For code scanning
    Sarif,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let opened = match args.wanted.open(out) {
        Ok(Ok(opened)) => opened,
        Ok(Err(exit)) => return Ok(exit),
        // 1 would say that there are findings.
        Err(error) => return withheld(&error.to_string()),
    };
    let sets = opened.rules.sets();
    let redactor = Redactor::new(&sets, &opened.rules.key);
    let look = Look {
        args,
        redactor,
        report: Report::default(),
        out,
    };
    if args.stdin || args.paths.iter().any(|path| path == Path::new("-")) {
        if args.write || args.paths.len() > 1 {
            return usage("`-` stands alone, and is not written to");
        }
        if !args.check && args.format != Format::Text {
            return usage("`--format` is for findings: add `--check`");
        }
        return look.pipe(&opened);
    }
    look.files()
}

fn withheld(message: &str) -> Outcome {
    writeln!(anstream::stderr(), "error: {message}")?;
    Ok(Exit::Withheld)
}

fn usage(message: &str) -> Outcome {
    writeln!(anstream::stderr(), "error: {message}")?;
    Ok(Exit::Usage)
}

struct Look<'a, 'o> {
    args: &'o Args,
    redactor: Redactor<'a>,
    report: Report<'a>,
    out: &'o mut dyn Write,
}

impl<'a> Look<'a, '_> {
    fn pipe(mut self, opened: &Opened) -> Outcome {
        let input = &mut io::stdin().lock();
        // Columns are known by the first line of the whole table.
        let whole = opened.phi;
        if !self.args.check {
            let mut output = raw_stdout()?;
            let mut write = |part: Part<'_, '_>| match part {
                Part::Text(bytes) => output.write_all(bytes),
                Part::Seen(_) => Ok(()),
            };
            let wanted = pipe::Wanted::Text;
            return match pipe::run(self.redactor, wanted, whole, input, &mut write) {
                Ok(()) => Ok(Exit::Ok),
                Err(Broken::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Err(error.into())
                }
                Err(broken) => withheld(&format!(
                    "{}\nhelp: nothing was let through from there on",
                    message(&broken)
                )),
            };
        }
        self.report.files = 1;
        let wanted = pipe::Wanted::Findings;
        let redactor = self.redactor;
        let looked = pipe::run(redactor, wanted, whole, input, &mut |part| match part {
            Part::Text(_) => Ok(()),
            Part::Seen(seen) => self.found(Path::new(PIPE), seen),
        });
        if let Err(broken) = looked {
            self.unread(Path::new(PIPE), message(&broken))?;
        }
        self.end()
    }

    fn files(mut self) -> Outcome {
        let here = [PathBuf::from(".")];
        let paths = if self.args.paths.is_empty() {
            &here
        } else {
            self.args.paths.as_slice()
        };
        let (files, unread) = files::list(paths, self.args.hidden);
        for unread in unread {
            self.unread(&unread.path, unread.message)?;
        }
        let mut progress = Progress::new(files.len());
        for (index, file) in files.iter().enumerate() {
            progress.at(index);
            let looked = self.file(file);
            progress.beside(|| match looked {
                Ok(Some(seen)) => {
                    self.report.files += 1;
                    seen.into_iter()
                        .try_for_each(|seen| self.found(&file.path, seen))
                }
                Ok(None) => Ok(()),
                Err(why) => self.unread(&file.path, why),
            })?;
        }
        drop(progress);
        self.end()
    }

    /// What is found in a file. `None`: it is no text, and nobody named it.
    fn file(&self, Listed { path, named }: &Listed) -> Result<Option<Vec<Seen<'a>>>, String> {
        let large = |refusal: Refusal| match refusal {
            Refusal::TooLarge => format!("{refusal}\nhelp: `redact --stdin` takes any size"),
            other => other.to_string(),
        };
        // Who writes has to say which file is meant.
        let mut opened = file::open(path, *named && !self.args.write).map_err(large)?;
        let Some(bytes) = file::bytes(&mut opened).map_err(large)? else {
            return if *named {
                Err(large(Refusal::TooLarge))
            } else {
                Ok(None)
            };
        };
        if !named && text::is_binary(&bytes) {
            return Ok(None);
        }
        let seen = text::look(self.redactor, &bytes).map_err(fault)?;
        if self.args.write
            && let Some(new) = text::clean(self.redactor, &bytes).map_err(fault)?
        {
            let mut fresh = Fresh::beside(path, &opened).map_err(large)?;
            fresh.write(&new).map_err(large)?;
            fresh.replace(path, &opened, false).map_err(large)?;
        }
        Ok(Some(seen))
    }

    fn found(&mut self, path: &Path, seen: Seen<'a>) -> io::Result<()> {
        let found = Found {
            path: path.display().to_string(),
            seen,
        };
        if self.args.format == Format::Text {
            writeln!(self.out, "{}", report::line(&found))?;
        }
        self.report.found.push(found);
        Ok(())
    }

    fn unread(&mut self, path: &Path, message: String) -> io::Result<()> {
        let name = report::printable(&path.display().to_string());
        writeln!(anstream::stderr(), "error: `{name}`: {message}")?;
        self.report.unread.push(Unread {
            path: path.to_path_buf(),
            message,
        });
        Ok(())
    }

    fn end(self) -> Outcome {
        match self.args.format {
            Format::Text => writeln!(self.out, "{}", report::summary(&self.report))?,
            Format::Json => writeln!(self.out, "{:#}", report::json(&self.report))?,
            Format::Sarif => writeln!(self.out, "{:#}", sarif::log(&self.report))?,
        }
        Ok(if !self.report.unread.is_empty() {
            Exit::Withheld
        } else if self.args.check && !self.report.found.is_empty() {
            Exit::Failed
        } else {
            Exit::Ok
        })
    }
}

fn fault(fault: Fault) -> String {
    fault.to_string()
}

fn message(broken: &Broken) -> String {
    match broken {
        Broken::Io(error) => format!("the text cannot be handed on: {}", words(error)),
        Broken::Fault(at, fault) => format!("from line {} on, {fault}", at.line),
        Broken::TooLarge(at) => format!(
            "the document that begins in line {} has more than {} MiB",
            at.line,
            crate::scrub::LARGEST >> 20
        ),
    }
}

/// Standard output as it is: without the filter that takes escape sequences out, and the buffer
/// that looks for lines.
#[cfg(unix)]
pub(super) fn raw_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(std::fs::File::from(descriptor))
}

#[cfg(windows)]
pub(super) fn raw_stdout() -> io::Result<std::fs::File> {
    use std::os::windows::io::AsHandle;
    let handle = io::stdout().as_handle().try_clone_to_owned()?;
    Ok(std::fs::File::from(handle))
}
