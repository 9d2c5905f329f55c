//! What is put into a settings file that is not ours alone, and taken out again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files;
use super::json::{self, Edits, Undo};

/// One thing that a settings file shall hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// The keys that lead to it.
    pub(super) path: Vec<String>,
    /// Whether it is the value at the path, or an item of the array there.
    pub(super) place: Place,
    /// The value or item.
    pub(super) value: Value,
    /// The value that stood there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
}

/// Where a wanted value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    /// It is the value at the path.
    Value,
    /// It is one item of the array at the path.
    Item,
}

/// What was put into a settings file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Merge {
    /// Whether there was no such file.
    created: bool,
    /// What was added.
    added: Vec<Wanted>,
    /// The way back, byte for byte, from the text that was written.
    undo: Vec<Undo>,
}

impl Merge {
    /// What was added.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        self.added.iter()
    }
}

impl Wanted {
    pub(super) fn value(path: &[&str], value: Value) -> Self {
        Self::new(path, Place::Value, value)
    }

    pub(super) fn item(path: &[&str], value: Value) -> Self {
        Self::new(path, Place::Item, value)
    }

    fn new(path: &[&str], place: Place, value: Value) -> Self {
        Self {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            place,
            value,
            before: None,
        }
    }

    /// Whether a settings file holds it.
    pub(super) fn is_in(&self, document: &impl Edits) -> bool {
        match (self.place, document.get(&self.path)) {
            (Place::Value, Some(found)) => found == self.value,
            (Place::Item, Some(Value::Array(items))) => items.contains(&self.value),
            _ => false,
        }
    }

    fn says_the_same(&self, other: &Self) -> bool {
        (&self.path, self.place, &self.value) == (&other.path, other.place, &other.value)
    }
}

/// The text with all that is wanted in it, and what that added.
///
/// `recorded` is what an earlier run added, with the digest of the text that it left behind.
///
/// # Errors
/// Why the text cannot hold it, with line and column where there is one.
pub(super) fn merge<D: Edits>(
    current: Option<&str>,
    recorded: Option<(&Merge, &str)>,
    wanted: &[Wanted],
) -> Result<(String, Merge), String> {
    if let (Some(current), Some((merge, sha256))) = (current, recorded) {
        let document = D::parse(current)?;
        let same = wanted.iter().all(|wanted| wanted.is_in(&document))
            && (merge.added.iter()).all(|added| wanted.iter().any(|w| w.says_the_same(added)));
        if same {
            let mut merge = merge.clone();
            if files::digest(current) != sha256 {
                merge.undo.clear();
            }
            return Ok((current.to_owned(), merge));
        }
    }
    let base = match (current, recorded) {
        (Some(current), Some((merge, sha256))) => unmerge::<D>(current, merge, sha256)?,
        (current, _) => current.map(str::to_owned),
    };
    let created = base.is_none();
    let mut document = D::parse(base.as_deref().unwrap_or("{}\n"))?;
    let mut added = Vec::new();
    for wanted in wanted {
        let mut wanted = wanted.clone();
        match (wanted.place, wanted.is_in(&document)) {
            (Place::Value, true) => continue,
            // It names this program, so it can only come from an earlier run.
            (Place::Item, true) => {}
            (Place::Item, false) => document.push(&wanted.path, &wanted.value)?,
            (Place::Value, false) => {
                wanted.before = document.get(&wanted.path);
                document.set(&wanted.path, &wanted.value)?;
            }
        }
        added.push(wanted);
    }
    let (text, undo) = document.finish();
    Ok((
        text,
        Merge {
            created,
            added,
            undo,
        },
    ))
}

/// The text without what was added; `None` if there was no such file.
///
/// # Errors
/// Why nothing can be taken out of the text.
pub(super) fn unmerge<D: Edits>(
    current: &str,
    merge: &Merge,
    sha256: &str,
) -> Result<Option<String>, String> {
    let text = if files::digest(current) == sha256 && !merge.undo.is_empty() {
        json::undo(current, &merge.undo)?
    } else {
        take_out::<D>(current, &merge.added)?
    };
    let empty = || D::parse(&text).is_ok_and(|it| it.get(&[]).is_some_and(|v| is_empty(&v)));
    Ok((!merge.created || !empty()).then_some(text))
}

