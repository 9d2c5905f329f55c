//! No bytes make the parser of bundles or of bundle.toml panic, and no bundle names a file outside of its
//! directory.
#![no_main]

use std::path::{Component, Path};
use std::sync::Arc;

use copilot_bridge::distribution::bundle::PolicyBundle;
use copilot_bridge::distribution::pin;
use copilot_bridge::distribution::sealed::Sealed;
use copilot_bridge::policy::{Layer, SourceFile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sealed) = Sealed::read(bytes) {
        assert!(sealed.verify(&[], 1).is_err(), "nobody's key counts");
        if let Ok(bundle) = sealed.unverified() {
            look(&bundle);
        }
    }
    // Without the envelope the fuzzer gets further.
    if let Ok(bundle) = PolicyBundle::parse(bytes) {
        look(&bundle);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let file = Arc::new(SourceFile {
            layer: Layer::User,
            name: pin::FILE.to_owned(),
            path: "/p/bundle.toml".to_owned(),
            text: text.to_owned(),
        });
        if let Err(problems) = pin::parse(&file) {
            assert!(!problems.is_empty());
            for problem in &problems {
                let _ = (problem.one_line(), problem.underlined());
            }
        }
    }
});

fn look(bundle: &PolicyBundle) {
    for name in bundle.files().keys() {
        let plain = |part| matches!(part, Component::Normal(_));
        assert!(Path::new(name).components().all(plain), "{name}");
    }
    let again = PolicyBundle::parse(&bundle.payload());
    assert_eq!(again.as_ref(), Ok(bundle));
}
