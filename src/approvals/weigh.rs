//! What the answers to a question amount to. Pure: the files are the desk's.

use jiff::{SignedDuration, Timestamp};

use super::question::Question;
use super::statement::{Nonce, PAYLOAD_TYPE, Statement, Verdict};
use crate::engine::approver::{Approver, Approvers, Demand, Unverified};
use crate::keys::PublicKey;
use crate::keys::envelope::Envelope;

/// No more answers to one question are looked at.
pub const ANSWERS: usize = 32;

/// What the answers are weighed by.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Who may approve.
    pub approvers: &'a Approvers,
    /// What the policies that ask demand.
    pub demand: Option<&'a Demand>,
    /// The time.
    pub now: Timestamp,
    /// When the last line of the record was written, if that is known.
    pub last_record: Option<Timestamp>,
}

/// What the answers to a question amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weight {
    /// Enough people approved.
    Approved(Granted),
    /// Somebody denied it.
    Denied(Denied),
    /// It is as if nobody had answered, and why.
    Refused(String),
}

/// An approval that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Who gave it.
    pub by: Vec<Signer>,
    /// Whether keys signed it.
    pub verified: bool,
    /// When the first part of it is over.
    pub expires: Timestamp,
    /// What is used up with it.
    pub nonces: Vec<Nonce>,
}

/// Who signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// The name by `approvers.toml`.
    pub name: String,
    /// The id of the key; nothing where none signed.
    pub key: Option<String>,
}

/// A denial that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The name that the person goes by. Nobody verified it: anybody may deny.
    pub by: String,
    /// When it is over.
    pub expires: Timestamp,
    /// What the person said besides.
    pub note: String,
}

/// Weighs the lines of an answer file. A nonce that `used` says yes to counts no more.
pub fn weigh(
    lines: &[u8],
    question: &Question,
    terms: &Terms<'_>,
    used: &dyn Fn(&Nonce) -> bool,
) -> Weight {
    match terms.last_record {
        None => return refused("the record's last time is not known"),
        Some(last) if terms.now < last => return refused("the clock is behind the record"),
        Some(_) => {}
    }
    let mut given: Vec<(Signer, Statement)> = Vec::new();
    let mut why = None;
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .take(ANSWERS)
    {
        match said(line, question, terms, used) {
            Ok((statement, _)) if statement.verdict == Verdict::Deny => {
                return Weight::Denied(Denied {
                    by: statement.approver,
                    expires: statement.expires,
                    note: statement.note,
                });
            }
            Ok((statement, signers)) => {
                for signer in signers {
                    if !given.iter().any(|(known, _)| known.name == signer.name) {
                        given.push((signer, statement.clone()));
                    }
                }
            }
            Err(text) => why = Some(text),
        }
    }
    let people = usize::from(terms.approvers.people(terms.demand));
    if given.is_empty() {
        return Weight::Refused(why.unwrap_or_else(|| "nobody said anything".to_owned()));
    }
    if given.len() < people {
        return Weight::Refused(format!("{} of {people} approvals", given.len()));
    }
    if let Some(group) = missing_group(terms, &given) {
        return Weight::Refused(format!("nobody of the group `{group}` approved"));
    }
    Weight::Approved(granted(given))
}

fn granted(given: Vec<(Signer, Statement)>) -> Granted {
    let mut nonces: Vec<Nonce> = Vec::new();
    let mut expires = Timestamp::MAX;
    for (_, statement) in &given {
        expires = expires.min(statement.expires);
        if !nonces.contains(&statement.nonce) {
            nonces.push(statement.nonce.clone());
        }
    }
    Granted {
        verified: given.iter().all(|(signer, _)| signer.key.is_some()),
        by: given.into_iter().map(|(signer, _)| signer).collect(),
        expires,
        nonces,
    }
}

fn missing_group<'a>(terms: &Terms<'a>, given: &[(Signer, Statement)]) -> Option<&'a String> {
    let groups = terms.demand.map(|demand| demand.groups.as_slice());
    groups.unwrap_or_default().iter().find(|group| {
        !given.iter().any(|(signer, _)| {
            let mut all = terms.approvers.all.iter();
            signer.key.is_some()
                && all.any(|one| one.name == signer.name && one.groups.contains(group))
        })
    })
}

/// One answer, and who gave it; or why it does not count.
fn said(
    line: &[u8],
    question: &Question,
    terms: &Terms<'_>,
    used: &dyn Fn(&Nonce) -> bool,
) -> Result<(Statement, Vec<Signer>), String> {
    let envelope: Envelope =
        serde_json::from_slice(line).map_err(|_| "an answer cannot be read".to_owned())?;
    let statement = Statement::unverified(&envelope).ok_or("an answer is no statement")?;
    let shown = question.shown.digest();
    if statement.call != question.call || statement.id != question.call.id() {
        return Err("an answer is for another call".to_owned());
    }
    if statement.shown != shown {
        return Err("the person was shown something else than this call".to_owned());
    }
    in_time(&statement, terms)?;
    if statement.verdict == Verdict::Deny {
        return Ok((statement, Vec::new()));
    }
    if used(&statement.nonce) {
        return Err("the approval was used already".to_owned());
    }
    if !envelope.is_signed() {
        let lenient = terms.approvers.unverified == Unverified::Accept
            && terms.demand.is_none()
            && terms.approvers.people(None) == 1;
        if !lenient {
            return Err("no key signed the approval".to_owned());
        }
        let nobody = Signer {
            name: "unverified".to_owned(),
            key: None,
        };
        return Ok((statement, vec![nobody]));
    }
    let signers = signers(&envelope, question, terms)?;
    Ok((statement, signers))
}

fn in_time(statement: &Statement, terms: &Terms<'_>) -> Result<(), String> {
    let longest = SignedDuration::from_mins(i64::from(terms.approvers.minutes));
    let valid = statement.expires.duration_since(statement.created);
    let wrong = if terms.now < statement.created {
        "an answer is from the future"
    } else if terms.now >= statement.expires {
        "an answer has expired"
    } else if valid > longest {
        "an answer is valid for longer than policies allow"
    } else {
        return Ok(());
    };
    Err(wrong.to_owned())
}

/// The approvers whose keys signed, and who may approve this.
fn signers(
    envelope: &Envelope,
    question: &Question,
    terms: &Terms<'_>,
) -> Result<Vec<Signer>, String> {
    let known: Vec<(&Approver, PublicKey)> = terms
        .approvers
        .all
        .iter()
        .filter_map(|one| Some((one, one.key.parse().ok()?)))
        .collect();
    let keys: Vec<PublicKey> = known.iter().map(|(_, key)| *key).collect();
    let (_, signed) = envelope
        .verify(PAYLOAD_TYPE, &keys)
        .ok_or("no approver's key signed the approval")?;
    let shown = &question.shown;
    let mut signers = Vec::new();
    let mut barred = String::new();
    for (approver, key) in known.iter().filter(|(_, key)| signed.contains(&key)) {
        let policies = shown.reasons.iter().map(|why| why.policy.as_str());
        if approver.may(policies, &shown.entity, &shown.session) {
            signers.push(Signer {
                name: approver.name.clone(),
                key: Some(key.id()),
            });
        } else {
            barred.clone_from(&approver.name);
        }
    }
    if signers.is_empty() {
        return Err(format!("`{barred}` may not approve this"));
    }
    Ok(signers)
}

fn refused(text: &str) -> Weight {
    Weight::Refused(text.to_owned())
}

#[cfg(test)]
mod tests;
