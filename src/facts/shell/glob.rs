//! The files that a word with `*`, `?` or `[…]` stands for.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

/// More matches than this are not listed.
const MATCHES: usize = 256;

/// What a whole line may cost: the entries that are looked at, and as many for each pattern.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    /// About as long as a parser may take.
    pub(super) const fn of_a_line() -> Self {
        Self(20_000)
    }

    fn spend(&mut self, cost: usize) -> Option<()> {
        self.0 = self.0.checked_sub(cost)?;
        Some(())
    }
}

/// What it costs to compile a pattern, in entries.
const PATTERN: usize = 100;

/// The paths below `cwd` that the word matches, as a shell would list them. `None`: too many, or a
/// folder cannot be read. A word that matches nothing stands for itself.
pub(super) fn expand(word: &str, cwd: &Path, budget: &mut Budget) -> Option<Vec<String>> {
    let mut found = vec![if word.starts_with('/') {
        PathBuf::from("/")
    } else {
        PathBuf::new()
    }];
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
        budget.spend(PATTERN)?;
        let matcher = GlobBuilder::new(&part.replace('{', "[{]").replace('}', "[}]"))
            .literal_separator(true)
            .build()
            .ok()?
            .compile_matcher();
        let mut next = Vec::new();
        for path in &found {
            budget.spend(1)?;
            let Ok(entries) = cwd.join(path).read_dir() else {
                continue;
            };
            for entry in entries {
                budget.spend(1)?;
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
        let line = Budget::of_a_line;
        let list = |word| expand(word, dir.path(), &mut line()).unwrap();
        assert_eq!(list("*.rs"), ["a.rs", "b.rs"]);
        assert_eq!(list("d/*.rs"), ["d/e.rs"]);
        assert_eq!(list("*/*.rs"), ["d/e.rs"]);
        assert_eq!(list("*.none"), ["*.none"]);
        assert!(list(".*").contains(&"..".to_owned()));
        assert_eq!(expand("**/x", dir.path(), &mut line()), None);
        let mut budget = line();
        let lists = |_: &u32| expand("*.rs", dir.path(), &mut budget).is_some();
        let all = (0..1_000).take_while(lists).count();
        assert!((100..300).contains(&all), "{all}");
    }
}
