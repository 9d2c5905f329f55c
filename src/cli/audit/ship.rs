//! `audit ship`: the record, sent on.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::{counted, days};
use crate::cli::place::Place;
use crate::cli::progress::Progress;
use crate::cli::{Format, Outcome};
use crate::exit::Exit;
use crate::scrub::report::printable;
use crate::ship::sink::{Form, Sink};
use crate::ship::stop::Stop;
use crate::ship::{self, News, Settings, ShipError, Summary};

/// Send the record on, to where an agent cannot change it
///
/// Goes on from the last line that the sink acknowledged, so each line arrives at least once; its id, the
/// SHA-256 of the line, tells a repetition. The record itself is the spool.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("sink").required(true),
    after_help = "Exit codes: 0 all is sent · 1 it is not, or lines were gone before · 64 usage.\n\
    How to run it, and what the other side does: see docs/shipping.md."
)]
pub(super) struct Args {
    /// To an OTLP collector, over HTTP in protobuf; `/v1/logs` is added
    #[arg(long, value_name = "URL", group = "sink")]
    otlp: Option<String>,
    /// To an HTTP server, as NDJSON: one `{"id", "line"}` a line
    #[arg(long, value_name = "URL", group = "sink")]
    http: Option<String>,
    /// Add a header whose value is in an environment variable, where no process list shows it
    #[arg(long, value_name = "NAME=VARIABLE")]
    header_env: Vec<String>,
    /// Compress what is sent
    #[arg(long)]
    gzip: bool,
    /// With OTLP, send each line as it is along with its attributes, so that the chain can be verified
    #[arg(long, requires = "otlp")]
    original: bool,
    /// Allow plain `http` to other machines: all can read the record on its way
    #[arg(long)]
    insecure: bool,
    /// Wait for new lines, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// End when all is sent: the default
    #[arg(long, conflicts_with = "follow")]
    once: bool,
    /// So many lines in one request at most
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch_lines: u32,
    /// So many bytes of lines in one request, a line more or less
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=16 << 20))]
    batch_bytes: u32,
    /// How long one request may take, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=600))]
    timeout: u32,
    /// How often one request is tried
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: u32,
    /// Give up a sink that asks to wait longer, in seconds
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    longest_wait: u32,
    /// How to show what was done
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The directory that record and key are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The directory that remembers how far each sink has it [default: `ship` in that of `--state`]
    #[arg(long, value_name = "DIR")]
    positions: Option<PathBuf>,
}

/// The name and the value of a header. The text is never told: it may be a header with its value.
fn header(text: &str) -> Result<(&str, String), ShipError> {
    let parts = text.split_once('=');
    let Some((name, variable)) = parts.filter(|(_, variable)| !variable.is_empty()) else {
        return Err(ShipError(
            "`--header-env` wants `NAME=VARIABLE`, with the name of an environment variable"
                .to_owned(),
        ));
    };
    let value = std::env::var(variable).map_err(|_| {
        ShipError(format!(
            "the environment variable for the header `{name}` is not set, or no text"
        ))
    })?;
    Ok((name, value))
}

impl Args {
    fn sink(&self) -> Result<Sink, ShipError> {
        let (form, url) = match (&self.otlp, &self.http) {
            (Some(url), _) => (
                Form::Otlp {
                    original: self.original,
                },
                url,
            ),
            (None, url) => (Form::Ndjson, url.as_ref().ok_or_else(nowhere)?),
        };
        let mut sink = Sink::new(form, url, self.gzip, self.insecure)?;
        for text in &self.header_env {
            let (name, value) = header(text)?;
            sink.header(name, &value)?;
        }
        Ok(sink)
    }
}

