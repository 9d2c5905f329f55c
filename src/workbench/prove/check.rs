//! The questions behind each property, and what their answers say of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cedar_policy::Schema;
use cedar_policy_symcc::{CompiledPolicy, CompiledPolicySet, Env};

use super::counterexample::{plainer, request};
use super::environment::Environment;
use super::sample;
use super::solver::{Asker, Solver, schema};
use super::team;
use super::translate::{Calls, Translator};
use super::witness::Witnesses;
use super::{
    Counterexample, Finding, NO_DEAD, NO_ERRORS, Property, Report, Task, Unprovable, built_in,
};
use crate::engine::bundle::{Bundle, Mode, Policy, Verdict};
use crate::engine::decision::{Effect, FaultClass};
use crate::engine::explain::{Why, why};
use crate::engine::request::Request;
use crate::engine::{Engine, Judgement};
use crate::policy::cedar::invariants::{Demand, Invariant};
use crate::policy::source::SourceFile;
use crate::policy::{Code, Problem, Source};

/// One piece of work.
enum Job {
    /// Whether a policy can fail, and whether it can hold.
    Policy(usize),
    /// Whether an invariant holds of one kind of request.
    Claim(usize, Environment),
}

/// What a piece of work brought to light.
struct Found {
    /// The property, as an index.
    property: usize,
    took: Duration,
    answer: Answer,
}

enum Answer {
    Holds,
    Fails(Box<Finding>),
}

/// Proves what a task asks for.
pub(super) fn run(task: Task<'_>, solver: &Solver) -> Result<Report, Unprovable> {
    let started = Instant::now();
    let built_in =
        built_in().map_err(|_| Unprovable::Broken("the properties are broken".into()))?;
    let wanted = |id: &str| task.only.is_empty() || task.only.iter().any(|only| only == id);
    let mut claims = built_in;
    claims.extend(task.invariants);
    claims.retain(|claim| wanted(&claim.id));
    let mut properties: Vec<Property> = [NO_ERRORS, NO_DEAD]
        .iter()
        .map(|(id, text)| property(id, text))
        .collect();
    properties.extend(
        claims
            .iter()
            .map(|claim| property(&claim.id, &words(claim))),
    );

    let mut bundle = task.bundle.clone();
    let monitor = bundle.settings.mode == Mode::Monitor;
    // What is proved is what the policies say, not that it binds.
    bundle.settings.mode = Mode::Enforce;
    let room = Room {
        engine: Engine::new(bundle),
        sources: task.sources,
        claims: &claims,
        schema: schema().map_err(Unprovable::Broken)?,
        solver,
        wanted: [wanted(NO_ERRORS.0), wanted(NO_DEAD.0)],
    };
    let jobs = room.jobs();
    for found in room.work(&jobs)? {
        let Some(property) = properties.get_mut(found.property) else {
            continue;
        };
        property.questions += 1;
        property.took += found.took;
        if let Answer::Fails(finding) = found.answer {
            property.findings.push(*finding);
        }
    }
    properties.retain(|property| wanted(&property.id));
    room.bear_witness(&mut properties);
    Ok(Report {
        solver: solver.version.clone(),
        policies: task.bundle.policies.len(),
        monitor,
        properties,
        took: started.elapsed(),
    })
}

fn property(id: &str, text: &str) -> Property {
    Property {
        id: id.to_owned(),
        text: text.to_owned(),
        questions: 0,
        took: Duration::ZERO,
        findings: Vec::new(),
    }
}

fn words(claim: &Invariant) -> String {
    if claim.reason.is_empty() {
        return format!("the calls of this invariant {}", claim.demand.words());
    }
    claim.reason.clone()
}

/// What all workers share.
struct Room<'a> {
    engine: Engine,
    sources: &'a [Source],
    claims: &'a [Invariant],
    schema: Schema,
    solver: &'a Solver,
    wanted: [bool; 2],
}

