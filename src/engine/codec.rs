//! Cedar policies in a compact form that is decoded without a parser.
//!
//! Cedar's text costs a parser run in every short-lived process; its own binary form needs
//! `protoc` where we are built. This is its public syntax tree (`cedar_policy::pst`), node by node.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use cedar_policy::EntityTypeName;
use cedar_policy::pst::{self, EntityOrSlot};
use serde::{Deserialize, Serialize};

/// A policy that the codec cannot carry, or bytes that are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecError(pub String);

/// The scope and the clauses of one static policy, without its id and annotations.
#[derive(Debug, Serialize, Deserialize)]
struct Encoded<'a> {
    forbid: bool,
    #[serde(borrow)]
    principal: Scope<'a>,
    action: ActionScope<'a>,
    resource: Scope<'a>,
    clauses: Vec<(bool, Node<'a>)>,
}

/// A text of the policy: in the bytes that are decoded, or of the tree that is encoded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug, Serialize, Deserialize)]
enum Scope<'a> {
    Any,
    #[serde(borrow)]
    Eq(Uid<'a>),
    In(Uid<'a>),
    Is(Text<'a>),
    IsIn(Text<'a>, Uid<'a>),
}

#[derive(Debug, Serialize, Deserialize)]
enum ActionScope<'a> {
    Any,
    #[serde(borrow)]
    Eq(Uid<'a>),
    In(Vec<Uid<'a>>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Uid<'a>(#[serde(borrow)] Text<'a>, Text<'a>);

#[derive(Debug, Serialize, Deserialize)]
enum Node<'a> {
    Bool(bool),
    Long(i64),
    #[serde(borrow)]
    Text(Text<'a>),
    Uid(Uid<'a>),
    Var(u8),
    Unary(u8, Box<Node<'a>>),
    Binary(u8, Box<Node<'a>>, Box<Node<'a>>),
    Get(Box<Node<'a>>, Text<'a>),
    Has(Box<Node<'a>>, Vec<Text<'a>>),
    /// `None` is the wildcard.
    Like(Box<Node<'a>>, Vec<Option<char>>),
    Is(Box<Node<'a>>, Text<'a>, Option<Box<Node<'a>>>),
    If(Box<Node<'a>>, Box<Node<'a>>, Box<Node<'a>>),
    Set(Vec<Node<'a>>),
    Record(Vec<(Text<'a>, Node<'a>)>),
}

const VARS: [pst::Var; 4] = [
    pst::Var::Principal,
    pst::Var::Action,
    pst::Var::Resource,
    pst::Var::Context,
];

const UNARY: [pst::UnaryOp; 18] = [
    pst::UnaryOp::Not,
    pst::UnaryOp::Neg,
    pst::UnaryOp::IsEmpty,
    pst::UnaryOp::Datetime,
    pst::UnaryOp::Decimal,
    pst::UnaryOp::Duration,
    pst::UnaryOp::Ip,
    pst::UnaryOp::IsIPv4,
    pst::UnaryOp::IsIPV6,
    pst::UnaryOp::IsLoopback,
    pst::UnaryOp::IsMulticast,
    pst::UnaryOp::ToDate,
    pst::UnaryOp::ToTime,
    pst::UnaryOp::ToMilliseconds,
    pst::UnaryOp::ToSeconds,
    pst::UnaryOp::ToMinutes,
    pst::UnaryOp::ToHours,
    pst::UnaryOp::ToDays,
];

const BINARY: [pst::BinaryOp; 24] = [
    pst::BinaryOp::Eq,
    pst::BinaryOp::NotEq,
    pst::BinaryOp::Less,
    pst::BinaryOp::LessEq,
    pst::BinaryOp::Greater,
    pst::BinaryOp::GreaterEq,
    pst::BinaryOp::And,
    pst::BinaryOp::Or,
    pst::BinaryOp::Add,
    pst::BinaryOp::Sub,
    pst::BinaryOp::Mul,
    pst::BinaryOp::In,
    pst::BinaryOp::Contains,
    pst::BinaryOp::ContainsAll,
    pst::BinaryOp::ContainsAny,
    pst::BinaryOp::GetTag,
    pst::BinaryOp::HasTag,
    pst::BinaryOp::IsInRange,
    pst::BinaryOp::Offset,
    pst::BinaryOp::DurationSince,
    pst::BinaryOp::DecimalLessThan,
    pst::BinaryOp::DecimalLessEq,
    pst::BinaryOp::DecimalGreater,
    pst::BinaryOp::DecimalGreaterEq,
];

/// The bytes of a static policy.
///
/// # Errors
/// If the policy has slots or a kind of expression that this version does not know.
pub fn encode(policy: &pst::Template) -> Result<Vec<u8>, CodecError> {
    let encoded = Encoded {
        forbid: policy.effect == pst::Effect::Forbid,
        principal: match &policy.principal {
            pst::PrincipalConstraint::Any => Scope::Any,
            pst::PrincipalConstraint::Eq(e) => Scope::Eq(slotless(e)?),
            pst::PrincipalConstraint::In(e) => Scope::In(slotless(e)?),
            pst::PrincipalConstraint::Is(t) => Scope::Is(type_name(t)),
            pst::PrincipalConstraint::IsIn(t, e) => Scope::IsIn(type_name(t), slotless(e)?),
        },
        action: match &policy.action {
            pst::ActionConstraint::Any => ActionScope::Any,
            pst::ActionConstraint::Eq(e) => ActionScope::Eq(uid(e)),
            pst::ActionConstraint::In(all) => ActionScope::In(all.iter().map(uid).collect()),
        },
        resource: match &policy.resource {
            pst::ResourceConstraint::Any => Scope::Any,
            pst::ResourceConstraint::Eq(e) => Scope::Eq(slotless(e)?),
            pst::ResourceConstraint::In(e) => Scope::In(slotless(e)?),
            pst::ResourceConstraint::Is(t) => Scope::Is(type_name(t)),
            pst::ResourceConstraint::IsIn(t, e) => Scope::IsIn(type_name(t), slotless(e)?),
        },
        clauses: policy
            .clauses()
            .iter()
            .map(|clause| match clause {
                pst::Clause::When(expr) => Ok((true, node(expr)?)),
                pst::Clause::Unless(expr) => Ok((false, node(expr)?)),
            })
            .collect::<Result<_, CodecError>>()?,
    };
    postcard::to_stdvec(&encoded).map_err(|error| CodecError(error.to_string()))
}

/// Makes policies of bytes, and keeps the names of entity types: Cedar checks each one that it is
/// given, which costs more than all the rest.
#[derive(Debug, Default)]
pub struct Decoder {
    types: BTreeMap<String, pst::EntityType>,
    reads: Reads,
}

/// The attributes that policies ask for, by their names: Cedar has no other way to one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    names: BTreeSet<String>,
    /// Whether one looks at the context as a whole.
    all: bool,
}

impl Reads {
    /// Every attribute.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            names: BTreeSet::new(),
            all: true,
        }
    }

    /// Whether an attribute of that name is asked for, whosever it is.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }

    /// These and those.
    pub fn extend(&mut self, others: &Self) {
        self.all |= others.all;
        self.names.extend(others.names.iter().cloned());
    }

    fn note(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }
}

impl Decoder {
    /// The policy of those bytes, under that id.
    ///
    /// # Errors
    /// If the bytes are not what [`encode`] made.
    pub fn policy(&mut self, bytes: &[u8], id: &str) -> Result<cedar_policy::Policy, CodecError> {
        self.reads = Reads::default();
        let encoded: Encoded<'_> =
            postcard::from_bytes(bytes).map_err(|error| CodecError(error.to_string()))?;
        let effect = if encoded.forbid {
            pst::Effect::Forbid
        } else {
            pst::Effect::Permit
        };
        let principal = match encoded.principal {
            Scope::Any => pst::PrincipalConstraint::Any,
            Scope::Eq(e) => pst::PrincipalConstraint::Eq(self.entity(&e)?),
            Scope::In(e) => pst::PrincipalConstraint::In(self.entity(&e)?),
            Scope::Is(t) => pst::PrincipalConstraint::Is(self.entity_type(&t.0)?),
            Scope::IsIn(t, e) => {
                pst::PrincipalConstraint::IsIn(self.entity_type(&t.0)?, self.entity(&e)?)
            }
        };
        let action = match encoded.action {
            ActionScope::Any => pst::ActionConstraint::Any,
            ActionScope::Eq(e) => pst::ActionConstraint::Eq(self.uid(&e)?),
            ActionScope::In(all) => pst::ActionConstraint::In(
                all.iter()
                    .map(|e| self.uid(e))
                    .collect::<Result<_, CodecError>>()?,
            ),
        };
        let resource = match encoded.resource {
            Scope::Any => pst::ResourceConstraint::Any,
            Scope::Eq(e) => pst::ResourceConstraint::Eq(self.entity(&e)?),
            Scope::In(e) => pst::ResourceConstraint::In(self.entity(&e)?),
            Scope::Is(t) => pst::ResourceConstraint::Is(self.entity_type(&t.0)?),
            Scope::IsIn(t, e) => {
                pst::ResourceConstraint::IsIn(self.entity_type(&t.0)?, self.entity(&e)?)
            }
        };
        let clauses = encoded
            .clauses
            .into_iter()
            .map(|(when, body)| {
                let body = Arc::new(self.expr(body)?);
                Ok(if when {
                    pst::Clause::When(body)
                } else {
                    pst::Clause::Unless(body)
                })
            })
            .collect::<Result<Vec<_>, CodecError>>()?;
        let template = pst::Template::new(id, effect, principal, action, resource)
            .try_with_clauses(clauses)
            .map_err(|error| CodecError(error.to_string()))?;
        let policy =
            pst::StaticPolicy::try_from(template).map_err(|error| CodecError(error.to_string()))?;
        cedar_policy::Policy::from_pst(pst::Policy::Static(policy))
            .map_err(|error| CodecError(error.to_string()))
    }

    /// What the last policy asks for.
    #[must_use]
    pub const fn reads(&self) -> &Reads {
        &self.reads
    }

    fn entity(&mut self, uid: &Uid<'_>) -> Result<EntityOrSlot, CodecError> {
        Ok(EntityOrSlot::Entity(self.uid(uid)?))
    }

    fn uid(&mut self, Uid(ty, eid): &Uid<'_>) -> Result<pst::EntityUID, CodecError> {
        Ok(pst::EntityUID {
            ty: self.entity_type(&ty.0)?,
            eid: eid.0.as_ref().into(),
        })
    }

    fn entity_type(&mut self, name: &str) -> Result<pst::EntityType, CodecError> {
        if let Some(known) = self.types.get(name) {
            return Ok(known.clone());
        }
        // `pst::Name` would check it too, but with Cedar's whole parser.
        let parsed =
            EntityTypeName::from_str(name).map_err(|error| CodecError(error.to_string()))?;
        let new = pst::EntityType::from(parsed.as_ref().clone());
        self.types.insert(name.to_owned(), new.clone());
        Ok(new)
    }

    fn expr(&mut self, node: Node<'_>) -> Result<pst::Expr, CodecError> {
        Ok(match node {
            Node::Bool(b) => pst::Expr::Literal(pst::Literal::Bool(b)),
            Node::Long(n) => pst::Expr::Literal(pst::Literal::Long(n)),
            Node::Text(s) => pst::Expr::Literal(pst::Literal::String(s.0.as_ref().into())),
            Node::Uid(e) => pst::Expr::Literal(pst::Literal::EntityUID(self.uid(&e)?)),
            Node::Var(var) => {
                let var = entry(&VARS, var)?;
                self.reads.all |= var == pst::Var::Context;
                pst::Expr::Var(var)
            }
            Node::Unary(op, inner) => pst::Expr::UnaryOp {
                op: entry(&UNARY, op)?,
                expr: self.shared(*inner)?,
            },
            Node::Binary(op, left, right) => pst::Expr::BinaryOp {
                op: entry(&BINARY, op)?,
                left: self.shared(*left)?,
                right: self.shared(*right)?,
            },
            Node::Get(inner, attr) => {
                self.reads.note(&attr.0);
                pst::Expr::GetAttr {
                    expr: self.owner(*inner)?,
                    attr: attr.0.as_ref().into(),
                }
            }
            Node::Has(inner, attrs) => {
                attrs.iter().for_each(|attr| self.reads.note(&attr.0));
                pst::Expr::HasAttr {
                    expr: self.owner(*inner)?,
                    attrs: pst::NonEmpty::from_vec(
                        attrs.iter().map(|attr| attr.0.as_ref().into()).collect(),
                    )
                    .ok_or_else(|| CodecError("`has` without an attribute".to_owned()))?,
                }
            }
            Node::Like(inner, pattern) => pst::Expr::Like {
                expr: self.shared(*inner)?,
                pattern: pattern
                    .into_iter()
                    .map(|c| c.map_or(pst::PatternElem::Wildcard, pst::PatternElem::Char))
                    .collect(),
            },
            Node::Is(inner, ty, in_expr) => pst::Expr::Is {
                expr: self.shared(*inner)?,
                entity_type: self.entity_type(&ty.0)?,
                in_expr: in_expr.map(|node| self.shared(*node)).transpose()?,
            },
            Node::If(cond, then, otherwise) => pst::Expr::IfThenElse {
                cond: self.shared(*cond)?,
                then_expr: self.shared(*then)?,
                else_expr: self.shared(*otherwise)?,
            },
            Node::Set(all) => pst::Expr::Set(
                all.into_iter()
                    .map(|node| self.shared(node))
                    .collect::<Result<_, _>>()?,
            ),
            Node::Record(fields) => pst::Expr::Record(
                fields
                    .into_iter()
                    .map(|(name, value)| Ok((name.0.into_owned(), self.shared(value)?)))
                    .collect::<Result<BTreeMap<_, _>, CodecError>>()?,
            ),
        })
    }

    /// Whose attribute is asked for: of a variable, nothing else is.
    fn owner(&mut self, node: Node<'_>) -> Result<Arc<pst::Expr>, CodecError> {
        match node {
            Node::Var(var) => Ok(Arc::new(pst::Expr::Var(entry(&VARS, var)?))),
            node => self.shared(node),
        }
    }

    fn shared(&mut self, node: Node<'_>) -> Result<Arc<pst::Expr>, CodecError> {
        self.expr(node).map(Arc::new)
    }
}

fn slotless(entity: &EntityOrSlot) -> Result<Uid<'_>, CodecError> {
    match entity {
        EntityOrSlot::Entity(e) => Ok(uid(e)),
        EntityOrSlot::Slot(_) => Err(CodecError("templates are not supported".to_owned())),
    }
}

fn uid(e: &pst::EntityUID) -> Uid<'_> {
    Uid(type_name(&e.ty), text(&e.eid))
}

fn type_name(ty: &pst::EntityType) -> Text<'_> {
    Text(Cow::Owned(ty.0.to_string()))
}

fn text(text: &str) -> Text<'_> {
    Text(Cow::Borrowed(text))
}

fn position<T: PartialEq>(table: &[T], value: &T) -> Result<u8, CodecError> {
    table
        .iter()
        .position(|known| known == value)
        .and_then(|index| u8::try_from(index).ok())
        .ok_or_else(|| CodecError("an operator that this version does not know".to_owned()))
}

fn entry<T: Clone>(table: &[T], index: u8) -> Result<T, CodecError> {
    table
        .get(usize::from(index))
        .cloned()
        .ok_or_else(|| CodecError("an operator that this version does not know".to_owned()))
}

fn boxed(expr: &Arc<pst::Expr>) -> Result<Box<Node<'_>>, CodecError> {
    node(expr).map(Box::new)
}

fn node(expr: &pst::Expr) -> Result<Node<'_>, CodecError> {
    Ok(match expr {
        pst::Expr::Literal(pst::Literal::Bool(b)) => Node::Bool(*b),
        pst::Expr::Literal(pst::Literal::Long(n)) => Node::Long(*n),
        pst::Expr::Literal(pst::Literal::String(s)) => Node::Text(text(s)),
        pst::Expr::Literal(pst::Literal::EntityUID(e)) => Node::Uid(uid(e)),
        pst::Expr::Var(var) => Node::Var(position(&VARS, var)?),
        pst::Expr::UnaryOp { op, expr } => Node::Unary(position(&UNARY, op)?, boxed(expr)?),
        pst::Expr::BinaryOp { op, left, right } => {
            Node::Binary(position(&BINARY, op)?, boxed(left)?, boxed(right)?)
        }
        pst::Expr::GetAttr { expr, attr } => Node::Get(boxed(expr)?, text(attr)),
        pst::Expr::HasAttr { expr, attrs } => {
            Node::Has(boxed(expr)?, attrs.iter().map(|attr| text(attr)).collect())
        }
        pst::Expr::Like { expr, pattern } => Node::Like(
            boxed(expr)?,
            pattern
                .iter()
                .map(|element| match element {
                    pst::PatternElem::Char(c) => Some(*c),
                    pst::PatternElem::Wildcard => None,
                })
                .collect(),
        ),
        pst::Expr::Is {
            expr,
            entity_type,
            in_expr,
        } => Node::Is(
            boxed(expr)?,
            type_name(entity_type),
            in_expr.as_ref().map(boxed).transpose()?,
        ),
        pst::Expr::IfThenElse {
            cond,
            then_expr,
            else_expr,
        } => Node::If(boxed(cond)?, boxed(then_expr)?, boxed(else_expr)?),
        pst::Expr::Set(all) => Node::Set(all.iter().map(|e| node(e)).collect::<Result<_, _>>()?),
        pst::Expr::Record(fields) => Node::Record(
            fields
                .iter()
                .map(|(name, value)| Ok((text(name), node(value)?)))
                .collect::<Result<_, CodecError>>()?,
        ),
        _ => {
            return Err(CodecError(
                "an expression that this version does not know".to_owned(),
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_the_round_trip() {
        for text in [
            "permit(principal, action, resource);",
            r#"forbid(principal is Bridge::Agent, action == Bridge::Action::"read", resource is Bridge::Path)
               when { resource.inside && context has tool.name && "a*b" == resource.given }
               unless { resource.given like "*\*.md" || [1, -2].contains(context.depth * 3) };"#,
            r#"permit(principal in A::"x", action in [B::Action::"r", B::Action::"w"], resource in C::D::"y")
               when { if context.a then {b: 1}.b == 1 else resource is C::D in C::D::"z" };"#,
            r#"permit(principal == A::"x", action, resource) when { principal.hasTag("t") && ip("10.0.0.1").isLoopback() && decimal("1.0").lessThan(decimal("2.0")) };"#,
        ] {
            let policy: cedar_policy::Policy = text.parse().unwrap();
            let before = policy.to_pst().unwrap();
            let bytes = encode(before.body()).unwrap();
            let after = Decoder::default()
                .policy(&bytes, "policy0")
                .unwrap()
                .to_pst()
                .unwrap();
            assert_eq!(before.body().clauses(), after.body().clauses(), "{text}");
            assert_eq!(before.body().principal, after.body().principal);
            assert_eq!(before.body().action, after.body().action);
            assert_eq!(before.body().resource, after.body().resource);
            assert_eq!(before.body().effect, after.body().effect);
        }
    }

    #[test]
    fn what_a_policy_asks_for_is_known() {
        for (condition, asked, others) in [
            (
                "resource.inside && context has tool",
                "inside tool",
                "depth",
            ),
            ("context.tool == \"depth\"", "tool", "depth inside"),
            (
                "(if context.a then principal else resource).depth > 1",
                "a depth",
                "tool",
            ),
            ("principal in resource.above", "above", "principal resource"),
            ("[context].contains({})", "tool inside depth", ""),
        ] {
            let text = format!("permit(principal, action, resource) when {{ {condition} }};");
            let policy: cedar_policy::Policy = text.parse().unwrap();
            let bytes = encode(policy.to_pst().unwrap().body()).unwrap();
            let mut decoder = Decoder::default();
            decoder.policy(&bytes, "x").unwrap();
            for name in asked.split_whitespace() {
                assert!(decoder.reads().has(name), "{condition}: {name}");
            }
            for name in others.split_whitespace() {
                assert!(!decoder.reads().has(name), "{condition}: {name}");
            }
        }
    }

    #[test]
    fn garbage_is_no_policy() {
        let mut decoder = Decoder::default();
        assert!(decoder.policy(&[9, 9, 9, 9], "x").is_err());
        assert!(decoder.policy(&[], "x").is_err());
    }
}
