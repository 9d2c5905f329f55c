//! Edits of a JSON text that leave every other byte alone.
//!
//! Settings files belong to people: their order, spacing and numbers stay as they are, and each
//! edit knows how to be undone.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// A text of settings that can be edited in place.
pub(super) trait Edits: Sized {
    /// The text, if it is an object.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    fn parse(text: &str) -> Result<Self, String>;

    /// The text and the way back.
    fn finish(self) -> (String, Vec<Undo>);

    /// The value at a path of keys.
    fn get(&self, path: &[String]) -> Option<Value>;

    /// Sets the value at a path of keys, and makes the objects on the way.
    fn set(&mut self, path: &[String], value: &Value) -> Result<(), String>;

    /// Adds an item to the end of the array at a path of keys, and makes what is missing.
    fn push(&mut self, path: &[String], item: &Value) -> Result<(), String>;

    /// Removes the member at a path of keys, if there is one.
    fn remove(&mut self, path: &[String]) -> Result<(), String>;

    /// Removes the item from the array at a path of keys, if it is there.
    fn remove_item(&mut self, path: &[String], item: &Value) -> Result<(), String>;
}

/// A JSON object as text, with the way back.
#[derive(Debug)]
pub(super) struct Document {
    text: String,
    undo: Vec<Undo>,
}

/// What takes one edit back, provided that later ones are taken back before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Undo {
    at: usize,
    len: usize,
    text: String,
}

impl Edits for Document {
    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !value.is_object() {
            return Err("it is not a JSON object".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            undo: Vec::new(),
        })
    }

    fn finish(self) -> (String, Vec<Undo>) {
        (self.text, self.undo)
    }

    fn get(&self, path: &[String]) -> Option<Value> {
        let root = self.scan().ok()?;
        let (node, rest) = root.descend(path);
        let found = rest.is_empty().then(|| self.text.get(node.start..node.end));
        serde_json::from_str(found??).ok()
    }

    fn set(&mut self, path: &[String], value: &Value) -> Result<(), String> {
        let root = self.scan()?;
        let (node, rest) = root.descend(path);
        let Some((key, deeper)) = rest.split_first() else {
            let body = self.render_at(value, Some(self.indent_at(node.start)));
            return self.replace(node.start, node.end, &body);
        };
        if !matches!(node.shape, Shape::Object(_)) {
            return Err(wrong_shape(path, rest, "an object"));
        }
        let nested = deeper.iter().rev().fold(value.clone(), |inner, key| {
            Value::Object([(key.clone(), inner)].into_iter().collect())
        });
        let name = Value::String(key.clone());
        let indent = self.child_indent(node);
        let body = format!("{name}: {}", self.render_at(&nested, indent.as_deref()));
        self.insert(node, &body, indent.as_deref())
    }

    fn push(&mut self, path: &[String], item: &Value) -> Result<(), String> {
        let root = self.scan()?;
        let (node, rest) = root.descend(path);
        if !rest.is_empty() {
            return self.set(path, &Value::Array(vec![item.clone()]));
        }
        if !matches!(node.shape, Shape::Array(_)) {
            return Err(wrong_shape(path, &[], "an array"));
        }
        let indent = self.child_indent(node);
        let body = self.render_at(item, indent.as_deref());
        self.insert(node, &body, indent.as_deref())
    }

    fn remove(&mut self, path: &[String]) -> Result<(), String> {
        let Some((key, above)) = path.split_last() else {
            return Ok(());
        };
        let root = self.scan()?;
        let (node, rest) = root.descend(above);
        match &node.shape {
            Shape::Object(members) if rest.is_empty() => {
                let position = members.iter().rposition(|member| member.key == *key);
                position.map_or(Ok(()), |index| self.cut(node, index))
            }
            _ => Ok(()),
        }
    }

    fn remove_item(&mut self, path: &[String], item: &Value) -> Result<(), String> {
        let root = self.scan()?;
        let (node, rest) = root.descend(path);
        match &node.shape {
            Shape::Array(items) if rest.is_empty() => {
                let position = items
                    .iter()
                    .position(|node| self.value_of(node).as_ref() == Some(item));
                position.map_or(Ok(()), |index| self.cut(node, index))
            }
            _ => Ok(()),
        }
    }
}

