//! Where a path leads, walked as the kernel walks it: component by component, `..` after the link.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::engine::containment::HARD_LINK;

/// How many links the kernel follows before it gives up (Linux: `MAXSYMLINKS`).
const LINK_LIMIT: usize = 40;

/// Where a path leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Absolute, every link followed. Equal to `written` where it could not be resolved.
    pub target: PathBuf,
    /// Absolute, with `.` and `..` taken out by text alone.
    pub written: PathBuf,
    /// Whether something is there.
    pub exists: bool,
    /// Whether a link was followed on the way.
    pub link: bool,
    /// What is there besides a plain file or a folder: `hard_link`, `fifo`, `device`, `socket`.
    pub kind: Option<&'static str>,
    /// Why it could not be resolved, or `None`.
    pub fault: Option<String>,
}

/// The working directory of a call, and the root that its paths are measured against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The working directory, resolved.
    pub cwd: PathBuf,
    /// The root, resolved. `None`: nothing is inside.
    pub root: Option<PathBuf>,
}

impl Workspace {
    /// The workspace of a working directory: the configured root, else the git root above, else
    /// the directory itself; but never `/`, a home, or a folder above one of `kept_out`.
    ///
    /// # Errors
    /// If the directory is relative, gone or no directory, in words.
    pub fn find(
        cwd: &str,
        configured: Option<&str>,
        home: Option<&Path>,
        kept_out: &[PathBuf],
    ) -> Result<Self, String> {
        let given = Path::new(cwd);
        if !given.is_absolute() {
            return Err(format!("the working directory `{cwd}` is not absolute"));
        }
        let resolved = given.canonicalize().map_err(|error| {
            format!(
                "the working directory `{cwd}` cannot be used: {}",
                words(&error)
            )
        })?;
        if !resolved.is_dir() {
            return Err(format!("the working directory `{cwd}` is no directory"));
        }
        if let Some(root) = configured {
            let root = Path::new(root).canonicalize().ok();
            return Ok(Self {
                cwd: resolved,
                root,
            });
        }
        let too_wide = |root: &Path| {
            root.parent().is_none()
                || home.is_some_and(|home| home.starts_with(root))
                || kept_out.iter().any(|inner| inner.starts_with(root))
        };
        let git_root = resolved
            .ancestors()
            .find(|dir| dir.join(".git").symlink_metadata().is_ok());
        let root = [git_root, Some(resolved.as_path())]
            .into_iter()
            .flatten()
            .find(|root| !too_wide(root))
            .map(Path::to_path_buf);
        Ok(Self {
            cwd: resolved,
            root,
        })
    }

    /// Whether a resolved path is the root or below it.
    #[must_use]
    pub fn contains(&self, target: &Path) -> bool {
        self.root
            .as_ref()
            .is_some_and(|root| target.starts_with(root))
    }

    /// Where a path that an agent wrote leads from here.
    #[must_use]
    pub fn resolve(&self, given: &str, home: Option<&Path>) -> Resolved {
        resolve(given, &self.cwd, home)
    }
}

/// Where `given` leads from the resolved directory `cwd`.
#[must_use]
pub fn resolve(given: &str, cwd: &Path, home: Option<&Path>) -> Resolved {
    let faulty = |fault: &str| Resolved {
        target: cwd.join(given),
        written: lexical(&cwd.join(given)),
        fault: Some(fault.to_owned()),
        ..Resolved::default()
    };
    if given.contains('\0') {
        return faulty("it holds a NUL byte");
    }
    if given
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
    {
        return faulty("it is an address, not a path");
    }
    let absolute = match expand_home(given, home) {
        Ok(expanded) => cwd.join(expanded),
        Err(fault) => return faulty(fault),
    };
    if given.starts_with('~') && (given.contains("..") || cwd.join("~").symlink_metadata().is_ok())
    {
        // A shell means the home, the kernel a folder of that name.
        return faulty("`~` may be the home or a folder of that name");
    }
    let written = lexical(&absolute);
    let mut resolved = walk(&absolute, written.clone());
    if resolved.fault.is_none() && given.contains("..") {
        // Some programs take `..` out by text before they ask the kernel.
        let by_text = walk(&written, written.clone());
        if by_text.target != resolved.target {
            resolved.fault = Some("`..` behind a link leads to two places".to_owned());
        }
    }
    resolved
}

