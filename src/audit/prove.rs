//! Proofs that need no record: that a line is in it (C2SP tlog-proof), and that it goes on from an older
//! checkpoint (the body that C2SP tlog-witness takes).

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use data_encoding::BASE64;
use sha2::{Digest, Sha256};
use tlog_tiles::tlog::{
    Error, Hash as Root, HashReader, check_record, check_tree, prove_record, prove_tree,
};

use super::checkpoint::{Checkpoint, Signed, VerifierKey};
use super::lines::{Hash, Lines};
use super::record::fields;
use super::tree::{Tree, leaf};
use super::{AuditError, read};

/// What a proof that a line is there begins with.
const INCLUSION: &str = "c2sp.org/tlog-proof@v1";

/// What a proof that a record goes on begins with.
const CONSISTENCY: &str = "old ";

/// The lines that a proof is made from.
#[derive(Debug)]
pub struct Record {
    /// Its files, the oldest first.
    pub files: Vec<PathBuf>,
    /// What is known of the lines before the first file, if there are any.
    pub before: Tree,
}

/// What a proof proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proven {
    /// A line is in the record.
    Line {
        /// Its number.
        seq: u64,
        /// The line itself.
        line: Vec<u8>,
    },
    /// The record goes on from an older checkpoint.
    Since {
        /// How many lines that had.
        size: u64,
    },
}

impl Record {
    /// The proof that a line is in the record of a checkpoint.
    ///
    /// # Errors
    /// If the record cannot be read, lacks lines that the proof needs, or is not that of the checkpoint.
    pub fn line(&self, seq: u64, checkpoint: &Checkpoint) -> Result<String, AuditError> {
        let size = checkpoint.tree.size();
        if seq == 0 || seq > size {
            return Err(AuditError(format!(
                "the checkpoint covers the numbers 1 to {size}, but not {seq}"
            )));
        }
        let pass = Pass::new(self, Some(seq));
        let hashes = pass.told(prove_record(size, seq - 1, &pass))?;
        let line = pass
            .line
            .take()
            .ok_or_else(|| AuditError(format!("number {seq} is not in the files of the record")))?;
        let digest: Hash = Sha256::digest(&line).into();
        let root = checkpoint.tree.root();
        check_record(&hashes, size, root, seq - 1, leaf(&digest))
            .map_err(|_| foreign(checkpoint))?;
        let mut text = format!(
            "{INCLUSION}\nextra {}\nindex {}\n",
            BASE64.encode(&line),
            seq - 1
        );
        end(&mut text, &hashes, checkpoint);
        Ok(text)
    }

    /// The proof that the record of a checkpoint goes on from an older one.
    ///
    /// # Errors
    /// If the record cannot be read, lacks lines that the proof needs, or is not that of both.
    pub fn since(&self, old: &Signed, checkpoint: &Checkpoint) -> Result<String, AuditError> {
        let size = checkpoint.tree.size();
        if old.size == 0 || old.size > size {
            return Err(AuditError(format!(
                "the older checkpoint has {} lines, and the newer one {size}",
                old.size
            )));
        }
        let pass = Pass::new(self, None);
        let hashes = pass.told(prove_tree(size, old.size, &pass))?;
        check_tree(&hashes, size, checkpoint.tree.root(), old.size, old.root)
            .map_err(|_| foreign(checkpoint))?;
        let mut text = format!("{CONSISTENCY}{}\n", old.size);
        end(&mut text, &hashes, checkpoint);
        Ok(text)
    }
}

