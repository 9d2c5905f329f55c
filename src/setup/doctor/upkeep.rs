//! Owners, modes, and what changed since `init`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::manifest::{Kind, Manifest};
use super::super::place::Places;
use super::super::remarks::caller;
use super::super::{Rooms, Scope, files};
use super::installed::Installed;
use super::{Report, policy_folders};
use crate::audit::checkpoint::{self, Signer};
use crate::log;
use crate::policy::published;

/// Looks at every file and folder that a decision rests on.
pub(super) fn look(
    places: &Places,
    installed: &[Installed],
    rooms: &dyn Rooms,
    report: &mut Report,
) {
    let before = report.findings.len();
    for folder in policy_folders(places, installed) {
        guarded(&folder, report);
        tree(&folder, report);
    }
    for hook in installed.iter().filter(|hook| hook.scope != Scope::Repo) {
        guarded(&hook.path, report);
        // Who may write the folder may put another file in its place.
        if let Some(folder) = hook.path.parent() {
            guarded(folder, report);
        }
    }
    let state = places.state(Scope::User);
    secret(&state, report);
    if report.findings.len() == before {
        report.ok(
            "modes",
            "only their owner may change policies, hooks and record",
        );
    }
    for scope in [Scope::Machine, Scope::User] {
        since_init(places, scope, rooms, report);
    }
    record(&state, report);
    signing_key(&state, report);
    operational_log(&state, report);
    if let Some(dir) = std::env::var_os("COPILOT_AUDIT_LOG_DIR").map(PathBuf::from)
        && let Err(why) = rooms.honours_audit_dir(&dir)
    {
        report.warn(
            "audit-dir-ignored",
            format!("`COPILOT_AUDIT_LOG_DIR` is ignored: {why}"),
            "unset it, or name a folder that only root or you may write",
        );
    }
}

fn tree(folder: &Path, report: &mut Report) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        guarded(&path, report);
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            tree(&path, report);
        }
    }
}

/// What nobody but root and the caller may change.
fn guarded(path: &Path, report: &mut Report) {
    if files::mode_of(path).is_some_and(|mode| mode & 0o022 != 0) {
        report.error(
            "loose-mode",
            format!("others may write `{}`", path.display()),
            "`chmod go-w` it: until then it is refused, or somebody changes it",
        );
    }
    let owner = files::owner_of(path);
    if owner.is_some_and(|owner| owner != 0 && Some(owner) != caller()) {
        report.error(
            "wrong-owner",
            format!("`{}` belongs to another user", path.display()),
            "it has to belong to root or to you",
        );
    }
}

/// What nobody but the caller may even read: the record, and the key that hides values in it.
fn secret(state: &Path, report: &mut Report) {
    let mut paths = vec![state.to_path_buf()];
    let below = [
        "",
        "audit",
        "audit/policies",
        "log",
        "mirror/seed",
        "retired-keys",
        "approvals/pending",
        "approvals/answers",
    ];
    for folder in below.map(|name| state.join(name)) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        paths.extend(entries.map(|entry| entry.path()));
    }
    for path in paths {
        if files::mode_of(&path).is_some_and(|mode| mode & 0o077 != 0) {
            report.error(
                "loose-mode",
                format!("others may read or write `{}`", path.display()),
                "`chmod go-rwx` it",
            );
        }
        let owner = files::owner_of(&path);
        if owner.is_some_and(|owner| Some(owner) != caller()) {
            report.error(
                "wrong-owner",
                format!("`{}` does not belong to you", path.display()),
                "a hook that runs as you cannot use it",
            );
        }
    }
}

fn since_init(places: &Places, scope: Scope, rooms: &dyn Rooms, report: &mut Report) {
    let Ok(manifest) = Manifest::load(&places.state(scope)) else {
        return;
    };
    let folder = places.policies(scope);
    // A bundle took the place of what `init` wrote: what became of that is said there.
    if folder.join(published::FILE).exists() {
        return;
    }
    let mut old = BTreeSet::new();
    for entry in manifest
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Policy)
    {
        let shown = entry.path.display();
        match files::read(&entry.path) {
            Ok(Some(text)) if !entry.wrote(&text) => report.warn(
                "policy-edited",
                format!("`{shown}` was changed since `init` wrote it"),
                "if it was not you, compare it with the defaults: `copilot-bridge init --dry-run`",
            ),
            Ok(None) => report.warn(
                "policy-gone",
                format!("`{shown}` was removed since `init` wrote it"),
                "`copilot-bridge init` writes it again",
            ),
            Ok(Some(_)) | Err(_) => {}
        }
        let default = (rooms.defaults().iter()).find(|(name, _)| folder.join(name) == entry.path);
        if default.is_some_and(|(_, text)| !entry.wrote(text)) {
            old.insert(entry.path.clone());
        }
    }
    for path in old {
        report.warn(
            "defaults-changed",
            format!("this version has another default for `{}`", path.display()),
            "move it away, run `copilot-bridge init` again, then put your own changes back",
        );
    }
}

/// Whether the record can be written. Nothing else shows it: root may write where modes forbid.
fn record(state: &Path, report: &mut Report) {
    if !state.exists() {
        return;
    }
    let audit = state.join("audit");
    let folder = if audit.exists() { &audit } else { state };
    match tempfile::tempfile_in(folder) {
        Ok(_) => report.ok("record", format!("`{}` can be written", folder.display())),
        Err(error) => report.error(
            "record-unwritable",
            format!(
                "no record can be written in `{}`: {}",
                folder.display(),
                error.kind()
            ),
            "until then every call is denied",
        ),
    }
}

/// Whether checkpoints can be signed. Lines are written without them too, so nothing else shows it.
fn signing_key(state: &Path, report: &mut Report) {
    // The first checkpoint makes one.
    if checkpoint::path(state).symlink_metadata().is_err() {
        return;
    }
    match Signer::of(state) {
        Ok(signer) => report.ok("signing-key", format!("checkpoints are signed with `{}`", signer.verifier())),
        Err(error) => report.warn(
            "no-checkpoints",
            format!("no checkpoint of the record can be signed: {error}"),
            "put the key back, or move it away: a new one is made then, and `audit verify` tells of it",
        ),
    }
}

/// Where the operational log is. Nothing depends on it, so what is wrong with it is no error.
fn operational_log(state: &Path, report: &mut Report) {
    if !state.exists() {
        return;
    }
    match log::check(state) {
        Ok(folder) => report.ok("log", format!("`{}` can be written", folder.display())),
        Err(error) => report.warn(
            "log-unwritable",
            format!("the operational log is lost: {error}"),
            "calls are judged and recorded all the same",
        ),
    }
}
