//! A call of a tool that this program serves over MCP, as requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Asker, Fault, distinct, input as refused, unmatched};
use crate::engine::action::Action;
use crate::engine::injection::Said;
use crate::engine::request::{Context, Request, Resource};
use crate::gate::event::{Reach, Served, ToolCall};

/// A call with more values than this is refused.
const VALUES: usize = 4096;

impl Asker<'_> {
    pub(super) fn served(&self, served: &Served, call: &ToolCall) -> Result<Vec<Request>, Fault> {
        let injection = &self.bundle.settings.injection;
        let signals = match served.tool.trust.as_str() {
            "" => BTreeSet::new(),
            _ => injection
                .find(&[&served.description], Said::Description)
                .map_err(unmatched)?,
        };
        let context = Context {
            signals,
            tool: served.tool.qualified(),
            patterns: self.patterns(&call.args)?,
            input: input(&call.args)?,
            ..self.context.clone()
        };
        let tool = Resource::Tool(served.tool.clone());
        let mut requests = vec![self.ask(Action::Mcp, tool, &context)];
        match &served.reach {
            Reach::Nothing => {}
            Reach::Unknown => self.foreign_paths(call, &context, &mut requests)?,
            Reach::Paths(paths) => {
                let paths = paths
                    .iter()
                    .map(|one| (one.action, one.operation, &one.path));
                for (action, operation, path) in distinct(paths.collect())? {
                    let context = Context {
                        operation: operation.to_owned(),
                        ..context.clone()
                    };
                    requests.push(self.argument(action, path, &context));
                }
            }
        }
        Ok(requests)
    }
}

/// The arguments as tags: each value in text, by its path.
///
/// # Errors
/// If there are more than anybody looks at, or two have the same path.
pub(super) fn input(args: &Value) -> Result<BTreeMap<String, String>, Fault> {
    let mut tags = BTreeMap::new();
    flatten(args, String::new(), &mut tags)?;
    Ok(tags)
}

fn flatten(value: &Value, path: String, tags: &mut BTreeMap<String, String>) -> Result<(), Fault> {
    let below = |name: &str| match path.as_str() {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    let text = match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(value, below(name), tags)?;
            }
            return Ok(());
        }
        Value::Array(all) => {
            for (place, value) in all.iter().enumerate() {
                flatten(value, below(&place.to_string()), tags)?;
            }
            return Ok(());
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if tags.len() >= VALUES {
        return Err(refused(&format!("the call has more than {VALUES} values")));
    }
    if tags.contains_key(&path) {
        return Err(refused(&format!("two arguments are called `{path}`")));
    }
    tags.insert(path, text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_value_has_a_path() {
        let args = json!({"to": ["a", "b"], "deep": {"n": 1, "yes": true, "no": null}, "s": "x"});
        let tags = input(&args).unwrap();
        let tags: Vec<(&str, &str)> = tags
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            tags,
            [
                ("deep.n", "1"),
                ("deep.no", "null"),
                ("deep.yes", "true"),
                ("s", "x"),
                ("to.0", "a"),
                ("to.1", "b"),
            ]
        );
    }

    #[test]
    fn no_value_hides_behind_another() {
        let fault = input(&json!({"a.b": "x", "a": {"b": "y"}})).unwrap_err();
        assert_eq!(fault.text, "two arguments are called `a.b`");
        let many: Vec<usize> = (0..=VALUES).collect();
        assert!(input(&json!({ "many": many })).is_err());
    }
}
