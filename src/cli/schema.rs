//! `schema`: the schemas that policies are written against.

use std::io::Write;

use clap::ValueEnum;

use super::Outcome;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which schema
    schema: Schema,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Schema {
    /// The Cedar schema: `schemas/bridge.cedarschema`
    Cedar,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match args.schema {
        Schema::Cedar => out.write_all(crate::engine::schema::cedar_schema().as_bytes())?,
    }
    Ok(Exit::Ok)
}
