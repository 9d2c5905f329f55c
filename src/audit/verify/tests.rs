//! A record of three days, and everything that can be done to it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::finding::{Level, What};
use sha2::{Digest, Sha256};

use super::*;
use crate::audit::record::schema;
use crate::audit::writer::{Log, notice};
use crate::engine::bundle::AuditSettings;

/// How many lines the record has.
const LINES: usize = 50;

/// A record in files: name of the day, and bytes.
type Days = Vec<(String, Vec<u8>)>;

/// A record as the real writer writes it. Days pass by renaming the file of today; the clocks are
/// not asked about here.
fn written() -> Days {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), None, AuditSettings::default()).unwrap();
    let mut days = Vec::new();
    let mut last = None;
    for number in 0..LINES {
        let detail = json!({"summary": format!("number {number}, \"quoted\" and «more»")});
        let entry = notice(Kind::Session, "session_end", detail);
        let position = log.append(&entry, false).unwrap();
        if number == 17 || number == 34 {
            let day = format!("audit-2026-01-0{}.jsonl", days.len() + 1);
            let path = position.file.with_file_name(&day);
            fs::rename(&position.file, &path).unwrap();
            days.push((day, fs::read(path).unwrap()));
        }
        last = Some(position.file);
    }
    let text = fs::read(last.unwrap()).unwrap();
    days.push(("audit-2026-01-03.jsonl".to_owned(), text));
    days
}

fn verify(days: &Days) -> Report {
    let mut verifier = Verifier::new(true);
    for (name, bytes) in days {
        verifier.file(name, None, &bytes[..], &mut |_| ()).unwrap();
    }
    verifier.finish(false)
}

/// The lines with their line feeds.
fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

/// The days with another text in one of them.
fn with(days: &Days, day: usize, bytes: Vec<u8>) -> Days {
    let mut days = days.clone();
    days[day].1 = bytes;
    days
}

fn whats(report: &Report) -> Vec<What> {
    report.findings.iter().map(|finding| finding.what).collect()
}

#[test]
fn a_record_that_nobody_touched_is_whole() {
    let report = verify(&written());
    assert_eq!(report.findings, []);
    assert_eq!((report.lines, report.files), (LINES as u64, 3));
    assert_eq!(report.first.unwrap().0, 1);
    assert_eq!(report.last.unwrap().0, LINES as u64);
}

/// Only what a bit does to the record's last line can go unseen: no line is chained to it yet.
#[test]
fn every_flipped_bit_is_found() {
    let days = written();
    for day in 0..days.len() {
        let text = &days[day].1;
        let last = split(text).pop().unwrap().len();
        let covered = if day == 2 {
            text.len() - last
        } else {
            text.len()
        };
        // Two lines suffice for what comes after the flipped one: the others are the same each time.
        for (line, (start, bytes)) in starts(text).into_iter().enumerate() {
            if start >= covered {
                continue;
            }
            for at in start..start + bytes.len() {
                // One bit of each byte in most lines, all of them in a few.
                let bits = if line % 16 == 0 {
                    0..8
                } else {
                    at % 8..at % 8 + 1
                };
                for bit in bits {
                    let mut changed = text.clone();
                    changed[at] ^= 1 << bit;
                    let report = verify_near(&days, day, line, changed);
                    assert!(report.problems > 0, "day {day}, byte {at}, bit {bit}");
                }
            }
        }
    }
}

/// The lines with where they start.
fn starts(text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut start = 0;
    split(text)
        .into_iter()
        .map(|line| {
            let at = start;
            start += line.len();
            (at, line)
        })
        .collect()
}

/// Verifies from the line before the changed one to the second after it. What is chained to what
/// comes before and after is not changed by it.
fn verify_near(days: &Days, day: usize, line: usize, changed: Vec<u8>) -> Report {
    let original = split(&days[day].1);
    let from: usize = original[..line.saturating_sub(1)]
        .iter()
        .map(Vec::len)
        .sum();
    let to: usize = original[..(line + 3).min(original.len())]
        .iter()
        .map(Vec::len)
        .sum();
    let mut verifier = Verifier::new(day == 0 && from == 0);
    let near = &changed[from..to];
    verifier.file("near", None, near, &mut |_| ()).unwrap();
    if to == changed.len() && day < 2 {
        let next = &days[day + 1].1[..];
        verifier.file("next", None, next, &mut |_| ()).unwrap();
    }
    verifier.finish(false)
}

