//! What a person is asked: one call, in words, and the hash that binds the answer to it.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::audit::key::Key;

/// What is shown of a call has no more bytes. A call that is larger is not asked out of band: nobody
/// approves what they cannot see.
pub const SHOWN_LIMIT: usize = 64 << 10;

/// What the hash of a call begins with. No JSON holds a zero byte, so it is no other value's hash.
const DOMAIN: &[u8] = b"approval/v1\0";

/// The name of a question that a person can type: eight letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(String);

/// The keyed hash of a call, exactly as it came: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallHash(String);

/// One call that policies ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The hash of the call.
    pub call: CallHash,
    /// What a person is shown.
    pub shown: Shown,
}

/// What a person is shown of a call. Of all this, an answer holds the hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// The host's id of the session.
    pub session: String,
    /// The working directory, resolved.
    pub cwd: String,
    /// The tool.
    pub tool: String,
    /// The entity that the agent works for, or empty.
    pub entity: String,
    /// What is asked for, in words, without secrets.
    pub requests: Vec<String>,
    /// The arguments as JSON, without secrets.
    pub arguments: String,
    /// The HMAC of the whole arguments, as the record has it.
    pub args_hmac: String,
    /// The policies that ask.
    pub reasons: Vec<Why>,
    /// The digest of all policies.
    pub policy_digest: String,
    /// So many different people have to approve.
    pub people: u8,
    /// Of each of these groups at least one.
    pub groups: Vec<String>,
}

/// A policy that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// Its id with its layer.
    pub policy: String,
    /// What it says.
    pub text: String,
    /// What it advises the person to do, or empty.
    pub help: String,
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The version of this form.
    v: Version,
    /// When it was asked.
    pub at: Timestamp,
    /// The hash of the call.
    pub call: CallHash,
    /// What a person is shown.
    pub shown: Shown,
}

/// Version 1, and no other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub(super) struct Version;

impl CallHash {
    /// The hash of a call that is written out in those bytes.
    #[must_use]
    pub fn of(key: &Key, call: &[u8]) -> Self {
        Self(key.hmac(&[DOMAIN, call].concat()))
    }

    /// The name of the question about the call.
    #[must_use]
    pub fn id(&self) -> Id {
        let bytes = HEXLOWER.decode(self.0.as_bytes()).unwrap_or_default();
        Id(BASE32_NOPAD.encode(bytes.get(..5).unwrap_or_default()))
    }

    /// The 64 digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Shown {
    /// SHA-256 of all that is shown, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        HEXLOWER.encode(&Sha256::digest(&bytes))
    }

    /// Whether a person can see it whole.
    #[must_use]
    pub fn fits(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|bytes| bytes.len() <= SHOWN_LIMIT)
    }
}

impl Question {
    /// The question as it waits for an answer.
    #[must_use]
    pub fn asked(self, at: Timestamp) -> Asked {
        let Self { call, shown } = self;
        Asked {
            v: Version,
            at,
            call,
            shown,
        }
    }
}

impl Asked {
    /// Reads a question. Whoever wrote it may have made it up.
    ///
    /// # Errors
    /// In words, if it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let asked: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if asked.shown.fits() {
            Ok(asked)
        } else {
            Err("it is too long to be shown whole".to_owned())
        }
    }

    /// The question's name.
    #[must_use]
    pub fn id(&self) -> Id {
        self.call.id()
    }
}

impl Id {
    const LENGTH: usize = 8;

    /// The eight characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Id {
    type Err = String;

    /// As a person may type it: in small letters, with a zero for an O.
    fn from_str(text: &str) -> Result<Self, String> {
        let text: String = text
            .trim()
            .chars()
            .map(|c| match c.to_ascii_uppercase() {
                '0' => 'O',
                '1' => 'I',
                c => c,
            })
            .collect();
        let legal = |c: char| c.is_ascii_uppercase() || ('2'..='7').contains(&c);
        if text.len() == Self::LENGTH && text.chars().all(legal) {
            Ok(Self(text))
        } else {
            Err(
                "a question's name is eight letters and digits: `copilot-bridge approvals list`"
                    .to_owned(),
            )
        }
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let id: Self = text.parse()?;
        if id.0 == text {
            Ok(id)
        } else {
            Err("a question's name has capital letters".to_owned())
        }
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

impl TryFrom<String> for CallHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match HEXLOWER.decode(text.as_bytes()) {
            Ok(bytes) if bytes.len() == 32 => Ok(Self(text)),
            _ => Err("a hash is 64 hexadecimal digits".to_owned()),
        }
    }
}

impl From<CallHash> for String {
    fn from(hash: CallHash) -> Self {
        hash.0
    }
}

impl TryFrom<u8> for Version {
    type Error = String;

    fn try_from(version: u8) -> Result<Self, String> {
        match version {
            1 => Ok(Self),
            _ => Err("this version knows form 1 only".to_owned()),
        }
    }
}

impl From<Version> for u8 {
    fn from(_: Version) -> Self {
        1
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn shown() -> Shown {
        Shown {
            session: "s".to_owned(),
            cwd: "/ws".to_owned(),
            tool: "bash".to_owned(),
            entity: String::new(),
            requests: vec!["shell `git push`".to_owned()],
            arguments: "{\"command\":\"git push\"}".to_owned(),
            args_hmac: "0".repeat(64),
            reasons: vec![Why {
                policy: "default:ask-publish".to_owned(),
                text: "it publishes".to_owned(),
                help: String::new(),
            }],
            policy_digest: "d".to_owned(),
            people: 1,
            groups: Vec::new(),
        }
    }

    pub(crate) fn question() -> Question {
        let key = Key::from_bytes([7; 32]);
        Question {
            call: CallHash::of(&key, b"call"),
            shown: shown(),
        }
    }

    #[test]
    fn a_name_is_read_as_people_type_it() {
        let id = question().call.id();
        assert_eq!(id.as_str().len(), 8);
        let typed = format!(" {} ", id.as_str().to_lowercase().replace('o', "0"));
        assert_eq!(typed.parse(), Ok(id));
        for wrong in [
            "",
            "ABCDEFG",
            "ABCDEFGHI",
            "../../ab",
            "ABCDEFG8",
            "ÄBCDEFG",
        ] {
            assert!(wrong.parse::<Id>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_question_comes_back_as_it_was() {
        let asked = question().asked(Timestamp::UNIX_EPOCH);
        let bytes = serde_json::to_vec(&asked).unwrap();
        assert_eq!(Asked::parse(&bytes), Ok(asked.clone()));
        assert_eq!(asked.shown.digest(), shown().digest());
        let text = String::from_utf8(bytes).unwrap();
        for (from, to) in [
            ("\"v\":1", "\"v\":2"),
            ("\"session\"", "\"more\":1,\"session\""),
            ("\"people\":1", "\"people\":300"),
        ] {
            assert!(
                Asked::parse(text.replace(from, to).as_bytes()).is_err(),
                "{to}"
            );
        }
        let mut long = asked;
        long.shown.arguments = "x".repeat(SHOWN_LIMIT);
        let bytes = serde_json::to_vec(&long).unwrap();
        assert_eq!(
            Asked::parse(&bytes),
            Err("it is too long to be shown whole".to_owned())
        );
    }

    #[test]
    fn whatever_is_shown_changes_the_digest() {
        let other = Shown {
            requests: vec!["shell `git pull`".to_owned()],
            ..shown()
        };
        assert_ne!(other.digest(), shown().digest());
    }
}
