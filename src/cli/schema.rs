//! `schema`: the schemas that policies and programs are written against.

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
    /// The JSON schema of a line of the record: `schemas/audit-record.v1.json`
    Audit,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match args.schema {
        Schema::Cedar => out.write_all(crate::engine::schema::cedar_schema().as_bytes())?,
        Schema::Audit => out.write_all(crate::audit::record::schema::audit_record().as_bytes())?,
    }
    Ok(Exit::Ok)
}
