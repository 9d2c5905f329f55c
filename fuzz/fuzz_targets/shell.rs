//! No line makes the reader of command lines panic, or keeps it busy past the deadline.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use copilot_bridge::engine::containment::Containment;
use copilot_bridge::facts::shell::{LENGTH_LIMIT, Surroundings, analyse};
use copilot_bridge::policy;
use libfuzzer_sys::fuzz_target;

fn tables() -> &'static Containment {
    static TABLES: OnceLock<Containment> = OnceLock::new();
    TABLES.get_or_init(|| {
        let bundle = policy::load_sources(&[policy::layer::embedded()]).expect("our own policies");
        bundle.settings.containment
    })
}

fuzz_target!(|bytes: &[u8]| {
    let line = String::from_utf8_lossy(bytes);
    let tables = tables();
    let here = Surroundings {
        cwd: Path::new("/nonexistent/ws"),
        root: Some(Path::new("/nonexistent/ws")),
        home: Some(Path::new("/nonexistent/home")),
    };
    let start = Instant::now();
    let read = analyse(&line, tables, here);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(line.len() <= LENGTH_LIMIT || read.uncertain.is_some());
    // A path without its folder would lead anywhere.
    assert!(read.paths.iter().all(|path| path.cwd.is_absolute()));
});
