//! `copilot-bridge doctor`: whether the hooks are there, are called, and decide.

use std::io::Write;

use clap::ValueEnum;

use crate::setup::doctor::{examine, print_json, print_text};
use crate::setup::place::{Overrides, Places};
use crate::setup::{Ending, Rooms, SetupError};

/// Find out whether the hooks hold
///
/// Looks at hosts, hooks, those of others, switches that turn hooks off, policies, modes and what
/// changed since `init`; then runs the installed hook with a call that has to be denied. Nothing
/// is changed, and the trial is not recorded.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How the findings are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    places: Overrides,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// For a person
    Text,
    /// One JSON object
    Json,
}

/// Prints what was found; an error among it is trouble.
pub(crate) fn run(
    args: &Args,
    rooms: &dyn Rooms,
    out: &mut dyn Write,
) -> Result<Ending, SetupError> {
    let findings = examine(&Places::find(&args.places)?, rooms);
    match args.format {
        Format::Text => print_text(&findings, out),
        Format::Json => print_json(&findings, out),
    }
}
