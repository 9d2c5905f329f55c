//! A record of fifty lines that ends with a checkpoint, and everything that can be done to it.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;
use crate::audit::checkpoint::{self, Signer};
use crate::audit::record::v1::Kind;
use crate::audit::verify::{Report, Verifier, files};
use crate::audit::writer::{Log, notice};
use crate::engine::bundle::AuditSettings;

const LINES: u64 = 50;

/// A record with its checkpoints, as the real writer writes it.
struct Record {
    dir: tempfile::TempDir,
    file: PathBuf,
    text: Vec<u8>,
    checkpoints: PathBuf,
    signed: Vec<u8>,
}

impl Record {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path(), None, AuditSettings::default()).unwrap();
        let mut file = PathBuf::new();
        for number in 1..=LINES {
            let detail = json!({"summary": format!("number {number}")});
            let event = if number == 20 {
                "session_end"
            } else {
                "agent_stop"
            };
            let entry = notice(Kind::Session, event, detail);
            file = log.append(&entry, false).unwrap().file;
        }
        log.seal().unwrap();
        let checkpoints = checkpoint::files(&dir.path().join("audit")).unwrap();
        Self {
            text: fs::read(&file).unwrap(),
            signed: fs::read(&checkpoints[0]).unwrap(),
            checkpoints: checkpoints[0].clone(),
            file,
            dir,
        }
    }

    fn lines(&self) -> Vec<Vec<u8>> {
        let lines = self.text.split_inclusive(|byte| *byte == b'\n');
        lines.map(<[u8]>::to_vec).collect()
    }

    /// What is found if the record is that text.
    fn verify(&self, text: &[u8]) -> Report {
        self.verify_with(text, Vec::new(), None)
    }

    fn verify_with(&self, text: &[u8], kept: Vec<Kept>, key: Option<VerifierKey>) -> Report {
        let cover = Cover::new(vec![Stored::at(self.checkpoints.clone())], kept, key);
        let mut verifier = Verifier::new(true).covered_by(cover);
        verifier.file("day", None, text, &mut |_| ()).unwrap();
        verifier.finish(false)
    }

    fn kept(&self) -> Kept {
        let path = self.dir.path().join("kept");
        let text = String::from_utf8(self.signed.clone()).unwrap();
        fs::write(&path, text.lines().last().unwrap()).unwrap();
        Kept {
            name: "kept".to_owned(),
            signed: checkpoint::signed(&path).unwrap().0,
        }
    }
}

fn whats(report: &Report) -> Vec<What> {
    report.findings.iter().map(|finding| finding.what).collect()
}

/// The lines with one of them changed, and the chain made anew from there.
fn rewritten(lines: &[Vec<u8>], at: usize) -> Vec<u8> {
    let mut text = lines[..at].concat();
    let mut prev = None;
    for line in &lines[at..] {
        let mut value: Value = serde_json::from_slice(line).unwrap();
        match &prev {
            None => value["detail"]["summary"] = json!("something else"),
            Some(prev) => value["prev"] = json!(prev),
        }
        let line = value.to_string();
        prev = Some(HEXLOWER.encode(&Sha256::digest(&line)));
        text.extend(line.into_bytes());
        text.push(b'\n');
    }
    text
}

#[test]
fn a_record_that_nobody_touched_is_covered_whole() {
    let record = Record::new();
    let key = checkpoint::verifier_key(Signer::of(record.dir.path()).unwrap().verifier()).unwrap();
    let report = record.verify_with(&record.text, vec![record.kept()], Some(key.clone()));
    assert_eq!(report.findings, []);
    let covered = Covered {
        checkpoints: 2,
        seq: LINES,
        key: Some(key.as_str().to_owned()),
    };
    assert_eq!(report.covered, covered);
}

/// What a flipped bit does to the lines before is found by the chain alone: see the tests there.
#[test]
fn every_flipped_bit_of_the_last_line_is_found() {
    let record = Record::new();
    let last = record.lines().pop().unwrap().len();
    for at in record.text.len() - last..record.text.len() {
        for bit in 0..8 {
            let mut changed = record.text.clone();
            changed[at] ^= 1 << bit;
            let report = record.verify(&changed);
            assert!(
                report.problems > 0,
                "byte {at}, bit {bit}: {:?}",
                report.findings
            );
        }
    }
}

