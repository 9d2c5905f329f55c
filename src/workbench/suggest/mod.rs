//! Rules that the calls in a record would need in order to be allowed.
//!
//! They are proposals for a person, in the files of the base layer, and nothing applies them. Each is
//! tried on the calls that it was made of; what would let through more than a person can oversee, or
//! what a label forbids, is not proposed, and the reason is said.

mod canary;
mod draft;
mod folders;
mod need;

use std::collections::{BTreeMap, BTreeSet};

pub use canary::changed as changed_canary;
pub use need::{Exempt, Need};

use crate::audit::record::v1::Kind;
use crate::engine::bundle::{Bundle, Mode};
use crate::engine::containment::Places;
use crate::engine::decision::Effect;
use crate::engine::{Engine, describe};
use crate::policy::{Problem, Source, check_sources};
use crate::workbench::replay::{Past, Recorded, Told};
use draft::Draft;

/// More kinds of needs are not kept apart.
const NEEDS: usize = 4096;

/// So many calls of each need are tried, and shown.
const TRIED: usize = 64;
const SHOWN: usize = 3;

/// More first words than this are no subcommands.
const SUBCOMMANDS: usize = 12;

/// Which calls are to be allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Those that were allowed because policies were only monitored.
    pub monitored: bool,
    /// Those that a person was asked about.
    pub asked: bool,
    /// Those that were denied.
    pub denied: bool,
}

/// Collects what calls need.
#[derive(Debug)]
pub struct Suggest {
    wanted: Wanted,
    layers: Vec<Source>,
    engine: Engine,
    places: Option<Places>,
    needs: BTreeMap<Need, Seen>,
    refused: BTreeMap<(String, String), Seen>,
    /// The calls that were to be allowed.
    pub calls: u64,
    /// Those of them that the policies allow now.
    pub allowed: u64,
    /// Those of them that the record holds in part only.
    pub truncated: u64,
}

/// When something was seen, and how often.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// So many calls.
    pub calls: u64,
    /// The first one's time.
    pub first: String,
    /// The last one's time.
    pub last: String,
    /// Some of them, in words.
    pub samples: Vec<String>,
    tried: Vec<Told>,
}

/// One proposal.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// What it is, in words.
    pub title: String,
    /// The calls that it is made of.
    pub seen: Seen,
    piece: Piece,
}

#[derive(Debug, Clone)]
enum Piece {
    Program {
        program: String,
        subcommands: Vec<String>,
    },
    Root {
        write: bool,
        folder: String,
    },
    Unless {
        policies: Vec<usize>,
        what: Vec<Exempt>,
    },
}

/// Everything that is proposed, and what is not.
#[derive(Debug)]
pub struct Proposals {
    /// What is proposed.
    pub proposed: Vec<Proposal>,
    /// What is not: the reason, the policies that stop it, the calls.
    pub refused: Vec<(String, String, Seen)>,
    /// The base layer as it is.
    pub before: Source,
    /// The base layer with all proposals.
    pub after: Source,
    /// The policies with all proposals, nothing only monitored.
    pub bundle: Bundle,
}

/// The same policies with nothing only monitored: what they would decide.
#[must_use]
pub fn enforced(mut bundle: Bundle) -> Bundle {
    bundle.settings.mode = Mode::Enforce;
    for policy in &mut bundle.policies {
        policy.monitor = false;
    }
    bundle
}

impl Suggest {
    /// A collector, for layers whose policies these are. The first is the base.
    #[must_use]
    pub fn new(
        layers: Vec<Source>,
        bundle: Bundle,
        wanted: Wanted,
        places: Option<Places>,
    ) -> Self {
        Self {
            wanted,
            layers,
            engine: Engine::new(enforced(bundle)),
            places,
            needs: BTreeMap::new(),
            refused: BTreeMap::new(),
            calls: 0,
            allowed: 0,
            truncated: 0,
        }
    }

    /// The policies by which it is judged what a call needs.
    #[must_use]
    pub const fn bundle(&self) -> &Bundle {
        self.engine.bundle()
    }

