//! Sends the record on, as it is written, to where the agent's user cannot change it.
//!
//! The record is its own spool: nothing is copied. What a sink has acknowledged is remembered in a file, and
//! only then; so each line arrives at least once, and its id tells a repetition.

mod client;
mod position;
pub mod sink;
mod spool;
pub mod stop;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::audit::AuditError;
use client::{Answer, Client};
use position::Held;
pub use position::Mark;
use sink::Sink;
use spool::{Finding, Line, Spool};
use stop::Stop;

/// How often the record is looked at for new lines.
const PAUSE: Duration = Duration::from_millis(300);

/// How long the first repetition waits; each one after it waits twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(500);

/// No repetition waits longer, unless the sink asks for it.
const LONGEST: Duration = Duration::from_mins(1);

/// How long an answer is waited for once the program has to end.
const GRACE: Duration = Duration::from_secs(3);

/// What is sent, and how.
#[derive(Debug)]
pub struct Settings {
    /// The folder of the record.
    pub record: PathBuf,
    /// The folder that remembers how far each sink has it.
    pub positions: PathBuf,
    /// Where to.
    pub sink: Sink,
    /// So many lines go into one request at most.
    pub lines: usize,
    /// With so many bytes of them, one line more or less, a request is full.
    pub bytes: usize,
    /// How long one request may take.
    pub timeout: Duration,
    /// How often one request is tried.
    pub attempts: usize,
    /// A sink that asks to wait longer is given up.
    pub longest_wait: Duration,
    /// Whether to wait for new lines.
    pub follow: bool,
}

/// What a run did.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Lines that were acknowledged.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that were acknowledged.
    pub batches: u64,
    /// Requests that were repeated.
    pub retries: u64,
    /// Lines that were gone before they were sent.
    pub missing: u64,
    /// Lines that the sink took and then refused.
    pub rejected: u64,
    /// Whether the record is not the one that was sent before.
    pub changed: bool,
    /// Whether the program was told to end.
    pub stopped: bool,
    /// The last line that was ever acknowledged.
    pub last: Option<Mark>,
}

