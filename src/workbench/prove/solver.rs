//! cvc5: found when it is needed, tried out, asked, and started anew when it died.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cedar_policy::{Policy as CedarPolicy, Schema};
use cedar_policy_symcc::err::Error;
use cedar_policy_symcc::solver::LocalSolver;
use cedar_policy_symcc::{CedarSymCompiler, CompiledPolicy};
use tokio::runtime::Runtime;

use super::Unprovable;
use super::environment::Environment;
use crate::engine::action::Action;
use crate::engine::request::ResourceType;

/// The program's name.
const NAME: &str = "cvc5";

/// How much longer than its own limit the solver may take to say that it gave up.
const GRACE: Duration = Duration::from_secs(2);

/// A solver that is there, and how long it may think about one question.
#[derive(Debug, Clone)]
pub(in crate::workbench) struct Solver {
    program: PathBuf,
    limit: Duration,
    /// What it says of itself, as `cvc5 1.0.3`.
    pub(in crate::workbench) version: String,
}

impl Solver {
    /// The solver of that path, else the first `cvc5` in `path`.
    ///
    /// # Errors
    /// If there is none, or what is there answers wrongly what it is known to answer.
    pub(in crate::workbench) fn find(
        given: Option<&Path>,
        path: Option<&std::ffi::OsStr>,
        limit: Duration,
    ) -> Result<Self, Unprovable> {
        let program = match given {
            Some(given) => given.to_path_buf(),
            None => std::env::split_paths(path.unwrap_or_default())
                .filter(|dir| dir.is_absolute())
                .map(|dir| dir.join(NAME))
                .find(|file| file.is_file())
                .ok_or(Unprovable::NoSolver)?,
        };
        let unusable = |why: String| Unprovable::Unusable {
            program: program.display().to_string(),
            why,
        };
        let said = Command::new(&program)
            .arg("--version")
            .output()
            .map_err(|error| unusable(format!("it cannot be started: {}", error.kind())))?;
        let said = String::from_utf8_lossy(&said.stdout);
        let version = said
            .split_whitespace()
            .skip_while(|word| *word != "version")
            .nth(1)
            .filter(|_| said.contains(NAME))
            .ok_or_else(|| unusable("it does not say that it is cvc5".to_owned()))?;
        let solver = Self {
            version: format!("{NAME} {version}"),
            program: program.clone(),
            limit,
        };
        solver.try_out().map_err(unusable)?;
        Ok(solver)
    }

    /// Asks what has a known answer: a solver that cannot reason about texts, or that says the same
    /// to everything, proves nothing.
    fn try_out(&self) -> Result<(), String> {
        let mut asker = Asker::new(self)?;
        let environment = Environment {
            action: Action::Read,
            resource: ResourceType::Path,
        };
        let schema = schema()?;
        let mut holds = |condition: &str| {
            let text = format!("permit(principal, action, resource) when {{ {condition} }};");
            let policy = CedarPolicy::parse(None, text).map_err(|error| error.to_string())?;
            let policy = CompiledPolicy::compile(&policy, &environment.cedar()?, &schema)
                .map_err(|error| error.to_string())?;
            asker.ask(async |solver| solver.check_never_matches_opt(&policy).await)
        };
        let never = holds("context.tool like \"a*\" && context.tool like \"b*\"")?;
        let sometimes = !holds("context.tool like \"a*\" && resource.labels.contains(\"b\")")?;
        if never && sometimes {
            return Ok(());
        }
        Err("it answers a question wrongly that has a known answer".to_owned())
    }
}

/// The schema of every policy, as Cedar holds it.
pub(in crate::workbench) fn schema() -> Result<Schema, String> {
    crate::engine::schema::cedar_schema()
        .parse()
        .map_err(|_| "the schema of this program is broken".to_owned())
}

/// One running solver, for one thread.
pub(in crate::workbench) struct Asker {
    solver: Solver,
    runtime: Runtime,
    running: Option<CedarSymCompiler<LocalSolver>>,
}

impl Asker {
    pub(in crate::workbench) fn new(solver: &Solver) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("no process can be waited for: {}", error.kind()))?;
        Ok(Self {
            solver: solver.clone(),
            runtime,
            running: None,
        })
    }

    /// The answer to a question.
    ///
    /// # Errors
    /// Why there is none. That is never an answer: whoever asks has to say that it is not known.
    pub(in crate::workbench) fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&mut CedarSymCompiler<LocalSolver>) -> Result<T, Error>,
    ) -> Result<T, String> {
        let limit = self.solver.limit + GRACE;
        let answer = self.runtime.block_on(async {
            let running = match &mut self.running {
                Some(running) => running,
                None => self
                    .running
                    .insert(start(&self.solver).map_err(|error| *error)?),
            };
            match tokio::time::timeout(limit, question(running)).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::SolverUnknown),
            }
        });
        answer.map_err(|error| {
            // Whatever it still says belongs to this question.
            self.running = None;
            why(&error, self.solver.limit)
        })
    }
}

fn start(solver: &Solver) -> Result<CedarSymCompiler<LocalSolver>, Box<Error>> {
    let mut command = tokio::process::Command::new(&solver.program);
    command
        .args(["--lang", "smt", "--strings-exp"])
        .arg(format!("--tlimit-per={}", solver.limit.as_millis()))
        .kill_on_drop(true);
    let started = LocalSolver::from_command(&mut command).map_err(Error::from)?;
    CedarSymCompiler::new(started).map_err(Box::new)
}

fn why(error: &Error, limit: Duration) -> String {
    match error {
        Error::SolverUnknown => format!(
            "the solver gave up, or found nothing in {} s",
            limit.as_secs_f32()
        ),
        Error::SolverError(_) => "the solver ended before it answered".to_owned(),
        Error::CompileError(_) | Error::EncodeError(_) | Error::PolicyNotWellTyped { .. } => {
            "this cannot be put to a solver".to_owned()
        }
        Error::DecodeModel(_) | Error::ConcretizeError(_) | Error::ModelInvalid { .. } => {
            "the solver found a counterexample that cannot be read".to_owned()
        }
        _ => "the question could not be asked".to_owned(),
    }
}
