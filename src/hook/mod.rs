//! The hook door: a process for one event. JSON in, the gate, one JSON object out.
//!
//! Whatever goes wrong is answered with the blocking form of the event (design: fail closed).

mod answer;
pub mod dialect;
mod fields;
mod json;
mod watchdog;

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tracing::Level;

use crate::config;
use crate::engine::bundle::{Limits, LogLevel, Settings};
use crate::engine::decision::FaultClass;
use crate::gate::event::EventName;
use crate::gate::outcome::{Outcome, Refusal};
use crate::gate::{Gate, Unread};
use crate::log;
use answer::Turn;
use dialect::{Answer, Dialect};
use watchdog::Cause;

/// What the command line of a hook says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The event, as written; its name is judged with the rest.
    pub event: String,
    /// The dialect; `None` is to be told from the event.
    pub dialect: Option<Dialect>,
    /// The event itself, where it does not come on stdin (R-004-14).
    pub json: Option<String>,
    /// The state directory, for the note that the watchdog leaves.
    pub state: PathBuf,
}

/// Runs one hook: `gate` is opened only when the watchdog is already watching.
///
/// Returns the exit code. Nothing else is ever written to stdout.
pub fn run(call: &Call, started: Instant, gate: impl FnOnce(Option<&Value>) -> Gate) -> u8 {
    let limits = Limits::default();
    let turn = Arc::new(Turn::new(
        started,
        Duration::from_millis(u64::from(limits.deadline_ms)),
    ));
    let name = EventName::parse(&call.event);
    let shape = Shape {
        dialect: call.dialect.unwrap_or(Dialect::Copilot),
        event: name.unwrap_or(EventName::PreToolUse),
    };
    let watching = watchdog::start(
        Arc::clone(&turn),
        move |cause| shape.deny(&late(cause)),
        note(call, shape, &turn),
    );
    let (shape, outcome) = match watching {
        Ok(()) => catch_unwind(AssertUnwindSafe(|| work(call, name, &turn, gate)))
            .unwrap_or_else(|panic| (shape, Outcome::Deny(panicked(panic.as_ref())))),
        Err(error) => (
            shape,
            Outcome::Deny(Refusal::fault(
                FaultClass::InternalError,
                format!("the deadline cannot be watched: {error}"),
                "try again when the machine is less busy",
            )),
        ),
    };
    // Before the turn is taken: a disk that does not answer is then the watchdog's.
    quietly(|| tell(call, shape, &outcome, &turn));
    let answer = shape.answer(&outcome);
    if turn.take() {
        answer::write(&answer)
    } else {
        // The watchdog is answering and will end the process.
        loop {
            std::thread::park();
        }
    }
}

/// Denies because the hook's own command line is wrong: nothing is known, so every form says no.
#[must_use]
pub fn refuse_usage(error: &str) -> u8 {
    let refusal = Refusal::fault(
        FaultClass::InputError,
        format!("the hook's command line is wrong: {error}"),
        "a person runs `copilot-bridge init` again",
    );
    let shape = Shape {
        dialect: Dialect::Copilot,
        event: EventName::PreToolUse,
    };
    answer::write(&shape.deny(&refusal))
}

/// What the log says of a denial that no policy made.
const FAULT: &str = "denied because of a fault";

/// How the answer to this event has to look.
#[derive(Debug, Clone, Copy)]
struct Shape {
    dialect: Dialect,
    event: EventName,
}

impl Shape {
    fn answer(self, outcome: &Outcome) -> Answer {
        self.dialect.render(self.event, outcome)
    }

    fn deny(self, refusal: &Refusal) -> Answer {
        self.answer(&Outcome::Deny(refusal.clone()))
    }
}

fn work(
    call: &Call,
    name: Option<EventName>,
    turn: &Turn,
    gate: impl FnOnce(Option<&Value>) -> Gate,
) -> (Shape, Outcome) {
    let mut shape = Shape {
        dialect: call.dialect.unwrap_or(Dialect::Copilot),
        event: name.unwrap_or(EventName::PreToolUse),
    };
    let value = read(call, Limits::default().event_bytes).and_then(|bytes| {
        let value =
            json::parse(&bytes).map_err(|error| format!("the event cannot be read: {error}"))?;
        Ok((value, bytes.len()))
    });
    if let (None, Ok((value, _))) = (call.dialect, &value) {
        shape.dialect = Dialect::detect(value);
    }
    let read = turn.elapsed();
    let gate = gate(value.as_ref().ok().map(|(value, _)| value));
    let limits = gate.limits();
    turn.set_deadline(limits.deadline_ms);
    let level = gate.log_level();
    turn.set_log_level(level);
    if log::wake(&call.state, level, Level::DEBUG) {
        let pid = std::process::id();
        let us = log::microseconds(read);
        tracing::debug!(pid, phase = "read", us, "phase");
        let us = log::microseconds(turn.elapsed().saturating_sub(read));
        tracing::debug!(pid, phase = "policies", us, "phase");
    }
    let event = value.and_then(|(value, length)| {
        if length > limits.event_bytes as usize {
            return Err(too_large(limits.event_bytes));
        }
        let name =
            name.ok_or_else(|| format!("`{}` is no event that this version knows", call.event))?;
        shape
            .dialect
            .parse(name, &value)
            .map_err(|error| format!("the event cannot be understood: {error}"))
    });
    let outcome = match event {
        Ok(event) => gate.pass(&event, turn.elapsed()),
        Err(text) => gate.refuse(
            &Unread {
                event: shape.event,
                dialect: shape.dialect.name(),
            },
            FaultClass::InputError,
            &text,
            turn.elapsed(),
        ),
    };
    // The process is about to end: to take everything apart first would only keep the host waiting.
    std::mem::forget(gate);
    (shape, outcome)
}

