//! The policy enforcement point: the road that all doors share.
//!
//! event → facts → requests → engine → obligations → record → outcome. There is no other way to
//! an outcome that lets something through.

mod advising;
mod approving;
mod cleaning;
pub mod event;
pub mod exceptions;
mod keeping;
pub mod outcome;
pub mod place;
mod recording;
mod requests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tracing::Level;

use crate::audit::key::Key;
use crate::config::{self, AuditDirectory};
use crate::engine::bundle::{Bundle, Limits, LogLevel, OnFailure, Settings};
use crate::engine::decision::{Approval, Decision, FaultClass, Obligation, Reason};
use crate::engine::exception::Used;
use crate::engine::injection::Said;
use crate::engine::pattern::PatternError;
use crate::engine::redaction;
use crate::engine::request::Request;
use crate::engine::upstream::{Server, Upstreams};
use crate::engine::{self, Engine, Judgement};
use crate::facts::chain::Lineage;
use crate::facts::paths::words;
use crate::log::{self, Stopwatch};
use crate::policy::published;
use approving::Consultation;
use cleaning::Rulebook;
use event::{Body, Event, EventName};
use exceptions::Lapsed;
use outcome::{Advice, Cleared, Outcome, Refusal};
use place::{Installation, Lookout};
use requests::{Fault, Means, Questions};

/// The one gate of an installation.
#[derive(Debug)]
pub struct Gate {
    engine: Result<Engine, Refused>,
    rules: Rulebook,
    here: Installation,
    environment: fn(&'static str) -> Option<String>,
    lookout: Lookout,
    sink: Sink,
    logs: bool,
}

/// Why there are no policies to judge by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The first problem, with file and line.
    pub problem: String,
    /// What a person runs next.
    pub help: String,
}

/// Where the record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// Into the state directory.
    State,
    /// Nowhere: for `explain` and benchmarks, which judge without anything happening.
    Null,
}

/// An event that could not be read, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    /// The event that it was said to be.
    pub event: EventName,
    /// The dialect that it was said to be in.
    pub dialect: &'static str,
}

/// An event's whole way through the gate, for those who want to see it.
#[derive(Debug)]
pub struct Passage {
    /// The answer.
    pub outcome: Outcome,
    /// What was judged, and how; nothing if it did not come that far.
    pub judgement: Option<Trace>,
}

/// What policies would say, without anything that lets a call through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foretold {
    /// How strict the answer would be.
    pub effect: engine::decision::Effect,
    /// The policies that would decide.
    pub reasons: Vec<Reason>,
    /// What would be owed.
    pub obligations: Vec<Obligation>,
}

/// What was judged, and how.
#[derive(Debug)]
pub struct Trace {
    /// The facts that are no requests.
    pub tool: String,
    /// The working directory, resolved.
    pub cwd: String,
    /// What the answer would be if nothing were only monitored, and without any exception.
    pub would_decide: engine::decision::Effect,
    /// What would have decided more strictly, if it were not only monitored.
    pub monitored: Vec<Reason>,
    /// The exceptions without which a request would have had a stricter answer.
    pub exceptions: Vec<Used>,
    /// The exceptions that would have fitted, but are not in force.
    pub lapsed: Vec<Lapsed>,
    /// Each request and what the policies say of it.
    pub verdicts: Vec<(
        engine::request::Request,
        Result<engine::permission::Judged, engine::permission::EvaluationError>,
    )>,
}

impl Gate {
    /// A gate that judges by a bundle, or, where there is none, refuses with the reason.
    #[must_use]
    pub fn new(policy: Result<Bundle, Refused>, here: Installation, sink: Sink) -> Self {
        Self {
            engine: policy.map(Engine::new),
            rules: Rulebook::default(),
            here,
            environment: variable,
            lookout: Lookout::Always,
            sink,
            logs: false,
        }
    }

    /// A gate that says in the operational log what goes wrong. It belongs to the whole process, so
    /// only a door asks for it.
    #[must_use]
    pub fn logging(self) -> Self {
        Self { logs: true, ..self }
    }

    /// A gate of a program that stays: where its own files are, and what they are, it looks up once a
    /// second; and it waits for others who write to the record until the deadline, as no watchdog does.
    #[must_use]
    pub fn standing(self) -> Self {
        Self {
            lookout: Lookout::sometimes(),
            ..self
        }
    }

