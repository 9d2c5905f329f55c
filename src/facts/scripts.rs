//! Files that an agent wrote: whoever runs one runs what the agent wrote.
//!
//! One line a file, appended with one write, so that parallel hooks do not lose any; two files a
//! workspace, this week's and the last one's, so that nothing has to be taken out.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// A list larger than this is full: then every file counts as written, in bytes.
const LIMIT: u64 = 4 << 20;

/// A larger script is not looked into, in bytes.
const TEXT_LIMIT: u64 = 64 << 10;

/// A folder with more files, or nested more deeply, is not searched for scripts.
const FILES: usize = 2_000;
const DEEP: usize = 12;

/// How long a list is written to, in seconds. A file is remembered for one to two of these.
const PERIOD: u64 = 7 * 24 * 60 * 60;

/// The files that agents wrote in one workspace, in `<state>/scripts`.
#[derive(Debug, Clone)]
pub struct Scripts {
    dir: PathBuf,
    workspace: String,
}

impl Scripts {
    /// The list of that workspace, below that state directory.
    #[must_use]
    pub fn new(state: &Path, workspace: &Path) -> Self {
        Self {
            dir: state.join("scripts"),
            workspace: digest(workspace).chars().take(32).collect(),
        }
    }

    /// Remembers that these files are written. Resolved paths.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn note<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
        self.add(paths.into_iter().map(digest))
    }

    /// Remembers that whatever is below these folders may be written: so for a folder to which
    /// another one is moved or copied.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn note_below<'a>(&self, dirs: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
        self.add(dirs.into_iter().map(|dir| below(&digest(dir))))
    }

    fn add(&self, entries: impl Iterator<Item = String>) -> io::Result<()> {
        let mut lines = String::new();
        for entry in entries {
            lines.push_str(&entry);
            lines.push('\n');
        }
        if lines.is_empty() {
            return Ok(());
        }
        let period = now() / PERIOD;
        let file = self.file(period);
        if !file.exists() {
            self.start(period)?;
        }
        let mut list = private(OpenOptions::new().create(true).append(true)).open(file)?;
        if list.metadata()?.len() <= LIMIT {
            list.write_all(lines.as_bytes())?;
        }
        Ok(())
    }

    /// Whether an agent wrote that file. A list that cannot be read, or is full, says yes.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        let above = path.ancestors().skip(1).map(|dir| below(&digest(dir)));
        let wanted: HashSet<String> = above.chain([digest(path)]).collect();
        self.any(|entry| wanted.contains(entry))
    }

    /// Whether an agent wrote something below that folder. One with too many files says yes.
    #[must_use]
    pub fn holds_below(&self, dir: &Path) -> bool {
        let mut found = Vec::new();
        let whole = files_below(dir, DEEP, &mut found);
        let wanted: HashSet<String> = found.iter().map(|path| digest(path)).collect();
        self.holds(dir) || self.any(|entry| !whole || wanted.contains(entry))
    }

    /// Whether an entry is wanted. A list that cannot be read, or is full, says yes.
    fn any(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let period = now() / PERIOD;
        [period, period.saturating_sub(1)]
            .into_iter()
            .any(|period| match read(&self.file(period)) {
                Ok(Some(list)) => list.lines().any(&wanted),
                Ok(None) => false,
                Err(_) => true,
            })
    }

    fn file(&self, period: u64) -> PathBuf {
        self.dir.join(format!("{}-{period}", self.workspace))
    }

    /// Begins a list: the folder is made, and what is too old goes.
    fn start(&self, period: u64) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.dir)?;
        for entry in self.dir.read_dir()?.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let made = name
                .rsplit_once('-')
                .and_then(|(_, made)| made.parse().ok());
            if made.is_some_and(|made: u64| made + 1 < period) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// The files below a folder; false if there are more than are looked at. Links are not followed.
fn files_below(dir: &Path, deep: usize, found: &mut Vec<PathBuf>) -> bool {
    let Ok(entries) = fs::read_dir(dir) else {
        return true;
    };
    for entry in entries.flatten() {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && (deep == 0 || !files_below(&entry.path(), deep - 1, found)) {
            return false;
        }
        found.push(entry.path());
        if found.len() > FILES {
            return false;
        }
    }
    true
}

/// The entry of a list for everything below a folder.
fn below(digest: &str) -> String {
    format!("{digest}/")
}

/// The text of a script; `None` if it is no file, no text, or too large to be looked into.
#[must_use]
pub fn text(path: &Path) -> Option<String> {
    let meta = fs::symlink_metadata(path).ok()?;
    // A FIFO would never end.
    (meta.is_file() && meta.len() <= TEXT_LIMIT)
        .then(|| fs::read_to_string(path).ok())
        .flatten()
}

/// Whether the first line of a script names a shell.
#[must_use]
pub fn is_shell(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let program = first
        .strip_prefix("#!")
        .map(|line| line.trim().rsplit(['/', ' ']).next());
    matches!(
        program,
        Some(Some("sh" | "bash" | "dash" | "zsh" | "ksh" | "ash"))
    )
}

fn read(file: &Path) -> io::Result<Option<String>> {
    let list = match File::open(file) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if list.metadata()?.len() > LIMIT {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = String::new();
    list.take(2 * LIMIT).read_to_string(&mut text)?;
    Ok(Some(text))
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn digest(path: &Path) -> String {
    HEXLOWER.encode(&Sha256::digest(path.as_os_str().as_encoded_bytes()))
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_known_in_its_workspace_alone() {
        let dir = tempfile::tempdir().unwrap();
        let scripts = Scripts::new(dir.path(), Path::new("/ws"));
        assert!(!scripts.holds(Path::new("/ws/a.sh")));
        scripts
            .note([Path::new("/ws/a.sh"), Path::new("/ws/b.sh")])
            .unwrap();
        assert!(scripts.holds(Path::new("/ws/a.sh")));
        assert!(scripts.holds(Path::new("/ws/b.sh")));
        assert!(!scripts.holds(Path::new("/ws/c.sh")));
        assert!(!Scripts::new(dir.path(), Path::new("/other")).holds(Path::new("/ws/a.sh")));
    }

    #[test]
    fn a_folder_that_was_moved_takes_its_scripts_along() {
        let dir = tempfile::tempdir().unwrap();
        let ws = dir.path().join("ws");
        fs::create_dir_all(ws.join("a/b")).unwrap();
        fs::write(ws.join("a/b/x.sh"), "").unwrap();
        let scripts = Scripts::new(dir.path(), &ws);
        assert!(!scripts.holds_below(&ws.join("a")));
        scripts.note([ws.join("a/b/x.sh").as_path()]).unwrap();
        assert!(scripts.holds_below(&ws.join("a")));
        assert!(!scripts.holds(&ws.join("c/b/x.sh")));
        scripts.note_below([ws.join("c").as_path()]).unwrap();
        assert!(scripts.holds(&ws.join("c/b/x.sh")));
        assert!(scripts.holds_below(&ws.join("c/b")));
        assert!(!scripts.holds(&ws.join("d/x.sh")));
    }

    #[test]
    fn a_full_list_holds_everything() {
        let dir = tempfile::tempdir().unwrap();
        let scripts = Scripts::new(dir.path(), Path::new("/ws"));
        scripts.note([Path::new("/ws/a.sh")]).unwrap();
        let list = scripts.file(now() / PERIOD);
        fs::write(list, "x\n".repeat(3 << 20)).unwrap();
        assert!(scripts.holds(Path::new("/ws/never")));
    }
}
