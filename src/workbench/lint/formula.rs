//! What a policy asks for, as a formula over tests of attributes, and whether one can ever hold.
//!
//! Only what is proven is said: a formula that is too large to be looked at whole may hold.

use std::sync::Arc;

use cedar_policy_core::ast::{Pattern, PatternElem};

use super::domain::Domain;

/// A condition without negations but at its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Formula {
    /// It always or never holds.
    Known(bool),
    /// A test of one attribute.
    Test(Literal),
    /// All of them.
    All(Vec<Self>),
    /// One of them.
    Any(Vec<Self>),
}

/// A test, or its opposite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Literal {
    /// What is tested, as a policy writes it.
    pub(super) subject: Arc<str>,
    /// What is asked of it.
    pub(super) test: Test,
    /// Whether it has to hold, or must not.
    pub(super) holds: bool,
}

/// What is asked of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    /// It is true. Also of what is not understood: the subject is then the expression itself.
    True,
    /// It is this text.
    Is(String),
    /// It is a set that holds this text.
    Has(String),
    /// It is a set that holds nothing.
    Empty,
    /// It is a number below this one.
    Below(i128),
    /// It is a text of this form.
    Like(Pattern),
}

impl Formula {
    /// All of them, without what does not matter.
    pub(super) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Self::Known(true) => {}
                Self::Known(false) => return Self::Known(false),
                Self::All(more) => kept.extend(more),
                other => kept.push(other),
            }
        }
        match (kept.pop(), kept.is_empty()) {
            (None, _) => Self::Known(true),
            (Some(only), true) => only,
            (Some(last), false) => {
                kept.push(last);
                Self::All(kept)
            }
        }
    }

    /// One of them, without what does not matter.
    pub(super) fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Self::Known(false) => {}
                Self::Known(true) => return Self::Known(true),
                Self::Any(more) => kept.extend(more),
                other => kept.push(other),
            }
        }
        match (kept.pop(), kept.is_empty()) {
            (None, _) => Self::Known(false),
            (Some(only), true) => only,
            (Some(last), false) => {
                kept.push(last);
                Self::Any(kept)
            }
        }
    }

    /// Every test in it.
    pub(super) fn literals(&self) -> Vec<&Literal> {
        match self {
            Self::Known(_) => Vec::new(),
            Self::Test(literal) => vec![literal],
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::literals).collect(),
        }
    }

    /// Whether it holds, as far as what is assumed of each test tells.
    pub(super) fn under(&self, assumed: &dyn Fn(&Literal) -> Option<bool>) -> Option<bool> {
        match self {
            Self::Known(known) => Some(*known),
            Self::Test(literal) => assumed(literal).map(|holds| holds == literal.holds),
            Self::All(parts) => {
                let mut known = Some(true);
                for part in parts {
                    match part.under(assumed) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => known = None,
                    }
                }
                known
            }
            Self::Any(parts) => {
                let mut known = Some(false);
                for part in parts {
                    match part.under(assumed) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => known = None,
                    }
                }
                known
            }
        }
    }
}

/// After so many steps a formula may hold: larger ones are for a solver.
const STEPS: usize = 20_000;

/// Whether all of them can hold together. What cannot be told can.
pub(super) fn satisfiable(parts: &[&Formula], domain: &Domain) -> bool {
    let mut steps = STEPS;
    search(parts.to_vec(), &mut Vec::new(), domain, &mut steps)
}

fn search<'f>(
    mut open: Vec<&'f Formula>,
    held: &mut Vec<&'f Literal>,
    domain: &Domain,
    steps: &mut usize,
) -> bool {
    let mut choices: Vec<&'f Formula> = Vec::new();
    while let Some(next) = open.pop() {
        if *steps == 0 {
            return true;
        }
        *steps -= 1;
        match next {
            Formula::Known(true) => {}
            Formula::Known(false) => return false,
            Formula::All(parts) => open.extend(parts),
            Formula::Any(_) => choices.push(next),
            Formula::Test(literal) => {
                held.push(literal);
                if contradicts(held, literal, domain) {
                    return false;
                }
            }
        }
    }
    let Some(Formula::Any(parts)) = choices.pop() else {
        return true;
    };
    let mark = held.len();
    for part in parts {
        let mut open = choices.clone();
        open.push(part);
        if search(open, held, domain, steps) {
            return true;
        }
        held.truncate(mark);
    }
    false
}

/// Whether what is held of a subject cannot be true at once.
fn contradicts(held: &[&Literal], new: &Literal, domain: &Domain) -> bool {
    let same = || held.iter().filter(|known| known.subject == new.subject);
    if same().any(|known| known.test == new.test && known.holds != new.holds) {
        return true;
    }
    let is = same().find_map(|known| match (&known.test, known.holds) {
        (Test::Is(text), true) => Some(text.as_str()),
        _ => None,
    });
    match &new.test {
        Test::True => false,
        Test::Has(_) | Test::Empty => {
            let empty = same().any(|known| known.test == Test::Empty && known.holds);
            empty && same().any(|known| matches!(known.test, Test::Has(_)) && known.holds)
        }
        Test::Below(_) => {
            let (mut low, mut high) = (i128::MIN, i128::MAX);
            for known in same() {
                match (&known.test, known.holds) {
                    (Test::Below(bound), true) => high = high.min(bound - 1),
                    (Test::Below(bound), false) => low = low.max(*bound),
                    _ => {}
                }
            }
            low > high
        }
        Test::Is(_) | Test::Like(_) => match is {
            Some(text) => same().any(|known| fits(known, text) == Some(false)),
            None => {
                impossible_forms(&same().copied().collect::<Vec<_>>())
                    || domain.values(&new.subject).is_some_and(|values| {
                        values
                            .iter()
                            .all(|value| same().any(|known| fits(known, value) == Some(false)))
                    })
            }
        },
    }
}