/// Somebody edited the text since: only what still is as it was written is taken out.
fn take_out<D: Edits>(current: &str, added: &[Wanted]) -> Result<String, String> {
    let mut document = D::parse(current)?;
    for wanted in added.iter().rev() {
        if !wanted.is_in(&document) {
            continue;
        }
        match (wanted.place, &wanted.before) {
            (Place::Item, _) => document.remove_item(&wanted.path, &wanted.value)?,
            (Place::Value, Some(before)) => {
                document.set(&wanted.path, before)?;
                continue;
            }
            (Place::Value, None) => document.remove(&wanted.path)?,
        }
        let mut above = wanted.path.clone();
        while !above.is_empty() && document.get(&above).is_none_or(|value| is_empty(&value)) {
            document.remove(&above)?;
            above.pop();
        }
    }
    Ok(document.finish().0)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Document;
    use super::*;
    use serde_json::json;

    fn wanted() -> Vec<Wanted> {
        vec![
            Wanted::item(&["hooks", "Stop"], json!({"run": "us"})),
            Wanted::value(&["only", "ours"], json!(true)),
        ]
    }

    const THEIRS: &str = "{ \"z\": 1,\n\t\"hooks\": {\"Stop\": [ {\"run\": \"them\"} ]},\n\t\"only\": {\"ours\": false} }";

    #[test]
    fn the_way_back_is_exact() {
        let (text, record) = merge::<Document>(Some(THEIRS), None, &wanted()).unwrap();
        assert!(text.contains("\"us\"") && text.contains("\"them\""));
        let digest = files::digest(&text);
        assert_eq!(
            unmerge::<Document>(&text, &record, &digest)
                .unwrap()
                .as_deref(),
            Some(THEIRS)
        );
        let again = merge::<Document>(Some(&text), Some((&record, &digest)), &wanted()).unwrap();
        assert_eq!(again, (text, record));
    }

    #[test]
    fn what_others_added_since_stays() {
        let (text, record) = merge::<Document>(Some(THEIRS), None, &wanted()).unwrap();
        let digest = files::digest(&text);
        let edited = text.replace("\"z\": 1", "\"z\": 2, \"new\": []");
        let (same, kept) =
            merge::<Document>(Some(&edited), Some((&record, &digest)), &wanted()).unwrap();
        assert_eq!(same, edited);
        let digest = files::digest(&same);
        assert_eq!(
            unmerge::<Document>(&same, &kept, &digest)
                .unwrap()
                .as_deref(),
            Some(THEIRS.replace("\"z\": 1", "\"z\": 2, \"new\": []").as_str())
        );
    }

    #[test]
    fn a_file_that_was_not_there_goes_again() {
        let (text, record) = merge::<Document>(None, None, &wanted()).unwrap();
        assert_eq!(
            unmerge::<Document>(&text, &record, &files::digest(&text)),
            Ok(None)
        );
        let edited = text.replacen('{', "{\"x\":1,", 1);
        let left = unmerge::<Document>(&edited, &record, "").unwrap().unwrap();
        let left: Value = serde_json::from_str(&left).unwrap();
        assert_eq!(left, json!({"x": 1}));
    }

    #[test]
    fn another_wish_replaces_the_first() {
        let (text, record) = merge::<Document>(Some(THEIRS), None, &wanted()).unwrap();
        let digest = files::digest(&text);
        let other = [Wanted::item(&["hooks", "Stop"], json!({"run": "new us"}))];
        let (text, record) =
            merge::<Document>(Some(&text), Some((&record, &digest)), &other).unwrap();
        assert!(!text.contains("\"us\"") && text.contains("\"ours\": false"));
        let digest = files::digest(&text);
        assert_eq!(
            unmerge::<Document>(&text, &record, &digest)
                .unwrap()
                .as_deref(),
            Some(THEIRS)
        );
    }
}
