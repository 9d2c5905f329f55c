//! `audit query`: lines of the record, by what they are about.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::filter::{self, Wanted};
use super::row::{NAMES, Row};
use super::{days, directory, open};
use crate::audit::line::Line;
use crate::audit::query::{Tail, lines};
use crate::cli::Outcome;
use crate::cli::progress::Progress;
use crate::exit::Exit;

/// How often the record is looked at for new lines.
const PAUSE: Duration = Duration::from_millis(200);

/// No table is narrower.
const NARROWEST: usize = 60;

/// Show lines of the record, by what they are about
///
/// All that is asked has to hold. Days outside the range are not even opened.
#[derive(Debug, clap::Args)]
#[command(after_help = filter::HELP)]
pub(super) struct Args {
    #[command(flatten)]
    filter: Wanted,
    /// Wait for new lines, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// How to show them
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// The directory that record and key are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Table,
    /// The lines as they are, for programs
    Json,
    /// For spreadsheets
    Csv,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let dir = directory(args.state.as_deref());
    let days = match days(args.state.as_deref()) {
        // Who waits may wait for the first line.
        Err(_) if args.follow => Vec::new(),
        days => days?,
    };
    let filter = args.filter.filter();
    let mut printer = Printer::new(args.format, out)?;
    let sizes: Vec<u64> = days
        .iter()
        .map(|day| day.metadata().map_or(0, |metadata| metadata.len()))
        .collect();
    let wanted = days.iter().map(|day| filter.wants_day(day));
    let total = wanted.zip(&sizes).filter(|(wanted, _)| *wanted);
    // Rows on the same terminal and a bar are in each other's way.
    let mut progress =
        (!io::stdout().is_terminal()).then(|| Progress::bytes(total.map(|(_, size)| size).sum()));
    let mut done = 0;
    let mut end = None;
    for (day, size) in days.iter().zip(sizes) {
        if !filter.wants_day(day) {
            end = Some((day.clone(), size));
            continue;
        }
        let bytes = lines(open(day)?, &mut |line| {
            done += line.len() + 1;
            if let Some(progress) = &mut progress {
                progress.at(done);
            }
            match filter.wanted(line) {
                Some(read) => printer.row(line, &read),
                None => Ok(()),
            }
        })?;
        end = Some((day.clone(), bytes));
    }
    drop(progress);
    printer.flush()?;
    let mut tail = Tail::behind(dir, end);
    if !args.follow {
        return Ok(Exit::Ok);
    }
    loop {
        std::thread::sleep(PAUSE);
        tail.more(&mut |line| match filter.wanted(line) {
            Some(read) => printer.row(line, &read),
            None => Ok(()),
        })?;
        printer.flush()?;
    }
}

/// Writes rows in one of the forms.
enum Printer<'a> {
    Table {
        out: &'a mut dyn Write,
        width: Option<usize>,
    },
    Json(&'a mut dyn Write),
    Csv(Box<csv::Writer<&'a mut dyn Write>>),
}

impl<'a> Printer<'a> {
    fn new(format: Format, out: &'a mut dyn Write) -> io::Result<Self> {
        Ok(match format {
            Format::Table => {
                let terminal = io::stdout().is_terminal();
                let width = terminal_size::terminal_size().filter(|_| terminal);
                Self::Table {
                    out,
                    width: width.map(|(width, _)| usize::from(width.0).max(NARROWEST)),
                }
            }
            Format::Json => Self::Json(out),
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(NAMES).map_err(io::Error::from)?;
                Self::Csv(Box::new(writer))
            }
        })
    }

    fn row(&mut self, line: &[u8], read: &Line<'_>) -> io::Result<()> {
        match self {
            Self::Table { out, width } => table(&Row::of(read), *width, *out),
            Self::Json(out) => {
                out.write_all(line)?;
                out.write_all(b"\n")
            }
            Self::Csv(writer) => writer
                .write_record(Row::of(read).cells().map(unarmed))
                .map_err(io::Error::from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Table { out, .. } | Self::Json(out) => out.flush(),
            Self::Csv(writer) => writer.flush(),
        }
    }
}

/// A cell that no spreadsheet takes for a formula.
fn unarmed(cell: &str) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{cell}")
    } else {
        cell.to_owned()
    }
}

fn table(row: &Row, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let colour = match row.decision.as_str() {
        "allow" => AnsiColor::Green,
        "ask" => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    let style = Style::new().bold().fg_color(Some(colour.into()));
    let time = row.time.get(..19).unwrap_or(&row.time).replace('T', " ");
    // Time, decision and tool, with two blanks behind each.
    const FIXED: usize = 19 + 2 + 5 + 2 + 12 + 2;
    let (what, policy) = match width {
        Some(width) => {
            let left = width.saturating_sub(FIXED + 2);
            let policy = row.policy.width().min(left / 2);
            (left - policy, policy)
        }
        None => (row.what.width().max(40), row.policy.width()),
    };
    writeln!(
        out,
        "{time}  {style}{}{style:#}  {}  {}  {}",
        fitted(&row.decision, 5),
        fitted(&row.tool, 12),
        fitted(&row.what, what),
        fitted(&row.policy, policy).trim_end()
    )
}

/// A text that is so wide on a terminal: filled up, or cut and marked.
fn fitted(text: &str, width: usize) -> String {
    let has = text.width();
    if has <= width {
        return format!("{text}{}", " ".repeat(width - has));
    }
    let mut cut = String::new();
    let mut used = 0;
    for character in text.chars() {
        let more = character.width().unwrap_or(0);
        if used + more + 1 > width {
            break;
        }
        used += more;
        cut.push(character);
    }
    if width > 0 {
        cut.push('…');
        used += 1;
    }
    format!("{cut}{}", " ".repeat(width.saturating_sub(used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_column() {
        assert_eq!(fitted("ab", 4), "ab  ");
        assert_eq!(fitted("abcde", 4), "abc…");
        assert_eq!(fitted("日本語", 4), "日… ");
        assert_eq!(fitted("ab", 0), "");
    }
}