impl Document {
    fn value_of(&self, node: &Node) -> Option<Value> {
        serde_json::from_str(self.text.get(node.start..node.end)?).ok()
    }

    fn scan(&self) -> Result<Node, String> {
        Scanner {
            text: &self.text,
            at: 0,
        }
        .value()
        .ok_or_else(|| "it is not JSON".to_owned())
    }

    /// Adds `body` behind the last part of an object or array, on a line of its own if there is
    /// an indentation for it.
    fn insert(&mut self, node: &Node, body: &str, indent: Option<&str>) -> Result<(), String> {
        let line = indent.map(|indent| format!("{}{indent}", self.newline()));
        match node.spans().last() {
            Some((_, end)) => {
                let gap = line.as_deref().unwrap_or(" ");
                self.replace(*end, *end, &format!(",{gap}{body}"))
            }
            None => {
                let before = line.unwrap_or_default();
                let after = indent
                    .map(|_| format!("{}{}", self.newline(), self.indent_at(node.start)))
                    .unwrap_or_default();
                let body = format!("{before}{body}{after}");
                self.replace(node.start + 1, node.end - 1, &body)
            }
        }
    }

    fn cut(&mut self, node: &Node, index: usize) -> Result<(), String> {
        let spans = node.spans();
        let before = index.checked_sub(1).and_then(|before| spans.get(before));
        let (start, end) = match (before, spans.get(index), spans.get(index + 1)) {
            (Some(before), Some(this), _) => (before.1, this.1),
            (None, Some(this), Some(next)) => (this.0, next.0),
            (None, Some(_), None) => (node.start + 1, node.end - 1),
            (_, None, _) => return Ok(()),
        };
        self.replace(start, end, "")
    }

    fn replace(&mut self, start: usize, end: usize, new: &str) -> Result<(), String> {
        let old = self.text.get(start..end).unwrap_or_default().to_owned();
        let undo = Undo {
            at: start,
            len: new.len(),
            text: old,
        };
        self.text = splice(&self.text, start, end, new)?;
        self.undo.push(undo);
        Ok(())
    }

    /// The indentation of a new part of this object or array; `None` if it is all on one line.
    fn child_indent(&self, node: &Node) -> Option<String> {
        let own = self.text.get(node.start..node.end).unwrap_or_default();
        match node.spans().last() {
            Some((start, _)) if own.contains('\n') => Some(self.indent_at(*start).to_owned()),
            Some(_) => None,
            None if node.start > 0 && !self.text.trim().contains('\n') => None,
            None => Some(format!("{}{}", self.indent_at(node.start), self.unit())),
        }
    }

    fn render_at(&self, value: &Value, indent: Option<&str>) -> String {
        let Some(indent) = indent else {
            return value.to_string();
        };
        let mut bytes = Vec::new();
        let unit = self.unit();
        let formatter = PrettyFormatter::with_indent(unit.as_bytes());
        let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter));
        match (written, String::from_utf8(bytes)) {
            (Ok(()), Ok(text)) => text.replace('\n', &format!("{}{indent}", self.newline())),
            _ => value.to_string(),
        }
    }

    /// One step of indentation, as the text itself does it.
    fn unit(&self) -> &str {
        let root = self.scan().ok();
        let first = root.and_then(|root| root.spans().first().copied());
        match first.map(|(start, _)| self.indent_at(start)) {
            Some(unit) if !unit.is_empty() => unit,
            _ => "  ",
        }
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        }
    }

    /// The white space at the start of the line that this place is on.
    fn indent_at(&self, at: usize) -> &str {
        let before = self.text.get(..at).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text.get(start..).unwrap_or_default();
        let length = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..length).unwrap_or_default()
    }
}

