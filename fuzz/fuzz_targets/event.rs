//! No bytes make the door panic, and none that it refuses get past the gate.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use copilot_bridge::engine::decision::Effect;
use copilot_bridge::gate::event::EventName;
use copilot_bridge::gate::place::Installation;
use copilot_bridge::gate::{Gate, Sink};
use copilot_bridge::{hook, policy};
use libfuzzer_sys::fuzz_target;

fn gate() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(|| {
        let bundle = policy::load_sources(&[policy::layer::embedded()]).expect("our own policies");
        let here = Installation {
            state: PathBuf::from("/nonexistent"),
            ..Installation::default()
        };
        Gate::new(Ok(bundle), here, Sink::Null)
    })
}

fuzz_target!(|bytes: &[u8]| {
    for name in [EventName::PreToolUse, EventName::PermissionRequest, EventName::PostToolUse] {
        let Ok((event, dialect)) = hook::parse(bytes, Some(name), None) else {
            continue;
        };
        let outcome = gate().pass(&event, Duration::ZERO);
        let (answer, code) = hook::preview(dialect, name, &outcome);
        assert!(answer.starts_with('{') && answer.ends_with('}') && !answer.contains('\n'));
        assert!(!answer.contains("\"allow\""));
        if name == EventName::PreToolUse {
            assert_eq!(code == 2, outcome.effect() == Effect::Deny);
        }
    }
});