/// All bits of all lines, each against the whole record: minutes, so for the nightly script.
#[test]
#[ignore = "takes minutes"]
fn every_flipped_bit_of_all_is_found() {
    let record = Record::new();
    for at in 0..record.text.len() {
        for bit in 0..8 {
            let mut changed = record.text.clone();
            changed[at] ^= 1 << bit;
            assert!(record.verify(&changed).problems > 0, "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_checkpoint_is_found() {
    let record = Record::new();
    let start = record
        .signed
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for at in start..record.signed.len() {
        // One bit of each byte here: all of them are tried where a checkpoint is parsed.
        let mut changed = record.signed.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&record.checkpoints, &changed).unwrap();
        let report = record.verify(&record.text);
        let torn = at + 1 == changed.len();
        assert!(
            report.problems > 0 || torn,
            "byte {at}: {:?}",
            report.findings
        );
    }
}

#[test]
fn every_deleted_line_and_every_swapped_pair_is_found() {
    let record = Record::new();
    let lines = record.lines();
    for at in 0..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(at);
        let report = record.verify(&fewer.concat());
        assert_eq!(
            whats(&report),
            [What::Missing],
            "{at} {:?}",
            report.findings
        );
        if at > 0 {
            let mut other = lines.clone();
            other.swap(at - 1, at);
            let report = record.verify(&other.concat());
            assert_eq!(whats(&report)[0], What::Order, "{at} {:?}", report.findings);
        }
    }
}

#[test]
fn every_cut_is_found() {
    let record = Record::new();
    for cut in 0..record.text.len() {
        let report = record.verify(&record.text[..cut]);
        assert!(
            whats(&report).contains(&What::Missing),
            "{cut} {:?}",
            report.findings
        );
    }
}

#[test]
fn a_chain_that_was_made_anew_is_found() {
    let record = Record::new();
    let lines = record.lines();
    for at in 0..lines.len() {
        let report = record.verify(&rewritten(&lines, at));
        // Each checkpoint tells of its own lines.
        let told = [(1, 20), (21, LINES)];
        let told = &told[usize::from(at >= 20)..];
        assert_eq!(
            report.findings.len(),
            told.len(),
            "{at} {:?}",
            report.findings
        );
        for (finding, (from, to)) in report.findings.iter().zip(told) {
            assert_eq!((finding.what, finding.place.line), (What::Checkpoint, *to));
            assert!(
                finding.text.contains(&format!("from number {from} ")),
                "{}",
                finding.text
            );
        }
    }
}

/// Who has the key can sign a changed record too, but not take back what was kept elsewhere.
#[test]
fn a_record_that_was_signed_anew_is_found_by_what_was_kept() {
    let record = Record::new();
    let kept = || vec![record.kept()];
    let changed = rewritten(&record.lines(), 30);
    let signer = Signer::of(record.dir.path()).unwrap();
    let mut tree = Tree::default();
    let lines = changed.split_inclusive(|byte| *byte == b'\n');
    let mut last = Hash::default();
    for line in lines {
        last = Sha256::digest(line.strip_suffix(b"\n").unwrap()).into();
        tree.push(&last);
    }
    let value: Value = serde_json::from_slice(record.lines().last().unwrap()).unwrap();
    let ts = value["ts"].as_str().unwrap();
    let anew = Checkpoint::sign(&signer, &tree, last, ts).unwrap();
    let kept = kept();
    fs::write(&record.checkpoints, format!("{}\n", anew.to_json())).unwrap();
    assert_eq!(record.verify(&changed).findings, []);
    let report = record.verify_with(&changed, kept, None);
    assert_eq!(whats(&report), [What::Rewritten], "{:?}", report.findings);
    // And so is a record that ends before it.
    let report = record.verify_with(&record.lines()[..3].concat(), vec![record.kept()], None);
    assert_eq!(whats(&report), [What::Missing], "{:?}", report.findings);
}

#[test]
fn another_key_is_found() {
    let (record, other) = (Record::new(), Record::new());
    let foreign = Signer::of(other.dir.path()).unwrap();
    let foreign = checkpoint::verifier_key(foreign.verifier()).unwrap();
    let report = record.verify_with(&record.text, Vec::new(), Some(foreign));
    assert_eq!(whats(&report), [What::Key; 2], "{:?}", report.findings);
    // One that comes later is not that of those before it.
    let lines: Vec<String> = [&record.signed, &other.signed]
        .map(|signed| {
            String::from_utf8_lossy(signed)
                .lines()
                .last()
                .unwrap()
                .to_owned()
        })
        .into();
    fs::write(&record.checkpoints, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
    let report = record.verify(&record.text);
    assert_eq!(whats(&report), [What::Key], "{:?}", report.findings);
}

#[test]
fn a_day_is_verified_by_itself_from_the_checkpoint_that_it_begins_with() {
    let record = Record::new();
    let log = Log::open(record.dir.path(), None, AuditSettings::default()).unwrap();
    let entry = notice(Kind::Session, "agent_stop", Value::Null);
    log.append(&entry, false).unwrap();
    // The next file comes when this one is of an earlier day.
    let rename = |file: &Path, name: &str| {
        let other = file.with_file_name(name);
        fs::rename(file, &other).unwrap();
        other
    };
    let first = rename(&record.file, "audit-2020-01-01.jsonl");
    let old = rename(&record.checkpoints, "checkpoints-2020-01-01.jsonl");
    let second = log.append(&entry, false).unwrap().file;
    log.append(&entry, false).unwrap();
    log.seal().unwrap();
    let verify = |paths: &[PathBuf]| {
        let listed = files::list(paths).unwrap();
        let cover = Cover::new(listed.checkpoints.clone(), Vec::new(), None);
        let mut verifier = Verifier::new(listed.whole).covered_by(cover);
        for path in &listed.files {
            let file = read::open(path).unwrap();
            verifier.file("day", None, file, &mut |_| ()).unwrap();
        }
        verifier.finish(listed.open)
    };
    let report = verify(&[record.dir.path().to_path_buf()]);
    assert_eq!(report.findings, []);
    let report = verify(std::slice::from_ref(&second));
    assert_eq!(whats(&report), [What::Part]);
    assert_eq!(
        (report.covered.checkpoints, report.covered.seq),
        (2, LINES + 3)
    );
    let report = verify(std::slice::from_ref(&first));
    assert_eq!((whats(&report), report.covered.seq), (Vec::new(), LINES));
    // Each line of the day counts, the last one too.
    let text = fs::read(&second).unwrap();
    let lines: Vec<Vec<u8>> = text
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let last: Value = serde_json::from_slice(&lines[1]).unwrap();
    let mut changed = last.clone();
    changed["pid"] = json!(1);
    fs::write(
        &second,
        [&lines[0], format!("{changed}\n").as_bytes()].concat(),
    )
    .unwrap();
    let report = verify(std::slice::from_ref(&second));
    assert_eq!(
        whats(&report),
        [What::Part, What::Checkpoint],
        "{:?}",
        report.findings
    );
    fs::write(&second, &text).unwrap();
    // Files that somebody else removed are missing; those that the record tells of are not.
    fs::remove_file(&first).unwrap();
    fs::remove_file(&old).unwrap();
    let report = verify(&[record.dir.path().to_path_buf()]);
    assert_eq!(whats(&report), [What::Missing], "{:?}", report.findings);
    let detail =
        json!({"files": ["audit-2020-01-01.jsonl"], "bytes": 1, "first": 1, "last": LINES + 1});
    let entry = notice(Kind::Removed, "removed", detail);
    log.append(&entry, false).unwrap();
    let report = verify(&[record.dir.path().to_path_buf()]);
    assert_eq!(whats(&report), [What::Removed], "{:?}", report.findings);
    assert_eq!(report.problems, 0);
}

#[test]
fn a_checkpoint_that_comes_meanwhile_misses_no_line() {
    let record = Record::new();
    let cover = Cover::new(
        vec![Stored::at(record.checkpoints.clone())],
        Vec::new(),
        None,
    );
    let mut verifier = Verifier::new(true).covered_by(cover);
    verifier
        .file("day", None, &record.text[..], &mut |_| ())
        .unwrap();
    let log = Log::open(record.dir.path(), None, AuditSettings::default()).unwrap();
    let entry = notice(Kind::Session, "session_end", Value::Null);
    log.append(&entry, false).unwrap();
    assert!(record.checkpoints.metadata().unwrap().len() > record.signed.len() as u64);
    assert_eq!(verifier.finish(false).findings, []);
}

#[test]
fn checkpoints_that_stopped_are_missed() {
    let record = Record::new();
    let log = Log::open(record.dir.path(), None, AuditSettings::default()).unwrap();
    let entry = notice(Kind::Session, "agent_stop", Value::Null);
    for _ in 0..600 {
        log.append(&entry, false).unwrap();
    }
    let whole = fs::read(&record.file).unwrap();
    assert_eq!(record.verify(&whole).findings, []);
    fs::write(&record.checkpoints, &record.signed).unwrap();
    let report = record.verify(&whole);
    assert_eq!(whats(&report), [What::Uncovered]);
    assert_eq!((report.problems, report.warnings), (0, 1));
    // Garbage is no checkpoint, and a torn one tells nothing.
    let mut file = OpenOptions::new()
        .append(true)
        .open(&record.checkpoints)
        .unwrap();
    std::io::Write::write_all(&mut file, b"garbage\n{\"v\":1,").unwrap();
    let report = record.verify(&whole);
    let found = [What::Checkpoint, What::Torn, What::Uncovered];
    assert_eq!(whats(&report), found, "{:?}", report.findings);
    assert_eq!(report.findings[0].place.line, 3);
}
