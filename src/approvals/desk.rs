//! Where questions wait and answers lie: `<state>/approvals`, for its owner only.
//!
//! | | |
//! |---|---|
//! | `pending/ID.json` | a question |
//! | `answers/ID.jsonl` | what people said about it, one envelope a line |
//! | `used/NONCE` | an approval that was used |

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};

use super::DeskError;
use super::question::{Asked, Id, Question, SHOWN_LIMIT};
use super::statement::{Nonce, Statement};
use super::weigh::{ANSWERS, Terms, Weight, weigh};
use crate::audit::AuditError;
use crate::audit::private::{check_owner, create_private_dir, lock_file, private};
use crate::keys::envelope::Envelope;

/// The directory, below the state directory.
pub const DIR: &str = "approvals";

/// A question is forgotten after this time: longer than any approval is valid.
pub const KEPT: SignedDuration = SignedDuration::from_hours(25);

/// No more questions wait at a time; the oldest goes.
const QUESTIONS: usize = 256;

/// So many files of a folder are looked at when the old ones are taken away.
const SWEEP: usize = 1024;

/// No question's file is longer, in bytes.
const QUESTION_BYTES: u64 = (SHOWN_LIMIT + (1 << 10)) as u64;

/// No line of an answer file is longer, in bytes.
const ANSWER_BYTES: usize = 4 << 10;

/// No answer file is longer, in bytes.
const ANSWERS_BYTES: u64 = (ANSWERS * ANSWER_BYTES) as u64;

/// The questions and answers of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desk {
    dir: PathBuf,
}

