//! Checkpoints: what the record was at a time, signed (C2SP tlog-checkpoint in a signed note, Ed25519).
//!
//! `audit/checkpoints-YYYY-MM-DD.jsonl` holds one a line. Everything in it is signed or follows from
//! what is signed, but for the time and the hash of the last line, which stand in the record itself.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use data_encoding::{BASE64, HEXLOWER};
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use signed_note::{
    Note, Signer as _, StandardSigner, StandardVerifier, Verifier as _, VerifierList,
    new_ed25519_verifier_key,
};
use tlog_tiles::Checkpoint as Head;
use tlog_tiles::tlog::Hash as Root;

use super::key::random;
use super::lines::{Hash, Lines};
use super::private::{check_owner, create_private_dir, private};
use super::tree::Tree;
use super::{AuditError, read};

/// What C2SP signed notes call Ed25519.
const ED25519: u8 = 1;

/// No signing key or note is longer.
const NOTE_BYTES: u64 = 64 << 10;

/// What the record was when it had so many lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The tree over those lines.
    pub tree: Tree,
    /// The SHA-256 of the last of them.
    pub line: Hash,
    /// When that was written.
    pub ts: String,
    /// Who signed: a C2SP verifier key.
    pub key: String,
    /// The signed note.
    pub note: String,
}

/// A checkpoint as a line of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    v: u8,
    size: u64,
    ts: String,
    line: String,
    tree: String,
    key: String,
    note: String,
}

impl Checkpoint {
    /// Signs that the record has those lines, the last of which has that hash and time.
    ///
    /// # Errors
    /// If the key cannot sign.
    pub fn sign(signer: &Signer, tree: &Tree, line: Hash, ts: &str) -> Result<Self, AuditError> {
        Self::sign_together(signer, &[], tree, line, ts)
    }

    /// The same, signed by others as well: a key hands over to another so.
    pub(super) fn sign_together(
        signer: &Signer,
        others: &[&Signer],
        tree: &Tree,
        line: Hash,
        ts: &str,
    ) -> Result<Self, AuditError> {
        let failed = |error: &dyn std::fmt::Display| AuditError(format!("cannot sign: {error}"));
        let name = signer.signer.name();
        let head = Head::new(name, tree.size(), tree.root(), "").map_err(|error| failed(&error))?;
        let mut note = Note::new(&head.to_bytes(), &[]).map_err(|error| failed(&error))?;
        for one in [signer].iter().chain(others) {
            note.add_sigs(&[&one.signer])
                .map_err(|error| failed(&error))?;
        }
        Ok(Self {
            tree: tree.clone(),
            line,
            ts: ts.to_owned(),
            key: signer.verifier.clone(),
            note: String::from_utf8_lossy(&note.to_bytes()).into_owned(),
        })
    }

    /// As one line of JSON, without a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let written = Written {
            v: 1,
            size: self.tree.size(),
            ts: self.ts.clone(),
            line: HEXLOWER.encode(&self.line),
            tree: self.tree.encode(),
            key: self.key.clone(),
            note: self.note.clone(),
        };
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads what [`Self::to_json`] gave, byte by byte the same, and verifies what can be verified
    /// without the record: the signature by the key that it names, and that the tree has the root that
    /// was signed.
    ///
    /// # Errors
    /// In words, if it is anything else.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let Written {
            v: 1,
            size,
            ts,
            line: digest,
            tree,
            key,
            note,
        } = serde_json::from_slice(line).map_err(|error| error.to_string())?
        else {
            return Err("it is of another version".to_owned());
        };
        let digest = HEXLOWER
            .decode(digest.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or("`line` is no SHA-256")?;
        let tree = Tree::decode(size, &tree).ok_or("`tree` does not fit `size`")?;
        let signed = Signed::parse(note.as_bytes())?;
        signed.verify(&VerifierKey::parse(&key)?)?;
        if (signed.size, signed.root) != (size, tree.root()) {
            return Err("what is signed is another size or root".to_owned());
        }
        let checkpoint = Self {
            tree,
            line: digest,
            ts,
            key,
            note,
        };
        // Another spelling of the same is not what was written.
        if checkpoint.to_json().as_bytes() != line {
            return Err("it is not written as a checkpoint is".to_owned());
        }
        Ok(checkpoint)
    }
}

/// A C2SP checkpoint: the size and root of a record, and who signed them.
#[derive(Debug)]
pub struct Signed {
    /// The log that it is of.
    pub origin: String,
    /// How many lines the record had.
    pub size: u64,
    /// The root of the tree over them.
    pub root: Root,
    note: Note,
}

