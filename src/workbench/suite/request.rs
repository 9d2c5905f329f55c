//! A request by itself, written with those of its facts that matter.

use serde_json::{Value, json};

use crate::engine::action::Action;
use crate::engine::request::Request;
use crate::engine::request::{
    Agent, CommandFacts, Context, PathFacts, Resource, TextFacts, ToolFacts, UrlFacts,
};
use crate::policy::diagnostic::{alternatives, quote, suggest};

/// The request that these facts make; a fact that is not said is empty, false or 0.
///
/// # Errors
/// What is wrong with them, and what helps.
pub(super) fn of(written: &Value) -> Result<Request, (String, String)> {
    let action = written.get("action").and_then(Value::as_str);
    if action.and_then(Action::from_name).is_none() {
        let known = Action::ALL.into_iter().map(Action::name);
        return Err((
            "a request has an `action`".to_owned(),
            format!("it is {}", alternatives(known)),
        ));
    }
    let blank = [
        Resource::Path(PathFacts::default()),
        Resource::Command(CommandFacts::default()),
        Resource::Url(UrlFacts::default()),
        Resource::Tool(ToolFacts::default()),
        Resource::Text(TextFacts::default()),
    ];
    let kinds = ["path", "command", "url", "tool", "text"];
    let kind = written
        .get("resource")
        .and_then(|resource| resource.get("type"));
    let kind = kind.and_then(Value::as_str).unwrap_or_default();
    let known = kinds.into_iter().zip(blank);
    let Some((_, blank)) = known.into_iter().find(|(name, _)| *name == kind) else {
        return Err((
            "the `resource` of a request has a `type`".to_owned(),
            format!("it is {}", alternatives(kinds)),
        ));
    };
    let principal = Agent {
        host: "copilot".to_owned(),
        session: "scene".to_owned(),
        ..Agent::default()
    };
    let context = Context {
        event: "pre_tool_use".to_owned(),
        interactive: "unknown".to_owned(),
        depth_limit: u32::MAX,
        ..Context::default()
    };
    let mut facts = json!({
        "principal": principal,
        "action": action,
        "resource": blank,
        "context": context,
    });
    lay_over(&mut facts, written, "")?;
    serde_json::from_value(facts).map_err(|_| {
        (
            "a fact of the request is of another type".to_owned(),
            "`copilot-bridge schema cedar` shows what each fact is".to_owned(),
        )
    })
}

fn lay_over(facts: &mut Value, written: &Value, path: &str) -> Result<(), (String, String)> {
    let (Some(known), Some(fields)) = (facts.as_object_mut(), written.as_object()) else {
        *facts = written.clone();
        return Ok(());
    };
    for (name, value) in fields {
        let path = format!("{path}{name}");
        match known.get_mut(name) {
            Some(fact) => lay_over(fact, value, &format!("{path}."))?,
            None => {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                let help = suggest(name, names.iter().copied())
                    .unwrap_or_else(|| format!("it is {}", alternatives(names)));
                return Err((format!("`{}` is no fact", quote(&path)), help));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_are_not_said_are_empty() {
        let request = of(&json!({
            "action": "hook",
            "resource": {"type": "tool", "name": "edit_hooks"},
            "context": {"depth": 2, "patterns": ["x"]},
        }))
        .unwrap();
        assert_eq!(request.action, Action::Hook);
        assert_eq!(request.resource.id(), "edit_hooks");
        assert_eq!(request.context.depth, 2);
        assert!(request.context.patterns.contains("x"));
    }

    #[test]
    fn what_is_no_fact_is_told() {
        let wrong = |written: Value| of(&written).unwrap_err().0;
        let tool = json!({"type": "tool"});
        assert_eq!(
            wrong(json!({"resource": tool})),
            "a request has an `action`"
        );
        assert_eq!(
            wrong(json!({"action": "hook"})),
            "the `resource` of a request has a `type`"
        );
        assert_eq!(
            wrong(json!({"action": "hook", "resource": {"type": "tool", "nmae": "x"}})),
            "`resource.nmae` is no fact"
        );
        assert_eq!(
            wrong(json!({"action": "hook", "resource": tool, "context": {"depth": "2"}})),
            "a fact of the request is of another type"
        );
    }
}