#[test]
fn every_deleted_line_is_found() {
    let days = written();
    for day in 0..3 {
        let lines = split(&days[day].1);
        for at in 0..lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(at);
            let report = verify(&with(&days, day, fewer.concat()));
            if day == 2 && at + 1 == lines.len() {
                // The documented limit: nothing tells how many lines there were.
                assert_eq!(report.findings, []);
            } else {
                assert_eq!(whats(&report), [What::Missing], "{:?}", report.findings);
                assert_eq!(report.problems, 1);
            }
        }
    }
}

#[test]
fn every_swapped_pair_is_found() {
    let days = written();
    for day in 0..3 {
        let lines = split(&days[day].1);
        for at in 1..lines.len() {
            let mut other = lines.clone();
            other.swap(at - 1, at);
            let report = verify(&with(&days, day, other.concat()));
            assert_eq!(
                whats(&report),
                [What::Order],
                "{day} {at} {:?}",
                report.findings
            );
            assert_eq!(report.findings[0].place.line, at as u64);
        }
    }
}

#[test]
fn every_moved_line_is_found() {
    let days = written();
    let lines = split(&days[1].1);
    for from in 0..lines.len() {
        for to in (0..lines.len()).filter(|to| *to != from) {
            let mut other = lines.clone();
            let line = other.remove(from);
            other.insert(to, line);
            let report = verify(&with(&days, 1, other.concat()));
            assert!(report.problems > 0, "{from} {to}");
            assert!(report.problems < 4, "{from} {to} {:?}", report.findings);
        }
    }
}

#[test]
fn every_repeated_line_is_found() {
    let days = written();
    for day in 0..3 {
        let lines = split(&days[day].1);
        for at in 0..lines.len() {
            for to in 0..=lines.len() {
                let mut more = lines.clone();
                more.insert(to, lines[at].clone());
                let report = verify(&with(&days, day, more.concat()));
                assert!(report.problems > 0, "{day} {at} {to}");
                if to == at + 1 {
                    assert_eq!(whats(&report), [What::Duplicate], "{:?}", report.findings);
                    assert_eq!(report.findings[0].place.line, to as u64 + 1);
                }
            }
        }
    }
}

