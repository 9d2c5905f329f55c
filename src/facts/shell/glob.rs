//! The files that a word with `*`, `?` or `[…]` stands for.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

/// More matches than this are not listed.
const MATCHES: usize = 256;

/// More entries than this are not looked at.
const ENTRIES: usize = 20_000;

/// The paths below `cwd` that the word matches, as a shell would list them. `None`: too many, or a
/// folder cannot be read. A word that matches nothing stands for itself.
pub(super) fn expand(word: &str, cwd: &Path) -> Option<Vec<String>> {
    let mut found = vec![if word.starts_with('/') {
        PathBuf::from("/")
    } else {
        PathBuf::new()
    }];
    let mut seen = 0;
    for part in word.split('/').filter(|part| !part.is_empty()) {
        if !part.contains(['*', '?', '[']) {
            for path in &mut found {
                path.push(part);
            }
            continue;
        }
        // `**` crosses folders in some shells, and is `*` in the others.
        if part.contains("**") {
            return None;
        }
        let matcher = GlobBuilder::new(&part.replace('{', "[{]").replace('}', "[}]"))
            .literal_separator(true)
            .build()
            .ok()?
            .compile_matcher();
        let mut next = Vec::new();
        for path in &found {
            let Ok(entries) = cwd.join(path).read_dir() else {
                continue;
            };
            for entry in entries {
                seen += 1;
                if seen > ENTRIES {
                    return None;
                }
                let name = entry.ok()?.file_name();
                let name = name.to_string_lossy();
                let hidden = name.starts_with('.') && !part.starts_with('.');
                if !hidden && matcher.is_match(name.as_ref()) {
                    next.push(path.join(name.as_ref()));
                }
            }
        }
        // The shell's own folders match a pattern that starts with a dot.
        if part.starts_with('.') {
            next.extend(
                found
                    .iter()
                    .filter(|_| matcher.is_match(".."))
                    .map(|path| path.join("..")),
            );
        }
        if next.len() > MATCHES {
            return None;
        }
        found = next;
    }
    if found.is_empty() {
        return Some(vec![word.to_owned()]);
    }
    found.sort();
    Some(
        found
            .into_iter()
            .map(|path| path.to_string_lossy().into_owned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_listed_as_a_shell_lists_them() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.rs", "b.rs", ".hidden.rs", "c.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/e.rs"), "").unwrap();
        let list = |word| expand(word, dir.path()).unwrap();
        assert_eq!(list("*.rs"), ["a.rs", "b.rs"]);
        assert_eq!(list("d/*.rs"), ["d/e.rs"]);
        assert_eq!(list("*/*.rs"), ["d/e.rs"]);
        assert_eq!(list("*.none"), ["*.none"]);
        assert!(list(".*").contains(&"..".to_owned()));
        assert_eq!(expand("**/x", dir.path()), None);
    }
}
