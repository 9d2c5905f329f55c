//! From where a bundle lies to where hooks read: whatever fails on the way, what is in force stays.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::bundle::{self, Name};
use super::memory::{Failure, Folder, Last, Memory};
use super::pin::Pin;
use super::sealed::{Sealed, Verified};
use super::{Refusal, printable};
use crate::audit::read;
use crate::audit::record::v1::Kind;
use crate::audit::writer::Log;
use crate::engine::decision::Effect;
use crate::policy::compile::{self, Readers};
use crate::policy::edit::Files;
use crate::policy::published::{self, Published};
use crate::policy::{Base, Layer, Locations, digest};

/// A clock may differ by so much from that of whoever made a bundle, and from itself.
const SLACK: SignedDuration = SignedDuration::from_mins(5);

/// What is to be put in force, and where.
#[derive(Debug, Clone)]
pub struct Order {
    /// What it takes.
    pub pin: Pin,
    /// Whose policies these are.
    pub layer: Layer,
    /// The directory that hooks read.
    pub policies: PathBuf,
    /// Where the record, the compiled form and what is remembered are.
    pub state: PathBuf,
    /// Who may read the compiled form.
    pub readers: Readers,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// It took the place of what was there.
    Published {
        /// What is in force now.
        now: Box<Published>,
        /// Where a copy is of what was there, if that was no bundle as it came.
        set_aside: Option<PathBuf>,
    },
    /// It is in force already.
    Unchanged(Box<Published>),
}

/// Gets the bundle and puts it in force, if all holds that it takes. The record says what happened
/// before it does.
///
/// # Errors
/// If anything does not hold. What was in force is in force still.
pub fn run(order: &Order) -> Result<Fetched, Refusal> {
    let folder = Folder::of(&order.state, order.readers);
    let _lock = folder.lock()?;
    let locations = Locations {
        base: Base::Configured(order.policies.clone()),
        ..Locations::default()
    };
    let settings = crate::policy::bridge(&locations).audit;
    let attempt = Attempt {
        order,
        folder: &folder,
        log: Log::open(&order.state, None, settings)?,
        // One that is broken is replaced; what is remembered besides says which version is too old.
        before: published::read(order.layer, &order.policies).ok().flatten(),
        now: Timestamp::now(),
    };
    attempt.run().map_err(|refusal| attempt.failed(refusal))
}

struct Attempt<'a> {
    order: &'a Order,
    folder: &'a Folder,
    log: Log,
    before: Option<Published>,
    now: Timestamp,
}

