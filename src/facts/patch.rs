//! The files that a patch touches.
//!
//! Two forms are read: the envelope of `apply_patch`, and unified diffs with git's headers. The
//! crates that read unified diffs (`diffy`, `gitpatch`, `unidiff`) drop git's renames and modes,
//! or take text between files for nothing: what is not understood has to be a fault here.

/// One thing that a patch does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Change {
    /// `create`, `update`, `delete`, `move`, or `read` for what is copied.
    pub operation: &'static str,
    /// To which path.
    pub path: String,
    /// The folder of a link, where `path` is what the link says.
    pub link_in: Option<String>,
}

/// What a patch does, in its order.
///
/// # Errors
/// If it is not understood, in words; never in the patch's own, which may hold secrets.
pub fn changes(patch: &str) -> Result<Vec<Change>, String> {
    let mut found = if is_envelope(patch) {
        envelope(patch)?
    } else {
        Diff::read(patch)?
    };
    let mut known = std::collections::HashSet::new();
    found.retain(|change| known.insert(change.clone()));
    if found.is_empty() {
        return Err("the patch names no file".to_owned());
    }
    Ok(found)
}

/// Whether a text starts as a patch does.
#[must_use]
pub fn is_patch(text: &str) -> bool {
    let text = text.trim_start();
    ["*** Begin Patch", "diff --git ", "--- "]
        .iter()
        .any(|mark| text.starts_with(mark))
}

// ---- The envelope -------------------------------------------------------------------------------

const HEADERS: [(&str, &str); 4] = [
    ("create", "*** Add File: "),
    ("update", "*** Update File: "),
    ("delete", "*** Delete File: "),
    ("move", "*** Move to: "),
];

fn is_envelope(patch: &str) -> bool {
    patch.lines().any(|line| {
        let line = line.trim();
        line == "*** Begin Patch" || HEADERS.iter().any(|(_, mark)| line.starts_with(mark))
    })
}

fn envelope(patch: &str) -> Result<Vec<Change>, String> {
    let mut found = Vec::new();
    let mut above = "";
    let mut ended = false;
    for line in patch.lines() {
        let trimmed = line.trim();
        // Inside a file's part these start its text, and a header starts none of them.
        let text = match above {
            "create" => line.starts_with('+'),
            "update" | "move" => {
                line.starts_with([' ', '+', '-', '@']) && !is_move(above, line, &found)
            }
            _ => false,
        };
        if text || trimmed.is_empty() {
            continue;
        }
        if !trimmed.starts_with("***") {
            match above {
                // Text without a mark: no consumer finds a file in it.
                "update" | "move" => continue,
                "" if !is_diff_header(trimmed) && (!ended || trimmed == "EOF") => continue,
                _ => return Err("a line of the patch is none of a patch".to_owned()),
            }
        }
        match trimmed {
            "*** Begin Patch" => above = "",
            "*** End Patch" => {
                above = "";
                ended = true;
            }
            "*** End of File" if matches!(above, "update" | "move") => {}
            header => {
                let (operation, path) = HEADERS
                    .into_iter()
                    .find_map(|(operation, mark)| Some((operation, header.strip_prefix(mark)?)))
                    .ok_or_else(|| "a header of the patch is none that is known".to_owned())?;
                above = operation;
                found.push(change(operation, path)?);
            }
        }
    }
    Ok(found)
}

/// Whether the line right below an update's header says where the file goes.
fn is_move(above: &str, line: &str, found: &[Change]) -> bool {
    above == "update"
        && line.trim().starts_with("*** Move to: ")
        && found
            .last()
            .is_some_and(|change| change.operation == "update")
}

fn is_diff_header(line: &str) -> bool {
    ["--- ", "+++ ", "diff --git ", "@@ "]
        .iter()
        .any(|mark| line.starts_with(mark))
}

fn change(operation: &'static str, path: &str) -> Result<Change, String> {
    if path.trim().is_empty() {
        return Err("the patch names an empty path".to_owned());
    }
    Ok(Change {
        operation,
        path: path.to_owned(),
        link_in: None,
    })
}

