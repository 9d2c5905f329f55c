//! DSSE: what was signed, of what type it is, and by whom (Dead Simple Signing Envelope 1.0.2).

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use super::{PublicKey, Signature, SigningKey};

/// A signed text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<Signed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    /// A hint only: what counts is which key verifies.
    keyid: String,
    sig: String,
}

impl Envelope {
    /// A text of that type that nobody signed yet.
    #[must_use]
    pub fn new(payload_type: &str, payload: &[u8]) -> Self {
        Self {
            payload_type: payload_type.to_owned(),
            payload: BASE64.encode(payload),
            signatures: Vec::new(),
        }
    }

    /// Of what type it says that it is.
    #[must_use]
    pub fn payload_type(&self) -> &str {
        &self.payload_type
    }

    /// The ids of the keys that it says signed it. Nobody has looked whether they did.
    pub fn key_ids(&self) -> impl Iterator<Item = &str> {
        self.signatures.iter().map(|signed| signed.keyid.as_str())
    }

    /// What is signed, if it is of that type. Nobody has looked at the signatures.
    #[must_use]
    pub fn unverified(&self, payload_type: &str) -> Option<Vec<u8>> {
        if self.payload_type != payload_type {
            return None;
        }
        BASE64.decode(self.payload.as_bytes()).ok()
    }

    /// Whether it holds a signature, whoever made it.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        !self.signatures.is_empty()
    }

    /// Adds a signature.
    pub fn sign(&mut self, key: &SigningKey) {
        let Ok(payload) = BASE64.decode(self.payload.as_bytes()) else {
            return;
        };
        let signature = key.sign(&authenticated(&self.payload_type, &payload));
        self.signatures.push(Signed {
            keyid: key.public().id(),
            sig: BASE64.encode(&signature.to_bytes()),
        });
    }

    /// What is signed, and those of `keys` that signed it, each once, in their order. Nothing, if it
    /// is of another type or none of them did.
    #[must_use]
    pub fn verify<'k>(
        &self,
        payload_type: &str,
        keys: &'k [PublicKey],
    ) -> Option<(Vec<u8>, Vec<&'k PublicKey>)> {
        let payload = self.unverified(payload_type)?;
        let message = authenticated(payload_type, &payload);
        let signatures: Vec<Signature> = self
            .signatures
            .iter()
            .filter_map(|signed| BASE64.decode(signed.sig.as_bytes()).ok())
            .filter_map(|bytes| Signature::from_slice(&bytes))
            .collect();
        let mut signers: Vec<&PublicKey> = Vec::new();
        for key in keys {
            let signed = signatures.iter().any(|one| key.verifies(&message, one));
            if signed && !signers.contains(&key) {
                signers.push(key);
            }
        }
        (!signers.is_empty()).then_some((payload, signers))
    }
}

/// The pre-authentication encoding: no type can pass for a part of the text.
fn authenticated(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_the_specifications() {
        let encoded = authenticated("http://example.com/HelloWorld", b"hello world");
        let expected = "DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(encoded, expected.as_bytes());
    }

    #[test]
    fn only_what_a_known_key_signed_is_taken() {
        let keys: Vec<SigningKey> = (0..3).map(|_| SigningKey::generate().unwrap()).collect();
        let known = [keys[0].public(), keys[1].public(), keys[0].public()];
        let mut envelope = Envelope::new("a/b", b"text");
        assert_eq!(envelope.verify("a/b", &known), None);
        envelope.sign(&keys[2]);
        assert_eq!(envelope.verify("a/b", &known), None);
        envelope.sign(&keys[0]);
        envelope.sign(&keys[0]);
        let text = serde_json::to_string(&envelope).unwrap();
        let envelope: Envelope = serde_json::from_str(&text).unwrap();
        let (payload, signers) = envelope.verify("a/b", &known).unwrap();
        assert_eq!((payload.as_slice(), signers.len()), (&b"text"[..], 1));
        assert_eq!(envelope.verify("a/c", &known), None);
        let mut changed = envelope;
        changed.payload = BASE64.encode(b"taxt");
        assert_eq!(changed.verify("a/b", &known), None);
    }
}
