use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::*;
use crate::engine::containment::PathPattern;

/// A tree in memory: folders end in `/`, links say where they lead.
struct Fake(BTreeMap<PathBuf, (Kind, PathBuf)>);

impl Fake {
    fn new(entries: &[&str]) -> Self {
        let mut tree = BTreeMap::new();
        for entry in entries {
            let (path, target) = entry.split_once(" -> ").unwrap_or((entry, ""));
            let kind = match (target, path.ends_with('/')) {
                ("", true) => Kind::Folder,
                ("", false) => Kind::File,
                _ => Kind::Link,
            };
            let path = PathBuf::from(path.trim_end_matches('/'));
            for above in path.ancestors().skip(1) {
                tree.entry(above.to_path_buf())
                    .or_insert((Kind::Folder, PathBuf::new()));
            }
            tree.insert(path, (kind, PathBuf::from(target)));
        }
        Self(tree)
    }
}

impl Tree for Fake {
    fn kind(&self, path: &Path) -> Option<Kind> {
        self.0.get(path).map(|(kind, _)| *kind)
    }

    fn list(&self, dir: &Path) -> Option<Vec<(OsString, Kind)>> {
        if dir.ends_with("unreadable") {
            return None;
        }
        let inside = self.0.iter().filter(|(path, _)| path.parent() == Some(dir));
        Some(
            inside
                .map(|(path, (kind, _))| (path.file_name().unwrap().to_owned(), *kind))
                .collect(),
        )
    }

    fn target(&self, path: &Path) -> PathBuf {
        for above in path.ancestors() {
            if let Some((Kind::Link, target)) = self.0.get(above) {
                let rest = path.strip_prefix(above).unwrap();
                let target = if rest.as_os_str().is_empty() {
                    target.clone()
                } else {
                    target.join(rest)
                };
                return self.target(&target);
            }
        }
        path.to_path_buf()
    }
}

fn containment() -> Containment {
    let label = |name: &str, paths: &[&str]| PathLabel {
        name: name.into(),
        as_written: matches!(name, "guard" | "credentials"),
        paths: paths
            .iter()
            .map(|path| PathPattern::new(path).unwrap())
            .collect(),
    };
    Containment {
        labels: vec![
            label(
                "guard",
                &[
                    "${workspace}/.bridge",
                    "~/.config/bridge",
                    "**/.claude/settings*.json",
                ],
            ),
            label("credentials", &["**/.ssh", "~/.cargo/credentials*"]),
            label("system", &["/usr", "/bin", "/opt/*/bin"]),
            label("toolchain", &["~/.cargo", "~/go"]),
            label("temp", &["${temp}"]),
            label("sink", &["/dev/null", "/dev/stdout"]),
        ],
        ..Containment::default()
    }
}

fn planned(root: &str, cwd: &str, entries: &[&str]) -> Plan {
    let places = Places {
        home: Some("/home/dev".into()),
        workspace: Some(root.into()),
        temp: vec!["/tmp/agent-1".into()],
        ..Places::default()
    };
    let workspace = Workspace {
        cwd: cwd.into(),
        root: Some(root.into()),
    };
    plan(&containment(), &places, &workspace, &Fake::new(entries)).unwrap()
}

/// The grants in one line each.
fn grants(entries: &[&str]) -> Vec<String> {
    planned("/ws", "/ws", entries)
        .grants
        .iter()
        .map(|(path, access)| format!("{access} {}", path.display()))
        .collect()
}

#[test]
fn nothing_new_comes_to_stand_beside_what_is_guarded() {
    assert_eq!(
        grants(&["/ws/src/a.rs", "/ws/README.md", "/ws/.git/"]),
        [
            "read /ws",
            "write /ws/.git",
            "write /ws/README.md",
            "write /ws/src"
        ]
    );
    // Folders on the way to something guarded are opened in the same way.
    assert_eq!(
        grants(&[
            "/ws/.bridge/a.toml",
            "/ws/.claude/settings.json",
            "/ws/.claude/x/"
        ]),
        ["read /ws", "write /ws/.claude/x"]
    );
}