// ---- Unified diffs ------------------------------------------------------------------------------

/// The part of one file, while it is read.
#[derive(Debug, Default)]
struct Part {
    /// From `diff --git`, where nothing else names the file.
    named: Option<String>,
    old: Option<String>,
    new: Option<String>,
    /// What the headers say besides.
    found: Vec<(&'static str, String)>,
    created: bool,
    deleted: bool,
    link: bool,
    binary: bool,
    /// The lines that are added, of a link only.
    added: Vec<String>,
    /// Whether git's headers stand above.
    git: bool,
}

#[derive(Debug, Default)]
struct Diff {
    changes: Vec<Change>,
    part: Part,
}

impl Diff {
    fn read(patch: &str) -> Result<Vec<Change>, String> {
        let mut diff = Self::default();
        let mut lines = patch.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(counts) = line.strip_prefix("@@ -") {
                let (mut old, mut new) =
                    hunk(counts).ok_or_else(|| "the header of a hunk is none".to_owned())?;
                if diff.part.old.is_none() {
                    return Err("a hunk belongs to no file".to_owned());
                }
                while old > 0 || new > 0 {
                    let line = lines.next().ok_or("the patch ends within a hunk")?;
                    match line.as_bytes().first() {
                        Some(b'+') => {
                            new = new.checked_sub(1).ok_or("a hunk is longer than it says")?;
                            if diff.part.link {
                                diff.part
                                    .added
                                    .push(line.get(1..).unwrap_or_default().to_owned());
                            }
                        }
                        Some(b'-') => {
                            old = old.checked_sub(1).ok_or("a hunk is longer than it says")?;
                        }
                        Some(b'\\') => {}
                        Some(b' ' | b'\t') | None => {
                            old = old.checked_sub(1).ok_or("a hunk is longer than it says")?;
                            new = new.checked_sub(1).ok_or("a hunk is longer than it says")?;
                        }
                        Some(_) => return Err("a line of a hunk has no mark".to_owned()),
                    }
                }
            } else if let Some(old) = line.strip_prefix("--- ") {
                let new = lines
                    .next_if(|line| line.starts_with("+++ "))
                    .and_then(|line| line.strip_prefix("+++ "))
                    .ok_or("`---` without `+++`")?;
                if diff.part.old.is_some() || !diff.part.git {
                    diff.close()?;
                }
                diff.part.old = Some(name(old)?);
                diff.part.new = Some(name(new)?);
            } else {
                diff.header(line)?;
            }
        }
        diff.close()?;
        Ok(diff.changes)
    }

    fn header(&mut self, line: &str) -> Result<(), String> {
        if let Some(names) = line.strip_prefix("diff --git ") {
            self.close()?;
            self.part.git = true;
            self.part.named = git_name(names);
            return Ok(());
        }
        if let Some(path) = line.strip_prefix("Index: ") {
            self.part.found.push(("update", name(path)?));
            return Ok(());
        }
        if line.starts_with("+++ ") || line.starts_with("*** ") || line.starts_with("@@") {
            return Err("a line is none of a unified diff".to_owned());
        }
        if !self.part.git || self.part.old.is_some() {
            // Text around the diffs.
            return Ok(());
        }
        let mode = [
            "new file mode ",
            "deleted file mode ",
            "new mode ",
            "old mode ",
        ]
        .into_iter()
        .find_map(|mark| Some((mark, line.strip_prefix(mark)?)));
        if let Some((mark, mode)) = mode {
            self.part.created |= mark == "new file mode ";
            self.part.deleted |= mark == "deleted file mode ";
            self.part.link |= mark.starts_with("new") && is_link(mode);
            return Ok(());
        }
        if let Some(index) = line.strip_prefix("index ") {
            self.part.link |= index.split_once(' ').is_some_and(|(_, mode)| is_link(mode));
            return Ok(());
        }
        for (mark, operation) in [
            ("rename from ", "move"),
            ("rename to ", "move"),
            ("rename old ", "move"),
            ("rename new ", "move"),
            ("copy from ", "read"),
            ("copy to ", "create"),
        ] {
            if let Some(path) = line.strip_prefix(mark) {
                self.part.found.push((operation, name(path)?));
            }
        }
        self.part.binary |=
            line.starts_with("GIT binary patch") || line.starts_with("Binary files ");
        Ok(())
    }

