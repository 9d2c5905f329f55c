//! What later calls need to know of this one: where its session began, and what it may write.

use std::io;
use std::path::Path;

use super::event::{Body, Event, EventName, UNKNOWN_SESSION};
use super::requests::Questions;
use super::{Gate, Sink};
use crate::engine::action::Action;
use crate::engine::decision::Decision;
use crate::engine::request::{Request, Resource};
use crate::facts::pins::Pins;
use crate::facts::scripts::Scripts;

impl Gate {
    /// Remembers the workspace that a session starts in: it stays the session's, wherever the agent
    /// goes.
    pub(super) fn keep_root(
        &self,
        event: &Event,
        questions: Option<&Questions<'_>>,
    ) -> io::Result<()> {
        let (Body::Start { .. }, Sink::State) = (&event.body, self.sink) else {
            return Ok(());
        };
        let session = event.agent.session.as_str();
        match questions.and_then(|questions| questions.root.as_deref()) {
            Some(root) if session != UNKNOWN_SESSION => {
                Pins::new(&self.here.state).keep(session, root)
            }
            _ => Ok(()),
        }
    }

    /// Remembers the files that this call may write: running one is then running an agent's own
    /// code. Before the answer, because parallel calls are judged before either runs.
    pub(super) fn keep_written(
        &self,
        event: &Event,
        decision: &Decision,
        questions: Option<&Questions<'_>>,
    ) -> io::Result<()> {
        let (Some(questions), EventName::PreToolUse, Sink::State) =
            (questions, event.name, &self.sink)
        else {
            return Ok(());
        };
        let Some(root) = questions.root.as_deref() else {
            return Ok(());
        };
        if matches!(decision, Decision::Deny(_)) {
            return Ok(());
        }
        let (mut written, mut taken) = (Vec::new(), Vec::new());
        for request in &questions.requests {
            let Resource::Path(path) = &request.resource else {
                continue;
            };
            let writes = request.action == Action::Write && request.context.operation != "delete";
            let list = if writes { &mut written } else { &mut taken };
            if path.inside {
                list.push(Path::new(&path.resolved));
            }
        }
        let scripts = Scripts::new(&self.here.state, root);
        // Where a folder goes, what an agent wrote in it goes along.
        let is_shell = |request: &Request| request.action == Action::Shell;
        let moves = !written.is_empty() && questions.requests.iter().any(is_shell);
        if moves
            && taken
                .iter()
                .any(|dir| dir.is_dir() && scripts.holds_below(dir))
        {
            scripts.note_below(written.iter().copied())?;
        }
        scripts.note(written)
    }
}
