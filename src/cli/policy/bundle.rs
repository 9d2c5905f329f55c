//! `policy bundle`: policies for many machines in one signed file.

mod fetch;

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

use super::show_problems;
use crate::cli::Outcome;
use crate::cli::passphrase;
use crate::cli::place::Place;
use crate::distribution::address::{Address, Credentials};
use crate::distribution::bundle::{About, Name, PolicyBundle};
use crate::distribution::sealed::Sealed;
use crate::distribution::{Refusal, pin};
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::keys::{PublicKey, SigningKey};
use crate::policy::published::OnExpiry;

/// Make, sign, verify and fetch bundles of policies
///
/// A bundle is one file with all policies and their tests. It counts by who signed it: the keys that count
/// stand in `bundle.toml`, beside the directory of policies.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Check policies, and put them into one file
    Build(Build),
    /// Sign a bundle; others may sign it as well
    Sign(Sign),
    /// Say whether those signed a bundle whose keys count
    Verify(Verify),
    /// Say what is in a bundle, whoever made it
    Show(Show),
    /// Write what is in a bundle into a directory, whoever made it
    Unpack(Unpack),
    /// Get the bundle of this installation, and put it in force if all about it is in order
    Fetch(fetch::Fetch),
    /// Say which bundle is in force, and whether it still is what it was
    Status(fetch::Status),
}

