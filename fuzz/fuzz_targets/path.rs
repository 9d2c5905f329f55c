//! No arguments make the finder of paths panic, and no path leads inside by what cannot be followed.
#![no_main]

use std::path::{Component, Path, PathBuf};

use copilot_bridge::facts::arguments::{self, Taker};
use copilot_bridge::facts::paths::{Workspace, resolve};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // What is no JSON is the path itself.
    let args: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|_| serde_json::json!({ "path": text }));
    let found = arguments::paths(&args, Taker::Foreign, &["content"]).paths;
    // There are links below it on every Linux machine.
    let workspace = Workspace { cwd: PathBuf::from("/usr"), root: Some(PathBuf::from("/usr")) };
    for given in found {
        let resolved = resolve(&given, &workspace.cwd, Some(Path::new("/nonexistent/home")));
        if resolved.fault.is_none() {
            assert!(resolved.target.is_absolute());
            assert!(!resolved.target.components().any(|part| part == Component::ParentDir));
            assert!(!resolved.exists || resolved.target.symlink_metadata().is_ok());
        }
    }
});
