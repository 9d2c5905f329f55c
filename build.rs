//! Compiles the default policies, so that a hook without any others parses nothing.
//!
//! The rooms that do it at run time do it here: these are the very same files.
#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "only a part of these rooms is used here"
)]

#[path = "src/engine/mod.rs"]
mod engine;
#[path = "src/policy/mod.rs"]
mod policy;
/// Of the keys, what policies name.
#[path = "src/keys"]
mod keys {
    pub mod public;
}
/// The default policies name no service: nothing here tries its address and its schemas.
mod wire {
    pub fn address(_: &str) -> Result<String, &'static str> {
        Err("the default policies name no service")
    }

    pub fn argument(_: &serde_json::Value) -> Result<(), String> {
        Err("the default policies name no service".to_owned())
    }
}

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    for path in [
        "build.rs",
        "src/engine",
        "src/policy",
        "src/keys/public.rs",
        "policies",
    ] {
        println!("cargo:rerun-if-changed={path}");
    }
    let bundle = policy::load_sources(&[policy::layer::embedded()]).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(policy::Problem::one_line).collect();
        lines.join("\n")
    })?;
    let out = std::env::var_os("OUT_DIR").ok_or("cargo names no output directory")?;
    let out = PathBuf::from(out);
    std::fs::write(
        out.join("default.bundle"),
        policy::compile::encode(&bundle)?,
    )?;
    let rules = postcard::to_stdvec(&bundle.settings.redaction)?;
    std::fs::write(out.join("default.redaction"), rules)?;
    Ok(())
}
