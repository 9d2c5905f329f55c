//! argv → verb → exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    copilot_bridge::cli::main()
}

// musl's own allocator doubles what a hook takes, glibc's asks the system anew for each large text, and
// one with a single lock makes two threads slower than one.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
