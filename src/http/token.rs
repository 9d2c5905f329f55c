//! The tokens that open the doors: one of the installation, and any number that were minted for a while
//! (R-003-08, R-003-51, R-003-53, R-003-60).
//!
//! They are compared by their digests and in constant time, so that neither their bytes nor their length
//! shows in how long it takes.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::audit::AuditError;
use crate::audit::private::{check_owner, create_private_dir, private};

/// The variable that names the token of the installation, instead of its file.
pub const VARIABLE: &str = "COPILOT_BRIDGE_TOKEN";

/// A shorter token of an installation could be guessed, in characters.
const SHORTEST: usize = 32;

/// No header has room for a longer one.
const LONGEST: usize = 4096;

/// No token is minted for longer.
pub const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Files are looked at this often at most.
const PAUSE: Duration = Duration::from_secs(1);

/// What a minted token begins with.
const MINTED: &str = "cbt_";

/// What the HMAC is for, so that no other use of a key gives the same values.
const DOMAIN: &[u8] = b"copilot-bridge/token/v1\0";

/// What a minted token is made of: when it ends, what makes it different from all others, the HMAC.
const ENDS: usize = 8;
const NONCE: usize = 8;
const MAC: usize = 32;

type Fingerprint = [u8; 32];

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// It is none of this installation.
    Wrong,
    /// It was minted here, and its time is over.
    Expired,
}

/// The tokens that count. What the state directory holds is looked at again while a server runs, so that
/// a rotated token is out within a second.
pub struct Tokens {
    said: Option<Fingerprint>,
    state: PathBuf,
    current: Mutex<Current>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

struct Current {
    looked: Instant,
    own: Option<Fingerprint>,
    key: Option<[u8; 32]>,
}

impl Tokens {
    /// The tokens of an installation; `said` is what [`VARIABLE`] says, which counts instead of the file.
    ///
    /// # Errors
    /// In words, if there is none, one is too short, or others could have read it.
    pub fn of(state: &Path, said: Option<&str>) -> Result<Self, String> {
        let said = match said {
            Some(text) => {
                usable(text).map_err(|why| format!("the token in `{VARIABLE}` {why}"))?;
                Some(fingerprint(text))
            }
            None => None,
        };
        let current = look(state, said.is_none()).map_err(|error| error.0)?;
        if said.is_none() && current.own.is_none() && current.key.is_none() {
            return Err(format!(
                "there is no token: set `{VARIABLE}`, or run `copilot-bridge init`, which makes `{}`",
                path(state).display()
            ));
        }
        Ok(Self {
            said,
            state: state.to_path_buf(),
            current: Mutex::new(current),
        })
    }

    /// Whether a token counts, at a time in seconds since 1970.
    ///
    /// # Errors
    /// If it does not.
    pub fn accept(&self, token: &str, now: i64) -> Result<(), Rejected> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= PAUSE {
            // What cannot be read any more opens nothing.
            *current = look(&self.state, self.said.is_none()).unwrap_or(Current {
                looked: Instant::now(),
                own: None,
                key: None,
            });
        }
        let presented = fingerprint(token);
        let own = self.said.or(current.own);
        if own.is_some_and(|own| bool::from(own.ct_eq(&presented))) {
            return Ok(());
        }
        let ends = current.key.and_then(|key| ends(token, &key));
        match ends {
            Some(ends) if now < ends => Ok(()),
            Some(_) => Err(Rejected::Expired),
            None => Err(Rejected::Wrong),
        }
    }
}

/// Where the token of an installation is.
#[must_use]
pub fn path(state: &Path) -> PathBuf {
    state.join("token")
}

/// Where the key is that minted tokens are signed with.
#[must_use]
pub fn key_path(state: &Path) -> PathBuf {
    state.join("token-key")
}

/// Makes the token of an installation, of 32 random bytes, if it has none yet. Says whether it did.
///
/// # Errors
/// If it cannot be made, or one is there that cannot be used.
pub fn create(state: &Path) -> Result<bool, AuditError> {
    let path = path(state);
    if own(&path)?.is_some() {
        return Ok(false);
    }
    let text = format!("{}\n", BASE64URL_NOPAD.encode(&random::<32>()?));
    let made = write(state, &path, text.as_bytes(), false)?;
    own(&path)?;
    Ok(made)
}

