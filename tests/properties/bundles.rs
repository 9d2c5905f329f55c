//! Bundles built by hand: the loader of policy files is not asked, so that it cannot be at fault.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use copilot_bridge::engine::action::ActionSet;
use copilot_bridge::engine::bundle::{Bundle, Policy, Settings, Verdict};
use copilot_bridge::engine::codec;
use copilot_bridge::engine::request::ResourceSet;
use copilot_bridge::gate::place::Installation;
use copilot_bridge::gate::{Gate, Refused, Sink};

thread_local! {
    /// Parsing costs milliseconds in a debug build, and random policies repeat themselves.
    static BODIES: RefCell<HashMap<String, Vec<u8>>> = RefCell::default();
}

/// The compact form of one Cedar policy.
pub(super) fn body(text: &str) -> Vec<u8> {
    BODIES.with_borrow_mut(|bodies| {
        if let Some(known) = bodies.get(text) {
            return known.clone();
        }
        let policy: cedar_policy::Policy = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let tree = policy.to_pst().unwrap();
        let bytes = codec::encode(tree.body()).unwrap();
        bodies.insert(text.to_owned(), bytes.clone());
        bytes
    })
}

/// A policy that enforces, in every slice.
pub(super) fn policy(id: &str, text: &str) -> Policy {
    let verdict = if text.starts_with("permit") {
        Verdict::Permit
    } else {
        Verdict::Forbid
    };
    Policy {
        id: id.to_owned(),
        file: "test.cedar".to_owned(),
        line: 1,
        reason: format!("the policy {id}"),
        help: String::new(),
        verdict,
        monitor: false,
        severity: String::new(),
        waivable: false,
        approvals: None,
        obligations: Vec::new(),
        actions: ActionSet::EVERY,
        resources: ResourceSet::EVERY,
        requires: Vec::new(),
        body: body(text),
    }
}

/// A bundle of those policies, with default settings.
pub(super) fn bundle(policies: Vec<Policy>) -> Bundle {
    Bundle {
        digest: "test".to_owned(),
        policies,
        settings: Settings::default(),
    }
}

/// A bundle that permits everything.
pub(super) fn lenient() -> Bundle {
    bundle(vec![policy(
        "everything",
        "permit(principal, action, resource);",
    )])
}

/// A gate that records nothing. Its state and policies lie in `aside`.
pub(super) fn gate(policy: Result<Bundle, Refused>, home: Option<&Path>, aside: &Path) -> Gate {
    let here = Installation {
        home: home.map(Path::to_path_buf),
        uid: 1000,
        policies: vec![aside.join("policies")],
        state: aside.join("state"),
        binary: None,
        depth: 0,
        ..Installation::default()
    };
    Gate::new(policy, here, Sink::Null)
}
