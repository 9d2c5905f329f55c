//! What people said out of band about a call that policies ask about.
//!
//! Where nobody may approve anything, nothing here reads or writes a file.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::Level;

use super::event::{Event, EventName};
use super::recording::spoken;
use super::requests::Questions;
use super::{Gate, Sink, Trace};
use crate::approvals::desk::Desk;
use crate::approvals::question::{CallHash, Id, Question, Shown, Why};
use crate::approvals::weigh::{Denied, Granted, Terms, Weight};
use crate::audit::key::Key;
use crate::audit::writer;
use crate::engine::approver::Approvers;
use crate::engine::bundle::Bundle;
use crate::engine::decision::{Approval, Decision, Effect, Pending, Reason};
use crate::engine::describe;

/// The id of the reason of a denial that a person pronounced.
const DENIED: &str = "approval-denied";

/// What became of a decision when people were consulted.
pub(super) struct Consulted {
    /// The decision with what they said.
    pub(super) decision: Decision,
    /// What the record says of it.
    pub(super) told: Consultation,
    /// What they are to be asked.
    pub(super) question: Option<Question>,
}

/// What the record says of a consultation.
#[derive(Debug, Default)]
pub(super) struct Consultation {
    id: Option<Id>,
    found: Found,
}

/// What was found of what people said.
#[derive(Debug, Default)]
enum Found {
    #[default]
    Nothing,
    Approved(Granted),
    Denied(Denied),
    Refused(String),
}

impl Consultation {
    /// Whether people let the call through.
    pub(super) const fn is_approved(&self) -> bool {
        matches!(self.found, Found::Approved(_))
    }

    /// Adds to a line's detail what was found.
    pub(super) fn tell(&self, detail: &mut Map<String, Value>) {
        let Some(id) = &self.id else {
            return;
        };
        let (key, value) = match &self.found {
            Found::Nothing => ("approval_pending", json!({"id": id})),
            Found::Approved(granted) => (
                "approval",
                json!({
                    "id": id,
                    "approvers": granted.by.iter().map(|one| &one.name).collect::<Vec<_>>(),
                    "keys": granted.by.iter().filter_map(|one| one.key.as_ref()).collect::<Vec<_>>(),
                    "verified": granted.verified,
                    "expires": granted.expires.to_string(),
                    "nonces": granted.nonces,
                }),
            ),
            Found::Denied(denied) => (
                "approval_denied",
                json!({"id": id, "by": denied.by, "expires": denied.expires.to_string()}),
            ),
            Found::Refused(why) => ("approval_refused", json!({"id": id, "why": why})),
        };
        detail.insert(key.to_owned(), value);
    }
}

impl Gate {
    /// Looks for what people said about a call that is asked about.
    pub(super) fn consult(
        &self,
        decision: Decision,
        event: &Event,
        questions: Option<&Questions<'_>>,
        trace: Option<&Trace>,
    ) -> Consulted {
        let plain = |decision| Consulted {
            decision,
            told: Consultation::default(),
            question: None,
        };
        let asks = matches!(
            event.name,
            EventName::PreToolUse | EventName::PermissionRequest
        );
        let pending = match decision {
            Decision::Ask(pending) if asks => pending,
            decision => return plain(decision),
        };
        let (Some(bundle), Some(questions), Some(trace)) = (self.bundle(), questions, trace) else {
            return plain(unanswered(pending, None));
        };
        if !bundle.settings.approvers.is_configured() || self.sink == Sink::Null {
            return plain(unanswered(pending, None));
        }
        let asked = Key::of(&self.here.state)
            .ok()
            .and_then(|key| question(&key, event, questions, trace, bundle, &pending));
        let Some(question) = asked else {
            let help = "it is too long to be approved out of band";
            return plain(unanswered(pending, Some(help)));
        };
        self.answered(pending, question, bundle, questions)
    }

    fn answered(
        &self,
        pending: Pending,
        question: Question,
        bundle: &Bundle,
        questions: &Questions<'_>,
    ) -> Consulted {
        let id = question.call.id();
        let desk = Desk::new(&self.here.state);
        let weight = desk.is_answered(&id).then(|| {
            let terms = Terms {
                approvers: &bundle.settings.approvers,
                demand: pending.demand(),
                last_record: self.last_record(questions),
                // Read after the record's last time, which is then not ahead of it.
                now: Timestamp::now(),
            };
            desk.take(&question, &terms)
        });
        let hint = || hint(&id, &bundle.settings.approvers, &pending);
        let (decision, found, question) = match weight {
            Some(Ok(Weight::Approved(granted))) => {
                let by: Vec<&str> = granted.by.iter().map(|one| one.name.as_str()).collect();
                let approval = Approval { by: by.join(", ") };
                let permit = pending.approve(approval);
                (Decision::Allow(permit), Found::Approved(granted), None)
            }
            Some(Ok(Weight::Denied(denied))) => {
                let reason = denial(&denied, &question);
                let denial = pending.refuse(Some(reason));
                (Decision::Deny(denial), Found::Denied(denied), None)
            }
            Some(Ok(Weight::Refused(why))) => {
                let hint = hint();
                let decision = unanswered(pending, Some(&hint));
                (decision, Found::Refused(why), Some(question))
            }
            Some(Err(error)) => {
                let hint = hint();
                let decision = unanswered(pending, Some(&hint));
                (decision, Found::Refused(error.0), Some(question))
            }
            None => {
                let hint = hint();
                let decision = unanswered(pending, Some(&hint));
                (decision, Found::Nothing, Some(question))
            }
        };
        Consulted {
            decision,
            told: Consultation {
                id: Some(id),
                found,
            },
            question,
        }
    }

