//! From Cedar's expressions to formulas, in one environment at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use cedar_policy_core::ast::{
    BinaryOp, EntityUID, Expr, ExprKind, Literal as Lit, PatternElem, UnaryOp, Var,
};

use super::domain::{Domain, Environment, Never};
use super::formula::{Formula, Literal, Test};
use super::range::{self, Guards};
use crate::engine::action::Action;
use crate::engine::request::NAMESPACE;

/// What was found about the tests of one policy, by their places.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Why a test never holds; nothing where it can in one of the environments.
    pub(super) never: BTreeMap<(usize, usize), Option<Never>>,
}

/// One environment, and what is noted on the way.
pub(super) struct Lowering<'a> {
    pub(super) domain: &'a Domain,
    pub(super) env: Environment,
    pub(super) notes: &'a mut Notes,
}

impl Lowering<'_> {
    /// The formula of a condition, or of its opposite.
    pub(super) fn lower(&mut self, expr: &Expr, holds: bool) -> Formula {
        match expr.expr_kind() {
            ExprKind::Lit(Lit::Bool(known)) => Formula::Known(*known == holds),
            ExprKind::And { left, right } => self.join(left, right, holds, holds),
            ExprKind::Or { left, right } => self.join(left, right, holds, !holds),
            ExprKind::If {
                test_expr,
                then_expr,
                else_expr,
            } => {
                let then = [self.lower(test_expr, true), self.lower(then_expr, holds)];
                let otherwise = [self.lower(test_expr, false), self.lower(else_expr, holds)];
                Formula::any([Formula::all(then), Formula::all(otherwise)])
            }
            ExprKind::UnaryApp {
                op: UnaryOp::Not,
                arg,
            } => self.lower(arg, !holds),
            ExprKind::UnaryApp {
                op: UnaryOp::IsEmpty,
                arg,
            } => match texts(arg) {
                Some(texts) => Formula::Known(texts.is_empty() == holds),
                None => self.test(arg, Test::Empty, holds, expr),
            },
            ExprKind::BinaryApp { op, arg1, arg2 } => self.binary(*op, arg1, arg2, holds, expr),
            ExprKind::Like { expr: of, pattern } => {
                let wild = |part: &PatternElem| matches!(part, PatternElem::Wildcard);
                if !pattern.is_empty() && pattern.iter().all(wild) {
                    return Formula::Known(holds);
                }
                if !pattern.iter().any(wild) {
                    let text = pattern.iter().filter_map(|part| match part {
                        PatternElem::Char(c) => Some(*c),
                        PatternElem::Wildcard => None,
                    });
                    return self.test(of, Test::Is(text.collect()), holds, expr);
                }
                self.test(of, Test::Like(pattern.clone()), holds, expr)
            }
            ExprKind::Is {
                expr: of,
                entity_type,
            } => {
                let name = entity_type.to_string();
                let known = match of.expr_kind() {
                    ExprKind::Var(Var::Principal) => "Agent",
                    ExprKind::Var(Var::Resource) => self.env.resource.name(),
                    _ => return self.opaque(expr, holds),
                };
                Formula::Known((name == format!("{NAMESPACE}::{known}")) == holds)
            }
            _ => self.opaque(expr, holds),
        }
    }

    fn join(&mut self, left: &Expr, right: &Expr, holds: bool, all: bool) -> Formula {
        let left = self.lower(left, holds);
        // Then Cedar does not look at the rest either.
        if left == Formula::Known(!all) {
            return left;
        }
        let parts = [left, self.lower(right, holds)];
        if all {
            Formula::all(parts)
        } else {
            Formula::any(parts)
        }
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, holds: bool, whole: &Expr) -> Formula {
        match op {
            BinaryOp::Eq => self.equal(a, b, holds),
            BinaryOp::Less => self.less(a, b, 0, holds, whole),
            BinaryOp::LessEq => self.less(a, b, 1, holds, whole),
            BinaryOp::In => self.within(a, b, holds, whole),
            BinaryOp::Contains => match a.expr_kind() {
                ExprKind::Set(all) => self.each(all.iter(), false, holds, |this, one| {
                    this.equal(one, b, holds)
                }),
                _ => match text(b) {
                    Some(name) => self.test(a, Test::Has(name), holds, b),
                    None => self.opaque(whole, holds),
                },
            },
            BinaryOp::ContainsAny => match (a.expr_kind(), b.expr_kind()) {
                (_, ExprKind::Set(all)) if texts(b).is_some() => self.members(a, all, false, holds),
                (ExprKind::Set(all), _) if texts(a).is_some() => self.members(b, all, false, holds),
                _ => self.opaque(whole, holds),
            },
            BinaryOp::ContainsAll => match b.expr_kind() {
                ExprKind::Set(all) if texts(b).is_some() => self.members(a, all, true, holds),
                _ => self.opaque(whole, holds),
            },
            _ => self.opaque(whole, holds),
        }
    }

    /// One of several, or all of them.
    fn each<'e>(
        &mut self,
        all: impl Iterator<Item = &'e Expr>,
        every: bool,
        holds: bool,
        mut lower: impl FnMut(&mut Self, &Expr) -> Formula,
    ) -> Formula {
        let parts: Vec<Formula> = all.map(|one| lower(self, one)).collect();
        if every == holds {
            Formula::all(parts)
        } else {
            Formula::any(parts)
        }
    }

    /// Whether a set holds one of those texts, or all of them.
    fn members(&mut self, set: &Expr, names: &[Expr], every: bool, holds: bool) -> Formula {
        let own = texts(set);
        self.each(names.iter(), every, holds, |this, one| {
            let name = text(one).unwrap_or_default();
            match &own {
                Some(own) => Formula::Known(own.contains(&name) == holds),
                None => this.test(set, Test::Has(name), holds, one),
            }
        })
    }

    fn equal(&mut self, a: &Expr, b: &Expr, holds: bool) -> Formula {
        match (a.expr_kind(), b.expr_kind()) {
            (ExprKind::Lit(a), ExprKind::Lit(b)) => Formula::Known((a == b) == holds),
            (ExprKind::Lit(_), _) => self.equal(b, a, holds),
            (_, ExprKind::Lit(Lit::Bool(known))) => self.lower(a, holds == *known),
            (_, ExprKind::Lit(Lit::String(text))) => {
                self.test(a, Test::Is(text.to_string()), holds, b)
            }
            (_, ExprKind::Lit(Lit::Long(number))) => {
                let number = i128::from(*number);
                let below = self.below(a, number + 1, holds);
                let above = self.below(a, number, !holds);
                if holds {
                    Formula::all([below, above])
                } else {
                    Formula::any([below, above])
                }
            }
            (ExprKind::Var(Var::Action), ExprKind::Lit(Lit::EntityUID(uid))) => {
                Formula::Known((uid.eid().as_ref() as &str == self.env.action.name()) == holds)
            }
            (ExprKind::Var(var), ExprKind::Lit(Lit::EntityUID(uid))) => {
                self.entity(*var, uid, holds)
            }
            _ => {
                let (mut a, mut b) = (a.to_string(), b.to_string());
                if a > b {
                    std::mem::swap(&mut a, &mut b);
                }
                if a == b {
                    return Formula::Known(holds);
                }
                literal(format!("{a} == {b}"), Test::True, holds)
            }
        }
    }

    fn entity(&self, var: Var, uid: &Arc<EntityUID>, holds: bool) -> Formula {
        let resource = format!("{NAMESPACE}::{}", self.env.resource.name());
        if var == Var::Resource && uid.entity_type().to_string() != resource {
            return Formula::Known(!holds);
        }
        literal(
            var.to_string(),
            Test::Is(uid.eid().escaped().to_string()),
            holds,
        )
    }

    /// `a < b`, or `a <= b` where `more` is 1.
    fn less(&mut self, a: &Expr, b: &Expr, more: i128, holds: bool, whole: &Expr) -> Formula {
        match (number(a), number(b)) {
            (_, Some(bound)) => self.below(a, bound + more, holds),
            // `1 < x` is no `x < 2`.
            (Some(bound), None) => self.below(b, bound + 1 - more, !holds),
            (None, None) => self.opaque(whole, holds),
        }
    }

    fn below(&self, of: &Expr, bound: i128, holds: bool) -> Formula {
        let range = range::range(of, &Guards::new());
        if range.high < bound {
            return Formula::Known(holds);
        }
        if range.low >= bound {
            return Formula::Known(!holds);
        }
        literal(of.to_string(), Test::Below(bound), holds)
    }

    fn within(&mut self, a: &Expr, b: &Expr, holds: bool, whole: &Expr) -> Formula {
        let action = matches!(a.expr_kind(), ExprKind::Var(Var::Action));
        let is = |expr: &Expr| match expr.expr_kind() {
            ExprKind::Lit(Lit::EntityUID(uid)) => {
                let name: &str = uid.eid().as_ref();
                let group = name == Action::TOOL_USE && self.env.action.is_tool_use();
                Some(group || name == self.env.action.name())
            }
            _ => None,
        };
        let known = match b.expr_kind() {
            ExprKind::Set(all) => all
                .iter()
                .map(is)
                .collect::<Option<Vec<bool>>>()
                .map(|all| all.contains(&true)),
            _ => is(b),
        };
        match known.filter(|_| action) {
            Some(known) => Formula::Known(known == holds),
            None => self.opaque(whole, holds),
        }
    }

    /// A test of an attribute: what is known never to hold is noted at `at`.
    fn test(&mut self, of: &Expr, test: Test, holds: bool, at: &Expr) -> Formula {
        let subject = of.to_string();
        let never = self.domain.never(self.env, &subject, &test);
        let known = never.is_some();
        if let Some(loc) = at.source_loc() {
            let place = (loc.start(), loc.end());
            self.notes
                .never
                .entry(place)
                .and_modify(|known| *known = known.take().filter(|_| never.is_some()))
                .or_insert(never);
        }
        if known {
            return Formula::Known(!holds);
        }
        literal(subject, test, holds)
    }

    fn opaque(&self, expr: &Expr, holds: bool) -> Formula {
        literal(expr.to_string(), Test::True, holds)
    }
}

/// Where an expression stands.
pub(super) fn place(expr: &Expr) -> Option<Range<usize>> {
    expr.source_loc().map(|loc| loc.start()..loc.end())
}

fn literal(subject: String, test: Test, holds: bool) -> Formula {
    Formula::Test(Literal {
        subject: subject.into(),
        test,
        holds,
    })
}

fn text(expr: &Expr) -> Option<String> {
    match expr.expr_kind() {
        ExprKind::Lit(Lit::String(text)) => Some(text.to_string()),
        _ => None,
    }
}

fn texts(expr: &Expr) -> Option<Vec<String>> {
    match expr.expr_kind() {
        ExprKind::Set(all) => all.iter().map(text).collect(),
        _ => None,
    }
}

fn number(expr: &Expr) -> Option<i128> {
    match expr.expr_kind() {
        ExprKind::Lit(Lit::Long(number)) => Some(i128::from(*number)),
        _ => None,
    }
}