    /// Looks at a line of the record.
    pub fn observe(&mut self, line: &Recorded<'_>) {
        if line.v != 1 || line.kind() != Some(Kind::ToolUse) || line.error_class.plain().is_some() {
            return;
        }
        let Wanted {
            monitored,
            asked,
            denied,
        } = self.wanted;
        let wanted = monitored && line.would_decide > line.decision
            || asked && line.decision == Effect::Ask
            || denied && line.decision == Effect::Deny;
        if !wanted {
            return;
        }
        self.calls += 1;
        if line.truncated {
            self.truncated += 1;
            return;
        }
        let ts = line.ts.shown();
        let mut stopped = false;
        for told in line.requests(&self.engine.bundle().settings) {
            stopped |= self.request(&told, &ts);
        }
        self.allowed += u64::from(!stopped);
    }

    /// Looks at one request, and says whether it is stopped.
    fn request(&mut self, told: &Told, ts: &str) -> bool {
        let judgement = self.engine.decide(std::slice::from_ref(&told.request));
        if judgement.decision.effect() == Effect::Allow {
            return false;
        }
        let reasons = judgement.decision.reasons();
        let ids: BTreeSet<&str> = reasons.iter().map(|reason| reason.id.as_str()).collect();
        let policies = ids.into_iter().collect::<Vec<_>>().join(", ");
        let judged = judgement.verdicts.first();
        let need = match judged {
            Some((_, Ok(judged))) => need::need(told, judged, self.engine.bundle()),
            _ => Err("the policies cannot judge it".to_owned()),
        };
        match need {
            Ok(need) => {
                if self.needs.len() < NEEDS || self.needs.contains_key(&need) {
                    self.needs.entry(need).or_default().add(told, ts);
                } else {
                    let why = "there are too many different things".to_owned();
                    refuse(&mut self.refused, why, policies).add(told, ts);
                }
            }
            Err(why) => refuse(&mut self.refused, why, policies).add(told, ts),
        }
        true
    }

    /// What the calls need, tried on them.
    ///
    /// # Errors
    /// What is wrong with the policies once the proposals are in them; that is a defect here.
    pub fn propose(mut self) -> Result<Proposals, Vec<Problem>> {
        let mut proposed = self.gather();
        loop {
            let (after, bundle) = self.write(&proposed)?;
            let failed = self.try_all(&proposed, &bundle);
            if failed.is_empty() {
                let before = self.layers.swap_remove(0);
                let refused = self.refused.into_iter();
                return Ok(Proposals {
                    proposed,
                    refused: refused
                        .map(|((why, policies), seen)| (why, policies, seen))
                        .collect(),
                    before,
                    after,
                    bundle,
                });
            }
            // One that does not help is not written either.
            for (index, policies) in failed.into_iter().rev() {
                let proposal = proposed.remove(index);
                let why = format!("{} would not be enough", proposal.title);
                refuse(&mut self.refused, why, policies).merge(&proposal.seen);
            }
        }
    }

    /// Puts needs together as proposals.
    fn gather(&mut self) -> Vec<Proposal> {
        let mut programs: BTreeMap<String, BTreeMap<Option<String>, Seen>> = BTreeMap::new();
        let mut paths: BTreeMap<bool, BTreeMap<String, Seen>> = BTreeMap::new();
        let mut exempt: BTreeMap<(Vec<usize>, String), (Vec<Exempt>, Seen)> = BTreeMap::new();
        for (need, seen) in std::mem::take(&mut self.needs) {
            match need {
                Need::Program {
                    program,
                    subcommand,
                } => {
                    let words = programs.entry(program).or_default();
                    words.insert(subcommand, seen);
                }
                Need::Path { write, folder } => {
                    paths.entry(write).or_default().insert(folder, seen);
                }
                Need::Unless { policies, what } => {
                    let server = match &what {
                        Exempt::Host(_) => "://".to_owned(),
                        Exempt::Tool { server, .. } => server.clone(),
                    };
                    let (all, sum) = exempt.entry((policies, server)).or_default();
                    all.push(what);
                    sum.merge(&seen);
                }
            }
        }
        let mut proposed = Vec::new();
        for (program, words) in programs {
            self.gather_program(program, words, &mut proposed);
        }
        for (write, wanted) in paths {
            self.gather_paths(write, wanted, &mut proposed);
        }
        for ((policies, server), (what, seen)) in exempt {
            self.gather_unless(policies, &server, what, seen, &mut proposed);
        }
        proposed
    }