/// Whether a subject that is this text passes the test.
fn fits(literal: &Literal, text: &str) -> Option<bool> {
    let passes = match &literal.test {
        Test::Is(other) => other == text,
        Test::Like(pattern) => pattern.wildcard_match(text),
        _ => return None,
    };
    Some(passes == literal.holds)
}

/// Whether no text has all the forms that it has to have, and none that it must not have.
fn impossible_forms(held: &[&Literal]) -> bool {
    let like = |wanted: bool| {
        held.iter().filter_map(move |known| match &known.test {
            Test::Like(pattern) if known.holds == wanted => Some(pattern),
            _ => None,
        })
    };
    like(true).any(|pattern| {
        like(false).any(|other| covers(other, pattern))
            || like(true).any(|other| ends_differ(pattern, other))
    })
}

/// Whether every text of the narrow form has the wide one too.
pub(super) fn covers(wide: &Pattern, narrow: &Pattern) -> bool {
    let narrow = narrow.get_elems();
    // Which prefixes of the narrow one the wide one has matched so far.
    let mut reached = vec![false; narrow.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for wanted in wide.get_elems() {
        let mut next = vec![false; narrow.len() + 1];
        let mut before = false;
        for (at, slot) in next.iter_mut().enumerate() {
            let here = reached.get(at).copied().unwrap_or(false);
            *slot = match wanted {
                PatternElem::Wildcard => {
                    before |= here;
                    before
                }
                PatternElem::Char(_) => at
                    .checked_sub(1)
                    .and_then(|at| Some((narrow.get(at)?, *reached.get(at)?)))
                    .is_some_and(|(found, matched)| matched && found == wanted),
            };
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

/// Whether two forms ask for different starts, or for different ends.
fn ends_differ(a: &Pattern, b: &Pattern) -> bool {
    let (a, b) = (a.get_elems(), b.get_elems());
    let differ = |(a, b): (&PatternElem, &PatternElem)| a != b;
    let fixed = |(a, b): &(&PatternElem, &PatternElem)| {
        matches!(a, PatternElem::Char(_)) && matches!(b, PatternElem::Char(_))
    };
    a.iter().zip(b).take_while(fixed).any(differ)
        || a.iter()
            .rev()
            .zip(b.iter().rev())
            .take_while(fixed)
            .any(differ)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.chars()
            .map(|c| match c {
                '*' => PatternElem::Wildcard,
                c => PatternElem::Char(c),
            })
            .collect()
    }

    fn test(subject: &str, test: Test, holds: bool) -> Formula {
        Formula::Test(Literal {
            subject: subject.into(),
            test,
            holds,
        })
    }

    fn possible(parts: &[Formula]) -> bool {
        satisfiable(&parts.iter().collect::<Vec<_>>(), &Domain::default())
    }

    #[test]
    fn what_contradicts_itself_cannot_hold() {
        let is = |text: &str, holds| test("x", Test::Is(text.to_owned()), holds);
        let has = |text: &str, holds| test("s", Test::Has(text.to_owned()), holds);
        let like = |text: &str, holds| test("x", Test::Like(pattern(text)), holds);
        let below = |bound, holds| test("n", Test::Below(bound), holds);
        let empty = |holds| test("s", Test::Empty, holds);
        for parts in [
            vec![is("a", true), is("b", true)],
            vec![is("a", true), is("a", false)],
            vec![is("a", true), like("b*", true)],
            vec![like("b*", true), is("a", true)],
            vec![is("ab", true), like("a*", false)],
            vec![like("a*c", true), like("a*", false)],
            vec![like("a*", true), like("b*", true)],
            vec![like("*.md", true), like("*.rs", true)],
            vec![has("a", true), empty(true)],
            vec![below(3, true), below(3, false)],
            vec![below(3, true), below(5, false)],
            vec![Formula::any([is("a", true), is("b", true)]), is("c", true)],
        ] {
            assert!(!possible(&parts), "{parts:?}");
        }
        for parts in [
            vec![is("a", false), is("b", false)],
            vec![is("ab", true), like("a*", true)],
            vec![like("a*", true), like("a*c", false)],
            vec![like("a*", true), like("*b", true)],
            vec![has("a", true), has("b", true)],
            vec![has("a", false), empty(true)],
            vec![below(5, true), below(3, false)],
            vec![Formula::any([is("a", true), is("b", true)]), is("b", true)],
        ] {
            assert!(possible(&parts), "{parts:?}");
        }
    }

    #[test]
    fn what_is_too_large_may_hold() {
        let choice = |n: usize| {
            let one = |k: usize| test(&format!("x{n}-{k}"), Test::True, true);
            Formula::any((0..4).map(one))
        };
        let mut parts: Vec<Formula> = vec![
            test("y", Test::True, true),
            Formula::any([
                test("y", Test::True, false),
                test("y", Test::Is("a".into()), true),
            ]),
        ];
        parts.extend((0..20).map(choice));
        assert!(possible(&parts));
    }

    #[test]
    fn forms_are_compared() {
        for (wide, narrow, yes) in [
            ("*", "a", true),
            ("*.md*", "*.md", true),
            ("*.md", "*.md*", false),
            ("/a/*", "/a/*/b", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("a*b", "a*", false),
        ] {
            assert_eq!(
                covers(&pattern(wide), &pattern(narrow)),
                yes,
                "{wide} {narrow}"
            );
        }
    }
}
