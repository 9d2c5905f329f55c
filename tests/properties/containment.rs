//! Where a path leads, the kernel says as well: `openat2` may not leave the root on the way.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use copilot_bridge::facts::paths::{Resolved, Workspace};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::{Errno, Result};

use super::cases;
use super::paths::{Thing, Tree, thing, written};

/// What the kernel finds when it must stay below `root`.
fn beneath(root: &Path, path: &Path) -> Result<OwnedFd> {
    let dir = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        let found = openat2(&dir, path, OFlags::PATH, Mode::empty(), resolve);
        // Something was renamed somewhere, and the kernel is no longer sure of a `..`.
        if found.as_ref().err() != Some(&Errno::AGAIN) {
            return found;
        }
    }
}

/// How the kernel and our resolution met.
#[derive(Debug, PartialEq, Eq)]
enum Met {
    /// Ours is not allowed to pass.
    Refused,
    /// Nothing is there.
    Nothing,
    /// The kernel came to the same place without a step outside.
    Beneath,
    /// The kernel came to the same place by an absolute link, or by way of outside.
    Around,
}

/// Fails where what we take for inside is something else to the kernel.
fn meet(
    workspace: &Workspace,
    given: &str,
    resolved: &Resolved,
) -> std::result::Result<Met, TestCaseError> {
    let root = workspace.root.as_deref().unwrap();
    if resolved.fault.is_some() || !workspace.contains(&resolved.target) {
        return Ok(Met::Refused);
    }
    let target = &resolved.target;
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    prop_assert!(
        target.starts_with(root) && target.components().all(plain),
        "{:?}",
        target
    );
    // As text: `join` would keep `..`, but not a `.` or `/` at the end.
    let whole = if given.starts_with('/') {
        given.to_owned()
    } else {
        format!("{}/{given}", workspace.cwd.display())
    };
    let real = fs::canonicalize(&whole).ok();
    if let Some(real) = &real {
        prop_assert!(resolved.exists, "`{}` is there", given);
        prop_assert_eq!(real, target, "`{}`", given);
    }
    let below = whole
        .strip_prefix(root.to_str().unwrap())
        .map(|rest| rest.trim_start_matches('/'));
    let Some(below) = below else {
        return Ok(if real.is_some() {
            Met::Around
        } else {
            Met::Nothing
        });
    };
    let below = PathBuf::from(if below.is_empty() { "." } else { below });
    match beneath(root, &below) {
        Ok(found) => {
            let (found, ours) = (fstat(found).unwrap(), target.symlink_metadata().unwrap());
            prop_assert_eq!(
                (found.st_dev, found.st_ino),
                (ours.dev(), ours.ino()),
                "`{}`",
                given
            );
            Ok(Met::Beneath)
        }
        Err(Errno::XDEV) if real.is_some() => Ok(Met::Around),
        // Outside on the way to what is not there, or nothing at all.
        Err(Errno::XDEV | Errno::NOENT | Errno::NOTDIR) => {
            prop_assert!(real.is_none(), "`{}` is {:?}", given, real);
            Ok(Met::Nothing)
        }
        Err(error) => Err(TestCaseError::fail(format!("`{given}`: {error}"))),
    }
}

fn workspace(tree: &Tree, cwd: &str) -> Option<Workspace> {
    let root = tree.workspace();
    let cwd = root.join(cwd).canonicalize().ok()?;
    (cwd.is_dir() && cwd.starts_with(&root)).then_some(Workspace {
        cwd,
        root: Some(root),
    })
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_kernel_reaches_the_same_file(
        things in vec(thing(), 0..8), given in vec(written(), 1..32),
        cwd in select(vec!["", "", "a", "a/b", "c", "b"]),
    ) {
        let tree = Tree::build(&things);
        let home = tree.root.join("home");
        if let Some(workspace) = workspace(&tree, cwd) {
            for given in given {
                let given = tree.fill(&given);
                meet(&workspace, &given, &workspace.resolve(&given, Some(&home)))?;
            }
        }
    }
}

#[test]
fn the_kernel_is_asked_about_every_kind_of_link() {
    let link = |at: &str, to: &str| Thing::Link(format!("ws/{at}"), to.to_owned());
    let tree = Tree::build(&[
        link("relative", "a/b"),
        link("absolute", "@/ws/a"),
        link("outside", "../out"),
        link("dangling", "gone"),
        link("loop", "pool"),
        link("pool", "loop"),
        link("...", "a"),
    ]);
    let workspace = workspace(&tree, "").unwrap();
    for (given, expected) in [
        ("", Met::Beneath),
        ("a/./b/../b", Met::Beneath),
        ("@/ws/a", Met::Beneath),
        (".../b", Met::Beneath),
        ("relative/c", Met::Beneath),
        ("absolute/b", Met::Around),
        ("../ws/a", Met::Around),
        ("@/out/../ws/a", Met::Around),
        ("gone", Met::Nothing),
        ("dangling", Met::Nothing),
        ("outside", Met::Refused),
        ("relative/../x", Met::Refused),
        ("loop", Met::Refused),
        ("@/out", Met::Refused),
    ] {
        let given = tree.fill(given);
        let met = meet(&workspace, &given, &workspace.resolve(&given, None)).unwrap();
        assert_eq!(met, expected, "{given}");
    }
}
