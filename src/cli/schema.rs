//! `schema`: the schemas that policies and programs are written against.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;

use super::Outcome;
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::workbench::schema;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    schema: Schema,
}

#[derive(Debug, clap::Subcommand)]
enum Schema {
    /// The Cedar schema: `schemas/bridge.cedarschema`
    Cedar(Cedar),
    /// The JSON schema of a line of the record: `schemas/audit-record.v1.json`
    Audit,
    /// The JSON schemas of the TOML files: `schemas/policy/*.json`
    Policy(Policy),
}

#[derive(Debug, clap::Args)]
struct Cedar {
    /// In Cedar's JSON form
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Policy {
    /// Which file's: bridge, containment … [default: their names]
    #[arg(value_parser = names())]
    name: Option<String>,
    /// Write all of them into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    into: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.schema {
        Schema::Cedar(Cedar { json: false }) => {
            out.write_all(crate::engine::schema::cedar_schema().as_bytes())?;
        }
        Schema::Cedar(Cedar { json: true }) => {
            writeln!(out, "{:#}", schema::cedar_json()?)?;
        }
        Schema::Audit => out.write_all(crate::audit::record::schema::audit_record().as_bytes())?,
        Schema::Policy(args) => return policy(args, out),
    }
    Ok(Exit::Ok)
}

fn policy(args: &Policy, out: &mut dyn Write) -> Outcome {
    let documents = schema::documents();
    if let Some(dir) = &args.into {
        write_all(dir, &documents)?;
        writeln!(
            out,
            "wrote {} schemas into `{}`",
            documents.len(),
            dir.display()
        )?;
        return Ok(Exit::Ok);
    }
    let Some(name) = &args.name else {
        for document in &documents {
            writeln!(
                out,
                "{:<12} {:<18} {}",
                document.name, document.files, document.about
            )?;
        }
        return Ok(Exit::Ok);
    };
    let document = documents.iter().find(|document| document.name == name);
    let document = document.ok_or("there is no such schema")?;
    out.write_all(schema::text(document).as_bytes())?;
    Ok(Exit::Ok)
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(schema::documents().iter().map(|document| document.name))
}

fn write_all(dir: &Path, documents: &[schema::Document]) -> Result<(), String> {
    let failed = |error: std::io::Error| {
        let why = words(&error);
        format!("cannot write the schemas to `{}`: {why}", dir.display())
    };
    fs::create_dir_all(dir).map_err(failed)?;
    for document in documents {
        let path = dir.join(format!("{}.json", document.name));
        fs::write(path, schema::text(document)).map_err(failed)?;
    }
    Ok(())
}