impl Signed {
    /// Reads a signed note, exactly as it was written.
    ///
    /// # Errors
    /// In words, if it is none, or no checkpoint.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let note = Note::from_bytes(bytes).map_err(|error| error.to_string())?;
        if note.to_bytes() != bytes {
            return Err("malformed note".to_owned());
        }
        let head = Head::from_bytes(note.text()).map_err(|error| error.to_string())?;
        Ok(Self {
            origin: head.origin().to_owned(),
            size: head.size(),
            root: *head.hash(),
            note,
        })
    }

    /// Whether that key signed it, for the log of its name.
    ///
    /// # Errors
    /// In words, if not.
    pub fn verify(&self, key: &VerifierKey) -> Result<(), String> {
        let verifier = StandardVerifier::new(&key.0).map_err(|error| error.to_string())?;
        if verifier.name() != self.origin {
            return Err(format!(
                "it is of `{}`, and the key is for `{}`",
                self.origin,
                verifier.name()
            ));
        }
        self.note
            .verify(&VerifierList::new(vec![Box::new(verifier)]))
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// A C2SP verifier key: `NAME+HASH+KEY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey(String);

impl VerifierKey {
    /// Reads a key, exactly as it was written.
    ///
    /// # Errors
    /// In words, if it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        StandardVerifier::new(text).map_err(|error| error.to_string())?;
        let mut parts = text.split('+');
        // The library takes capital digits too.
        if parts
            .nth(1)
            .is_none_or(|hash| hash.contains(char::is_uppercase))
        {
            return Err("malformed verifier key".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The key that an installation signs its checkpoints with.
pub struct Signer {
    signer: StandardSigner,
    verifier: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signer").field(&self.verifier).finish()
    }
}

impl Signer {
    /// The key of an installation, made if there is none yet. Parallel first calls agree on one.
    ///
    /// # Errors
    /// If it cannot be read or made, belongs to another user, or others may read it.
    pub fn of(state: &Path) -> Result<Self, AuditError> {
        let path = path(state);
        if let Some(signer) = load(&path)? {
            return Ok(signer);
        }
        create(state, &path)?;
        load(&path)?.ok_or_else(|| AuditError(format!("the key `{}` is gone", path.display())))
    }

    /// A new key for the same log, which is not in use yet.
    pub(super) fn successor(&self) -> Result<(Self, String), AuditError> {
        let text = generate_for(self.signer.name(), &random()?);
        let signer = signer(&text);
        let signer = signer.ok_or_else(|| AuditError("a key cannot be made".to_owned()))?;
        Ok((signer, text))
    }

    /// What others verify with.
    #[must_use]
    pub fn verifier(&self) -> &str {
        &self.verifier
    }
}

/// Where the signing key of an installation is.
#[must_use]
pub fn path(state: &Path) -> PathBuf {
    state.join("signing-key")
}

fn load(path: &Path) -> Result<Option<Signer>, AuditError> {
    let file = match private(OpenOptions::new().read(true)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(AuditError::io("open the key", path, &error)),
    };
    check_owner(&file, path)?;
    let mut text = String::new();
    file.take(NOTE_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| AuditError::io("read the key", path, &error))?;
    signer(text.trim())
        .map(Some)
        .ok_or_else(|| AuditError(format!("`{}` holds no signing key", path.display())))
}

/// From `PRIVATE+KEY+NAME+HASH+KEY`.
fn signer(text: &str) -> Option<Signer> {
    let signer = StandardSigner::new(text).ok()?;
    let key = BASE64.decode(text.splitn(5, '+').last()?.as_bytes()).ok()?;
    let (&ED25519, seed) = key.split_first()? else {
        return None;
    };
    let key = SigningKey::from_bytes(seed.try_into().ok()?);
    let verifier = new_ed25519_verifier_key(signer.name(), &key.verifying_key());
    Some(Signer { signer, verifier })
}

fn create(state: &Path, path: &Path) -> Result<(), AuditError> {
    create_private_dir(state)?;
    let failed = |error: std::io::Error| AuditError::io("make the key", path, &error);
    let mut file = tempfile::NamedTempFile::new_in(state).map_err(failed)?;
    writeln!(file, "{}", generate()?).map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error.error)),
    }
}

