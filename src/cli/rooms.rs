//! What setup needs of the rooms below it, connected.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::audit::checkpoint::Signer;
use crate::audit::key::{self, Key};
use crate::config::{AuditDirectory, audit_directory};
use crate::engine::approver::Unverified;
use crate::engine::bundle::{Bundle, Limits, OnFailure};
use crate::engine::redaction::About;
use crate::policy::compile::Readers;
use crate::policy::settings::redaction::NAMES;
use crate::policy::{self, Locations, Problem};
use crate::setup::{Coverage, Inspection, KeyState, Rooms};
use crate::workbench::{schema, suite};

/// The rooms of this program.
#[derive(Debug, Default)]
pub(crate) struct Connected {
    defaults: OnceLock<Vec<(&'static str, &'static str)>>,
}

impl Rooms for Connected {
    fn defaults(&self) -> &[(&str, &str)] {
        self.defaults.get_or_init(|| {
            let tests = suite::embedded::EMBEDDED;
            [policy::source::EMBEDDED, tests, schema::FILES].concat()
        })
    }

    fn create_key(&self, state: &Path) -> Result<KeyState, String> {
        let before = key::path(state).symlink_metadata().is_ok();
        Key::of(state).map_err(|error| error.0)?;
        Signer::of(state).map_err(|error| error.0)?;
        #[cfg(all(unix, feature = "serve"))]
        crate::http::token::create(state).map_err(|error| error.0)?;
        Ok(if before {
            KeyState::Kept
        } else {
            KeyState::Created
        })
    }

    fn compile(&self, policies: &Path, state: &Path) -> Result<String, Vec<String>> {
        let bundle = policy::load(&only(policies)).map_err(|problems| lines(&problems))?;
        policy::compile::write(state, &bundle, readers(state))
            .map_err(|error| vec![format!("cannot write the compiled policies: {error}")])?;
        Ok(bundle.digest)
    }

    fn inspect(&self, policies: &Path) -> Inspection {
        match policy::load(&only(policies)) {
            Ok(bundle) => Inspection {
                problems: Vec::new(),
                deadline_ms: u64::from(bundle.settings.limits.deadline_ms),
                passes_unrecorded: bundle.settings.audit.on_failure == OnFailure::Allow,
                approves_unverified: bundle.settings.approvers.unverified == Unverified::Accept,
                coverage: coverage(&bundle),
            },
            Err(problems) => Inspection {
                problems: lines(&problems),
                deadline_ms: u64::from(Limits::default().deadline_ms),
                passes_unrecorded: false,
                approves_unverified: false,
                coverage: Coverage::default(),
            },
        }
    }

    fn honours_audit_dir(&self, dir: &Path) -> Result<(), String> {
        let cwd = std::env::current_dir().ok();
        match audit_directory(dir.to_str(), cwd.as_deref()) {
            AuditDirectory::Ignored(why) => Err(why),
            AuditDirectory::Unset | AuditDirectory::Honoured(_) => Ok(()),
        }
    }

    fn probe(&self, dialect: &str, target: &Path, workspace: &Path) -> String {
        let event = match dialect {
            "claude" | "vscode" => json!({
                "hook_event_name": "PreToolUse", "session_id": "doctor", "cwd": workspace,
                "tool_name": "Read", "tool_input": {"file_path": target},
            }),
            _ => json!({
                "sessionId": "doctor", "timestamp": 0, "cwd": workspace,
                "toolName": "view", "toolArgs": {"path": target},
            }),
        };
        event.to_string()
    }

    fn is_denial(&self, dialect: &str, exit: Option<i32>, stdout: &[u8]) -> bool {
        serde_json::from_slice::<Value>(stdout)
            .is_ok_and(|answer| crate::hook::dialect::is_denial(dialect, exit, &answer))
    }
}

fn coverage(bundle: &Bundle) -> Coverage {
    let redaction = &bundle.settings.redaction;
    let count = |rules: &[About]| {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for rule in rules {
            *kinds.entry(rule.kind.clone()).or_default() += 1;
        }
        kinds
    };
    // What cannot be opened looks for nothing, and every text is withheld.
    let (Ok(secrets), Ok(phi)) = (redaction.secrets.open(), redaction.phi.open()) else {
        return Coverage::default();
    };
    let kinds = secrets.about().map(count).unwrap_or_default();
    let mut fields = phi.about().map(count).unwrap_or_default();
    let rosters = fields.remove(NAMES).is_some();
    Coverage {
        secret_rules: kinds.values().sum(),
        secret_kinds: kinds.len(),
        entities: !bundle.settings.entities.all.is_empty(),
        fields: fields.into_iter().collect(),
        rosters,
    }
}

/// What a machine install compiles is for every user to read.
fn readers(state: &Path) -> Readers {
    let machine = Path::new(super::place::MACHINE_STATE);
    match machine.strip_prefix("/") {
        Ok(relative) if state.ends_with(relative) => Readers::Everyone,
        _ => Readers::Owner,
    }
}

/// Just that directory, as it will be when the installed hook names it.
fn only(policies: &Path) -> Locations {
    Locations::only(policies)
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::one_line).collect()
}
