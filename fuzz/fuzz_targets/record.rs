//! Files of a record, their checkpoints and proofs: whatever stands there, it is told and nothing breaks.
#![no_main]

use copilot_bridge::audit::checkpoint::{Checkpoint, Signed, VerifierKey};
use copilot_bridge::audit::prove::check;
use copilot_bridge::audit::verify::Verifier;
use libfuzzer_sys::fuzz_target;

/// The key of `audit/samples`.
const KEY: &str = "copilot-bridge/samples+6891bfae+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs";

fuzz_target!(|bytes: &[u8]| {
    let mut verifier = Verifier::new(bytes.len() % 2 == 0);
    if verifier.file("day", Some("2026-01-02"), bytes, &mut |_| ()).is_ok() {
        let report = verifier.finish(false);
        assert!(report.findings.is_empty() <= (report.problems + report.warnings == 0));
    }
    let _ = Checkpoint::parse(bytes);
    let _ = Signed::parse(bytes);
    let key = VerifierKey::parse(KEY).expect("the samples' own key");
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(check(text, &key, None).is_err());
    }
});
