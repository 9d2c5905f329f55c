//! Where made-up calls are judged: a workspace and a home that are gone afterwards, behind the gate
//! that hooks pass.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::bundle::Bundle;
use crate::engine::request::Agent;
use crate::gate::event::{Body, Capabilities, Event, EventName, ToolCall};
use crate::gate::place::Installation;
use crate::gate::{Gate, Passage, Sink};

/// A gate over one bundle, and folders for an agent to work in.
#[derive(Debug)]
pub struct Scene {
    gate: Gate,
    workspace: PathBuf,
    home: PathBuf,
    // Last, so that the folders outlive what looks into them.
    _root: tempfile::TempDir,
}

impl Scene {
    /// A scene with an empty workspace and an empty home. Nothing that happens in it is recorded.
    ///
    /// # Errors
    /// If the folders cannot be made.
    pub fn new(bundle: Bundle) -> io::Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("copilot-bridge-scene-")
            .tempdir()?;
        let at = root.path().canonicalize()?;
        let [workspace, home, policies, state] =
            ["workspace", "home", "policies", "state"].map(|name| at.join(name));
        for dir in [&workspace, &home, &policies, &state] {
            fs::create_dir(dir)?;
        }
        let here = Installation {
            home: Some(home.clone()),
            policies: vec![policies],
            state,
            ..Installation::default()
        };
        Ok(Self {
            gate: Gate::new(Ok(bundle), here, Sink::Null),
            workspace,
            home,
            _root: root,
        })
    }

    /// The folder that agents work in.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The home of the user whom agents work for.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Any event of an agent that works in the workspace.
    #[must_use]
    pub fn event(&self, name: EventName, body: Body) -> Event {
        Event {
            name,
            dialect: "copilot",
            call: None,
            agent: Agent {
                host: "copilot".to_owned(),
                session: "scene".to_owned(),
                ..Agent::default()
            },
            agent_id: None,
            cwd: Some(self.workspace.to_string_lossy().into_owned()),
            host: Capabilities {
                interactive: "unknown",
                replaces_results: true,
                replaces_prompts: true,
            },
            body,
        }
    }

    /// A tool is about to be called.
    #[must_use]
    pub fn call(&self, tool: &str, args: Value) -> Event {
        let name = tool.to_owned();
        self.event(EventName::PreToolUse, Body::Call(ToolCall { name, args }))
    }

    /// A command line is about to be run.
    #[must_use]
    pub fn command(&self, line: &str) -> Event {
        self.call("bash", json!({"command": line}))
    }

    /// What becomes of an event.
    pub fn judge(&self, event: &Event) -> Passage {
        self.gate.walk(event, Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::decision::Effect;
    use crate::policy::{layer, load_sources};

    #[test]
    fn the_default_policies_judge_as_in_a_hook() {
        let scene = Scene::new(load_sources(&[layer::embedded()]).unwrap()).unwrap();
        fs::write(scene.workspace().join("a.txt"), "a").unwrap();
        let effect = |event: &Event| scene.judge(event).outcome.effect();
        assert_eq!(
            effect(&scene.call("view", json!({"path": "a.txt"}))),
            Effect::Allow
        );
        assert_eq!(effect(&scene.command("git push")), Effect::Ask);
        assert_eq!(effect(&scene.command("cat ~/.ssh/id_rsa")), Effect::Deny);
    }
}
