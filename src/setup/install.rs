//! `init`: policies, state and hooks, in an order that leaves no hook without its policies.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::json::Document;
use super::manifest::{Entry, Kind, Manifest};
use super::place::{Places, Target};
use super::plan::Step;
use super::remarks::remarks;
use super::{Ending, Host, KeyState, Rooms, Scope, SetupError, files, hooks, settings};

/// What `init` was asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Whose hooks.
    pub scope: Scope,
    /// The hosts that shall run them.
    pub hosts: Vec<Host>,
    /// Only say what would change.
    pub dry_run: bool,
}

/// Writes what the wish needs, and never over what it did not write.
///
/// # Errors
/// If a file that is in the way belongs to somebody else, if the policies cannot be used, or if
/// something cannot be written. No hook is written unless its policies compile.
pub fn init(
    places: &Places,
    wish: &Wish,
    rooms: &dyn Rooms,
    out: &mut dyn Write,
) -> Result<Ending, SetupError> {
    let scope = wish.scope;
    if scope == Scope::Machine && !places.is_rerooted() && !is_root() {
        return Err(SetupError::new(
            "a machine install writes below `/etc`, which needs root",
            "run it with `sudo`, or leave out `--machine`",
        ));
    }
    let state = places.state(scope);
    let policies = places.policies(scope);
    let mut manifest = Manifest::load(&state)?;
    let mut notes = Vec::new();
    let defaults = policy_steps(&policies, scope, rooms, &manifest, &mut notes)?;
    let hooks = hook_steps(places, wish, (&policies, &state), &manifest)?;
    notes.extend(remarks(places, wish));

    if wish.dry_run {
        for step in defaults.iter().chain(&hooks) {
            step.show(out)?;
        }
        if !state.exists() {
            writeln!(out, "would create {}", state.display())?;
        }
        print(&notes, out)?;
        return Ok(Ending::Done);
    }

    let own_mode = mode(scope, Kind::Policy);
    files::make_folders(&state, files::folder_mode(own_mode))?;
    let mut perform = |steps: Vec<Step>, out: &mut dyn Write| -> Result<(), SetupError> {
        for step in steps {
            step.perform(scope, &mut manifest, out)?;
        }
        manifest.save(&state, own_mode)
    };
    perform(defaults, out)?;
    // Everybody's hooks hash with their own key, so a machine install has none to make.
    if scope != Scope::Machine {
        let key = rooms.create_key(&state).map_err(|why| {
            SetupError::new(format!("the key of the record cannot be made: {why}"), "")
        })?;
        if key == KeyState::Created {
            writeln!(out, "created the key of the record in {}", state.display())?;
        }
    }
    compile(rooms, &policies, &state, out)?;
    perform(hooks, out)?;
    print(&notes, out)?;
    writeln!(out, "next: `copilot-bridge doctor` shows whether it holds")?;
    Ok(Ending::Done)
}

/// The mode of what is written in this scope.
pub(super) const fn mode(scope: Scope, kind: Kind) -> u32 {
    match (scope, kind) {
        (Scope::User, _) | (Scope::Repo, Kind::Policy) => files::PRIVATE,
        (Scope::Machine | Scope::Repo, _) => files::SHARED,
    }
}

#[cfg(unix)]
fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    true
}

fn compile(
    rooms: &dyn Rooms,
    policies: &Path,
    state: &Path,
    out: &mut dyn Write,
) -> Result<(), SetupError> {
    match rooms.compile(policies, state) {
        Ok(digest) => {
            let short: String = digest.chars().take(12).collect();
            writeln!(out, "compiled {} ({short})", policies.display())?;
            Ok(())
        }
        Err(problems) => {
            for problem in &problems {
                writeln!(out, "error: {problem}")?;
            }
            Err(SetupError::new(
                format!("the policies in `{}` cannot be used", policies.display()),
                "correct them, then run `copilot-bridge init` again: no hook was written",
            ))
        }
    }
}

