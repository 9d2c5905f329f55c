//! The rules of all packs: packed until somebody needs them, and each one asleep until it is woken.

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize};

use super::expression::{Expression, Lazy, check_expression, either};
use super::keywords::{Finder, KEYWORD_MIN, Keywords};
use super::rule::{Allow, Rule, Severity, Shape};
use super::{Fault, placeholder};

/// A ruleset as one run of bytes, which costs nothing until somebody opens it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Packed(Vec<u8>);

/// The rules of all packs.
pub struct Ruleset {
    /// Every rule, encoded, one behind the other.
    bodies: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
    awake: Vec<OnceLock<Option<Box<Awake>>>>,
    pub(super) keywords: Finder,
    lists: Vec<List>,
    /// Names of fields, sorted, and the rules that take them.
    fields: Vec<(String, u16)>,
    /// What only people read.
    about: Vec<u8>,
    told: OnceLock<Option<Vec<About>>>,
}

/// A rule that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// Which rule, by its place in the list; `None`: an allow-list, or all rules together.
    pub rule: Option<usize>,
    /// What is wrong with it.
    pub message: String,
}

/// What people read about a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The rule's id.
    pub id: String,
    /// What it finds, in one sentence.
    pub description: String,
    /// The kind of token, where several rules find the same kind.
    pub kind: String,
    /// Its pack.
    pub pack: String,
    /// How bad it is if such a secret leaks.
    pub severity: Severity,
}

/// A rule that was woken.
struct Awake {
    body: Body,
    pattern: Lazy,
    allow: Lazy,
}

/// A rule as it is stored.
#[derive(Serialize, Deserialize)]
struct Body {
    rule: Rule,
    /// Its pack's allow-list.
    list: Option<u16>,
}

/// A pack's allow-list.
struct List {
    body: Vec<u8>,
    awake: OnceLock<Option<Box<Known>>>,
}

/// An allow-list that was looked at.
struct Known {
    allow: Allow,
    /// For each byte, the first of the contained texts that begins with it; one more at the end.
    starts: Vec<u16>,
    patterns: Lazy,
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    bodies: &'a [u8],
    ends: Vec<u32>,
    #[serde(borrow)]
    lists: Vec<&'a [u8]>,
    keywords: Keywords,
    fields: Vec<(String, u16)>,
    #[serde(borrow)]
    about: &'a [u8],
}

impl Packed {
    /// The rules and allow-lists of all packs, whose expressions are known to compile.
    ///
    /// # Errors
    /// If a rule has no keyword or a short one, or there are too many rules.
    pub fn new(rules: &[Rule], lists: &[Allow]) -> Result<Self, RuleError> {
        if rules.is_empty() {
            return Ok(Self::default());
        }
        for (index, rule) in rules.iter().enumerate() {
            check_keywords(rule).map_err(|message| RuleError {
                rule: Some(index),
                message,
            })?;
        }
        Self::stored(rules, lists).map_err(|message| RuleError {
            rule: None,
            message,
        })
    }

