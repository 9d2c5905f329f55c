//! `uninstall`: takes back what `init` wrote, and only that.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::install::mode;
use super::json::Document;
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
pub fn uninstall(places: &Places, wish: &Wish, out: &mut dyn Write) -> Result<Ending, SetupError> {
    let scope = wish.scope;
    let state = places.state(scope);
    let mut manifest = Manifest::load(&state)?;
    // Outside of a repository nothing could be found, and nothing should seem to be taken back.
    places.targets(scope, Host::Copilot)?;
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
        .map(|target| target.real())
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
        return Ok(
            match settings::unmerge::<Document>(&found, merge, &entry.sha256) {
                Ok(after) => Ok(step(Some(found), after)),
                Err(_) => Err("it is no longer JSON; take the hooks out by hand"),
            },
        );
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
        let uses = matches!(entry.kind, Kind::Hook | Kind::Settings | Kind::Openclaw);
        uses && !going.contains(&entry.path)
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
pub(super) fn remove_empty_folders(scope: Scope, manifest: &mut Manifest) {
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

#[cfg(test)]
mod tests {
    use super::super::install::{self, init};
    use super::super::testing::{FakeRooms, Stage};
    use super::*;

    const ALL: [Host; 3] = [Host::Copilot, Host::Claude, Host::Vscode];
    const HOOK: &str = "home/.copilot/hooks/copilot-bridge.json";
    const POLICY: &str = "home/.config/copilot-bridge/policies/permission.cedar";

    fn put(stage: &Stage, scope: Scope, hosts: &[Host]) {
        let wish = install::Wish {
            scope,
            hosts: hosts.to_vec(),
            dry_run: false,
        };
        init(&stage.places, &wish, &FakeRooms::new(), &mut Vec::new()).unwrap();
    }

    fn take(stage: &Stage, scope: Scope, hosts: &[Host], purge: bool) -> (Ending, String) {
        let wish = Wish {
            scope,
            hosts: hosts.to_vec(),
            purge,
            dry_run: false,
        };
        let mut out = Vec::new();
        let ending = uninstall(&stage.places, &wish, &mut out).unwrap();
        (ending, String::from_utf8(out).unwrap())
    }

    /// All but the state directory and, unless they shall be gone too, the policies.
    fn rest(stage: &Stage, policies: bool) -> Vec<(PathBuf, Option<String>)> {
        let mut all = stage.all();
        all.retain(|(path, _)| {
            let path = path.strip_prefix(stage.folder.path()).unwrap();
            let gone = ["home/.local", "machine/var"];
            let kept = ["home/.config", "machine/etc/copilot-bridge"];
            !gone.iter().any(|part| path.starts_with(part))
                && (policies || !kept.iter().any(|part| path.starts_with(part)))
        });
        all
    }

    #[test]
    fn what_was_there_before_is_there_again_byte_for_byte() {
        let theirs = "{ \"b\" : 1e2,\n\t\"hooks\":{ },\"a\":[ ] }";
        for scope in [Scope::User, Scope::Repo] {
            let stage = Stage::new();
            stage.write("home/.claude/settings.json", theirs);
            stage.write("work/.claude/settings.json", theirs);
            let before = rest(&stage, true);
            put(&stage, scope, &ALL);
            assert_ne!(rest(&stage, true), before);
            let (ending, said) = take(&stage, scope, &ALL, true);
            assert_eq!(ending, Ending::Done, "{said}");
            assert_eq!(rest(&stage, true), before, "{said}");
            assert!(stage.path("home/.local/state/copilot-bridge/key").exists());
        }
    }

    #[test]
    fn a_machine_gets_its_settings_back() {
        let stage = Stage::new();
        let managed = "machine/etc/github-copilot/managed-settings.json";
        stage.write(managed, "{\"allowManagedHooksOnly\": false, \"x\": {}}");
        let before = rest(&stage, false);
        put(&stage, Scope::Machine, &[Host::Copilot, Host::Claude]);
        let edited = stage
            .read(managed)
            .replace("\"x\": {}", "\"x\": {\"y\": 2}");
        stage.write(managed, &edited);
        take(&stage, Scope::Machine, &ALL, false);
        assert_eq!(
            stage.read(managed),
            "{\"allowManagedHooksOnly\": false, \"x\": {\"y\": 2}}"
        );
        stage.write(managed, "{\"allowManagedHooksOnly\": false, \"x\": {}}");
        assert_eq!(rest(&stage, false)[1..], before[1..]);
    }

    #[test]
    fn an_edited_hook_file_is_left_and_reported() {
        let stage = Stage::new();
        put(&stage, Scope::User, &[Host::Copilot]);
        stage.write(HOOK, "{}");
        let (ending, said) = take(&stage, Scope::User, &ALL, true);
        assert_eq!(ending, Ending::Trouble);
        assert!(said.contains("it was edited since"), "{said}");
        assert_eq!(stage.read(HOOK), "{}");
    }

    #[test]
    fn policies_go_only_with_purge_and_edited_ones_never() {
        let stage = Stage::new();
        put(&stage, Scope::User, &[Host::Copilot]);
        take(&stage, Scope::User, &ALL, false);
        assert!(stage.path(POLICY).exists() && !stage.path(HOOK).exists());

        put(&stage, Scope::User, &[Host::Copilot]);
        stage.write(POLICY, "forbid (principal, action, resource);\n");
        let (ending, said) = take(&stage, Scope::User, &ALL, true);
        assert_eq!(ending, Ending::Done);
        assert!(said.contains("permission.cedar: it was edited"), "{said}");
        assert!(stage.path(POLICY).exists());
        assert!(!stage.path(POLICY).with_file_name("bridge.toml").exists());
    }

    #[test]
    fn policies_that_another_install_uses_stay() {
        let stage = Stage::new();
        put(&stage, Scope::User, &[Host::Copilot, Host::Claude]);
        let (_, said) = take(&stage, Scope::User, &[Host::Claude], true);
        assert!(said.contains("still use it"), "{said}");
        assert!(stage.path(POLICY).exists() && stage.path(HOOK).exists());
        assert!(!stage.path("home/.claude").exists());
    }

    #[test]
    fn nothing_that_the_manifest_does_not_own_is_touched() {
        let stage = Stage::new();
        put(&stage, Scope::User, &[Host::Copilot]);
        stage.write("home/precious", "x");
        let manifest = "home/.local/state/copilot-bridge/installed.json";
        let forged = stage.read(manifest).replace(
            stage.path(HOOK).to_str().unwrap(),
            stage.path("home/precious").to_str().unwrap(),
        );
        let digest = files::digest(&stage.read(HOOK));
        stage.write(manifest, &forged.replace(&digest, &files::digest("x")));
        let (ending, said) = take(&stage, Scope::User, &ALL, false);
        assert_eq!(ending, Ending::Trouble, "{said}");
        assert_eq!(stage.read("home/precious"), "x");
    }

    #[test]
    fn a_dry_run_takes_nothing_back() {
        let stage = Stage::new();
        put(&stage, Scope::User, &ALL);
        let before = stage.all();
        let wish = Wish {
            scope: Scope::User,
            hosts: ALL.to_vec(),
            purge: true,
            dry_run: true,
        };
        let mut out = Vec::new();
        uninstall(&stage.places, &wish, &mut out).unwrap();
        assert_eq!(stage.all(), before);
        assert!(String::from_utf8(out).unwrap().contains("would remove"));
    }
}
