//! The kinds of requests that there are: an action on a type of resource. A proof is made for each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cedar_policy::pst::{self, BinaryOp, Clause, Expr, Literal, Var};
use cedar_policy::{EntityId, EntityTypeName, EntityUid, RequestEnv};

use crate::engine::action::Action;
use crate::engine::bundle::{Policy, Settings};
use crate::engine::request::{NAMESPACE, ResourceType};
use crate::engine::schema::resources;

/// An action on a type of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workbench) struct Environment {
    /// What is done.
    pub(in crate::workbench) action: Action,
    /// To what.
    pub(in crate::workbench) resource: ResourceType,
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action.name(), self.resource.name())
    }
}

impl Environment {
    /// Every kind of request that the engine is ever asked about.
    pub(in crate::workbench) fn all() -> impl Iterator<Item = Self> {
        Action::ALL.into_iter().flat_map(|action| {
            let all = resources(action).iter();
            all.map(move |resource| Self {
                action,
                resource: *resource,
            })
        })
    }

    /// Whether a policy's scope admits such requests.
    #[must_use]
    pub(in crate::workbench) const fn admits(self, policy: &Policy) -> bool {
        policy.actions.contains(self.action) && policy.resources.contains(self.resource)
    }

    /// The same, in Cedar's words.
    pub(in crate::workbench) fn cedar(self) -> Result<RequestEnv, String> {
        let name = |name: &str| {
            EntityTypeName::from_str(&format!("{NAMESPACE}::{name}"))
                .map_err(|error| error.to_string())
        };
        let action = EntityId::new(self.action.name());
        Ok(RequestEnv::new(
            name("Agent")?,
            EntityUid::from_type_name_and_id(name("Action")?, action),
            name(self.resource.name())?,
        ))
    }

    /// What holds of every request, because nothing else fits into a fact. A solver's numbers have
    /// 64 bits and a sign; ours have not.
    pub(in crate::workbench) fn ranges(self, settings: &Settings) -> Clause {
        let mut ranges = vec![within(get(Var::Context, "depth"), i64::from(u32::MAX))];
        match self.resource {
            ResourceType::Url => {
                ranges.push(within(get(Var::Resource, "port"), i64::from(u16::MAX)));
            }
            // A larger event is refused before it is judged.
            ResourceType::Text => {
                let most = i64::from(settings.limits.event_bytes);
                ranges.push(within(get(Var::Resource, "bytes"), most));
            }
            _ => {}
        }
        let first = literal(Literal::Bool(true));
        let all = ranges.into_iter().reduce(|a, b| both(&a, &b));
        Clause::When(all.unwrap_or(first))
    }
}

/// An expression in which the facts that settings alone decide stand as what they are: the limit of
/// the depth and the harmless tools. An agent's depth is the request's.
pub(in crate::workbench) fn settled(expr: &Arc<Expr>, settings: &Settings) -> Arc<Expr> {
    let go = |expr: &Arc<Expr>| settled(expr, settings);
    if let Expr::GetAttr { expr: of, attr } = &**expr
        && let Expr::Var(var) = &**of
    {
        return match (var, attr.as_str()) {
            (Var::Context, "depth_limit") => {
                literal(Literal::Long(i64::from(settings.limits.depth)))
            }
            (Var::Principal, "depth") => get(Var::Context, "depth"),
            (Var::Resource, "harmless") => harmless(settings),
            _ => Arc::clone(expr),
        };
    }
    Arc::new(match &**expr {
        Expr::UnaryOp { op, expr } => Expr::UnaryOp {
            op: *op,
            expr: go(expr),
        },
        Expr::BinaryOp { op, left, right } => Expr::BinaryOp {
            op: *op,
            left: go(left),
            right: go(right),
        },
        Expr::GetAttr { expr, attr } => Expr::GetAttr {
            expr: go(expr),
            attr: attr.clone(),
        },
        Expr::HasAttr { expr, attrs } => Expr::HasAttr {
            expr: go(expr),
            attrs: attrs.clone(),
        },
        Expr::Like { expr, pattern } => Expr::Like {
            expr: go(expr),
            pattern: pattern.clone(),
        },
        Expr::Is {
            expr,
            entity_type,
            in_expr,
        } => Expr::Is {
            expr: go(expr),
            entity_type: entity_type.clone(),
            in_expr: in_expr.as_ref().map(go),
        },
        Expr::IfThenElse {
            cond,
            then_expr,
            else_expr,
        } => Expr::IfThenElse {
            cond: go(cond),
            then_expr: go(then_expr),
            else_expr: go(else_expr),
        },
        Expr::Set(all) => Expr::Set(all.iter().map(go).collect()),
        Expr::Record(fields) => Expr::Record(
            fields
                .iter()
                .map(|(name, value)| (name.clone(), go(value)))
                .collect(),
        ),
        _ => return Arc::clone(expr),
    })
}

/// `resource.harmless`, as the gate works it out.
fn harmless(settings: &Settings) -> Arc<Expr> {
    if settings.harmless_tools.is_empty() {
        return literal(Literal::Bool(false));
    }
    let text = |text: &str| literal(Literal::String(text.into()));
    let names = settings.harmless_tools.iter().map(|name| text(name));
    let own = binary(BinaryOp::Eq, &get(Var::Resource, "server"), &text(""));
    let listed = binary(
        BinaryOp::Contains,
        &Arc::new(Expr::Set(names.collect())),
        &get(Var::Resource, "name"),
    );
    both(&own, &listed)
}

fn within(number: Arc<Expr>, most: i64) -> Arc<Expr> {
    let long = |value| literal(Literal::Long(value));
    both(
        &binary(BinaryOp::GreaterEq, &number, &long(0)),
        &binary(BinaryOp::LessEq, &number, &long(most)),
    )
}

fn get(var: Var, attr: &str) -> Arc<Expr> {
    Arc::new(Expr::GetAttr {
        expr: Arc::new(Expr::Var(var)),
        attr: attr.into(),
    })
}

fn both(left: &Arc<Expr>, right: &Arc<Expr>) -> Arc<Expr> {
    binary(BinaryOp::And, left, right)
}

fn binary(op: BinaryOp, left: &Arc<Expr>, right: &Arc<Expr>) -> Arc<Expr> {
    Arc::new(Expr::BinaryOp {
        op,
        left: Arc::clone(left),
        right: Arc::clone(right),
    })
}

fn literal(value: pst::Literal) -> Arc<Expr> {
    Arc::new(Expr::Literal(value))
}