fn expand_home(given: &str, home: Option<&Path>) -> Result<PathBuf, &'static str> {
    let Some(rest) = given.strip_prefix('~') else {
        return Ok(PathBuf::from(given));
    };
    match (rest.is_empty() || rest.starts_with('/'), home) {
        (true, Some(home)) => Ok(home.join(rest.trim_start_matches('/'))),
        (true, None) => Err("there is no home that `~` could mean"),
        // `~name` is another user's home to a shell, and a file of that name to everyone else.
        (false, _) => Err("`~` before a name means another user's home"),
    }
}

/// `.` and `..` taken out by text alone.
#[must_use]
pub fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

fn walk(absolute: &Path, written: PathBuf) -> Resolved {
    let mut rest: VecDeque<OsString> = components(absolute);
    let mut target = PathBuf::from(root_of(absolute));
    let (mut links, mut missing, mut kind) = (0, false, None);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            if missing {
                // Whoever makes the missing folder first arrives elsewhere than who does not.
                return Resolved {
                    fault: Some("`..` stands behind something that is not there".to_owned()),
                    target: written.clone(),
                    written,
                    exists: false,
                    link: links > 0,
                    kind: None,
                };
            }
            target.pop();
            continue;
        }
        target.push(&name);
        if is_magic(&target) {
            return Resolved {
                fault: Some("it leads through a process, to wherever that stands".to_owned()),
                target: written.clone(),
                written,
                exists: false,
                link: true,
                kind: None,
            };
        }
        if missing {
            continue;
        }
        let metadata = match target.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => {
                missing = true;
                continue;
            }
            Err(error) => {
                return Resolved {
                    fault: Some(words(&error)),
                    target: written.clone(),
                    written,
                    exists: false,
                    link: links > 0,
                    kind: None,
                };
            }
        };
        // What these lead to is the reader's own, and no file.
        if !metadata.is_symlink() || STREAMS.iter().any(|stream| target == Path::new(stream)) {
            kind = kind_of(&metadata);
            continue;
        }
        links += 1;
        let aim = target.read_link();
        let (Ok(aim), true) = (aim, links <= LINK_LIMIT) else {
            return Resolved {
                fault: Some("its links lead in a circle".to_owned()),
                target: written.clone(),
                written,
                exists: false,
                link: true,
                kind: None,
            };
        };
        target.pop();
        if aim.is_absolute() {
            target = PathBuf::from(root_of(&aim));
        }
        for component in components(&aim).into_iter().rev() {
            rest.push_front(component);
        }
    }
    Resolved {
        target,
        written,
        exists: !missing,
        link: links > 0,
        kind: kind.filter(|_| !missing),
        fault: None,
    }
}

/// The standard streams, whose links are not followed.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// Whether the kernel jumps from here to where a process stands or what it has open. Ours is not
/// the process that will use the path.
fn is_magic(target: &Path) -> bool {
    let Ok(rest) = target.strip_prefix("/proc") else {
        return false;
    };
    let names: Vec<&str> = rest.iter().filter_map(|name| name.to_str()).collect();
    let names = match names.as_slice() {
        [_, "task", _, names @ ..] | [_, names @ ..] => names,
        [] => return false,
    };
    matches!(
        names,
        ["cwd" | "exe" | "root"] | ["fd" | "map_files" | "ns", _]
    )
}

/// What is there besides a plain file or a folder.
#[cfg(unix)]
fn kind_of(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let kind = metadata.file_type();
    if kind.is_file() {
        (metadata.nlink() > 1).then_some(HARD_LINK)
    } else if kind.is_fifo() {
        Some("fifo")
    } else if kind.is_block_device() || kind.is_char_device() {
        Some("device")
    } else {
        kind.is_socket().then_some("socket")
    }
}

#[cfg(not(unix))]
fn kind_of(_: &Metadata) -> Option<&'static str> {
    None
}

/// The components without root and `.`, with `..` kept.
fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn root_of(path: &Path) -> OsString {
    let root: PathBuf = path
        .components()
        .take_while(|component| matches!(component, Component::Prefix(_) | Component::RootDir))
        .collect();
    root.into_os_string()
}

