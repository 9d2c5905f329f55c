//! The compiled form of a bundle: what a hook reads instead of parsing and validating text.
//!
//! It is keyed by the digest of all sources, so a stale one is never found; and whatever is not
//! as it should be about it only costs the time to compile in memory.

use std::io;
use std::path::{Path, PathBuf};

use super::archive;
use super::diagnostic::Problem;
use super::disk::{self, Directory, Trust};
use super::layer::{self, Locations};
use super::load::load_quickly;
use super::source::{Source, digest};
use crate::engine::bundle::Bundle;

/// The directory of the compiled bundles, below the state or system directory.
pub const DIR: &str = "bundle";

/// How many compiled bundles are kept.
const KEPT: usize = 8;

/// The largest compiled bundle, in bytes.
const LIMIT: u64 = 16 << 20;

/// What a compiled bundle starts with.
const MAGIC: &[u8; 8] = b"cbbundle";

/// The version of the form. Every change to `Bundle` or to the codec raises it.
const FORM: u32 = 10;

const ENDING: &str = ".bundle";

/// Digits of a digest.
const DIGEST: usize = 64;

/// Where compiled forms may be found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compiled<'a> {
    /// State directories: the user's, the machine's.
    pub states: &'a [&'a Path],
    /// The compiled default policies that this program was built with.
    pub built_in: &'a [u8],
    /// The redaction rules of those, by themselves.
    pub shipped: &'a [u8],
    /// Where the policies of each digest are kept for auditors, if they are.
    pub archive: Option<&'a Path>,
}

/// Who may read a compiled form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Whoever wrote it.
    Owner,
    /// Every user of the machine: its policies are for all of them.
    Everyone,
}

/// The bundle of the layers in those directories: compiled if there is such a form, else from the
/// text.
///
/// # Errors
/// Every problem of every file, if one of them is an error.
pub fn open(locations: &Locations, compiled: Compiled<'_>) -> Result<Bundle, Vec<Problem>> {
    // Nothing was ever written: what this program carries was hashed when it was built.
    if layer::is_embedded(locations)
        && let Some(bundle) = built_in(compiled.built_in)
    {
        archived(compiled.archive, &bundle.digest, || vec![layer::embedded()]);
        return Ok(bundle);
    }
    open_sources(&layer::read(locations)?, compiled)
}

/// The bundle of those layers: compiled if there is such a form, else from the text.
///
/// # Errors
/// Every problem of every file, if one of them is an error.
pub fn open_sources(sources: &[Source], compiled: Compiled<'_>) -> Result<Bundle, Vec<Problem>> {
    let digest = digest(sources);
    let found = compiled
        .states
        .iter()
        .find_map(|state| read(state, &digest))
        .or_else(|| decode(compiled.built_in, &digest));
    let bundle = match found {
        Some(mut bundle) => {
            relocate(&mut bundle, sources);
            bundle
        }
        None => {
            let shipped = || postcard::from_bytes(compiled.shipped).ok();
            load_quickly(sources, &shipped)?
        }
    };
    archived(compiled.archive, &digest, || sources.to_vec());
    Ok(bundle)
}

/// Keeps the policies for auditors. One that cannot be kept is tried again with the next call.
fn archived(dir: Option<&Path>, digest: &str, sources: impl FnOnce() -> Vec<Source>) {
    if let Some(dir) = dir {
        let _ = archive::keep(dir, digest, sources);
    }
}

/// Writes the compiled form into `state`, and forgets the oldest ones.
///
/// # Errors
/// If the directory or the file cannot be written.
pub fn write(state: &Path, bundle: &Bundle, readers: Readers) -> io::Result<PathBuf> {
    let (dir_mode, file_mode) = match readers {
        Readers::Owner => (0o700, 0o600),
        Readers::Everyone => (0o755, 0o644),
    };
    let dir = state.join(DIR);
    disk::create_dir(&dir, dir_mode)?;
    let path = dir.join(format!("{}{ENDING}", bundle.digest));
    disk::replace(&path, &encode(bundle)?, file_mode)?;
    prune(&dir, &path)?;
    Ok(path)
}

/// The compiled form with that digest; `None` if there is none, or anything about it is off.
#[must_use]
pub fn read(state: &Path, digest: &str) -> Option<Bundle> {
    let dir = Directory::open(&state.join(DIR), Trust::OwnerOnly).ok()??;
    let name = format!("{digest}{ENDING}");
    let bytes = dir.read(&name, Trust::OwnerOnly, LIMIT).ok()?;
    decode(&bytes, digest)
}

/// The compiled form.
///
/// # Errors
/// If a value cannot be written in that form.
pub fn encode(bundle: &Bundle) -> io::Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORM.to_le_bytes());
    bytes.extend(bundle.digest.as_bytes());
    postcard::to_extend(bundle, bytes).map_err(io::Error::other)
}

/// The default policies, whatever their digest is.
fn built_in(bytes: &[u8]) -> Option<Bundle> {
    let digest = bytes
        .get(MAGIC.len() + FORM.to_le_bytes().len()..)?
        .get(..DIGEST)?;
    decode(bytes, std::str::from_utf8(digest).ok()?)
}

fn decode(bytes: &[u8], digest: &str) -> Option<Bundle> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let rest = rest.strip_prefix(&FORM.to_le_bytes())?;
    let rest = rest.strip_prefix(digest.as_bytes())?;
    let (bundle, rest): (Bundle, _) = postcard::take_from_bytes(rest).ok()?;
    (rest.is_empty() && bundle.digest == digest).then_some(bundle)
}