impl Undo {
    /// The one edit that leads from a text to another, if they differ.
    pub(super) fn between(before: &str, after: &str) -> Option<Self> {
        if before == after {
            return None;
        }
        let front: usize = before
            .chars()
            .zip(after.chars())
            .take_while(|(one, other)| one == other)
            .map(|(c, _)| c.len_utf8())
            .sum();
        let (old, new) = (before.get(front..)?, after.get(front..)?);
        let back: usize = old
            .chars()
            .rev()
            .zip(new.chars().rev())
            .take_while(|(one, other)| one == other)
            .map(|(c, _)| c.len_utf8())
            .sum();
        Some(Self {
            at: front,
            len: new.len() - back,
            text: old.get(..old.len() - back)?.to_owned(),
        })
    }
}

/// The text as it was before these edits.
pub(super) fn undo(text: &str, edits: &[Undo]) -> Result<String, String> {
    edits.iter().rev().try_fold(text.to_owned(), |text, edit| {
        splice(&text, edit.at, edit.at.saturating_add(edit.len), &edit.text)
    })
}

/// One value of the text, and where it stands.
struct Node {
    start: usize,
    end: usize,
    shape: Shape,
}

enum Shape {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Scalar,
}

struct Member {
    key: String,
    start: usize,
    value: Node,
}

impl Node {
    /// The value that as much of the path as exists leads to, and what is left of the path.
    fn descend<'a, 'b>(&'a self, path: &'b [String]) -> (&'a Self, &'b [String]) {
        let Shape::Object(members) = &self.shape else {
            return (self, path);
        };
        let Some((key, rest)) = path.split_first() else {
            return (self, path);
        };
        // Of two members of one name, JSON readers take the last.
        match members.iter().rev().find(|member| member.key == *key) {
            Some(member) => member.value.descend(rest),
            None => (self, path),
        }
    }

    fn spans(&self) -> Vec<(usize, usize)> {
        match &self.shape {
            Shape::Object(members) => members
                .iter()
                .map(|member| (member.start, member.value.end))
                .collect(),
            Shape::Array(items) => items.iter().map(|item| (item.start, item.end)).collect(),
            Shape::Scalar => Vec::new(),
        }
    }
}

/// Finds values in a text that is known to be JSON, so it need not judge the text.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn value(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let shape = match self.peek()? {
            b'{' => self.object()?,
            b'[' => self.array()?,
            b'"' => {
                self.string()?;
                Shape::Scalar
            }
            _ => {
                while self
                    .peek()
                    .is_some_and(|byte| !b",}] \t\r\n".contains(&byte))
                {
                    self.at += 1;
                }
                Shape::Scalar
            }
        };
        Some(Node {
            start,
            end: self.at,
            shape,
        })
    }

    fn object(&mut self) -> Option<Shape> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.space();
            match self.peek()? {
                b'}' => {
                    self.at += 1;
                    return Some(Shape::Object(members));
                }
                b'"' => {
                    let start = self.at;
                    self.string()?;
                    let key = serde_json::from_str(self.text.get(start..self.at)?).ok()?;
                    self.space();
                    self.at += 1; // the colon
                    let value = self.value()?;
                    members.push(Member { key, start, value });
                }
                _ => self.at += 1, // the comma
            }
        }
    }

    fn array(&mut self) -> Option<Shape> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.space();
            match self.peek()? {
                b']' => {
                    self.at += 1;
                    return Some(Shape::Array(items));
                }
                b',' => self.at += 1,
                _ => items.push(self.value()?),
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                _ => self.at += 1,
            }
        }
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

fn splice(text: &str, start: usize, end: usize, new: &str) -> Result<String, String> {
    match (text.get(..start), text.get(start..end), text.get(end..)) {
        (Some(before), Some(_), Some(after)) => Ok([before, new, after].concat()),
        _ => Err("what was noted about it does not fit it".to_owned()),
    }
}