/// What a proof proves, if the checkpoint that it ends with is signed with that key; of a proof that a
/// record goes on, if it goes on from that older one.
///
/// # Errors
/// In words, if it proves nothing.
pub fn check(text: &str, key: &VerifierKey, old: Option<&Signed>) -> Result<Proven, String> {
    let (head, note) = text.split_once("\n\n").ok_or("it has no checkpoint")?;
    let signed = Signed::parse(note.as_bytes())?;
    signed.verify(key)?;
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    if first == INCLUSION {
        let mut field = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name));
            line.ok_or_else(|| format!("it has no `{}`", name.trim_end()))
        };
        let line = BASE64
            .decode(field("extra ")?.as_bytes())
            .map_err(|_| "`extra` is no base64")?;
        let index: u64 = field("index ")?
            .parse()
            .map_err(|_| "`index` is no number")?;
        let hashes = hashes(lines)?;
        let digest: Hash = Sha256::digest(&line).into();
        if index >= signed.size {
            return Err("its checkpoint does not cover the line".to_owned());
        }
        check_record(&hashes, signed.size, signed.root, index, leaf(&digest))
            .map_err(|_| "the line is not in the record of the checkpoint")?;
        let seq = fields::head(&line).map(|head| head.seq);
        if seq != Ok(index + 1) {
            return Err("the line has another number".to_owned());
        }
        return Ok(Proven::Line {
            seq: index + 1,
            line,
        });
    }
    let size: u64 = first
        .strip_prefix(CONSISTENCY)
        .and_then(|size| size.parse().ok())
        .ok_or("it is no proof of a kind that is known here")?;
    let old = old.ok_or("it needs the older checkpoint that it is about: `--since`")?;
    if old.size != size || size == 0 || size > signed.size {
        return Err("it is about another checkpoint".to_owned());
    }
    check_tree(&hashes(lines)?, signed.size, signed.root, size, old.root)
        .map_err(|_| "the record does not go on from that checkpoint")?;
    Ok(Proven::Since { size })
}

fn hashes<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<Root>, String> {
    lines
        .map(|line| Root::parse_hash(line).map_err(|_| format!("`{line}` is no hash")))
        .collect()
}

fn end(text: &mut String, hashes: &[Root], checkpoint: &Checkpoint) {
    for hash in hashes {
        text.push_str(&hash.to_string());
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&checkpoint.note);
}

fn foreign(checkpoint: &Checkpoint) -> AuditError {
    AuditError(format!(
        "the record is not the one that the checkpoint of {} was made of\nhelp: `copilot-bridge audit verify` says where it differs",
        checkpoint.ts
    ))
}

/// One look at all lines, for the nodes that a proof consists of.
struct Pass<'a> {
    record: &'a Record,
    seq: Option<u64>,
    line: RefCell<Option<Vec<u8>>>,
    failed: RefCell<Option<AuditError>>,
}

impl<'a> Pass<'a> {
    const fn new(record: &'a Record, seq: Option<u64>) -> Self {
        Self {
            record,
            seq,
            line: RefCell::new(None),
            failed: RefCell::new(None),
        }
    }

    /// What came of it, or why it could not be done.
    fn told(&self, proof: Result<Vec<Root>, Error>) -> Result<Vec<Root>, AuditError> {
        proof.map_err(|_| {
            self.failed.take().unwrap_or_else(|| {
                AuditError("the record lacks lines that the proof needs".to_owned())
            })
        })
    }

    fn read(&self, found: &mut HashMap<u64, Option<Root>>) -> Result<(), AuditError> {
        let mut keep = |index: u64, hash: Root| {
            if let Some(slot) = found.get_mut(&index) {
                *slot = Some(hash);
            }
        };
        let mut tree = self.record.before.clone();
        tree.nodes().for_each(|(index, hash)| keep(index, hash));
        for path in &self.record.files {
            let failed = |error: std::io::Error| AuditError::io("read", path, &error);
            let mut lines = Lines::new(read::open(path).map_err(failed)?);
            while let Some(line) = lines.line().map_err(failed)? {
                let Ok(head) = fields::head(line.bytes) else {
                    continue;
                };
                if head.seq == tree.size() + 1 {
                    tree.push_with(&line.digest(), &mut keep);
                    if self.seq == Some(head.seq) {
                        self.line.replace(Some(line.bytes.to_vec()));
                    }
                }
            }
        }
        Ok(())
    }
}

