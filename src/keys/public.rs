//! Public keys, as policies name them, and what they verify.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE64, HEXLOWER};
use ed25519_dalek::Verifier;
use sha2::{Digest, Sha256};

/// What a public key's line starts with.
const PREFIX: &str = "ed25519:";

/// A key that verifies, Ed25519 (RFC 8032).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(pub(super) ed25519_dalek::VerifyingKey);

/// A signature, Ed25519 (RFC 8032).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub(super) ed25519_dalek::Signature);

/// Why a key cannot be used, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError(pub String);

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KeyError {}

impl PublicKey {
    /// Whether the signature is this key's over those bytes.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &Signature) -> bool {
        self.0.verify(message, &signature.0).is_ok()
    }

    /// The 32 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// What the key is called where it need not be written out: 16 hexadecimal digits of its SHA-256.
    #[must_use]
    pub fn id(&self) -> String {
        let mut id = HEXLOWER.encode(&Sha256::digest(self.0.as_bytes()));
        id.truncate(16);
        id
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE64.encode(self.0.as_bytes()))
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let wrong = || {
            KeyError(format!(
                "a public key is `{PREFIX}` and 44 characters of Base64"
            ))
        };
        let encoded = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| wrong())?;
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| wrong())?;
        let key = ed25519_dalek::VerifyingKey::from_bytes(&bytes).map_err(|_| wrong())?;
        // Anybody can sign for a key of small order.
        if key.is_weak() {
            return Err(wrong());
        }
        Ok(Self(key))
    }
}

impl Signature {
    /// The 64 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 64] {
        self.0.to_bytes()
    }

    /// The signature of those 64 bytes.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        ed25519_dalek::Signature::from_slice(bytes).ok().map(Self)
    }
}
