//! The writer, under faults and in parallel.

use super::*;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

fn log(state: &Path) -> Log {
    Log::open(state, None, AuditSettings::default()).unwrap()
}

fn entry() -> Entry<'static> {
    notice(Kind::Session, "session_start", Value::Null)
}

fn lines(state: &Path) -> Vec<String> {
    read::days(&state.join("audit"))
        .unwrap()
        .iter()
        .flat_map(|day| {
            fs::read_to_string(day)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Every line is chained to the one before, and the numbers have no gap.
fn assert_whole(state: &Path) {
    let mut prev = "0".repeat(64);
    let mut seq = 0;
    for line in lines(state) {
        if let Ok(value) = serde_json::from_str::<Value>(&line) {
            seq += 1;
            assert_eq!(value["prev"], prev.as_str(), "{line}");
            assert_eq!(value["seq"], seq, "{line}");
            prev = HEXLOWER.encode(&Sha256::digest(line.as_bytes()));
        }
    }
}

fn edit_tip(state: &Path, edit: impl FnOnce(&mut Tip)) {
    let path = state.join("audit/lock");
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut tip = Tip::read(&mut lock).unwrap();
    edit(&mut tip);
    tip.write(&mut lock).unwrap();
}

fn tip(state: &Path) -> Tip {
    Tip::read(&mut File::open(state.join("audit/lock")).unwrap()).unwrap()
}

fn checkpoints(state: &Path) -> Vec<Checkpoint> {
    checkpoint::files(&state.join("audit"))
        .unwrap()
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            text.lines()
                .map(|line| Checkpoint::parse(line.as_bytes()).unwrap())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The tree over all lines that are there.
fn tree(state: &Path) -> Tree {
    let mut tree = Tree::default();
    for line in lines(state) {
        tree.push(&Sha256::digest(line.as_bytes()).into());
    }
    tree
}

#[test]
fn a_checkpoint_comes_after_256_lines_or_a_minute_and_at_the_end_of_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let append = |event| {
        let entry = notice(Kind::Session, event, Value::Null);
        log.append(&entry, false).unwrap();
        let last = checkpoints(dir.path()).pop();
        if let Some(last) = &last {
            let tree = tree(dir.path());
            assert!(last.tree.size() < tree.size() || last.tree == tree);
        }
        last.map_or(0, |last| last.tree.size())
    };
    for _ in 0..255 {
        assert_eq!(append("agent_stop"), 0);
    }
    assert_eq!(append("agent_stop"), 256);
    assert_eq!(append("agent_stop"), 256);
    edit_tip(dir.path(), |tip| tip.checked -= 60);
    assert_eq!(append("agent_stop"), 258);
    assert_eq!(append("agent_stop"), 258);
    assert_eq!(append("session_end"), 260);
    let made = log.seal().unwrap().unwrap();
    assert_eq!(made.tree, tree(dir.path()));
    assert_eq!(Some(made), checkpoints(dir.path()).pop());
    let keys: std::collections::BTreeSet<_> = checkpoints(dir.path())
        .into_iter()
        .map(|one| one.key)
        .collect();
    assert_eq!(keys.len(), 1);
}

#[test]
fn a_writer_that_got_no_further_than_its_line_is_caught_up_with() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    for _ in 0..3 {
        log.append(&entry(), false).unwrap();
    }
    let lock = fs::read(dir.path().join("audit/lock")).unwrap();
    for _ in 0..3 {
        log.append(&entry(), false).unwrap();
    }
    fs::write(dir.path().join("audit/lock"), lock).unwrap();
    log.append(&entry(), false).unwrap();
    assert_eq!(tip(dir.path()).tree, Some(tree(dir.path())));
    assert_whole(dir.path());
    // Nothing but the checkpoints is left.
    log.seal().unwrap();
    log.append(&entry(), false).unwrap();
    fs::remove_file(dir.path().join("audit/lock")).unwrap();
    log.append(&entry(), false).unwrap();
    assert_eq!(tip(dir.path()).tree, Some(tree(dir.path())));
    // Not even those.
    fs::remove_file(dir.path().join("audit/lock")).unwrap();
    for file in checkpoint::files(&dir.path().join("audit")).unwrap() {
        fs::remove_file(file).unwrap();
    }
    log.append(&entry(), false).unwrap();
    assert_eq!(tip(dir.path()).tree, Some(tree(dir.path())));
    assert_whole(dir.path());
}

#[test]
fn a_tip_that_no_writer_left_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let first = log.append(&entry(), false).unwrap();
    let edits: [fn(&mut Tip); 3] = [
        |tip| tip.file = "../audit-2999-01-01.jsonl".to_owned(),
        |tip| tip.file = "notes.txt".to_owned(),
        |tip| tip.seq = u64::MAX,
    ];
    for (edit, seq) in edits.into_iter().zip(2..) {
        edit_tip(dir.path(), edit);
        let next = log.append(&entry(), false).unwrap();
        assert_eq!((next.seq, &next.file), (seq, &first.file));
    }
    assert_whole(dir.path());
}

#[test]
fn what_was_cut_off_keeps_its_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let mut lengths = Vec::new();
    let mut file = PathBuf::new();
    for _ in 0..5 {
        file = log.append(&entry(), false).unwrap().file;
        lengths.push(file.metadata().unwrap().len());
    }
    let before = tip(dir.path());
    let cut = OpenOptions::new().write(true).open(&file).unwrap();
    cut.set_len(lengths[2]).unwrap();
    let next = log.append(&entry(), false).unwrap();
    assert_eq!(next.seq, 7);
    let lost: Value = serde_json::from_str(&lines(dir.path())[3]).unwrap();
    assert_eq!(lost["detail"], json!({"first": 4, "last": 5}));
    assert_eq!(lost["prev"], HEXLOWER.encode(&before.line));
    assert_eq!(tip(dir.path()).tree.unwrap().size(), 7);
}