    /// Leaves a question for people. One that cannot be left is still the host's to ask.
    pub(super) fn leave(&self, question: Question) {
        let left = Desk::new(&self.here.state).leave(question);
        if let Err(error) = left
            && self.says(Level::WARN)
        {
            let (pid, error) = (std::process::id(), error.0);
            tracing::warn!(pid, error, "a question for people cannot be kept");
        }
    }

    fn last_record(&self, questions: &Questions<'_>) -> Option<Timestamp> {
        let dir = self.record_dir(questions.root.as_deref());
        writer::last_written(&dir).ok()?
    }
}

/// What nobody approved: the host may ask its own person, unless policies demand others.
fn unanswered(pending: Pending, help: Option<&str>) -> Decision {
    let pending = match help {
        Some(help) => pending.with_help(help),
        None => pending,
    };
    if pending.demand().is_some() {
        Decision::Deny(pending.refuse(None))
    } else {
        Decision::Ask(pending)
    }
}

fn hint(id: &Id, approvers: &Approvers, pending: &Pending) -> String {
    let people = approvers.people(pending.demand());
    let groups = pending.demand().map(|demand| demand.groups.join("` and `"));
    let of = match groups.as_deref() {
        None | Some("") => String::new(),
        Some(groups) => format!(" of `{groups}`"),
    };
    let who = match (people, of.as_str()) {
        (1, "") => "a person can approve it".to_owned(),
        (1, of) => format!("a person{of} can approve it"),
        (people, "") => format!("{people} people can approve it"),
        (people, of) => format!("{people} people, some{of}, can approve it"),
    };
    format!("{who}: `copilot-bridge approvals approve {id}`")
}

fn denial(denied: &Denied, question: &Question) -> Reason {
    let plain = |text: &str| text.replace(char::is_control, " ");
    let note = match plain(&denied.note) {
        note if note.trim().is_empty() => String::new(),
        note => format!(": \"{}\"", note.replace('"', "'")),
    };
    Reason {
        id: DENIED.to_owned(),
        file: String::new(),
        line: 0,
        text: format!("`{}` denied this call{note}", plain(&denied.by)),
        fact: question.shown.requests.first().cloned().unwrap_or_default(),
        help: "do something else, or ask that person".to_owned(),
    }
}

/// The question about a call; nothing if a person could not be shown all of it.
///
/// The hash is of the call as it came, with its session, its folder and every fact that was judged.
fn question(
    key: &Key,
    event: &Event,
    questions: &Questions<'_>,
    trace: &Trace,
    bundle: &Bundle,
    pending: &Pending,
) -> Option<Question> {
    let call = event.call()?;
    let requests: Vec<_> = trace.verdicts.iter().map(|(request, _)| request).collect();
    let exact = json!([
        event.name.snake(),
        event.agent.session,
        questions.cwd,
        call.name,
        call.args,
        requests
    ]);
    let asking = trace.verdicts.iter().filter(|(_, judged)| {
        judged
            .as_ref()
            .is_ok_and(|judged| judged.effect == Effect::Ask)
    });
    let demand = pending.demand();
    let shown = Shown {
        session: event.agent.session.clone(),
        cwd: questions.cwd.clone(),
        tool: questions.tool.clone(),
        entity: questions.entity.clone(),
        requests: asking
            .map(|(request, _)| describe(&spoken(request, Some(questions))))
            .collect(),
        arguments: serde_json::to_string_pretty(questions.found.args.as_ref()?).ok()?,
        args_hmac: key.hmac(call.args.to_string().as_bytes()),
        reasons: pending
            .reasons()
            .iter()
            .map(|reason| Why {
                policy: reason.id.clone(),
                text: questions.cleaner.record(&reason.text).unwrap_or_default(),
                help: questions.cleaner.record(&reason.help).unwrap_or_default(),
            })
            .collect(),
        policy_digest: bundle.digest.clone(),
        people: bundle.settings.approvers.people(demand),
        groups: demand
            .map(|demand| demand.groups.clone())
            .unwrap_or_default(),
    };
    shown.fits().then(|| Question {
        call: CallHash::of(key, exact.to_string().as_bytes()),
        shown,
    })
}