fn too_large(limit: u32) -> String {
    format!("the event is larger than {limit} bytes")
}

fn read(call: &Call, limit: u32) -> Result<Vec<u8>, String> {
    if let Some(json) = &call.json {
        if json.len() > limit as usize {
            return Err(too_large(limit));
        }
        return Ok(json.clone().into_bytes());
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(u64::from(limit) + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("the event cannot be read: {error}"))?;
    if bytes.len() > limit as usize {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

fn late(cause: Cause) -> Refusal {
    match cause {
        Cause::Deadline => Refusal::fault(
            FaultClass::Deadline,
            "no judgement was reached in time",
            "try again; if it stays so, a person runs `copilot-bridge doctor`",
        ),
        Cause::Signal => Refusal::fault(
            FaultClass::Deadline,
            "the hook was told to end before a judgement was reached",
            "try again",
        ),
    }
}

fn note(call: &Call, shape: Shape, turn: &Arc<Turn>) -> impl Fn() + Send + 'static {
    let state = call.state.clone();
    let turn = Arc::clone(turn);
    move || {
        Gate::note_late(&state, shape.event, turn.elapsed());
        quietly(|| {
            if log::wake(&state, level(&turn), Level::WARN) {
                let (pid, event) = (std::process::id(), shape.event.snake());
                let us = log::microseconds(turn.elapsed());
                tracing::warn!(pid, event, us, "denied before a judgement was reached");
            }
        });
    }
}

/// Says what was answered, where the log wants to know.
fn tell(call: &Call, shape: Shape, outcome: &Outcome, turn: &Turn) {
    let (state, level, event) = (&call.state, level(turn), shape.event.snake());
    let fault = match outcome {
        Outcome::Deny(refusal) => refusal.class(),
        Outcome::Pass(_) | Outcome::Ask(_) => None,
    };
    match fault {
        // What is broken here, apart from what others sent or wrote.
        Some(class @ (FaultClass::AuditUnavailable | FaultClass::InternalError)) => {
            if log::wake(state, level, Level::ERROR) {
                let (pid, us) = (std::process::id(), log::microseconds(turn.elapsed()));
                tracing::error!(pid, event, us, class = class.name(), "{FAULT}");
            }
        }
        Some(class) => {
            if log::wake(state, level, Level::WARN) {
                let (pid, us) = (std::process::id(), log::microseconds(turn.elapsed()));
                tracing::warn!(pid, event, us, class = class.name(), "{FAULT}");
            }
        }
        None => {
            if log::wake(state, level, Level::DEBUG) {
                let (pid, us) = (std::process::id(), log::microseconds(turn.elapsed()));
                tracing::debug!(pid, event, us, answer = %outcome.effect(), "answered");
            }
        }
    }
}

/// Whatever goes wrong in the log: the host is waiting for an answer.
fn quietly(say: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(say));
}

/// What the policies say, or until they are read, the environment.
fn level(turn: &Turn) -> LogLevel {
    let variable = |name| std::env::var(name).ok();
    turn.log_level()
        .unwrap_or_else(|| config::log_level(&Settings::default(), variable))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Refusal {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it did not say why");
    Refusal::fault(
        FaultClass::InternalError,
        format!("the gate broke: {said}"),
        "a person reports this as a defect",
    )
}

/// The answer that a host would get for an outcome, for `explain` and `demo`.
#[must_use]
pub fn preview(dialect: Dialect, event: EventName, outcome: &Outcome) -> (String, u8) {
    let answer = dialect.render(event, outcome);
    (answer.stdout, answer.code)
}

/// Reads an event as the door would.
///
/// # Errors
/// In words, if it cannot be read or understood.
pub fn parse(
    bytes: &[u8],
    name: Option<EventName>,
    dialect: Option<Dialect>,
) -> Result<(crate::gate::event::Event, Dialect), String> {
    let value = json::parse(bytes).map_err(|error| format!("the event cannot be read: {error}"))?;
    let dialect = dialect.unwrap_or_else(|| Dialect::detect(&value));
    let said = value
        .get("hook_event_name")
        .or_else(|| value.get("hookEventName"))
        .or_else(|| value.get("hookName"))
        .and_then(Value::as_str)
        .and_then(EventName::parse);
    let name = name.or(said).unwrap_or(EventName::PreToolUse);
    let event = dialect
        .parse(name, &value)
        .map_err(|error| format!("the event cannot be understood: {error}"))?;
    Ok((event, dialect))
}
