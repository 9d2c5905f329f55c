//! JSON Schemas of the TOML files, for editors: one file here for each TOML file.
//!
//! The keys, and what becomes of them where several layers have them, are those of the reader's own
//! tables. The tests ask the reader about everything else that is said here.

mod approvers;
mod bridge;
mod bundle;
mod containment;
mod entities;
mod exceptions;
mod injection;
mod permission;
mod redaction;
mod shape;
mod suite;
mod upstreams;

use cedar_policy::SchemaFragment;
use serde_json::{Map, Value, json};

use crate::policy::settings::Merge;
use crate::policy::source::FORMAT;
pub use shape::{Field, Shape, Table};

/// The directory beside the policies that the `#:schema` lines name. Nothing reads policies from it.
pub const DIR: &str = ".schemas";

/// One TOML file that people write.
#[derive(Debug)]
pub struct Document {
    /// What the schema is called: `bridge` is `bridge.json`.
    pub name: &'static str,
    /// The files that it is for, below the directory of the policies.
    pub files: &'static str,
    /// What the file is for, in one sentence.
    pub about: &'static str,
    /// What the file may say.
    pub root: Table,
}

/// Every TOML file. Whoever adds one adds a file in this folder, and a line here and in [`FILES`].
#[must_use]
pub fn documents() -> Vec<Document> {
    vec![
        approvers::document(),
        bridge::document(),
        bundle::document(),
        containment::document(),
        entities::document(),
        exceptions::document(),
        injection::document(),
        permission::document(),
        redaction::document(),
        suite::document(),
        upstreams::document(),
    ]
}

/// The schemas as they are written beside policies: names and texts. They are what [`text`] gives.
pub const FILES: &[(&str, &str)] = &[
    (
        ".schemas/approvers.json",
        include_str!("../../../schemas/policy/approvers.json"),
    ),
    (
        ".schemas/bridge.json",
        include_str!("../../../schemas/policy/bridge.json"),
    ),
    (
        ".schemas/bundle.json",
        include_str!("../../../schemas/policy/bundle.json"),
    ),
    (
        ".schemas/containment.json",
        include_str!("../../../schemas/policy/containment.json"),
    ),
    (
        ".schemas/entities.json",
        include_str!("../../../schemas/policy/entities.json"),
    ),
    (
        ".schemas/exceptions.json",
        include_str!("../../../schemas/policy/exceptions.json"),
    ),
    (
        ".schemas/injection.json",
        include_str!("../../../schemas/policy/injection.json"),
    ),
    (
        ".schemas/permission.json",
        include_str!("../../../schemas/policy/permission.json"),
    ),
    (
        ".schemas/redaction.json",
        include_str!("../../../schemas/policy/redaction.json"),
    ),
    (
        ".schemas/tests.json",
        include_str!("../../../schemas/policy/tests.json"),
    ),
    (
        ".schemas/upstreams.json",
        include_str!("../../../schemas/policy/upstreams.json"),
    ),
];

/// The schema as a file.
#[must_use]
pub fn text(document: &Document) -> String {
    let mut text = format!("{:#}", json(document));
    text.push('\n');
    text
}

/// The JSON Schema, draft 7: what editors for TOML understand.
#[must_use]
pub fn json(document: &Document) -> Value {
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        json!("http://json-schema.org/draft-07/schema#"),
    );
    schema.insert("title".to_owned(), json!(document.files));
    schema.insert("description".to_owned(), json!(document.about));
    describe_table(&document.root, &mut schema);
    Value::Object(schema)
}

/// The Cedar schema in Cedar's JSON form, which some editors want.
///
/// # Errors
/// If Cedar refuses the schema.
pub fn cedar_json() -> Result<Value, SchemaFault> {
    let fault = |error: &dyn std::fmt::Display| SchemaFault(error.to_string());
    let text = crate::engine::schema::cedar_schema();
    let (fragment, _) =
        SchemaFragment::from_cedarschema_str(&text).map_err(|error| fault(&error))?;
    fragment.to_json_value().map_err(|error| fault(&error))
}

/// Why the Cedar schema cannot be written in another form.
#[derive(Debug)]
pub struct SchemaFault(String);

impl std::fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the Cedar schema cannot be written as JSON: {}", self.0)
    }
}

impl std::error::Error for SchemaFault {}

