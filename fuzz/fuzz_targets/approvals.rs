//! Questions and answers, which an agent's programs can write: whatever stands there, nothing is approved
//! and nothing breaks.
#![no_main]

use copilot_bridge::approvals::question::{Asked, CallHash, Question};
use copilot_bridge::approvals::statement::Statement;
use copilot_bridge::approvals::weigh::{Terms, Weight, weigh};
use copilot_bridge::audit::key::Key;
use copilot_bridge::engine::approver::Approvers;
use copilot_bridge::keys::envelope::Envelope;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(asked) = Asked::parse(bytes.split(|byte| *byte == 0).next().unwrap_or_default()) else {
        if let Ok(envelope) = serde_json::from_slice::<Envelope>(bytes) {
            let _ = Statement::unverified(&envelope);
        }
        return;
    };
    let _ = (asked.id(), asked.shown.digest());
    let question = Question {
        call: CallHash::of(&Key::from_bytes([1; 32]), b"call"),
        shown: asked.shown,
    };
    let approvers = Approvers::default();
    let terms = Terms {
        approvers: &approvers,
        demand: None,
        now: asked.at,
        last_record: Some(asked.at),
    };
    let lines = bytes.splitn(2, |byte| *byte == 0).nth(1).unwrap_or_default();
    let weight = weigh(lines, &question, &terms, &|_| false);
    assert!(!matches!(weight, Weight::Approved(_)));
});
