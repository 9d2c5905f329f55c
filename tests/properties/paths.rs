//! What is let through does not leave the workspace, wherever links lead. The kernel is asked.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use copilot_bridge::engine::decision::Effect;
use copilot_bridge::engine::request::Agent;
use copilot_bridge::gate::event::{Body, Capabilities, Event, EventName, ToolCall};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{bundles, cases};

/// Something in the tree; names are relative to its root. A `@` in a text stands for the root.
#[derive(Debug, Clone)]
pub(super) enum Thing {
    Folder(String),
    File(String),
    Link(String, String),
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => select(vec!["a", "b", "c"]), 1 => select(vec!["~", "..x", "a b", "...", ".a", "a.b."])]
}

/// `ws/a/b`, `out/c`, …
fn place() -> impl Strategy<Value = String> {
    let top = select(vec!["ws", "ws", "ws", "out", "ws-evil"]);
    (top, vec(name(), 1..3)).prop_map(|(top, names)| format!("{top}/{}", names.join("/")))
}

/// A path as somebody writes one.
pub(super) fn written() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => name(),
        4 => Just(".."),
        1 => select(vec![".", "", "ws", "out", "ws-evil", "gone"]),
    ];
    let start = prop_oneof![
        12 => Just(""),
        2 => select(vec!["@/ws/", "@/ws/", "@/out/", "@/", "/", "~/", "./", "@/ws//", "~", " ", "file:", "\"", "%2e%2e/", "..\\"]),
    ];
    let end = prop_oneof![6 => Just(""), 1 => select(vec!["/", "/.", "//", "/.."])];
    (start, vec(part, 0..5), end)
        .prop_map(|(start, parts, end)| format!("{start}{}{end}", parts.join("/")))
}

pub(super) fn thing() -> impl Strategy<Value = Thing> {
    prop_oneof![
        2 => place().prop_map(Thing::Folder),
        1 => place().prop_map(Thing::File),
        4 => (place(), written()).prop_map(|(at, to)| Thing::Link(at, to)),
        6 => (name(), select(vec![
            "../out", "@/out", "@/out/a", "@/out/new", "../out/new", "..", "@/ws/b", "b/c", "a/b/c", "@",
        ]))
            .prop_map(|(at, to)| Thing::Link(format!("ws/{at}"), to.to_owned())),
    ]
}

pub(super) struct Tree {
    _keep: tempfile::TempDir,
    pub(super) root: PathBuf,
}

