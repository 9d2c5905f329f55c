use super::*;
use crate::approvals::question::tests::{question, shown};
use crate::approvals::question::{CallHash, Shown};
use crate::audit::key::Key;
use crate::keys::SigningKey;

/// Two people, and the answers that they give to the one question.
struct Desk {
    keys: Vec<SigningKey>,
    approvers: Approvers,
    demand: Option<Demand>,
    now: Timestamp,
    last: Option<Timestamp>,
}

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

impl Desk {
    fn new() -> Self {
        let keys: Vec<SigningKey> = (0..3).map(|_| SigningKey::generate().unwrap()).collect();
        let person = |name: &str, key: &SigningKey, group: &str| Approver {
            name: name.to_owned(),
            key: key.public().to_string(),
            groups: vec![group.to_owned()],
            policies: Vec::new(),
            entities: Vec::new(),
            sessions: Vec::new(),
        };
        Self {
            approvers: Approvers {
                all: vec![
                    person("ann", &keys[0], "security"),
                    person("bob", &keys[1], "web"),
                ],
                ..Approvers::default()
            },
            keys,
            demand: None,
            now: Timestamp::now() + MINUTE,
            last: Some(Timestamp::UNIX_EPOCH),
        }
    }

    fn weigh(&self, lines: &[Vec<u8>]) -> Weight {
        self.weigh_used(lines, &|_| false)
    }

    fn weigh_used(&self, lines: &[Vec<u8>], used: &dyn Fn(&Nonce) -> bool) -> Weight {
        let terms = Terms {
            approvers: &self.approvers,
            demand: self.demand.as_ref(),
            now: self.now,
            last_record: self.last,
        };
        weigh(&lines.join(&b'\n'), &question(), &terms, used)
    }
}

fn statement(change: impl FnOnce(&mut Statement)) -> Statement {
    let asked = question().asked(Timestamp::now());
    let valid = SignedDuration::from_mins(5);
    let mut said = Statement::new(Verdict::Approve, &asked, "ann", valid, "").unwrap();
    change(&mut said);
    said
}

fn signed(by: &[&SigningKey], change: impl FnOnce(&mut Statement)) -> Vec<u8> {
    let mut envelope = statement(change).envelope();
    for key in by {
        envelope.sign(key);
    }
    serde_json::to_vec(&envelope).unwrap()
}

