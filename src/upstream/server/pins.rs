//! What a person accepted of a server's descriptions: a tool whose description changes afterwards is
//! another tool (a "rug pull"), and nobody calls it before a person has read that.
//!
//! One file a server, in `<state>/pins`: agents cannot write there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::facts::paths::words;

/// The directory below the state directory.
const DIR: &str = "pins";

/// The version of the file.
const VERSION: u32 = 1;

/// No file is larger, in bytes.
const LARGEST: u64 = 16 << 20;

/// A tool as its server describes it: all that a model is told of it, and that a pin covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// `name`, `description`, `inputSchema`, `outputSchema` and `annotations`, as far as they are there.
    fields: Value,
    digest: String,
}

/// What the pins say of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A person accepted it as it is.
    Accepted,
    /// Nobody has seen it yet.
    New,
    /// A person accepted another one.
    Changed,
}

/// What was accepted of one server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pins {
    v: u32,
    server: String,
    /// What [`super::Place::identity`] said when they were accepted.
    place: String,
    tools: BTreeMap<String, Pin>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pin {
    sha256: String,
    accepted: String,
    described: Value,
}

/// Pins that cannot be read or written, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinError(String);

impl std::fmt::Display for PinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PinError {}

impl Standing {
    /// As policies write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::New => "new",
            Self::Changed => "changed",
        }
    }
}

impl Description {
    /// What a pin covers of a tool.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        let all = serde_json::to_value(tool).unwrap_or_default();
        let mut fields = Map::new();
        for name in [
            "name",
            "description",
            "inputSchema",
            "outputSchema",
            "annotations",
        ] {
            if let Some(value) = all.get(name) {
                fields.insert(name.to_owned(), value.clone());
            }
        }
        Self::new(Value::Object(fields))
    }

    fn new(fields: Value) -> Self {
        let mut text = String::new();
        canonical(&fields, &mut text);
        let digest = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
        Self { fields, digest }
    }

    /// SHA-256 over its canonical JSON, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        let name = self.fields.get("name");
        name.and_then(Value::as_str).unwrap_or_default()
    }

    /// All texts of it, keys too: what somebody may have hidden something in.
    #[must_use]
    pub fn texts(&self) -> String {
        let mut all = String::new();
        texts(&self.fields, &mut all);
        all
    }

    /// As a person reads it.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut shown = String::new();
        if let Some(text) = self.fields.get("description").and_then(Value::as_str) {
            shown.push_str(text);
            shown.push('\n');
        }
        for name in ["inputSchema", "outputSchema", "annotations"] {
            if let Some(value) = self.fields.get(name) {
                shown.push_str(&format!("{name}: {:#}\n", sorted(value)));
            }
        }
        shown
    }
}

impl Pins {
    /// What was accepted of that server; nothing if nobody has accepted anything yet.
    ///
    /// # Errors
    /// If there is a file that cannot be read, or is not as this program writes it: then nobody knows
    /// what was accepted.
    pub fn read(state: &Path, server: &str) -> Result<Self, PinError> {
        let path = path(state, server);
        let failed = |why: &str| PinError(format!("cannot read `{}`: {why}", path.display()));
        let file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    v: VERSION,
                    server: server.to_owned(),
                    ..Self::default()
                });
            }
            Err(error) => return Err(failed(&words(&error))),
        };
        let mut text = String::new();
        file.take(LARGEST)
            .read_to_string(&mut text)
            .map_err(|error| failed(&words(&error)))?;
        let pins: Self =
            serde_json::from_str(&text).map_err(|_| failed("it is no file of pins"))?;
        if pins.v != VERSION || pins.server != server {
            return Err(failed("it is of another server or version"));
        }
        Ok(pins)
    }

    /// Where the server was that they were accepted of; empty if nothing was.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// From now on they are of a server there. What was accepted of another one is forgotten.
    pub fn move_to(&mut self, place: &str) {
        if self.place != place {
            self.tools.clear();
            place.clone_into(&mut self.place);
        }
    }

    /// What they say of a description by a server that is there.
    #[must_use]
    pub fn standing(&self, description: &Description, place: &str) -> Standing {
        match self.tools.get(description.name()) {
            None => Standing::New,
            Some(pin) if pin.sha256 == description.digest && self.place == place => {
                Standing::Accepted
            }
            Some(_) => Standing::Changed,
        }
    }

    /// What was accepted in the place of that description.
    #[must_use]
    pub fn accepted(&self, tool: &str) -> Option<Description> {
        let pin = self.tools.get(tool)?;
        Some(Description::new(pin.described.clone()))
    }

    /// The tools of which a description was accepted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Accepts a description.
    pub fn accept(&mut self, description: &Description, now: &str) {
        let pin = Pin {
            sha256: description.digest.clone(),
            accepted: now.to_owned(),
            described: description.fields.clone(),
        };
        self.tools.insert(description.name().to_owned(), pin);
    }

    /// Writes them, all or nothing.
    ///
    /// # Errors
    /// If the state directory cannot be written.
    pub fn write(&self, state: &Path) -> Result<(), PinError> {
        let path = path(state, &self.server);
        let write = || -> io::Result<()> {
            let dir = state.join(DIR);
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(&dir)?;
            // Only its owner may use such a file.
            let mut file = tempfile::NamedTempFile::new_in(&dir)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| {
            PinError(format!(
                "cannot write `{}`: {}",
                path.display(),
                words(&error)
            ))
        })
    }
}

