//! What a person should know of an install before relying on it.

use std::path::Path;

use super::files;
use super::install::Wish;
use super::place::Places;
use super::{Host, Scope};

/// What a person should know of the wish.
pub(super) fn remarks(places: &Places, wish: &Wish) -> Vec<String> {
    let mut remarks = Vec::new();
    if places.copilot_home_is_from_variable && wish.scope == Scope::User {
        remarks.push(format!(
            "note: `COPILOT_HOME` is set, so Copilot CLI looks for hooks in `{}`",
            places.copilot_home.display()
        ));
    }
    if !files::is_executable(&places.binary) {
        remarks.push(format!(
            "warning: `{}` is no program that can be run, so every tool is denied",
            places.binary.display()
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
                format!(
                    "warning: {spot}, so an agent could replace `{}`",
                    places.binary.display()
                )
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

/// Who runs this program.
#[cfg(unix)]
#[expect(
    clippy::unnecessary_wraps,
    reason = "there is no such number elsewhere"
)]
pub(super) fn caller() -> Option<u32> {
    Some(nix::unistd::Uid::effective().as_raw())
}

/// Who runs this program.
#[cfg(not(unix))]
pub(super) fn caller() -> Option<u32> {
    None
}
