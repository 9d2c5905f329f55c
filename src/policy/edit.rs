//! Changing policies: a copy is edited and checked, and only a correct one takes their place.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::diagnostic::{Code, Problem};
use super::disk::{self, Trust};
use super::layer::{self, Layer, Locations};
use super::load::check_sources;
use super::source::{Source, SourceFile, read_directory, read_trusting};

/// Names of files and their texts.
pub type Files = BTreeMap<String, String>;

/// What a person wants to do about problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Correct them.
    EditAgain,
    /// Leave the policies as they were.
    Abandon,
}

/// How editing ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    /// Nothing was changed.
    Unchanged,
    /// These files were written or removed.
    Published(Vec<String>),
    /// The policies are as they were.
    Abandoned,
}

/// Lets a person edit a copy of one layer, until all layers together are correct or they give up.
///
/// `editor` is a command line such as `code --wait`; the files of the copy are added to it.
/// `ask` sees every problem, and is asked only if one of them is an error.
///
/// # Errors
/// If the layer cannot be read, the editor cannot be run, or the files changed in the meantime.
pub fn edit(
    locations: &Locations,
    layer: Layer,
    editor: &str,
    ask: &mut dyn FnMut(&[Problem]) -> Answer,
) -> Result<Edited, Vec<Problem>> {
    let dir = layer::dir(locations, layer).ok_or_else(|| vec![nowhere(layer)])?;
    let mut sources = layer::read(locations)?;
    let before = sources
        .iter()
        .find(|source| source.layer == layer)
        .map(files_of)
        .ok_or_else(|| vec![nowhere(layer)])?;
    let draft = Draft::new(dir, &before).map_err(|error| vec![unwritable(layer, dir, &error)])?;
    loop {
        draft
            .run(editor)
            .map_err(|text| vec![Problem::error(Code::Unreadable, text)])?;
        let mut problems = Vec::new();
        let after = draft.read(layer, &mut problems);
        let shown = dir.display().to_string();
        for source in &mut sources {
            if source.layer == layer {
                *source = Source::new(layer, shown.as_str(), after.clone());
            }
        }
        problems.extend(check_sources(&sources).problems);
        if problems.iter().any(Problem::is_error) {
            match ask(&problems) {
                Answer::EditAgain => continue,
                Answer::Abandon => return Ok(Edited::Abandoned),
            }
        }
        let changed = publish(layer, dir, &before, &after).map_err(|problem| vec![problem])?;
        return Ok(if changed.is_empty() {
            Edited::Unchanged
        } else {
            Edited::Published(changed)
        });
    }
}

/// Writes what differs between `before` and `after` into the directory, and names it.
///
/// All of it takes effect in one step (where the system cannot exchange directories, each file
/// does). Nothing is written if the directory does not hold `before`.
///
/// # Errors
/// If the files changed in the meantime, somebody else is publishing, or a file cannot be written.
pub fn publish(
    layer: Layer,
    dir: &Path,
    before: &Files,
    after: &Files,
) -> Result<Vec<String>, Problem> {
    let unwritable = |error: io::Error| unwritable(layer, dir, &error);
    disk::create_dir(dir, 0o755).map_err(unwritable)?;
    let _lock = lock(layer, dir)?;
    let mut problems = Vec::new();
    let now = read_directory(layer, dir, &mut problems);
    if let Some(problem) = problems.into_iter().find(Problem::is_error) {
        return Err(problem);
    }
    if now.as_ref().map(files_of).unwrap_or_default() != *before {
        return Err(changed(layer, dir, "the policies changed in the meantime"));
    }
    let written = after
        .iter()
        .filter(|(name, text)| before.get(*name) != Some(*text))
        .map(|(name, _)| name);
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    let names: Vec<String> = written.chain(removed).cloned().collect();
    let put = |into: &Path| -> io::Result<()> {
        for name in &names {
            let path = into.join(name);
            match after.get(name) {
                Some(text) => {
                    if let Some(below) = path.parent().filter(|below| *below != into) {
                        disk::create_dir(below, 0o755)?;
                    }
                    disk::replace(&path, text.as_bytes(), disk::mode(&path).unwrap_or(0o644))?;
                }
                None => fs::remove_file(path)?,
            }
        }
        Ok(())
    };
    // Several files are one change: a hook sees all of it or nothing.
    if names.len() > 1 && disk::exchange(dir, &put).map_err(unwritable)? {
        return Ok(names);
    }
    put(dir).map_err(unwritable)?;
    Ok(names)
}

