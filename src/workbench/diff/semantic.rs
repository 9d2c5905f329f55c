//! For each kind of request: is there a call that the new policies answer otherwise than the old ones?

use std::time::Instant;

use cedar_policy::Schema;
use cedar_policy_symcc::{CompiledPolicy, CompiledPolicySet, Env};

use super::{Compared, Direction, Proofs, Shift};
use crate::engine::Engine;
use crate::engine::bundle::{Bundle, Mode, Policy};
use crate::engine::decision::{Decision, Effect};
use crate::engine::request::Request;
use crate::workbench::prove::counterexample::{plainer, request, settle};
use crate::workbench::prove::environment::Environment;
use crate::workbench::prove::solver::{Asker, Solver, schema};
use crate::workbench::prove::team;
use crate::workbench::prove::translate::{Calls, Translator};
use crate::workbench::prove::{Means, Unprovable};

/// Compares two bundles for every call that there can be.
pub(super) fn prove(old: &Bundle, new: &Bundle, means: &Means) -> Result<Proofs, Unprovable> {
    let solver = Solver::find(means.cvc5.as_deref(), means.path.as_deref(), means.limit)?;
    let started = Instant::now();
    let engine = |bundle: &Bundle| {
        let mut bundle = bundle.clone();
        // What is compared is what the policies say; whether it binds is told apart from that.
        bundle.settings.mode = Mode::Enforce;
        Engine::new(bundle)
    };
    let room = Room {
        old: engine(old),
        new: engine(new),
        schema: schema().map_err(Unprovable::Broken)?,
    };
    let all: Vec<Environment> = Environment::all().collect();
    let environments = team::work(&all, &solver, |asker, environment| {
        room.compare(asker, *environment)
    })?;
    Ok(Proofs {
        solver: solver.version.clone(),
        environments,
        took: started.elapsed(),
    })
}

/// The most policies for which a call is shown, one way, of one kind of request.
const MOST: usize = 8;

struct Room {
    old: Engine,
    new: Engine,
    schema: Schema,
}

impl Room {
    fn compare(&self, asker: &mut Asker, environment: Environment) -> Compared {
        let mut compared = Compared {
            environment: environment.to_string(),
            shifts: Vec::new(),
            doubts: Vec::new(),
        };
        if self.same(environment) {
            return compared;
        }
        let mut hand = Hand {
            room: self,
            asker,
            environment,
            old: Translator::new(&self.old.bundle().settings),
            new: Translator::new(&self.new.bundle().settings),
        };
        hand.fragile(&mut compared.doubts);
        for calls in [Calls::NotDenied, Calls::Allowed] {
            for direction in [Direction::Looser, Direction::Stricter] {
                let found = hand.shifts(calls, direction, &mut compared.shifts);
                compared.doubts.extend(found.err());
            }
        }
        compared.doubts.dedup();
        compared
    }

    /// Whether the same policies have a say in such requests, and say the same.
    fn same(&self, environment: Environment) -> bool {
        let (old, new) = (self.old.bundle(), self.new.bundle());
        let known = old.settings.limits.depth == new.settings.limits.depth
            && old.settings.limits.event_bytes == new.settings.limits.event_bytes
            && listed(old) == listed(new);
        let of = |bundle: &Bundle| {
            let bound = bundle.policies.iter();
            let mut bound: Vec<(Vec<u8>, u8)> = bound
                .filter(|policy| environment.admits(policy))
                .map(|policy| (policy.body.clone(), weight(policy)))
                .collect();
            bound.sort();
            bound.dedup();
            bound
        };
        known && of(old) == of(new)
    }
}

fn listed(bundle: &Bundle) -> Vec<String> {
    let mut names = bundle.settings.harmless_tools.clone();
    names.sort();
    names.dedup();
    names
}

/// What a policy's word counts. One that only watches can still fail.
const fn weight(policy: &Policy) -> u8 {
    if policy.monitor {
        return u8::MAX;
    }
    policy.verdict.effect() as u8
}

/// One kind of request, under both bundles.
struct Hand<'a> {
    room: &'a Room,
    asker: &'a mut Asker,
    environment: Environment,
    old: Translator<'a>,
    new: Translator<'a>,
}

impl<'a> Hand<'a> {
    /// What fails is denied, which a comparison of sets does not see.
    fn fragile(&mut self, doubts: &mut Vec<String>) {
        let room = self.room;
        for (name, engine, side) in [("old", &room.old, 0), ("new", &room.new, 1)] {
            for policy in &engine.bundle().policies {
                if !self.environment.admits(policy) {
                    continue;
                }
                let translator = match side {
                    0 => &mut self.old,
                    _ => &mut self.new,
                };
                let safe = safe(
                    self.asker,
                    translator,
                    &room.schema,
                    policy,
                    self.environment,
                );
                if safe != Ok(true) {
                    doubts.push(format!(
                        "the {name} policy `{}` may fail there, and what fails is denied",
                        policy.id
                    ));
                }
            }
        }
    }

