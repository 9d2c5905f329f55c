//! The texts in a tool's arguments that a consumer may take for paths, at any depth.

use serde_json::Value;

use super::readings::{is_windows_path, starts_with_variable};
use super::shell;

/// JSON in a text in JSON in a text: deeper is not looked into.
const NESTED: usize = 8;

/// JSON in a text takes many times its length: a longer one is refused.
const LENGTH: usize = 1 << 20;

/// What is known about whoever gets the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// A tool that does nothing without a path.
    Needs,
    /// A tool that takes the working directory where it is given none.
    May,
    /// A tool that nobody knows.
    Foreign,
}

/// The texts that may be paths, in the order they stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The texts, as written.
    pub paths: Vec<String>,
    /// Why the arguments cannot be what the tool takes.
    pub fault: Option<String>,
}

/// Finds the paths in the arguments of a tool.
///
/// Values of `data` are data. Under a key that names paths every text counts; elsewhere what looks
/// like a path does, be it a key.
#[must_use]
pub fn paths(args: &Value, taker: Taker, data: &[&str]) -> Found {
    let mut search = Search {
        taker,
        data,
        found: Found::default(),
    };
    search.value(args, Key::default(), 0);
    let mut found = search.found;
    if taker == Taker::Needs && found.paths.is_empty() && found.fault.is_none() {
        found.fault = Some("the call names no path".to_owned());
    }
    found
}

/// Whether a text is likely to be taken for a path that matters, be it after a little tidying.
#[must_use]
pub fn looks_like_path(text: &str) -> bool {
    let tidy = text.trim_matches(|c: char| c.is_whitespace() || "\"'`<".contains(c));
    let looks = |text: &str| {
        shell::looks_like_path(text)
            || text.split(['/', '\\']).any(|part| part == "..")
            || is_windows_path(text)
            || starts_with_variable(text)
    };
    looks(tidy)
        || (tidy.contains('%')
            && looks(&percent_encoding::percent_decode_str(tidy).decode_utf8_lossy()))
}

/// Keys whose values are paths and nothing else, in lower case without `_`.
const PATH_KEYS: &[&str] = &[
    "absolutepath",
    "cwd",
    "destination",
    "dir",
    "directory",
    "dirpath",
    "file",
    "filename",
    "filepath",
    "files",
    "folder",
    "inputpath",
    "newpath",
    "notebookpath",
    "oldpath",
    "outputpath",
    "path",
    "paths",
    "source",
    "uri",
    "workdir",
    "workingdirectory",
];

/// How keys end whose texts are paths. `forceReadLargeFiles` ends so too, and is a switch.
const PATH_ENDINGS: &[&str] = &[
    "dir",
    "directory",
    "file",
    "filename",
    "files",
    "folder",
    "path",
    "paths",
];

/// Keys whose values are paths as often as they are something else.
const VAGUE_KEYS: &[&str] = &["dest", "from", "location", "root", "src", "target", "to"];

/// Keys that end like those of paths and hold none.
const OTHER_KEYS: &[&str] = &["jmespath", "jsonpath", "profile", "xpath"];

/// What the key above a value says of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Key {
    Path,
    Likely,
    Vague,
    #[default]
    Other,
}

struct Search<'a> {
    taker: Taker,
    data: &'a [&'a str],
    found: Found,
}

impl Search<'_> {
    fn value(&mut self, value: &Value, key: Key, nested: usize) {
        match value {
            Value::String(text) => self.text(text, key, nested),
            Value::Array(all) => all.iter().for_each(|value| self.value(value, key, nested)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.field(name, value, key, nested);
                }
            }
            Value::Null if self.taker != Taker::Needs => {}
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                if key == Key::Path && self.taker != Taker::Foreign {
                    self.fault(&format!("`{value}` stands where a path belongs"));
                }
            }
        }
    }

    fn field(&mut self, name: &str, value: &Value, above: Key, nested: usize) {
        let is = |other: &&str| other.eq_ignore_ascii_case(name);
        if self.data.iter().any(is) || OTHER_KEYS.iter().any(is) {
            return;
        }
        if looks_like_path(name) {
            // A table of files: the key is the path, the value belongs to it.
            self.found.paths.push(name.to_owned());
            return self.value(value, Key::Other, nested);
        }
        let own = self.key_of(name);
        self.value(value, if own == Key::Other { above } else { own }, nested);
    }

    fn text(&mut self, text: &str, key: Key, nested: usize) {
        let trimmed = text.trim();
        if trimmed.starts_with(['{', '[', '"']) {
            if trimmed.len() > LENGTH {
                return self.fault("a text that may be JSON is too long to be looked into");
            }
            match serde_json::from_str::<Value>(trimmed) {
                Ok(_) if nested == NESTED => {
                    self.fault("JSON stands in JSON too deep to be looked into");
                }
                Ok(inner) => self.value(&inner, key, nested + 1),
                Err(_) => {}
            }
        }
        if trimmed.is_empty() {
            if key == Key::Path && self.taker == Taker::Needs {
                self.fault("a path is empty");
            }
            return;
        }
        let lines = trimmed.contains('\n');
        let named = match key {
            // Nobody knows that a foreign tool's `file` is no text.
            Key::Path | Key::Likely => {
                !lines
                    || self.taker != Taker::Foreign
                    || trimmed.split(['/', '\\']).any(|part| part == "..")
            }
            Key::Vague => !lines,
            Key::Other => false,
        };
        // An address is no file; nobody asks a foreign tool where it gets it from.
        let elsewhere = self.taker == Taker::Foreign && is_remote(trimmed);
        if (named && !elsewhere) || (!lines && looks_like_path(text)) {
            self.found.paths.push(text.to_owned());
        }
    }

    fn key_of(&self, name: &str) -> Key {
        let flat: String = name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric())
            .map(|c| c.to_ascii_lowercase())
            .collect();
        // A foreign tool's `source` may be a text.
        let source = flat == "source" && self.taker == Taker::Foreign;
        if source || VAGUE_KEYS.contains(&flat.as_str()) {
            Key::Vague
        } else if PATH_KEYS.contains(&flat.as_str()) {
            Key::Path
        } else if PATH_ENDINGS.iter().any(|end| flat.ends_with(end)) {
            Key::Likely
        } else {
            Key::Other
        }
    }

    fn fault(&mut self, text: &str) {
        self.found.fault.get_or_insert_with(|| text.to_owned());
    }
}