#[test]
fn every_inserted_line_is_found() {
    let days = written();
    let all: Vec<Vec<u8>> = days.iter().flat_map(|day| split(&day.1)).collect();
    let mut number = 0;
    for day in 0..3 {
        let lines = split(&days[day].1);
        for at in 0..=lines.len() {
            let before = (number > 0).then(|| all[number - 1].clone());
            if at < lines.len() {
                number += 1;
            }
            // Made up as well as anybody can: with the right number and the right hash.
            let digest = before.as_ref().map_or(GENESIS.digest, |line| {
                Sha256::digest(line.strip_suffix(b"\n").unwrap()).into()
            });
            let seq = before.as_ref().map_or(0, |line| {
                serde_json::from_slice::<Value>(line).unwrap()["seq"]
                    .as_u64()
                    .unwrap()
            });
            let mut value: Value = serde_json::from_slice(&all[30]).unwrap();
            value["seq"] = json!(seq + 1);
            value["prev"] = json!(HEXLOWER.encode(&digest));
            let made_up = [
                format!("{value}\n").into_bytes(),
                format!("{{\"v\":1,\"seq\":{}}}\n", seq + 1).into_bytes(),
                b"\n".to_vec(),
            ];
            for (kind, line) in made_up.into_iter().enumerate() {
                if lines.get(at) == Some(&line) {
                    continue;
                }
                let mut more = lines.clone();
                more.insert(at, line);
                let report = verify(&with(&days, day, more.concat()));
                let end = day == 2 && at == lines.len();
                if kind == 0 && end {
                    // The documented limit: whoever can write can go on with the record.
                    assert_eq!(report.problems, 0);
                } else {
                    assert_eq!(
                        report.problems, 1,
                        "{day} {at} {kind} {:?}",
                        report.findings
                    );
                    let problem = report
                        .findings
                        .iter()
                        .find(|one| one.what.level() == Level::Problem);
                    let what = problem.unwrap().what;
                    assert!(
                        what == What::Inserted || kind > 0 && (end || at == lines.len()),
                        "{what:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_cut_is_found() {
    let days = written();
    for day in 0..3 {
        let text = &days[day].1;
        for cut in 0..text.len() {
            let report = verify(&with(&days, day, text[..cut].to_vec()));
            let boundary = cut == 0 || text[cut - 1] == b'\n';
            if day < 2 {
                assert!(report.problems > 0, "{day} {cut}");
            } else if boundary {
                // The documented limit: nothing tells how many lines there were.
                assert_eq!(report.findings, [], "{cut}");
            } else {
                assert_eq!(whats(&report), [What::Torn], "{cut}");
            }
            if boundary || day < 2 {
                assert_eq!(whats(&report).contains(&What::Torn), !boundary);
            }
        }
    }
}

#[test]
fn torn_lines_are_explained_and_lies_about_them_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), None, AuditSettings::default()).unwrap();
    let entry = notice(Kind::Session, "session_start", Value::Null);
    let first = log.append(&entry, false).unwrap();
    let add = |text: &[u8]| {
        use std::io::Write;
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(&first.file)
            .unwrap();
        file.write_all(text).unwrap();
    };
    log.append(&entry, false).unwrap();
    add(b"{\"v\":1,\"se");
    log.append(&entry, false).unwrap();
    // Cut short by nothing but its line feed.
    let text = fs::read(&first.file).unwrap();
    fs::write(&first.file, &text[..text.len() - 1]).unwrap();
    log.append(&entry, false).unwrap();
    add("x".repeat(100_000).as_bytes());
    log.append(&entry, false).unwrap();
    let text = fs::read(&first.file).unwrap();
    let days = vec![("day".to_owned(), text.clone())];
    let report = verify(&days);
    assert_eq!(
        whats(&report),
        [What::Recovered; 3],
        "{:?}",
        report.findings
    );
    let lines = split(&text);
    assert_eq!(lines.len(), 10);
    for at in 0..lines.len() - 1 {
        let mut fewer = lines.clone();
        fewer.remove(at);
        assert!(verify(&with(&days, 0, fewer.concat())).problems > 0, "{at}");
        let mut changed = lines.clone();
        let middle = changed[at].len() / 2;
        changed[at][middle] ^= 1;
        assert!(
            verify(&with(&days, 0, changed.concat())).problems > 0,
            "{at}"
        );
    }
}

#[test]
fn a_part_of_a_record_is_told_from_a_whole() {
    let days = written();
    let mut verifier = Verifier::new(false);
    for (name, bytes) in &days[1..] {
        verifier.file(name, None, &bytes[..], &mut |_| ()).unwrap();
    }
    let report = verifier.finish(false);
    assert_eq!(whats(&report), [What::Part]);
    assert_eq!(report.problems, 0);
    assert_eq!(whats(&verify(&days[1..].to_vec())), [What::Missing]);
}

#[test]
fn clocks_that_go_back_are_a_warning() {
    let line = |seq: u64, prev: &[u8], ts: &str, mono: u64| {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), None, AuditSettings::default()).unwrap();
        let entry = notice(Kind::Session, "session_start", Value::Null);
        let position = log.append(&entry, false).unwrap();
        let mut value: Value = serde_json::from_slice(&fs::read(position.file).unwrap()).unwrap();
        value["seq"] = json!(seq);
        value["ts"] = json!(ts);
        value["mono"] = json!(mono);
        value["boot"] = json!("boot");
        value["prev"] = json!(HEXLOWER.encode(prev));
        value.to_string()
    };
    for (ts, mono, warned) in [
        ("2026-01-01T00:00:02.000000Z", 2_000_000_001, false),
        ("2026-01-01T00:00:00.000000Z", 2_000_000_000, true),
        ("2026-01-01T00:00:02.000000Z", 999_999_999, true),
        ("2026-01-01T02:00:00.000000Z", 2_000_000_000, true),
        ("2026-01-02T00:00:00.000000Z", 86_400_000_000_000, true),
    ] {
        let first = line(1, &[0; 32], "2026-01-01T00:00:01.000000Z", 1_000_000_000);
        let second = line(2, &Sha256::digest(&first), ts, mono);
        let text = format!("{first}\n{second}\n");
        let mut verifier = Verifier::new(true);
        verifier
            .file("day", Some("2026-01-01"), text.as_bytes(), &mut |_| ())
            .unwrap();
        let report = verifier.finish(false);
        assert_eq!(report.problems, 0);
        assert_eq!(report.warnings > 0, warned, "{ts} {:?}", report.findings);
    }
}

