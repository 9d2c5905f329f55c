//! `uninstall`: takes back what `init` wrote, and only that.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::install::mode;
use super::manifest::{Entry, Kind, Manifest};
use super::place::Places;
use super::plan::Step;
use super::{Ending, Host, Scope, SetupError, files, settings};

/// What `uninstall` was asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Whose hooks.
    pub scope: Scope,
    /// The hosts that shall no longer run them.
    pub hosts: Vec<Host>,
    /// Take back policies too that nobody edited.
    pub purge: bool,
    /// Only say what would change.
    pub dry_run: bool,
}

/// Takes back hooks and settings; policies only if asked for and not edited; the record never.
///
/// # Errors
/// If a file cannot be read, written or removed.
pub fn uninstall(
    places: &Places,
    wish: &Wish,
    out: &mut dyn Write,
) -> Result<Ending, SetupError> {
    let scope = wish.scope;
    let state = places.state(scope);
    let mut manifest = Manifest::load(&state)?;
    let paths = target_paths(places, wish);
    let mut ending = Ending::Done;
    let mut steps = Vec::new();
    for entry in &manifest.entries {
        if entry.scope == scope && paths.contains(&entry.path) {
            match take_back(entry)? {
                Ok(step) => steps.push(step),
                Err(why) => {
                    writeln!(out, "left {}: {why}", entry.path.display())?;
                    ending = Ending::Trouble;
                }
            }
        }
    }
    for path in &paths {
        if manifest.find(path).is_none() && path.exists() && is_hook_file(path) {
            writeln!(out, "left {}: `init` did not write it", path.display())?;
            ending = Ending::Trouble;
        }
    }
    if wish.purge {
        let policies = places.policies(scope);
        steps.extend(purge(&policies, &manifest, &paths, out)?);
    }
    if steps.is_empty() && ending == Ending::Done {
        writeln!(out, "nothing to take back")?;
    }
    if wish.dry_run {
        for step in steps {
            step.show(out)?;
        }
        return Ok(ending);
    }
    for step in steps {
        step.perform(scope, &mut manifest, out)?;
    }
    remove_empty_folders(scope, &mut manifest);
    manifest.save(&state, mode(scope, Kind::Policy))?;
    if !wish.purge {
        writeln!(out, "note: policies and record stay where they are")?;
    }
    Ok(ending)
}

/// Only files that an install with these flags would write: a manifest that somebody changed
/// cannot make this program touch others.
fn target_paths(places: &Places, wish: &Wish) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = (wish.hosts.iter())
        .filter_map(|host| places.targets(wish.scope, *host).ok())
        .flatten()
        .map(|target| {
            let path = target.path();
            path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
        })
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn is_hook_file(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == "copilot-bridge.json")
}

/// The step that takes an entry back, or why it is left.
fn take_back(entry: &Entry) -> Result<Result<Step, &'static str>, SetupError> {
    let step = |before: Option<String>, after| Step {
        path: entry.path.clone(),
        before,
        after,
        mode: files::mode_of(&entry.path).unwrap_or(mode(entry.scope, entry.kind)),
        entry: None,
    };
    let Some(found) = files::read(&entry.path)? else {
        return Ok(Ok(step(None, None)));
    };
    if let Some(merge) = &entry.merge {
        return Ok(match settings::unmerge(&found, merge, &entry.sha256) {
            Ok(after) => Ok(step(Some(found), after)),
            Err(_) => Err("it is no longer JSON; take the hooks out by hand"),
        });
    }
    if entry.wrote(&found) && !files::is_link(&entry.path) {
        return Ok(Ok(step(Some(found), None)));
    }
    Ok(Err("it was edited since `init` wrote it"))
}

fn purge(
    policies: &Path,
    manifest: &Manifest,
    going: &[PathBuf],
    out: &mut dyn Write,
) -> Result<Vec<Step>, SetupError> {
    let still_used = manifest.entries.iter().find(|entry| {
        matches!(entry.kind, Kind::Hook | Kind::Settings) && !going.contains(&entry.path)
    });
    if let Some(entry) = still_used {
        // Hooks without their policies deny every call.
        writeln!(
            out,
            "left {}: the hooks in {} still use it",
            policies.display(),
            entry.path.display()
        )?;
        return Ok(Vec::new());
    }
    let mut steps = Vec::new();
    for entry in &manifest.entries {
        if entry.kind == Kind::Policy && entry.path.starts_with(policies) {
            match take_back(entry)? {
                Ok(step) => steps.push(step),
                Err(why) => writeln!(out, "left {}: {why}", entry.path.display())?,
            }
        }
    }
    Ok(steps)
}

/// Folders that had to be made go again, the deepest first, unless somebody put something there.
fn remove_empty_folders(scope: Scope, manifest: &mut Manifest) {
    let mut folders: Vec<PathBuf> = (manifest.entries.iter())
        .filter(|entry| entry.kind == Kind::Folder && entry.scope == scope)
        .map(|entry| entry.path.clone())
        .collect();
    folders.sort();
    for folder in folders.iter().rev() {
        if std::fs::remove_dir(folder).is_ok() || !folder.exists() {
            manifest.forget(folder);
        }
    }
}
