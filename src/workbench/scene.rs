//! Where made-up calls are judged: a workspace and a home that are gone afterwards, behind the gate
//! that hooks pass.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::props::Prop;
use crate::engine::bundle::Bundle;
use crate::engine::request::{Agent, Request};
use crate::facts::chain::Lineage;
use crate::gate::event::{Body, Capabilities, Event, EventName, ToolCall};
use crate::gate::place::Installation;
use crate::gate::{Gate, Passage, Sink};

/// A gate over one bundle, and folders for an agent to work in.
#[derive(Debug)]
pub struct Scene {
    gate: Gate,
    here: Installation,
    workspace: PathBuf,
    home: PathBuf,
    at: PathBuf,
    // Last, so that the folders outlive what looks into them.
    _root: tempfile::TempDir,
}

impl Scene {
    /// A scene with an empty workspace and an empty home. Nothing that happens in it is recorded.
    ///
    /// # Errors
    /// If the folders cannot be made.
    pub fn new(bundle: Bundle) -> io::Result<Self> {
        Self::built(|_| bundle)
    }

    /// The same, under a bundle that depends on where the scene is. No variable of the environment
    /// says anything here.
    ///
    /// # Errors
    /// If the folders cannot be made.
    pub fn built(bundle: impl FnOnce(&Path) -> Bundle) -> io::Result<Self> {
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
        let gate = Gate::new(Ok(bundle(&at)), here.clone(), Sink::Null);
        Ok(Self {
            gate: gate.without_environment(),
            here,
            workspace,
            home,
            at,
            _root: root,
        })
    }

    /// The folder that workspace and home are in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.at
    }

    /// What a text means that begins with `${workspace}`, `${policies}`, `${state}` or `${temp}`, the
    /// words of containment.toml for places; any other text means itself.
    #[must_use]
    pub fn place(&self, text: &str, workspace: &Path) -> String {
        let places = [
            ("${workspace}", workspace.to_path_buf()),
            ("${policies}", self.at.join("policies")),
            ("${state}", self.here.state.clone()),
            ("${temp}", format!("/tmp/agent-{}", self.here.uid).into()),
        ];
        for (word, place) in places {
            if let Some(rest) = text.strip_prefix(word)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                return format!("{}{rest}", place.display());
            }
        }
        text.to_owned()
    }

    /// Clears a workspace and the home, and puts these things there instead. The workspace is that of
    /// a repository, so that it is one wherever in it an agent works.
    ///
    /// # Errors
    /// If something cannot be put there: its index among the props, and why.
    pub fn furnish(&self, workspace: &Path, props: &[Prop]) -> Result<(), (usize, io::Error)> {
        let clear = || -> io::Result<()> {
            for dir in [workspace, &self.home] {
                if dir.symlink_metadata().is_ok() {
                    fs::remove_dir_all(dir)?;
                }
                fs::create_dir_all(dir)?;
            }
            fs::create_dir(workspace.join(".git"))
        };
        clear().map_err(|error| (0, error))?;
        for (index, prop) in props.iter().enumerate() {
            prop.put(&self.at, workspace, &self.home)
                .map_err(|error| (index, error))?;
        }
        Ok(())
    }

    /// The id of an agent above which so many others stand.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn agent_at(&self, depth: u32) -> io::Result<Option<String>> {
        let lineage = Lineage::new(&self.here.state);
        let mut above: Option<String> = None;
        for level in 1..=depth {
            let agent = format!("agent-{level}");
            if lineage.depth(Some(&agent), None) == 0 {
                lineage.record(&agent, above.as_deref())?;
            }
            above = Some(agent);
        }
        Ok(above)
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
            served: None,
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

    /// What becomes of a request that no event has to be.
    pub fn suppose(&self, request: Request) -> Passage {
        self.gate.suppose(&[request])
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
