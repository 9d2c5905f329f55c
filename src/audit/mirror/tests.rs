use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use super::*;
use crate::audit::record::v1::Kind;
use crate::audit::writer::notice;

fn source(event: &'static str, detail: Value) -> Source<'static> {
    let entry = notice(Kind::ToolUse, event, detail);
    Source::of(&entry, Texts::default(), Key::from_bytes([7; 32]))
}

fn mirror(shape: MirrorShape, dir: &Path) -> Mirror {
    Mirror {
        shape,
        dir: Some(dir.to_str().unwrap().to_owned()),
    }
}

fn places(state: &Path) -> Places<'_> {
    Places {
        state,
        home: None,
        record: state,
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn every_line_goes_to_the_end_of_a_private_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = source("pre_tool_use", json!({}));
    for (shape, name, lines) in [
        (MirrorShape::Seed, "audit-%Y-%m-%d.jsonl", 2),
        (MirrorShape::Xpia, "rust_security_%Y%m%d.log", 2),
    ] {
        let below = dir.path().join("a/b").join(shape.name());
        let mirror = mirror(shape, &below);
        for _ in 0..lines {
            source.write(&mirror, places(dir.path())).unwrap();
        }
        let zone = match shape {
            MirrorShape::Seed => jiff::tz::TimeZone::UTC,
            MirrorShape::Xpia => jiff::tz::TimeZone::system(),
        };
        let name = source.now.to_zoned(zone).strftime(name).to_string();
        let path = below.join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), lines, "{text}");
        assert!(text.ends_with('\n'));
        assert_eq!((mode(&below), mode(&path)), (0o700, 0o600));
    }
}

#[test]
fn what_stands_in_the_way_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, "mine\n").unwrap();
    let source = source("pre_tool_use", json!({}));
    for shape in [MirrorShape::Seed, MirrorShape::Xpia] {
        let place = dir.path().join(shape.name());
        let mirror = mirror(shape, &place);
        source.write(&mirror, places(dir.path())).unwrap();
        let file = fs::read_dir(&place).unwrap().next().unwrap();
        let file = file.unwrap().path();
        let refused = || {
            let started = Instant::now();
            let error = source.write(&mirror, places(dir.path())).unwrap_err();
            assert!(started.elapsed() < Duration::from_secs(2), "{error}");
            assert!(error.0.contains(file.to_str().unwrap()), "{error}");
        };
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        refused();
        fs::remove_file(&file).unwrap();
        for target in [victim.as_path(), Path::new("/dev/full")] {
            symlink(target, &file).unwrap();
            refused();
            fs::remove_file(&file).unwrap();
        }
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        refused();
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        refused();
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
}

#[test]
fn the_record_is_no_place_for_a_mirror() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    symlink(dir.path(), &link).unwrap();
    let source = source("pre_tool_use", json!({}));
    for place in [dir.path(), &link] {
        let mirror = mirror(MirrorShape::Seed, place);
        let error = source.write(&mirror, places(dir.path())).unwrap_err();
        assert!(error.0.ends_with("is the directory of the record itself"));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_is_where_the_policies_say() {
    let place = |dir: Option<&str>, shape| {
        let mirror = Mirror {
            shape,
            dir: dir.map(str::to_owned),
        };
        let places = Places {
            state: Path::new("/s"),
            home: Some(Path::new("/h")),
            record: Path::new("/s/audit"),
        };
        super::dir(&mirror, places).unwrap()
    };
    assert_eq!(place(None, MirrorShape::Seed), Path::new("/s/mirror/seed"));
    assert_eq!(
        place(None, MirrorShape::Xpia),
        Path::new("/h/.claude/logs/xpia")
    );
    assert_eq!(place(Some("~/a"), MirrorShape::Seed), Path::new("/h/a"));
    assert_eq!(place(Some("/a"), MirrorShape::Xpia), Path::new("/a"));
    let homeless = Mirror {
        shape: MirrorShape::Xpia,
        dir: None,
    };
    assert!(super::dir(&homeless, places(Path::new("/s"))).is_err());
}

#[test]
fn events_without_a_name_there_have_no_line() {
    for event in [
        "permission_request",
        "pre_mcp_tool_call",
        "user_prompt_transformed",
        "agent_stop",
        "subagent_start",
        "subagent_stop",
        "pre_compact",
        "notification",
        "recovered",
        "unknown",
    ] {
        let source = source(event, json!({}));
        assert_eq!(seed::line(&source), None, "{event}");
        assert_eq!(xpia::line(&source), None, "{event}");
    }
}

#[test]
fn a_notice_to_the_user_is_hidden_where_it_quotes_the_message() {
    for (message, notice_text, shown) in [
        ("disk of nobody", "Skipping: disk of nobody", false),
        ("429", "Rate limited. Retrying...", true),
        ("", "Unrecoverable error: ", true),
    ] {
        let entry = notice(Kind::Error, "error_occurred", json!({"handling": "skip"}));
        let texts = Texts {
            said: Some(message),
            notification: Some(notice_text),
            ..Texts::default()
        };
        let source = Source::of(&entry, texts, Key::from_bytes([7; 32]));
        let (_, line) = seed::line(&source).unwrap();
        assert_eq!(line.contains(notice_text), shown, "{line}");
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["input"]["error"]["len"], message.len());
    }
}