    /// Ends the part of a file.
    fn close(&mut self) -> Result<(), String> {
        let part = std::mem::take(&mut self.part);
        let is_null = |name: &Option<String>| name.as_deref() == Some("/dev/null");
        let operation = if part.created || is_null(&part.old) {
            "create"
        } else if part.deleted || is_null(&part.new) {
            "delete"
        } else {
            "update"
        };
        let mut paths = part.found;
        let named = [part.old, part.new].into_iter().flatten();
        paths.extend(
            named
                .filter(|name| name != "/dev/null")
                .map(|name| (operation, name)),
        );
        if part.git {
            match part.named {
                Some(named) => paths.push((operation, named)),
                None if paths.is_empty() => {
                    return Err("a part of the patch names no file".to_owned());
                }
                None => {}
            }
        }
        if part.link && operation != "delete" {
            if part.binary {
                return Err("where a link of the patch leads cannot be seen".to_owned());
            }
            let links: Vec<String> = paths.iter().map(|(_, path)| path.clone()).collect();
            for target in &part.added {
                for link in links.iter().flat_map(|link| levels(link)) {
                    let dir = link.rsplit_once('/').map_or(".", |(dir, _)| dir);
                    self.changes.push(Change {
                        link_in: Some(dir.to_owned()),
                        ..change("create", target)?
                    });
                }
            }
        }
        for (operation, path) in paths {
            for path in levels(&path) {
                self.changes.push(change(operation, path)?);
            }
        }
        Ok(())
    }
}

/// The path as written, and without its first folder, which most consumers strip.
fn levels(path: &str) -> impl Iterator<Item = &str> {
    let stripped = path.split_once('/').map(|(_, rest)| rest);
    let stripped = stripped.filter(|rest| !rest.is_empty());
    [Some(path).filter(|_| !is_prefixed(path)), stripped]
        .into_iter()
        .flatten()
}