fn describe_table(table: &Table, schema: &mut Map<String, Value>) {
    schema.insert("type".to_owned(), json!("object"));
    let properties = table.keys.iter().filter_map(|key| {
        let field = table.fields.iter().find(|field| field.name == key.name)?;
        Some((key.name.to_owned(), describe(field, key.merge)))
    });
    let properties: Map<String, Value> = properties.collect();
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    let required: Vec<&str> = table
        .fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name)
        .collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    if !table.one_of.is_empty() {
        let one = |name: &&str| match table.exception {
            Some((exception, beside)) if exception == *name => {
                json!({ "required": [name], "not": { "required": [beside] } })
            }
            _ => json!({ "required": [name] }),
        };
        let one_of: Vec<Value> = table.one_of.iter().map(one).collect();
        schema.insert("oneOf".to_owned(), json!(one_of));
    }
    if !table.some_of.is_empty() {
        let any_of = table
            .some_of
            .iter()
            .map(|name| json!({ "required": [name] }));
        schema.insert("anyOf".to_owned(), any_of.collect());
    }
    if !table.rules.is_empty() {
        schema.insert("allOf".to_owned(), json!(table.rules));
    }
}

fn describe(field: &Field, merge: Merge) -> Value {
    let mut schema = Map::new();
    let about = match layers(merge) {
        Some(layers) => format!("{} {layers}", field.about),
        None => field.about.to_owned(),
    };
    schema.insert("description".to_owned(), json!(about));
    describe_shape(&field.shape, &mut schema);
    if let Some(default) = &field.default {
        schema.insert("default".to_owned(), default.clone());
    }
    if layers(merge).is_some() {
        schema.insert("x-merge".to_owned(), json!(merge_name(merge)));
    }
    Value::Object(schema)
}

fn describe_shape(shape: &Shape, schema: &mut Map<String, Value>) {
    let pairs = match shape {
        Shape::Format => json!({ "type": "integer", "const": FORMAT }),
        Shape::Text => json!({ "type": "string" }),
        Shape::Filled => json!({ "type": "string", "minLength": 1 }),
        Shape::Form(pattern) => json!({ "type": "string", "pattern": pattern }),
        // Not blank, and without control characters.
        Shape::Line(longest) => json!({
            "type": "string", "maxLength": longest,
            "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        }),
        // Editors hand dates over as texts.
        Shape::Moment => json!({
            "type": "string", "anyOf": [{ "format": "date" }, { "format": "date-time" }],
        }),
        Shape::Choice(words) => json!({ "type": "string", "enum": words }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Number(range) => {
            json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
        }
        Shape::Count => json!({ "type": "integer", "minimum": 1 }),
        Shape::Fraction => json!({ "type": "number" }),
        Shape::Pair(range) => {
            let number = json!({
                "type": "integer", "minimum": range.start(), "maximum": range.end(),
            });
            json!({ "type": "array", "items": number, "minItems": 2, "maxItems": 2 })
        }
        Shape::Texts(entry) => {
            let mut items = Map::new();
            describe_shape(entry, &mut items);
            json!({ "type": "array", "items": items })
        }
        Shape::Several(entry) => {
            let mut items = Map::new();
            describe_shape(entry, &mut items);
            json!({ "type": "array", "items": items, "minItems": 1 })
        }
        Shape::Entries(table) => {
            let mut item = Map::new();
            describe_table(table, &mut item);
            json!({ "type": "array", "items": { "anyOf": [{ "type": "string" }, item] } })
        }
        Shape::Lists => {
            let texts = json!({ "type": "array", "items": { "type": "string" } });
            json!({ "type": "object", "additionalProperties": texts })
        }
        Shape::Free => json!({ "type": "object" }),
        Shape::Schemas => {
            json!({ "type": "object", "additionalProperties": { "type": "object" } })
        }
        Shape::Table(table) => return describe_table(table, schema),
        Shape::Tables(table) => {
            let mut items = Map::new();
            describe_table(table, &mut items);
            json!({ "type": "array", "items": items })
        }
    };
    if let Value::Object(pairs) = pairs {
        schema.extend(pairs);
    }
}

/// What a person should know who writes a file of a lower layer.
const fn layers(merge: Merge) -> Option<&'static str> {
    match merge {
        Merge::Union => Some("The entries of all layers count."),
        Merge::Intersect => Some("Only entries that every layer has count."),
        Merge::Min => Some("A lower layer may only set a smaller value."),
        Merge::Max => Some("A lower layer may only set a stricter value."),
        Merge::BaseOnly => Some("Only the base layer may set it."),
        Merge::PerFile => None,
    }
}

const fn merge_name(merge: Merge) -> &'static str {
    match merge {
        Merge::Union => "union",
        Merge::Intersect => "intersect",
        Merge::Min => "min",
        Merge::Max => "max",
        Merge::BaseOnly => "base-only",
        Merge::PerFile => "per-file",
    }
}

#[cfg(test)]
mod tests;
