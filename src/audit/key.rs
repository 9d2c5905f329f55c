//! The installation's key: values in the record are hidden with it, never with a plain hash.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::AuditError;

/// What the HMAC is for, so that no other use of the key gives the same values.
const DOMAIN: &[u8] = b"copilot-bridge/record/v1\0";

/// What another key is derived for.
const PLACEHOLDERS: &[u8] = b"copilot-bridge/placeholders/v1\0";

/// The installation's key for HMAC-SHA256.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A key of those bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key of an installation, made if there is none yet.
    ///
    /// Parallel first calls agree on one key.
    ///
    /// # Errors
    /// If the key cannot be read or made, belongs to another user, or others may read it.
    pub fn of(state: &Path) -> Result<Self, AuditError> {
        let path = path(state);
        if let Some(key) = load(&path)? {
            return Ok(key);
        }
        create(state, &path)?;
        load(&path)?.ok_or_else(|| AuditError(format!("the key `{}` is gone", path.display())))
    }

    /// The key that placeholders depend on: nothing else is made with it.
    #[must_use]
    pub fn for_placeholders(&self) -> [u8; 32] {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            // HMAC takes keys of any length.
            return [0; 32];
        };
        mac.update(PLACEHOLDERS);
        mac.finalize().into_bytes().into()
    }

    /// HMAC-SHA256 of a value, in hexadecimal.
    #[must_use]
    pub fn hmac(&self, value: &[u8]) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            // HMAC takes keys of any length.
            return String::new();
        };
        mac.update(DOMAIN);
        mac.update(value);
        HEXLOWER.encode(&mac.finalize().into_bytes())
    }
}

/// Where the key of an installation is.
#[must_use]
pub fn path(state: &Path) -> PathBuf {
    state.join("key")
}

/// Where the keys are that were in use before: older lines hide values with them.
#[must_use]
pub fn retired(state: &Path) -> PathBuf {
    state.join("retired-keys")
}

/// All keys that an installation ever had, the one in use first.
///
/// # Errors
/// If one of them cannot be read, belongs to another user, or others may read it.
pub fn all(state: &Path) -> Result<Vec<Key>, AuditError> {
    let mut keys = vec![Key::of(state)?];
    let dir = retired(state);
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(keys),
        Err(error) => return Err(AuditError::io("read", &dir, &error)),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "key"));
    paths.sort();
    for path in paths {
        keys.extend(load(&path)?);
    }
    Ok(keys)
}

/// Puts a new key in place of the one in use, which is kept.
///
/// # Errors
/// If a key cannot be read or made. The one in use is then still there.
pub(super) fn rotate(state: &Path, ts: &str) -> Result<(), AuditError> {
    let path = path(state);
    let dir = retired(state);
    super::private::create_private_dir(&dir)?;
    let kept = dir.join(format!("{ts}.key"));
    // A second name, so that it is at no time without one.
    fs::hard_link(&path, &kept).map_err(|error| AuditError::io("keep the key", &kept, &error))?;
    let failed = |error: std::io::Error| AuditError::io("make the key", &path, &error);
    let mut file = tempfile::NamedTempFile::new_in(state).map_err(failed)?;
    file.write_all(&random()?).map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Thirty-two random bytes.
pub(super) fn random() -> Result<[u8; 32], AuditError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| AuditError(format!("no random bytes for the key: {error}")))?;
    Ok(bytes)
}

fn load(path: &Path) -> Result<Option<Key>, AuditError> {
    let mut file = match super::private::private(fs::OpenOptions::new().read(true)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(AuditError::io("open the key", path, &error)),
    };
    super::private::check_owner(&file, path)?;
    let mut bytes = [0; 32];
    file.read_exact(&mut bytes)
        .map_err(|error| AuditError::io("read the key", path, &error))?;
    Ok(Some(Key(bytes)))
}

fn create(state: &Path, path: &Path) -> Result<(), AuditError> {
    super::private::create_private_dir(state)?;
    let failed = |error: std::io::Error| AuditError::io("make the key", path, &error);
    // Made complete under another name and then linked, so that no reader sees half a key.
    let mut file = tempfile::NamedTempFile::new_in(state).map_err(failed)?;
    file.write_all(&random()?).map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error.error)),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn parallel_first_calls_agree() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let values: Vec<String> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| Key::of(&state).unwrap().hmac(b"x")))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(values.iter().all(|value| *value == values[0]));
        assert_eq!(values[0].len(), 64);
        let mode = fs::metadata(path(&state)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Key::of(dir.path()).unwrap();
        fs::set_permissions(path(dir.path()), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Key::of(dir.path()).is_err());
        fs::write(path(dir.path()), b"short").unwrap();
        fs::set_permissions(path(dir.path()), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Key::of(dir.path()).is_err());
    }
}
