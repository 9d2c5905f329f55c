//! Decision tests: what is tried, and what the policies have to say of it.
//!
//! They are TOML files in `tests/` beside the policies (`docs/testing.md`). [`Suite::load`] reads
//! them, [`Suite::run`] judges each in a made-up workspace behind the gate that hooks pass.

pub mod coverage;
pub mod embedded;
mod filter;
mod places;
mod read;
pub mod report;
mod request;
mod run;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use toml::Spanned;

use crate::engine::bundle::Handling;
use crate::engine::containment::PathPattern;
use crate::engine::decision::Effect;
use crate::engine::entity::Entity;
use crate::engine::request::Request;
use crate::gate::event::{Event, EventName};
use crate::policy::layer::{self, Layer, Locations};
use crate::policy::{Problem, SourceFile, source};
use crate::workbench::props::Prop;

pub use filter::{BadFilter, Filter};
pub use read::{DEFAULTS, DESCRIPTIONS, ENTITY, FILE, KEYS, PROP, SERVED};
pub use report::{Report, Tried};
pub use run::Scenes;

/// Reads an event in the JSON of a host: the host's name, if a test says one, the event's name, and
/// the event. The error says in words what is wrong with it.
pub type EventParser<'a> = dyn Fn(Option<&str>, EventName, &Value) -> Result<Event, String> + 'a;

/// Decision tests, in the order of their files.
#[derive(Debug, Clone, Default)]
pub struct Suite {
    tests: Vec<Test>,
}

/// One decision test.
#[derive(Clone)]
pub struct Test {
    name: String,
    file: Arc<SourceFile>,
    /// Where its name stands.
    span: Range<usize>,
    /// Where it stands what happens.
    happens: Range<usize>,
    tried: Subject,
    /// Whether its path may begin with a place, such as `${temp}`.
    places: bool,
    /// The parts of its text that may not go on.
    secrets: Vec<String>,
    around: Around,
    expected: Expected,
}

/// What is tried.
#[derive(Debug, Clone)]
enum Subject {
    /// An event of a host.
    Event(Box<Event>),
    /// A request by itself, whatever it may come from.
    Request(Box<Request>),
}

/// In which circumstances something is tried.
#[derive(Debug, Clone, Default)]
struct Around {
    props: Vec<Prop>,
    /// Where each of those is written.
    props_at: Vec<Range<usize>>,
    cwd: Option<String>,
    depth: u32,
    entity: Option<Spanned<String>>,
    given: Arc<Given>,
}

/// What an installation fills in that the policies leave open.
#[derive(Debug, Clone, Default, PartialEq)]
struct Given {
    /// Further paths of labels.
    labels: Vec<(String, Vec<PathPattern>)>,
    /// Further entities.
    entities: Vec<Entity>,
}

/// What has to come out.
#[derive(Debug, Clone)]
struct Expected {
    decision: Spanned<Effect>,
    would_decide: Option<Spanned<Effect>>,
    policies: Option<Names>,
    obligations: Option<Names>,
    rules: Option<Names>,
    /// Whether the names above are all there may be.
    only: bool,
    text: Option<Spanned<String>>,
    error_class: Option<Spanned<String>>,
    handling: Option<Spanned<Handling>>,
}

/// A list of names, and where it is written.
#[derive(Debug, Clone)]
struct Names {
    span: Range<usize>,
    all: Vec<Spanned<String>>,
}

/// The files of tests beside the policies of every layer, the highest layer first.
///
/// Where only the embedded policies count, these are the embedded tests.
///
/// # Errors
/// What keeps files from being read.
pub fn files(locations: &Locations) -> Result<Vec<Arc<SourceFile>>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut files = Vec::new();
    let sources = layer::read(locations)?;
    for layer in sources.iter().map(|source| source.layer) {
        match layer::dir(locations, layer) {
            Some(dir) => files.extend(source::read_tests(layer, dir, &mut problems)),
            None if layer == Layer::Embedded => files.extend(embedded::files()),
            None => {}
        }
    }
    if problems.is_empty() {
        Ok(files)
    } else {
        Err(problems)
    }
}

impl Suite {
    /// The tests in those files.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn load(files: &[Arc<SourceFile>], parse: &EventParser<'_>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut tests = Vec::new();
        for file in files {
            read::file(file, parse, &mut tests, &mut problems);
        }
        if problems.is_empty() {
            Ok(Self { tests })
        } else {
            Err(problems)
        }
    }

    /// The tests whose names one of the filters fits; all of them, if there is no filter.
    #[must_use]
    pub fn filtered(mut self, filters: &[Filter]) -> Self {
        if !filters.is_empty() {
            let fits = |test: &Test| filters.iter().any(|filter| filter.fits(&test.name));
            self.tests.retain(fits);
        }
        self
    }

    /// The tests.
    #[must_use]
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }
}

impl Test {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Test")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
