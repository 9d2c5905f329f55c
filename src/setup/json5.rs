//! Edits of a JSON5 text: comments, odd keys and all other bytes stay as they are.
//!
//! OpenClaw's settings belong to people too, and are JSON5.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use super::json::{Edits, Undo};

/// A JSON5 object as text, with the way back.
#[derive(Debug)]
pub(super) struct Json5 {
    before: String,
    root: CstRootNode,
}

/// JSON5 but for what its readers refuse as well.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: true,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: true,
    allow_hexadecimal_numbers: true,
    allow_unary_plus_numbers: true,
    allow_bare_decimal_point_numbers: true,
    allow_non_finite_numbers: true,
    allow_extended_string_escapes: true,
};

impl Edits for Json5 {
    fn parse(text: &str) -> Result<Self, String> {
        let root = CstRootNode::parse(text, &OPTIONS).map_err(|error| {
            format!(
                "{} at line {} column {}",
                lower(&error.kind().to_string()),
                error.line_display(),
                error.column_display()
            )
        })?;
        if root.object_value().is_none() {
            return Err("it is not a JSON object".to_owned());
        }
        Ok(Self {
            before: text.to_owned(),
            root,
        })
    }

    fn finish(self) -> (String, Vec<Undo>) {
        let text = self.root.to_string();
        let undo = Undo::between(&self.before, &text).into_iter().collect();
        (text, undo)
    }

    fn get(&self, path: &[String]) -> Option<Value> {
        let Some((last, above)) = path.split_last() else {
            return self.root.to_serde_value();
        };
        let object = self.object(above).ok()??;
        property(&object, last).ok()??.to_serde_value()
    }

    fn set(&mut self, path: &[String], value: &Value) -> Result<(), String> {
        let Some((last, above)) = path.split_last() else {
            return Err("the whole text is not ours to replace".to_owned());
        };
        let object = self.make(above)?;
        match property(&object, last)? {
            Some(found) => found.set_value(input(value)),
            None => drop(object.append(last, input(value))),
        }
        Ok(())
    }

    fn push(&mut self, path: &[String], item: &Value) -> Result<(), String> {
        let Some((last, above)) = path.split_last() else {
            return Err("it is not an array".to_owned());
        };
        let object = self.make(above)?;
        let Some(found) = property(&object, last)? else {
            let list = Value::Array(vec![item.clone()]);
            object.append(last, input(&list));
            return Ok(());
        };
        let array = found
            .array_value()
            .ok_or_else(|| format!("`{}` is not an array", path.join(".")))?;
        array.append(input(item));
        Ok(())
    }

    fn remove(&mut self, path: &[String]) -> Result<(), String> {
        let Some((last, above)) = path.split_last() else {
            return Ok(());
        };
        if let Some(object) = self.object(above)?
            && let Some(found) = property(&object, last)?
        {
            found.remove();
        }
        Ok(())
    }

    fn remove_item(&mut self, path: &[String], item: &Value) -> Result<(), String> {
        let Some((last, above)) = path.split_last() else {
            return Ok(());
        };
        let Some(object) = self.object(above)? else {
            return Ok(());
        };
        let array = property(&object, last)?.and_then(|found| found.array_value());
        let items = array.map(|array| array.elements()).unwrap_or_default();
        let found = items
            .into_iter()
            .find(|node| node.to_serde_value().as_ref() == Some(item));
        found.into_iter().for_each(CstNode::remove);
        Ok(())
    }
}

impl Json5 {
    /// The object at a path of keys, if it is there.
    fn object(&self, path: &[String]) -> Result<Option<CstObject>, String> {
        let mut object = self.root.object_value();
        for key in path {
            let Some(above) = object else {
                return Ok(None);
            };
            object = property(&above, key)?.and_then(|found| found.object_value());
        }
        Ok(object)
    }

