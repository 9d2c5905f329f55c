//! What would be written and removed, shown or done.

use std::io::Write;
use std::path::{Path, PathBuf};

use similar::TextDiff;

use super::manifest::{Entry, Kind, Manifest};
use super::{Scope, SetupError, files};

/// One file as it is, and as it shall be.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) path: PathBuf,
    /// `None`: there is no such file.
    pub(super) before: Option<String>,
    /// `None`: there shall be no such file.
    pub(super) after: Option<String>,
    pub(super) mode: u32,
    /// What the manifest shall say of it afterwards.
    pub(super) entry: Option<Entry>,
}

impl Step {
    fn verb(&self, tense: Tense) -> &'static str {
        match (&self.before, &self.after, tense) {
            (None, Some(_), Tense::Done) => "created",
            (None, Some(_), Tense::Planned) => "would create",
            (Some(_), None, Tense::Done) => "removed",
            (Some(_), None, Tense::Planned) => "would remove",
            (None, None, _) => "already gone:",
            (before, after, _) if before == after => "unchanged",
            (_, _, Tense::Done) => "changed",
            (_, _, Tense::Planned) => "would change",
        }
    }

    /// Says what would happen, without any text of the file.
    pub(super) fn announce(&self, out: &mut dyn Write) -> Result<(), SetupError> {
        writeln!(out, "{} {}", self.verb(Tense::Planned), self.path.display())?;
        Ok(())
    }

    /// Says what would happen, with the difference.
    pub(super) fn show(&self, out: &mut dyn Write) -> Result<(), SetupError> {
        self.show_within(3, out)
    }

    /// Says what would happen, with the difference and so many lines around it.
    pub(super) fn show_within(&self, lines: usize, out: &mut dyn Write) -> Result<(), SetupError> {
        self.announce(out)?;
        let path = self.path.display().to_string();
        if self.before != self.after {
            let name = |text: &Option<String>| match text {
                Some(_) => path.clone(),
                None => "/dev/null".to_owned(),
            };
            let difference = TextDiff::from_lines(
                self.before.as_deref().unwrap_or_default(),
                self.after.as_deref().unwrap_or_default(),
            );
            let names = (name(&self.before), name(&self.after));
            let mut unified = difference.unified_diff();
            let unified = unified.context_radius(lines);
            writeln!(out, "{}", unified.header(&names.0, &names.1))?;
        }
        Ok(())
    }

    /// Does it, and says so.
    pub(super) fn perform(
        self,
        scope: Scope,
        manifest: &mut Manifest,
        out: &mut dyn Write,
    ) -> Result<(), SetupError> {
        let verb = self.verb(Tense::Done);
        if self.before != self.after {
            match &self.after {
                Some(after) => {
                    if let Some(folder) = self.path.parent() {
                        make_folders(folder, self.mode, scope, manifest)?;
                    }
                    files::write(&self.path, after, self.before.as_deref(), self.mode)?;
                }
                None => files::remove(&self.path)?,
            }
        }
        match self.entry {
            Some(entry) => manifest.put(entry),
            None => manifest.forget(&self.path),
        }
        writeln!(out, "{verb} {}", self.path.display())?;
        Ok(())
    }
}

/// Makes the folders that a file of this mode needs, and notes them.
pub(super) fn make_folders(
    folder: &Path,
    mode: u32,
    scope: Scope,
    manifest: &mut Manifest,
) -> Result<(), SetupError> {
    for made in files::make_folders(folder, files::folder_mode(mode))? {
        manifest.put(Entry::new(&made, Kind::Folder, scope, ""));
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Tense {
    Done,
    Planned,
}
