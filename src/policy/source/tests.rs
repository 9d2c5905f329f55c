//! What is read from a directory, and what is refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// What reading a directory finds, after `prepare` filled it.
fn read(layer: Layer, prepare: impl FnOnce(&Path)) -> (Vec<String>, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("policies");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    put(&dir, "a.cedar", "// a\n");
    prepare(&dir);
    let mut problems = Vec::new();
    let source = read_directory(layer, &dir, &mut problems).unwrap();
    let names = source.files.iter().map(|file| file.name.clone()).collect();
    let problems = problems
        .iter()
        .map(|problem| {
            let path = &problem.file.as_ref().unwrap().path;
            let name = path.rsplit('/').next().unwrap();
            format!("{} {name}: {}", problem.code, problem.message)
        })
        .collect();
    (names, problems)
}

fn put(dir: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn files_are_read_by_name() {
    let (names, problems) = read(Layer::User, |dir| {
        for name in [
            "bridge.toml",
            "permission.toml",
            "README.md",
            "NOTICE",
            ".x.cedar",
            "x.txt",
        ] {
            put(dir, name, "");
        }
        fs::create_dir(dir.join("tests")).unwrap();
    });
    assert_eq!(names, ["a.cedar", "bridge.toml", "permission.toml"]);
    assert_eq!(problems, [""; 0]);
}

#[test]
fn what_would_be_silently_ignored_is_a_problem() {
    for (name, expected) in [
        (
            "llm.toml",
            "unsupported-file llm.toml: `llm.toml` is not supported by this version",
        ),
        (
            "brigde.toml",
            "unknown-file brigde.toml: no policy file has the name `brigde.toml`",
        ),
        (
            "A.CEDAR",
            "unknown-file A.CEDAR: no policy file has the name `A.CEDAR`",
        ),
        (
            "a.json",
            "unknown-file a.json: no policy file has the name `a.json`",
        ),
        ("a.cedar~", "ignored-file a.cedar~: `a.cedar~` is not read"),
    ] {
        let (_, problems) = read(Layer::User, |dir| put(dir, name, ""));
        assert_eq!(problems, [expected]);
    }
    let (_, problems) = read(Layer::User, |dir| fs::create_dir(dir.join("team")).unwrap());
    assert_eq!(
        problems,
        ["unknown-file team: policies are not read from the directory `team`"]
    );
}

#[test]
fn packs_are_read_from_their_own_directory() {
    let (names, problems) = read(Layer::User, |dir| {
        fs::create_dir(dir.join("redaction")).unwrap();
        for name in ["b.toml", "a.toml", "NOTICE", ".c.toml.swp", "d.json"] {
            put(dir, &format!("redaction/{name}"), "");
        }
    });
    assert_eq!(names, ["a.cedar", "redaction/a.toml", "redaction/b.toml"]);
    assert_eq!(
        problems,
        ["unknown-file d.json: no policy file has the name `redaction/d.json`"]
    );
    let (names, problems) = read(Layer::User, |dir| {
        fs::create_dir(dir.join("redaction")).unwrap();
        fs::set_permissions(dir.join("redaction"), Permissions::from_mode(0o777)).unwrap();
    });
    assert_eq!((names.len(), problems.len()), (1, 1));
    let (names, problems) = read(Layer::User, |dir| {
        fs::create_dir(dir.join("packs")).unwrap();
        symlink(dir.join("packs"), dir.join("redaction")).unwrap();
    });
    assert_eq!((names.len(), problems.len()), (1, 2));
}

#[test]
fn what_others_could_write_is_refused() {
    let open = |dir: &Path| {
        put(dir, "b.cedar", "");
        let path = dir.join("b.cedar");
        fs::set_permissions(path, Permissions::from_mode(0o664)).unwrap();
    };
    let (names, problems) = read(Layer::User, open);
    assert_eq!(names, ["a.cedar"]);
    assert_eq!(
        problems,
        ["unsafe-file b.cedar: others than its owner may write this: its mode is 0664"]
    );
    let (names, problems) = read(Layer::Workspace, open);
    assert_eq!((names.len(), problems.len()), (2, 0));

    let open = |dir: &Path| fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
    let (names, problems) = read(Layer::Organisation, open);
    assert_eq!((names.len(), problems.len()), (0, 1));
}

#[test]
fn only_plain_files_are_read_and_a_pipe_does_not_hang() {
    for layer in [Layer::User, Layer::Workspace] {
        let (names, problems) = read(layer, |dir| {
            symlink("/etc/passwd", dir.join("link.cedar")).unwrap();
            nix::unistd::mkfifo(&dir.join("pipe.cedar"), nix::sys::stat::Mode::S_IRUSR).unwrap();
            fs::create_dir(dir.join("dir.cedar")).unwrap();
        });
        assert_eq!(names, ["a.cedar"]);
        let expected = ["dir", "link", "pipe"]
            .map(|name| format!("unsafe-file {name}.cedar: this is no plain file"));
        assert_eq!(problems, expected);
    }
    let (_, problems) = read(Layer::User, |dir| {
        fs::rename(dir, dir.with_extension("real")).unwrap();
        symlink(dir.with_extension("real"), dir).unwrap();
    });
    assert_eq!(
        problems,
        ["unsafe-file policies: this is no directory, but a link or a file"]
    );
}

#[test]
fn sizes_are_bounded() {
    let (_, problems) = read(Layer::User, |dir| {
        put(dir, "b.cedar", " ".repeat((1 << 20) + 1))
    });
    assert_eq!(
        problems,
        ["too-large b.cedar: a policy file may have 1048576 bytes"]
    );
    let (names, problems) = read(Layer::Workspace, |dir| {
        put(dir, "b.cedar", " ".repeat(200 << 10));
        put(dir, "c.cedar", " ".repeat(100 << 10));
    });
    assert_eq!(names, ["a.cedar", "b.cedar"]);
    assert_eq!(
        problems,
        ["too-large c.cedar: a workspace's policies may have 262144 bytes in all"]
    );
    let (_, problems) = read(Layer::User, |dir| {
        for index in 0..FILE_COUNT_LIMIT {
            put(dir, &format!("b{index}.cedar"), "");
        }
    });
    assert_eq!(
        problems,
        ["too-large policies: more than 256 policy files in one directory"]
    );
}

#[test]
fn text_is_utf_8() {
    let (_, problems) = read(Layer::User, |dir| put(dir, "b.cedar", b"ab\xff"));
    assert_eq!(
        problems,
        ["unreadable b.cedar: the file is not UTF-8: byte 2 belongs to no character"]
    );
}

#[test]
fn the_digest_tells_everything_apart() {
    let source = |layer, files: &[(&str, &str)]| {
        let files = files
            .iter()
            .map(|(n, t)| ((*n).to_owned(), (*t).to_owned()));
        Source::new(layer, "anywhere", files)
    };
    let user = |files: &[(&str, &str)]| source(Layer::User, files);
    let all = [
        vec![],
        vec![user(&[])],
        vec![user(&[("a", "b")])],
        vec![user(&[("ab", "")])],
        vec![user(&[("a", ""), ("b", "")])],
        vec![source(Layer::Organisation, &[("a", "b")])],
        vec![user(&[("a", "b")]), source(Layer::Workspace, &[])],
        vec![user(&[]), source(Layer::Workspace, &[("a", "b")])],
    ];
    let mut digests: Vec<String> = all.iter().map(|sources| digest(sources)).collect();
    assert!(digests.iter().all(|digest| digest.len() == 64));
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), all.len());
}