    /// The object at a path of keys, made where it is missing.
    fn make(&self, path: &[String]) -> Result<CstObject, String> {
        let root = self.root.object_value();
        let mut object = root.ok_or_else(|| "it is not a JSON object".to_owned())?;
        for (depth, key) in path.iter().enumerate() {
            let not_one = || {
                let so_far: Vec<&str> = path.iter().take(depth + 1).map(String::as_str).collect();
                format!("`{}` is not an object", so_far.join("."))
            };
            object = match property(&object, key)? {
                Some(found) => found.object_value().ok_or_else(not_one)?,
                None => {
                    let made = object.append(key, CstInputValue::Object(Vec::new()));
                    made.object_value().ok_or_else(not_one)?
                }
            };
        }
        Ok(object)
    }
}

/// The member of that name, however it is written.
///
/// # Errors
/// If there are two: readers take the last, people change the first.
fn property(object: &CstObject, key: &str) -> Result<Option<CstObjectProp>, String> {
    let mut found = object.properties().into_iter().filter(|property| {
        property
            .name()
            .and_then(|name| name.decoded_value().ok())
            .is_some_and(|name| name == key)
    });
    let first = found.next();
    match found.next() {
        Some(_) => Err(format!("`{key}` stands there twice")),
        None => Ok(first),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => CstInputValue::Object(
            members
                .iter()
                .map(|(key, value)| (key.clone(), input(value)))
                .collect(),
        ),
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    letters
        .next()
        .map(|first| first.to_lowercase().chain(letters).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;
    use serde_json::json;

    const THEIRS: &str = "// mine\n{\n  gateway: { port: 0x4951, /* odd */ 'mode': \"local\", },\n  \"plugins\": {\n    // what I trust\n    allow: ['memory-core'], // and no more\n  },\n}\n";

    fn path(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_odd_spellings_stay() {
        let mut document = Json5::parse(THEIRS).unwrap();
        document
            .set(
                &path("plugins.entries.x"),
                &json!({"enabled": true, "n": 1}),
            )
            .unwrap();
        document.push(&path("plugins.allow"), &json!("x")).unwrap();
        document
            .push(&path("plugins.load.paths"), &json!("/p"))
            .unwrap();
        document.set(&path("gateway.mode"), &json!("x")).unwrap();
        assert_eq!(
            document.get(&path("plugins")),
            Some(
                json!({"allow": ["memory-core", "x"], "entries": {"x": {"enabled": true, "n": 1}}, "load": {"paths": ["/p"]}})
            )
        );
        let (text, undo) = document.finish();
        for kept in [
            "// mine\n",
            "0x4951, /* odd */",
            "// what I trust",
            "// and no more",
        ] {
            assert!(text.contains(kept), "{text}");
        }
        assert_eq!(json::undo(&text, &undo).unwrap(), THEIRS);
        assert!(Json5::parse(&text).is_ok(), "{text}");
    }

    #[test]
    fn what_was_put_in_can_be_taken_out() {
        let mut document = Json5::parse(THEIRS).unwrap();
        document.push(&path("plugins.allow"), &json!("x")).unwrap();
        document.set(&path("mcp.servers.x"), &json!({})).unwrap();
        document
            .remove_item(&path("plugins.allow"), &json!("x"))
            .unwrap();
        document.remove(&path("mcp")).unwrap();
        document.remove(&path("nothing.there")).unwrap();
        document.remove_item(&path("a.b"), &json!(1)).unwrap();
        assert_eq!(document.finish().0, THEIRS);
    }

    #[test]
    fn what_cannot_be_read_or_changed_is_named() {
        for (text, error) in [
            ("{\n  a: ,\n}", "at line 2 column 6"),
            ("{a: 1 b: 2}", "at line 1 column"),
            ("[]", "it is not a JSON object"),
            ("", "it is not a JSON object"),
        ] {
            let found = Json5::parse(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        for (text, error) in [
            ("{plugins: 1}", "`plugins` is not an object"),
            ("{plugins: {load: []}}", "`plugins.load` is not an object"),
            (
                "{plugins: {load: {paths: {}}}}",
                "`plugins.load.paths` is not an array",
            ),
            (
                "{plugins: {}, 'plugins': {}}",
                "`plugins` stands there twice",
            ),
        ] {
            let mut document = Json5::parse(text).unwrap();
            let result = document.push(&path("plugins.load.paths"), &json!("/p"));
            assert_eq!(result, Err(error.to_owned()));
        }
    }
}
