//! Policies that came as one signed bundle: what their directory says of itself, and how all of it
//! takes the place of what was there.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::diagnostic::{Code, Problem};
use super::disk::{self, Directory, Refusal, Trust};
use super::edit::{self, Files};
use super::layer::Layer;
use super::source::{
    FILE_COUNT_LIMIT, FILE_LIMIT, SourceFile, Versions, digest_of, read_directory,
};

/// The file that says it, in the directory itself: it changes in the same step as the policies.
pub const FILE: &str = ".bundle.json";

/// The largest statement, in bytes.
const LIMIT: u64 = 64 << 10;

/// A clock may be so many seconds behind the one that was right when the policies were published.
const SLACK: i64 = 300;

/// How deep tests may lie below the directory of policies.
const DEPTH: usize = 4;

/// What becomes of calls once the time of a bundle is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExpiry {
    /// They are judged by it as before; `check`, `doctor` and `policy bundle status` say so.
    #[default]
    Warn,
    /// They are denied.
    Deny,
}

impl OnExpiry {
    /// Each, and the word for it.
    pub const ALL: [(&'static str, Self); 2] = [("warn", Self::Warn), ("deny", Self::Deny)];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// What a published directory says of itself. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The bundle's name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// BLAKE3 over its files, by [`digest`].
    pub digest: String,
    /// BLAKE3 over all that was signed.
    pub identity: String,
    /// What it was built with: the digest names it.
    pub versions: Versions,
    /// The ids of the keys that signed it and count here.
    pub signers: Vec<String>,
    /// Where it came from, without anything secret.
    pub source: String,
    /// When it took the place of what was there.
    pub published: i64,
    /// When its time is over, if ever.
    pub expires: Option<i64>,
    /// What happens then.
    pub on_expiry: OnExpiry,
}

/// Whether the time of a bundle is over, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// It is not.
    Valid,
    /// It is.
    Expired,
    /// Nobody knows: the clock is behind the time when the bundle was published.
    ClockBehind,
}

impl Published {
    /// Whether its time is over at `now`.
    #[must_use]
    pub fn validity(&self, now: i64) -> Validity {
        match self.expires {
            None => Validity::Valid,
            Some(_) if now.saturating_add(SLACK) < self.published => Validity::ClockBehind,
            Some(expires) if expires <= now => Validity::Expired,
            Some(_) => Validity::Valid,
        }
    }
}

/// Now, in seconds since 1970.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// BLAKE3 over the files of a bundle and the versions that it was built with, as the record names
/// policies.
#[must_use]
pub fn digest(versions: &Versions, files: &Files) -> String {
    let files = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    digest_of(versions, std::iter::once(("bundle", files)))
}

/// What the directory of a base layer says of itself; nothing if no bundle was published there.
///
/// # Errors
/// If the statement is there, but cannot be read or is none.
pub fn read(layer: Layer, dir: &Path) -> Result<Option<Published>, Problem> {
    let path = dir.join(FILE);
    // What keeps the directory from being looked into is said by whoever reads the policies.
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let Some(file) = read_guarded(layer, &path, LIMIT)? else {
        return Ok(None);
    };
    match serde_json::from_str(&file.text) {
        Ok(published) => Ok(Some(published)),
        Err(_) => Err(Problem::error(
            Code::Unreadable,
            "this does not say which bundle was published here: publishing it did not come to its end",
        )
        .of(&std::sync::Arc::new(file))
        .help("run `copilot-bridge policy bundle fetch` again")),
    }
}

/// The first of the bundles in those directories whose time is over, by name and version.
#[must_use]
pub fn expired(dirs: &[PathBuf]) -> Option<String> {
    let mut all = dirs.iter().filter_map(|dir| read(Layer::User, dir).ok()?);
    let over = all.find(|published| published.validity(now()) != Validity::Valid)?;
    Some(format!("{} {}", over.name, over.version))
}

/// Notes it if the bundle that was published in a directory has expired.
pub(super) fn look(layer: Layer, dir: &Path, problems: &mut Vec<Problem>) {
    let published = match read(layer, dir) {
        Ok(None) => return,
        Ok(Some(published)) => published,
        Err(problem) => return problems.push(problem),
    };
    let Published { name, version, .. } = &published;
    let why = match published.validity(now()) {
        Validity::Valid => return,
        Validity::Expired => format!("version {version} of the bundle `{name}` has expired"),
        Validity::ClockBehind => format!(
            "the clock is behind the time when version {version} of the bundle `{name}` was published"
        ),
    };
    let problem = match published.on_expiry {
        OnExpiry::Warn => Problem::warning(Code::Expired, why),
        OnExpiry::Deny => Problem::error(Code::Expired, why),
    };
    let file = SourceFile::unread(layer, &dir.join(FILE));
    problems.push(
        problem
            .of(&file)
            .help("`copilot-bridge policy bundle fetch` gets a newer one"),
    );
}

/// A file that decides, beside a base layer's directory or in it; nothing if there is none.
///
/// # Errors
/// If somebody else could write it, or it cannot be read.
pub fn read_guarded(layer: Layer, path: &Path, limit: u64) -> Result<Option<SourceFile>, Problem> {
    let unread = SourceFile::unread(layer, path);
    let refused = |refusal| {
        match refusal {
            Refusal::Io(text) => {
                Problem::error(Code::Unreadable, format!("cannot be read: {text}"))
            }
            Refusal::Unsafe(text, help) => Problem::error(Code::UnsafeFile, text).help(help),
            Refusal::TooLarge => {
                Problem::error(Code::TooLarge, format!("this file may have {limit} bytes"))
            }
        }
        .of(&unread)
    };
    let (Some(parent), Some(name)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(None);
    };
    if path
        .symlink_metadata()
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    {
        return Ok(None);
    }
    let Some(directory) = Directory::open(parent, Trust::OwnerOnly).map_err(refused)? else {
        return Ok(None);
    };
    let bytes = directory
        .read(name, Trust::OwnerOnly, limit)
        .map_err(refused)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Problem::error(Code::Unreadable, "the file is not UTF-8").of(&unread))?;
    Ok(Some(SourceFile {
        layer,
        name: name.to_owned(),
        path: unread.path.clone(),
        text,
    }))
}