/// Nothing is there, or something above it is no directory: both can be created, neither followed.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// An operating system's error without its number.
#[must_use]
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(characters).collect()
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("ws/src")).unwrap();
        fs::create_dir_all(root.join("out/dir")).unwrap();
        fs::write(root.join("ws/a"), "x").unwrap();
        symlink("../out", root.join("ws/lnk")).unwrap();
        symlink("../out/gone", root.join("ws/dangling")).unwrap();
        symlink("loop", root.join("ws/loop")).unwrap();
        symlink("src", root.join("ws/in")).unwrap();
        (dir, root)
    }

    #[test]
    fn a_path_leads_where_the_kernel_goes() {
        let (_keep, root) = tree();
        let ws = root.join("ws");
        let to = |given: &str| resolve(given, &ws, Some(Path::new("/home/dev"))).target;
        assert_eq!(to("a"), ws.join("a"));
        assert_eq!(to(""), ws);
        assert_eq!(to("./src/../a"), ws.join("a"));
        assert_eq!(to("lnk/new.txt"), root.join("out/new.txt"));
        assert_eq!(to("dangling"), root.join("out/gone"));
        assert_eq!(to("in/x/y"), ws.join("src/x/y"));
        assert_eq!(to("../out"), root.join("out"));
        assert_eq!(to("~/x"), Path::new("/home/dev/x"));
        assert_eq!(to("a/b"), ws.join("a/b"));
    }

    #[test]
    fn what_leads_nowhere_certain_is_a_fault() {
        let (_keep, root) = tree();
        let ws = root.join("ws");
        for given in [
            "loop",
            "loop/x",
            "lnk/../a",
            "~root/x",
            "file:///etc/passwd",
            "a\0b",
        ] {
            assert!(resolve(given, &ws, None).fault.is_some(), "{given}");
        }
        assert!(resolve("in/../a", &ws, None).fault.is_none());
    }

    #[test]
    fn a_link_of_a_process_is_a_fault() {
        let (_keep, root) = tree();
        let ws = root.join("ws");
        symlink("/proc/self/root", ws.join("pr")).unwrap();
        for given in [
            "/proc/self/cwd/a",
            "/proc/self/root",
            "/proc/1/root/etc/passwd",
            "/proc/self/task/1/cwd/a",
            "/proc/self/fd/77",
            "/dev/fd/0",
            "pr/etc/passwd",
        ] {
            assert!(resolve(given, &ws, None).fault.is_some(), "{given}");
        }
        for given in ["/proc/cpuinfo", "/proc/self/status", "/proc", "/dev/stdout"] {
            assert_eq!(resolve(given, &ws, None).fault, None, "{given}");
        }
        let target = resolve("/dev/stdout", &ws, None).target;
        assert_eq!(target, Path::new("/dev/stdout"));
    }

    #[test]
    fn what_is_no_plain_file_says_so() {
        let (_keep, root) = tree();
        let ws = root.join("ws");
        let kind = |given: &str| resolve(given, &ws, None).kind;
        assert_eq!(kind("a"), None);
        fs::hard_link(ws.join("a"), ws.join("b")).unwrap();
        assert_eq!(kind("a"), Some("hard_link"));
        assert_eq!(kind("a/b"), None);
        assert_eq!(kind("src"), None);
        assert_eq!(kind("/dev/null"), Some("device"));
        nix::unistd::mkfifo(&ws.join("f"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(kind("f"), Some("fifo"));
    }

    #[test]
    fn a_workspace_is_never_too_wide() {
        let (_keep, root) = tree();
        let ws = root.join("ws");
        let find = |cwd: &Path, home: &Path, kept_out: &[PathBuf]| {
            Workspace::find(cwd.to_str().unwrap(), None, Some(home), kept_out)
                .unwrap()
                .root
        };
        let nobody = Path::new("/nobody");
        assert_eq!(find(&ws.join("src"), nobody, &[]), Some(ws.join("src")));
        fs::create_dir(ws.join(".git")).unwrap();
        assert_eq!(find(&ws.join("src"), nobody, &[]), Some(ws.clone()));
        assert_eq!(find(&ws.join("src"), &ws, &[]), Some(ws.join("src")));
        assert_eq!(find(&ws, &ws, &[]), None);
        assert_eq!(find(&ws, nobody, &[ws.join("state")]), None);
        assert_eq!(find(Path::new("/"), nobody, &[]), None);
    }

    #[test]
    fn a_working_directory_has_to_be_one() {
        let (_keep, root) = tree();
        for cwd in [
            ".",
            "",
            "/gone/for/good",
            root.join("ws/a").to_str().unwrap(),
            "/\0",
        ] {
            assert!(Workspace::find(cwd, None, None, &[]).is_err(), "{cwd}");
        }
    }
}