    /// A gate to which no variable of the environment says anything: it judges the same everywhere.
    #[must_use]
    pub fn without_environment(self) -> Self {
        Self {
            environment: |_| None,
            ..self
        }
    }

    /// How much the operational log says.
    #[must_use]
    pub fn log_level(&self) -> LogLevel {
        let variable = self.environment;
        match self.bundle() {
            Some(bundle) => config::log_level(&bundle.settings, variable),
            None => config::log_level(&Settings::default(), variable),
        }
    }

    /// Whether something of that severity is to be said.
    fn says(&self, severity: Level) -> bool {
        self.logs && log::wake(&self.here.state, self.log_level(), severity)
    }

    /// The limits that a door keeps.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.bundle()
            .map(|bundle| bundle.settings.limits.clone())
            .unwrap_or_default()
    }

    /// What `upstreams.toml` says of an MCP server behind this program; of one that it does not
    /// name, that nobody trusts it.
    #[must_use]
    pub fn server(&self, name: &str) -> Server {
        let servers = self
            .bundle()
            .map(|bundle| &bundle.settings.upstreams.servers);
        let mut servers = servers.into_iter().flatten();
        let found = servers.find(|server| server.name == name).cloned();
        found.unwrap_or_else(|| Server {
            name: name.to_owned(),
            trust: "sandboxed".to_owned(),
            tools: Vec::new(),
        })
    }

    /// The signals of `injection.toml` in how a server describes a tool; nothing where there are no
    /// policies, and nothing passes.
    ///
    /// # Errors
    /// If an expression does not compile, which reading the policies excluded.
    pub fn signals_of(&self, description: &str) -> Result<BTreeSet<String>, PatternError> {
        match self.bundle() {
            Some(bundle) => bundle
                .settings
                .injection
                .find(&[description], Said::Description),
            None => Ok(BTreeSet::new()),
        }
    }

    /// What it judges by, if there is anything.
    #[must_use]
    pub fn policies(&self) -> Option<&Bundle> {
        self.bundle()
    }

    /// What stands behind this program, as the policies say.
    #[must_use]
    pub fn upstreams(&self) -> Option<&Upstreams> {
        self.bundle().map(|bundle| &bundle.settings.upstreams)
    }

    /// What the policies would say of a request, for those who ask beforehand. It is no answer to any
    /// event: nothing may happen for it, and nothing is recorded.
    #[must_use]
    pub fn foretell(&self, request: &Request) -> Option<Foretold> {
        let engine = self.engine.as_ref().ok()?;
        let decision = engine.decide(std::slice::from_ref(request)).decision;
        Some(Foretold {
            effect: decision.effect(),
            reasons: decision.reasons().to_vec(),
            obligations: obligations(&decision),
        })
    }

    fn bundle(&self) -> Option<&Bundle> {
        self.engine.as_ref().ok().map(Engine::bundle)
    }

    /// Judges an event, writes the record, and gives the answer.
    pub fn pass(&self, event: &Event, elapsed: Duration) -> Outcome {
        self.walk(event, elapsed).outcome
    }

    /// As [`Gate::pass`], with everything that was seen on the way.
    pub fn walk(&self, event: &Event, elapsed: Duration) -> Passage {
        let mut clock = Stopwatch::start();
        let Judged {
            mut decision,
            questions,
            mut trace,
            key,
        } = self.judge(event, &mut clock);
        let mut sync = false;
        let obligations = obligations(&decision);
        for obligation in &obligations {
            match obligation {
                Obligation::RecordSync => sync = true,
                // The door that serves the tool does.
                Obligation::MarkDraft => {}
                // Below, where there is a text.
                Obligation::RedactSecrets | Obligation::RedactPhi | Obligation::Truncate => {}
            }
        }
        if event.name == EventName::PermissionRequest {
            decision = self.settle(decision, event, trace.as_ref());
        }
        let drafts = obligations.contains(&Obligation::MarkDraft) && event.served.is_none();
        if drafts && !matches!(decision, Decision::Deny(_)) {
            decision = Decision::fault(
                FaultClass::ObligationError,
                "nobody can mark what this tool makes as a draft",
                "take `mark:draft` off the policies for tools that are not served over MCP",
            );
        }
        let consulted = self.consult(decision, event, questions.as_ref(), trace.as_ref());
        let (decision, consultation) = (consulted.decision, consulted.told);
        let (advice, decision) = match self.advice(event) {
            Ok(advice) => (advice, decision),
            Err(error) => (
                Advice::default(),
                Decision::fault(
                    FaultClass::PolicyError,
                    error.to_string(),
                    "a person corrects the variable",
                ),
            ),
        };
        if let Body::Subagent { id, parent } = &event.body
            && self.sink == Sink::State
        {
            // A lineage that cannot be kept would let a chain grow: the record then fails as well.
            let _ = Lineage::new(&self.here.state).record(id, parent.as_deref());
        }
        let (mut advice, mut instead) = (advice, None);
        let decision = match self.clean(event, questions.as_ref(), &obligations) {
            _ if !matches!(decision, Decision::Allow(_)) => decision,
            Ok(None) => decision,
            Ok(Some(Replacement::Content(content))) if event.served.is_some() => {
                advice.content = Some(content);
                decision
            }
            Ok(Some(Replacement::Text(text))) if event.host.replaces(event.name) => {
                advice.replacement = Some(text);
                decision
            }
            // Nothing can be done any more: the record says what the host was told.
            Ok(Some(_)) if !event.name.can_block() => decision,
            Ok(Some(replacement)) => {
                if let Replacement::Text(text) = replacement {
                    instead = Some(text);
                }
                Decision::fault(
                    FaultClass::ObligationError,
                    "the text holds what has to be taken out, and this host does not let us",
                    "a person looks at it, outside the agent",
                )
            }
            Err(fault) => Decision::fault(FaultClass::ObligationError, fault.to_string(), ""),
        };
        let kept = self
            .keep_root(event, questions.as_ref())
            .and_then(|()| self.keep_written(event, &decision, questions.as_ref()));
        let decision = match kept {
            Ok(()) => decision,
            Err(error) => Decision::fault(
                FaultClass::AuditUnavailable,
                format!("what later calls need cannot be kept: {}", words(&error)),
                "a person runs `copilot-bridge doctor`",
            ),
        };
        let judgement = recording::Told {
            event: Some(event),
            unread: None,
            decision: &decision,
            questions: questions.as_ref(),
            trace: trace.as_ref(),
            advice: &advice,
            expired: match event.body {
                Body::Start { .. } => published::expired(&self.here.policies),
                _ => None,
            },
            consultation: &consultation,
            elapsed,
        };
        clock.lap("obligations");
        let recorded = self.record(&judgement, key, sync);
        clock.lap("record");
        let decision = match recorded {
            Ok(()) => decision,
            Err(refusal) => {
                return Passage {
                    outcome: Outcome::Deny(refusal),
                    judgement: trace.take(),
                };
            }
        };
        // Whoever approved is not asked again when the host wants a permission for the same call.
        let settled = matches!(decision, Decision::Ask(_)) || consultation.is_approved();
        if settled && event.name == EventName::PreToolUse {
            self.remember(event, trace.as_ref());
        }
        if let Some(question) = consulted.question {
            self.leave(question);
        }
        Passage {
            outcome: match decision {
                Decision::Allow(permit) => Outcome::Pass(Cleared::new(permit, advice)),
                Decision::Ask(pending) => Outcome::Ask(pending),
                Decision::Deny(denial) => Outcome::Deny(Refusal::from(denial).with_text(instead)),
            },
            judgement: trace,
        }
    }

    /// Judges requests that somebody made up. Only where nothing is recorded: anywhere else the
    /// requests of an event are what the facts say.
    pub fn suppose(&self, requests: &[Request]) -> Passage {
        let refused = |problem: &str, help: &str| Passage {
            outcome: Outcome::Deny(Refusal::fault(FaultClass::PolicyError, problem, help)),
            judgement: None,
        };
        let engine = match (&self.engine, self.sink) {
            (Ok(engine), Sink::Null) => engine,
            (Ok(_), Sink::State) => return refused("made-up requests are not judged here", ""),
            (Err(error), _) => return refused(&error.problem, &error.help),
        };
        let Judgement {
            decision,
            would_decide,
            verdicts,
            monitored,
            exceptions,
        } = engine.decide(requests);
        let of = |part: fn(&Request) -> &String| requests.first().map(part).cloned();
        Passage {
            outcome: match decision {
                Decision::Allow(permit) => Outcome::Pass(Cleared::new(permit, Advice::default())),
                Decision::Ask(pending) => Outcome::Ask(pending),
                Decision::Deny(denial) => Outcome::Deny(denial.into()),
            },
            judgement: Some(Trace {
                tool: of(|request| &request.context.tool).unwrap_or_default(),
                cwd: of(|request| &request.context.cwd).unwrap_or_default(),
                would_decide,
                verdicts,
                monitored,
                exceptions,
                lapsed: Vec::new(),
            }),
        }
    }

    /// The text that goes on in the place of the event's, as its permits demand.
    fn clean(
        &self,
        event: &Event,
        questions: Option<&Questions<'_>>,
        obligations: &[Obligation],
    ) -> Result<Option<Replacement>, redaction::Fault> {
        let limit = self.limits().result_bytes;
        let Some(questions) = questions else {
            return Ok(None);
        };
        let (cleaner, found) = (&questions.cleaner, &questions.found);
        if let Body::Content { .. } = event.body {
            let content = cleaner.replace_content(event, found, obligations, limit)?;
            return Ok(content.map(Replacement::Content));
        }
        let text = cleaner.replace(event, found, obligations, limit)?;
        Ok(text.map(Replacement::Text))
    }

    /// The key of the installation, where something is recorded.
    fn key(&self) -> Result<Option<Key>, Decision> {
        match self.sink {
            Sink::Null => Ok(None),
            Sink::State => self.lookout.key(&self.here).map(Some).map_err(|error| {
                let help = "a person runs `copilot-bridge doctor`";
                Decision::fault(FaultClass::AuditUnavailable, error.0, help)
            }),
        }
    }

    /// Refuses what could not even be read, and records that.
    pub fn refuse(
        &self,
        unread: &Unread,
        class: FaultClass,
        text: &str,
        elapsed: Duration,
    ) -> Outcome {
        let decision = Decision::fault(class, text, "");
        let told = recording::Told {
            event: None,
            unread: Some(unread),
            decision: &decision,
            questions: None,
            trace: None,
            advice: &Advice::default(),
            expired: None,
            consultation: &Consultation::default(),
            elapsed,
        };
        match self.record(&told, None, false) {
            Ok(()) => Outcome::Deny(Refusal::fault(class, text, "")),
            Err(refusal) => Outcome::Deny(refusal),
        }
    }

    /// Leaves a note that a denial went out before the record was written.
    pub fn note_late(state: &Path, event: EventName, elapsed: Duration) {
        recording::note_late(state, event, elapsed);
    }

    /// The same, of this gate.
    pub fn note_superseded(&self, event: EventName, elapsed: Duration) {
        if self.sink == Sink::State {
            Self::note_late(&self.here.state, event, elapsed);
        }
    }

    fn judge(&self, event: &Event, clock: &mut Stopwatch) -> Judged<'_> {
        let engine = match &self.engine {
            Ok(engine) => engine,
            Err(refused) => {
                return Judged::fault(Decision::fault(
                    FaultClass::PolicyError,
                    refused.problem.clone(),
                    refused.help.clone(),
                ));
            }
        };
        let key = match self.key() {
            Ok(key) => key,
            Err(fault) => return Judged::fault(fault),
        };
        let means = Means {
            bundle: engine.bundle(),
            rules: &self.rules,
            here: &self.here,
            lookout: &self.lookout,
            // What nobody records is compared with nothing.
            key: key.as_ref().map_or([0; 32], Key::for_placeholders),
        };
        let questions = match requests::questions(event, &means) {
            Ok(questions) => questions,
            Err(Fault { class, text }) => {
                return Judged::fault(Decision::fault(class, text, ""));
            }
        };
        clock.lap("facts");
        let judgement = engine.decide(&questions.requests);
        let (judgement, lapsed) = match &questions.places {
            Some(places) => {
                let record = self.record_dir(questions.root.as_deref());
                exceptions::apply(engine, judgement, places, &record)
            }
            None => (judgement, Vec::new()),
        };
        let Judgement {
            decision,
            would_decide,
            verdicts,
            monitored,
            exceptions,
        } = judgement;
        clock.lap("judge");
        Judged {
            decision,
            trace: Some(Trace {
                tool: questions.tool.clone(),
                cwd: questions.cwd.clone(),
                would_decide,
                monitored,
                exceptions,
                lapsed,
                verdicts,
            }),
            questions: Some(questions),
            key,
        }
    }

    /// A host asks for permission after the hook before the tool: what was asked there already is
    /// the host's to ask; what was not, nobody can ask any more.
    fn settle(&self, decision: Decision, event: &Event, trace: Option<&Trace>) -> Decision {
        match decision {
            Decision::Ask(pending) if self.was_asked(event, trace) => {
                Decision::Allow(pending.approve(Approval {
                    by: "host".to_owned(),
                }))
            }
            decision => decision,
        }
    }

    /// Where the environment says that the record is.
    fn other_dir(&self, workspace: Option<&Path>) -> AuditDirectory {
        let said = (self.environment)(config::AUDIT_LOG_DIR);
        config::audit_directory(said.as_deref(), workspace)
    }

    /// Where the record is.
    fn record_dir(&self, workspace: Option<&Path>) -> PathBuf {
        self.dir_of(self.other_dir(workspace))
    }

    fn dir_of(&self, other: AuditDirectory) -> PathBuf {
        match other {
            AuditDirectory::Honoured(dir) => dir,
            AuditDirectory::Unset | AuditDirectory::Ignored(_) => self.here.state.join("audit"),
        }
    }

    fn record(
        &self,
        told: &recording::Told<'_>,
        key: Option<Key>,
        sync: bool,
    ) -> Result<(), Refusal> {
        if self.sink == Sink::Null {
            return Ok(());
        }
        let settings = self.bundle().map(|bundle| &bundle.settings.audit);
        let workspace = told
            .questions
            .and_then(|questions| questions.root.as_deref());
        let other = self.other_dir(workspace);
        let deadline = || Duration::from_millis(u64::from(self.limits().deadline_ms));
        let desk = recording::Desk {
            state: &self.here.state,
            other: other.clone(),
            key,
            patience: self.lookout.stays().then(deadline),
        };
        let written = recording::append(desk, self.bundle(), told, sync);
        match written {
            Ok(()) => {
                self.mirror(told, other);
                Ok(())
            }
            Err(error) if settings.is_some_and(|audit| audit.on_failure == OnFailure::Allow) => {
                if self.says(Level::ERROR) {
                    let pid = std::process::id();
                    tracing::error!(pid, error, "what was judged goes on unrecorded");
                }
                Ok(())
            }
            Err(error) => {
                let name = told.event.map(|event| event.name);
                if let (true, Some(name)) = (self.lookout.stays(), name) {
                    // A hook's watchdog does that for whoever waits too long.
                    self.note_superseded(name, told.elapsed);
                }
                Err(Refusal::fault(
                    FaultClass::AuditUnavailable,
                    error,
                    "a person makes room or corrects the state directory, then runs `copilot-bridge doctor`",
                ))
            }
        }
    }

    /// Writes what is in the record into the logs of older programs, where policies name any.
    fn mirror(&self, told: &recording::Told<'_>, other: AuditDirectory) {
        let Some(bundle) = self.bundle() else { return };
        if bundle.settings.audit.mirrors.is_empty() {
            return;
        }
        let record = self.dir_of(other);
        recording::mirror(&self.here, &record, bundle, told, |mirror, error| {
            if self.says(Level::WARN) {
                let (pid, mirror) = (std::process::id(), mirror.shape.name());
                tracing::warn!(pid, mirror, error, "a mirror cannot be written");
            }
        });
    }

    fn remember(&self, event: &Event, trace: Option<&Trace>) {
        if self.sink == Sink::State {
            recording::remember_asked(&self.here.state, event, trace);
        }
    }

    fn was_asked(&self, event: &Event, trace: Option<&Trace>) -> bool {
        self.sink == Sink::State && recording::was_asked(&self.here.state, event, trace)
    }
}

/// What goes on in the place of what an event brought.
enum Replacement {
    Text(String),
    Content(Value),
}

/// A judgement on its way to the record.
struct Judged<'a> {
    decision: Decision,
    questions: Option<Questions<'a>>,
    trace: Option<Trace>,
    /// The key of the installation, if it was needed already.
    key: Option<Key>,
}

impl Judged<'_> {
    const fn fault(decision: Decision) -> Self {
        Self {
            decision,
            questions: None,
            trace: None,
            key: None,
        }
    }
}

fn obligations(decision: &Decision) -> Vec<Obligation> {
    match decision {
        Decision::Allow(permit) => permit.obligations().to_vec(),
        Decision::Ask(pending) => pending.obligations().to_vec(),
        Decision::Deny(_) => Vec::new(),
    }
}

fn variable(name: &'static str) -> Option<String> {
    std::env::var(name).ok()
}