#[derive(Debug, clap::Args)]
struct Build {
    /// The directory of the policies
    dir: PathBuf,
    /// What the bundle is called: one name for all its versions
    #[arg(long, value_name = "NAME")]
    name: Name,
    /// A number that grows with each bundle of that name
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    version: u64,
    /// When it expires: after so long, or on a day [default: never]
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
    /// What becomes of calls once it has expired
    #[arg(long, value_enum, default_value = "warn")]
    on_expiry: Expiry,
    /// When it was made: the same policies make the same file then [default: now]
    #[arg(long, value_name = "TIME")]
    created: Option<Timestamp>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Expiry {
    /// They are judged as before; `check`, `doctor` and `policy bundle status` say so
    Warn,
    /// They are denied
    Deny,
}

#[derive(Debug, clap::Args)]
struct Sign {
    /// The bundle
    file: PathBuf,
    /// The file of the key to sign with, from `copilot-bridge key new`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The file to write [default: the bundle itself]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Which keys count.
#[derive(Debug, clap::Args)]
struct Keys {
    /// A key that counts, `ed25519:…`; more than once for more of them [default: those of bundle.toml]
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<PublicKey>,
    /// So many of them have to have signed it [default: 1, or as bundle.toml says]
    #[arg(long, value_name = "NUMBER", requires = "keys")]
    threshold: Option<usize>,
}

#[derive(Debug, clap::Args)]
struct Verify {
    /// The bundle
    file: PathBuf,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The bundle
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Unpack {
    /// The bundle
    file: PathBuf,
    /// The directory to write; it must not be there yet
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let result = match &args.verb {
        Verb::Build(args) => build(args, out),
        Verb::Sign(args) => sign(args, out),
        Verb::Verify(args) => verify(args, out),
        Verb::Show(args) => show(args, out),
        Verb::Unpack(args) => unpack(args, out),
        Verb::Fetch(args) => fetch::fetch(args, out),
        Verb::Status(args) => fetch::status(args, out),
    };
    result.or_else(|error| match error.downcast::<Refusal>() {
        Ok(refusal) => {
            show_problems(&refusal.problems, out)?;
            Err(refusal.message.into())
        }
        Err(other) => Err(other),
    })
}

fn build(args: &Build, out: &mut dyn Write) -> Outcome {
    let created = match args.created {
        Some(created) => created,
        None => Timestamp::from_second(Timestamp::now().as_second())?,
    };
    let expires = args
        .expires
        .as_deref()
        .map(|text| expiry(text, created))
        .transpose()?;
    let about = About {
        name: args.name.clone(),
        version: args.version,
        created,
        expires,
        on_expiry: match args.on_expiry {
            Expiry::Warn => OnExpiry::Warn,
            Expiry::Deny => OnExpiry::Deny,
        },
    };
    let (bundle, warnings) = match PolicyBundle::build(about, &args.dir) {
        Ok(built) => built,
        Err(problems) => {
            show_problems(&problems, out)?;
            return Ok(Exit::PolicyInvalid);
        }
    };
    show_problems(&warnings, out)?;
    let bytes = Sealed::new(&bundle).to_bytes();
    // What is too large for whoever fetches it is too large to be built.
    Sealed::read(&bytes)?;
    write_file(&args.output, &bytes)?;
    describe(&bundle, out)?;
    writeln!(
        out,
        "signed by  nobody yet: `copilot-bridge policy bundle sign` does"
    )?;
    Ok(Exit::Ok)
}

fn sign(args: &Sign, out: &mut dyn Write) -> Outcome {
    let mut sealed = open(&args.file)?;
    // Whoever signs sees what.
    let bundle = sealed.unverified()?;
    describe(&bundle, out)?;
    out.flush()?;
    let key = SigningKey::read(&args.key, || {
        passphrase::ask(&format!("`{}`", args.key.display()))
    })?;
    let id = key.public().id();
    if !sealed.sign(&key) {
        writeln!(out, "the key `{id}` had signed it already")?;
        return Ok(Exit::Ok);
    }
    write_file(
        args.output.as_ref().unwrap_or(&args.file),
        &sealed.to_bytes(),
    )?;
    writeln!(out, "signed by  `{id}`, {}", key.public())?;
    Ok(Exit::Ok)
}

fn verify(args: &Verify, out: &mut dyn Write) -> Outcome {
    let sealed = open(&args.file)?;
    let (keys, threshold) = match args.keys.keys.as_slice() {
        [] => {
            let target = fetch::Target::of(&args.place);
            let pin = pin::read(target.layer, &target.policies);
            let pin = pin.map_err(fetch::unusable_pin)?;
            let path = pin::path(&target.policies);
            let pin = pin.ok_or_else(|| {
                format!(
                    "nobody says which keys count\nhelp: name them with `--key`, or in `{}`",
                    path.display()
                )
            })?;
            (pin.keys, pin.threshold)
        }
        keys => (keys.to_vec(), args.keys.threshold.unwrap_or(1).max(1)),
    };
    let verified = sealed.verify(&keys, threshold)?;
    describe(verified.bundle(), out)?;
    let ids: Vec<String> = verified
        .signers()
        .iter()
        .map(|key| format!("`{}`", key.id()))
        .collect();
    writeln!(out, "signed by  {}", ids.join(", "))?;
    let about = verified.about();
    match about.expires.filter(|expires| *expires <= Timestamp::now()) {
        Some(expires) => Err(format!("it expired at {expires}").into()),
        None => Ok(Exit::Ok),
    }
}

fn show(args: &Show, out: &mut dyn Write) -> Outcome {
    let sealed = open(&args.file)?;
    let bundle = sealed.unverified()?;
    describe(&bundle, out)?;
    let versions = bundle.versions();
    writeln!(
        out,
        "built by   version {} with Cedar {}, policy format {}",
        versions.engine, versions.cedar, versions.format
    )?;
    let signers = sealed.claimed_signers();
    let signers = match signers.as_slice() {
        [] => "nobody".to_owned(),
        signers => format!(
            "{}, so it says: `policy bundle verify` looks",
            signers.join(", ")
        ),
    };
    writeln!(out, "signed by  {signers}\nfiles")?;
    for (name, text) in bundle.files() {
        writeln!(out, "{:>10} {name}", text.len())?;
    }
    Ok(Exit::Ok)
}

fn unpack(args: &Unpack, out: &mut dyn Write) -> Outcome {
    let bundle = open(&args.file)?.unverified()?;
    let dir = &args.into;
    let failed = |path: &Path, error: &std::io::Error| {
        format!("cannot write `{}`: {}", path.display(), words(error))
    };
    std::fs::create_dir(dir).map_err(|error| failed(dir, &error))?;
    for (name, text) in bundle.files() {
        let path = dir.join(name);
        let above = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(above).map_err(|error| failed(above, &error))?;
        std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    writeln!(
        out,
        "{} files of {} {} in `{}`; nobody looked at who signed them",
        bundle.files().len(),
        bundle.about().name,
        bundle.about().version,
        dir.display()
    )?;
    Ok(Exit::Ok)
}

fn open(file: &Path) -> Result<Sealed, Refusal> {
    Sealed::read(&Address::File(file.to_path_buf()).get(&Credentials::default())?)
}

fn describe(bundle: &PolicyBundle, out: &mut dyn Write) -> std::io::Result<()> {
    let about = bundle.about();
    writeln!(out, "bundle     {} {}", about.name, about.version)?;
    writeln!(out, "digest     {}", bundle.digest())?;
    writeln!(out, "created    {}", about.created)?;
    match about.expires {
        None => writeln!(out, "expires    never"),
        Some(expires) => {
            let then = match about.on_expiry {
                OnExpiry::Warn => "then it is only said so",
                OnExpiry::Deny => "then every call is denied",
            };
            writeln!(out, "expires    {expires}, {then}")
        }
    }
}

/// A file beside the one that is meant, which takes its place when it is whole.
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let write = || -> std::io::Result<()> {
        let mut builder = tempfile::Builder::new();
        // It holds nothing secret, and others are to fetch it.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
        let mut file = builder.tempfile_in(dir.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| format!("cannot write `{}`: {}", path.display(), words(&error)))
}

/// So long after it was made, or the beginning of a day, or a time.
fn expiry(text: &str, created: Timestamp) -> Result<Timestamp, String> {
    let wrong =
        || format!("`{text}` is no time: it is how long, a day or a time: `90d`, `2027-01-31`");
    let at = if let Ok(time) = text.parse::<Timestamp>() {
        time
    } else if let Ok(day) = text.parse::<Date>() {
        day.to_zoned(TimeZone::UTC)
            .map_err(|_| wrong())?
            .timestamp()
    } else {
        let span: Span = text.parse().map_err(|_| wrong())?;
        let long = span.to_duration(SpanRelativeTo::days_are_24_hours());
        created
            .checked_add(long.map_err(|_| wrong())?)
            .map_err(|_| wrong())?
    };
    if at <= created {
        return Err(format!(
            "a bundle that expires at {at} has expired when it is made"
        ));
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_expires_after_so_long_or_on_a_day() {
        let created: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let at = |text: &str| expiry(text, created).map(|at| at.to_string());
        assert_eq!(at("90d").unwrap(), "2026-05-01T12:00:00Z");
        assert_eq!(at("2026-02-01").unwrap(), "2026-02-01T00:00:00Z");
        assert_eq!(at("2026-02-01T00:00:01Z").unwrap(), "2026-02-01T00:00:01Z");
        for wrong in ["", "soon", "-1d", "2026-01-31", "2026-13-01"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
