//! What policies do with every call that there can be, not only with those that somebody thought of.
//!
//! A claim is proved by a solver for each kind of request, or disproved by a request, which the engine
//! then judges. What the solver does not know is not known: it counts as little as a disproof.

#[cfg(feature = "analysis")]
mod check;
#[cfg(feature = "analysis")]
pub(in crate::workbench) mod counterexample;
#[cfg(feature = "analysis")]
pub(in crate::workbench) mod environment;
mod properties;
pub mod report;
#[cfg(feature = "analysis")]
mod sample;
#[cfg(feature = "analysis")]
pub(in crate::workbench) mod solver;
#[cfg(feature = "analysis")]
pub(in crate::workbench) mod team;
#[cfg(feature = "analysis")]
pub(in crate::workbench) mod translate;
#[cfg(feature = "analysis")]
mod witness;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

pub use properties::PROPERTIES;

use crate::engine::bundle::Bundle;
use crate::engine::decision::Effect;
use crate::engine::request::Request;
use crate::policy::cedar::invariants::Invariant;
use crate::policy::{Problem, Source};

/// The property that no policy fails.
pub const NO_ERRORS: (&str, &str) = (
    "no-errors",
    "no policy fails while it is evaluated: the call would be denied, whatever the others say",
);

/// The property that every policy can hold.
pub const NO_DEAD: (&str, &str) = ("no-dead-policy", "every policy holds for some request");

/// Where the solver is, and how long it may think.
#[derive(Debug, Clone)]
pub struct Means {
    /// The solver's program; else it is looked for.
    pub cvc5: Option<PathBuf>,
    /// The directories that it is looked for in, as in `PATH`.
    pub path: Option<OsString>,
    /// How long it may think about one question.
    pub limit: Duration,
}

/// Why nothing can be proved at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unprovable {
    /// This program was built without the feature `analysis`.
    NotBuilt,
    /// There is no solver.
    NoSolver,
    /// There is one, but it cannot be used.
    Unusable {
        /// Its path.
        program: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something else is wrong.
    Broken(String),
}

impl fmt::Display for Unprovable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str("this program was built without proofs"),
            Self::NoSolver => f.write_str("proofs need the solver cvc5, and it is not installed"),
            Self::Unusable { program, why } => {
                write!(f, "`{program}` cannot be used for proofs: {why}")
            }
            Self::Broken(why) => f.write_str(why),
        }
    }
}

impl Unprovable {
    /// What a person can do about it.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::NotBuilt => "build it with `cargo install --path . --features analysis`",
            Self::NoSolver | Self::Unusable { .. } => {
                "install the package `cvc5` (Debian, Ubuntu: `apt-get install cvc5`), or name the program with `--cvc5`"
            }
            Self::Broken(_) => "this is a defect of copilot-bridge; please report it",
        }
    }
}

/// What was found out about all properties.
#[derive(Debug)]
pub struct Report {
    /// The solver, as `cvc5 1.0.3`.
    pub solver: String,
    /// How many policies there are.
    pub policies: usize,
    /// Whether the policies say of themselves that they only watch.
    pub monitor: bool,
    /// The properties.
    pub properties: Vec<Property>,
    /// How long it took, all in all.
    pub took: Duration,
}

/// What was found out about one property.
#[derive(Debug)]
pub struct Property {
    /// Its name.
    pub id: String,
    /// What it says.
    pub text: String,
    /// How many questions it is made of.
    pub questions: usize,
    /// How long they took, one after the other.
    pub took: Duration,
    /// What stands against it; nothing if it is proved.
    pub findings: Vec<Finding>,
}

/// What stands against a property.
#[derive(Debug)]
pub struct Finding {
    /// The kind of request, as `write Path`; nothing if it is about all of them.
    pub environment: Option<String>,
    /// Whether it is disproved, or only not proved.
    pub disproved: bool,
    /// What is wrong, with its place.
    pub problem: Problem,
    /// The call that shows it.
    pub counterexample: Option<Counterexample>,
}

/// A call that shows that a property does not hold.
#[derive(Debug)]
pub struct Counterexample {
    /// What is asked.
    pub request: Request,
    /// What the engine answers.
    pub effect: Effect,
    /// The policies that decide, or why the engine has no answer.
    pub deciding: Vec<String>,
    /// Whether the engine's answer is what the property rules out.
    pub confirmed: bool,
    /// An event of Copilot CLI that is such a call, where one was found.
    pub event: Option<Value>,
}

/// What a property is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It holds for every request.
    Proved,
    /// It could not be found out.
    Unknown,
    /// It does not hold.
    Disproved,
}

impl Status {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Unknown => "unknown",
            Self::Disproved => "disproved",
        }
    }
}

impl Property {
    /// What it is.
    #[must_use]
    pub fn status(&self) -> Status {
        let of = |finding: &Finding| match finding.disproved {
            true => Status::Disproved,
            false => Status::Unknown,
        };
        self.findings.iter().map(of).max().unwrap_or(Status::Proved)
    }
}

impl Report {
    /// The worst of all properties.
    #[must_use]
    pub fn status(&self) -> Status {
        let all = self.properties.iter().map(Property::status);
        all.max().unwrap_or(Status::Unknown)
    }
}

/// What is to be proved.
#[derive(Debug)]
pub struct Task<'a> {
    /// The policies.
    pub bundle: &'a Bundle,
    /// Their files.
    pub sources: &'a [Source],
    /// What somebody wrote that must hold.
    pub invariants: Vec<Invariant>,
    /// Only the properties of these names; all if there are none.
    pub only: &'a [String],
}

/// Proves what can be proved.
///
/// # Errors
/// If there is nothing to prove with.
#[cfg(feature = "analysis")]
pub fn prove(task: Task<'_>, means: &Means) -> Result<Report, Unprovable> {
    let solver = solver::Solver::find(means.cvc5.as_deref(), means.path.as_deref(), means.limit)?;
    check::run(task, &solver)
}

/// Proves nothing: that needs the feature `analysis`.
///
/// # Errors
/// Always.
#[cfg(not(feature = "analysis"))]
pub fn prove(_: Task<'_>, _: &Means) -> Result<Report, Unprovable> {
    Err(Unprovable::NotBuilt)
}

/// The invariants that are built in.
///
/// # Errors
/// If they are broken, which the tests rule out.
pub fn built_in() -> Result<Vec<Invariant>, Vec<Problem>> {
    let files = [("properties.cedar".to_owned(), PROPERTIES.to_owned())];
    let source = Source::new(crate::policy::Layer::Embedded, "<embedded>", files);
    crate::policy::cedar::invariants::parse(&source)
}
