//! Hooks of others, and switches that turn ours off.
//!
//! A foreign hook is no fault by itself. But Copilot CLI asks hooks one after the other, all of
//! them see the original arguments, and one that answers `allow` with other arguments has those
//! run: what we judged was something else.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::hooks::{self, Found};
use super::super::place::Places;
use super::installed::Installed;
use super::{Host, Report, Scope, files, same_file};

/// A file that a host reads hooks or switches from.
struct Source {
    path: PathBuf,
    host: Host,
    scope: Scope,
    /// Settings can switch all hooks off; a hook file only its own.
    is_settings: bool,
}

/// Looks through all files that hosts read hooks from.
pub(super) fn look(places: &Places, installed: &[Installed], report: &mut Report) {
    let managed = managed_hooks_only(places);
    let machine =
        |host| (installed.iter()).any(|hook| hook.scope == Scope::Machine && hook.host == host);
    if managed && !machine(Host::Copilot) && installed.iter().any(|it| it.host == Host::Copilot) {
        report.error(
            "shut-out",
            "`allowManagedHooksOnly` is set, so Copilot CLI runs no hooks of users, ours included",
            "`copilot-bridge init --machine` installs managed hooks",
        );
    }
    if machine(Host::Copilot) && !managed {
        report.error(
            "not-enforcing",
            "hooks are installed for the machine, but `allowManagedHooksOnly` is not set",
            "run `copilot-bridge init --machine` again",
        );
    }
    for source in sources(places) {
        let Ok(Some(text)) = files::read(&source.path) else {
            continue;
        };
        let Ok(file) = serde_json::from_str::<Value>(&text) else {
            if !installed
                .iter()
                .any(|hook| same_file(&hook.path, &source.path))
            {
                report.warn(
                    "foreign-unreadable",
                    format!("`{}` is not JSON", source.path.display()),
                    "hosts skip such a file, with all that it says",
                );
            }
            continue;
        };
        let enforced = managed && machine(source.host);
        switch(&source, &file, (enforced, installed), report);
        hooks_of_others(&source, &file, enforced, installed, report);
    }
}

/// Whether Copilot CLI is told to run managed hooks only.
pub(super) fn managed_hooks_only(places: &Places) -> bool {
    let path = places.copilot_etc().join("managed-settings.json");
    let text = files::read(&path).ok().flatten().unwrap_or_default();
    serde_json::from_str::<Value>(&text)
        .is_ok_and(|settings| settings.get("allowManagedHooksOnly") == Some(&Value::Bool(true)))
}

fn switch(
    source: &Source,
    file: &Value,
    (enforced, installed): (bool, &[Installed]),
    report: &mut Report,
) {
    if !source.is_settings || file.get("disableAllHooks") != Some(&Value::Bool(true)) {
        return;
    }
    let sentence = format!("`{}` says `disableAllHooks`", source.path.display());
    let affected = installed.iter().any(|hook| {
        hook.host == source.host && (hook.scope != Scope::Machine || source.scope == Scope::Machine)
    });
    match (source.host, source.scope) {
        _ if enforced && source.scope != Scope::Machine => report.ok(
            "disable-all-hooks",
            format!("{sentence}, which does not reach the hooks of the machine"),
        ),
        (Host::Copilot, Scope::User) => report.warn(
            "disable-all-hooks",
            sentence,
            "Copilot CLI 1.0.102 was seen to run user hooks all the same; do not rely on it",
        ),
        _ if affected => report.error(
            "disable-all-hooks",
            format!(
                "{sentence}, so {} does not ask this program",
                source.host.name()
            ),
            "take it out, or install for the machine with `copilot-bridge init --machine`",
        ),
        _ => report.warn(
            "disable-all-hooks",
            sentence,
            "hooks that you install will not run",
        ),
    }
}

fn hooks_of_others(
    source: &Source,
    file: &Value,
    enforced: bool,
    installed: &[Installed],
    report: &mut Report,
) {
    let ours = |entry: &Found| {
        entry.is_ours()
            && installed
                .iter()
                .any(|hook| same_file(&hook.path, &source.path))
    };
    let mut events: Vec<String> = hooks::entries(file)
        .into_iter()
        .filter(|entry| !ours(entry))
        .map(|entry| entry.event)
        .collect();
    events.dedup();
    if events.is_empty() {
        return;
    }
    let sentence = format!(
        "`{}` has hooks of others for {}",
        source.path.display(),
        events.join(", ")
    );
    if enforced && source.scope != Scope::Machine {
        report.ok(
            "foreign-hook",
            format!("{sentence}, which managed settings shut out"),
        );
        return;
    }
    report.warn(
        "foreign-hook",
        sentence,
        "a hook that answers `allow` with other arguments has those run, and nothing judged them; \
         remove it, or shut it out with `copilot-bridge init --machine`",
    );
}

fn sources(places: &Places) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut add = |host, scope, is_settings, path: PathBuf| {
        sources.push(Source {
            path,
            host,
            scope,
            is_settings,
        });
    };
    let repo = places.repo.as_ref().unwrap_or(&places.workspace);
    let etc = places.copilot_etc();
    for (scope, folder) in [
        (Scope::Machine, etc.join("policy.d")),
        (Scope::User, places.copilot_home.join("hooks")),
        (Scope::Repo, repo.join(".github/hooks")),
    ] {
        // Copilot CLI looks into sub-folders in a repository only.
        for path in json_files(&folder, if scope == Scope::Repo { 8 } else { 1 }) {
            add(Host::Copilot, scope, false, path);
        }
    }
    add(
        Host::Copilot,
        Scope::Machine,
        true,
        etc.join("managed-settings.json"),
    );
    add(
        Host::Copilot,
        Scope::User,
        true,
        places.copilot_home.join("settings.json"),
    );
    let claude = places.targets(Scope::Machine, Host::Claude);
    for target in claude.into_iter().flatten() {
        add(
            Host::Claude,
            Scope::Machine,
            true,
            target.path().to_path_buf(),
        );
    }
    add(
        Host::Claude,
        Scope::User,
        true,
        places.claude_home.join("settings.json"),
    );
    for name in ["settings.json", "settings.local.json"] {
        add(
            Host::Copilot,
            Scope::Repo,
            true,
            repo.join(".github/copilot").join(name),
        );
        add(
            Host::Claude,
            Scope::Repo,
            true,
            repo.join(".claude").join(name),
        );
    }
    sources
}

fn json_files(folder: &Path, depth: u8) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Some(deeper) = depth.checked_sub(1) else {
        return found;
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(json_files(&path, deeper));
        } else if path.extension().is_some_and(|name| name == "json") {
            found.push(path);
        }
    }
    found.sort();
    found
}