fn why(weight: &Weight) -> &str {
    match weight {
        Weight::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

fn names(weight: Weight) -> Vec<String> {
    match weight {
        Weight::Approved(granted) => {
            assert!(granted.verified);
            granted.by.into_iter().map(|signer| signer.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_approvers_signature_counts() {
    let desk = Desk::new();
    let line = signed(&[&desk.keys[0]], |_| ());
    assert_eq!(names(desk.weigh(&[b"junk".to_vec(), line])), ["ann"]);
}

#[test]
fn what_is_no_approval_of_this_call_now_is_refused() {
    let desk = Desk::new();
    let other = CallHash::of(&Key::from_bytes([7; 32]), b"another call");
    let elsewhere = Shown {
        requests: vec!["shell `ls`".to_owned()],
        ..shown()
    };
    type Change = Box<dyn FnOnce(&mut Statement)>;
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(|said| said.call = other),
            "an answer is for another call",
        ),
        (
            Box::new(|said| said.id = "AAAAAAAA".parse().unwrap()),
            "an answer is for another call",
        ),
        (
            Box::new(move |said| said.shown = elsewhere.digest()),
            "the person was shown something else than this call",
        ),
        (
            Box::new(|said| said.expires = Timestamp::now()),
            "an answer has expired",
        ),
        (
            Box::new(|said| said.created += SignedDuration::from_mins(3)),
            "an answer is from the future",
        ),
        (
            Box::new(|said| said.expires += SignedDuration::from_mins(6)),
            "an answer is valid for longer than policies allow",
        ),
    ];
    for (change, expected) in cases {
        let line = signed(&[&desk.keys[0]], change);
        assert_eq!(why(&desk.weigh(&[line])), expected);
    }
    let line = signed(&[&desk.keys[0]], |_| ());
    let used = desk.weigh_used(&[line], &|_| true);
    assert_eq!(why(&used), "the approval was used already");
    let stranger = signed(&[&desk.keys[2]], |_| ());
    assert_eq!(
        why(&desk.weigh(&[stranger])),
        "no approver's key signed the approval"
    );
    let nobody = signed(&[], |_| ());
    assert_eq!(why(&desk.weigh(&[nobody])), "no key signed the approval");
    assert_eq!(why(&desk.weigh(&[])), "nobody said anything");
}

#[test]
fn another_text_under_a_signature_is_no_approval() {
    let desk = Desk::new();
    let line = signed(&[&desk.keys[0]], |_| ());
    let other = signed(&[], |_| ());
    let mut forged: serde_json::Value = serde_json::from_slice(&other).unwrap();
    let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
    forged["signatures"] = line["signatures"].clone();
    let forged = serde_json::to_vec(&forged).unwrap();
    assert_eq!(
        why(&desk.weigh(&[forged])),
        "no approver's key signed the approval"
    );
}

#[test]
fn a_clock_behind_the_record_refuses() {
    let mut desk = Desk::new();
    let line = signed(&[&desk.keys[0]], |_| ());
    desk.last = Some(desk.now + MINUTE);
    let weight = desk.weigh(std::slice::from_ref(&line));
    assert_eq!(why(&weight), "the clock is behind the record");
    desk.last = None;
    assert_eq!(
        why(&desk.weigh(&[line])),
        "the record's last time is not known"
    );
}

#[test]
fn two_people_are_two_keys() {
    let mut desk = Desk::new();
    desk.demand = Some(Demand {
        people: 2,
        groups: Vec::new(),
    });
    let [ann, bob] = [0, 1].map(|at| signed(&[&desk.keys[at]], |_| ()));
    let again = signed(&[&desk.keys[0]], |said| said.approver = "bob".to_owned());
    assert_eq!(why(&desk.weigh(&[ann.clone(), again])), "1 of 2 approvals");
    assert_eq!(names(desk.weigh(&[ann, bob])), ["ann", "bob"]);
    let both = signed(&[&desk.keys[0], &desk.keys[1]], |_| ());
    assert_eq!(names(desk.weigh(&[both])), ["ann", "bob"]);
}

#[test]
fn a_group_has_to_be_among_them() {
    let mut desk = Desk::new();
    desk.demand = Some(Demand {
        people: 0,
        groups: vec!["security".to_owned()],
    });
    let [ann, bob] = [0, 1].map(|at| signed(&[&desk.keys[at]], |_| ()));
    assert_eq!(
        why(&desk.weigh(std::slice::from_ref(&bob))),
        "nobody of the group `security` approved"
    );
    assert_eq!(names(desk.weigh(std::slice::from_ref(&ann))), ["ann"]);
    assert_eq!(names(desk.weigh(&[bob, ann])), ["bob", "ann"]);
}

#[test]
fn a_person_may_not_approve_everything() {
    let mut desk = Desk::new();
    desk.approvers.all[0].policies = vec!["org:*".to_owned()];
    let line = signed(&[&desk.keys[0]], |_| ());
    assert_eq!(why(&desk.weigh(&[line])), "`ann` may not approve this");
}

#[test]
fn a_denial_stands_above_approvals_until_it_expires() {
    let mut desk = Desk::new();
    let yes = signed(&[&desk.keys[0]], |_| ());
    let no = signed(&[], |said| said.verdict = Verdict::Deny);
    let lines = [yes, no];
    assert!(matches!(desk.weigh(&lines), Weight::Denied(_)));
    desk.now += SignedDuration::from_mins(5);
    assert_eq!(why(&desk.weigh(&lines)), "an answer has expired");
}

#[test]
fn an_unsigned_approval_counts_only_where_the_base_says_so_and_nobody_demands_more() {
    let mut desk = Desk::new();
    let nobody = [signed(&[], |_| ())];
    desk.approvers.unverified = Unverified::Accept;
    match desk.weigh(&nobody) {
        Weight::Approved(granted) => {
            assert!(!granted.verified);
            assert_eq!(
                (granted.by[0].name.as_str(), &granted.by[0].key),
                ("unverified", &None)
            );
        }
        other => panic!("{other:?}"),
    }
    desk.approvers.required = 2;
    assert_eq!(why(&desk.weigh(&nobody)), "no key signed the approval");
    desk.approvers.required = 1;
    desk.demand = Some(Demand {
        people: 1,
        groups: Vec::new(),
    });
    assert_eq!(why(&desk.weigh(&nobody)), "no key signed the approval");
}