#[test]
fn files_are_put_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let days = written();
    let mut paths: Vec<_> = days
        .iter()
        .map(|(name, bytes)| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        })
        .collect();
    let sorted = files::list(&[dir.path().to_path_buf()]).unwrap();
    assert_eq!((&sorted.files, sorted.whole), (&paths, true));
    let other = dir.path().join("exported");
    fs::rename(&paths[0], &other).unwrap();
    paths[0] = other;
    let given = [&paths[2], &paths[0], &paths[1], &paths[0]].map(Clone::clone);
    let sorted = files::list(&given).unwrap();
    assert_eq!((&sorted.files, sorted.whole), (&paths, false));
    assert!(files::list(&[dir.path().join("gone")]).is_err());
}

/// The fields, the kinds of lines and what can be found are all explained.
#[test]
fn the_readme_explains_every_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("audit/README.md")).unwrap();
    let fields = fields::FIELDS.iter().map(|field| field.name);
    let kinds = Kind::ALL.map(Kind::name);
    let whats = What::ALL.map(What::name);
    for word in fields.chain(kinds).chain(whats) {
        assert!(readme.contains(&format!("`{word}`")), "`{word}`");
    }
    for kind in Kind::ALL {
        assert_eq!(json!(kind), kind.name());
    }
    for what in What::ALL {
        assert_eq!(json!(what), what.name());
    }
}

#[test]
fn the_schema_is_the_committed_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = fs::read_to_string(root.join("schemas/audit-record.v1.json")).unwrap();
    assert_eq!(schema::audit_record(), committed);
}

#[test]
fn a_line_with_other_fields_is_none() {
    let text = split(&written()[0].1).remove(0);
    let line: Value = serde_json::from_slice(&text).unwrap();
    assert!(fields::head(line.to_string().as_bytes()).is_ok());
    let fields = line.as_object().unwrap();
    for name in fields.keys() {
        let mut fewer = fields.clone();
        fewer.shift_remove(name);
        let error = fields::head(json!(fewer).to_string().as_bytes()).unwrap_err();
        assert!(error.contains(&format!("`{name}`")), "{error}");
        let mut last = fewer.clone();
        last.insert(name.clone(), fields[name].clone());
        if name != "prev" {
            assert!(
                fields::head(json!(last).to_string().as_bytes()).is_err(),
                "{name}"
            );
        }
        if name != "args_redacted" {
            let mut other = fields.clone();
            other[name] = json!(-1.5);
            let error = fields::head(json!(other).to_string().as_bytes()).unwrap_err();
            assert!(error.contains(&format!("`{name}` is not ")), "{error}");
        }
    }
    for more in [
        "{}",
        "[]",
        "1",
        "",
        "{\"v\":2}",
        &format!("{line}{line}"),
        &format!("{line} x"),
    ] {
        assert!(fields::head(more.as_bytes()).is_err(), "{more}");
    }
    // `truncated` may stand there, in its place.
    let long = line
        .to_string()
        .replace("\"decision\"", "\"truncated\":true,\"decision\"");
    assert!(fields::head(long.as_bytes()).is_ok());
    let twice = line.to_string().replace("\"uid\"", "\"uid\":0,\"uid\"");
    assert!(fields::head(twice.as_bytes()).is_err());
}