/// All files of a directory that a bundle holds: policies, their tests, and what is said of them.
///
/// # Errors
/// Every problem, if a file cannot be read or must not be.
pub fn content(layer: Layer, dir: &Path) -> Result<Files, Vec<Problem>> {
    let mut problems = Vec::new();
    let source = read_directory(layer, dir, &mut problems);
    problems.retain(Problem::is_error);
    let mut files: Files = match source {
        Some(source) if problems.is_empty() => {
            let files = source.files.iter();
            files
                .map(|file| (file.name.clone(), file.text.clone()))
                .collect()
        }
        Some(_) => return Err(problems),
        None => {
            let unread = SourceFile::unread(layer, dir);
            return Err(vec![
                Problem::error(Code::MissingPolicies, "there is no such directory").of(&unread),
            ]);
        }
    };
    let mut more = Vec::new();
    beside(dir, "", 0, &mut more).map_err(|error| vec![unreadable(layer, dir, &error)])?;
    for name in more {
        let path = dir.join(&name);
        if let Some(file) =
            read_guarded(layer, &path, FILE_LIMIT).map_err(|problem| vec![problem])?
        {
            files.insert(name, file.text);
        }
    }
    if files.len() > FILE_COUNT_LIMIT {
        let text = format!("a bundle has {FILE_COUNT_LIMIT} files at most");
        let unread = SourceFile::unread(layer, dir);
        return Err(vec![Problem::error(Code::TooLarge, text).of(&unread)]);
    }
    Ok(files)
}

