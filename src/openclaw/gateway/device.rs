//! What this installation is to a gateway: a device with an Ed25519 key of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use sha2::{Digest, Sha256};

use crate::audit::AuditError;
use crate::audit::private::create_private_dir;
use crate::keys::{KeyError, SigningKey};

/// This installation, as gateways know it.
#[derive(Debug, Clone)]
pub struct Device {
    key: Arc<SigningKey>,
}

/// What a signature speaks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) client: &'a str,
    pub(super) mode: &'a str,
    pub(super) role: &'a str,
    pub(super) scopes: &'a [&'a str],
    /// Milliseconds since 1970, from the gateway's challenge.
    pub(super) signed_at: i64,
    pub(super) token: &'a str,
    pub(super) nonce: &'a str,
    pub(super) platform: &'a str,
}

impl Claim<'_> {
    /// What is signed.
    fn text(&self, id: &str) -> String {
        let Self {
            client,
            mode,
            role,
            scopes,
            signed_at,
            token,
            nonce,
            platform,
        } = self;
        let scopes = scopes.join(",");
        // The last field is the device's family, which this one has not.
        format!("v3|{id}|{client}|{mode}|{role}|{scopes}|{signed_at}|{token}|{nonce}|{platform}|")
    }
}

impl Device {
    /// The device of an installation, made if there is none yet. Parallel first calls agree on one.
    ///
    /// # Errors
    /// If the key cannot be read or made, belongs to another user, or others may read it.
    pub fn of(state: &Path) -> Result<Self, KeyError> {
        let path = path(state);
        if path.symlink_metadata().is_err() {
            create(state, &path)?;
        }
        let nobody = || {
            Err(KeyError(
                "the device's key is behind a passphrase".to_owned(),
            ))
        };
        let key = Arc::new(SigningKey::read(&path, nobody)?);
        Ok(Self { key })
    }

    /// SHA-256 of the public key, in hexadecimal.
    pub(super) fn id(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(self.key.public().to_bytes()))
    }

    pub(super) fn public_key(&self) -> String {
        BASE64URL_NOPAD.encode(&self.key.public().to_bytes())
    }

    pub(super) fn sign(&self, claim: &Claim<'_>) -> String {
        let signature = self.key.sign(claim.text(&self.id()).as_bytes());
        BASE64URL_NOPAD.encode(&signature.to_bytes())
    }
}

/// Where the key of an installation's device is.
fn path(state: &Path) -> PathBuf {
    state.join("openclaw-device-key.pem")
}

fn create(state: &Path, path: &Path) -> Result<(), KeyError> {
    let failed = |error: io::Error| KeyError(AuditError::io("make the key", path, &error).0);
    create_private_dir(state).map_err(|error| KeyError(error.0))?;
    // Made whole under another name, so that no reader sees half a key.
    let dir = tempfile::TempDir::new_in(state).map_err(failed)?;
    let made = dir.path().join("key.pem");
    SigningKey::generate()?.write(&made, None)?;
    match fs::hard_link(&made, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{PublicKey, Signature};
    use data_encoding::BASE64;
    use std::os::unix::fs::PermissionsExt;

    /// What OpenClaw 2026.9.6 accepted from another client.
    #[test]
    fn what_is_signed_is_what_a_gateway_verifies() {
        let id = "ed62346249da7f3abece89caeeeeeb74d194c41d4aaed20bf670ef77ddfa6eb6";
        let token = ["gw", "secret", "123"].join("-");
        let claim = Claim {
            client: "cli",
            mode: "cli",
            role: "operator",
            scopes: &["operator.read", "operator.write"],
            signed_at: 1_795_206_540_177,
            token: &token,
            nonce: "a5e31e6b-e98a-49e8-b30d-2a2660a3bef9",
            platform: "linux",
        };
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).unwrap();
        let key = decode("I4Vpw6UMsXjnPhXFH_6XICHGFkLGF78WwDXBYvPbXBc");
        assert_eq!(HEXLOWER.encode(&Sha256::digest(&key)), id);
        let key: PublicKey = format!("ed25519:{}", BASE64.encode(&key)).parse().unwrap();
        let signature = decode(
            "DtNQ1cDSQyRa2BTvl9IhVxiqIWxLkOzo70mH83ogXSIMkJ45J3-KlD5hOxZ2m2AAFzLwaV-RTiQ3yQ7ga_j5Bw",
        );
        let signature = Signature::from_slice(&signature).unwrap();
        assert!(key.verifies(claim.text(id).as_bytes(), &signature));
        let other = Claim {
            scopes: &["operator.read"],
            ..claim
        };
        assert!(!key.verifies(other.text(id).as_bytes(), &signature));
    }

    #[test]
    fn an_installation_is_one_device() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let ids: Vec<String> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Device::of(&state).unwrap().id()))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]));
        let mode = path(&state).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
        fs::set_permissions(path(&state), fs::Permissions::from_mode(0o644)).unwrap();
        let error = Device::of(&state).unwrap_err().to_string();
        assert!(
            error.ends_with("can be used by others than its owner"),
            "{error}"
        );
    }
}
