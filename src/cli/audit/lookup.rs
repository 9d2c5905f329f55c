//! `audit lookup`: where a value is that the record hides.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::row::Row;
use super::{days, open};
use crate::audit::key;
use crate::audit::query::lines;
use crate::cli::place::Place;
use crate::cli::{Format, Outcome};
use crate::exit::Exit;

/// No value is longer: as much as an event may have.
const LARGEST: u64 = 8 << 20;

/// Find a value that the record hides, by its HMAC with this installation's key
///
/// Of file contents, patches, prompts and texts of more than 512 bytes the record has the HMAC only, and
/// so it has of all arguments of a call as one line of JSON. Shorter texts stand there as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 found · 1 not found · 64 usage.")]
pub(super) struct Args {
    /// The value, byte for byte; `-` reads it from the standard input, where one line feed at the
    /// end may be too many
    value: String,
    /// How to show where it is
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The directory that record and key are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let place = Place {
        state: args.state.clone(),
        ..Place::default()
    };
    let state = place.state();
    let hmacs = hmacs(&state, &args.value)?;
    let mut found = 0;
    for day in days(args.state.as_deref())? {
        lines(open(&day)?, &mut |line| {
            let has = |hmac: &String| memchr::memmem::find(line, hmac.as_bytes()).is_some();
            if !hmacs.iter().any(has) {
                return Ok(());
            }
            let Ok(value) = serde_json::from_slice::<Value>(line) else {
                return Ok(());
            };
            let mut pointers = Vec::new();
            find(&value, &hmacs, &mut String::new(), &mut pointers);
            let row = serde_json::from_slice(line).map(|line| Row::of(&line));
            let Ok(row) = row else {
                return Ok(());
            };
            for pointer in pointers {
                found += 1;
                match args.format {
                    Format::Text => writeln!(
                        out,
                        "{} {} session {} tool {} {pointer}",
                        row.seq,
                        row.time,
                        or_none(&row.session),
                        or_none(&row.tool)
                    )?,
                    Format::Json => writeln!(
                        out,
                        "{}",
                        json!({
                            "seq": value.get("seq"), "ts": value.get("ts"), "session": value.get("session"),
                            "tool": value.get("tool"), "pointer": pointer,
                        })
                    )?,
                }
            }
            Ok(())
        })?;
    }
    if found == 0 {
        writeln!(
            anstream::stderr(),
            "no line hides this value; a text of up to 512 bytes that is no data stands in the record as it is"
        )?;
        return Ok(Exit::Failed);
    }
    Ok(Exit::Ok)
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// The HMAC of the value, with every key that there was; of one that was piped, also of it without the line feed at its end.
fn hmacs(state: &Path, value: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let path = key::path(state);
    // Who looks does not make a key: it would fit nothing.
    if !path.try_exists()? {
        return Err(format!(
            "there is no key `{}`\nhelp: name the directory of the installation with `--state`",
            path.display()
        )
        .into());
    }
    let keys = key::all(state)?;
    let hmac = |bytes: &[u8]| keys.iter().map(|key| key.hmac(bytes)).collect::<Vec<_>>();
    if value != "-" {
        return Ok(hmac(value.as_bytes()));
    }
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock();
    input.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("the value has more than {} MiB", LARGEST >> 20).into());
    }
    let mut hmacs = hmac(&bytes);
    if let Some(without) = bytes.strip_suffix(b"\n") {
        hmacs.extend(hmac(without));
    }
    Ok(hmacs)
}

/// The JSON pointers of all hidden texts with one of these HMACs.
fn find(value: &Value, hmacs: &[String], at: &mut String, found: &mut Vec<String>) {
    let length = at.len();
    match value {
        Value::Array(all) => {
            for (index, one) in all.iter().enumerate() {
                at.push_str(&format!("/{index}"));
                find(one, hmacs, at, found);
                at.truncate(length);
            }
        }
        Value::Object(fields) => {
            let hmac = fields.get("hmac").and_then(Value::as_str);
            if hmac.is_some_and(|hmac| hmacs.iter().any(|one| one == hmac)) {
                found.push(at.clone());
            }
            for (name, one) in fields {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                find(one, hmacs, at, found);
                at.truncate(length);
            }
        }
        _ => {}
    }
}
