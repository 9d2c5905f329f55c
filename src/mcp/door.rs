//! A call's way through the gate, twice: before it happens, and with what came of it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::blocked::Blocked;
use super::chain::{Chain, fresh};
use super::stdio::WORKERS;
use crate::engine::bundle::Limits;
use crate::engine::decision::{Effect, FaultClass, Obligation};
use crate::engine::on_known_stack;
use crate::engine::request::Agent;
use crate::gate::Gate;
use crate::gate::event::{Body, Capabilities, Event, EventName, Served, ToolCall, UNKNOWN_SESSION};
use crate::gate::outcome::{Cleared, Outcome, Refusal};
use crate::http::metrics::Metrics;

/// The dialect of events that come over MCP.
const DIALECT: &str = "mcp";

/// What stands behind the result of a tool that makes drafts.
const DRAFT: &str =
    "This is a draft. Nothing was sent or applied: a person reads it and does that.";

/// The key in `_meta` of such a result.
const DRAFT_KEY: &str = "dev.copilot-bridge/draft";

/// Nobody sees what a tool answers before we do, but nobody can be asked here.
const CAPABILITIES: Capabilities = Capabilities {
    interactive: "no",
    replaces_results: true,
    replaces_prompts: false,
};

/// So many are judged at once on the threads of [`super::stdio::runtime`]: one is always left.
static SEATS: Semaphore = Semaphore::const_new(WORKERS - 1);

/// Whoever knows the policies that are in force at the moment: they change while a server runs.
pub trait Gates: fmt::Debug + Send + Sync {
    /// The gate for a call that came just now. It may look at files.
    fn current(&self) -> Arc<Gate>;
}

/// The way through the gate.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) gates: Arc<dyn Gates>,
    /// The folder that callers work in.
    pub(super) workspace: String,
    /// The session of callers that have none of their own.
    pub(super) session: String,
    /// Where calls are counted.
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// Who calls, and on whose behalf.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    session: String,
    client: Option<String>,
    call: String,
    depth: u32,
    began: Instant,
}

/// A call that may happen.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) cleared: Cleared,
    draft: bool,
}

impl Door {
    /// The caller of a request.
    pub(super) fn caller(&self, context: &RequestContext<RoleServer>, chain: &Chain) -> Caller {
        let session = super::headers(context)
            .and_then(|headers| headers.get("mcp-session-id")?.to_str().ok())
            .map_or_else(
                || match (&chain.trace, self.session.as_str()) {
                    (Some(_), UNKNOWN_SESSION) => chain.id.clone(),
                    (_, session) => session.to_owned(),
                },
                str::to_owned,
            );
        Caller {
            session,
            client: context.client_info().map(|client| client.name),
            call: fresh(),
            depth: chain.depth,
            began: Instant::now(),
        }
    }

    /// Judges a call that is about to happen.
    pub(super) async fn admit(
        &self,
        caller: &Caller,
        served: &Served,
        arguments: &JsonObject,
    ) -> Result<Admitted, Blocked> {
        let call = ToolCall {
            name: served.tool.name.clone(),
            args: Value::Object(arguments.clone()),
        };
        let event = self.event(
            caller,
            EventName::PreToolUse,
            served.clone(),
            Body::Call(call),
        );
        let action = served.tool.qualified();
        let (outcome, limit) = self.judge(event, caller.began).await;
        if let Some(metrics) = &self.metrics {
            metrics.judged(match &outcome {
                Outcome::Pass(_) => Effect::Allow,
                Outcome::Ask(_) => Effect::Ask,
                Outcome::Deny(_) => Effect::Deny,
            });
        }
        let blocked = match outcome {
            Outcome::Pass(cleared) => {
                let draft = cleared.obligations().contains(&Obligation::MarkDraft);
                return Ok(Admitted { cleared, draft });
            }
            Outcome::Ask(pending) => Blocked::waiting(&action, pending.reasons()),
            Outcome::Deny(refusal) => Blocked::new(&action, refusal.reasons()),
        };
        Err(if caller.depth >= limit {
            blocked.too_deep(caller.depth, limit)
        } else {
            blocked
        })
    }

    /// Judges what came of a call, and takes out of it what must not go on.
    pub(super) async fn release(
        &self,
        caller: &Caller,
        admitted: &Admitted,
        served: &Served,
        took: Duration,
        result: CallToolResult,
    ) -> CallToolResult {
        if let Some(metrics) = &self.metrics {
            metrics.executed(took);
        }
        let action = served.tool.qualified();
        let (content, kept) = texts(&result);
        let served = Served {
            took: Some(took),
            ..served.clone()
        };
        let call = ToolCall {
            name: served.tool.name.clone(),
            // The line of the call has them.
            args: Value::Null,
        };
        let body = Body::Content {
            call,
            content,
            failed: result.is_error == Some(true),
        };
        let event = self.event(caller, EventName::PostToolUse, served, body);
        let mut result = match self.judge(event, Instant::now()).await.0 {
            Outcome::Pass(cleared) => match &cleared.advice().content {
                None => result,
                Some(content) => match kept.restore(content.clone()) {
                    Some(clean) => clean,
                    None => return withheld(&action),
                },
            },
            Outcome::Ask(pending) => return Blocked::waiting(&action, pending.reasons()).result(),
            Outcome::Deny(refusal) => return Blocked::new(&action, refusal.reasons()).result(),
        };
        if admitted.draft && result.is_error != Some(true) {
            result.content.push(ContentBlock::text(DRAFT));
            let meta = result.meta.get_or_insert_default();
            meta.insert(DRAFT_KEY.to_owned(), Value::Bool(true));
        }
        result
    }

