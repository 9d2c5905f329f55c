//! What a person says about a question, signed: the payload of a DSSE envelope.

use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::DeskError;
use super::question::{Asked, CallHash, Id, Version};
use crate::keys::envelope::Envelope;

/// The type of the payload.
pub const PAYLOAD_TYPE: &str = "application/vnd.copilot-bridge.approval.v1+json";

/// No note is longer, in bytes.
pub const NOTE_LIMIT: usize = 400;

/// What a person says about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The version of this form.
    v: Version,
    /// Yes or no.
    pub verdict: Verdict,
    /// The question's name.
    pub id: Id,
    /// The hash of the call.
    pub call: CallHash,
    /// SHA-256 of what the person was shown.
    pub shown: String,
    /// The name that the person goes by. What counts is the key.
    pub approver: String,
    /// When it was said.
    pub created: Timestamp,
    /// When it is over.
    pub expires: Timestamp,
    /// What makes it this statement and no other: it counts once.
    pub nonce: Nonce,
    /// What the person says besides, or empty.
    pub note: String,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The call may happen, once.
    Approve,
    /// The call must not happen.
    Deny,
}

/// Sixteen random bytes, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(String);

impl Statement {
    /// What a person says now about a question, for so long.
    ///
    /// # Errors
    /// If the system has no random bytes, or there is no such time.
    pub fn new(
        verdict: Verdict,
        asked: &Asked,
        approver: &str,
        valid: SignedDuration,
        note: &str,
    ) -> Result<Self, DeskError> {
        let created = Timestamp::now();
        let expires = created
            .checked_add(valid)
            .map_err(|_| DeskError("it would be valid for too long".to_owned()))?;
        Ok(Self {
            v: Version,
            verdict,
            id: asked.id(),
            call: asked.call.clone(),
            shown: asked.shown.digest(),
            approver: approver.to_owned(),
            created,
            expires,
            nonce: Nonce::new()?,
            note: note.to_owned(),
        })
    }

    /// The statement in an envelope that nobody signed yet.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        Envelope::new(PAYLOAD_TYPE, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// The statement in an envelope. Nobody has looked at the signatures.
    #[must_use]
    pub fn unverified(envelope: &Envelope) -> Option<Self> {
        let statement: Self = serde_json::from_slice(&envelope.unverified(PAYLOAD_TYPE)?).ok()?;
        (statement.note.len() <= NOTE_LIMIT).then_some(statement)
    }
}

impl Nonce {
    fn new() -> Result<Self, DeskError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|_| DeskError("the system has no random bytes".to_owned()))?;
        Ok(Self(HEXLOWER.encode(&bytes)))
    }

    /// The 32 digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Nonce {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match HEXLOWER.decode(text.as_bytes()) {
            Ok(bytes) if bytes.len() == 16 => Ok(Self(text)),
            _ => Err("a nonce is 32 hexadecimal digits".to_owned()),
        }
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> Self {
        nonce.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::question::tests::question;

    #[test]
    fn a_statement_comes_back_as_it_was() {
        let asked = question().asked(Timestamp::UNIX_EPOCH);
        let minutes = SignedDuration::from_mins(5);
        let made = Statement::new(Verdict::Approve, &asked, "ann", minutes, "fine").unwrap();
        let other = Statement::new(Verdict::Approve, &asked, "ann", minutes, "fine").unwrap();
        assert_ne!(made.nonce, other.nonce);
        assert_eq!(Statement::unverified(&made.envelope()), Some(made.clone()));
        let long = Statement {
            note: "x".repeat(NOTE_LIMIT + 1),
            ..made.clone()
        };
        assert_eq!(Statement::unverified(&long.envelope()), None);
        assert_eq!(Statement::unverified(&Envelope::new("a/b", b"{}")), None);
        let text = serde_json::to_string(&made).unwrap();
        for (from, to) in [
            ("\"approve\"", "\"perhaps\""),
            (made.nonce.as_str(), "../../../../../../../etc/passwd1"),
            (made.id.as_str(), "ABCDEFG!"),
            ("\"note\"", "\"more\":1,\"note\""),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            let envelope = Envelope::new(PAYLOAD_TYPE, changed.as_bytes());
            assert_eq!(Statement::unverified(&envelope), None, "{to}");
        }
    }
}