/// The names of files that are no policies, but belong to them.
fn beside(dir: &Path, below: &str, depth: usize, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir.join(below))? {
        let entry = entry?;
        let Ok(file) = entry.file_name().into_string() else {
            continue;
        };
        let name = match below {
            "" => file,
            below => format!("{below}/{file}"),
        };
        if entry.file_type()?.is_dir() {
            if depth < DEPTH && !name.starts_with('.') {
                beside(dir, &name, depth + 1, names)?;
            }
        } else if is_beside(&name) {
            names.push(name);
        }
    }
    Ok(())
}

/// Whether a file of that name is no policy, but belongs to them: a test, or what is said of them.
#[must_use]
pub fn is_beside(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    match folder {
        "" | "redaction" | "rosters" => matches!(file, "README.md" | "NOTICE"),
        folder => {
            (folder == "tests" || folder.starts_with("tests/"))
                && !file.starts_with('.')
                && (file.ends_with(".toml") || file.ends_with(".md"))
        }
    }
}

/// Puts files in the place of all that a directory holds, and the statement beside them. A hook sees
/// what was there, or all of it; where the system cannot exchange directories, it denies meanwhile.
///
/// # Errors
/// If somebody else is changing the policies, or a file cannot be written. What was there is then
/// there still, or the directory says that publishing did not come to its end.
pub fn replace(
    layer: Layer,
    dir: &Path,
    files: &Files,
    published: &Published,
) -> Result<(), Problem> {
    let unwritable = |error: io::Error| edit::unwritable(layer, dir, &error);
    let statement = serde_json::to_vec(published).map_err(|error| unwritable(error.into()))?;
    let parent = dir.parent().unwrap_or(dir);
    disk::create_dir(parent, 0o755).map_err(unwritable)?;
    let there = dir.is_dir();
    let lock = there.then(|| edit::lock(layer, dir)).transpose()?;
    let new = tempfile::Builder::new()
        .prefix(".publish-")
        .tempdir_in(parent)
        .map_err(unwritable)?;
    fill(new.path(), files, &statement).map_err(unwritable)?;
    let mode = if there { disk::mode(dir) } else { None };
    set_mode(new.path(), mode.unwrap_or(0o755)).map_err(unwritable)?;
    let done = match there {
        true => disk::swap(new.path(), dir).map_err(unwritable)?,
        false => fs::rename(new.path(), dir)
            .map(|()| true)
            .map_err(unwritable)?,
    };
    if done {
        sync(parent).map_err(unwritable)?;
    } else {
        one_by_one(dir, files, &statement).map_err(unwritable)?;
    }
    drop(lock);
    Ok(())
}