/// Whether the first folder is what git puts before paths. Not stripping it only leads deeper.
fn is_prefixed(path: &str) -> bool {
    ["a/", "b/", "i/", "w/", "c/", "o/"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

fn is_link(mode: &str) -> bool {
    mode.trim() == "120000"
}

/// How many old and new lines a hunk has, from `1,2 +3,4 @@ …`.
fn hunk(counts: &str) -> Option<(usize, usize)> {
    let (old, rest) = counts.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |range: &str| match range.split_once(',') {
        Some((start, count)) => start.parse::<usize>().and(count.parse()).ok(),
        None => range.parse::<usize>().map(|_| 1).ok(),
    };
    Some((count(old)?, count(new)?))
}

/// The name of a header line: quoted as C has it, or up to a tab.
fn name(text: &str) -> Result<String, String> {
    if text.starts_with('"') {
        let (name, _) =
            unquote(text).ok_or_else(|| "a quoted name is not understood".to_owned())?;
        return Ok(name);
    }
    let name = text.split('\t').next().unwrap_or(text);
    if name.trim().is_empty() {
        return Err("the patch names an empty path".to_owned());
    }
    Ok(name.to_owned())
}

/// The name in `diff --git a/name b/name`, if both are the same or there is no doubt.
fn git_name(text: &str) -> Option<String> {
    if text.starts_with('"') {
        return unquote(text).map(|(name, _)| name);
    }
    let half = text.len() / 2;
    if let (Some(old), Some(new)) = (text.get(..half), text.get(half + 1..))
        && text.get(half..=half) == Some(" ")
        && levels(old).last() == levels(new).last()
    {
        return Some(new.to_owned());
    }
    match text.split_once(' ') {
        Some((_, new)) if !new.contains(' ') => Some(new.to_owned()),
        _ => None,
    }
}

/// A name quoted as C has it, and what stands behind it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut bytes = Vec::new();
    loop {
        let mut characters = rest.chars();
        let c = characters.next()?;
        rest = characters.as_str();
        match c {
            '"' => return Some((String::from_utf8(bytes).ok()?, rest)),
            '\\' => {
                let escape = characters.next()?;
                let plain = match escape {
                    'a' => 7,
                    'b' => 8,
                    't' => b'\t',
                    'n' => b'\n',
                    'v' => 11,
                    'f' => 12,
                    'r' => b'\r',
                    '"' | '\\' => u8::try_from(escape).ok()?,
                    _ => {
                        bytes.push(u8::from_str_radix(rest.get(..3)?, 8).ok()?);
                        rest = rest.get(3..)?;
                        continue;
                    }
                };
                bytes.push(plain);
                rest = characters.as_str();
            }
            c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(patch: &str) -> Vec<(&'static str, String)> {
        changes(patch)
            .unwrap_or_else(|error| panic!("{patch}: {error}"))
            .into_iter()
            .map(|change| (change.operation, change.path))
            .collect()
    }

    fn names(patch: &str, operation: &str, path: &str) -> bool {
        read(patch).contains(&(
            match operation {
                "create" => "create",
                "update" => "update",
                "delete" => "delete",
                "move" => "move",
                _ => "read",
            },
            path.to_owned(),
        ))
    }

    #[test]
    fn an_envelope_names_its_files() {
        let patch = "*** Begin Patch\n*** Add File: /w/p\n+x\n*** Update File: a.txt\n*** Move to: b.txt\n@@ def\n-x\n+y\n *** Delete File: text\n\n*** End of File\n*** Delete File: c\n*** End Patch\n";
        let expected = [
            ("create", "/w/p"),
            ("update", "a.txt"),
            ("move", "b.txt"),
            ("delete", "c"),
        ];
        assert_eq!(read(patch), expected.map(|(o, p)| (o, p.to_owned())));
    }

    #[test]
    fn an_envelope_is_read_as_loosely_as_consumers_do() {
        for (patch, operation, path) in [
            (
                "*** Begin Patch\r\n*** Add File: ../x\r\n+y\r\n*** End Patch",
                "create",
                "../x",
            ),
            (
                "<<'EOF'\n*** Begin Patch\n  *** Delete File: ../x\n*** End Patch\nEOF\n",
                "delete",
                "../x",
            ),
            (
                "*** Begin Patch\n*** Add File: a\n+b\n *** Delete File: ../x\n*** End Patch",
                "delete",
                "../x",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n-b\n+c\n\t*** Delete File: ../x\n*** End Patch",
                "delete",
                "../x",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n  *** Move to: ../x\n@@\n-b\n+c\n*** End Patch",
                "move",
                "../x",
            ),
            ("*** Update File: ../x\n@@\n-b\n+c", "update", "../x"),
        ] {
            assert!(names(patch, operation, path), "{patch}: {:?}", read(patch));
        }
    }

    #[test]
    fn a_diff_names_its_files() {
        let hunk = "@@ -1 +1 @@\n-a\n+b\n";
        for (patch, operation, path) in [
            (format!("--- a/x\n+++ b/x\n{hunk}"), "update", "x"),
            (format!("--- ../x\n+++ ../x\n{hunk}"), "update", "../x"),
            (format!("--- a/../x\n+++ b/../x\n{hunk}"), "update", "../x"),
            (
                format!("--- /etc/x\t2024-01-01\n+++ /etc/x\n{hunk}"),
                "update",
                "/etc/x",
            ),
            (
                format!("--- a//etc/x\n+++ b//etc/x\n{hunk}"),
                "update",
                "/etc/x",
            ),
            (
                format!("--- foo/../x\n+++ foo/../x\n{hunk}"),
                "update",
                "../x",
            ),
            (
                "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+b\n".to_owned(),
                "create",
                "n",
            ),
            (
                "--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n".to_owned(),
                "delete",
                "o",
            ),
            (
                "diff --git a/x b/../y\nsimilarity index 100%\nrename from x\nrename to ../y\n"
                    .to_owned(),
                "move",
                "../y",
            ),
            (
                "diff --git a/x b/y\ncopy from ../x\ncopy to y\n".to_owned(),
                "read",
                "../x",
            ),
            (
                "diff --git a/s b/s\nold mode 100644\nnew mode 100755\n".to_owned(),
                "update",
                "s",
            ),
            (
                "diff --git a/a b b/a b\nnew file mode 100644\nindex 0..0\n".to_owned(),
                "create",
                "a b",
            ),
            (
                "diff --git a/x b/x\ndeleted file mode 100644\n".to_owned(),
                "delete",
                "x",
            ),
            (
                format!(
                    "diff --git \"a/\\303\\251\" \"b/\\303\\251\"\n--- \"a/\\303\\251\"\n+++ \"b/\\303\\251\"\n{hunk}"
                ),
                "update",
                "é",
            ),
            (
                format!(
                    "From 1 Mon\nSubject: [PATCH] x\n---\n a | 2 +-\n\ndiff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n{hunk}-- \n2.40\n"
                ),
                "update",
                "a",
            ),
            (
                format!("--- a/x\n+++ b/x\n{hunk}--- a/../y\n+++ b/../y\n{hunk}"),
                "update",
                "../y",
            ),
            (
                format!("Index: ../x\n=====\n--- x\n+++ x\n{hunk}"),
                "update",
                "../x",
            ),
        ] {
            assert!(
                names(&patch, operation, path),
                "{patch}: {:?}",
                read(&patch)
            );
        }
    }

    #[test]
    fn the_text_of_a_hunk_names_no_file() {
        let patch = "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- /etc/passwd\n+++ /etc/shadow\n c\n\\ No newline at end of file\n";
        assert!(read(patch).iter().all(|(_, path)| path == "x.sql"));
    }

    #[test]
    fn a_link_leads_where_its_text_says() {
        let aims = |mode: &str, target: &str| {
            let patch = format!(
                "diff --git a/d/l b/d/l\n{mode}\n--- /dev/null\n+++ b/d/l\n@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
            );
            changes(&patch)
                .unwrap()
                .iter()
                .any(|change| change.path == target && change.link_in.as_deref() == Some("d"))
        };
        assert!(aims("new file mode 120000", "../../out"));
        assert!(aims("new mode 120000", "/etc"));
        assert!(aims("index 1..2 120000", "/etc"));
        assert!(!aims("new file mode 100644", "/etc"));
    }

    #[test]
    fn what_is_not_understood_is_a_fault() {
        for patch in [
            "",
            "hello",
            "*** Begin Patch",
            "*** Begin Patch\n*** End Patch\n",
            "*** Begin Patch\n*** Add File: \n+x\n*** End Patch",
            "*** Begin Patch\n*** Rename File: a\n*** End Patch",
            "*** Begin Patch\n*** Add File:../x\n+x\n*** End Patch",
            "*** Begin Patch\n*** Delete File: a\n+x\n*** End Patch",
            "--- a/x\n",
            "--- a/x\n+++ b/x\n@@ nonsense\n",
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n",
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\nx\n",
            "@@ -1 +1 @@\n-a\n+b\n",
            "*** a/x\n--- b/x\n***************\n*** 1 ****\n",
            "diff --git a/a b c b/d\nnew file mode 100644\n",
            "--- \"a/\\q\"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "diff --git a/l b/l\nnew file mode 120000\nGIT binary patch\nliteral 1\nx\n",
        ] {
            assert!(changes(patch).is_err(), "{patch}");
        }
    }
}