    fn stored(rules: &[Rule], lists: &[Allow]) -> Result<Self, String> {
        let encoded = |error: postcard::Error| error.to_string();
        let (mut bodies, mut ends, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        for (index, rule) in rules.iter().enumerate() {
            let list = lists.iter().position(|list| list.pack == rule.pack);
            let body = Body {
                rule: rule.clone(),
                list: list.and_then(|list| u16::try_from(list).ok()),
            };
            bodies.extend(postcard::to_stdvec(&body).map_err(encoded)?);
            ends.push(u32::try_from(bodies.len()).map_err(|_| "the rules are too long")?);
            if let Shape::Fields(names) = &rule.shape {
                let index = u16::try_from(index).map_err(|_| "there are too many rules")?;
                fields.extend(names.iter().map(|name| (name.clone(), index)));
            }
        }
        fields.sort();
        let lists: Result<Vec<Vec<u8>>, _> = lists.iter().map(sorted).collect();
        let lists = lists.map_err(encoded)?;
        let about: Vec<About> = rules.iter().map(about).collect();
        let stored = Stored {
            bodies: &bodies,
            ends,
            lists: lists.iter().map(Vec::as_slice).collect(),
            keywords: Keywords::new(rules)?,
            fields,
            about: &postcard::to_stdvec(&about).map_err(encoded)?,
        };
        Ok(Self(postcard::to_stdvec(&stored).map_err(encoded)?))
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds no rule.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ruleset.
    ///
    /// # Errors
    /// If the bytes are not those of a ruleset.
    pub fn open(&self) -> Result<Ruleset, Fault> {
        let stored: Stored<'_> = match self.0.as_slice() {
            [] => Stored {
                bodies: &[],
                ends: Vec::new(),
                lists: Vec::new(),
                keywords: Keywords::default(),
                fields: Vec::new(),
                about: &[],
            },
            bytes => postcard::from_bytes(bytes).map_err(|_| Fault::Broken)?,
        };
        let keywords = Finder::new(stored.keywords, stored.ends.len()).ok_or(Fault::Broken)?;
        Ok(Ruleset {
            bodies: stored.bodies.to_vec(),
            awake: stored.ends.iter().map(|_| OnceLock::new()).collect(),
            ends: stored.ends,
            keywords,
            lists: stored
                .lists
                .iter()
                .map(|body| List {
                    body: body.to_vec(),
                    awake: OnceLock::new(),
                })
                .collect(),
            fields: stored.fields,
            about: stored.about.to_vec(),
            told: OnceLock::new(),
        })
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As bytes, not one by one: a hook reads this even if it redacts nothing.
        <&[u8]>::deserialize(deserializer).map(|bytes| Self(bytes.to_vec()))
    }
}

impl fmt::Debug for Ruleset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ruleset")
            .field("rules", &self.len())
            .finish_non_exhaustive()
    }
}

