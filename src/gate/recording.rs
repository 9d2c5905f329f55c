//! From a judgement to its line in the record.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::approving::Consultation;
use super::cleaning::ARGUMENTS;
use super::event::{Body, Event, EventName};
use super::outcome::Advice;
use super::place::Installation;
use super::requests::Questions;
use super::{Trace, Unread};
use crate::audit::asked;
use crate::audit::key::Key;
use crate::audit::mirror;
use crate::audit::record::v1::{Entry, Kind};
use crate::audit::writer::{self, Log};
use crate::config::AuditDirectory;
use crate::engine::bundle::{Bundle, Mirror};
use crate::engine::decision::{Decision, Effect};
use crate::engine::exception::Used;
use crate::engine::redaction::Hit;
use crate::engine::request::{Request, Resource};

/// A line names no more monitored policies, nor exceptions.
const MOST: usize = 8;

/// Everything that is known when the line is written.
pub(super) struct Told<'a> {
    pub(super) event: Option<&'a Event>,
    pub(super) unread: Option<&'a Unread>,
    pub(super) decision: &'a Decision,
    pub(super) questions: Option<&'a Questions<'a>>,
    pub(super) trace: Option<&'a Trace>,
    pub(super) advice: &'a Advice,
    /// The bundle of policies whose time is over, where a session starts under one.
    pub(super) expired: Option<String>,
    pub(super) consultation: &'a Consultation,
    pub(super) elapsed: Duration,
}

/// A record, and who writes to it.
pub(super) struct Desk<'a> {
    pub(super) state: &'a Path,
    /// Where the environment says that it is.
    pub(super) other: AuditDirectory,
    /// The installation's key, if it is known already.
    pub(super) key: Option<Key>,
    /// How long one waits for others who write.
    pub(super) patience: Option<Duration>,
}

/// Writes the line.
///
/// # Errors
/// In words, if it is not in the record whole.
pub(super) fn append(
    desk: Desk<'_>,
    bundle: Option<&Bundle>,
    told: &Told<'_>,
    sync: bool,
) -> Result<(), String> {
    let settings = bundle.map(|bundle| &bundle.settings.audit);
    let settings = settings.cloned().unwrap_or_default();
    let dir = match desk.other {
        AuditDirectory::Honoured(dir) => Some(dir),
        AuditDirectory::Unset | AuditDirectory::Ignored(_) => None,
    };
    let entry = entry(told, bundle);
    desk.key
        .map_or_else(|| Key::of(desk.state), Ok)
        .and_then(|key| Log::open_with(key, desk.state, dir, settings))
        .map(|log| match desk.patience {
            Some(patience) => log.patient_for(patience),
            None => log,
        })
        .and_then(|log| log.append(&entry, sync))
        .map(|_| ())
        .map_err(|error| error.0)
}

/// Writes what is in the record now into the logs of older programs. `failed` is told what cannot be
/// written, which changes nothing.
pub(super) fn mirror(
    here: &Installation,
    record: &Path,
    bundle: &Bundle,
    told: &Told<'_>,
    failed: impl Fn(&Mirror, &str),
) {
    let mirrors = &bundle.settings.audit.mirrors;
    let key = match Key::of(&here.state) {
        Ok(key) => key,
        Err(error) => return mirrors.iter().for_each(|one| failed(one, &error.0)),
    };
    let said = match told.event.map(|event| &event.body) {
        Some(Body::Prompt { text }) => Some(text.as_str()),
        Some(Body::Error { message, .. }) => Some(message.as_str()),
        _ => None,
    };
    let advice = told.advice;
    let texts = mirror::Texts {
        said,
        replacement: advice.replacement.as_deref(),
        context: advice.context.as_deref(),
        notification: advice
            .error
            .as_ref()
            .and_then(|error| error.notification.as_deref()),
    };
    let source = mirror::Source::of(&entry(told, Some(bundle)), texts, key);
    let places = mirror::Places {
        state: &here.state,
        home: here.home.as_deref(),
        record,
    };
    for one in mirrors {
        if let Err(error) = source.write(one, places) {
            failed(one, &error.0);
        }
    }
}

