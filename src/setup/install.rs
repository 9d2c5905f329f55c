//! `init`: policies, state and hooks, in an order that leaves no hook without its policies.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::manifest::{Entry, Kind, Manifest};
use super::place::{Places, Target};
use super::plan::{self, Step};
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

/// Why a machine install does not enforce: somebody but root could replace the program.
pub(super) fn weak_spots(program: &Path, trusted: Option<u32>) -> Vec<String> {
    let resolved = program.canonicalize();
    let path = resolved.as_deref().unwrap_or(program);
    path.ancestors()
        .filter_map(|part| {
            let (owner, mode) = (files::owner_of(part)?, files::mode_of(part)?);
            // In a sticky folder only the owner of an entry may replace it.
            let open = mode & 0o022 != 0 && mode & 0o1000 == 0;
            let foreign = owner != 0 && Some(owner) != trusted;
            (open || foreign).then(|| {
                let why = if foreign {
                    "belongs to a user other than root"
                } else {
                    "may be written by others than its owner"
                };
                format!("`{}` {why}", part.display())
            })
        })
        .collect()
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
            if edited.len() == 1 { "differs" } else { "differ" }
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
            let step = match &target {
                Target::HookFile(path) => {
                    hook_file_step(path, hooks::copilot_file(call)?, wish.scope, manifest)?
                }
                Target::Settings(path) => {
                    let mut wanted = hooks::claude_hooks(call)?;
                    if wish.scope == Scope::Machine {
                        wanted.extend(hooks::managed());
                    }
                    settings_step(path, &wanted, wish.scope, manifest)?
                }
                Target::Managed(path) => {
                    settings_step(path, &hooks::managed(), wish.scope, manifest)?
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
            format!(
                "`{}` is there, and not as `init` wrote it",
                path.display()
            ),
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
    // Settings may be a link into somebody's collection: what it leads to is edited.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let before = files::read(&path)?;
    let recorded = (manifest.find(&path))
        .and_then(|entry| Some((entry.merge.as_ref()?, entry.sha256.as_str())));
    let (text, merge) = settings::merge(before.as_deref(), recorded, wanted).map_err(|why| {
        SetupError::new(
            format!("`{}` cannot be edited: {why}", path.display()),
            "correct it, then run `copilot-bridge init` again",
        )
    })?;
    let mut entry = Entry::new(&path, Kind::Settings, scope, &text);
    entry.merge = Some(merge);
    Ok(Step {
        mode: files::mode_of(&path).unwrap_or(mode(scope, Kind::Settings)),
        before,
        after: Some(text),
        entry: Some(entry),
        path,
    })
}

/// What a person should know of the wish.
fn remarks(places: &Places, wish: &Wish) -> Vec<String> {
    let mut remarks = Vec::new();
    if places.copilot_home_is_from_variable && wish.scope == Scope::User {
        remarks.push(format!(
            "note: `COPILOT_HOME` is set, so Copilot CLI looks for hooks in `{}`",
            places.copilot_home.display()
        ));
    }
    for host in &wish.hosts {
        if *host != Host::Copilot {
            remarks.push(format!(
                "note: how {} treats hooks is taken from its documentation, not measured",
                host.name()
            ));
        }
        if *host == Host::Vscode {
            remarks.push(
                "note: VS Code reads hooks in the settings of Claude Code, so both share them"
                    .to_owned(),
            );
        }
    }
    match wish.scope {
        Scope::User => remarks.push(
            "note: this install does not enforce: a workspace's `disableAllHooks` switches it \
             off, and a later hook of a workspace can change a call that was judged; \
             `init --machine` shuts both out"
                .to_owned(),
        ),
        Scope::Machine => {
            let trusted = places.is_rerooted().then(caller).flatten();
            remarks.extend(weak_spots(&places.binary, trusted).into_iter().map(|spot| {
                format!("warning: {spot}, so an agent could replace `{}`", places.binary.display())
            }));
            remarks.push(
                "note: hooks run as the user of the agent, so each user's record is in \
                 `~/.local/state/copilot-bridge` of that user"
                    .to_owned(),
            );
        }
        Scope::Repo => remarks.extend([
            "warning: a team mate without this program at this very path has every tool denied"
                .to_owned(),
            "warning: a checkout can remove these hooks, so they do not enforce".to_owned(),
            "note: the paths in them are absolute, because a hook that is looked for in `PATH` \
             is whatever stands there first"
                .to_owned(),
        ]),
    }
    if wish.scope == Scope::Repo
        && wish.hosts.contains(&Host::Copilot)
        && wish.hosts.iter().any(|host| *host != Host::Copilot)
    {
        remarks.push(
            "note: Copilot CLI also reads `.claude/settings.json` of a trusted repository, and \
             then judges each call twice"
                .to_owned(),
        );
    }
    remarks
}

/// Who runs this program.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "there is no such number elsewhere")]
pub(super) fn caller() -> Option<u32> {
    Some(nix::unistd::Uid::effective().as_raw())
}

/// Who runs this program.
#[cfg(not(unix))]
pub(super) fn caller() -> Option<u32> {
    None
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