/// Whether a text is the address of something that is no file.
fn is_remote(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && !scheme.to_ascii_lowercase().contains("file")
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(args: &Value, taker: Taker) -> Vec<String> {
        let found = paths(args, taker, &["content", "body"]);
        assert_eq!(found.fault, None, "{args}");
        found.paths
    }

    #[test]
    fn paths_are_found_at_any_depth() {
        let args = json!({"path": "a", "opts": {"filePath": ["b", {"x": "/c"}]}, "content": "/d", "n": "word", "u": "../e"});
        assert_eq!(found(&args, Taker::Needs), ["a", "b", "/c", "../e"]);
    }

    #[test]
    fn paths_are_found_in_disguise() {
        for (args, expected) in [
            (
                json!({"payload": "{\"path\":\"/etc/passwd\"}"}),
                "/etc/passwd",
            ),
            (json!({"payload": "[\"{\\\"file\\\": \\\"x\\\"}\"]"}), "x"),
            (json!({"files": {"/etc/passwd": "text"}}), "/etc/passwd"),
            (json!({"path": {"value": "lnk"}}), "lnk"),
            (json!({"x": " /etc"}), " /etc"),
            (json!({"x": "%2fetc"}), "%2fetc"),
            (json!({"x": "..\\out"}), "..\\out"),
            (json!({"x": "C:\\out"}), "C:\\out"),
            (json!({"x": "$HOME/.ssh"}), "$HOME/.ssh"),
            (json!({"x": "file:///etc"}), "file:///etc"),
            (json!({"targetFile": "lnk"}), "lnk"),
            (json!({"out_dir": "lnk"}), "lnk"),
        ] {
            assert_eq!(found(&args, Taker::Foreign), [expected], "{args}");
        }
    }

    #[test]
    fn json_is_not_looked_into_without_end() {
        let mut text = "/etc".to_owned();
        for _ in 0..=NESTED {
            text = json!([text]).to_string();
        }
        let found = paths(&json!({"x": text}), Taker::Foreign, &[]);
        assert!(found.fault.is_some());
        let long = format!("[{}]", " ".repeat(LENGTH));
        let found = paths(&json!({"x": long}), Taker::Foreign, &[]);
        assert!(found.fault.is_some());
    }

    #[test]
    fn data_are_no_paths() {
        for args in [
            json!({"content": "/etc", "body": {"path": "/etc"}}),
            json!({"x": "see ../a b", "price": "$5/month", "rate": "100%", "profile": "default"}),
            json!({"source": "import os\nos.getcwd()", "to": "a\nb"}),
            json!({"source": "https://example.com/a", "location": "https://example.com"}),
            json!({"path": null, "file": 3, "dir": ""}),
            json!({"xpath": "//div[@id]", "dockerfile": "FROM x\nRUN y"}),
            json!({"text": "a: b", "time": "12:30", "json": "{broken"}),
        ] {
            assert_eq!(found(&args, Taker::Foreign), Vec::<String>::new(), "{args}");
        }
    }

    #[test]
    fn no_path_where_one_is_needed_is_a_fault() {
        for args in [
            json!({}),
            json!({"path": null}),
            json!({"path": 42}),
            json!({"path": true}),
            json!({"path": ""}),
            json!({"path": " "}),
            json!({"path": ["a", 1]}),
            json!({"path": "a", "file_path": null}),
            json!({"paths": []}),
        ] {
            assert!(paths(&args, Taker::Needs, &[]).fault.is_some(), "{args}");
        }
        let args = json!({"path": "a", "from": 1, "to": 20});
        assert_eq!(found(&args, Taker::Needs), ["a"]);
        let args = json!({"path": "a", "forceReadLargeFiles": true, "maxFiles": 3, "baseDir": ""});
        assert_eq!(found(&args, Taker::Needs), ["a"]);
        let args = json!({"path": null, "dir": ""});
        assert_eq!(found(&args, Taker::May), Vec::<String>::new());
        assert!(paths(&json!({"path": 42}), Taker::May, &[]).fault.is_some());
    }
}
