//! No text makes the redactor panic or take long, none is changed without a hit, documents stay
//! documents, and redacting twice changes nothing more.
#![no_main]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use copilot_bridge::engine::redaction::{Fault, Redactor, Ruleset, Stream};
use copilot_bridge::policy;
use libfuzzer_sys::fuzz_target;

fn rules() -> &'static Ruleset {
    static RULES: OnceLock<Ruleset> = OnceLock::new();
    RULES.get_or_init(|| {
        let bundle = policy::load_sources(&[policy::layer::embedded()]).expect("our own policies");
        bundle.settings.redaction.secrets.open().expect("our own rules")
    })
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let sets = [rules()];
    let redactor = Redactor::new(&sets, b"key");
    let start = Instant::now();
    let redacted = match redactor.text(&text) {
        Ok(redacted) => redacted,
        Err(Fault::TooMuch) => return,
        Err(fault) => panic!("{fault}"),
    };
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(!redacted.hits.is_empty() || redacted.value == text);
    let again = redactor.text(&redacted.value).expect("it was looked at just now");
    assert_eq!(again.value, redacted.value);
    let is_document = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    assert!(!is_document(&text) || is_document(&redacted.value));
    // In two pieces, whatever they are.
    let mut cut = text.len() / 2;
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    let (head, tail) = text.split_at(cut);
    let mut stream = Stream::new(redactor);
    let pieces = [head, tail].map(|piece| stream.push(piece).expect("a part of it"));
    let rest = stream.finish().expect("the rest of it");
    if redacted.hits.is_empty() && rest.hits.is_empty() {
        assert_eq!(pieces.concat() + &rest.value, text);
    }
});
