use super::*;
use crate::audit::export::id;
use std::fmt::Write as _;
use std::fs;

struct Record(tempfile::TempDir);

impl Record {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn day(&self, day: u32) -> PathBuf {
        self.0.path().join(format!("audit-2026-01-{day:02}.jsonl"))
    }

    fn add(&self, day: u32, numbers: std::ops::RangeInclusive<u64>) {
        let mut text = fs::read_to_string(self.day(day)).unwrap_or_default();
        for number in numbers {
            writeln!(text, "{{\"seq\":{number}}}").unwrap();
        }
        fs::write(self.day(day), text).unwrap();
    }

    fn spool(&self, last: Option<Mark>) -> Spool {
        Spool::behind(self.0.path().to_path_buf(), last)
    }
}

fn numbers(lines: &[Line]) -> Vec<u64> {
    lines.iter().map(|line| line.seq).collect()
}

fn all(spool: &mut Spool) -> Vec<u64> {
    numbers(&spool.read(1000, 1 << 20).unwrap())
}

#[test]
fn a_batch_is_bounded_and_goes_over_days() {
    let record = Record::new();
    let mut spool = record.spool(None);
    assert_eq!(all(&mut spool), [0; 0]);
    record.add(1, 1..=3);
    record.add(2, 4..=6);
    assert_eq!(numbers(&spool.read(2, 1000).unwrap()), [1, 2]);
    assert_eq!(numbers(&spool.read(100, 9).unwrap()), [3]);
    let rest = spool.read(100, 1000).unwrap();
    assert_eq!(numbers(&rest), [4, 5, 6]);
    assert_eq!(rest[0].id, id(b"{\"seq\":4}"));
    assert_eq!(all(&mut spool), [0; 0]);
    record.add(2, 7..=7);
    assert_eq!(all(&mut spool), [7]);
    assert_eq!(spool.findings(), []);
}

#[test]
fn it_goes_on_behind_a_line() {
    let record = Record::new();
    record.add(1, 1..=3);
    record.add(2, 4..=4);
    let lines = record.spool(None).read(2, 1000).unwrap();
    let mut spool = record.spool(Some(lines[1].mark()));
    assert_eq!(all(&mut spool), [3, 4]);
    assert_eq!(spool.findings(), []);
    assert_eq!(left(record.0.path(), Some(&lines[1].mark())).unwrap(), 20);
    assert_eq!(left(record.0.path(), None).unwrap(), 40);
}

#[test]
fn what_was_removed_before_it_was_sent_is_counted() {
    let record = Record::new();
    record.add(1, 1..=3);
    record.add(2, 4..=6);
    record.add(3, 7..=8);
    let lines = record.spool(None).read(2, 1000).unwrap();
    let mark = lines[1].mark();
    fs::remove_file(record.day(1)).unwrap();
    fs::remove_file(record.day(2)).unwrap();
    let mut spool = record.spool(Some(mark));
    let lines = spool.read(100, 1000).unwrap();
    assert_eq!(numbers(&lines), [7, 8]);
    assert_eq!(lines[0].missing, 4);
    let gap = Finding::Missing {
        count: 4,
        before: 7,
    };
    assert_eq!(spool.findings(), [gap]);
    // Also for a sink that is new.
    let mut spool = record.spool(None);
    assert_eq!(spool.read(100, 1000).unwrap()[0].missing, 6);
}

#[test]
fn what_was_sent_may_be_removed() {
    let record = Record::new();
    record.add(1, 1..=3);
    let mut spool = record.spool(None);
    assert_eq!(all(&mut spool), [1, 2, 3]);
    fs::remove_file(record.day(1)).unwrap();
    record.add(2, 4..=5);
    assert_eq!(all(&mut spool), [4, 5]);
    assert_eq!(spool.findings(), []);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_removed_while_it_is_read_is_read_to_its_end() {
    let record = Record::new();
    record.add(1, 1..=4);
    record.add(2, 5..=5);
    let mut spool = record.spool(None);
    assert_eq!(numbers(&spool.read(2, 1000).unwrap()), [1, 2]);
    fs::remove_file(record.day(1)).unwrap();
    assert_eq!(all(&mut spool), [3, 4, 5]);
    assert_eq!(spool.findings(), []);
}

#[test]
fn a_torn_line_is_not_sent_until_it_is_whole() {
    let record = Record::new();
    record.add(1, 1..=1);
    let path = record.day(1);
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}{{\"seq\":")).unwrap();
    let mut spool = record.spool(None);
    assert_eq!(all(&mut spool), [1]);
    assert_eq!(all(&mut spool), [0; 0]);
    fs::write(&path, format!("{whole}{{\"seq\":2}}\n{{\"se")).unwrap();
    assert_eq!(all(&mut spool), [2]);
    // The day changes: nobody will end it.
    record.add(2, 3..=3);
    assert_eq!(all(&mut spool), [3]);
    let torn = Finding::Torn {
        file: "audit-2026-01-01.jsonl".to_owned(),
        bytes: 4,
    };
    assert_eq!(spool.findings(), [torn]);
}