#[test]
fn what_is_guarded_deeper_is_found() {
    assert_eq!(
        grants(&[
            "/ws/a/b/.claude/settings.json",
            "/ws/a/b/c/",
            "/ws/a/d/",
            "/ws/e/.claude/"
        ]),
        [
            "read /ws",
            "write /ws/a/b/c",
            "write /ws/a/d",
            "write /ws/e"
        ]
    );
    // Whatever the case: some file systems take both for the same.
    assert_eq!(
        grants(&["/ws/.CLAUDE/x/", "/ws/.Claude.d/"]),
        ["read /ws", "write /ws/.CLAUDE/x", "write /ws/.Claude.d"]
    );
    let below: Vec<_> = planned("/ws", "/ws/a", &["/ws/a/b/", "/ws/c/"])
        .grants
        .into_keys()
        .collect();
    assert_eq!(
        below,
        ["/ws", "/ws/a/b", "/ws/c"].map(PathBuf::from),
        "a host may look where it works"
    );
}

#[test]
fn credentials_are_not_read() {
    assert_eq!(
        grants(&["/ws/a/.ssh/key", "/ws/a/b/", "/ws/a/c", "/ws/d/"]),
        ["list /ws", "write /ws/a/b", "write /ws/a/c", "write /ws/d"]
    );
    assert_eq!(
        grants(&[
            "/home/dev/.cargo/credentials.toml",
            "/home/dev/.cargo/bin/",
            "/ws/"
        ]),
        [
            "list /home/dev/.cargo",
            "read /home/dev/.cargo/bin",
            "read /ws"
        ]
    );
    // Without any, nothing is opened.
    assert_eq!(
        grants(&["/home/dev/.cargo/bin/", "/ws/"]),
        ["read /home/dev/.cargo", "read /ws"]
    );
}

#[test]
fn a_toolchain_around_the_workspace_opens_nothing_in_it() {
    let root = "/home/dev/go/ws";
    let plan = planned(
        root,
        root,
        &["/home/dev/go/ws/a/.ssh/key", "/home/dev/go/ws/a/b/"],
    );
    assert_eq!(
        plan.grants.into_iter().collect::<Vec<_>>(),
        [
            (PathBuf::from("/home/dev/go"), Access::List),
            (PathBuf::from("/home/dev/go/ws/a/b"), Access::Write),
        ]
    );
}

#[test]
fn a_guarded_link_guards_what_it_leads_to() {
    assert_eq!(
        grants(&[
            "/ws/.claude -> /ws/conf",
            "/ws/conf/settings.json",
            "/ws/conf/x/",
            "/ws/a/"
        ]),
        ["read /ws", "write /ws/a", "write /ws/conf/x"]
    );
    assert_eq!(
        grants(&[
            "/ws/a/.claude/settings.json -> /ws/b/made-later",
            "/ws/b/c/",
            "/ws/d/"
        ]),
        ["read /ws", "write /ws/b/c", "write /ws/d"]
    );
    // A link from a home into the workspace.
    assert_eq!(
        grants(&[
            "/home/dev/.config -> /ws/dot",
            "/ws/dot/bridge/x",
            "/ws/dot/y/"
        ]),
        ["read /ws", "write /ws/dot/y"]
    );
}

#[test]
fn links_take_no_grant_along() {
    let entries = [
        "/ws/out -> /etc",
        "/etc/passwd",
        "/bin -> /usr/bin",
        "/usr/bin/sh",
    ];
    assert_eq!(grants(&entries), ["read /usr", "read /ws"]);
    let entries = [
        "/ws/",
        "/bin -> /srv/bin",
        "/srv/bin/sh",
        "/dev/stdout -> /dev/pts/0",
    ];
    let plan = planned("/ws", "/ws", &entries);
    assert_eq!(plan.grants.len(), 1);
    let left_out: Vec<_> = plan.left_out.iter().map(|(one, _)| one.as_str()).collect();
    assert_eq!(left_out, ["/dev/stdout", "/bin", "/opt/*/bin"]);
}

#[test]
fn what_cannot_be_seen_is_not_granted() {
    assert_eq!(
        grants(&[
            "/ws/a/unreadable/",
            "/ws/a/b/",
            "/tmp/agent-1/",
            "/tmp/agent-2/"
        ]),
        ["write /tmp/agent-1", "list /ws", "write /ws/a/b"]
    );
}

#[test]
fn a_workspace_that_is_guarded_itself_is_only_read() {
    let root = "/home/dev/.config/bridge";
    let plan = planned(root, root, &["/home/dev/.config/bridge/a.toml"]);
    assert_eq!(
        plan.grants.into_values().collect::<Vec<_>>(),
        [Access::Read]
    );
}

#[test]
fn without_a_workspace_there_is_no_plan() {
    let workspace = Workspace {
        cwd: "/".into(),
        root: None,
    };
    let tree = Fake::new(&["/ws/"]);
    let error = plan(&containment(), &Places::default(), &workspace, &tree).unwrap_err();
    assert_eq!(error.message, "`/` is in no workspace");
}
