//! The arguments of a route: what it takes, and what it takes where nothing is said.

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::Fault;
use crate::wire;

/// So many faults of one call are told.
const FAULTS: usize = 5;

/// What a route takes.
#[derive(Debug)]
pub(super) struct Arguments {
    validator: Validator,
    defaults: Vec<(String, Value)>,
}

impl Arguments {
    /// Compiles a schema.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let defaults = properties.into_iter().flatten().filter_map(|(name, one)| {
            let default = one.get("default")?.clone();
            Some((name.clone(), default))
        });
        Ok(Self {
            validator: wire::schema(schema)?,
            defaults: defaults.collect(),
        })
    }

    /// The arguments with what was not said.
    ///
    /// # Errors
    /// What of them the route does not take; no value is repeated.
    pub(super) fn complete(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let mut all = given.clone();
        for (name, default) in &self.defaults {
            if !all.contains_key(name) {
                all.insert(name.clone(), default.clone());
            }
        }
        let all = Value::Object(all);
        let faults = self.validator.iter_errors(&all).take(FAULTS).map(|error| {
            let place = error.instance_path().to_string();
            let place = place.trim_start_matches('/').to_owned();
            match place.as_str() {
                "" => error.masked().to_string(),
                place => format!("`{place}`: {}", error.masked()),
            }
        });
        let faults: Vec<String> = faults.collect();
        match (all, faults.is_empty()) {
            (Value::Object(all), true) => Ok(all),
            _ => Err(Fault(format!(
                "the arguments are not what this tool takes: {}",
                faults.join("; ")
            ))),
        }
    }

    /// What is taken where that argument is not said.
    pub(super) fn default(&self, name: &str) -> Option<&Value> {
        let mut defaults = self.defaults.iter();
        defaults
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_said_is_filled_in_and_what_is_wrong_is_not_repeated() {
        let arguments = Arguments::new(&json!({
            "type": "object",
            "properties": {
                "entity": {"type": "string", "enum": ["a", "all"], "default": "all"},
                "id": {"type": "string"},
            },
            "required": ["id"],
            "additionalProperties": false,
        }))
        .unwrap();
        let complete = |given: Value| arguments.complete(given.as_object().unwrap());
        assert_eq!(
            Value::Object(complete(json!({"id": "7"})).unwrap()),
            json!({"id": "7", "entity": "all"})
        );
        let wrong = |given| complete(given).unwrap_err().0;
        assert_eq!(
            wrong(json!({})),
            "the arguments are not what this tool takes: \"id\" is a required property"
        );
        let told = wrong(json!({"id": "7", "entity": "hunter2"}));
        assert!(
            told.contains("`entity`: ") && !told.contains("hunter2"),
            "{told}"
        );
        assert!(wrong(json!({"id": 7})).contains("`id`: "));
        assert!(wrong(json!({"id": "7", "more": 1})).contains("more"));
    }
}