/// A token that counts for a while, from a time in seconds since 1970.
///
/// # Errors
/// If the key that it is signed with cannot be read or made.
pub fn mint(state: &Path, ttl: Duration, now: i64) -> Result<String, AuditError> {
    let path = key_path(state);
    let key = match key(&path)? {
        Some(key) => key,
        None => {
            write(state, &path, &random::<32>()?, false)?;
            key(&path)?.ok_or_else(|| AuditError(format!("`{}` is gone", path.display())))?
        }
    };
    let ends = now.saturating_add(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
    let mut bytes = ends.to_be_bytes().to_vec();
    bytes.extend(random::<NONCE>()?);
    bytes.extend(mac(&key, &bytes));
    Ok(format!("{MINTED}{}", BASE64URL_NOPAD.encode(&bytes)))
}

/// Puts a new token in place of the one of the installation, and ends all that were minted.
///
/// # Errors
/// If one of the files cannot be written.
pub fn rotate(state: &Path) -> Result<(), AuditError> {
    let text = format!("{}\n", BASE64URL_NOPAD.encode(&random::<32>()?));
    write(state, &key_path(state), &random::<32>()?, true)?;
    write(state, &path(state), text.as_bytes(), true)?;
    Ok(())
}

fn fingerprint(token: &str) -> Fingerprint {
    Sha256::digest(token.as_bytes()).into()
}

/// When a token that was minted with that key ends.
fn ends(token: &str, key: &[u8; 32]) -> Option<i64> {
    let text = token.strip_prefix(MINTED)?;
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
    let bytes: [u8; ENDS + NONCE + MAC] = bytes.try_into().ok()?;
    let (said, found) = bytes.split_at(ENDS + NONCE);
    if !bool::from(mac(key, said).as_slice().ct_eq(found)) {
        return None;
    }
    said.first_chunk().copied().map(i64::from_be_bytes)
}

fn mac(key: &[u8; 32], said: &[u8]) -> [u8; MAC] {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        // HMAC takes keys of any length.
        return [0; MAC];
    };
    mac.update(DOMAIN);
    mac.update(said);
    mac.finalize().into_bytes().into()
}

fn usable(token: &str) -> Result<(), String> {
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds a character that no header may have".to_owned());
    }
    match token.len() {
        ..SHORTEST => Err(format!("is shorter than {SHORTEST} characters")),
        SHORTEST..=LONGEST => Ok(()),
        _ => Err(format!("is longer than {LONGEST} characters")),
    }
}

fn look(state: &Path, with_own: bool) -> Result<Current, AuditError> {
    let own = match with_own {
        true => own(&path(state))?,
        false => None,
    };
    Ok(Current {
        looked: Instant::now(),
        own,
        key: key(&key_path(state))?,
    })
}

fn own(path: &Path) -> Result<Option<Fingerprint>, AuditError> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    let refuse = |why: String| AuditError(format!("the token in `{}` {why}", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| refuse("is no text".to_owned()))?;
    let token = text.trim_end_matches(['\r', '\n']);
    usable(token).map_err(refuse)?;
    Ok(Some(fingerprint(token)))
}

fn key(path: &Path) -> Result<Option<[u8; 32]>, AuditError> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    let key = bytes.try_into();
    key.map(Some)
        .map_err(|_| AuditError(format!("`{}` is no key of 32 bytes", path.display())))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, AuditError> {
    let file = match private(OpenOptions::new().read(true)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(AuditError::io("open", path, &error)),
    };
    check_owner(&file, path)?;
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 2)
        .read_to_end(&mut bytes)
        .map_err(|error| AuditError::io("read", path, &error))?;
    Ok(Some(bytes))
}

/// Writes a file whole, for its owner only. Says whether it did: another may have been faster.
fn write(state: &Path, path: &Path, bytes: &[u8], over: bool) -> Result<bool, AuditError> {
    create_private_dir(state)?;
    let failed = |error: std::io::Error| AuditError::io("write", path, &error);
    let mut file = tempfile::NamedTempFile::new_in(state).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    if over {
        file.persist(path).map_err(|error| failed(error.error))?;
        return Ok(true);
    }
    match file.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error.error)),
    }
}

