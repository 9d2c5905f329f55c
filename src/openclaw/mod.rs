//! What OpenClaw remembers: its files, read and never written, and its gateway, which searches better
//! than we do (R-000-02, R-000-24). `docs/openclaw-memory.md` is the user's side of it.
//!
//! What comes from here is OpenClaw's own text, secrets and all: whoever hands it on redacts it.

#[cfg(feature = "serve")]
pub mod gateway;
pub mod memory;
