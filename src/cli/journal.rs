//! What the operational log says of the verbs that work on an installation: that one begins, and how it
//! ends.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process;
use std::time::Instant;

use clap::{ArgMatches, FromArgMatches};
use tracing::Level;

use super::place::Place;
use crate::engine::bundle::LogLevel;
use crate::exit::Exit;
use crate::setup::Scope;
use crate::setup::place::{Overrides, Places};
use crate::{config, log, policy};

/// A verb of an installation.
#[derive(Debug)]
pub(super) struct Journal {
    verb: String,
    place: Place,
    state: PathBuf,
    level: OnceCell<LogLevel>,
    started: Instant,
}

impl Journal {
    /// Nothing for a verb that takes no state directory, or that only shows what it would do.
    pub(super) fn of(matches: &ArgMatches, started: Instant) -> Option<Self> {
        let mut words = Vec::new();
        let mut deepest = matches;
        while let Some((word, next)) = deepest.subcommand() {
            words.push(word);
            deepest = next;
        }
        if matches!(deepest.try_get_one::<bool>("dry_run"), Ok(Some(true))) {
            return None;
        }
        let place = place(deepest)?;
        Some(Self {
            verb: words.join(" "),
            state: place.state(),
            place,
            level: OnceCell::new(),
            started,
        })
    }

    /// Says that it begins.
    pub(super) fn begins(&self) {
        if self.is_heard() {
            let (pid, verb) = (process::id(), self.verb.as_str());
            tracing::info!(pid, verb, "begins");
        }
    }

    /// Says how it ended, and when.
    pub(super) fn ends(&self, exit: Exit) {
        if self.is_heard() {
            let (pid, verb, exit) = (process::id(), self.verb.as_str(), exit.code());
            let us = log::microseconds(self.started.elapsed());
            tracing::info!(pid, verb, exit, us, "ended");
        }
    }

    fn is_heard(&self) -> bool {
        // `init` makes the directory on its way.
        self.state.is_dir() && log::wake(&self.state, self.level(), Level::INFO)
    }

    fn level(&self) -> LogLevel {
        *self.level.get_or_init(|| {
            let settings = policy::bridge(&self.place.locations(None));
            config::log_level(&settings, |name| std::env::var(name).ok())
        })
    }
}

/// Where the installation is that the command line means.
fn place(matches: &ArgMatches) -> Option<Place> {
    let given = |name: &str| matches.try_get_one::<PathBuf>(name);
    let state = given("state").ok()?.cloned();
    if matches.try_contains_id("copilot_home").is_err() {
        let policies = given("policies").ok().flatten().cloned();
        return Some(Place { policies, state });
    }
    let places = Places::find(&Overrides::from_arg_matches(matches).ok()?).ok()?;
    let policies = places.policies(Scope::User);
    Some(Place {
        policies: policies.is_dir().then_some(policies),
        state: Some(places.state(Scope::User)),
    })
}