fn random<const N: usize>() -> Result<[u8; N], AuditError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| AuditError(format!("no random bytes for a token: {error}")))?;
    Ok(bytes)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const HOUR: Duration = Duration::from_secs(3600);

    fn text(state: &Path) -> String {
        let text = fs::read_to_string(path(state)).unwrap();
        text.trim_end().to_owned()
    }

    #[test]
    fn one_token_is_made_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert!(create(dir.path()).unwrap());
        let token = text(dir.path());
        assert_eq!(token.len(), 43);
        assert!(!create(dir.path()).unwrap());
        assert_eq!(text(dir.path()), token);
        let mode = fs::metadata(path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let tokens = Tokens::of(dir.path(), None).unwrap();
        assert_eq!(tokens.accept(&token, 0), Ok(()));
        for wrong in ["", "x", token.get(1..).unwrap(), &format!("{token}x")] {
            assert_eq!(tokens.accept(wrong, 0), Err(Rejected::Wrong), "{wrong}");
        }
    }

    #[test]
    fn a_minted_token_counts_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let token = mint(dir.path(), HOUR, 1_000).unwrap();
        let tokens = Tokens::of(dir.path(), None).unwrap();
        assert_eq!(tokens.accept(&token, 1_000), Ok(()));
        assert_eq!(tokens.accept(&token, 4_599), Ok(()));
        assert_eq!(tokens.accept(&token, 4_600), Err(Rejected::Expired));
        assert_ne!(mint(dir.path(), HOUR, 1_000).unwrap(), token);
        // Whoever changes when it ends, or anything else, has no token.
        let bytes = BASE64URL_NOPAD
            .decode(token.strip_prefix(MINTED).unwrap().as_bytes())
            .unwrap();
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 1;
            let other = format!("{MINTED}{}", BASE64URL_NOPAD.encode(&other));
            assert_eq!(tokens.accept(&other, 1_000), Err(Rejected::Wrong));
        }
        let elsewhere = tempfile::tempdir().unwrap();
        let foreign = mint(elsewhere.path(), HOUR, 1_000).unwrap();
        assert_eq!(tokens.accept(&foreign, 1_000), Err(Rejected::Wrong));
    }

    #[test]
    fn rotation_ends_all_tokens_of_a_running_server() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path()).unwrap();
        let (own, minted) = (text(dir.path()), mint(dir.path(), HOUR, 0).unwrap());
        let tokens = Tokens::of(dir.path(), None).unwrap();
        assert_eq!(tokens.accept(&own, 0), Ok(()));
        rotate(dir.path()).unwrap();
        tokens.current.lock().unwrap().looked = Instant::now().checked_sub(PAUSE).unwrap();
        assert_eq!(tokens.accept(&own, 0), Err(Rejected::Wrong));
        assert_eq!(tokens.accept(&minted, 0), Err(Rejected::Wrong));
        assert_eq!(tokens.accept(&text(dir.path()), 0), Ok(()));
        fs::remove_file(path(dir.path())).unwrap();
        tokens.current.lock().unwrap().looked = Instant::now().checked_sub(PAUSE).unwrap();
        assert_eq!(tokens.accept("", 0), Err(Rejected::Wrong));
    }

    #[test]
    fn what_the_environment_says_counts_instead_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        create(dir.path()).unwrap();
        let said = "a".repeat(32);
        let tokens = Tokens::of(dir.path(), Some(&said)).unwrap();
        assert_eq!(tokens.accept(&said, 0), Ok(()));
        assert_eq!(tokens.accept(&text(dir.path()), 0), Err(Rejected::Wrong));
    }

    #[test]
    fn without_a_token_nothing_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |said: Option<&str>| Tokens::of(dir.path(), said).unwrap_err();
        let file = path(dir.path());
        let shown = file.display();
        assert_eq!(
            refused(None),
            format!(
                "there is no token: set `COPILOT_BRIDGE_TOKEN`, or run `copilot-bridge init`, which makes `{shown}`"
            )
        );
        assert_eq!(
            refused(Some("")),
            "the token in `COPILOT_BRIDGE_TOKEN` is shorter than 32 characters"
        );
        assert_eq!(
            refused(Some(&"a b".repeat(32))),
            "the token in `COPILOT_BRIDGE_TOKEN` holds a character that no header may have"
        );
        fs::write(&file, "short\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(
            refused(None),
            format!("the token in `{shown}` is shorter than 32 characters")
        );
        fs::write(&file, "a".repeat(40)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(
            refused(None),
            format!("`{shown}` can be used by others than its owner")
        );
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("elsewhere", &file).unwrap();
        assert!(
            refused(None).starts_with("cannot open"),
            "{}",
            refused(None)
        );
    }
}
