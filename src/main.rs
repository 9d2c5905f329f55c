//! argv → verb → exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    copilot_bridge::cli::main()
}

// musl's own allocator doubles what a hook takes.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
