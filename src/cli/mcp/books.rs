//! What `bridge://` resources show of this installation.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::cli::config;
use crate::cli::place::Place;
use crate::mcp::bridge_resources::Books;
use crate::policy::layer;
use crate::policy::source::Source;

/// The policies, the settings and the record of one installation.
#[derive(Debug)]
pub(super) struct Shelf {
    place: Place,
    cwd: PathBuf,
}

impl Shelf {
    /// For callers that work in that folder.
    pub(super) fn new(place: &Place, cwd: &Path) -> Self {
        Self {
            place: place.clone(),
            cwd: cwd.to_path_buf(),
        }
    }
}

impl Books for Shelf {
    fn sources(&self) -> Result<Vec<Source>, String> {
        layer::read(&self.place.locations(Some(&self.cwd))).map_err(|_| unusable())
    }

    fn configuration(&self) -> Result<Value, String> {
        let cwd = Some(self.cwd.as_path());
        let bundle = self.place.policies(cwd).map_err(|_| unusable())?;
        let rows = config::rows(&self.place, &bundle, cwd).map_err(|error| error.to_string())?;
        let rows = rows.into_iter().map(|(key, value, origin)| {
            (key.to_owned(), json!({"value": value, "origin": origin}))
        });
        Ok(Value::Object(rows.collect::<Map<_, _>>()))
    }

    fn state(&self) -> PathBuf {
        self.place.state()
    }
}

fn unusable() -> String {
    "the policies cannot be used: a person runs `copilot-bridge policy check`".to_owned()
}