/// Says what stands in the way on a path, of which `rest` was not found.
fn wrong_shape(path: &[String], rest: &[String], wanted: &str) -> String {
    let found = path.len() - rest.len();
    let names: Vec<&str> = path.iter().take(found).map(String::as_str).collect();
    format!("`{}` in it is not {wanted}", names.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(dotted: &str) -> Vec<String> {
        dotted.split('.').map(str::to_owned).collect()
    }

    fn edited(text: &str, edit: impl Fn(&mut Document) -> Result<(), String>) -> String {
        let mut document = Document::parse(text).unwrap();
        edit(&mut document).unwrap();
        let (after, edits) = document.finish();
        serde_json::from_str::<Value>(&after).unwrap();
        assert_eq!(undo(&after, &edits).unwrap(), text);
        after
    }

    #[test]
    fn the_rest_of_the_text_stays_byte_for_byte() {
        let text = "{\n    \"a\" : 1.0e3,   \"b\":[1,2],\n    \"hooks\": {\n        \"Stop\": []\n    }\n}\n";
        let after = edited(text, |document| {
            document.push(&path("hooks.Stop"), &json!({"x": 1}))?;
            document.push(&path("hooks.Start"), &json!({"y": [true]}))?;
            document.set(&path("p.q"), &json!("z"))
        });
        assert_eq!(
            after,
            "{\n    \"a\" : 1.0e3,   \"b\":[1,2],\n    \"hooks\": {\n        \"Stop\": [\n            \
             {\n                \"x\": 1\n            }\n        ],\n        \"Start\": [\n            \
             {\n                \"y\": [\n                    true\n                ]\n            }\n        \
             ]\n    },\n    \"p\": {\n        \"q\": \"z\"\n    }\n}\n"
        );
    }

    #[test]
    fn a_text_on_one_line_stays_on_one_line() {
        let after = edited(r#"{"a": {}, "b": [1]}"#, |document| {
            document.push(&path("b"), &json!(2))?;
            document.set(&path("a.c"), &json!(true))?;
            document.set(&path("d"), &json!(null))
        });
        assert_eq!(after, r#"{"a": {"c": true}, "b": [1, 2], "d": null}"#);
        assert_eq!(
            edited("{}\n", |document| document.set(&path("a"), &json!(1))),
            "{\n  \"a\": 1\n}\n"
        );
        edited("{ }", |document| document.set(&path("a"), &json!(1)));
    }

    #[test]
    fn what_was_put_in_can_be_taken_out() {
        let text = "{\r\n\t\"a\": [1, {\"x\": \"\\\"]\"}, 3],\r\n\t\"b\": true\r\n}";
        let after = edited(text, |document| {
            document.remove_item(&path("a"), &json!({"x": "\"]"}))?;
            document.remove(&path("b"))?;
            document.remove(&path("nothing"))?;
            document.remove_item(&path("b.c"), &json!(1))
        });
        assert_eq!(after, "{\r\n\t\"a\": [1, 3]\r\n}");
        assert_eq!(
            edited(r#"{"a":1,"b":2}"#, |it| it.remove(&path("a"))),
            r#"{"b":2}"#
        );
        assert_eq!(edited(r#"{"a":1}"#, |it| it.remove(&path("a"))), "{}");
    }

    #[test]
    fn another_shape_is_named() {
        let mut document = Document::parse(r#"{"hooks": {"Stop": 3}, "x": []}"#).unwrap();
        assert_eq!(
            document.push(&path("hooks.Stop"), &json!(1)).unwrap_err(),
            "`hooks.Stop` in it is not an array"
        );
        assert_eq!(
            document.set(&path("x.y"), &json!(1)).unwrap_err(),
            "`x` in it is not an object"
        );
        assert_eq!(
            Document::parse("{\n \"a\": }").unwrap_err(),
            "expected value at line 2 column 7"
        );
        assert_eq!(
            Document::parse("[]").unwrap_err(),
            "it is not a JSON object"
        );
        assert!(
            undo(
                "ab",
                &[Undo {
                    at: 1,
                    len: 5,
                    text: String::new()
                }]
            )
            .is_err()
        );
    }
}