impl Ruleset {
    /// The rules and allow-lists of all packs.
    ///
    /// # Errors
    /// If a rule has no keyword or a short one, an expression does not compile or matches the empty
    /// text, or there are too many rules.
    pub fn new(rules: &[Rule], lists: &[Allow]) -> Result<Self, RuleError> {
        for (index, rule) in rules.iter().enumerate() {
            let pattern = match &rule.shape {
                Shape::Pattern(source) => Some(source),
                _ => None,
            };
            let mut all = pattern.into_iter().chain(&rule.conditions.allow_patterns);
            all.try_for_each(|source| check_expression(source))
                .map_err(|message| RuleError {
                    rule: Some(index),
                    message,
                })?;
        }
        let whole = |message| RuleError {
            rule: None,
            message,
        };
        for pattern in lists.iter().flat_map(|list| &list.patterns) {
            check_expression(pattern).map_err(whole)?;
        }
        let packed = Packed::new(rules, lists)?;
        packed.open().map_err(|fault| whole(fault.to_string()))
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What people read about the rules, in their order.
    ///
    /// # Errors
    /// If the rules are broken.
    pub fn about(&self) -> Result<&[About], Fault> {
        let told = self.told.get_or_init(|| match self.about.as_slice() {
            [] => Some(Vec::new()),
            bytes => postcard::from_bytes(bytes).ok(),
        });
        told.as_deref().ok_or(Fault::Broken)
    }

    /// The rule of that number.
    pub(super) fn rule(&self, index: usize) -> Result<&Rule, Fault> {
        Ok(&self.awake(index)?.body.rule)
    }

    /// The expression of a rule, to be looked for in so many bytes.
    pub(super) fn pattern(&self, index: usize, bytes: usize) -> Result<&Expression, Fault> {
        let awake = self.awake(index)?;
        match &awake.body.rule.shape {
            Shape::Pattern(source) => awake.pattern.get(bytes, || source.clone()),
            _ => Err(Fault::Broken),
        }
    }

    /// Whether some rule takes fields.
    pub(super) const fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The rule that takes the field of that name, which is normalised.
    pub(super) fn field(&self, name: &str) -> Option<usize> {
        let at = self
            .fields
            .partition_point(|(known, _)| known.as_str() < name);
        let (known, rule) = self.fields.get(at)?;
        (known == name).then_some(usize::from(*rule))
    }

    /// Whether a rule takes what stands in a field: it is there, and not known to be no secret.
    pub(super) fn takes(&self, index: usize, secret: &[u8]) -> Result<bool, Fault> {
        let lower = secret.to_ascii_lowercase();
        let nothing = !lower
            .iter()
            .any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
            || [&b"null"[..], b"none", b"true", b"false"].contains(&lower.as_slice());
        Ok(!nothing
            && !placeholder::is_one(secret)
            && self.rule(index)?.conditions.hold(secret, &lower)
            && !self.allows(index, secret, &lower)?)
    }

    /// Whether the allow-lists know a text to be no secret.
    pub(super) fn allows(&self, index: usize, secret: &[u8], lower: &[u8]) -> Result<bool, Fault> {
        let awake = self.awake(index)?;
        let list = match awake.body.list {
            Some(list) => self.lists.get(usize::from(list)),
            None => None,
        };
        let known = list.map(List::known).transpose()?;
        if known.is_some_and(|known| known.holds(lower)) {
            return Ok(true);
        }
        let own = &awake.body.rule.conditions.allow_patterns;
        if !own.is_empty()
            && awake
                .allow
                .get(secret.len(), || either(own))?
                .regex
                .is_match(secret)
        {
            return Ok(true);
        }
        match known.map(|known| (&known.patterns, &known.allow.patterns)) {
            Some((lazy, patterns)) if !patterns.is_empty() => Ok(lazy
                .get(secret.len(), || either(patterns))?
                .regex
                .is_match(secret)),
            _ => Ok(false),
        }
    }

    /// How much a rule says about what it finds, to choose among several.
    pub(super) fn weight(&self, index: usize) -> (u8, u8) {
        let Ok(rule) = self.rule(index) else {
            return (0, 0);
        };
        let shape = match rule.shape {
            Shape::Block(_) => 4,
            Shape::Token(_) | Shape::Pattern(_) => 3,
            Shape::Userinfo(_) => 2,
            Shape::Value(_) => 1,
            Shape::Words(_) | Shape::Fields(_) => 0,
        };
        (shape, rule.severity as u8)
    }

    fn awake(&self, index: usize) -> Result<&Awake, Fault> {
        let cell = self.awake.get(index).ok_or(Fault::Broken)?;
        cell.get_or_init(|| {
            let end = *self.ends.get(index)? as usize;
            let before = index
                .checked_sub(1)
                .and_then(|before| self.ends.get(before));
            let start = before.map_or(0, |start| *start as usize);
            let body = postcard::from_bytes(self.bodies.get(start..end)?).ok()?;
            Some(Box::new(Awake {
                body,
                pattern: Lazy::default(),
                allow: Lazy::default(),
            }))
        })
        .as_deref()
        .ok_or(Fault::Broken)
    }
}

impl List {
    fn known(&self) -> Result<&Known, Fault> {
        let known = self.awake.get_or_init(|| {
            let allow: Allow = postcard::from_bytes(&self.body).ok()?;
            let mut starts = Vec::with_capacity(257);
            for first in 0..=256_u16 {
                let before = |value: &String| {
                    value
                        .bytes()
                        .next()
                        .is_some_and(|byte| u16::from(byte) < first)
                };
                starts.push(u16::try_from(allow.values.partition_point(before)).ok()?);
            }
            Some(Box::new(Known {
                allow,
                starts,
                patterns: Lazy::default(),
            }))
        });
        known.as_deref().ok_or(Fault::Broken)
    }
}

impl Known {
    /// Whether a text in lower case is one of the exact ones, or contains one of the others.
    fn holds(&self, lower: &[u8]) -> bool {
        let exact = &self.allow.exact;
        if exact
            .binary_search_by(|text| text.as_bytes().cmp(lower))
            .is_ok()
        {
            return true;
        }
        let mut rest = lower;
        while let Some((first, behind)) = rest.split_first() {
            let from = self.starts.get(usize::from(*first));
            let to = self.starts.get(usize::from(*first) + 1);
            let values = match from.zip(to) {
                Some((from, to)) => self.allow.values.get(usize::from(*from)..usize::from(*to)),
                None => None,
            };
            for value in values.unwrap_or_default() {
                let tail = value.as_bytes().get(1..).unwrap_or_default();
                // Most differ in the next byte already.
                if tail.first().is_none_or(|byte| behind.first() == Some(byte))
                    && behind.starts_with(tail)
                {
                    return true;
                }
            }
            rest = behind;
        }
        false
    }
}

/// An allow-list as it is looked through.
fn sorted(list: &Allow) -> Result<Vec<u8>, postcard::Error> {
    let mut list = list.clone();
    list.exact.sort();
    list.values.retain(|value| !value.is_empty());
    list.values.sort();
    postcard::to_stdvec(&list)
}

fn about(rule: &Rule) -> About {
    About {
        id: rule.id.clone(),
        description: rule.description.clone(),
        kind: rule.kind.clone(),
        pack: rule.pack.clone(),
        severity: rule.severity,
    }
}

fn check_keywords(rule: &Rule) -> Result<(), String> {
    let asleep = matches!(rule.shape, Shape::Fields(_));
    if rule.keywords.is_empty() && !asleep {
        return Err("it has no keyword, so it would be looked for in every text".to_owned());
    }
    match rule.keywords.iter().find(|word| word.len() < KEYWORD_MIN) {
        Some(short) => Err(format!(
            "the keyword `{short}` has fewer than {KEYWORD_MIN} bytes"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Conditions, Length, Severity};
    use super::*;

    fn rule(keywords: &[&str], shape: Shape) -> Rule {
        Rule {
            id: "a".to_owned(),
            description: "b".to_owned(),
            severity: Severity::High,
            kind: "c".to_owned(),
            pack: "p".to_owned(),
            keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
            shape,
            conditions: Conditions::default(),
        }
    }

    #[test]
    fn what_is_packed_is_opened() {
        let rules = [
            rule(&["://"], Shape::Userinfo(Length::default())),
            rule(&[], Shape::Fields(vec!["dob".to_owned()])),
            rule(&["abc"], Shape::Pattern("abc[0-9]{4}".to_owned())),
        ];
        let ruleset = Ruleset::new(&rules, &[]).unwrap();
        assert_eq!((ruleset.len(), ruleset.is_empty()), (3, false));
        assert_eq!(ruleset.about().unwrap()[2].description, "b");
        assert_eq!(ruleset.rule(0).unwrap().shape, rules[0].shape);
        assert_eq!((ruleset.field("dob"), ruleset.field("x")), (Some(1), None));
        assert!(ruleset.rule(3).is_err());
        assert!(Packed::default().open().unwrap().is_empty());
        assert_eq!(Packed(vec![1, 2, 3]).open().unwrap_err(), Fault::Broken);
    }

    #[test]
    fn rules_that_would_wake_always_are_refused() {
        for keywords in [&[][..], &["ab"]] {
            let rules = [rule(keywords, Shape::Userinfo(Length::default()))];
            assert_eq!(Ruleset::new(&rules, &[]).unwrap_err().rule, Some(0));
        }
        let rules = [rule(&["abc"], Shape::Pattern("(".to_owned()))];
        assert_eq!(Ruleset::new(&rules, &[]).unwrap_err().rule, Some(0));
    }

    #[test]
    fn allow_lists_hold_for_their_pack() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let list = Allow {
            pack: "p".to_owned(),
            exact: texts(&["todo", "none"]),
            values: texts(&["${", "example", "ex"]),
            patterns: texts(&["^x+$"]),
        };
        let mut other = rule(&["abc"], Shape::Userinfo(Length::default()));
        other.pack = "q".to_owned();
        let rules = [rule(&["abc"], Shape::Userinfo(Length::default())), other];
        let ruleset = Ruleset::new(&rules, &[list]).unwrap();
        for (text, allowed) in [
            ("todo", true),
            ("todos", false),
            ("a${b", true),
            ("my-example", true),
            ("xx", true),
            ("secret", false),
        ] {
            let known = |index| {
                ruleset
                    .allows(index, text.as_bytes(), text.as_bytes())
                    .unwrap()
            };
            assert_eq!((known(0), known(1)), (allowed, false), "{text}");
        }
    }
}