impl HashReader for Pass<'_> {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Root>, Error> {
        let mut found: HashMap<u64, Option<Root>> =
            indexes.iter().map(|index| (*index, None)).collect();
        if let Err(error) = self.read(&mut found) {
            self.failed.replace(Some(error));
            return Err(Error::MalformedHash);
        }
        let hashes = indexes.iter().map(|index| found.get(index).copied()?);
        hashes.collect::<Option<_>>().ok_or(Error::MalformedHash)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::checkpoint::{self, Signer};
    use crate::audit::record::v1::Kind;
    use crate::audit::writer::{Log, notice};
    use crate::engine::bundle::AuditSettings;
    use std::fs;

    struct Stage {
        dir: tempfile::TempDir,
        log: Log,
    }

    impl Stage {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let log = Log::open(dir.path(), None, AuditSettings::default()).unwrap();
            Self { dir, log }
        }

        fn grow(&self, count: usize) -> Checkpoint {
            let entry = notice(Kind::Session, "agent_stop", serde_json::Value::Null);
            for _ in 0..count {
                self.log.append(&entry, false).unwrap();
            }
            self.log.seal().unwrap().unwrap()
        }

        fn record(&self) -> Record {
            Record {
                files: read::days(&self.dir.path().join("audit")).unwrap(),
                before: Tree::default(),
            }
        }

        fn key(&self) -> VerifierKey {
            let signer = Signer::of(self.dir.path()).unwrap();
            checkpoint::verifier_key(signer.verifier()).unwrap()
        }
    }

    #[test]
    fn every_line_is_proven_and_nothing_else() {
        let stage = Stage::new();
        let (record, key) = (stage.grow(21), stage.key());
        let lines = stage.record();
        for seq in 1..=21 {
            let proof = lines.line(seq, &record).unwrap();
            let Proven::Line { seq: proven, line } = check(&proof, &key, None).unwrap() else {
                panic!("{proof}");
            };
            assert_eq!(proven, seq);
            assert!(line.starts_with(format!("{{\"v\":1,\"seq\":{seq},").as_bytes()));
            // Each bit of it counts.
            for at in (0..proof.len()).step_by(3) {
                let mut changed = proof.clone().into_bytes();
                changed[at] ^= 1 << (at % 7);
                if let Ok(changed) = String::from_utf8(changed) {
                    assert!(check(&changed, &key, None).is_err(), "{changed}");
                }
            }
        }
        assert!(lines.line(0, &record).is_err());
        assert!(lines.line(22, &record).is_err());
        let other = Stage::new();
        other.grow(3);
        let proof = lines.line(1, &record).unwrap();
        assert!(check(&proof, &other.key(), None).is_err());
        // The record of somebody else has not this checkpoint.
        let error = other.record().line(2, &record).unwrap_err();
        assert!(error.0.contains("lacks lines"), "{error}");
        let text = fs::read_to_string(&lines.files[0]).unwrap();
        fs::write(
            &lines.files[0],
            text.replacen("agent_stop", "agent_halt", 3),
        )
        .unwrap();
        let error = lines.line(20, &record).unwrap_err();
        assert!(error.0.contains("is not the one"), "{error}");
    }

    #[test]
    fn a_record_is_proven_to_go_on() {
        let stage = Stage::new();
        let key = stage.key();
        let made: Vec<Checkpoint> = [1, 6, 1, 9].iter().map(|n| stage.grow(*n)).collect();
        let old = |one: &Checkpoint| Signed::parse(one.note.as_bytes()).unwrap();
        for (index, newer) in made.iter().enumerate() {
            for older in &made[..=index] {
                let proof = stage.record().since(&old(older), newer).unwrap();
                let size = older.tree.size();
                let proven = check(&proof, &key, Some(&old(older)));
                assert_eq!(proven, Ok(Proven::Since { size }), "{proof}");
                assert!(check(&proof, &key, None).is_err());
                for other in made.iter().filter(|other| *other != older) {
                    assert!(check(&proof, &key, Some(&old(other))).is_err());
                }
            }
            assert!(stage.record().since(&old(&made[3]), &made[0]).is_err());
        }
        let other = Stage::new();
        let foreign = other.grow(5);
        assert!(stage.record().since(&old(&foreign), &made[3]).is_err());
    }

    #[test]
    fn what_was_removed_is_not_needed() {
        let stage = Stage::new();
        let before = stage.grow(11).tree;
        let path = stage.record().files.remove(0);
        fs::rename(&path, path.with_file_name("audit-2020-01-01.jsonl")).unwrap();
        let newest = stage.grow(10);
        let record = Record {
            files: vec![path],
            before,
        };
        for seq in 12..=21 {
            let proof = record.line(seq, &newest).unwrap();
            assert!(check(&proof, &stage.key(), None).is_ok());
        }
        assert!(record.line(11, &newest).is_err());
    }

    #[test]
    fn garbage_proves_nothing() {
        let key = Stage::new().key();
        for text in [
            "",
            "\n\n",
            "c2sp.org/tlog-proof@v1\nextra\n\nx\n1\n",
            "old 1\n\n",
        ] {
            assert!(check(text, &key, None).is_err());
        }
    }
}
