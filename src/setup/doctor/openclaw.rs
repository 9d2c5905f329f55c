//! Whether OpenClaw still has the plugin that `register openclaw` gave it: without it, nobody is asked.

use serde_json::Value;

use super::super::json::Edits;
use super::super::json5::Json5;
use super::super::manifest::{Entry, Kind, Manifest};
use super::super::openclaw::{obstacles, plugin_files};
use super::super::place::Places;
use super::super::settings::{Place, Wanted};
use super::super::{Scope, files};
use super::Report;

const AGAIN: &str = "run `copilot-bridge register openclaw`, then restart OpenClaw";

/// Looks at what was registered, if anything was.
pub(super) fn look(places: &Places, report: &mut Report) {
    // One that cannot be read is said of elsewhere.
    let Ok(manifest) = Manifest::load(&places.state(Scope::User)) else {
        return;
    };
    let registered = manifest.entries.iter();
    for entry in registered.filter(|entry| entry.kind == Kind::Openclaw) {
        settings(entry, places, &manifest, report);
    }
}

fn settings(entry: &Entry, places: &Places, manifest: &Manifest, report: &mut Report) {
    let before = report.findings.len();
    let shown = entry.path.display();
    let text = match files::read(&entry.path) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let text = format!("OpenClaw's settings `{shown}` are gone, and the plugin with them");
            return report.error("openclaw-settings", text, AGAIN);
        }
        Err(error) => return report.error("openclaw-settings", error.to_string(), ""),
    };
    let document = match Json5::parse(&text) {
        Ok(document) => document,
        Err(why) => {
            let text = format!("OpenClaw's settings `{shown}` cannot be read: {why}");
            return report.error("openclaw-settings", text, "a person corrects them");
        }
    };
    let wanted: Vec<&Wanted> = entry
        .merge
        .iter()
        .flat_map(|merge| merge.wanted())
        .collect();
    for wanted in &wanted {
        if is_there(wanted, &document) {
            continue;
        }
        let key = wanted.path.join(".");
        let text = format!("`{shown}` no longer says in `{key}` what was registered");
        match wanted.path.first().map(String::as_str) {
            Some("mcp") => report.warn("openclaw-server", text, AGAIN),
            _ => report.error(
                "openclaw-plugin",
                format!("{text}: no tool is asked about"),
                AGAIN,
            ),
        }
    }
    let plugin = |wanted: &&&Wanted| wanted.path.first().is_some_and(|key| key == "plugins");
    if wanted.iter().find(plugin).is_some() {
        for why in obstacles(&document) {
            report.error(
                "openclaw-plugin",
                why,
                "a person changes the settings, and restarts OpenClaw",
            );
        }
        written(places, manifest, report);
    }
    if report.findings.len() == before {
        report.ok("openclaw", format!("`{shown}` says what was registered"));
    }
}

/// Whether the plugin is the one that was written, and the one of this version.
fn written(places: &Places, manifest: &Manifest, report: &mut Report) {
    let mut old = false;
    for (path, text) in plugin_files(&places.state(Scope::User)) {
        let shown = path.display();
        let found = files::read(&path).ok().flatten();
        let ours = manifest.find(&path);
        match (found, ours) {
            (None, _) => report.error(
                "openclaw-plugin",
                format!("the plugin's `{shown}` is gone: no tool is asked about"),
                AGAIN,
            ),
            (Some(found), Some(ours)) if ours.wrote(&found) => old |= found != text,
            (Some(_), _) => report.error(
                "openclaw-plugin",
                format!("the plugin's `{shown}` was changed since `register openclaw` wrote it"),
                "move it away if it was not you, and run `copilot-bridge register openclaw` again",
            ),
        }
    }
    if old {
        let text = "the plugin in OpenClaw is of another version of this program";
        report.warn("openclaw-plugin", text, AGAIN);
    }
}

/// Whether all that was registered is still said. People may have added something beside it.
fn is_there(wanted: &Wanted, document: &Json5) -> bool {
    match wanted.place {
        Place::Item => wanted.is_in(document),
        Place::Value => {
            let found = document.get(&wanted.path);
            found.is_some_and(|found| covers(&found, &wanted.value))
        }
    }
}

fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            let found = found.get(key);
            found.is_some_and(|found| covers(found, value))
        }),
        _ => found == wanted,
    }
}