impl Desk {
    /// The desk below a state directory. Nothing is made or read yet.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self {
            dir: state.join(DIR),
        }
    }

    /// Leaves a question for people.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn leave(&self, question: Question) -> Result<(), DeskError> {
        let asked = question.asked(Timestamp::now());
        let dir = self.dir.join("pending");
        create_private_dir(&dir)?;
        self.sweep();
        let bytes = serde_json::to_vec(&asked).unwrap_or_default();
        replace(&self.pending(&asked.id()), &bytes)
    }

    /// Whether anybody answered that question. It is all that is looked at where nobody did.
    #[must_use]
    pub fn is_answered(&self, id: &Id) -> bool {
        self.answers(id).symlink_metadata().is_ok()
    }

    /// What the answers to a question amount to. An approval is used up by this: of several callers
    /// one gets it.
    ///
    /// # Errors
    /// If the answers cannot be read or taken away.
    pub fn take(&self, question: &Question, terms: &Terms<'_>) -> Result<Weight, DeskError> {
        let _lock = self.lock()?;
        let id = question.call.id();
        let path = self.answers(&id);
        let Some(lines) = read(&path, ANSWERS_BYTES)? else {
            return Ok(Weight::Refused("the approval was used already".to_owned()));
        };
        let used = |nonce: &Nonce| self.used(nonce).symlink_metadata().is_ok();
        let weight = weigh(&lines, question, terms, &used);
        if let Weight::Approved(granted) = &weight {
            create_private_dir(&self.dir.join("used"))?;
            for nonce in &granted.nonces {
                let path = self.used(nonce);
                let mut options = OpenOptions::new();
                private(options.create_new(true).write(true))
                    .open(&path)
                    .map_err(|error| failed("use up", &path, &error))?;
            }
            remove(&path)?;
            let _ = remove(&self.pending(&id));
        }
        Ok(weight)
    }

    /// Lays an answer beside the others to the same question.
    ///
    /// # Errors
    /// If it cannot be written, or there are too many.
    pub fn answer(&self, asked: &Asked, envelope: &Envelope) -> Result<(), DeskError> {
        let _lock = self.lock()?;
        create_private_dir(&self.dir.join("answers"))?;
        let path = self.answers(&asked.id());
        let mut lines = Vec::new();
        for line in self.said(asked)? {
            lines.extend(serde_json::to_vec(&line).unwrap_or_default());
            lines.push(b'\n');
        }
        let line = serde_json::to_vec(envelope).unwrap_or_default();
        lines.extend(&line);
        lines.push(b'\n');
        let count = lines.iter().filter(|byte| **byte == b'\n').count();
        if line.len() >= ANSWER_BYTES || count > ANSWERS {
            return Err(DeskError(format!(
                "there are too many answers to `{}`",
                asked.id()
            )));
        }
        replace(&path, &lines)
    }

    /// What was said about a question, as far as it is about it. Nobody has looked at signatures.
    ///
    /// # Errors
    /// If the answers cannot be read.
    pub fn said(&self, asked: &Asked) -> Result<Vec<Envelope>, DeskError> {
        let bytes = read(&self.answers(&asked.id()), ANSWERS_BYTES)?.unwrap_or_default();
        Ok(bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Envelope>(line).ok())
            .filter(|envelope| {
                Statement::unverified(envelope).is_some_and(|said| said.call == asked.call)
            })
            .collect())
    }

    /// The question of that name.
    ///
    /// # Errors
    /// If there is none, or it cannot be read, is not what it is called, or is too old.
    pub fn find(&self, id: &Id) -> Result<Asked, DeskError> {
        let path = self.pending(id);
        let none = || DeskError(format!("no question `{id}` waits for an answer"));
        let bytes = read(&path, QUESTION_BYTES)?.ok_or_else(none)?;
        let asked = Asked::parse(&bytes)
            .map_err(|error| DeskError(format!("`{}` is no question: {error}", path.display())))?;
        if asked.id() != *id {
            return Err(DeskError(format!(
                "`{}` holds another question",
                path.display()
            )));
        }
        if !is_fresh(asked.at) {
            return Err(none());
        }
        Ok(asked)
    }

    /// The questions that wait, the oldest first, and how many files are none.
    ///
    /// # Errors
    /// If the directory cannot be read. One that is not there is empty.
    pub fn waiting(&self) -> Result<(Vec<Asked>, usize), DeskError> {
        let mut all = Vec::new();
        let mut broken = 0;
        for path in files(&self.dir.join("pending"))? {
            let name = path.file_stem().and_then(|name| name.to_str());
            let asked = name
                .and_then(|name| name.parse::<Id>().ok())
                .map(|id| self.find(&id));
            match asked {
                Some(Ok(asked)) => all.push(asked),
                Some(Err(_)) | None => broken += 1,
            }
        }
        all.sort_by_key(|asked| asked.at);
        Ok((all, broken))
    }

    /// Takes away a question with its answers. Says whether there was one.
    ///
    /// # Errors
    /// If they cannot be taken away.
    pub fn forget(&self, id: &Id) -> Result<bool, DeskError> {
        let _lock = self.lock()?;
        let answers = remove(&self.answers(id))?;
        Ok(remove(&self.pending(id))? || answers)
    }

    /// Takes away what is too old to count, and what is no question. Says how many files that were.
    ///
    /// # Errors
    /// If the directory cannot be locked or read.
    pub fn prune(&self) -> Result<usize, DeskError> {
        let _lock = self.lock()?;
        let mut gone = self.sweep();
        for path in files(&self.dir.join("pending"))? {
            let name = path.file_stem().and_then(|name| name.to_str());
            let id = name.and_then(|name| name.parse::<Id>().ok());
            if id.is_none_or(|id| self.find(&id).is_err()) && remove(&path)? {
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// Takes away what is old, and of the questions those that are too many. What cannot be taken
    /// away is tried again with the next question.
    fn sweep(&self) -> usize {
        let mut gone = 0;
        for folder in ["pending", "answers", "used"] {
            let mut left = Vec::new();
            for path in files(&self.dir.join(folder))
                .unwrap_or_default()
                .into_iter()
                .take(SWEEP)
            {
                let modified = path
                    .symlink_metadata()
                    .and_then(|metadata| metadata.modified());
                match modified {
                    Ok(time) if !is_old(time) => left.push((time, path)),
                    Ok(_) => gone += usize::from(remove(&path).unwrap_or(false)),
                    Err(_) => {}
                }
            }
            if folder == "pending" && left.len() >= QUESTIONS {
                left.sort();
                for (_, path) in left.iter().take(left.len() + 1 - QUESTIONS) {
                    gone += usize::from(remove(path).unwrap_or(false));
                }
            }
        }
        gone
    }

    fn lock(&self) -> Result<fs::File, DeskError> {
        create_private_dir(&self.dir)?;
        let path = self.dir.join("lock");
        let file = lock_file(&path)?;
        file.lock().map_err(|error| failed("lock", &path, &error))?;
        Ok(file)
    }

    fn pending(&self, id: &Id) -> PathBuf {
        self.dir.join("pending").join(format!("{id}.json"))
    }

    fn answers(&self, id: &Id) -> PathBuf {
        self.dir.join("answers").join(format!("{id}.jsonl"))
    }

    fn used(&self, nonce: &Nonce) -> PathBuf {
        self.dir.join("used").join(nonce.as_str())
    }
}

impl From<AuditError> for DeskError {
    fn from(error: AuditError) -> Self {
        Self(error.0)
    }
}

fn is_fresh(at: Timestamp) -> bool {
    let age = Timestamp::now().duration_since(at);
    !age.is_negative() && age < KEPT
}

fn is_old(time: SystemTime) -> bool {
    let kept = Duration::from_secs(KEPT.as_secs().unsigned_abs());
    time.elapsed().is_ok_and(|age| age > kept)
}

/// What a file holds; nothing if there is none. It has to be its owner's alone.
fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DeskError> {
    let file = match private(OpenOptions::new().read(true)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path, &error)),
    };
    check_owner(&file, path)?;
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed("read", path, &error))?;
    if bytes.len() as u64 > limit {
        return Err(DeskError(format!("`{}` is too long", path.display())));
    }
    Ok(Some(bytes))
}