    fn event(&self, caller: &Caller, name: EventName, served: Served, body: Body) -> Event {
        Event {
            name,
            dialect: DIALECT,
            call: Some(caller.call.clone()),
            agent: Agent {
                host: DIALECT.to_owned(),
                session: caller.session.clone(),
                depth: caller.depth,
                parent: None,
                kind: caller.client.clone(),
            },
            agent_id: None,
            cwd: Some(self.workspace.clone()),
            host: CAPABILITIES,
            body,
            served: Some(served),
        }
    }

    /// The gate's answer, and the limit of the depth; a denial where there is none in time.
    async fn judge(&self, event: Event, began: Instant) -> (Outcome, u32) {
        let entered = Instant::now();
        let judged = self.judged(event, began).await;
        if let Some(metrics) = &self.metrics {
            metrics.passed(entered.elapsed());
        }
        judged
    }

    /// Here and now, which takes a fraction of a millisecond: waking another thread for it, and being
    /// woken by it, would take as long again. Where too many do so already, files may be slow to come,
    /// and the threads that serve everybody are not to wait for them.
    async fn judged(&self, event: Event, began: Instant) -> (Outcome, u32) {
        match SEATS.try_acquire() {
            Ok(_seat) => {
                let judge = || {
                    let gate = self.gates.current();
                    let outcome = on_known_stack(|| gate.pass(&event, began.elapsed()));
                    (outcome, gate.limits().depth)
                };
                catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|_| failed())
            }
            Err(_) => self.judged_elsewhere(event, began).await,
        }
    }

    async fn judged_elsewhere(&self, event: Event, began: Instant) -> (Outcome, u32) {
        let gates = Arc::clone(&self.gates);
        let name = event.name;
        let (found, gate) = tokio::sync::oneshot::channel();
        let work = tokio::task::spawn_blocking(move || {
            // Files are looked at there as well.
            let gate = gates.current();
            let limits = gate.limits();
            // Whoever waits for it went away.
            let _ = found.send((Arc::clone(&gate), limits));
            on_known_stack(|| gate.pass(&event, began.elapsed()))
        });
        // The deadline is that of the policies, which may have to be read first.
        let Ok((gate, limits)) = gate.await else {
            return failed();
        };
        let Limits {
            deadline_ms, depth, ..
        } = limits;
        let deadline = Duration::from_millis(u64::from(deadline_ms));
        match tokio::time::timeout(deadline, work).await {
            Ok(Ok(outcome)) => (outcome, depth),
            Ok(Err(_)) => failed(),
            Err(_) => {
                gate.note_superseded(name, began.elapsed());
                fault(FaultClass::Deadline, "no decision within the deadline")
            }
        }
    }
}

fn failed() -> (Outcome, u32) {
    fault(FaultClass::InternalError, "the gate failed")
}

/// A denial, however deep the chain is.
fn fault(class: FaultClass, text: &str) -> (Outcome, u32) {
    let help = "a person runs `copilot-bridge doctor`";
    (Outcome::Deny(Refusal::fault(class, text, help)), u32::MAX)
}

/// What was kept out of the redaction: pictures and sounds are no text.
struct Kept(Vec<(usize, &'static str, Value)>);

/// All of a result that is text, and what is not.
fn texts(result: &CallToolResult) -> (Value, Kept) {
    let mut content = serde_json::to_value(result).unwrap_or_else(|_| json!({}));
    let mut kept = Vec::new();
    let blocks = content.get_mut("content").and_then(Value::as_array_mut);
    for (place, block) in blocks.into_iter().flatten().enumerate() {
        for pointer in ["/data", "/resource/blob"] {
            if let Some(data) = block.pointer_mut(pointer) {
                kept.push((place, pointer, std::mem::take(data)));
            }
        }
    }
    (content, Kept(kept))
}

impl Kept {
    /// The result with what was kept out.
    fn restore(self, mut content: Value) -> Option<CallToolResult> {
        for (place, pointer, data) in self.0 {
            let block = content.get_mut("content")?.get_mut(place)?;
            *block.pointer_mut(pointer)? = data;
        }
        serde_json::from_value(content).ok()
    }
}

fn withheld(action: &str) -> CallToolResult {
    let refusal = Refusal::fault(
        FaultClass::ObligationError,
        "what must not go on cannot be taken out of this result",
        "a person looks at it, outside the agent",
    );
    Blocked::new(action, refusal.reasons()).result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_no_text() {
        let blocks = vec![
            ContentBlock::image("aGVsbG8=", "image/png"),
            ContentBlock::text("hello"),
        ];
        let result = CallToolResult::success(blocks);
        let (content, kept) = texts(&result);
        assert!(!content.to_string().contains("aGVsbG8="), "{content}");
        assert!(content.to_string().contains("hello"), "{content}");
        assert_eq!(kept.restore(content).unwrap(), result);
    }
}