/// Names the files where they are now: the digest does not cover the directory that they are in.
fn relocate(bundle: &mut Bundle, sources: &[Source]) {
    let place = |id: &str, file: &mut String| {
        let found = sources.iter().find(|source| {
            id.strip_prefix(source.layer.prefix())
                .is_some_and(|rest| rest.starts_with(':'))
        });
        let name = file.rsplit('/').next().unwrap_or_default();
        if let Some(found) = found.and_then(|source| source.file(name)) {
            file.clone_from(&found.path);
        }
    };
    for policy in &mut bundle.policies {
        place(&policy.id, &mut policy.file);
    }
    for exception in &mut bundle.settings.exceptions {
        place(&exception.id, &mut exception.file);
    }
}

fn prune(dir: &Path, newest: &Path) -> io::Result<()> {
    let mut others = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if path != newest && entry.file_name().to_string_lossy().ends_with(ENDING) {
            others.push((entry.metadata()?.modified()?, path));
        }
    }
    others.sort_by(|a, b| b.cmp(a));
    for (_, path) in others.iter().skip(KEPT - 1) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::policy::layer::{Base, Layer, embedded};
    use crate::policy::load_sources;
    use crate::policy::testing::PERMIT;

    fn only<'a>(states: &'a [&'a Path]) -> Compiled<'a> {
        Compiled {
            states,
            built_in: &[],
            shipped: &[],
            archive: None,
        }
    }

    fn bundle() -> Bundle {
        load_sources(&[embedded()]).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let state = tempfile::tempdir().unwrap();
        let bundle = bundle();
        let path = write(state.path(), &bundle, Readers::Owner).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(read(state.path(), &bundle.digest), Some(bundle));
        assert_eq!(fs::read_dir(state.path().join(DIR)).unwrap().count(), 1);
    }

    #[test]
    fn anything_off_is_as_good_as_nothing() {
        let bundle = bundle();
        let other = "0".repeat(64);
        type Spoil<'a> = &'a dyn Fn(&Path);
        let spoilers: [(&str, Spoil<'_>); 9] = [
            ("another digest", &|path| {
                fs::rename(path, path.with_file_name(format!("{other}{ENDING}"))).unwrap();
            }),
            ("group may write", &|path| {
                fs::set_permissions(path, Permissions::from_mode(0o620)).unwrap();
            }),
            ("a link", &|path| {
                fs::rename(path, path.with_extension("real")).unwrap();
                symlink(path.with_extension("real"), path).unwrap();
            }),
            ("a pipe", &|path| {
                fs::remove_file(path).unwrap();
                nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRUSR).unwrap();
            }),
            ("too short", &|path| {
                let bytes = fs::read(path).unwrap();
                fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
            }),
            ("too long", &|path| {
                let mut bytes = fs::read(path).unwrap();
                bytes.push(0);
                fs::write(path, bytes).unwrap();
            }),
            ("empty", &|path| fs::write(path, "").unwrap()),
            ("another format", &|path| {
                let mut bytes = fs::read(path).unwrap();
                bytes[MAGIC.len()] += 1;
                fs::write(path, bytes).unwrap();
            }),
            ("a directory that others may write", &|path| {
                let dir = path.parent().unwrap();
                fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
            }),
        ];
        for (what, spoil) in spoilers {
            let state = tempfile::tempdir().unwrap();
            let path = write(state.path(), &bundle, Readers::Owner).unwrap();
            spoil(&path);
            assert_eq!(read(state.path(), &bundle.digest), None, "{what}");
            assert_eq!(read(state.path(), &other), None, "{what}");
            let opened = open_sources(&[embedded()], only(&[state.path()]));
            assert_eq!(opened.unwrap(), bundle, "{what}");
        }
    }

    #[test]
    fn only_some_are_kept() {
        let state = tempfile::tempdir().unwrap();
        let mut bundle = bundle();
        for number in 0..KEPT + 3 {
            bundle.digest = format!("{number:064}");
            write(state.path(), &bundle, Readers::Owner).unwrap();
        }
        assert_eq!(fs::read_dir(state.path().join(DIR)).unwrap().count(), KEPT);
        assert!(read(state.path(), &bundle.digest).is_some());
    }

    #[test]
    fn what_was_compiled_names_the_files_where_they_are() {
        let home = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let dir = home.path().join(name);
            let exceptions = "format = 1\n[[exception]]\nid = 'x'\nreason = 'r'\nowner = 'o'\n\
                policies = ['workspace:y']\nexpires = 2099-01-01\ntools = ['bash']\n";
            let files = [
                ("a.cedar".to_owned(), PERMIT.to_owned()),
                ("exceptions.toml".to_owned(), exceptions.to_owned()),
            ];
            let files = files.into();
            let none = Default::default();
            crate::policy::edit::publish(Layer::User, &dir, &none, &files).unwrap();
            let locations = Locations {
                base: Base::Configured(dir),
                ..Locations::default()
            };
            open(&locations, only(&[home.path()])).unwrap()
        };
        let first = open("one");
        write(home.path(), &first, Readers::Owner).unwrap();
        let second = open("two");
        assert_eq!(first.digest, second.digest);
        assert!(second.policies[0].file.ends_with("/two/a.cedar"));
        let exception = &second.settings.exceptions[0];
        assert!(exception.file.ends_with("/two/exceptions.toml"));
    }
}