/// What happens on the way.
#[derive(Debug)]
pub enum News<'a> {
    /// So many lines were acknowledged, of so many bytes.
    Sent {
        /// How many.
        lines: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Lines were gone before they were sent.
    Missing {
        /// How many.
        count: u64,
        /// The number of the line behind them.
        before: u64,
    },
    /// The last line that was sent stands nowhere: all that is there is sent.
    Changed(&'a Mark),
    /// The last line of a file was cut short, and will not be ended.
    Torn {
        /// The file.
        file: &'a str,
        /// How many bytes of the line are there.
        bytes: u64,
    },
    /// A request is tried again.
    Again {
        /// Why.
        why: &'a str,
        /// How long it waits.
        wait: Duration,
    },
    /// The sink took a request, but not all lines.
    Rejected {
        /// How many it did not take.
        count: u64,
        /// What it says of that.
        why: &'a str,
    },
    /// The sink took all, and has something to say.
    Warned(&'a str),
}

/// Why nothing more is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShipError(pub String);

impl fmt::Display for ShipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ShipError {}

impl From<AuditError> for ShipError {
    fn from(error: AuditError) -> Self {
        Self(error.0)
    }
}

/// Sends what the sink has not acknowledged yet. What was done is in the summary, whatever comes out.
///
/// # Errors
/// If the record or the position cannot be used, another process ships to this sink, or the sink refuses a
/// request or goes on failing.
pub fn run(
    settings: &Settings,
    stop: &Stop,
    summary: &mut Summary,
    tell: &mut dyn FnMut(&News<'_>),
) -> Result<(), ShipError> {
    let held = Held::take(&settings.positions, &settings.sink)?;
    summary.last.clone_from(&held.mark);
    let mut sender = Sender {
        settings,
        stop,
        client: Client::new(&settings.sink, settings.timeout)?,
        spool: Spool::behind(settings.record.clone(), held.mark.clone()),
        held,
        most: settings.lines,
        summary,
        tell,
    };
    sender.run()
}

/// How much of this installation's record a sink has not acknowledged, in bytes.
///
/// # Errors
/// If the record or the position cannot be read.
pub fn left(settings: &Settings) -> Result<u64, ShipError> {
    let mark = position::read(&settings.positions, &settings.sink)?;
    Ok(spool::left(&settings.record, mark.as_ref())?)
}

struct Sender<'a> {
    settings: &'a Settings,
    stop: &'a Stop,
    client: Client,
    spool: Spool,
    held: Held,
    /// So many lines in one request: fewer where the sink said that it was too large.
    most: usize,
    summary: &'a mut Summary,
    tell: &'a mut dyn FnMut(&News<'_>),
}

/// What became of some lines.
enum Delivery {
    Taken,
    TooLarge,
    Stopped,
}

impl Sender<'_> {
    fn run(&mut self) -> Result<(), ShipError> {
        loop {
            if self.stop.is_asked() {
                self.summary.stopped = true;
                return Ok(());
            }
            let batch = self.spool.read(self.settings.lines, self.settings.bytes)?;
            for finding in self.spool.findings() {
                self.found(&finding);
            }
            if batch.is_empty() {
                if !self.settings.follow {
                    return Ok(());
                }
                self.stop.wait(PAUSE);
                continue;
            }
            let mut rest = &*batch;
            while !rest.is_empty() {
                let (part, behind) = rest.split_at(rest.len().min(self.most));
                match self.deliver(part)? {
                    Delivery::Taken => rest = behind,
                    Delivery::TooLarge if part.len() > 1 => self.most = part.len() / 2,
                    Delivery::TooLarge => {
                        return Err(ShipError(format!(
                            "`{}` answered 413 to a single line of {} bytes",
                            self.settings.sink.place(),
                            part.iter().map(|line| line.length).sum::<u64>()
                        )));
                    }
                    Delivery::Stopped => {
                        self.summary.stopped = true;
                        return Ok(());
                    }
                }
            }
        }
    }

    fn found(&mut self, finding: &Finding) {
        let news = match finding {
            Finding::Missing { count, before } => News::Missing {
                count: *count,
                before: *before,
            },
            Finding::Changed(mark) => {
                self.summary.changed = true;
                News::Changed(mark)
            }
            Finding::Torn { file, bytes } => News::Torn {
                file,
                bytes: *bytes,
            },
        };
        (self.tell)(&news);
    }

    /// Sends the lines until they are acknowledged.
    fn deliver(&mut self, lines: &[Line]) -> Result<Delivery, ShipError> {
        let request = Arc::new(self.settings.sink.request(lines)?);
        let mut waits = ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(FIRST)
            .with_max_delay(LONGEST)
            .with_max_times(self.settings.attempts.saturating_sub(1))
            .build();
        loop {
            let (client, body) = (self.client.clone(), Arc::clone(&request));
            let Some(answer) = self.stop.during(GRACE, move || client.post(&body))? else {
                return Ok(Delivery::Stopped);
            };
            let (why, asked) = match answer {
                Answer::Taken { rejected, message } => {
                    self.taken(lines, rejected, &message)?;
                    return Ok(Delivery::Taken);
                }
                Answer::TooLarge => return Ok(Delivery::TooLarge),
                Answer::Refused(why) => return Err(ShipError(why)),
                Answer::Again { why, after } => (why, after),
            };
            let Some(wait) = waits.next() else {
                return Err(ShipError(format!(
                    "{why}, {} times\nhelp: what it has not acknowledged stays in the record and is sent by the next run",
                    self.settings.attempts
                )));
            };
            // Never sooner than the sink asks for, nor at once.
            let wait = asked.map_or(wait, |asked| asked.max(FIRST));
            if wait > self.settings.longest_wait {
                return Err(ShipError(format!(
                    "{why}, and asks to wait {} s\nhelp: what it has not acknowledged stays in the record and is sent by the next run",
                    wait.as_secs()
                )));
            }
            self.summary.retries += 1;
            (self.tell)(&News::Again { why: &why, wait });
            if self.stop.wait(wait) {
                return Ok(Delivery::Stopped);
            }
        }
    }

    /// The lines were acknowledged: from now on they are not sent again.
    fn taken(&mut self, lines: &[Line], rejected: u64, message: &str) -> Result<(), ShipError> {
        let missing = lines.iter().map(|line| line.missing).sum::<u64>();
        let count = lines.len() as u64;
        let bytes = lines.iter().map(|line| line.length + 1).sum();
        if let Some(last) = lines.last() {
            self.held.advance(last.mark(), count, missing, rejected)?;
        }
        self.summary.last.clone_from(&self.held.mark);
        self.summary.lines += count;
        self.summary.bytes += bytes;
        self.summary.batches += 1;
        self.summary.missing += missing;
        self.summary.rejected += rejected;
        if rejected > 0 {
            (self.tell)(&News::Rejected {
                count: rejected,
                why: message,
            });
        } else if !message.is_empty() {
            (self.tell)(&News::Warned(message));
        }
        (self.tell)(&News::Sent {
            lines: count,
            bytes,
        });
        Ok(())
    }
}
