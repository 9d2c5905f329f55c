//! What stands in a scene: files, folders and links of a made-up workspace and home.

use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

/// Something that stands in a workspace or a home.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prop {
    /// Where: below the workspace, or `~/…` below the home.
    pub path: String,
    /// What it is.
    pub what: What,
}

/// What stands somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// A file with that text.
    File(String),
    /// An empty folder.
    Folder,
    /// A symbolic link, which may lead anywhere.
    Link(String),
    /// Another name of a file that stands here too.
    HardLink(String),
}

impl Prop {
    /// Puts it where it belongs, and makes the folders above it. Nothing outside `root` is touched,
    /// whatever links stand there already.
    ///
    /// # Errors
    /// If it would be outside, or cannot be made.
    pub(super) fn put(&self, root: &Path, workspace: &Path, home: &Path) -> io::Result<()> {
        let at = inside(&self.path, workspace, home)?;
        let parent = at.parent().ok_or_else(outside)?;
        make_folder(root, parent)?;
        match &self.what {
            What::File(text) => {
                // Never through a link, and never over something else.
                let mut file = fs::File::create_new(&at)?;
                file.write_all(text.as_bytes())
            }
            What::Folder => make_folder(root, &at),
            What::Link(target) => {
                let target = match target.strip_prefix("~/") {
                    Some(rest) => home.join(rest),
                    None => PathBuf::from(target),
                };
                link(&target, &at)
            }
            What::HardLink(other) => {
                let other = inside(other, workspace, home)?.canonicalize()?;
                if !other.starts_with(root) {
                    return Err(outside());
                }
                fs::hard_link(other, at)
            }
        }
    }
}

/// Where a path of a scene is: below the workspace or the home, without any `..`.
fn inside(path: &str, workspace: &Path, home: &Path) -> io::Result<PathBuf> {
    let (base, rest) = match path.strip_prefix("~/") {
        Some(rest) => (home, rest),
        None => (workspace, path),
    };
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if rest.is_empty() || !Path::new(rest).components().all(plain) {
        return Err(outside());
    }
    Ok(base.join(rest))
}

/// Makes a folder and those above it, none of them behind a link that leads out.
fn make_folder(root: &Path, folder: &Path) -> io::Result<()> {
    let mut there = folder;
    while there.symlink_metadata().is_err() {
        there = there.parent().ok_or_else(outside)?;
    }
    if !there.canonicalize()?.starts_with(root) {
        return Err(outside());
    }
    fs::create_dir_all(folder)
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("links cannot be made on this system"))
}

fn outside() -> io::Error {
    io::Error::other("it would not be in the made-up workspace or home")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prop(path: &str, what: What) -> Prop {
        let path = path.to_owned();
        Prop { path, what }
    }

    #[test]
    #[cfg(unix)]
    fn nothing_outside_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let all = dir.path().canonicalize().unwrap();
        let [root, elsewhere] = ["root", "elsewhere"].map(|name| all.join(name));
        let [workspace, home] = ["workspace", "home"].map(|name| root.join(name));
        for dir in [&workspace, &home, &elsewhere] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(elsewhere.join("secret"), "s").unwrap();
        let put = |path: &str, what: What| prop(path, what).put(&root, &workspace, &home);
        let file = || What::File("x".to_owned());
        put("a/b.txt", file()).unwrap();
        put("~/c/d.txt", file()).unwrap();
        put("e", What::Folder).unwrap();
        put("f", What::HardLink("a/b.txt".to_owned())).unwrap();
        put("out", What::Link("../../elsewhere".to_owned())).unwrap();
        assert_eq!(fs::read_to_string(workspace.join("f")).unwrap(), "x");
        assert!(home.join("c/d.txt").is_file() && workspace.join("e").is_dir());

        for path in [
            "../x",
            "/tmp/x",
            "",
            "~/../x",
            "a/../../x",
            "out/x",
            "out/y/z",
        ] {
            assert!(put(path, file()).is_err(), "{path}");
            assert!(put(path, What::Folder).is_err() || path == "out", "{path}");
        }
        assert!(put("g", What::HardLink("out/secret".to_owned())).is_err());
        put("h", What::Link("../../elsewhere/new".to_owned())).unwrap();
        assert!(put("h", file()).is_err(), "not through a link");
        let left = fs::read_dir(&elsewhere).unwrap().count();
        assert_eq!(left, 1);
    }
}
