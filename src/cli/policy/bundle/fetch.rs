//! `policy bundle fetch` and `status`: the bundle that is in force on this machine.

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::json;

use crate::cli::place::{self, MACHINE_STATE, Place};
use crate::cli::{Format, Outcome};
use crate::distribution::address::{Address, Credentials};
use crate::distribution::bundle::Name;
use crate::distribution::fetch::{Fetched, Order, run};
use crate::distribution::pin::{self, Pin};
use crate::distribution::{Refusal, status as state_of};
use crate::exit::Exit;
use crate::keys::PublicKey;
use crate::policy::compile::Readers;
use crate::policy::layer::{ORGANISATION_DIR, USER_DIR};
use crate::policy::published::{OnExpiry, Published, Validity};
use crate::policy::{Layer, Problem};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "bundle.toml, beside the directory of policies, says where the bundle comes from and which keys \
    count; --from names another place, never other keys. Whatever fails, what is in force stays in force."
)]
pub(super) struct Fetch {
    /// Where the bundle lies: file://, https://, s3://, gs://, az://, oci://, or a path from `/`
    #[arg(long, value_name = "ADDRESS")]
    from: Option<Address>,
    /// A key that counts, where there is no bundle.toml
    #[arg(long = "key", value_name = "KEY", requires = "from")]
    keys: Vec<PublicKey>,
    /// So many of them have to have signed it
    #[arg(long, value_name = "NUMBER", requires = "keys")]
    threshold: Option<usize>,
    /// What the bundle is called, where there is no bundle.toml [default: as the one that is in force]
    #[arg(long, value_name = "NAME", requires = "keys")]
    name: Option<Name>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(super) struct Status {
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    place: Place,
}

/// Where a bundle is put in force.
pub(super) struct Target {
    pub(super) layer: Layer,
    pub(super) policies: PathBuf,
    pub(super) state: PathBuf,
}

impl Target {
    /// The directory that was named; else the organisation's, where it has one; else the user's.
    pub(super) fn of(place: &Place) -> Self {
        let organisation = Path::new(ORGANISATION_DIR);
        let has_one = || organisation.exists() || pin::path(organisation).exists();
        let policies = match &place.policies {
            Some(dir) => std::path::absolute(dir).unwrap_or_else(|_| dir.clone()),
            None if has_one() => organisation.to_path_buf(),
            None => place::home()
                .unwrap_or_else(|| PathBuf::from("/"))
                .join(USER_DIR),
        };
        let machine = policies == organisation;
        Self {
            layer: if machine {
                Layer::Organisation
            } else {
                Layer::User
            },
            state: match machine && place.state.is_none() {
                true => PathBuf::from(MACHINE_STATE),
                false => place.state(),
            },
            policies,
        }
    }
}

pub(super) fn fetch(args: &Fetch, out: &mut dyn Write) -> Outcome {
    let target = Target::of(&args.place);
    let pin = pin::read(target.layer, &target.policies).map_err(unusable_pin)?;
    let order = Order {
        pin: wanted(args, pin, &pin::path(&target.policies))?,
        layer: target.layer,
        // What a machine install compiles is for every user to read.
        readers: match target.layer {
            Layer::Organisation => Readers::Everyone,
            _ => Readers::Owner,
        },
        policies: target.policies,
        state: target.state,
    };
    let fetched = match run(&order) {
        Ok(fetched) => fetched,
        Err(refusal) => return Err(stays(refusal, &order).into()),
    };
    match fetched {
        Fetched::Unchanged(now) => {
            writeln!(out, "{} {} is in force already", now.name, now.version)?;
        }
        Fetched::Published { now, set_aside } => {
            writeln!(
                out,
                "{} {} is in force in `{}`, signed by {}",
                now.name,
                now.version,
                order.policies.display(),
                now.signers.join(", ")
            )?;
            if let Some(copy) = set_aside {
                let copy = copy.display();
                writeln!(
                    out,
                    "what was there had been written by hand: a copy is in `{copy}`"
                )?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// What it takes: as the file says, or as the command line does where there is none.
fn wanted(args: &Fetch, pin: Option<Pin>, path: &Path) -> Result<Pin, String> {
    let path = path.display();
    match (pin, &args.from) {
        (Some(_), _) if !args.keys.is_empty() => Err(format!(
            "the keys that count stand in `{path}`\nhelp: leave `--key` out, or change that file"
        )),
        (Some(pin), from) => Ok(Pin {
            source: from.clone().unwrap_or_else(|| pin.source.clone()),
            // Secrets are for the place that the file names.
            credentials: match from {
                None => pin.credentials.clone(),
                Some(_) => Credentials::default(),
            },
            ..pin
        }),
        (None, Some(from)) if !args.keys.is_empty() => Ok(Pin {
            name: args.name.clone(),
            source: from.clone(),
            credentials: Credentials::default(),
            keys: args.keys.clone(),
            threshold: args.threshold.unwrap_or(1).max(1),
            max_age_days: None,
            on_expiry: OnExpiry::Warn,
        }),
        (None, _) => Err(format!(
            "nobody says where policies come from, and whose\nhelp: write `{path}`, or use `--from` and `--key`"
        )),
    }
}

/// The refusal, and what stays in force.
fn stays(mut refusal: Refusal, order: &Order) -> Refusal {
    let published = crate::policy::published::read(order.layer, &order.policies);
    let rest = match published {
        Ok(Some(now)) => format!("{} {} stays in force", now.name, now.version),
        Ok(None) if order.policies.is_dir() => {
            format!(
                "the policies in `{}` stay in force",
                order.policies.display()
            )
        }
        Ok(None) => "nothing was put in force".to_owned(),
        Err(problem) => problem.one_line(),
    };
    let (first, help) = match refusal.message.split_once('\n') {
        Some((first, help)) => (first, format!("\n{help}")),
        None => (refusal.message.as_str(), String::new()),
    };
    refusal.message = format!("{first}; {rest}{help}");
    refusal
}

pub(super) fn unusable_pin(problems: Vec<Problem>) -> Refusal {
    Refusal {
        message: format!("`{}` cannot be used", pin::FILE),
        problems,
    }
}

pub(super) fn status(args: &Status, out: &mut dyn Write) -> Outcome {
    let target = Target::of(&args.place);
    let found = state_of::status(target.layer, &target.policies, &target.state);
    let found = found.map_err(|problem| Refusal {
        message: "nobody knows which bundle is in force".to_owned(),
        problems: vec![problem],
    })?;
    let Some(found) = found else {
        let dir = target.policies.display();
        match args.format {
            Format::Text => writeln!(out, "no bundle is in force in `{dir}`")?,
            Format::Json => writeln!(out, "{:#}", json!({"v": 1, "bundle": null}))?,
        }
        return Ok(Exit::Ok);
    };
    match args.format {
        Format::Text => text(&found, &target, out)?,
        Format::Json => writeln!(out, "{:#}", object(&found, &target))?,
    }
    Ok(match found.is_in_order() {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

fn text(found: &state_of::Status, target: &Target, out: &mut dyn Write) -> std::io::Result<()> {
    let Published {
        name,
        version,
        digest,
        signers,
        source,
        published,
        expires,
        on_expiry,
        ..
    } = &found.published;
    writeln!(
        out,
        "bundle     {name} {version}, in `{}`",
        target.policies.display()
    )?;
    writeln!(out, "digest     {digest}")?;
    writeln!(out, "signed by  {}", signers.join(", "))?;
    writeln!(out, "source     {source}")?;
    writeln!(out, "in force   since {}", time(*published))?;
    let expiry = match (expires, found.validity) {
        (None, _) => "never".to_owned(),
        (Some(at), Validity::Valid) => time(*at),
        (Some(at), Validity::Expired) => format!("EXPIRED at {}{}", time(*at), effect(*on_expiry)),
        (Some(at), Validity::ClockBehind) => format!(
            "{}, BUT THE CLOCK IS BEHIND{}",
            time(*at),
            effect(*on_expiry)
        ),
    };
    writeln!(out, "expires    {expiry}")?;
    let files = match found.untouched {
        true => "as they came",
        false => "CHANGED since they came: `policy bundle fetch` puts them back",
    };
    writeln!(out, "files      {files}")?;
    if let Some(at) = found.checked {
        writeln!(out, "looked     {}", time(at))?;
    }
    if let Some((at, why)) = &found.failed {
        writeln!(out, "FAILED     {}: {why}", time(*at))?;
    }
    Ok(())
}

const fn effect(on_expiry: OnExpiry) -> &'static str {
    match on_expiry {
        OnExpiry::Warn => ": calls are judged by it all the same",
        OnExpiry::Deny => ": every call is denied",
    }
}

fn object(found: &state_of::Status, target: &Target) -> serde_json::Value {
    let said = &found.published;
    json!({
        "v": 1,
        "bundle": {
            "name": said.name,
            "version": said.version,
            "digest": said.digest,
            "signers": said.signers,
            "source": said.source,
            "policies": target.policies,
            "published": time(said.published),
            "expires": said.expires.map(time),
            "on_expiry": said.on_expiry.name(),
            "validity": match found.validity {
                Validity::Valid => "valid",
                Validity::Expired => "expired",
                Validity::ClockBehind => "clock_behind",
            },
            "untouched": found.untouched,
            "checked": found.checked.map(time),
            "failed": found.failed.as_ref().map(|(at, why)| json!({"at": time(*at), "why": why})),
        },
    })
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |at| at.to_string())
}