#[test]
fn a_full_file_is_followed_by_another_and_old_ones_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit");
    let settings = AuditSettings {
        file_mib: 1,
        retention_days: 30,
        ..AuditSettings::default()
    };
    let log = Log::open(dir.path(), None, settings).unwrap();
    let mut first = PathBuf::new();
    while read::days(&audit).unwrap().len() < 2 {
        first = log.append(&entry(), false).unwrap().file;
    }
    let days = read::days(&audit).unwrap();
    assert_eq!(days[1], first);
    assert_eq!(read::part_of(&days[1]).unwrap().1, 1);
    assert!(days[0].metadata().unwrap().len() >= 1 << 20);
    assert_whole(dir.path());
    // The new file begins where a checkpoint is.
    let seq = end::first(&days[1]).unwrap();
    assert!(
        checkpoints(dir.path())
            .iter()
            .any(|one| one.tree.size() == seq - 1)
    );
    // They grow old, and the next file removes them.
    let old = days[0].with_file_name("audit-2020-01-01.jsonl");
    fs::rename(&days[0], &old).unwrap();
    let other = days[0].with_file_name("audit-2020-01-02.jsonl");
    fs::rename(&days[1], &other).unwrap();
    let checkpoints = checkpoint::files(&audit).unwrap();
    fs::rename(&checkpoints[0], checkpoint::file(&audit, "2020-01-01")).unwrap();
    edit_tip(dir.path(), |tip| {
        tip.file = "audit-2020-01-02.jsonl".to_owned()
    });
    let last = log.append(&entry(), false).unwrap();
    assert_eq!(read::days(&audit).unwrap(), [last.file]);
    let all = lines(dir.path());
    let removed: Value = serde_json::from_str(&all[0]).unwrap();
    assert_eq!(removed["kind"], "removed");
    assert_eq!(removed["detail"]["first"], 1);
    assert_eq!(removed["detail"]["last"], last.seq - 2);
    let files = json!(["audit-2020-01-01.jsonl", "audit-2020-01-02.jsonl"]);
    assert_eq!(removed["detail"]["files"], files);
    assert_eq!(self::checkpoints(dir.path())[0].tree.size(), last.seq - 2);
}

#[test]
fn parallel_writers_make_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let log = log(dir.path());
                log.append(&entry(), false).unwrap();
                log.append(&entry(), false).unwrap();
            });
        }
    });
    assert_eq!(lines(dir.path()).len(), 200);
    assert_whole(dir.path());
}

#[test]
fn a_torn_line_is_ended_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let first = log.append(&entry(), false).unwrap();
    OpenOptions::new()
        .append(true)
        .open(&first.file)
        .unwrap()
        .write_all(b"{\"v\":1,\"se")
        .unwrap();
    log.append(&entry(), true).unwrap();
    let all = lines(dir.path());
    assert_eq!(all.len(), 4);
    assert!(all[2].contains("\"kind\":\"recovered\""), "{}", all[2]);
    assert!(all[2].contains("\"bytes\":10"), "{}", all[2]);
    assert_whole(dir.path());
}