impl Room<'_> {
    fn bundle(&self) -> &Bundle {
        self.engine.bundle()
    }

    fn jobs(&self) -> Vec<Job> {
        // The longest ones first.
        let mut jobs = Vec::new();
        for (index, claim) in self.claims.iter().enumerate() {
            let admitted =
                Environment::all().filter(|environment| environment.admits(&claim.policy));
            jobs.extend(admitted.map(|environment| Job::Claim(index, environment)));
        }
        if self.wanted != [false; 2] {
            jobs.extend((0..self.bundle().policies.len()).map(Job::Policy));
        }
        jobs
    }

    fn work(&self, jobs: &[Job]) -> Result<Vec<Found>, Unprovable> {
        let done = team::work(jobs, self.solver, |asker, job| {
            let translator = Translator::new(&self.bundle().settings);
            Hand {
                room: self,
                asker,
                translator,
            }
            .does(job)
        })?;
        Ok(done.into_iter().flatten().collect())
    }

    /// The policy's file, and its `@id` there.
    fn place(&self, policy: &Policy) -> Option<(&Arc<SourceFile>, Range<usize>)> {
        place(self.sources, policy)
    }

    /// What the engine says of a request.
    fn judged(&self, request: &Request) -> (Effect, Vec<String>, bool) {
        let Judgement { decision, .. } = self.engine.decide(std::slice::from_ref(request));
        let failed = matches!(&decision, crate::engine::decision::Decision::Deny(denial)
            if denial.fault() == Some(FaultClass::EvaluationError));
        let deciding = decision.reasons().iter();
        let deciding = deciding
            .map(|reason| match failed {
                true => reason.text.clone(),
                false => reason.id.clone(),
            })
            .collect();
        (decision.effect(), deciding, failed)
    }

    fn counterexample(
        &self,
        request: Request,
        against: &dyn Fn(&Request) -> bool,
    ) -> Counterexample {
        let confirmed = against(&request);
        let request = match confirmed {
            true => plainer(request, &mut |other| against(other)),
            false => request,
        };
        let (effect, deciding, _) = self.judged(&request);
        Counterexample {
            request,
            effect,
            deciding,
            confirmed,
            event: None,
        }
    }

    /// Whether a request shows that a claim does not hold.
    fn breaks(&self, claim: &Invariant, request: &Request) -> bool {
        let (effect, _, failed) = self.judged(request);
        !failed && violates(claim.demand, effect) && describes(claim, request)
    }

    /// Looks for an event for each counterexample that the engine confirmed.
    fn bear_witness(&self, properties: &mut [Property]) {
        let mut witnesses = None;
        for property in properties {
            let Some(claim) = self.claims.iter().find(|claim| claim.id == property.id) else {
                continue;
            };
            for finding in &mut property.findings {
                let Some(shown) = &mut finding.counterexample else {
                    continue;
                };
                if !shown.confirmed {
                    continue;
                }
                let scene = witnesses.get_or_insert_with(|| Witnesses::new(self.bundle()));
                if let Ok(scene) = scene {
                    let against = |request: &Request| {
                        request.action == shown.request.action
                            && request.resource.kind() == shown.request.resource.kind()
                            && self.breaks(claim, request)
                    };
                    shown.event = scene.event(&shown.request, claim.demand, &against);
                }
            }
        }
    }
}

/// A policy's file, and where its `@id` stands there.
pub(in crate::workbench) fn place<'a>(
    sources: &'a [Source],
    policy: &Policy,
) -> Option<(&'a Arc<SourceFile>, Range<usize>)> {
    let file = sources
        .iter()
        .flat_map(|source| &source.files)
        .find(|file| file.path == policy.file)?;
    let before = usize::try_from(policy.line).ok()?.checked_sub(1)?;
    let start: usize = file
        .text
        .split_inclusive('\n')
        .take(before)
        .map(str::len)
        .sum();
    let bare = policy
        .id
        .split_once(':')
        .map_or(policy.id.as_str(), |(_, id)| id);
    let id = format!("@id(\"{bare}\")");
    let at = start + file.text.get(start..)?.find(&id)?;
    Some((file, at..at + id.len()))
}

/// Whether an answer is what a demand rules out.
pub(super) const fn violates(demand: Demand, effect: Effect) -> bool {
    match demand {
        Demand::Denied => !matches!(effect, Effect::Deny),
        Demand::NotAllowed => matches!(effect, Effect::Allow),
        Demand::Allowed => !matches!(effect, Effect::Allow),
        Demand::NotDenied => matches!(effect, Effect::Deny),
    }
}

fn describes(claim: &Invariant, request: &Request) -> bool {
    let alone = Bundle {
        digest: String::new(),
        policies: vec![claim.policy.clone()],
        settings: crate::engine::bundle::Settings::default(),
    };
    matches!(why(&alone, request, &[0]).as_slice(), [(_, Why::Held)])
}

/// What one worker holds.
struct Hand<'a> {
    room: &'a Room<'a>,
    asker: &'a mut Asker,
    translator: Translator<'a>,
}