#[test]
fn a_record_that_was_changed_is_sent_anew_and_said() {
    let record = Record::new();
    record.add(1, 1..=3);
    let lines = record.spool(None).read(3, 1000).unwrap();
    let mark = lines[2].mark();
    let text = fs::read_to_string(record.day(1)).unwrap();
    for changed in [
        text.replace(":3", ":2"),
        "{\"seq\":1}\n".to_owned(),
        String::new(),
    ] {
        fs::write(record.day(1), &changed).unwrap();
        let mut spool = record.spool(Some(mark.clone()));
        let sent = spool.read(100, 1000).unwrap().len();
        assert_eq!(sent, changed.lines().count(), "{changed}");
        assert_eq!(spool.findings(), [Finding::Changed(mark.clone())]);
    }
    // The file is gone, and the next one is only begun.
    fs::remove_file(record.day(1)).unwrap();
    fs::write(record.day(2), "").unwrap();
    let mut spool = record.spool(Some(mark.clone()));
    assert_eq!(all(&mut spool), [0; 0]);
    record.add(2, 5..=5);
    assert_eq!(all(&mut spool), [5]);
    let gap = Finding::Missing {
        count: 1,
        before: 5,
    };
    assert_eq!(spool.findings(), [gap]);
    fs::write(record.day(1), "").unwrap();
    // Moved, but the same.
    fs::remove_file(record.day(1)).unwrap();
    fs::write(record.day(2), format!("{text}{{\"seq\":4}}\n")).unwrap();
    let mut spool = record.spool(Some(mark));
    assert_eq!(all(&mut spool), [4]);
    assert_eq!(spool.findings(), []);
}

#[test]
fn what_is_no_line_of_the_record_is_passed_on() {
    let record = Record::new();
    let long = "x".repeat(40_000);
    fs::write(
        record.day(1),
        format!("{{\"seq\":1}}\nto\n{long}\n\n{{\"seq\":2}}\n"),
    )
    .unwrap();
    let mut spool = record.spool(None);
    let lines = spool.read(100, 1 << 20).unwrap();
    assert_eq!(numbers(&lines), [1, 1, 1, 1, 2]);
    assert_eq!(lines[2].length, 40_000);
    assert_eq!(lines[2].id, id(long.as_bytes()));
    assert!(lines[2].bytes.len() < 40_000);
    assert_eq!(spool.findings(), []);
    for line in &lines {
        let mut spool = record.spool(Some(line.mark()));
        spool.read(100, 1 << 20).unwrap();
        assert_eq!(spool.findings(), []);
    }
}

#[test]
fn a_record_that_grows_and_is_removed_meanwhile_is_read_in_order() {
    let record = Record::new();
    let days: Vec<PathBuf> = (0..300)
        .map(|day| {
            let date = jiff::civil::date(2026, 1, 1) + jiff::Span::new().days(day);
            record.0.path().join(format!("audit-{date}.jsonl"))
        })
        .collect();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (index, day) in days.iter().enumerate() {
                let first = index * 3 + 1;
                let text: String = (first..first + 3)
                    .map(|number| format!("{{\"seq\":{number}}}\n"))
                    .collect();
                fs::write(day, text).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(2));
                if index >= 4 {
                    fs::remove_file(&days[index - 4]).unwrap();
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut spool = record.spool(None);
        let mut next = 1;
        loop {
            let last = done.load(std::sync::atomic::Ordering::Relaxed);
            let lines = spool.read(4, 1000).unwrap();
            for line in &lines {
                next += line.missing;
                assert_eq!(line.seq, next);
                next += 1;
            }
            if last && lines.is_empty() {
                break;
            }
        }
        assert_eq!(next, 901);
        assert!(
            spool
                .findings()
                .iter()
                .all(|one| matches!(one, Finding::Missing { .. }))
        );
    });
}
