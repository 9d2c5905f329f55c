//! `scrub`: secrets in what hosts wrote down of their sessions.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::Outcome;
use super::place;
use super::progress::Progress;
use super::texts::Wanted;
use crate::engine::redaction::Redactor;
use crate::exit::Exit;
use crate::scrub::files::Unread;
use crate::scrub::hosts::{self, Host, Transcript, Treatment};
use crate::scrub::live::Sessions;
use crate::scrub::report::{counted, printable};
use crate::scrub::transcript::{self, Ending, Examined, Hits};

/// Take secrets out of what hosts wrote down of their sessions
///
/// Transcripts, logs and command histories of Copilot CLI, Claude Code and OpenClaw in the caller's
/// home are rewritten in place, with placeholders for what is found. What a session still writes to
/// is left alone and named, and so is what cannot be rewritten. Settings and sign-ins of the hosts
/// are never touched.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 ok · 1 something still holds secrets, or was not looked at · \
    3 policy invalid · 64 usage.\nWhat is looked at, and what is not: see docs/redaction.md."
)]
pub(crate) struct Args {
    /// Whose transcripts; may be repeated [default: all, where no PATH is given]
    #[arg(long, value_enum, value_name = "HOST")]
    host: Vec<HostChoice>,
    /// Transcripts, or folders of them: with --host, folders that this host uses instead of the
    /// one in the home; else all `.jsonl` and `.log` files below
    paths: Vec<PathBuf>,
    /// List what would be taken out of which file, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave what was written to more recently, as sessions do that go on: `90s`, `2h`, `1d`
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    older_than: Duration,
    /// Instead of the home of the passwd entry
    #[arg(long, value_name = "DIR", hide = true)]
    home: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HostChoice {
    /// GitHub Copilot CLI
    Copilot,
    /// Claude Code
    Claude,
    /// OpenClaw
    Openclaw,
}

impl HostChoice {
    const fn host(self) -> Host {
        match self {
            Self::Copilot => Host::Copilot,
            Self::Claude => Host::Claude,
            Self::Openclaw => Host::Openclaw,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "it is a number with a unit: `90s`, `2h`, `1d`".to_owned())?;
    parsed
        .try_into()
        .map_err(|_| "it is no time that has passed".to_owned())
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let opened = match args.wanted.open(out)? {
        Ok(opened) => opened,
        Err(exit) => return Ok(exit),
    };
    let sets = opened.rules.sets();
    let redactor = Redactor::new(&sets, &opened.rules.key);
    let mut unread = Vec::new();
    let transcripts = find(args, &mut unread)?;
    let mut sessions = Sessions::new(args.older_than);
    let mut tally = Tally::default();
    for Unread { path, message } in unread {
        let name = printable(&path.display().to_string());
        writeln!(out, "{name}: left, {message}")?;
        tally.left += 1;
    }
    let mut progress = Progress::new(transcripts.len());
    for (index, transcript) in transcripts.iter().enumerate() {
        progress.at(index);
        let examined = transcript::scrub(redactor, transcript, &mut sessions, args.dry_run);
        progress.beside(|| tally.note(transcript, &examined, args.dry_run, out))?;
    }
    drop(progress);
    tally.summary(transcripts.len(), args.dry_run, out)?;
    Ok(if tally.left > 0 {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

/// The transcripts that are meant.
fn find(
    args: &Args,
    unread: &mut Vec<Unread>,
) -> Result<Vec<Transcript>, Box<dyn std::error::Error>> {
    let named: Vec<Host> = args.host.iter().map(|host| host.host()).collect();
    let mut found = Vec::new();
    if args.paths.is_empty() {
        let hosts = if named.is_empty() {
            Host::ALL.to_vec()
        } else {
            named
        };
        let home = args.home.clone().or_else(place::home);
        let home = home.ok_or("this user has no home in the passwd database\nhelp: name the folders of the hosts with `--host`")?;
        for host in hosts {
            for folder in host.folders(&home) {
                found.extend(hosts::transcripts(&[host], &folder, unread)?);
            }
            elsewhere(host)?;
        }
        return Ok(found);
    }
    for path in &args.paths {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                found.extend(hosts::transcripts(&named, path, unread)?);
            }
            Ok(_) => found.push(Transcript {
                path: path.clone(),
                treatment: Treatment::Clean,
            }),
            Err(error) => unread.push(Unread {
                path: path.clone(),
                message: format!("it cannot be read: {}", crate::facts::paths::words(&error)),
            }),
        }
    }
    Ok(found)
}

/// A host may keep its folder somewhere else. A variable does not say what is rewritten, a person does.
fn elsewhere(host: Host) -> io::Result<()> {
    let Some(folder) = std::env::var_os(host.variable()).filter(|value| !value.is_empty()) else {
        return Ok(());
    };
    writeln!(
        anstream::stderr(),
        "note: `{}` names another folder, which is looked at with `--host {} {}`",
        host.variable(),
        host.name(),
        printable(&folder.to_string_lossy())
    )
}

#[derive(Default)]
struct Tally {
    cleaned: usize,
    secrets: usize,
    left: usize,
}

impl Tally {
    fn note(
        &mut self,
        transcript: &Transcript,
        Examined { hits, ending }: &Examined,
        dry_run: bool,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let path = printable(&transcript.path.display().to_string());
        let number: usize = hits.values().sum();
        let rules = rules(hits);
        match ending {
            Ending::Left(why) if hits.is_empty() => {
                self.left += 1;
                writeln!(out, "{path}: left, {why}")
            }
            Ending::Left(why) => {
                self.left += 1;
                writeln!(
                    out,
                    "{path}: left with {} ({rules}), {why}",
                    secrets(number)
                )
            }
            Ending::Unchanged if hits.is_empty() => Ok(()),
            Ending::Unchanged | Ending::Cleaned => {
                self.cleaned += 1;
                self.secrets += number;
                let would = if dry_run { "would be " } else { "" };
                writeln!(
                    out,
                    "{path}: {} {would}taken out ({rules})",
                    secrets(number)
                )
            }
        }
    }

    fn summary(&self, looked: usize, dry_run: bool, out: &mut dyn Write) -> io::Result<()> {
        let would = if dry_run { "would be " } else { "" };
        writeln!(
            out,
            "{} {would}taken out of {}, {} looked at, {} left",
            secrets(self.secrets),
            counted(self.cleaned, "file"),
            looked,
            self.left
        )
    }
}

fn secrets(number: usize) -> String {
    counted(number, "secret")
}

/// `github-pat 2, jwt`
fn rules(hits: &Hits) -> String {
    let each: Vec<String> = hits
        .iter()
        .map(|(rule, count)| match count {
            1 => rule.clone(),
            count => format!("{rule} {count}"),
        })
        .collect();
    each.join(", ")
}