/// A new signing key, for a log of a new name.
fn generate() -> Result<String, AuditError> {
    let mut id = HEXLOWER.encode(&random()?);
    id.truncate(16);
    Ok(generate_for(&format!("copilot-bridge/{id}"), &random()?))
}

/// `PRIVATE+KEY+NAME+HASH+KEY`
fn generate_for(name: &str, seed: &[u8; 32]) -> String {
    let key = SigningKey::from_bytes(seed);
    let verifier = new_ed25519_verifier_key(name, &key.verifying_key());
    let hash = verifier.split('+').nth(1).unwrap_or_default();
    let private = BASE64.encode(&[&[ED25519], seed.as_slice()].concat());
    format!("PRIVATE+KEY+{name}+{hash}+{private}")
}

/// Puts a key in place of the one in use. That is not kept: nothing needs it to verify.
pub(super) fn replace(state: &Path, text: &str) -> Result<(), AuditError> {
    let path = path(state);
    let failed = |error: std::io::Error| AuditError::io("make the key", &path, &error);
    let mut file = tempfile::NamedTempFile::new_in(state).map_err(failed)?;
    writeln!(file, "{text}").map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The file of a day's checkpoints.
pub(super) fn file(dir: &Path, day: &str) -> PathBuf {
    dir.join(format!("checkpoints-{day}.jsonl"))
}

/// A file of checkpoints, as far as it was written when it was looked at: what comes later may be about
/// lines that come later too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The file.
    pub path: PathBuf,
    /// How many bytes it had.
    pub length: u64,
}

impl Stored {
    /// Looks at a file.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        let length = path.metadata().map_or(0, |metadata| metadata.len());
        Self { path, length }
    }
}

/// The files of checkpoints beside a record, oldest first.
///
/// # Errors
/// If the directory cannot be read. One that is not there has no files.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>, AuditError> {
    read::dated(dir, "checkpoints-")
}

/// Adds a checkpoint to a day's file, in one write. A line that was cut short is dropped: it tells
/// nothing.
///
/// # Errors
/// If it is not there whole. What was written of it is taken back.
pub(super) fn append(path: &Path, checkpoint: &Checkpoint) -> Result<(), AuditError> {
    let failed = |error: std::io::Error| AuditError::io("write", path, &error);
    let mut file = private(OpenOptions::new().create(true).append(true).read(true))
        .open(path)
        .map_err(failed)?;
    check_owner(&file, path)?;
    let length = whole(&mut file).map_err(failed)?;
    file.set_len(length).map_err(failed)?;
    let line = format!("{}\n", checkpoint.to_json());
    match file.write(line.as_bytes()) {
        Ok(written) if written == line.len() => Ok(()),
        written => {
            let _ = file.set_len(length);
            Err(failed(
                written
                    .err()
                    .unwrap_or_else(|| std::io::ErrorKind::StorageFull.into()),
            ))
        }
    }
}

/// How many bytes of it are whole lines.
fn whole(file: &mut File) -> std::io::Result<u64> {
    let length = file.metadata()?.len();
    let mut last = [0; 1];
    if length == 0 {
        return Ok(0);
    }
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(length);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut lines = Lines::new(file);
    let mut whole = 0;
    while let Some(line) = lines.line()? {
        if line.ended {
            whole += line.length + 1;
        }
    }
    Ok(whole)
}

/// The newest checkpoint beside a record that can be read.
///
/// # Errors
/// If its file cannot be read.
pub fn newest(dir: &Path) -> Result<Option<Checkpoint>, AuditError> {
    for path in files(dir)?.into_iter().rev() {
        let mut last = Vec::new();
        each(&path, &mut |line| line.clone_into(&mut last))?;
        if let Ok(checkpoint) = Checkpoint::parse(&last) {
            return Ok(Some(checkpoint));
        }
    }
    Ok(None)
}

/// The checkpoint over so many lines, in some files.
#[must_use]
pub fn of_size(files: &[Stored], size: u64) -> Option<Checkpoint> {
    let mut found = None;
    let start = format!("{{\"v\":1,\"size\":{size},");
    for file in files {
        let looked = each(&file.path, &mut |line| {
            if line.starts_with(start.as_bytes()) {
                found = found.take().or(Checkpoint::parse(line).ok());
            }
        });
        // A file that cannot be read has none.
        let _ = looked;
    }
    found
}