impl Hand<'_> {
    fn does(&mut self, job: &Job) -> Vec<Found> {
        match job {
            Job::Policy(index) => self.policy(*index),
            Job::Claim(index, environment) => {
                let started = Instant::now();
                let answer = self.claim(*index, *environment);
                vec![Found {
                    property: 2 + index,
                    took: started.elapsed(),
                    answer,
                }]
            }
        }
    }

    fn policy(&mut self, index: usize) -> Vec<Found> {
        let Some(policy) = self.room.bundle().policies.get(index) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let (mut holds, mut doubt) = (false, None);
        let started = Instant::now();
        let mut asking = Duration::ZERO;
        let wanted = self.room.wanted;
        for environment in Environment::all().filter(|environment| environment.admits(policy)) {
            let begun = Instant::now();
            let errors = wanted[0].then(|| self.errors(policy, environment));
            found.extend(errors.map(|answer| Found {
                property: 0,
                took: begun.elapsed(),
                answer,
            }));
            asking += begun.elapsed();
            if holds || !wanted[1] {
                continue;
            }
            if sample::holds(self.room.bundle(), index, environment) {
                holds = true;
                continue;
            }
            match self.compiled(policy, environment) {
                Ok(compiled) => {
                    let never = self
                        .asker
                        .ask(async |solver| solver.check_never_matches_opt(&compiled).await);
                    match never {
                        Ok(never) => holds = !never,
                        Err(why) => doubt = Some(why),
                    }
                }
                Err(why) => doubt = Some(why),
            }
        }
        if wanted[1] {
            let answer = match (holds, doubt) {
                (true, _) => Answer::Holds,
                (false, doubt) => self.dead(policy, doubt),
            };
            found.push(Found {
                property: 1,
                took: started.elapsed().saturating_sub(asking),
                answer,
            });
        }
        found
    }

    fn compiled(
        &mut self,
        policy: &Policy,
        environment: Environment,
    ) -> Result<CompiledPolicy, String> {
        let policy = self.translator.ranged(policy, environment)?;
        CompiledPolicy::compile(&policy, &environment.cedar()?, &self.room.schema)
            .map_err(|_| "this policy cannot be put to a solver".to_owned())
    }

    fn errors(&mut self, policy: &Policy, environment: Environment) -> Answer {
        let asked = self.compiled(policy, environment).and_then(|compiled| {
            self.asker.ask(async |solver| {
                solver
                    .check_never_errors_with_counterexample_opt(&compiled)
                    .await
            })
        });
        let title = format!("this policy can fail: {environment}");
        match asked {
            Ok(None) => Answer::Holds,
            Ok(Some(found)) => {
                let problem = self
                    .at_policy(Problem::error(Code::Disproved, title), policy)
                    .help(
                        "numbers that are added or multiplied may overflow; compare them instead",
                    );
                let failed = |request: &Request| self.room.judged(request).2;
                let shown = self.shown(&found, environment, &failed);
                fails(Some(environment), true, problem, shown.ok())
            }
            Err(why) => self.doubt(policy, Some(environment), &why),
        }
    }

    fn dead(&self, policy: &Policy, doubt: Option<String>) -> Answer {
        if let Some(why) = doubt {
            return self.doubt(policy, None, &why);
        }
        let problem = Problem::error(Code::Disproved, "this policy holds for no request")
            .help("its conditions contradict each other, its scope, or what a fact can be");
        fails(None, true, self.at_policy(problem, policy), None)
    }

    fn claim(&mut self, index: usize, environment: Environment) -> Answer {
        let Some(claim) = self.room.claims.get(index) else {
            return Answer::Holds;
        };
        let title = format!("`{}` is not known to hold: {environment}", claim.id);
        match self.against(claim, environment) {
            Ok(None) => Answer::Holds,
            Ok(Some(found)) => {
                let against = |request: &Request| self.room.breaks(claim, request);
                let shown = self.shown(&found, environment, &against);
                let mut problem = self.blamed(claim, environment, shown.as_ref().ok());
                if let Err(why) = &shown {
                    problem = problem.help(why);
                }
                fails(Some(environment), true, problem, shown.ok())
            }
            Err(why) => {
                let problem = Problem::error(Code::NotProved, title).help(why);
                let problem = problem.at(&claim.file, claim.span.clone());
                fails(Some(environment), false, problem, None)
            }
        }
    }

    /// A request that a claim rules out, as a solver sees it.
    fn against(
        &mut self,
        claim: &Invariant,
        environment: Environment,
    ) -> Result<Option<Env>, String> {
        let calls = match claim.demand {
            Demand::Denied | Demand::NotDenied => Calls::NotDenied,
            Demand::NotAllowed | Demand::Allowed => Calls::Allowed,
        };
        let bundle = self.room.bundle();
        let schema = &self.room.schema;
        let asked = environment.cedar()?;
        let compiled = |set| {
            CompiledPolicySet::compile(&set, &asked, schema)
                .map_err(|_| "these policies cannot be put to a solver".to_owned())
        };
        let set = compiled(self.translator.set(bundle, environment, calls, false)?)?;
        let described = compiled(self.translator.described(&claim.policy, environment)?)?;
        match claim.demand {
            Demand::Denied | Demand::NotAllowed => self.asker.ask(async |solver| {
                let asked = solver.check_disjoint_with_counterexample_opt(&set, &described);
                asked.await
            }),
            Demand::Allowed | Demand::NotDenied => {
                // A policy that fails denies: then a set that allows is not enough.
                for policy in &bundle.policies {
                    if environment.admits(policy)
                        && !matches!(self.errors(policy, environment), Answer::Holds)
                    {
                        return Err(format!(
                            "the policy `{}` may fail there, and what fails is denied",
                            policy.id
                        ));
                    }
                }
                self.asker.ask(async |solver| {
                    let asked = solver.check_implies_with_counterexample_opt(&described, &set);
                    asked.await
                })
            }
        }
    }

    /// The claim's problem, at the policy that lets through what it rules out, or that stops what it
    /// demands.
    fn blamed(
        &self,
        claim: &Invariant,
        environment: Environment,
        shown: Option<&Counterexample>,
    ) -> Problem {
        let wrong = match claim.demand {
            Demand::Denied => "this lets through what must be denied",
            Demand::NotAllowed => "this allows what must be denied or asked",
            Demand::Allowed => "this stops what must be allowed",
            Demand::NotDenied => "this denies what must be allowed or asked",
        };
        let problem = Problem::error(
            Code::Disproved,
            format!("`{}` does not hold of {environment}", claim.id),
        );
        let permits = matches!(claim.demand, Demand::Denied | Demand::NotAllowed);
        let to_blame = |verdict: Verdict| match claim.demand {
            Demand::Denied | Demand::NotAllowed => verdict == Verdict::Permit,
            Demand::Allowed => verdict != Verdict::Permit,
            Demand::NotDenied => verdict == Verdict::Forbid,
        };
        let at_fault = shown.and_then(|shown| {
            let judged = self
                .room
                .engine
                .decide(std::slice::from_ref(&shown.request));
            let held = judged
                .verdicts
                .into_iter()
                .find_map(|(_, judged)| judged.ok())?;
            let policies = self.room.bundle().policies.iter().enumerate();
            policies
                .filter(|(index, _)| held.held.contains(index))
                .map(|(_, policy)| policy)
                .find(|policy| to_blame(policy.verdict) && !policy.monitor)
        });
        match at_fault.and_then(|policy| self.room.place(policy)) {
            Some((file, span)) => problem
                .help(format!("{wrong}: {}", words(claim)))
                .at(file, span),
            None if permits => problem.at(&claim.file, claim.span.clone()),
            None => problem
                .help("no policy permits it")
                .at(&claim.file, claim.span.clone()),
        }
    }

    fn shown(
        &self,
        found: &Env,
        environment: Environment,
        against: &dyn Fn(&Request) -> bool,
    ) -> Result<Counterexample, String> {
        let request = request(found, environment, &self.room.bundle().settings)?;
        Ok(self.room.counterexample(request, against))
    }

    fn doubt(&self, policy: &Policy, environment: Option<Environment>, why: &str) -> Answer {
        let title = match environment {
            Some(environment) => {
                format!("it is not known whether this policy can fail: {environment}")
            }
            None => "it is not known whether this policy ever holds".to_owned(),
        };
        let problem = Problem::error(Code::NotProved, title).help(why);
        fails(environment, false, self.at_policy(problem, policy), None)
    }

    fn at_policy(&self, problem: Problem, policy: &Policy) -> Problem {
        match self.room.place(policy) {
            Some((file, span)) => problem.at(file, span),
            None => problem,
        }
    }
}

fn fails(
    environment: Option<Environment>,
    disproved: bool,
    problem: Problem,
    counterexample: Option<Counterexample>,
) -> Answer {
    Answer::Fails(Box::new(Finding {
        environment: environment.map(|environment| environment.to_string()),
        disproved,
        problem,
        counterexample,
    }))
}
