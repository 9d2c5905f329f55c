//! argv → verb → exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    copilot_bridge::cli::main()
}