    fn gather_program(
        &mut self,
        program: String,
        mut words: BTreeMap<Option<String>, Seen>,
        proposed: &mut Vec<Proposal>,
    ) {
        if !Draft::of(self.base()).has_tables() {
            for seen in words.values() {
                let why = "the base layer has no containment.toml".to_owned();
                refuse(&mut self.refused, why, String::new()).merge(seen);
            }
            return;
        }
        let without = words.remove(&None);
        let mut sum = Seen::default();
        words.values().for_each(|seen| sum.merge(seen));
        let subcommands: Vec<String> = words.into_keys().flatten().collect();
        match without {
            Some(seen) if subcommands.is_empty() => sum = seen,
            Some(seen) => {
                let why = format!("it would let every use of `{program}` run");
                refuse(&mut self.refused, why, String::new()).merge(&seen);
            }
            None => {}
        }
        if subcommands.len() > SUBCOMMANDS {
            let why = format!("`{program}` has too many first words for subcommands");
            refuse(&mut self.refused, why, String::new()).merge(&sum);
            return;
        }
        let title = match subcommands.as_slice() {
            [] => format!("every use of the program `{program}`"),
            words => format!("`{program}` with `{}`", words.join("`, `")),
        };
        proposed.push(Proposal {
            title,
            seen: sum,
            piece: Piece::Program {
                program,
                subcommands,
            },
        });
    }

    fn gather_paths(
        &mut self,
        write: bool,
        wanted: BTreeMap<String, Seen>,
        proposed: &mut Vec<Proposal>,
    ) {
        let nowhere = Places::default();
        let places = self.places.as_ref().unwrap_or(&nowhere);
        let tables = &self.engine.bundle().settings.containment;
        let folders: BTreeSet<&str> = wanted.keys().map(String::as_str).collect();
        let found = folders::fewest(&folders, tables, places);
        let has_tables = Draft::of(self.base()).has_tables();
        for (folder, seen) in &wanted {
            let covered = found
                .values()
                .any(|covered| covered.contains(&folder.as_str()));
            if covered && has_tables {
                continue;
            }
            let why = folders::too_wide(folder, tables, places)
                .unwrap_or_else(|| "the base layer has no containment.toml".to_owned());
            let why = format!("`{folder}`: {why}");
            refuse(&mut self.refused, why, String::new()).merge(seen);
        }
        for (folder, covered) in found.into_iter().filter(|_| has_tables) {
            let mut sum = Seen::default();
            covered
                .iter()
                .filter_map(|path| wanted.get(*path))
                .for_each(|seen| sum.merge(seen));
            let does = if write { "writing" } else { "reading" };
            proposed.push(Proposal {
                title: format!("{does} in `{folder}`"),
                seen: sum,
                piece: Piece::Root { write, folder },
            });
        }
    }

    fn gather_unless(
        &mut self,
        policies: Vec<usize>,
        server: &str,
        what: Vec<Exempt>,
        seen: Seen,
        proposed: &mut Vec<Proposal>,
    ) {
        let draft = Draft::of(self.base());
        let all = &self.engine.bundle().policies;
        let mut ids = Vec::new();
        for policy in policies.iter().filter_map(|index| all.get(*index)) {
            if !draft.has_policy(policy) {
                let why = "the policy that asks stands in another layer".to_owned();
                refuse(&mut self.refused, why, policy.id.clone()).merge(&seen);
                return;
            }
            ids.push(policy.id.as_str());
        }
        let names: Vec<String> = what
            .iter()
            .map(|one| match one {
                Exempt::Host(host) => format!("`https://{host}`"),
                Exempt::Tool { name, .. } => format!("`{name}`"),
            })
            .collect();
        let of = match server {
            "://" => "addresses".to_owned(),
            "" => "tools".to_owned(),
            server => format!("tools of `{server}`"),
        };
        proposed.push(Proposal {
            title: format!(
                "{of} without asking (`{}`): {}",
                ids.join("`, `"),
                names.join(", ")
            ),
            seen,
            piece: Piece::Unless { policies, what },
        });
    }

    fn base(&self) -> Source {
        self.layers.first().cloned().unwrap_or_else(|| {
            Source::new(
                crate::policy::Layer::Embedded,
                String::new(),
                std::iter::empty(),
            )
        })
    }

