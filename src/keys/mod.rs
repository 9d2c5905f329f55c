//! Keys of people: who approves, and who signs policies. The installation's own keys, which sign
//! checkpoints and hide values, are the record's.
//!
//! A private key is a PKCS#8 file in PEM (RFC 5958), behind a passphrase (PBES2 with scrypt and
//! AES-256, RFC 8018 and RFC 7914), as OpenSSL reads and writes it. A public key is one line:
//! `ed25519:` and Base64.

pub mod envelope;
pub mod public;

use std::fmt;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;

use ed25519_dalek::Signer;
use ed25519_dalek::pkcs8::EncodePrivateKey;
use pkcs8::der::pem::{LineEnding, PemLabel};
use pkcs8::der::zeroize::Zeroizing;
use pkcs8::pkcs5::{pbes2, scrypt};
use pkcs8::{DecodePrivateKey, EncryptedPrivateKeyInfo, PrivateKeyInfo, SecretDocument};

use crate::audit::private::{check_owner, private};
pub use public::{KeyError, PublicKey, Signature};

/// No key file is longer, in bytes.
const FILE_LIMIT: u64 = 16 << 10;

/// The cost of a guess at a passphrase: 64 MiB and some tenths of a second.
const SCRYPT_LOG_N: u8 = 16;

/// A key that signs, Ed25519 (RFC 8032).
pub struct SigningKey(ed25519_dalek::SigningKey);

/// A passphrase, which leaves the memory when it was used.
pub type Passphrase = Zeroizing<String>;

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.public()).finish()
    }
}

impl SigningKey {
    /// A new key.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; 32]);
        random(&mut *seed)?;
        Ok(Self(ed25519_dalek::SigningKey::from_bytes(&seed)))
    }

    /// The key in a file. `passphrase` is asked only where the file is behind one.
    ///
    /// # Errors
    /// If the file cannot be read, others than its owner can use it, it holds no Ed25519 key, or the
    /// passphrase is wrong.
    pub fn read(
        path: &Path,
        passphrase: impl FnOnce() -> Result<Passphrase, KeyError>,
    ) -> Result<Self, KeyError> {
        let named = |error: String| KeyError(format!("`{}` {error}", path.display()));
        let mut options = OpenOptions::new();
        let file = private(options.read(true))
            .open(path)
            .map_err(|error| KeyError(failed("read", path, &error)))?;
        check_owner(&file, path).map_err(|error| KeyError(error.0))?;
        let mut pem = Passphrase::default();
        file.take(FILE_LIMIT)
            .read_to_string(&mut pem)
            .map_err(|error| KeyError(failed("read", path, &error)))?;
        let no_key = |_| named("holds no Ed25519 key in PKCS#8".to_owned());
        let (label, document) =
            SecretDocument::from_pem(&pem).map_err(|_| named("is no key in PEM".to_owned()))?;
        if label != EncryptedPrivateKeyInfo::PEM_LABEL {
            let key = ed25519_dalek::SigningKey::from_pkcs8_der(document.as_bytes());
            return key.map(Self).map_err(no_key);
        }
        let locked = EncryptedPrivateKeyInfo::try_from(document.as_bytes())
            .map_err(|_| named("is no key in PKCS#8".to_owned()))?;
        let open = locked
            .decrypt(passphrase()?.as_bytes())
            .map_err(|_| named("does not open with that passphrase".to_owned()))?;
        let key = ed25519_dalek::SigningKey::from_pkcs8_der(open.as_bytes());
        key.map(Self).map_err(no_key)
    }

    /// Writes the key into a new file that only its owner may use, behind the passphrase if there is
    /// one.
    ///
    /// # Errors
    /// If the file is there already or cannot be written.
    pub fn write(&self, path: &Path, passphrase: Option<&Passphrase>) -> Result<(), KeyError> {
        let broken = || KeyError("the key cannot be put into PKCS#8".to_owned());
        let open = self.0.to_pkcs8_der().map_err(|_| broken())?;
        let pem = match passphrase {
            None => open.to_pem(PrivateKeyInfo::PEM_LABEL, LineEnding::LF),
            Some(passphrase) => {
                lock(&open, passphrase)?.to_pem(EncryptedPrivateKeyInfo::PEM_LABEL, LineEnding::LF)
            }
        };
        let pem = pem.map_err(|_| broken())?;
        let mut options = OpenOptions::new();
        private(options.create_new(true).write(true))
            .open(path)
            .and_then(|mut file| {
                file.write_all(pem.as_bytes())?;
                file.sync_all()
            })
            .map_err(|error| KeyError(failed("write", path, &error)))
    }

    /// The key that verifies what this one signs.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs those bytes.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message))
    }
}