/// Writes a file whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), DeskError> {
    let dir = path.parent().unwrap_or(path);
    let mut file =
        tempfile::NamedTempFile::new_in(dir).map_err(|error| failed("write", path, &error))?;
    file.write_all(bytes)
        .map_err(|error| failed("write", path, &error))?;
    file.persist(path)
        .map_err(|error| failed("write", path, &error.error))?;
    Ok(())
}

fn remove(path: &Path) -> Result<bool, DeskError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("take away", path, &error)),
    }
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, DeskError> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("read", dir, &error)),
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> DeskError {
    AuditError::io(what, path, error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approvals::question::tests::question;
    use crate::approvals::statement::Verdict;
    use crate::engine::approver::{Approver, Approvers};
    use crate::keys::SigningKey;

    fn approvers(key: &SigningKey) -> Approvers {
        Approvers {
            all: vec![Approver {
                name: "ann".to_owned(),
                key: key.public().to_string(),
                groups: Vec::new(),
                policies: Vec::new(),
                entities: Vec::new(),
                sessions: Vec::new(),
            }],
            ..Approvers::default()
        }
    }

    fn approve(desk: &Desk, key: &SigningKey) -> Envelope {
        let asked = desk.find(&question().call.id()).unwrap();
        let valid = SignedDuration::from_mins(5);
        let said = Statement::new(Verdict::Approve, &asked, "ann", valid, "").unwrap();
        let mut envelope = said.envelope();
        envelope.sign(key);
        desk.answer(&asked, &envelope).unwrap();
        envelope
    }

    fn take(desk: &Desk, approvers: &Approvers) -> Weight {
        let terms = Terms {
            approvers,
            demand: None,
            now: Timestamp::now(),
            last_record: Some(Timestamp::UNIX_EPOCH),
        };
        desk.take(&question(), &terms).unwrap()
    }

    #[test]
    fn an_approval_is_taken_once_however_many_want_it() {
        let dir = tempfile::tempdir().unwrap();
        let desk = Desk::new(dir.path());
        let key = SigningKey::generate().unwrap();
        let approvers = approvers(&key);
        desk.leave(question()).unwrap();
        approve(&desk, &key);
        let taken = std::thread::scope(|scope| {
            let all: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| take(&desk, &approvers)))
                .collect();
            let all = all.into_iter().map(|one| one.join().unwrap());
            all.filter(|one| matches!(one, Weight::Approved(_))).count()
        });
        assert_eq!(taken, 1);
        assert_eq!(desk.waiting(), Ok((Vec::new(), 0)));
    }

    #[test]
    fn an_approval_that_is_put_back_counts_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let desk = Desk::new(dir.path());
        let key = SigningKey::generate().unwrap();
        let approvers = approvers(&key);
        desk.leave(question()).unwrap();
        let envelope = approve(&desk, &key);
        assert!(matches!(take(&desk, &approvers), Weight::Approved(_)));
        desk.leave(question()).unwrap();
        let asked = desk.find(&question().call.id()).unwrap();
        desk.answer(&asked, &envelope).unwrap();
        let again = take(&desk, &approvers);
        assert_eq!(
            again,
            Weight::Refused("the approval was used already".to_owned())
        );
    }

    #[test]
    fn questions_are_few_and_not_old() {
        let dir = tempfile::tempdir().unwrap();
        let desk = Desk::new(dir.path());
        desk.leave(question()).unwrap();
        let id = question().call.id();
        let pending = dir.path().join(DIR).join("pending");
        for number in 0..QUESTIONS + 10 {
            fs::write(pending.join(format!("{number}.json")), "{").unwrap();
        }
        desk.leave(question()).unwrap();
        let left = fs::read_dir(&pending).unwrap().count();
        assert!((QUESTIONS - 1..=QUESTIONS).contains(&left), "{left}");
        assert_eq!(desk.waiting().unwrap().0.len(), 1);
        assert_eq!(desk.prune(), Ok(left - 1));
        assert!(desk.find(&id).is_ok());
        let mut asked = desk.find(&id).unwrap();
        asked.at = Timestamp::now() - KEPT;
        let path = desk.pending(&id);
        replace(&path, &serde_json::to_vec(&asked).unwrap()).unwrap();
        let gone = DeskError(format!("no question `{id}` waits for an answer"));
        assert_eq!(desk.find(&id), Err(gone));
        assert_eq!(desk.prune(), Ok(1));
        assert_eq!(desk.forget(&id), Ok(false));
    }

    #[cfg(unix)]
    #[test]
    fn what_others_can_use_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let desk = Desk::new(dir.path());
        desk.leave(question()).unwrap();
        let id = question().call.id();
        let path = desk.pending(&id);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(
            desk.find(&id)
                .unwrap_err()
                .0
                .ends_with("others than its owner")
        );
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(desk.find(&id).is_err());
    }
}
