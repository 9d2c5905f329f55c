//! The few folders that many paths lie in, and none that is too wide.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::containment::{Containment, Places, is_below};

/// Folders beside each other are put together from so many on.
const SIBLINGS: usize = 3;

/// The folders that cover all of these and are not too wide; and for each, those of `wanted` that
/// it covers. What is too wide itself is left out.
#[must_use]
pub(super) fn fewest<'w>(
    wanted: &BTreeSet<&'w str>,
    tables: &Containment,
    places: &Places,
) -> BTreeMap<String, Vec<&'w str>> {
    let narrow = |folder: &str| too_wide(folder, tables, places).is_none();
    let mut folders: BTreeSet<String> = wanted
        .iter()
        .filter(|folder| narrow(folder))
        .map(|folder| (*folder).to_owned())
        .collect();
    loop {
        let mut beside: BTreeMap<String, usize> = BTreeMap::new();
        for folder in &folders {
            if let Some((above, _)) = folder.rsplit_once('/') {
                *beside.entry(above.to_owned()).or_default() += 1;
            }
        }
        let merged = beside
            .into_iter()
            .find(|(above, count)| *count >= SIBLINGS && narrow(above));
        let Some((above, _)) = merged else { break };
        folders.retain(|folder| !is_below(folder, &above));
        folders.insert(above);
    }
    let all: Vec<String> = folders.iter().cloned().collect();
    folders.retain(|folder| {
        !all.iter()
            .any(|other| other != folder && is_below(folder, other))
    });
    folders
        .into_iter()
        .map(|folder| {
            let covered = wanted.iter().filter(|path| is_below(path, &folder));
            let covered = covered.copied().collect();
            (folder, covered)
        })
        .collect()
}

/// Why a folder is no root for agents; `None` if it may be one.
#[must_use]
pub(super) fn too_wide(folder: &str, tables: &Containment, places: &Places) -> Option<String> {
    let parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    let home = places.home.as_deref().unwrap_or("/root");
    match parts.as_slice() {
        [] | [_] => return Some("it is too wide".to_owned()),
        ["home" | "Users", _] => return Some("it is a home".to_owned()),
        ["boot" | "dev" | "etc" | "proc" | "run" | "sys", ..] => {
            return Some("it is the system's own".to_owned());
        }
        _ => {}
    }
    if is_below(home, folder) {
        return Some("it holds a home".to_owned());
    }
    let labels = tables.path_labels(folder, folder, places);
    let forbids = tables.labels.iter().filter(|label| label.as_written);
    let mut forbids = forbids
        .map(|label| label.name.as_str())
        .chain(["secret_file"]);
    if let Some(label) = forbids.find(|label| labels.contains(*label)) {
        return Some(format!("it is labelled `{label}`"));
    }
    let below = tables.forbidden_below(folder, places);
    let below = below.iter().find(|(_, _, sure)| *sure);
    below.map(|(label, path, _)| format!("`{path}` below it is labelled `{label}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{layer, load_sources};

    fn places() -> Places {
        Places {
            home: Some("/home/dev".to_owned()),
            state: Some("/var/lib/bridge/state".to_owned()),
            ..Places::default()
        }
    }

    #[test]
    fn siblings_become_the_folder_above_unless_that_is_too_wide() {
        let tables = load_sources(&[layer::embedded()])
            .unwrap()
            .settings
            .containment;
        for (wanted, folders) in [
            (&["/srv/data/a"][..], &["/srv/data/a"][..]),
            (
                &["/srv/data/a", "/srv/data/b"],
                &["/srv/data/a", "/srv/data/b"],
            ),
            (
                &["/srv/data/a", "/srv/data/b", "/srv/data/c", "/srv/data/c/d"],
                &["/srv/data"],
            ),
            // `/srv` and a home are too wide.
            (
                &["/srv/a/x", "/srv/b/x", "/srv/c/x"],
                &["/srv/a/x", "/srv/b/x", "/srv/c/x"],
            ),
            (
                &["/home/dev/a", "/home/dev/b", "/home/dev/c"],
                &["/home/dev/a", "/home/dev/b", "/home/dev/c"],
            ),
            (
                &[
                    "/",
                    "/etc",
                    "/home/anna",
                    "/home/dev/.ssh",
                    "/var/lib/bridge",
                ],
                &[],
            ),
            (&["/srv/data", "/srv/data/b"], &["/srv/data"]),
        ] {
            let wanted: BTreeSet<&str> = wanted.iter().copied().collect();
            let found = fewest(&wanted, &tables, &places());
            assert_eq!(found.keys().collect::<Vec<_>>(), folders, "{wanted:?}");
        }
    }

    #[test]
    fn why_a_folder_is_too_wide_is_said() {
        let tables = load_sources(&[layer::embedded()])
            .unwrap()
            .settings
            .containment;
        for (folder, why) in [
            ("/home/dev", "it is a home"),
            ("/home", "it is too wide"),
            (
                "/home/dev/.config",
                "`/home/dev/.config/gcloud` below it is labelled `credentials`",
            ),
            ("/home/dev/.ssh/keys", "it is labelled `credentials`"),
            ("/proc/1", "it is the system's own"),
            ("/etc/passwd", "it is the system's own"),
        ] {
            let found = too_wide(folder, &tables, &places()).unwrap_or_default();
            if folder.ends_with(".config") {
                assert!(found.contains("below it is labelled"), "{found}");
            } else {
                assert_eq!(found, why, "{folder}");
            }
        }
        assert_eq!(too_wide("/srv/data", &tables, &places()), None);
    }
}