/// Leaves a note that a denial went out before the line was written.
pub(super) fn note_late(state: &Path, event: EventName, elapsed: Duration) {
    // There is nobody left to tell that the note cannot be written either.
    let _ = writer::note_late(state, event.snake(), microseconds(elapsed));
}

/// Keeps that the host is asking for this very call.
pub(super) fn remember_asked(state: &Path, event: &Event, trace: Option<&Trace>) {
    let Ok(key) = Key::of(state) else {
        return;
    };
    for question in asking(event, trace, &key) {
        // A question that cannot be kept is denied when the host asks again: the safe side.
        let _ = asked::remember(state, &question);
    }
}

/// Whether the host is asking for this very call already.
pub(super) fn was_asked(state: &Path, event: &Event, trace: Option<&Trace>) -> bool {
    let Ok(key) = Key::of(state) else {
        return false;
    };
    let questions = asking(event, trace, &key);
    !questions.is_empty()
        && questions
            .iter()
            .all(|question| asked::was_asked(state, question))
}

/// The HMAC of each request that asks. A session's later question about the same thing has the
/// same: a host names the tool differently there, but not the file, nor the command line.
fn asking(event: &Event, trace: Option<&Trace>, key: &Key) -> Vec<String> {
    let who = event.agent_id.as_ref().unwrap_or(&event.agent.session);
    trace
        .iter()
        .flat_map(|trace| &trace.verdicts)
        .filter(|(_, judged)| {
            judged
                .as_ref()
                .is_ok_and(|judged| judged.effect == Effect::Ask)
        })
        .map(|(request, _)| {
            let args = match &request.resource {
                Resource::Tool(_) => event.call().map(|call| call.args.to_string()),
                _ => None,
            };
            let question = json!([
                who,
                request.action,
                request.resource.kind().name(),
                request.resource.id(),
                args
            ]);
            key.hmac(question.to_string().as_bytes())
        })
        .collect()
}

fn entry<'a>(told: &'a Told<'a>, bundle: Option<&'a Bundle>) -> Entry<'a> {
    let event = told.event;
    let name = event
        .map(|event| event.name)
        .or(told.unread.map(|unread| unread.event));
    let agent = told.questions.map(|questions| &questions.agent);
    Entry {
        kind: kind(event),
        event: name.map_or("unknown", EventName::snake),
        dialect: event
            .map(|event| event.dialect)
            .or(told.unread.map(|unread| unread.dialect))
            .unwrap_or_default(),
        session: event.map(|event| event.agent.session.as_str()),
        call: event.and_then(|event| event.call.as_deref()),
        agent: event.and_then(|event| event.agent_id.as_deref()),
        parent: event.and_then(|event| event.agent.parent.as_deref()),
        depth: agent.map_or(0, |agent| agent.depth),
        cwd: told
            .questions
            .map(|questions| questions.cwd.as_str())
            .or(event.and_then(|event| event.cwd.as_deref())),
        entity: told
            .questions
            .map(|questions| questions.entity.as_str())
            .filter(|entity| !entity.is_empty()),
        tool: told
            .questions
            .map(|questions| questions.tool.as_str())
            .filter(|tool| !tool.is_empty())
            .or(event.and_then(|event| event.call().map(|call| call.name.as_str()))),
        args: event.and_then(|event| event.call().map(|call| &call.args)),
        args_redacted: told
            .questions
            .and_then(|questions| questions.found.args.as_ref()),
        data_keys: bundle
            .map(|bundle| bundle.settings.containment.data_keys.as_slice())
            .unwrap_or_default(),
        requests: told
            .trace
            .iter()
            .flat_map(|trace| trace.verdicts.iter())
            .map(|(request, _)| spoken(request, told.questions))
            .collect(),
        redactions: told
            .questions
            .map(|questions| taken_out(questions, told))
            .unwrap_or_default(),
        decision: told.decision.effect(),
        reasons: told.decision.reasons(),
        would_decide: match told.trace {
            // What people approved, no mode let through.
            Some(trace) if !told.consultation.is_approved() => trace.would_decide,
            _ => told.decision.effect(),
        },
        obligations: match told.decision {
            Decision::Allow(permit) => permit.obligations().to_vec(),
            Decision::Ask(pending) => pending.obligations().to_vec(),
            Decision::Deny(_) => Vec::new(),
        },
        policy_digest: bundle.map(|bundle| bundle.digest.as_str()),
        latency_us: microseconds(told.elapsed),
        prompt: event.and_then(|event| match &event.body {
            Body::Prompt { text } => Some(text.as_str()),
            _ => None,
        }),
        error_class: match told.decision {
            Decision::Deny(denial) => denial.fault(),
            _ => None,
        },
        trace: event
            .and_then(|event| event.served.as_ref())
            .and_then(|served| served.trace.as_ref()),
        detail: detail(told, bundle),
    }
}

