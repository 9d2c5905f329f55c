//! Who may approve a call that policies ask about, out of band: what the approvals of people are
//! weighed by.

use globset::Glob;
use serde::{Deserialize, Serialize};

/// What `approvers.toml` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvers {
    /// The people.
    pub all: Vec<Approver>,
    /// So many minutes an approval is valid at most.
    pub minutes: u32,
    /// So many different people have to approve, where no policy says otherwise.
    pub required: u8,
    /// What an approval counts that no key signed.
    pub unverified: Unverified,
}

impl Default for Approvers {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            minutes: 10,
            required: 1,
            unverified: Unverified::Refuse,
        }
    }
}

/// A person who may approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approver {
    /// The name that the record has.
    pub name: String,
    /// The line of the public key.
    pub key: String,
    /// The groups that the person belongs to.
    pub groups: Vec<String>,
    /// Globs: every policy that asks has to match one. Empty: any.
    pub policies: Vec<String>,
    /// Globs: the entity has to match one. Empty: any.
    pub entities: Vec<String>,
    /// Globs: the session has to match one. Empty: any.
    pub sessions: Vec<String>,
}

/// What an approval counts that no key signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unverified {
    /// Nothing.
    #[default]
    Refuse,
    /// As one person's, where no policy demands more: every program of the user can give it.
    Accept,
}

/// What `@approvals` of the policies that ask demands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// So many different people.
    pub people: u8,
    /// Of each of these groups at least one.
    pub groups: Vec<String>,
}

impl Demand {
    /// No policy may demand more people.
    pub const MOST: u8 = 9;

    /// What two policies demand together.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.people = self.people.max(other.people);
        self.groups.extend(other.groups.iter().cloned());
        self.groups.sort_unstable();
        self.groups.dedup();
        self
    }
}

impl Approvers {
    /// Whether anybody may approve anything: else nothing is kept for anybody.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.all.is_empty() || self.unverified == Unverified::Accept
    }

    /// How many different people have to approve.
    #[must_use]
    pub fn people(&self, demand: Option<&Demand>) -> u8 {
        let demanded = demand.map_or(0, |demand| demand.people);
        self.required.max(demanded).max(1)
    }

    /// Whether there are enough people for that demand.
    #[must_use]
    pub fn can_meet(&self, demand: &Demand) -> bool {
        let is_known = |group: &String| self.all.iter().any(|one| one.groups.contains(group));
        self.all.len() >= usize::from(self.people(Some(demand)))
            && demand.groups.iter().all(is_known)
    }
}

impl Approver {
    /// Whether the person may approve what those policies ask, for that entity, in that session.
    #[must_use]
    pub fn may<'p>(
        &self,
        mut policies: impl Iterator<Item = &'p str>,
        entity: &str,
        session: &str,
    ) -> bool {
        policies.all(|policy| among(&self.policies, policy))
            && among(&self.entities, entity)
            && among(&self.sessions, session)
    }
}

fn among(globs: &[String], text: &str) -> bool {
    // A glob that does not compile matches nothing: the loader has refused it.
    let matches =
        |glob: &String| Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(text));
    globs.is_empty() || globs.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approver(policies: &[&str], entities: &[&str]) -> Approver {
        let all = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        Approver {
            name: "ann".to_owned(),
            key: String::new(),
            groups: vec!["security".to_owned()],
            policies: all(policies),
            entities: all(entities),
            sessions: Vec::new(),
        }
    }

    #[test]
    fn every_policy_that_asks_has_to_be_the_persons() {
        let one = approver(&["default:ask-*", "org:push"], &[]);
        let may = |policies: &[&str]| one.may(policies.iter().copied(), "", "s");
        assert!(may(&["default:ask-publish"]));
        assert!(may(&["default:ask-publish", "org:push"]));
        assert!(!may(&["default:ask-publish", "org:pull"]));
        assert!(!approver(&["["], &[]).may(["["].into_iter(), "", ""));
    }

    #[test]
    fn an_entity_has_to_be_the_persons_too() {
        let one = approver(&[], &["ward-*"]);
        assert!(one.may(["a"].into_iter(), "ward-3", "s"));
        assert!(!one.may(["a"].into_iter(), "", "s"));
    }

    #[test]
    fn two_demands_are_one_that_is_as_strict_as_both() {
        let two = Demand {
            people: 2,
            groups: vec![],
        };
        let group = Demand {
            people: 1,
            groups: vec!["security".to_owned()],
        };
        let both = two.and(&group).and(&group);
        assert_eq!((both.people, both.groups.len()), (2, 1));
        let mut approvers = Approvers {
            all: vec![approver(&[], &[])],
            ..Approvers::default()
        };
        assert!(approvers.can_meet(&group) && !approvers.can_meet(&both));
        approvers.all.push(approver(&[], &[]));
        assert!(approvers.can_meet(&both));
        assert_eq!(
            (approvers.people(None), approvers.people(Some(&both))),
            (1, 2)
        );
    }
}