impl Tree {
    pub(super) fn build(things: &[Thing]) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let root = keep.path().canonicalize().unwrap();
        for top in ["ws", "out", "ws-evil", "home"] {
            fs::create_dir(root.join(top)).unwrap();
        }
        let tree = Self { _keep: keep, root };
        // Last come a few folders, so that links have somewhere to lead.
        let folders = ["ws/a/b/c", "ws/b/c", "ws/c/a", "out/a"]
            .map(|folder| Thing::Folder(folder.to_owned()));
        for thing in things.iter().chain(&folders) {
            let (Thing::Folder(at) | Thing::File(at) | Thing::Link(at, _)) = thing;
            let at = tree.root.join(at);
            // What stands there already stays; what its folder is does not matter.
            let _ = fs::create_dir_all(at.parent().unwrap());
            let _ = match thing {
                Thing::Folder(_) => fs::create_dir(&at),
                Thing::File(_) => fs::OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(&at)
                    .map(drop),
                Thing::Link(_, to) => symlink(tree.fill(to), &at),
            };
        }
        tree
    }

    pub(super) fn fill(&self, text: &str) -> String {
        text.replace('@', self.root.to_str().unwrap())
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.root.join("ws")
    }

    /// Everything outside the workspace, with what is in it.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path == self.workspace() {
                    continue;
                }
                let kind = path.symlink_metadata().unwrap().file_type();
                let content = if kind.is_symlink() {
                    fs::read_link(&path)
                        .unwrap()
                        .into_os_string()
                        .into_encoded_bytes()
                } else if kind.is_dir() {
                    open.push(path.clone());
                    Vec::new()
                } else {
                    fs::read(&path).unwrap()
                };
                found.insert(path, content);
            }
        }
        found
    }

    /// What the gate says where reading and writing are permitted inside the workspace only.
    fn judge(&self, tool: &str, args: serde_json::Value) -> Effect {
        self.judge_from(&self.root.join("home"), tool, args)
    }

    fn judge_from(&self, home: &Path, tool: &str, args: serde_json::Value) -> Effect {
        let bundle = bundles::bundle(vec![
            bundles::policy(
                "tools",
                "permit(principal, action, resource is Bridge::Tool);",
            ),
            bundles::policy(
                "commands",
                "permit(principal, action, resource is Bridge::Command);",
            ),
            bundles::policy(
                "inside",
                "permit(principal, action, resource is Bridge::Path) when { resource.inside };",
            ),
        ]);
        let event = Event {
            name: EventName::PreToolUse,
            dialect: "copilot",
            call: None,
            agent: Agent::default(),
            agent_id: None,
            cwd: Some(self.workspace().to_str().unwrap().to_owned()),
            host: Capabilities {
                interactive: "unknown",
                replaces_results: true,
                replaces_prompts: true,
            },
            body: Body::Call(ToolCall {
                name: tool.to_owned(),
                args,
            }),
            served: None,
        };
        let aside = self.root.join("home/.bridge");
        bundles::gate(Ok(bundle), Some(home), &aside)
            .pass(&event, Duration::ZERO)
            .effect()
    }

    /// Where the kernel would put a file of that name, its folders made where they are missing.
    fn reached(&self, path: &Path) -> Option<PathBuf> {
        self.reached_after(path, 0)
    }

    fn reached_after(&self, path: &Path, links: usize) -> Option<PathBuf> {
        if let Ok(found) = path.canonicalize() {
            return Some(found);
        }
        // `a/.` and `a/` are `a` here.
        let parts: Vec<Component<'_>> = path.components().collect();
        let cut = (1..parts.len()).rev().find(|cut| {
            parts[..*cut]
                .iter()
                .collect::<PathBuf>()
                .canonicalize()
                .is_ok()
        })?;
        let base = parts[..cut]
            .iter()
            .collect::<PathBuf>()
            .canonicalize()
            .ok()?;
        // Below what is no folder, and below what is not there, the kernel knows no `..`.
        if parts[cut..].contains(&Component::ParentDir) {
            return None;
        }
        let next = base.join(parts[cut]);
        let rest: PathBuf = parts[cut + 1..].iter().collect();
        if let Ok(aim) = next.read_link() {
            // A link that leads to nothing yet.
            return (links < 40)
                .then(|| self.reached_after(&base.join(aim).join(rest), links + 1))
                .flatten();
        }
        Some(next.join(rest))
    }
}

/// `.` and `..` taken out by text: what many programs do before they ask the kernel.
fn by_text(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn what_is_let_through_stays_inside(
        things in vec(thing(), 0..8), given in vec(written(), 1..24),
        key in select(vec!["path", "file_path", "filePath"]),
    ) {
        let tree = Tree::build(&things);
        let workspace = tree.workspace();
        for given in given {
            let given = tree.fill(&given);
            let plain = workspace.join(&given);
            let tidy = by_text(&plain);
            let read = tree.judge("view", json!({key: given}));
            let write = tree.judge("create", json!({key: given, "file_text": "x"}));
            prop_assert_eq!(read, write, "{}", &given);
            if write != Effect::Allow {
                continue;
            }
            for path in [&plain, &tidy] {
                let reached = tree.reached(path);
                prop_assert!(
                    reached.as_ref().is_none_or(|reached| reached.starts_with(&workspace)),
                    "`{}` reaches {:?}", &given, reached
                );
            }
            // And now in earnest, as a tool would.
            let before = tree.outside();
            for path in [&plain, &tidy] {
                let _ = path.parent().map(fs::create_dir_all);
                let _ = fs::write(path, "written");
            }
            prop_assert_eq!(before, tree.outside(), "`{}` was written outside", &given);
        }
    }

    #[test]
    fn one_of_several_paths_is_enough_to_be_denied(
        things in vec(thing(), 0..6), given in vec(written(), 1..3),
        tool in select(vec!["view", "create", "edit", "move_file", "srv-tool", "grep"]),
    ) {
        let tree = Tree::build(&things);
        let given: Vec<String> = given.iter().map(|given| tree.fill(given)).collect();
        let all = tree.judge(tool, json!({"paths": given}));
        if all == Effect::Allow {
            // Where a path may be left out, an empty one is none.
            for one in given.iter().filter(|one| !one.trim().is_empty()) {
                prop_assert_eq!(tree.judge("create", json!({"path": one})), Effect::Allow, "{}", one);
            }
        }
    }
}

