//! The writer, under faults and in parallel.

use super::*;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

fn log(state: &Path) -> Log {
    Log::open(state, None, Durability::Os).unwrap()
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
    let mut prev = GENESIS.to_owned();
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
    log(dir.path()).append(&entry(), false).unwrap();
    assert!(lines(dir.path())[1].contains("\"bytes\":200000"));
    assert_whole(dir.path());
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
    log.append(&entry(), false).unwrap();
    fs::write(dir.path().join("audit/lock"), "2999-01-01").unwrap();
    let later = log.append(&entry(), false).unwrap();
    assert!(later.file.ends_with("audit-2999-01-01.jsonl"));
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
        key: &key,
        stamp: stamp(jiff::Timestamp::now()),
    };
    let mut end = End {
        seq: 1,
        prev: GENESIS.to_owned(),
        torn: None,
    };
    assert!(pen.write(&mut end, &entry()).is_err());
    assert_eq!(end.seq, 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\n");
}