/// Any name makes a file name.
fn path(state: &Path, server: &str) -> PathBuf {
    let plain = !server.is_empty()
        && server.len() <= 64
        && !server.starts_with("sha256-")
        && server
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let name = if plain {
        server.to_owned()
    } else {
        let digest = HEXLOWER.encode(&Sha256::digest(server.as_bytes()));
        format!("sha256-{digest}")
    };
    state.join(DIR).join(format!("{name}.json"))
}

/// As RFC 8785 orders it: keys by their UTF-16 units, and nothing between the tokens.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            text.push('{');
            for (place, (name, value)) in in_order(fields).into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                text.push_str(&json!(name).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(all) => {
            text.push('[');
            for (place, value) in all.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                canonical(value, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

fn in_order(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    fields
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => in_order(fields)
            .into_iter()
            .map(|(name, value)| (name.clone(), sorted(value)))
            .collect(),
        Value::Array(all) => all.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

fn texts(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => {
            all.push_str(text);
            all.push('\n');
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, all)),
        Value::Object(fields) => {
            for (name, value) in fields {
                all.push_str(name);
                all.push('\n');
                texts(value, all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Description {
        let tool = json!({
            "name": "send", "description": text,
            "inputSchema": {"type": "object", "properties": {"b": {}, "a": {"description": "whom"}}},
            "title": "nobody pins this",
        });
        Description::of(&serde_json::from_value(tool).unwrap())
    }

    #[test]
    fn the_order_of_keys_is_no_change_and_any_word_is() {
        let (one, other) = (
            json!({"b": 1, "a": [{"d": 2, "c": "\u{e9}"}]}),
            json!({"a": [{"c": "\u{e9}", "d": 2}], "b": 1}),
        );
        let mut text = String::new();
        canonical(&one, &mut text);
        assert_eq!(text, "{\"a\":[{\"c\":\"\u{e9}\",\"d\":2}],\"b\":1}");
        assert_eq!(
            Description::new(one).digest(),
            Description::new(other).digest()
        );
        assert_ne!(tool("Sends.").digest(), tool("Sends!").digest());
        assert!(tool("Sends.").texts().contains("whom"));
    }

    #[test]
    fn what_is_written_is_read() {
        let state = tempfile::tempdir().unwrap();
        for server in ["mail", "../../Mail", ""] {
            let mut pins = Pins::read(state.path(), server).unwrap();
            assert_eq!(pins.standing(&tool("Sends."), "here"), Standing::New);
            pins.move_to("here");
            pins.accept(&tool("Sends."), "2026-01-01T00:00:00Z");
            pins.write(state.path()).unwrap();
            let pins = Pins::read(state.path(), server).unwrap();
            assert_eq!(pins.standing(&tool("Sends."), "here"), Standing::Accepted);
            assert_eq!(pins.standing(&tool("Sends."), "there"), Standing::Changed);
            assert_eq!(
                pins.standing(&tool("Sends all."), "here"),
                Standing::Changed
            );
            assert_eq!(pins.accepted("send"), Some(tool("Sends.")));
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let mode = fs::metadata(path(state.path(), server)).unwrap();
                assert_eq!(mode.permissions().mode() & 0o777, 0o600);
            }
        }
    }

    #[test]
    fn pins_that_nobody_can_read_are_an_error() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(state.path().join(DIR)).unwrap();
        let path = path(state.path(), "mail");
        for text in ["", "{}", "{\"v\":1,\"server\":\"other\",\"tools\":{}}"] {
            fs::write(&path, text).unwrap();
            assert!(Pins::read(state.path(), "mail").is_err(), "{text}");
        }
    }
}