/// Hands on every whole line of a file.
fn each(path: &Path, line: &mut dyn FnMut(&[u8])) -> Result<(), AuditError> {
    let failed = |error: std::io::Error| AuditError::io("read", path, &error);
    let mut lines = Lines::new(read::open(path).map_err(failed)?);
    while let Some(raw) = lines.line().map_err(failed)? {
        if raw.ended {
            line(raw.bytes);
        }
    }
    Ok(())
}

/// What `--key` names: a verifier key, or a file with one.
///
/// # Errors
/// In words, if it is neither.
pub fn verifier_key(text: &str) -> Result<VerifierKey, String> {
    if let Ok(key) = VerifierKey::parse(text) {
        return Ok(key);
    }
    let path = Path::new(text);
    let wrong = |why: String| format!("`{text}` is no verifier key: {why}");
    let key = text_of(path).map_err(wrong)?;
    VerifierKey::parse(key.trim()).map_err(wrong)
}

/// The checkpoint in a file: a signed note, or the last of a file of checkpoints.
///
/// # Errors
/// In words, if there is none.
pub fn signed(path: &Path) -> Result<(Signed, Option<VerifierKey>), String> {
    let wrong = |why: String| format!("`{}` is no checkpoint: {why}", path.display());
    let text = text_of(path).map_err(wrong)?;
    if !text.starts_with('{') {
        return Ok((Signed::parse(text.as_bytes()).map_err(wrong)?, None));
    }
    let last = text.lines().last().unwrap_or_default();
    let checkpoint = Checkpoint::parse(last.as_bytes()).map_err(wrong)?;
    let signed = Signed::parse(checkpoint.note.as_bytes()).map_err(wrong)?;
    Ok((signed, VerifierKey::parse(&checkpoint.key).ok()))
}

fn text_of(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    read::open(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(|error| AuditError::io("read", path, &error).0)?;
    Ok(text)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn checkpoint(signer: &Signer) -> Checkpoint {
        let mut tree = Tree::default();
        for number in 0..5 {
            tree.push(&[number; 32]);
        }
        Checkpoint::sign(signer, &tree, [4; 32], "2026-01-02T03:04:05.000006Z").unwrap()
    }

    #[test]
    fn every_bit_of_a_checkpoint_counts() {
        let signer = signer(&generate().unwrap()).unwrap();
        let json = checkpoint(&signer).to_json();
        let parsed = Checkpoint::parse(json.as_bytes()).unwrap();
        assert_eq!(parsed, checkpoint(&signer));
        // The time and the last line's hash are held against the record.
        let free = |name: &str, len: usize| {
            let start = json.find(&format!("\"{name}\":\"")).unwrap() + name.len() + 4;
            start..start + len
        };
        let free = [free("ts", 27), free("line", 64)];
        for at in 0..json.len() {
            for bit in 0..8 {
                let mut bytes = json.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let read = Checkpoint::parse(&bytes);
                let counts = read.is_err() || free.iter().any(|range| range.contains(&at));
                assert!(counts, "{}", String::from_utf8_lossy(&bytes));
            }
        }
    }

    #[test]
    fn a_note_is_of_its_log_and_key() {
        let (one, two) = (generate().unwrap(), generate().unwrap());
        let (one, two) = (signer(&one).unwrap(), signer(&two).unwrap());
        let checkpoint = checkpoint(&one);
        let signed = Signed::parse(checkpoint.note.as_bytes()).unwrap();
        let key = |signer: &Signer| VerifierKey::parse(signer.verifier()).unwrap();
        assert_eq!(signed.verify(&key(&one)), Ok(()));
        assert!(signed.verify(&key(&two)).is_err());
        assert!(Signed::parse(b"nothing").is_err());
        assert!(VerifierKey::parse("nothing").is_err());
        let shouted = one.verifier().to_uppercase();
        assert!(VerifierKey::parse(&shouted).is_err());
    }

    #[test]
    fn parallel_first_calls_agree_on_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let keys: Vec<String> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Signer::of(&state).unwrap().verifier().to_owned()))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        fs::write(path(&state), "PRIVATE+KEY+x").unwrap();
        assert!(Signer::of(&state).is_err());
    }

    #[test]
    fn a_torn_checkpoint_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = checkpoint(&signer(&generate().unwrap()).unwrap());
        let path = file(dir.path(), "2026-01-02");
        append(&path, &checkpoint).unwrap();
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"{\"v\":1,").unwrap();
        append(&path, &checkpoint).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{0}\n{0}\n", checkpoint.to_json()));
        assert_eq!(newest(dir.path()).unwrap(), Some(checkpoint));
    }
}
