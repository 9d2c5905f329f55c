//! Reading an event's fields in every spelling that hosts have for them (C-01).
//!
//! The same datum given twice with different values is refused: one of the two readers, the host
//! or we, would believe the wrong one.

use serde_json::{Map, Value};

use super::json;
use crate::facts::patch::is_patch;
use crate::facts::tools::Tool;
use crate::gate::event::ToolCall;

/// No name of a tool is longer.
const NAME_LIMIT: usize = 256;

/// No id of a session, a call or an agent is longer.
const ID_LIMIT: usize = 512;

/// The fields of one event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a Map<String, Value>);

/// What is wrong with an event, in words.
pub(super) type FieldError = String;

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Value) -> Result<Self, FieldError> {
        value
            .as_object()
            .map(Self)
            .ok_or_else(|| "it is not one JSON object".to_owned())
    }

    /// The value of a field, in any of its spellings. `null` is as good as absent.
    pub(super) fn any(&self, spellings: &[&str]) -> Result<Option<&'a Value>, FieldError> {
        let mut found: Option<(&str, &Value)> = None;
        for spelling in spellings {
            match (self.0.get(*spelling), found) {
                (None | Some(Value::Null), _) => {}
                (Some(value), None) => found = Some((spelling, value)),
                (Some(value), Some((_, other))) if value == other => {}
                (Some(_), Some((first, _))) => {
                    return Err(format!("`{first}` and `{spelling}` say different things"));
                }
            }
        }
        Ok(found.map(|(_, value)| value))
    }

    /// A text.
    pub(super) fn text(&self, spellings: &[&str]) -> Result<Option<&'a str>, FieldError> {
        self.any(spellings)?
            .map(|value| value.as_str().ok_or_else(|| not_a(spellings, "text")))
            .transpose()
    }

    /// A text or nothing, owned.
    pub(super) fn text_or_empty(&self, spellings: &[&str]) -> Result<String, FieldError> {
        Ok(self.text(spellings)?.unwrap_or_default().to_owned())
    }

    /// A short text without control characters.
    pub(super) fn id(&self, spellings: &[&str]) -> Result<Option<String>, FieldError> {
        let Some(text) = self.text(spellings)? else {
            return Ok(None);
        };
        if text.len() > ID_LIMIT || text.chars().any(char::is_control) {
            return Err(not_a(spellings, "an id"));
        }
        Ok(Some(text.to_owned()))
    }

    /// Whether a field is true. Absent is false.
    pub(super) fn flag(&self, spellings: &[&str]) -> Result<bool, FieldError> {
        match self.any(spellings)? {
            None => Ok(false),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| not_a(spellings, "true or false")),
        }
    }

    /// The tool and its arguments.
    pub(super) fn call(&self) -> Result<ToolCall, FieldError> {
        let nested = self
            .any(&["toolUse", "tool_use"])?
            .map(Self::of)
            .transpose()?;
        let mut name = self.text(&["toolName", "tool_name"])?;
        let mut args = self.any(&["toolArgs", "tool_input", "toolInput", "arguments"])?;
        if let Some(nested) = nested {
            name = agree("toolUse.name", name, nested.text(&["name"])?)?;
            args = agree("toolUse.input", args, nested.any(&["input"])?)?;
        }
        let name = name.ok_or("it names no tool")?;
        if name.trim().is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
            return Err("its tool's name is not one".to_owned());
        }
        let args = args.ok_or("it comes without the tool's arguments")?;
        Ok(ToolCall {
            name: name.to_owned(),
            args: arguments(name, args)?,
        })
    }
}

fn agree<T: PartialEq>(
    what: &str,
    outer: Option<T>,
    inner: Option<T>,
) -> Result<Option<T>, FieldError> {
    match (outer, inner) {
        (Some(outer), Some(inner)) if outer != inner => Err(format!(
            "`{what}` and its other spelling say different things"
        )),
        (outer, inner) => Ok(inner.or(outer)),
    }
}

/// Arguments are an object, an object written as a text, or the text of a patch.
fn arguments(tool: &str, args: &Value) -> Result<Value, FieldError> {
    match args {
        Value::Object(_) => Ok(args.clone()),
        Value::String(text) => {
            let patch = Tool::identify(tool, args).facts.name == "apply_patch"
                && (text.trim_start().starts_with("***") || is_patch(text));
            if patch {
                return Ok(args.clone());
            }
            let value = json::parse(text.as_bytes())
                .map_err(|error| format!("its tool's arguments are no JSON: {error}"))?;
            if value.is_object() {
                Ok(value)
            } else {
                Err("its tool's arguments are no JSON object".to_owned())
            }
        }
        _ => Err("its tool's arguments are no JSON object".to_owned()),
    }
}

fn not_a(spellings: &[&str], what: &str) -> FieldError {
    format!(
        "`{}` is not {what}",
        spellings.first().copied().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(value: &Value) -> Result<ToolCall, FieldError> {
        Fields::of(value)?.call()
    }

    #[test]
    fn every_spelling_is_the_same_call() {
        let expected = ToolCall {
            name: "view".into(),
            args: json!({"path": "a"}),
        };
        for event in [
            json!({"toolName": "view", "toolArgs": {"path": "a"}}),
            json!({"toolName": "view", "toolArgs": "{\"path\":\"a\"}"}),
            json!({"tool_name": "view", "tool_input": {"path": "a"}}),
            json!({"toolUse": {"name": "view", "input": {"path": "a"}}}),
            json!({"toolName": "view", "tool_name": "view", "toolArgs": {"path": "a"}}),
        ] {
            assert_eq!(call(&event).as_ref(), Ok(&expected), "{event}");
        }
    }

    #[test]
    fn what_disagrees_or_is_no_call_is_refused() {
        for event in [
            json!({"toolName": "view"}),
            json!({"toolArgs": {}}),
            json!({"toolName": "view", "toolArgs": null}),
            json!({"toolName": "", "toolArgs": {}}),
            json!({"toolName": {"a": 1}, "toolArgs": {}}),
            json!({"toolName": "v".repeat(300), "toolArgs": {}}),
            json!({"toolName": "view", "toolArgs": ["a"]}),
            json!({"toolName": "view", "toolArgs": "{bad"}),
            json!({"toolName": "view", "toolArgs": "\"{}\""}),
            json!({"toolName": "view", "toolArgs": {"path": "a"}, "tool_input": {"path": "b"}}),
            json!({"toolName": "view", "tool_name": "bash", "toolArgs": {}}),
            json!({"toolName": "view", "toolArgs": {}, "toolUse": {"name": "bash", "input": {}}}),
        ] {
            assert!(call(&event).is_err(), "{event}");
        }
    }

    #[test]
    fn a_patch_is_a_text() {
        let event = json!({"tool_name": "Edit", "tool_input": "*** Begin Patch\n*** End Patch"});
        assert!(call(&event).unwrap().args.is_string());
        let event = json!({"toolName": "view", "toolArgs": "*** Begin Patch\n*** End Patch"});
        assert!(call(&event).is_err());
    }
}