/// A request as the record may hold it: what the rules find in its texts is gone.
pub(super) fn spoken<'a>(
    request: &'a Request,
    questions: Option<&Questions<'_>>,
) -> Cow<'a, Request> {
    let Some(questions) = questions else {
        return Cow::Borrowed(request);
    };
    let clean = |text: &str| questions.cleaner.record(text).unwrap_or_default();
    let mut resource = request.resource.clone();
    match &mut resource {
        Resource::Command(command) => {
            command.text = clean(&command.text);
            command.program = clean(&command.program);
        }
        Resource::Url(url) => url.given = clean(&url.given),
        Resource::Path(path) if !questions.found.hits.is_empty() => {
            path.given = clean(&path.given);
            path.resolved = clean(&path.resolved);
            path.fault = clean(&path.fault);
        }
        Resource::Path(_) | Resource::Tool(_) | Resource::Text(_) => {
            return Cow::Borrowed(request);
        }
    }
    Cow::Owned(Request {
        resource,
        ..request.clone()
    })
}

/// What is not in the record or did not go on: of the arguments always, of a text if it was
/// replaced or withheld.
fn taken_out<'a>(questions: &'a Questions<'_>, told: &Told<'_>) -> Vec<&'a Hit> {
    let replaced = told.advice.replacement.is_some() || told.advice.content.is_some();
    let withheld = replaced || told.decision.effect() == Effect::Deny;
    let hits = questions.found.hits.iter();
    hits.filter(|hit| withheld || hit.pointer.starts_with(ARGUMENTS))
        .collect()
}

const fn kind(event: Option<&Event>) -> Kind {
    let Some(event) = event else {
        return Kind::Fault;
    };
    if event.served.is_some() {
        return Kind::McpToolCall;
    }
    match event.name {
        EventName::PreToolUse => Kind::ToolUse,
        EventName::PermissionRequest => Kind::Permission,
        EventName::PreMcpToolCall => Kind::McpCall,
        EventName::PostToolUse | EventName::PostToolUseFailure => Kind::Result,
        EventName::UserPromptSubmitted | EventName::UserPromptTransformed => Kind::Prompt,
        EventName::ErrorOccurred => Kind::Error,
        EventName::Notification => Kind::Notification,
        EventName::SessionStart
        | EventName::SessionEnd
        | EventName::AgentStop
        | EventName::SubagentStart
        | EventName::SubagentStop
        | EventName::PreCompact => Kind::Session,
    }
}