    fn write(&self, proposed: &[Proposal]) -> Result<(Source, Bundle), Vec<Problem>> {
        let mut draft = Draft::of(self.base());
        for proposal in proposed {
            let remark = proposal.remark();
            match &proposal.piece {
                Piece::Program {
                    program,
                    subcommands,
                } => {
                    let words: Vec<&str> = subcommands.iter().map(String::as_str).collect();
                    draft.program(&remark, program, &words);
                }
                Piece::Root { write, folder } => draft.root(&remark, *write, folder),
                Piece::Unless { policies, what } => {
                    let all = &self.engine.bundle().policies;
                    for policy in policies.iter().filter_map(|index| all.get(*index)) {
                        draft.unless(&remark, policy, what);
                    }
                }
            }
        }
        let after = draft.source();
        let lower = self.layers.iter().skip(1).cloned();
        let layers: Vec<Source> = std::iter::once(after.clone()).chain(lower).collect();
        let checked = check_sources(&layers);
        match checked.bundle {
            Some(bundle) => Ok((after, enforced(bundle))),
            None => Err(checked.problems),
        }
    }

    /// The proposals that do not allow what they are made of, and what still stops it.
    fn try_all(&self, proposed: &[Proposal], bundle: &Bundle) -> Vec<(usize, String)> {
        let old = self.engine.bundle();
        let past = Past::new(old.clone(), Vec::new(), bundle);
        let engine = Engine::new(bundle.clone());
        let settings = (&old.settings, &bundle.settings);
        let mut failed = Vec::new();
        for (index, proposal) in proposed.iter().enumerate() {
            for told in &proposal.seen.tried {
                let mut one = [told.clone()];
                let _ = past
                    .differs
                    .restate(&mut one, settings, self.places.as_ref());
                let [told] = one;
                let decision = engine.decide(std::slice::from_ref(&told.request)).decision;
                if decision.effect() != Effect::Allow {
                    let ids: BTreeSet<&str> = decision
                        .reasons()
                        .iter()
                        .map(|reason| reason.id.as_str())
                        .collect();
                    failed.push((index, ids.into_iter().collect::<Vec<_>>().join(", ")));
                    break;
                }
            }
        }
        failed
    }
}

fn refuse(
    refused: &mut BTreeMap<(String, String), Seen>,
    why: String,
    policies: String,
) -> &mut Seen {
    refused.entry((why, policies)).or_default()
}

impl Seen {
    fn add(&mut self, told: &Told, ts: &str) {
        self.calls += 1;
        if self.first.is_empty() {
            ts.clone_into(&mut self.first);
        }
        ts.clone_into(&mut self.last);
        let words = describe(&told.request);
        if self.samples.len() < SHOWN && !self.samples.contains(&words) {
            self.samples.push(words);
        }
        let known = |other: &Told| other.request == told.request;
        if self.tried.len() < TRIED && !self.tried.iter().any(known) {
            self.tried.push(told.clone());
        }
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        if self.first.is_empty() || !other.first.is_empty() && other.first < self.first {
            self.first.clone_from(&other.first);
        }
        if other.last > self.last {
            self.last.clone_from(&other.last);
        }
        for sample in &other.samples {
            if self.samples.len() < SHOWN && !self.samples.contains(sample) {
                self.samples.push(sample.clone());
            }
        }
        // Each part of the sum is tried.
        self.tried.extend(other.tried.iter().cloned());
    }

    /// `12 calls, 2026-01-02 to 2026-01-09`
    #[must_use]
    pub fn span(&self) -> String {
        let day = |ts: &str| ts.get(..10).unwrap_or(ts).to_owned();
        let calls = crate::audit::report::text::counted(self.calls, "call");
        match (day(&self.first), day(&self.last)) {
            (first, last) if first == last => format!("{calls}, {first}"),
            (first, last) => format!("{calls}, {first} to {last}"),
        }
    }
}

impl Proposal {
    /// What stands above it in the file.
    fn remark(&self) -> String {
        let mut text = format!("suggested from {}\n", self.seen.span());
        for sample in &self.seen.samples {
            text.push_str(&format!("such as {}\n", sample.replace('\n', " ")));
        }
        text.push_str("owner: who looks after this?");
        text
    }
}
