//! Between which numbers an expression lies, and whether it can leave those that Cedar has.

use std::ops::Range as Span;

use cedar_policy_core::ast::{BinaryOp, Expr, ExprKind, Literal, UnaryOp};

/// Numbers from `low` to `high`, both counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// The lowest.
    pub(super) low: i128,
    /// The highest.
    pub(super) high: i128,
}

/// Every number that Cedar has.
const LONG: Range = Range {
    low: i64::MIN as i128,
    high: i64::MAX as i128,
};

/// What the parts of a condition before this one say about numbers.
pub(super) type Guards = Vec<(String, Range)>;

/// Between which numbers an expression lies, if it is one.
pub(super) fn range(expr: &Expr, guards: &Guards) -> Range {
    let own = match expr.expr_kind() {
        ExprKind::Lit(Literal::Long(number)) => point(i128::from(*number)),
        ExprKind::GetAttr { attr, .. } => match attr.as_str() {
            "depth" | "depth_limit" => Range {
                low: 0,
                high: i128::from(u32::MAX),
            },
            "port" => Range {
                low: 0,
                high: i128::from(u16::MAX),
            },
            "bytes" => Range { low: 0, ..LONG },
            _ => LONG,
        },
        // What would leave the numbers fails, and has no value.
        _ => operation(expr, guards).map_or(LONG, |range| intersect(range, LONG)),
    };
    if matches!(expr.expr_kind(), ExprKind::Lit(_)) || guards.is_empty() {
        return own;
    }
    let text = expr.to_string();
    guards
        .iter()
        .filter(|(subject, _)| *subject == text)
        .fold(own, |own, (_, guard)| intersect(own, *guard))
}

/// Where an expression can leave the numbers that Cedar has, and what it is.
pub(super) fn overflows(expr: &Expr) -> Vec<(Option<Span<usize>>, String)> {
    let mut found = Vec::new();
    walk(expr, &mut Guards::new(), &mut found);
    found
}

fn walk(expr: &Expr, guards: &mut Guards, found: &mut Vec<(Option<Span<usize>>, String)>) {
    let mark = guards.len();
    match expr.expr_kind() {
        ExprKind::And { left, right } => {
            walk(left, guards, found);
            learn(left, true, guards);
            walk(right, guards, found);
        }
        ExprKind::Or { left, right } => {
            walk(left, guards, found);
            learn(left, false, guards);
            walk(right, guards, found);
        }
        ExprKind::If {
            test_expr,
            then_expr,
            else_expr,
        } => {
            walk(test_expr, guards, found);
            learn(test_expr, true, guards);
            walk(then_expr, guards, found);
            guards.truncate(mark);
            learn(test_expr, false, guards);
            walk(else_expr, guards, found);
        }
        kind => {
            let before = found.len();
            for inner in children(kind) {
                walk(inner, guards, found);
            }
            // What is built on it is told with it.
            if found.len() > before {
                return;
            }
            if operation(expr, guards).is_some_and(|range| intersect(range, LONG) != range) {
                let at = expr.source_loc().map(|loc| loc.start()..loc.end());
                found.push((at, expr.to_string()));
            }
        }
    }
    guards.truncate(mark);
}