    /// A call that goes that way, for each policy that makes one: into, or out of, the calls that are
    /// allowed or not denied.
    fn shifts(
        &mut self,
        calls: Calls,
        direction: Direction,
        into: &mut Vec<Shift>,
    ) -> Result<(), String> {
        let mut told: Vec<(bool, &Policy)> = Vec::new();
        for _ in 0..MOST {
            let Some(shift) = self.shift(calls, direction, &told)? else {
                break;
            };
            told.push(self.because(&shift, direction)?);
            let same = |known: &Shift| {
                (known.from, known.to, &known.old, &known.new)
                    == (shift.from, shift.to, &shift.old, &shift.new)
            };
            if !into.iter().any(same) {
                into.push(shift);
            }
        }
        Ok(())
    }

    /// The policy that makes a call go that way, and whether it is an old one: what stops it on the
    /// one side, or else what lets it through on the other.
    fn because(&self, shift: &Shift, direction: Direction) -> Result<(bool, &'a Policy), String> {
        let sides = match direction {
            Direction::Looser => [(true, &shift.old), (false, &shift.new)],
            Direction::Stricter => [(false, &shift.new), (true, &shift.old)],
        };
        let find = |(old, ids): (bool, &Vec<String>)| {
            let engine = if old { &self.room.old } else { &self.room.new };
            let mut policies = engine.bundle().policies.iter();
            Some((old, policies.find(|policy| ids.contains(&policy.id))?))
        };
        let found = sides.into_iter().find_map(find);
        found.ok_or_else(|| "it cannot be told which policy decides".to_owned())
    }

    /// One such call, that none of the policies in `told` has to do with.
    fn shift(
        &mut self,
        calls: Calls,
        direction: Direction,
        told: &[(bool, &Policy)],
    ) -> Result<Option<Shift>, String> {
        let environment = self.environment;
        let (old, new) = (self.room.old.bundle(), self.room.new.bundle());
        let (mut wider, narrower) = match direction {
            Direction::Looser => (
                self.new.set(new, environment, calls, true)?,
                self.old.set(old, environment, calls, false)?,
            ),
            Direction::Stricter => (
                self.old.set(old, environment, calls, true)?,
                self.new.set(new, environment, calls, false)?,
            ),
        };
        for (number, (is_old, policy)) in told.iter().enumerate() {
            let translator = if *is_old {
                &mut self.old
            } else {
                &mut self.new
            };
            let policy = translator.forbidden(policy, &format!("told{number}"))?;
            wider.add(policy).map_err(|error| error.to_string())?;
        }
        let asked = environment.cedar()?;
        let compiled = |set| {
            CompiledPolicySet::compile(&set, &asked, &self.room.schema)
                .map_err(|_| "these policies cannot be put to a solver".to_owned())
        };
        let (wider, narrower) = (compiled(wider)?, compiled(narrower)?);
        let found = self.asker.ask(async |solver| {
            let asked = solver.check_implies_with_counterexample_opt(&wider, &narrower);
            asked.await
        })?;
        found
            .map(|found| self.shown(&found, calls, direction))
            .transpose()
    }

    fn shown(&self, found: &Env, calls: Calls, direction: Direction) -> Result<Shift, String> {
        let request = request(found, self.environment, &self.room.new.bundle().settings)?;
        let goes = |request: &Request| {
            let (from, to) = (
                self.says(&self.room.old, request),
                self.says(&self.room.new, request),
            );
            let inside = |effect: Effect| match calls {
                Calls::Allowed => effect == Effect::Allow,
                Calls::NotDenied => effect != Effect::Deny,
            };
            let sides = match direction {
                Direction::Looser => (false, true),
                Direction::Stricter => (true, false),
            };
            ((inside(from.0), inside(to.0)) == sides).then_some((from, to))
        };
        if goes(&request).is_none() {
            return Err("the engine does not confirm what the solver found".to_owned());
        }
        let request = plainer(request, &mut |request| goes(request).is_some());
        let ((from, old), (to, new)) =
            goes(&request).ok_or_else(|| "the engine changed its mind".to_owned())?;
        Ok(Shift {
            from,
            to,
            old,
            new,
            request,
        })
    }

    /// What a side says of a call, with the facts that its own settings decide.
    fn says(&self, engine: &Engine, request: &Request) -> (Effect, Vec<String>) {
        let mut request = request.clone();
        settle(&mut request, &engine.bundle().settings);
        let decision: Decision = engine.decide(&[request]).decision;
        let deciding = decision.reasons().iter().map(|reason| reason.id.clone());
        (decision.effect(), deciding.collect())
    }
}

/// Whether a policy never fails.
fn safe(
    asker: &mut Asker,
    translator: &mut Translator<'_>,
    schema: &Schema,
    policy: &Policy,
    environment: Environment,
) -> Result<bool, String> {
    let ranged = translator.ranged(policy, environment)?;
    let compiled = CompiledPolicy::compile(&ranged, &environment.cedar()?, schema)
        .map_err(|error| error.to_string())?;
    asker.ask(async |solver| solver.check_never_errors_opt(&compiled).await)
}
