//! Several rulesets, looked for together: each rule has a number over all of them.

use std::cmp::Reverse;
use std::ops::Range;

use super::expression::Expression;
use super::rule::Rule;
use super::ruleset::{About, Ruleset};
use super::{Fault, Finding};

/// The rulesets of one look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sets<'a>(pub(super) &'a [&'a Ruleset]);

impl<'a> Sets<'a> {
    /// Each ruleset, and the number of its first rule.
    pub(super) fn each(self) -> impl Iterator<Item = (&'a Ruleset, usize)> {
        self.0.iter().scan(0, |first, set| {
            let this = *first;
            *first += set.len();
            Some((*set, this))
        })
    }

    /// How many rules there are.
    pub(super) fn count(self) -> usize {
        self.0.iter().map(|set| set.len()).sum()
    }

    /// The rule of that number.
    pub(super) fn rule(self, number: usize) -> Result<&'a Rule, Fault> {
        let (set, index) = self.place(number)?;
        set.rule(index)
    }

    /// What people read about a rule.
    pub(super) fn about(self, number: usize) -> Result<&'a About, Fault> {
        let (set, index) = self.place(number)?;
        set.about()?.get(index).ok_or(Fault::Broken)
    }

    /// The expression of a rule, to be looked for in so many bytes.
    pub(super) fn pattern(self, number: usize, bytes: usize) -> Result<&'a Expression, Fault> {
        let (set, index) = self.place(number)?;
        set.pattern(index, bytes)
    }

    /// Whether the allow-lists know a text to be no secret.
    pub(super) fn allows(self, number: usize, secret: &[u8], lower: &[u8]) -> Result<bool, Fault> {
        let (set, index) = self.place(number)?;
        set.allows(index, secret, lower)
    }

    /// How much a rule says about what it finds, to choose among several.
    pub(super) fn weight(self, number: usize) -> (u8, u8, Reverse<usize>) {
        let (shape, severity) = self
            .place(number)
            .map_or((0, 0), |(set, index)| set.weight(index));
        (shape, severity, Reverse(number))
    }

    /// Whether some rule takes fields.
    pub(super) fn has_fields(self) -> bool {
        self.0.iter().any(|set| set.has_fields())
    }

    /// The rule that takes the field of that name, which is normalised.
    pub(super) fn field(self, name: &str) -> Option<usize> {
        self.each()
            .find_map(|(set, first)| Some(set.field(name)? + first))
    }

    /// What stands in a field that a rule takes, unless it is known to be no secret.
    pub(super) fn cell(
        self,
        number: usize,
        secret: &[u8],
        span: Range<usize>,
    ) -> Result<Option<Finding>, Fault> {
        let (set, index) = self.place(number)?;
        Ok(set.takes(index, secret)?.then(|| Finding {
            rule: number,
            span,
            secret: secret.to_vec(),
            encoding: Vec::new(),
            pointer: String::new(),
            wrap: None,
            key_of: None,
        }))
    }

    fn place(self, number: usize) -> Result<(&'a Ruleset, usize), Fault> {
        self.each()
            .find_map(|(set, first)| {
                let index = number.checked_sub(first)?;
                (index < set.len()).then_some((set, index))
            })
            .ok_or(Fault::Broken)
    }
}
