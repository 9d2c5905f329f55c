//! Finds the real Copilot CLI, prepares the home that all runs share, and hands out the slots
//! that keep the number of clients running at a time small.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, OnceLock};

/// Where to look for the client: its native binary, or the loader that npm installs.
const PATH_VARIABLE: &str = "COPILOT_BRIDGE_E2E_COPILOT";
/// Set to `1` where a missing client must not go unnoticed.
const REQUIRED_VARIABLE: &str = "COPILOT_BRIDGE_E2E_REQUIRED";
/// A client keeps about one core busy while it starts.
const CLIENTS_AT_A_TIME: usize = 2;

/// The client under which the hooks run.
pub(crate) struct Client {
    pub(crate) program: PathBuf,
    /// `HOME` of every run. The client unpacks some 235 MB into it on its first start, so it is
    /// kept; what must differ from case to case lies in `COPILOT_HOME`.
    pub(crate) home: PathBuf,
}

/// The client, or `None` after saying that `case` is skipped.
pub(crate) fn find(case: &str) -> Option<&'static Client> {
    static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        let program = PathBuf::from(env::var_os(PATH_VARIABLE)?);
        program.is_file().then(|| prepare(program))
    });
    if client.is_none() {
        assert!(
            env::var_os(REQUIRED_VARIABLE).is_none_or(|value| value != "1"),
            "{REQUIRED_VARIABLE}=1, but {PATH_VARIABLE} does not name the Copilot CLI"
        );
        skip(
            case,
            &format!("end-to-end tests need the Copilot CLI; set {PATH_VARIABLE}"),
        );
    }
    client.as_ref()
}

/// Says on the real stderr that a case did not run; the test harness would swallow `eprintln!`
/// in a case that passes.
pub(crate) fn skip(case: &str, why: &str) {
    let line = format!("{case}: skipped: {why}\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr is open");
}

/// Lets the client unpack itself once, before two of them could do it at the same time.
fn prepare(program: PathBuf) -> Client {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("copilot-cli-home");
    fs::create_dir_all(&home).expect("the target directory is writable");
    let version = Command::new(&program)
        .arg("--version")
        .env("HOME", &home)
        .env("COPILOT_AUTO_UPDATE", "false")
        .stdin(Stdio::null())
        .output()
        .expect("the Copilot CLI starts");
    assert!(
        version.status.success(),
        "{} --version: {}",
        program.display(),
        String::from_utf8_lossy(&version.stderr)
    );
    Client { program, home }
}

struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

static SLOTS: Slots = Slots {
    free: Mutex::new(CLIENTS_AT_A_TIME),
    freed: Condvar::new(),
};

/// The right to run a client, or every client's.
pub(crate) struct Slot {
    size: usize,
}

impl Slot {
    /// For a case that may run beside another one.
    pub(crate) fn one() -> Self {
        Self::take(1)
    }

    /// For a case that changes what other clients on this machine would see.
    pub(crate) fn all() -> Self {
        Self::take(CLIENTS_AT_A_TIME)
    }

    fn take(size: usize) -> Self {
        let free = SLOTS.free.lock().expect("no case panics in here");
        let mut free = SLOTS
            .freed
            .wait_while(free, |free| *free < size)
            .expect("no case panics in here");
        *free -= size;
        Self { size }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Ok(mut free) = SLOTS.free.lock() {
            *free += self.size;
        }
        SLOTS.freed.notify_all();
    }
}