/// Defaults for a folder that has none. They are never mixed with the Cedar policies of somebody
/// else: one more permit could loosen what those say.
fn policy_steps(
    folder: &Path,
    scope: Scope,
    rooms: &dyn Rooms,
    manifest: &Manifest,
    notes: &mut Vec<String>,
) -> Result<Vec<Step>, SetupError> {
    let mut steps = Vec::new();
    let mut edited = Vec::new();
    let mut names = BTreeSet::new();
    for (name, text) in rooms.defaults() {
        let path = folder.join(name);
        let before = files::read(&path)?;
        match before.as_deref() {
            Some(found) if found != *text => edited.push((*name).to_owned()),
            _ => steps.push(Step {
                entry: Some(Entry::new(&path, Kind::Policy, scope, text)),
                path: path.clone(),
                before,
                after: Some((*text).to_owned()),
                mode: mode(scope, Kind::Policy),
            }),
        }
        names.insert(path);
    }
    let known = |path: &PathBuf| {
        names.contains(path) && !edited.iter().any(|name| folder.join(name) == *path)
    };
    let ours = (manifest.entries.iter())
        .any(|entry| entry.kind == Kind::Policy && entry.path.starts_with(folder));
    if !ours && cedar_files(folder).iter().any(|path| !known(path)) {
        notes.push(format!(
            "note: `{}` holds policies already, and no defaults were added to them",
            folder.display()
        ));
        return Ok(Vec::new());
    }
    if !edited.is_empty() {
        notes.push(format!(
            "note: kept {} in `{}`, which {} from the defaults of this version",
            list(&edited),
            folder.display(),
            if edited.len() == 1 {
                "differs"
            } else {
                "differ"
            }
        ));
    }
    Ok(steps)
}

fn cedar_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|name| name == "cedar"))
        .collect()
}

fn hook_steps(
    places: &Places,
    wish: &Wish,
    (policies, state): (&Path, &Path),
    manifest: &Manifest,
) -> Result<Vec<Step>, SetupError> {
    let call = places.call(policies, state, wish.scope);
    let mut steps: Vec<Step> = Vec::new();
    for host in &wish.hosts {
        for target in places.targets(wish.scope, *host)? {
            let path = target.real();
            let step = match &target {
                Target::HookFile(_) => {
                    hook_file_step(&path, hooks::copilot_file(call)?, wish.scope, manifest)?
                }
                Target::Settings(_) => {
                    let mut wanted = hooks::claude_hooks(call)?;
                    if wish.scope == Scope::Machine {
                        wanted.extend(hooks::managed());
                    }
                    settings_step(&path, &wanted, wish.scope, manifest)?
                }
                Target::Managed(_) => {
                    settings_step(&path, &hooks::managed(), wish.scope, manifest)?
                }
            };
            // Claude Code and VS Code share a file.
            if steps.iter().all(|other| other.path != step.path) {
                steps.push(step);
            }
        }
    }
    Ok(steps)
}

fn hook_file_step(
    path: &Path,
    text: String,
    scope: Scope,
    manifest: &Manifest,
) -> Result<Step, SetupError> {
    let before = files::read(path)?;
    let ours = before.as_deref().is_none_or(|found| {
        found == text || manifest.find(path).is_some_and(|entry| entry.wrote(found))
    });
    if !ours || files::is_link(path) {
        return Err(SetupError::new(
            format!("`{}` is there, and not as `init` wrote it", path.display()),
            "move it away, then run `copilot-bridge init` again",
        ));
    }
    Ok(Step {
        path: path.to_path_buf(),
        before,
        mode: mode(scope, Kind::Hook),
        entry: Some(Entry::new(path, Kind::Hook, scope, &text)),
        after: Some(text),
    })
}

fn settings_step(
    path: &Path,
    wanted: &[settings::Wanted],
    scope: Scope,
    manifest: &Manifest,
) -> Result<Step, SetupError> {
    let before = files::read(path)?;
    let recorded = (manifest.find(path))
        .and_then(|entry| Some((entry.merge.as_ref()?, entry.sha256.as_str())));
    let (text, merge) =
        settings::merge::<Document>(before.as_deref(), recorded, wanted).map_err(|why| {
            SetupError::new(
                format!("`{}` cannot be edited: {why}", path.display()),
                "correct it, then run `copilot-bridge init` again",
            )
        })?;
    let mut entry = Entry::new(path, Kind::Settings, scope, &text);
    entry.merge = Some(merge);
    Ok(Step {
        mode: files::mode_of(path).unwrap_or(mode(scope, Kind::Settings)),
        before,
        after: Some(text),
        entry: Some(entry),
        path: path.to_path_buf(),
    })
}

fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn print(notes: &[String], out: &mut dyn Write) -> Result<(), SetupError> {
    for note in notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeRooms, Stage};
    use super::*;

    fn wish(scope: Scope, hosts: &[Host]) -> Wish {
        Wish {
            scope,
            hosts: hosts.to_vec(),
            dry_run: false,
        }
    }

    fn run(stage: &Stage, wish: &Wish) -> Result<String, SetupError> {
        let mut out = Vec::new();
        init(&stage.places, wish, &FakeRooms::new(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    const HOOK: &str = "home/.copilot/hooks/copilot-bridge.json";
    const POLICY: &str = "home/.config/copilot-bridge/policies/permission.cedar";

    #[test]
    fn a_fresh_home_gets_policies_key_and_hooks() {
        let stage = Stage::new();
        let said = run(&stage, &wish(Scope::User, &[Host::Copilot])).unwrap();
        assert!(
            said.contains("created the key") && said.contains("does not enforce"),
            "{said}"
        );
        let state = stage.path("home/.local/state/copilot-bridge");
        assert!(stage.read(HOOK).contains(state.to_str().unwrap()));
        assert_eq!(stage.read("home/.local/state/copilot-bridge/key"), "secret");
        assert_eq!(files::mode_of(&state), Some(0o700));
        assert_eq!(files::mode_of(&stage.path(HOOK)), Some(0o600));
        assert_eq!(files::mode_of(&stage.path(POLICY)), Some(0o600));
    }

    #[test]
    fn a_second_run_changes_nothing() {
        let stage = Stage::new();
        let all = [Host::Copilot, Host::Claude, Host::Vscode];
        run(&stage, &wish(Scope::User, &all)).unwrap();
        let before = stage.all();
        let said = run(&stage, &wish(Scope::User, &all)).unwrap();
        assert_eq!(stage.all(), before);
        assert_eq!(said.matches("unchanged").count(), 5, "{said}");
        assert!(
            !said.contains("created") && !said.contains("\nchanged"),
            "{said}"
        );
    }

    #[test]
    fn a_foreign_file_in_the_way_is_refused_before_anything_is_written() {
        let stage = Stage::new();
        stage.write(HOOK, "{}");
        let before = stage.all();
        let error = run(&stage, &wish(Scope::User, &[Host::Copilot])).unwrap_err();
        assert!(error.message.contains("not as `init` wrote it"), "{error}");
        assert_eq!(stage.all(), before);
    }

    #[test]
    fn our_own_file_follows_a_program_that_moved() {
        let mut stage = Stage::new();
        run(&stage, &wish(Scope::User, &[Host::Copilot])).unwrap();
        stage.places.binary = stage.path("bin/elsewhere");
        run(&stage, &wish(Scope::User, &[Host::Copilot])).unwrap();
        assert!(stage.read(HOOK).contains("bin/elsewhere"));
        stage.write(HOOK, &stage.read(HOOK).replace("elsewhere", "evil"));
        assert!(run(&stage, &wish(Scope::User, &[Host::Copilot])).is_err());
    }

    #[test]
    fn a_dry_run_shows_and_changes_nothing() {
        let stage = Stage::new();
        stage.write("home/.claude/settings.json", "{\n  \"model\": \"x\"\n}\n");
        let before = stage.all();
        let mut dry = wish(Scope::User, &[Host::Copilot, Host::Claude]);
        dry.dry_run = true;
        let said = run(&stage, &dry).unwrap();
        assert_eq!(stage.all(), before);
        assert!(said.contains("+permit (principal"), "{said}");
        assert!(said.contains("--- /dev/null"), "{said}");
        assert!(
            said.contains("   \"model\": \"x\"\n") || said.contains("-  \"model\": \"x\""),
            "{said}"
        );
    }

    #[test]
    fn edited_policies_stay_and_those_of_others_are_not_mixed_with_defaults() {
        let stage = Stage::new();
        run(&stage, &wish(Scope::User, &[Host::Copilot])).unwrap();
        stage.write(POLICY, "forbid (principal, action, resource);\n");
        let said = run(&stage, &wish(Scope::User, &[Host::Copilot])).unwrap();
        assert!(said.contains("kept `permission.cedar`"), "{said}");
        assert!(stage.read(POLICY).starts_with("forbid"));

        let stage = Stage::new();
        stage.write(POLICY, "forbid (principal, action, resource);\n");
        let said = run(&stage, &wish(Scope::User, &[Host::Copilot])).unwrap();
        assert!(said.contains("holds policies already"), "{said}");
        assert!(!stage.path(POLICY).with_file_name("bridge.toml").exists());
    }

    #[test]
    fn no_hook_is_written_for_policies_that_do_not_compile() {
        let stage = Stage::new();
        let mut rooms = FakeRooms::new();
        rooms.problems = vec!["`a.cedar`, line 3: no".to_owned()];
        let mut out = Vec::new();
        let wish = wish(Scope::User, &[Host::Copilot]);
        let error = init(&stage.places, &wish, &rooms, &mut out).unwrap_err();
        assert!(error.help.contains("no hook was written"));
        assert!(
            String::from_utf8(out)
                .unwrap()
                .contains("error: `a.cedar`, line 3: no")
        );
        assert!(!stage.path(HOOK).exists());
    }

    #[test]
    fn a_machine_install_shuts_out_foreign_hooks_and_names_no_state() {
        let stage = Stage::new();
        let managed = "machine/etc/github-copilot/managed-settings.json";
        stage.write(managed, "{\n    \"theirs\": [1]\n}\n");
        let said = run(
            &stage,
            &wish(Scope::Machine, &[Host::Copilot, Host::Claude]),
        )
        .unwrap();
        assert!(!said.contains("key"), "{said}");
        assert!(
            stage
                .read(managed)
                .contains("\"theirs\": [1],\n    \"allowManagedHooksOnly\": true")
        );
        let hook = stage.read("machine/etc/github-copilot/policy.d/copilot-bridge.json");
        assert!(!hook.contains("--state") && hook.contains("machine/etc/copilot-bridge/policies"));
        let claude = stage.read("machine/etc/claude-code/managed-settings.json");
        assert!(claude.contains("allowManagedHooksOnly") && claude.contains("PreToolUse"));
        let policy = stage.path("machine/etc/copilot-bridge/policies/bridge.toml");
        assert_eq!(files::mode_of(&policy), Some(0o644));
        assert!(run(&stage, &wish(Scope::Machine, &[Host::Vscode])).is_err());
    }

    #[test]
    fn a_repository_install_warns_of_team_mates_and_checkouts() {
        let mut stage = Stage::new();
        let said = run(&stage, &wish(Scope::Repo, &[Host::Copilot])).unwrap();
        assert!(
            said.contains("every tool denied") && said.contains("a checkout can"),
            "{said}"
        );
        assert!(
            stage
                .path("work/.github/hooks/copilot-bridge.json")
                .exists()
        );
        stage.places.repo = None;
        assert!(run(&stage, &wish(Scope::Repo, &[Host::Copilot])).is_err());
    }

    #[test]
    fn settings_that_are_not_json_are_refused_with_the_place() {
        let stage = Stage::new();
        stage.write("home/.claude/settings.json", "{\n  // no\n}");
        let error = run(&stage, &wish(Scope::User, &[Host::Claude])).unwrap_err();
        assert!(error.message.contains("line 2 column 3"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_for_settings_and_refused_for_a_hook_file() {
        let stage = Stage::new();
        stage.write("dots/settings.json", "{}");
        stage.write("home/.claude/x", "");
        let link = stage.path("home/.claude/settings.json");
        std::os::unix::fs::symlink(stage.path("dots/settings.json"), &link).unwrap();
        run(&stage, &wish(Scope::User, &[Host::Claude])).unwrap();
        assert!(files::is_link(&link) && stage.read("dots/settings.json").contains("PreToolUse"));

        stage.write("home/.copilot/hooks/x", "");
        std::os::unix::fs::symlink(stage.path("dots/none"), stage.path(HOOK)).unwrap();
        assert!(run(&stage, &wish(Scope::User, &[Host::Copilot])).is_err());
    }
}
