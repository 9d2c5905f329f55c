//! No text makes the loader panic, overflow its stack, or accept what the engine cannot evaluate.
#![no_main]

use copilot_bridge::engine::Engine;
use copilot_bridge::policy::{self, Layer, Source};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // The first line says which file it is.
    let (name, text) = text.split_once('\n').unwrap_or(("x.cedar", text));
    let name = match name.len() % 5 {
        0 => "x.cedar",
        1 => "bridge.toml",
        2 => "containment.toml",
        3 => "redaction/x.toml",
        _ => "permission.toml",
    };
    let source = Source::new(Layer::User, "/p", [(name.to_owned(), text.to_owned())]);
    let checked = policy::check_sources(&[source]);
    for problem in &checked.problems {
        let _ = problem.one_line();
    }
    if let Some(bundle) = checked.bundle {
        let _ = Engine::new(bundle).decide(&[]);
    }
});
