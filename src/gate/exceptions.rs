//! Which exceptions are in force: by the wall clock, unless that stands behind the record.

use std::path::Path;

use jiff::Timestamp;

use crate::audit::writer;
use crate::engine::containment::Places;
use crate::engine::exception::Waiver;
use crate::engine::{Engine, Judgement};

/// An exception that would fit, but is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lapsed {
    /// The exception, as an index into the bundle's.
    pub exception: usize,
    /// Why it is not.
    pub cause: Lapse,
}

/// Why an exception is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// Its time is over.
    Expired,
    /// The clock stands behind the last line of the record, or when that was written cannot be told:
    /// nobody knows whether its time is over.
    Clock,
}

impl Lapse {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Clock => "not in force, because the clock stands behind the record",
        }
    }
}

/// The judgement with the exceptions that are in force, and the ones that would have fitted.
pub(super) fn apply(
    engine: &Engine,
    judgement: Judgement,
    places: &Places,
    record: &Path,
) -> (Judgement, Vec<Lapsed>) {
    let mut waivers = engine.waivers(&judgement, places);
    if waivers.is_empty() {
        return (judgement, Vec::new());
    }
    // Before the clock is looked at: another process may write a line in between.
    let last = writer::last_written(record);
    let now = Timestamp::now();
    let behind = !matches!(last, Ok(last) if last.is_none_or(|last| last <= now));
    let mut lapsed: Vec<Lapsed> = Vec::new();
    let exceptions = &engine.bundle().settings.exceptions;
    waivers.retain(|waiver: &Waiver| {
        let exception = waiver.exception();
        let over = exceptions
            .get(exception)
            .is_none_or(|one| one.expires <= now.as_second());
        let cause = match (over, behind) {
            (true, _) => Lapse::Expired,
            (false, true) => Lapse::Clock,
            (false, false) => return true,
        };
        if !lapsed.iter().any(|known| known.exception == exception) {
            lapsed.push(Lapsed { exception, cause });
        }
        false
    });
    (engine.waive(judgement, &waivers), lapsed)
}