/// Replaces one file by a text that means the same, in one step and with its mode.
///
/// # Errors
/// If the file does not hold `before` any more, or cannot be written.
pub fn rewrite(path: &Path, before: &str, after: &str) -> Result<(), Problem> {
    let unwritable = |error: io::Error| unwritable(Layer::User, path, &error);
    // What a link leads to is changed, not the link.
    let file = path.canonicalize().map_err(unwritable)?;
    if fs::read(&file).map_err(unwritable)? != before.as_bytes() {
        let text = "the file changed in the meantime";
        return Err(changed(Layer::User, path, text));
    }
    let mode = disk::mode(&file).unwrap_or(0o644);
    disk::replace(&file, after.as_bytes(), mode).map_err(unwritable)
}

/// Takes the lock of whoever changes the policies in a directory that is there.
pub(super) fn lock(layer: Layer, dir: &Path) -> Result<File, Problem> {
    let lock = File::create(dir.join(LOCK)).map_err(|error| unwritable(layer, dir, &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(changed(
            layer,
            dir,
            "somebody else is changing the policies",
        )),
        Err(TryLockError::Error(error)) => Err(unwritable(layer, dir, &error)),
    }
}

/// Held while files are replaced. It stays: removing it would let two holders in.
const LOCK: &str = ".lock";

/// A copy beside the policies, where whatever guards them guards it too.
struct Draft {
    dir: tempfile::TempDir,
}

impl Draft {
    fn new(original: &Path, files: &Files) -> io::Result<Self> {
        let beside = original.parent().unwrap_or(original);
        let dir = tempfile::Builder::new()
            .prefix(".edit-")
            .tempdir_in(beside)?;
        for (name, text) in files {
            let path = dir.path().join(name);
            if let Some(below) = path.parent() {
                fs::create_dir_all(below)?;
            }
            fs::write(path, text)?;
        }
        Ok(Self { dir })
    }

    fn run(&self, editor: &str) -> Result<(), String> {
        let words = shlex::split(editor).unwrap_or_default();
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| "there is no editor: set VISUAL or EDITOR".to_owned())?;
        let status = Command::new(program)
            .args(arguments)
            .args(self.paths().map_err(|error| error.to_string())?)
            .status()
            .map_err(|error| format!("the editor `{program}` cannot be run: {error}"))?;
        if !status.success() {
            return Err(format!("the editor `{program}` failed: {status}"));
        }
        Ok(())
    }

    fn paths(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        let mut directories = vec![self.dir.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with('.') {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    directories.push(entry.path());
                } else {
                    paths.push(entry.path());
                }
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn read(&self, layer: Layer, problems: &mut Vec<Problem>) -> Files {
        // Nobody else can enter the copy, so the modes that an editor gives do not matter.
        read_trusting(layer, self.dir.path(), Trust::Anyone, problems)
            .as_ref()
            .map(files_of)
            .unwrap_or_default()
    }
}

fn files_of(source: &Source) -> Files {
    source
        .files
        .iter()
        .map(|file| (file.name.clone(), file.text.clone()))
        .collect()
}

fn nowhere(layer: Layer) -> Problem {
    Problem::error(
        Code::MissingPolicies,
        format!("there is no directory of the layer `{layer}` to edit"),
    )
    .help("run `copilot-bridge init` to write the default policies")
}

fn changed(layer: Layer, dir: &Path, text: &str) -> Problem {
    Problem::error(Code::Changed, text)
        .of(&SourceFile::unread(layer, dir))
        .help("nothing was written: look at the files and edit again")
}

pub(super) fn unwritable(layer: Layer, dir: &Path, error: &io::Error) -> Problem {
    Problem::error(Code::Unwritable, format!("cannot be written: {error}"))
        .of(&SourceFile::unread(layer, dir))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::layer::Base;

    const GOOD: &str = "@id(\"a\") @reason(\"b\") permit(principal, action, resource);\n";

    fn files(entries: &[(&str, &str)]) -> Files {
        entries
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn place() -> (tempfile::TempDir, PathBuf, Locations) {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("policies");
        let none = Files::new();
        publish(Layer::User, &dir, &none, &files(&[("a.cedar", GOOD)])).unwrap();
        let locations = Locations {
            base: Base::Configured(dir.clone()),
            ..Locations::default()
        };
        (home, dir, locations)
    }

    #[test]
    fn only_what_differs_is_written() {
        let (_home, dir, _) = place();
        let before = files(&[("a.cedar", GOOD)]);
        let after = files(&[("a.cedar", GOOD), ("b.cedar", "// empty\n")]);
        let publish = |before, after| publish(Layer::User, &dir, before, after);
        assert_eq!(publish(&before, &after).unwrap(), ["b.cedar"]);
        assert_eq!(publish(&after, &before).unwrap(), ["b.cedar"]);
        assert!(!dir.join("b.cedar").exists());
        assert_eq!(publish(&before, &before).unwrap(), [""; 0]);
    }

    #[test]
    fn what_changed_meanwhile_is_kept() {
        let (_home, dir, _) = place();
        let before = files(&[("a.cedar", "something else")]);
        let problem = publish(Layer::User, &dir, &before, &Files::new()).unwrap_err();
        assert_eq!(problem.code, Code::Changed);
        assert_eq!(fs::read_to_string(dir.join("a.cedar")).unwrap(), GOOD);
    }

    #[test]
    fn one_publisher_at_a_time() {
        let (_home, dir, _) = place();
        let lock = File::create(dir.join(LOCK)).unwrap();
        lock.lock().unwrap();
        let before = files(&[("a.cedar", GOOD)]);
        let problem = publish(Layer::User, &dir, &before, &Files::new()).unwrap_err();
        assert_eq!(problem.code, Code::Changed);
    }

    #[test]
    fn a_broken_copy_is_not_published() {
        let (_home, dir, locations) = place();
        let mut asked = Vec::new();
        let edited = edit(
            &locations,
            Layer::User,
            "sed -i s/permit/permitt/",
            &mut |p| {
                asked.extend(p.iter().map(Problem::one_line));
                Answer::Abandon
            },
        );
        assert_eq!(edited.unwrap(), Edited::Abandoned);
        let start = format!("{}/a.cedar:1:", dir.display());
        assert!(asked[0].starts_with(&start), "{asked:?}");
        assert_eq!(fs::read_to_string(dir.join("a.cedar")).unwrap(), GOOD);
    }

    #[test]
    fn a_second_try_can_succeed() {
        let (home, dir, locations) = place();
        let script = home.path().join("editor");
        fs::write(
            &script,
            "if grep -q permitt \"$1\"; then sed -i s/permitt/permit/ \"$1\"; echo '// ok' >>\"$1\"; \
             else sed -i s/permit/permitt/ \"$1\"; fi",
        )
        .unwrap();
        let editor = format!("sh {}", script.display());
        let edited = edit(&locations, Layer::User, &editor, &mut |_| Answer::EditAgain);
        let expected = Edited::Published(vec!["a.cedar".to_owned()]);
        assert_eq!(edited.unwrap(), expected);
        let text = fs::read_to_string(dir.join("a.cedar")).unwrap();
        assert_eq!(text, format!("{GOOD}// ok\n"));
        assert_eq!(
            fs::read_dir(home.path()).unwrap().count(),
            2,
            "no draft stays"
        );
    }

    #[test]
    fn an_editor_that_fails_changes_nothing() {
        let (_home, _dir, locations) = place();
        for editor in ["false", "", "no-such-program-at-all"] {
            let edited = edit(&locations, Layer::User, editor, &mut |_| Answer::Abandon);
            assert!(edited.is_err(), "{editor}");
        }
        let edited = edit(&locations, Layer::User, "true", &mut |_| Answer::Abandon);
        assert_eq!(edited.unwrap(), Edited::Unchanged);
    }

    /// A policy and the one that limits it are written together: nobody sees one without the other.
    #[cfg(target_os = "linux")]
    #[test]
    fn several_files_take_effect_in_one_step() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("policies");
        let versions = [
            files(&[("a.cedar", "one"), ("b.cedar", "one")]),
            files(&[("a.cedar", "two"), ("b.cedar", "two")]),
        ];
        publish(Layer::User, &dir, &Files::new(), &versions[0]).unwrap();
        fs::create_dir(dir.join("tests")).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let seen = read_directory(Layer::User, &dir, &mut Vec::new());
                    let texts = seen.map(|source| files_of(&source)).unwrap_or_default();
                    let mut texts = texts.into_values();
                    if let (Some(a), Some(b)) = (texts.next(), texts.next()) {
                        assert_eq!(a, b);
                    }
                }
            });
            for round in 0..40 {
                let (before, after) = (&versions[round % 2], &versions[(round + 1) % 2]);
                publish(Layer::User, &dir, before, after).unwrap();
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert!(dir.join("tests").is_dir());
        assert_eq!(
            fs::read_dir(home.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }
}