fn fill(dir: &Path, files: &Files, statement: &[u8]) -> io::Result<()> {
    for (name, bytes) in files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .chain([(FILE, statement)])
    {
        let path = dir.join(name);
        if let Some(below) = path.parent().filter(|below| *below != dir) {
            disk::create_dir(below, 0o755)?;
        }
        let mut file = fs::File::create_new(&path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        set_mode(&path, 0o644)?;
    }
    Ok(())
}

/// Without an exchange of directories: a statement that is none denies until all files are there.
fn one_by_one(dir: &Path, files: &Files, statement: &[u8]) -> io::Result<()> {
    disk::replace(&dir.join(FILE), b"publishing\n", 0o644)?;
    let mut old = Vec::new();
    all(dir, &mut old)?;
    for path in old {
        let name = path.strip_prefix(dir).unwrap_or(&path).to_string_lossy();
        let stays = files.contains_key(name.as_ref()) || name.starts_with('.');
        if !stays {
            fs::remove_file(&path)?;
        }
    }
    for (name, text) in files {
        let path = dir.join(name);
        if let Some(below) = path.parent().filter(|below| *below != dir) {
            disk::create_dir(below, 0o755)?;
        }
        disk::replace(&path, text.as_bytes(), 0o644)?;
    }
    disk::replace(&dir.join(FILE), statement, 0o644)
}

fn all(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            all(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    return fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    {
        let _ = (path, mode);
        Ok(())
    }
}

fn sync(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return fs::File::open(dir)?.sync_all();
    #[cfg(not(unix))]
    {
        let _ = dir;
        Ok(())
    }
}

fn unreadable(layer: Layer, dir: &Path, error: &io::Error) -> Problem {
    Problem::error(
        Code::Unreadable,
        format!("cannot be read: {}", error.kind()),
    )
    .of(&SourceFile::unread(layer, dir))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::PERMIT;
    use crate::policy::{Base, Locations, check, load};

    fn files(texts: &[(&str, &str)]) -> Files {
        let texts = texts.iter();
        texts
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn published(files: &Files) -> Published {
        Published {
            name: "acme".to_owned(),
            version: 7,
            digest: digest(&Versions::current(), files),
            identity: "0".repeat(64),
            versions: Versions::current(),
            signers: vec!["0123456789abcdef".to_owned()],
            source: "file:///x".to_owned(),
            published: now(),
            expires: None,
            on_expiry: OnExpiry::Warn,
        }
    }

    #[test]
    fn all_of_it_takes_the_place_of_all_that_was_there() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("policies");
        let first = files(&[("a.cedar", PERMIT), ("tests/a/b.toml", "x")]);
        replace(Layer::User, &dir, &first, &published(&first)).unwrap();
        assert_eq!(content(Layer::User, &dir).unwrap(), first);
        fs::write(dir.join("README.md"), "mine").unwrap();
        let second = files(&[("b.cedar", PERMIT)]);
        replace(Layer::User, &dir, &second, &published(&second)).unwrap();
        assert_eq!(content(Layer::User, &dir).unwrap(), second);
        let said = read(Layer::User, &dir).unwrap().unwrap();
        assert_eq!(said, published(&second));
        assert_eq!(
            fs::read_dir(home.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn without_an_exchange_the_result_is_the_same_and_half_of_it_denies() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("policies");
        let first = files(&[("a.cedar", PERMIT), ("tests/b.toml", "x")]);
        replace(Layer::User, &dir, &first, &published(&first)).unwrap();
        let second = files(&[("b.cedar", PERMIT), ("redaction/NOTICE", "x")]);
        one_by_one(
            &dir,
            &second,
            &serde_json::to_vec(&published(&second)).unwrap(),
        )
        .unwrap();
        assert_eq!(content(Layer::User, &dir).unwrap(), second);
        fs::write(dir.join(FILE), "publishing\n").unwrap();
        let locations = Locations {
            base: Base::Configured(dir),
            ..Locations::default()
        };
        assert_eq!(load(&locations).unwrap_err()[0].code, Code::Unreadable);
    }

    #[test]
    fn what_has_expired_is_said_or_denies() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("policies");
        let files = files(&[("a.cedar", PERMIT)]);
        let locations = Locations {
            base: Base::Configured(dir.clone()),
            ..Locations::default()
        };
        let codes = |expires: Option<i64>, published_at: i64, on_expiry: OnExpiry| {
            let said = Published {
                published: published_at,
                expires,
                on_expiry,
                ..published(&files)
            };
            replace(Layer::User, &dir, &files, &said).unwrap();
            let checked = check(&locations);
            let codes: Vec<_> = checked.problems.iter().map(|one| one.code).collect();
            (codes, checked.bundle.is_some())
        };
        let (past, future) = (now() - 10, now() + 1000);
        assert_eq!(codes(None, past, OnExpiry::Deny), (vec![], true));
        assert_eq!(codes(Some(future), past, OnExpiry::Deny), (vec![], true));
        let expired = vec![Code::Expired];
        assert_eq!(
            codes(Some(past), past, OnExpiry::Warn),
            (expired.clone(), true)
        );
        assert_eq!(
            codes(Some(past), past, OnExpiry::Deny),
            (expired.clone(), false)
        );
        // A clock that was put back does not make it young again.
        assert_eq!(
            codes(Some(future + 9), future, OnExpiry::Deny),
            (expired, false)
        );
    }
}
