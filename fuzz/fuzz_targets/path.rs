//! No arguments make the finder of paths panic, and no path leads inside by what cannot be followed.
#![no_main]

use std::path::{Component, Path, PathBuf};

use copilot_bridge::facts::paths::{Workspace, resolve};
use copilot_bridge::facts::tools::{path_arguments, texts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // What is no JSON is the path itself.
    let args: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|_| serde_json::json!({ "path": text }));
    let found = path_arguments(&args, &["content".to_owned()]);
    let mut all = Vec::new();
    texts(&args, &mut all);
    assert!(found.iter().all(|path| all.contains(&path.as_str())));
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