#[test]
fn the_kernel_and_the_gate_agree_on_the_plain_cases() {
    let link = |at: &str, to: &str| Thing::Link(at.to_owned(), to.to_owned());
    let tree = Tree::build(&[
        Thing::Folder("ws/a".to_owned()),
        link("ws/b", "@/out"),
        link("ws/c", "@/out/new"),
        link("out/a", "@/ws/a"),
    ]);
    for (given, inside) in [
        ("a/new", true),
        ("@/out/a/x", true),
        ("gone/deeper/x", true),
        ("b/x", false),
        ("c", false),
        ("c/x", false),
        ("@/ws-evil/x", false),
        ("..", false),
        ("~/x", false),
    ] {
        let given = tree.fill(given);
        let passes = tree.judge("create", json!({"path": given})) == Effect::Allow;
        assert_eq!(passes, inside, "{given}");
        let reached = tree.reached(&tree.workspace().join(&given)).unwrap();
        assert_eq!(
            reached.starts_with(tree.workspace()),
            inside || given.starts_with('~'),
            "{given}"
        );
    }
}

#[test]
fn a_folder_called_like_the_home_is_not_the_home() {
    let tree = Tree::build(&[
        Thing::Folder("ws/~".to_owned()),
        Thing::Link("ws/~/ws".to_owned(), "@/out".to_owned()),
    ]);
    for given in ["~/../ws", "~/ws/x", "~/../ws/x"] {
        let reached = tree.reached(&tree.workspace().join(given)).unwrap();
        let inside = reached.starts_with(tree.workspace());
        for home in ["home", ""] {
            let home = tree.root.join(home);
            let judged = tree.judge_from(&home, "create", json!({"path": given}));
            assert!(
                inside || judged == Effect::Deny,
                "{given} from {}",
                home.display()
            );
        }
    }
}

#[test]
fn nothing_is_made_on_the_way_up_from_what_is_missing() {
    let tree = Tree::build(&[]);
    assert_eq!(
        tree.judge("create", json!({"path": "../gone/../ws/x"})),
        Effect::Deny
    );
}

/// A cap never loosens: neither equal things nor different ones, however many, hide another one.
#[test]
fn nothing_hides_behind_many_others() {
    let tree = Tree::build(&[]);
    let harmless = tree.judge("bash", json!({"command": "cat f1 f2"}));
    assert_eq!(harmless, Effect::Allow, "else this proves nothing");
    let outside = tree.fill("@/out/x");
    for count in [1, 128, 129, 130, 300] {
        for equal in [true, false] {
            let others: Vec<String> = (0..count)
                .map(|index| format!("f{}", if equal { 0 } else { index }))
                .collect();
            let patch: String = others
                .iter()
                .chain([&outside])
                .map(|path| format!("*** Add File: {path}\n+x\n"))
                .collect();
            let patch = format!("*** Begin Patch\n{patch}*** End Patch\n");
            let words = others.join(" ");
            for (tool, args) in [
                ("view", json!({"paths": [others, [&outside]]})),
                (
                    "srv-tool",
                    json!({"a": others, "paths": [others, [&outside]]}),
                ),
                ("apply_patch", json!({"input": patch})),
                ("bash", json!({"command": format!("cat {words} {outside}")})),
            ] {
                let effect = tree.judge(tool, args);
                assert_eq!(
                    effect,
                    Effect::Deny,
                    "{tool} with {count} others, equal: {equal}"
                );
            }
        }
    }
}