/// The operands of what is no `&&`, `||` or `if`.
pub(super) fn children(kind: &ExprKind) -> Vec<&Expr> {
    match kind {
        ExprKind::UnaryApp { arg, .. } => vec![arg],
        ExprKind::BinaryApp { arg1, arg2, .. } => vec![arg1, arg2],
        ExprKind::GetAttr { expr, .. }
        | ExprKind::HasAttr { expr, .. }
        | ExprKind::ExtHasAttr { expr, .. }
        | ExprKind::Like { expr, .. }
        | ExprKind::Is { expr, .. } => vec![expr],
        ExprKind::ExtensionFunctionApp { args, .. } => args.iter().collect(),
        ExprKind::Set(all) => all.iter().collect(),
        ExprKind::Record(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

/// What a condition says about numbers, if it holds or if it does not.
fn learn(expr: &Expr, holds: bool, guards: &mut Guards) {
    match expr.expr_kind() {
        ExprKind::And { left, right } if holds => {
            learn(left, true, guards);
            learn(right, true, guards);
        }
        ExprKind::Or { left, right } if !holds => {
            learn(left, false, guards);
            learn(right, false, guards);
        }
        ExprKind::UnaryApp {
            op: UnaryOp::Not,
            arg,
        } => learn(arg, !holds, guards),
        ExprKind::BinaryApp { op, arg1, arg2 } => {
            let (left, right) = (range(arg1, guards), range(arg2, guards));
            // `a < b` as it stands, or `b <= a`.
            let (least, low, most, high, gap) = match (op, holds) {
                (BinaryOp::Less, true) => (arg1, left, arg2, right, 1),
                (BinaryOp::LessEq, true) => (arg1, left, arg2, right, 0),
                (BinaryOp::Less, false) => (arg2, right, arg1, left, 0),
                (BinaryOp::LessEq, false) => (arg2, right, arg1, left, 1),
                (BinaryOp::Eq, true) => {
                    guards.push((arg1.to_string(), right));
                    return guards.push((arg2.to_string(), left));
                }
                _ => return,
            };
            let below = Range {
                high: high.high - gap,
                ..LONG
            };
            let above = Range {
                low: low.low + gap,
                ..LONG
            };
            guards.push((least.to_string(), below));
            guards.push((most.to_string(), above));
        }
        _ => {}
    }
}

/// Where the result of an operation on numbers would lie.
fn operation(expr: &Expr, guards: &Guards) -> Option<Range> {
    match expr.expr_kind() {
        ExprKind::UnaryApp {
            op: UnaryOp::Neg,
            arg,
        } => {
            let range = range(arg, guards);
            Some(Range {
                low: -range.high,
                high: -range.low,
            })
        }
        ExprKind::BinaryApp { op, arg1, arg2 } => {
            let (a, b) = (range(arg1, guards), range(arg2, guards));
            Some(match op {
                BinaryOp::Add => Range {
                    low: a.low + b.low,
                    high: a.high + b.high,
                },
                BinaryOp::Sub => Range {
                    low: a.low - b.high,
                    high: a.high - b.low,
                },
                BinaryOp::Mul => {
                    let products =
                        [a.low, a.high].map(|x| [b.low, b.high].map(|y| x.saturating_mul(y)));
                    let all = products.into_iter().flatten();
                    Range {
                        low: all.clone().min().unwrap_or(i128::MIN),
                        high: all.max().unwrap_or(i128::MAX),
                    }
                }
                _ => return None,
            })
        }
        _ => None,
    }
}

const fn point(number: i128) -> Range {
    Range {
        low: number,
        high: number,
    }
}

fn intersect(a: Range, b: Range) -> Range {
    Range {
        low: a.low.max(b.low),
        high: a.high.min(b.high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let expr: Expr = text.parse().unwrap();
        overflows(&expr).len()
    }

    #[test]
    fn only_what_can_leave_the_numbers_is_found() {
        for (text, count) in [
            ("context.depth + 1 < context.depth_limit", 0),
            ("context.depth * 1000 < 5", 0),
            ("resource.bytes * 2 < 5", 1),
            ("resource.bytes + 1 < 5", 1),
            ("resource.bytes - 1 < 5", 0),
            ("resource.bytes < 1000 && resource.bytes * 2 < 5", 0),
            ("resource.bytes >= 1000 || resource.bytes * 2 < 5", 0),
            ("resource.bytes >= 1000 && resource.bytes * 2 < 5", 1),
            ("!(resource.bytes > 1000) && resource.bytes * 2 < 5", 0),
            (
                "if resource.bytes < 9 then resource.bytes + 1 < 5 else resource.bytes + 1 < 7",
                1,
            ),
            ("9223372036854775807 + 1 == 2", 1),
            ("1 + 1 == 2", 0),
            ("resource.port * resource.port < 5", 0),
            ("-resource.bytes < 5", 0),
            ("context.depth * context.depth * context.depth < 5", 1),
        ] {
            assert_eq!(found(text), count, "{text}");
        }
    }
}
