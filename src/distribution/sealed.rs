//! The file: a bundle in an envelope, with the signatures of those who vouch for it.

use super::bundle::{About, PolicyBundle};
use super::{Refusal, printable};
use crate::keys::envelope::Envelope;
use crate::keys::{PublicKey, SigningKey};
use crate::policy::edit::Files;

/// What the envelope says that it holds.
pub const PAYLOAD_TYPE: &str = "application/vnd.copilot-bridge.policy-bundle.v1+json";

/// What the types of all forms of bundles begin with.
const ANY_TYPE: &str = "application/vnd.copilot-bridge.policy-bundle.";

/// The largest file, in bytes.
pub const LIMIT: u64 = 16 << 20;

/// A bundle as a file holds it. Nobody has looked at the signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    envelope: Envelope,
}

/// A bundle that enough of the keys that count have signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    bundle: PolicyBundle,
    signers: Vec<PublicKey>,
}

impl Sealed {
    /// The bundle, signed by nobody yet.
    #[must_use]
    pub fn new(bundle: &PolicyBundle) -> Self {
        Self {
            envelope: Envelope::new(PAYLOAD_TYPE, &bundle.payload()),
        }
    }

    /// The bundle in a file.
    ///
    /// # Errors
    /// If it is none, or one of a form that this program does not know.
    pub fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() as u64 > LIMIT {
            return Err(Refusal::new(format!(
                "it is too large: a policy bundle has {LIMIT} bytes at most"
            )));
        }
        let envelope: Envelope = serde_json::from_slice(bytes)
            .map_err(|_| Refusal::new("this is no policy bundle: it is no DSSE envelope"))?;
        let kind = envelope.payload_type();
        if kind == PAYLOAD_TYPE {
            return Ok(Self { envelope });
        }
        let kind = printable(kind);
        Err(Refusal::new(match kind.starts_with(ANY_TYPE) {
            true => format!(
                "the bundle is `{kind}`, and this program knows `{PAYLOAD_TYPE}`\nhelp: update the program"
            ),
            false => format!("this is no policy bundle: the envelope holds `{kind}`"),
        }))
    }

    /// The file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Texts can always be written.
        let mut bytes = serde_json::to_vec(&self.envelope).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Adds a signature. False: that key had signed it already.
    pub fn sign(&mut self, key: &SigningKey) -> bool {
        if self
            .envelope
            .verify(PAYLOAD_TYPE, &[key.public()])
            .is_some()
        {
            return false;
        }
        self.envelope.sign(key);
        true
    }

    /// What is in it, whoever made it.
    ///
    /// # Errors
    /// If that is no bundle.
    pub fn unverified(&self) -> Result<PolicyBundle, Refusal> {
        let payload = self
            .envelope
            .unverified(PAYLOAD_TYPE)
            .ok_or_else(|| Refusal::new("this is no policy bundle: what is in it is no Base64"))?;
        PolicyBundle::parse(&payload)
    }

    /// The ids of the keys that it says signed it.
    #[must_use]
    pub fn claimed_signers(&self) -> Vec<String> {
        self.envelope.key_ids().map(printable).collect()
    }

    /// The bundle, if at least `threshold` of `keys` signed it.
    ///
    /// # Errors
    /// If fewer did, and why; or what they signed is no bundle.
    pub fn verify(&self, keys: &[PublicKey], threshold: usize) -> Result<Verified, Refusal> {
        let claimed = self.claimed_signers();
        if claimed.is_empty() {
            return Err(Refusal::new(
                "nobody signed it\nhelp: `copilot-bridge policy bundle sign` does",
            ));
        }
        let Some((payload, signers)) = self.envelope.verify(PAYLOAD_TYPE, keys) else {
            let known = keys
                .iter()
                .map(PublicKey::id)
                .find(|id| claimed.contains(id));
            return Err(Refusal::new(match known {
                Some(id) => format!("it was changed after the key `{id}` signed it"),
                None => format!(
                    "no key that counts signed it, but {}",
                    claimed
                        .iter()
                        .map(|id| format!("`{id}`"))
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            }));
        };
        if signers.len() < threshold {
            return Err(Refusal::new(format!(
                "{} of the keys that count signed it, and {threshold} have to",
                signers.len()
            )));
        }
        Ok(Verified {
            bundle: PolicyBundle::parse(&payload)?,
            signers: signers.into_iter().copied().collect(),
        })
    }
}

impl Verified {
    /// What was signed.
    #[must_use]
    pub const fn bundle(&self) -> &PolicyBundle {
        &self.bundle
    }

    /// What it says of itself.
    #[must_use]
    pub const fn about(&self) -> &About {
        self.bundle.about()
    }

    /// Its files.
    #[must_use]
    pub const fn files(&self) -> &Files {
        self.bundle.files()
    }

    /// The keys that count and signed it.
    #[must_use]
    pub fn signers(&self) -> &[PublicKey] {
        &self.signers
    }
}