/// The key behind a passphrase.
fn lock(open: &SecretDocument, passphrase: &Passphrase) -> Result<SecretDocument, KeyError> {
    let (mut salt, mut iv) = ([0; 16], [0; 16]);
    random(&mut salt)?;
    random(&mut iv)?;
    let broken = || KeyError("the key cannot be put behind the passphrase".to_owned());
    let cost = scrypt::Params::new(SCRYPT_LOG_N, 8, 1, 32).map_err(|_| broken())?;
    let parameters = pbes2::Parameters::scrypt_aes256cbc(cost, &salt, &iv).map_err(|_| broken())?;
    let info = PrivateKeyInfo::try_from(open.as_bytes()).map_err(|_| broken())?;
    info.encrypt_with_params(parameters, passphrase.as_bytes())
        .map_err(|_| broken())
}

fn random(bytes: &mut [u8]) -> Result<(), KeyError> {
    getrandom::fill(bytes).map_err(|_| KeyError("the system has no random bytes".to_owned()))
}

fn failed(verb: &str, path: &Path, error: &std::io::Error) -> String {
    crate::audit::AuditError::io(verb, path, error).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody_asks() -> Result<Passphrase, KeyError> {
        panic!("nobody should be asked")
    }

    #[test]
    fn a_key_comes_back_from_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let key = SigningKey::generate().unwrap();
        let open = dir.path().join("open.pem");
        key.write(&open, None).unwrap();
        let read = SigningKey::read(&open, nobody_asks).unwrap();
        assert_eq!(read.public(), key.public());
        assert!(key.write(&open, None).unwrap_err().0.contains("open.pem"));

        let locked = dir.path().join("locked.pem");
        let passphrase = Passphrase::from("correct horse".to_owned());
        key.write(&locked, Some(&passphrase)).unwrap();
        let text = std::fs::read_to_string(&locked).unwrap();
        assert!(text.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
        let read = SigningKey::read(&locked, || Ok(passphrase)).unwrap();
        assert_eq!(read.public(), key.public());
        let wrong = SigningKey::read(&locked, || Ok(Passphrase::from("wrong".to_owned())));
        assert!(
            wrong
                .unwrap_err()
                .0
                .ends_with("does not open with that passphrase")
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        SigningKey::generate().unwrap().write(&path, None).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let refused = SigningKey::read(&path, nobody_asks).unwrap_err();
        assert!(
            refused.0.ends_with("can be used by others than its owner"),
            "{refused}"
        );
    }

    #[test]
    fn a_public_key_is_one_line() {
        let key = SigningKey::generate().unwrap().public();
        assert_eq!(key.to_string().parse::<PublicKey>().unwrap(), key);
        assert_eq!(key.id().len(), 16);
        let zero = format!("ed25519:{}=", "A".repeat(43));
        for wrong in ["", "ed25519:", "ed25519:AAAA", zero.as_str(), "rsa:AAAA"] {
            assert!(wrong.parse::<PublicKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_signature_is_for_one_key_and_one_text() {
        let (key, other) = (
            SigningKey::generate().unwrap(),
            SigningKey::generate().unwrap(),
        );
        let signature = key.sign(b"text");
        let signature = Signature::from_slice(&signature.to_bytes()).unwrap();
        assert!(key.public().verifies(b"text", &signature));
        assert!(!key.public().verifies(b"texts", &signature));
        assert!(!other.public().verifies(b"text", &signature));
    }
}