fn nowhere() -> ShipError {
    ShipError("no sink is named".to_owned())
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let place = Place {
        state: args.state.clone(),
        ..Place::default()
    };
    let state = place.state();
    let settings = Settings {
        record: state.join("audit"),
        positions: match &args.positions {
            Some(dir) => std::path::absolute(dir)?,
            None => state.join("ship"),
        },
        sink: args.sink()?,
        lines: usize::try_from(args.batch_lines)?,
        bytes: usize::try_from(args.batch_bytes)?,
        timeout: Duration::from_secs(args.timeout.into()),
        attempts: usize::try_from(args.attempts)?,
        longest_wait: Duration::from_secs(args.longest_wait.into()),
        follow: args.follow,
    };
    // Who waits may wait for the first line.
    if !args.follow {
        days(args.state.as_deref())?;
    }
    let stop = Stop::on_signals()?;
    let mut progress = Progress::bytes(if args.follow {
        0
    } else {
        ship::left(&settings)?
    });
    let mut done = 0;
    let mut summary = Summary::default();
    let sink = settings.sink.place();
    let result = ship::run(&settings, &stop, &mut summary, &mut |news| {
        if let News::Sent { bytes, .. } = news {
            done += bytes;
            if !args.follow {
                progress.at(usize::try_from(done).unwrap_or(usize::MAX));
            }
        } else {
            let text = told(news, &sink);
            // Who cannot be told is no reason to stop.
            let _ = progress.beside(|| writeln!(anstream::stderr(), "{text}"));
        }
    });
    drop(progress);
    let error = result.err();
    match args.format {
        Format::Text => writeln!(anstream::stderr(), "{}", text(&summary, &sink))?,
        Format::Json => writeln!(out, "{}", document(&summary, &sink, error.as_ref()))?,
    }
    if let Some(error) = error {
        return Err(error.into());
    }
    let lost = summary.missing > 0 || summary.rejected > 0 || summary.changed;
    let cut_short = summary.stopped && !args.follow;
    Ok(if lost || cut_short {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

/// What happened, on the way.
fn told(news: &News<'_>, sink: &str) -> String {
    match news {
        News::Sent { lines, .. } => format!("sent {}", counted(*lines, "line")),
        News::Missing { count, before } => {
            let (were, verb) = match count {
                1 => ("line", "was"),
                _ => ("lines", "were"),
            };
            format!(
                "warning: {} {were} before number {before} {verb} gone before being sent",
                super::grouped(*count)
            )
        }
        News::Changed(mark) => format!(
            "warning: number {}, the last line that was sent, stands nowhere in the record: it was changed, so all of it is sent\nhelp: `copilot-bridge audit verify`",
            mark.seq
        ),
        News::Torn { file, bytes } => format!(
            "note: the last line of `{}` was cut short after {}, and is not sent",
            printable(file),
            counted(*bytes, "byte")
        ),
        News::Again { why, wait } => {
            format!("{why}: trying again in {:.1} s", wait.as_secs_f64())
        }
        News::Rejected { count, why } => {
            let why = match *why {
                "" => String::new(),
                why => format!(": {why}"),
            };
            format!(
                "warning: `{sink}` does not want {}{why}",
                counted(*count, "line")
            )
        }
        News::Warned(why) => format!("note: `{sink}` says: {why}"),
    }
}

/// `12,480 lines sent to http://… in 25 requests, up to number 12480`
fn text(summary: &Summary, sink: &str) -> String {
    let mut text = format!(
        "{} sent to `{sink}` in {}",
        counted(summary.lines, "line"),
        counted(summary.batches, "request")
    );
    if let Some(last) = &summary.last {
        text.push_str(&format!(", up to number {}", last.seq));
    }
    for (number, what) in [
        (summary.retries, "repeated"),
        (summary.missing, "missing"),
        (summary.rejected, "not wanted"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {} {what}", super::grouped(number)));
        }
    }
    text
}

fn document(summary: &Summary, sink: &str, error: Option<&ShipError>) -> Value {
    let last = summary
        .last
        .as_ref()
        .map(|mark| json!({"seq": mark.seq, "id": mark.id, "file": mark.file}));
    json!({
        "version": 1,
        "sink": sink,
        "lines": summary.lines,
        "bytes": summary.bytes,
        "requests": summary.batches,
        "repeated": summary.retries,
        "missing": summary.missing,
        "rejected": summary.rejected,
        "changed": summary.changed,
        "interrupted": summary.stopped,
        "last": last,
        "error": error.map(|error| error.0.as_str()),
    })
}