#[test]
fn a_file_of_nothing_but_a_torn_line_is_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let first = log(dir.path()).append(&entry(), false).unwrap();
    fs::write(&first.file, "x".repeat(200_000)).unwrap();
    let second = log(dir.path()).append(&entry(), false).unwrap();
    // The torn line, that it was, that a line is gone, and the new one.
    let all = lines(dir.path());
    assert!(all[1].contains("\"bytes\":200000"), "{}", all[1]);
    let lost: Value = serde_json::from_str(&all[2]).unwrap();
    assert_eq!(lost["kind"], "lost");
    assert_eq!(lost["detail"], json!({"first": 1, "last": 1}));
    assert_eq!((all.len(), second.seq), (4, 4));
}

#[test]
fn a_day_that_begins_with_a_torn_line_goes_on_from_the_day_before() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let first = log.append(&entry(), false).unwrap();
    let day = |day: &str| first.file.with_file_name(format!("audit-{day}.jsonl"));
    fs::rename(&first.file, day("2020-01-01")).unwrap();
    fs::write(day("2020-01-02"), "torn").unwrap();
    fs::copy(day("2020-01-02"), &first.file).unwrap();
    fs::set_permissions(&first.file, fs::Permissions::from_mode(0o600)).unwrap();
    let second = log.append(&entry(), false).unwrap();
    assert_eq!(second.seq, 3);
    let text = fs::read_to_string(&second.file).unwrap();
    assert!(text.starts_with("torn\n{\"v\":1,\"seq\":2,"), "{text}");
    assert_whole(dir.path());
}

#[test]
fn a_day_is_chained_to_the_day_before() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let first = log.append(&entry(), false).unwrap();
    fs::rename(
        &first.file,
        first.file.with_file_name("audit-2020-01-01.jsonl"),
    )
    .unwrap();
    let second = log.append(&entry(), false).unwrap();
    assert_eq!(second.seq, 2);
    assert_whole(dir.path());
}

#[test]
fn a_clock_that_went_back_does_not_go_back_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let first = log.append(&entry(), false).unwrap();
    let later = first.file.with_file_name("audit-2999-01-01.jsonl");
    fs::rename(&first.file, &later).unwrap();
    // With the lock file and without it.
    edit_tip(dir.path(), |tip| {
        tip.file = "audit-2999-01-01.jsonl".to_owned()
    });
    assert_eq!(log.append(&entry(), false).unwrap().file, later);
    fs::remove_file(dir.path().join("audit/lock")).unwrap();
    assert_eq!(log.append(&entry(), false).unwrap().file, later);
    assert_whole(dir.path());
}

#[test]
fn a_late_answer_is_told_by_the_next_writer() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    note_late(dir.path(), "pre_tool_use", 1_000_001).unwrap();
    log.append(&entry(), false).unwrap();
    log.append(&entry(), false).unwrap();
    let all = lines(dir.path());
    assert_eq!(all.len(), 3);
    assert!(
        all[0].contains("\"kind\":\"superseded\"") && all[0].contains("1000001"),
        "{}",
        all[0]
    );
    assert_whole(dir.path());
}

#[test]
fn a_record_that_others_can_use_is_refused() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let first = log.append(&entry(), false).unwrap();
    fs::set_permissions(&first.file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(
        log.append(&entry(), false)
            .unwrap_err()
            .0
            .contains("others")
    );
    fs::remove_file(&first.file).unwrap();
    symlink("/dev/null", &first.file).unwrap();
    assert!(log.append(&entry(), false).is_err());
}

#[test]
fn what_is_not_written_whole_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    fs::write(&path, "whole\n").unwrap();
    // A file that is open for reading only stands for a disk that takes nothing.
    let mut file = File::open(&path).unwrap();
    let key = Key::from_bytes([1; 32]);
    let mut pen = Pen {
        file: &mut file,
        path: &path,
        length: 6,
        key: &key,
        stamp: stamp(jiff::Timestamp::now()),
    };
    let mut end = End {
        seq: 1,
        ..End::default()
    };
    assert!(pen.write(&mut end, &entry()).is_err());
    assert_eq!(end.seq, 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\n");
}