/// What a line says besides, by kind. Texts of people, tools and models are counted, not kept.
fn detail(told: &Told<'_>, bundle: Option<&Bundle>) -> Value {
    // A denial that the host cannot act on: the record says so.
    let unheard = told.event.is_some_and(|event| !event.name.can_block())
        && told.decision.effect() != Effect::Allow;
    let mut detail = match told.event.map(|event| &event.body) {
        None => json!({"error": told.decision.reasons().first().map(|reason| &reason.text)}),
        Some(Body::Call(_)) => json!({}),
        Some(Body::Result { text, failed, .. }) => {
            json!({"result_bytes": text.len(), "failed": failed})
        }
        Some(Body::Content {
            content, failed, ..
        }) => {
            json!({"result_bytes": content.to_string().len(), "failed": failed})
        }
        Some(Body::Prompt { .. }) => {
            json!({"context_bytes": told.advice.context.as_ref().map(String::len)})
        }
        Some(Body::Start { source }) => {
            json!({"source": source, "context_bytes": told.advice.context.as_ref().map(String::len)})
        }
        Some(Body::End { .. }) => json!({"summary": told.advice.summary}),
        Some(Body::Error {
            message,
            recoverable,
            context,
        }) => json!({
            "message_bytes": message.len(),
            "recoverable": recoverable,
            "context": context,
            "class": told.advice.error.as_ref().map(|error| &error.class),
            "handling": told.advice.error.as_ref().map(|error| error.handling.name()),
            "retries": told.advice.error.as_ref().and_then(|error| error.retries),
        }),
        Some(Body::Subagent { id, parent }) => json!({"agent": id, "parent": parent}),
        Some(Body::Notice { text }) => json!({"notice": text}),
    };
    let served = told.event.and_then(|event| event.served.as_ref());
    if let (Some(fields), Some(served)) = (detail.as_object_mut(), served) {
        let took = served.took.map(milliseconds);
        fields.extend([
            ("entity_context".to_owned(), json!(served.entity)),
            ("provider_used".to_owned(), json!(served.provider)),
            (
                "governance_result".to_owned(),
                json!(told.decision.effect()),
            ),
            ("execution_time_ms".to_owned(), json!(took)),
        ]);
        if !served.pin.is_empty() {
            fields.insert("description_pin".to_owned(), json!(served.pin));
        }
    }
    if let (Some(fields), Some(class)) = (detail.as_object_mut(), fault_text(told)) {
        fields.insert("fault".to_owned(), class);
    }
    if let (Some(fields), Some(expired)) = (detail.as_object_mut(), &told.expired) {
        fields.insert("expired_bundle".to_owned(), expired.as_str().into());
    }
    if unheard && let Some(fields) = detail.as_object_mut() {
        fields.insert("host_cannot_block".to_owned(), Value::Bool(true));
    }
    if let (Some(fields), Some(trace)) = (detail.as_object_mut(), told.trace) {
        if !trace.monitored.is_empty() {
            let monitored = trace.monitored.iter().take(MOST);
            let monitored = monitored
                .map(|one| json!({"id": one.id, "file": one.file, "line": one.line}))
                .collect();
            fields.insert("monitored".to_owned(), monitored);
        }
        if let (false, Some(bundle)) = (trace.exceptions.is_empty(), bundle) {
            let used = trace.exceptions.iter().take(MOST);
            let used = used.filter_map(|used| exception(bundle, used)).collect();
            fields.insert("exceptions".to_owned(), used);
        }
    }
    if let Some(fields) = detail.as_object_mut() {
        told.consultation.tell(fields);
    }
    detail
}

/// An exception that was used: who answers for it and until when, and what it left out.
fn exception(bundle: &Bundle, used: &Used) -> Option<Value> {
    let exception = bundle.settings.exceptions.get(used.exception)?;
    let policies = used.policies.iter().take(MOST);
    let policies: Vec<&str> = policies
        .filter_map(|index| Some(bundle.policies.get(*index)?.id.as_str()))
        .collect();
    Some(json!({
        "id": exception.id,
        "owner": exception.owner,
        "expires": Timestamp::from_second(exception.expires).ok()?.to_string(),
        "policies": policies,
    }))
}

fn fault_text(told: &Told<'_>) -> Option<Value> {
    match told.decision {
        Decision::Deny(denial) if denial.fault().is_some() && told.event.is_some() => denial
            .reasons()
            .first()
            .map(|reason| Value::String(reason.text.clone())),
        _ => None,
    }
}

/// With three places behind the point.
fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

fn microseconds(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}