impl Attempt<'_> {
    fn run(&self) -> Result<Fetched, Refusal> {
        let pin = &self.order.pin;
        let bytes = pin.source.get(&pin.credentials)?;
        let verified = Sealed::read(&bytes)?.verify(&pin.keys, pin.threshold)?;
        self.is_of_that_name(&verified)?;
        let expires = self.is_of_the_time(&verified)?;
        let about = verified.about();
        let memory = self.folder.read(&about.name)?;
        self.is_no_older(&verified, &memory)?;
        let statement = Published {
            name: about.name.to_string(),
            version: about.version,
            digest: verified.bundle().digest().to_owned(),
            identity: verified.bundle().identity(),
            versions: verified.bundle().versions().clone(),
            signers: verified.signers().iter().map(|key| key.id()).collect(),
            source: pin.source.to_string(),
            published: self.now.as_second(),
            expires: expires.map(Timestamp::as_second),
            on_expiry: about.on_expiry.max(pin.on_expiry),
        };
        let there = published::content(self.order.layer, &self.order.policies).ok();
        if let Some(before) = self.is_in_force(&statement, there.as_ref()) {
            self.remember(&about.name, &statement)?;
            return Ok(Fetched::Unchanged(Box::new(before)));
        }
        let set_aside = self.publish(&bytes, &verified, &statement, there.as_ref())?;
        self.remember(&about.name, &statement)?;
        Ok(Fetched::Published {
            now: Box::new(statement),
            set_aside,
        })
    }

    fn is_of_that_name(&self, verified: &Verified) -> Result<(), Refusal> {
        let name = verified.about().name.as_str();
        let pinned = self.order.pin.name.as_ref().map(Name::as_str);
        let expected = pinned.or(self.before.as_ref().map(|before| before.name.as_str()));
        match expected {
            Some(expected) if expected != name => Err(Refusal::new(format!(
                "this is the bundle `{name}`, and `{}` is asked for",
                printable(expected)
            ))),
            _ => Ok(()),
        }
    }

    /// When its time is over, by itself or by the pin.
    fn is_of_the_time(&self, verified: &Verified) -> Result<Option<Timestamp>, Refusal> {
        let about = verified.about();
        let last = read::last(&self.order.state, |_| true)?;
        let last = last.and_then(|line| line.get("ts")?.as_str()?.parse::<Timestamp>().ok());
        let ahead = |time: Timestamp| time.duration_since(self.now) > SLACK;
        if last.is_some_and(ahead) {
            return Err(Refusal::new(
                "the clock is behind the last line of the record, so nobody knows whether the bundle has expired\nhelp: set the clock",
            ));
        }
        if ahead(about.created) {
            return Err(Refusal::new(format!(
                "the bundle was made at {}, which is still to come\nhelp: set the clock",
                about.created
            )));
        }
        let oldest = self.order.pin.max_age_days.and_then(|days| {
            let age = SignedDuration::from_hours(i64::from(days) * 24);
            about.created.checked_add(age).ok()
        });
        let expires = about.expires.into_iter().chain(oldest).min();
        match expires.filter(|expires| *expires <= self.now) {
            Some(expires) => Err(Refusal::new(format!(
                "version {} of the bundle `{}` expired at {expires}",
                about.version, about.name
            ))),
            None => Ok(expires),
        }
    }

    fn is_no_older(&self, verified: &Verified, memory: &Memory) -> Result<(), Refusal> {
        let about = verified.about();
        let said = self
            .before
            .iter()
            .filter(|before| before.name == about.name.as_str());
        let said = said.map(|before| (before.version, before.identity.as_str()));
        let remembered = memory
            .last
            .iter()
            .map(|last| (last.version, last.identity.as_str()));
        let identity = verified.bundle().identity();
        for (version, known) in said.chain(remembered) {
            if about.version < version {
                return Err(Refusal::new(format!(
                    "this is version {} of the bundle `{}`, and version {version} was in force already",
                    about.version, about.name
                )));
            }
            if about.version == version && identity != known {
                return Err(Refusal::new(format!(
                    "this is another version {version} of the bundle `{}` than the one that was in force\nhelp: whoever builds it gives each content a number of its own",
                    about.name
                )));
            }
        }
        Ok(())
    }

    /// What is in force, if it is what is to be, and nobody changed the files since.
    fn is_in_force(&self, statement: &Published, there: Option<&Files>) -> Option<Published> {
        let before = self.before.as_ref()?;
        let same = Published {
            published: before.published,
            source: before.source.clone(),
            ..statement.clone()
        };
        let untouched = is_untouched(before, there?);
        (same == *before && untouched).then(|| before.clone())
    }

    /// Returns where a copy is of what was there, if that was no bundle as it came.
    fn publish(
        &self,
        bytes: &[u8],
        verified: &Verified,
        statement: &Published,
        there: Option<&Files>,
    ) -> Result<Option<PathBuf>, Refusal> {
        let Order {
            layer,
            policies,
            state,
            readers,
            ..
        } = self.order;
        let about = verified.about();
        let shown = format!("{} {}", about.name, about.version);
        let checked = verified.bundle().check(*layer, &shown);
        if checked.bundle.is_none() {
            let text = format!(
                "the policies of the bundle `{}` are not in order",
                about.name
            );
            return Err(Refusal::of(text, checked.problems));
        }
        let dir = policies.display().to_string();
        let source = verified.bundle().source(*layer, &dir);
        let compiled = crate::policy::load_sources(&[source])
            .map_err(|problems| Refusal::of("the policies cannot be used", problems))?;
        let written = compile::write(state, &compiled, *readers);
        written.map_err(|error| {
            Refusal::new(format!(
                "cannot write the compiled policies: {}",
                error.kind()
            ))
        })?;
        self.folder.keep(&about.name, bytes)?;
        let own = match (&self.before, there) {
            (Some(before), Some(there)) => !is_untouched(before, there),
            _ => policies.is_dir(),
        };
        let set_aside = match own {
            true => Some(self.folder.set_aside(policies, self.now.as_second())?),
            false => None,
        };
        let from = there.map(|there| digest(&[bundle::source(there, *layer, &dir)]));
        let mut detail = described(statement);
        if let Value::Object(detail) = &mut detail {
            detail.insert("from".to_owned(), json!(from));
            detail.insert("to".to_owned(), json!(compiled.digest));
            detail.insert("changed_by_hand".to_owned(), json!(own));
        }
        // The record says so first: nothing is in force that it does not know of.
        self.log
            .note(Kind::Policy, "bundle_published", Effect::Allow, detail)?;
        published::replace(*layer, policies, verified.files(), statement).map_err(|problem| {
            Refusal::of("the bundle cannot be put in its place", vec![problem])
        })?;
        Ok(set_aside)
    }

    fn remember(&self, name: &Name, statement: &Published) -> Result<(), Refusal> {
        self.folder.write(
            name,
            &Memory {
                last: Some(Last {
                    version: statement.version,
                    identity: statement.identity.clone(),
                }),
                checked: Some(self.now.as_second()),
                failed: None,
            },
        )
    }

    /// Notes why what was in force stays.
    fn failed(&self, refusal: Refusal) -> Refusal {
        let mut why = refusal
            .message
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        if let Some(problem) = refusal.problems.first() {
            why = format!("{why}: {}", problem.one_line());
        }
        let name = self
            .order
            .pin
            .name
            .clone()
            .or_else(|| self.before.as_ref()?.name.parse().ok());
        let detail = json!({
            "why": why,
            "source": self.order.pin.source.to_string(),
            "name": name.as_ref().map(Name::as_str),
            "in_force": self.before.as_ref().map(described),
        });
        let noted = self
            .log
            .note(Kind::Policy, "bundle_refused", Effect::Deny, detail);
        let remembered = name.map_or(Ok(()), |name| {
            let mut memory = self.folder.read(&name)?;
            let at = self.now.as_second();
            memory.failed = Some(Failure { at, why });
            self.folder.write(&name, &memory)
        });
        let mut refusal = refusal;
        if let Err(error) = noted.map_err(Refusal::from).and(remembered) {
            refusal.message = format!("{}\nhelp: nor can that be noted: {error}", refusal.message);
        }
        refusal
    }
}

/// Whether the files of a directory are those that its bundle had.
pub(super) fn is_untouched(published: &Published, there: &Files) -> bool {
    published::digest(&published.versions, there) == published.digest
}

fn described(published: &Published) -> Value {
    json!({
        "name": published.name,
        "version": published.version,
        "digest": published.digest,
        "signers": published.signers,
        "source": published.source,
        "expires": published.expires.and_then(|at| Timestamp::from_second(at).ok()).map(|at| at.to_string()),
        "on_expiry": published.on_expiry.name(),
    })
}
