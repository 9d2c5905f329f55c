//! A server as a child process: a process group of its own, few variables, bounded output.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::config;
use crate::facts::paths::words;

/// So long a server may take to end by itself, and again after a signal.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// So much of what a server writes to stderr is passed on, in bytes.
const STDERR: usize = 1 << 20;

/// Between two questions a server may write so many times the largest message.
const FLOOD: usize = 16;

/// The variables that every server gets, where they are set.
const VARIABLES: [&str; 12] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];

/// A command line, without a shell.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Where it is started.
    pub directory: PathBuf,
    /// The variables that it gets besides those that every server gets.
    pub variables: Vec<String>,
    /// How many agents stand above us.
    pub depth: u32,
}

impl Program {
    /// Its command line; with the folder, where a word of it names something there.
    pub(super) fn identity(&self) -> String {
        let words: Vec<_> = self
            .words
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let of_folder = self.words.iter().any(|word| {
            let path = Path::new(word);
            path.is_relative()
                && !word.is_empty()
                && self.directory.join(path).symlink_metadata().is_ok()
        });
        let folder = of_folder.then(|| self.directory.to_string_lossy());
        match folder {
            Some(folder) => json!({"command": words, "in": folder}).to_string(),
            None => json!({"command": words}).to_string(),
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// In words, behind the server's name.
    pub(super) fn start(&self, flow: Arc<Flow>) -> Result<Piped, String> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Err("has no command line".to_owned());
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for name in VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for name in &self.variables {
            let value = std::env::var_os(name)
                .ok_or_else(|| format!("wants the variable `{name}`, which is not set"))?;
            command.env(name, value);
        }
        command.env(config::DEPTH, self.depth.saturating_add(1).to_string());
        let mut child = command.spawn().map_err(|error| {
            let program = program.to_string_lossy();
            format!("cannot be started: `{program}`: {}", words(&error))
        })?;
        let (stdin, stdout, stderr) =
            match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
                (Some(stdin), Some(stdout), Some(stderr)) => (stdin, stdout, stderr),
                _ => return Err("cannot be started: it has no pipes".to_owned()),
            };
        tokio::spawn(pass_on(stderr));
        let stdout = Bounded {
            inner: stdout,
            line: 0,
            flow,
        };
        Ok(Piped {
            // The bound is ours: rmcp would skip what is too long, and somebody would wait for it.
            pipes: AsyncRwTransport::new(stdout, stdin).with_max_line_length(usize::MAX),
            group: Group(child),
        })
    }
}

/// The pipes of a child process.
pub(super) struct Piped {
    pipes: AsyncRwTransport<RoleClient, Bounded<ChildStdout>, ChildStdin>,
    group: Group,
}

impl Transport<RoleClient> for Piped {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.pipes.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.pipes.receive()
    }

    /// As the protocol says: its stdin ends, then it is asked to end, then it is ended.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.pipes.close().await?;
        if tokio::time::timeout(GRACE, self.group.0.wait())
            .await
            .is_err()
        {
            self.group.signal(Signal::SIGTERM);
            let _ = tokio::time::timeout(GRACE, self.group.0.wait()).await;
        }
        Ok(())
    }
}

/// A child process and all that it started, which end with it.
#[derive(Debug)]
struct Group(Child);

impl Group {
    fn signal(&self, signal: Signal) {
        // Without an id it was waited for, and the group may be another's.
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// How much a server writes, and why it was cut off.
#[derive(Debug)]
pub(super) struct Flow {
    limit: usize,
    since: AtomicUsize,
    fault: Mutex<Option<&'static str>>,
}

impl Flow {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            since: AtomicUsize::new(0),
            fault: Mutex::new(None),
        }
    }

    /// A server is started.
    pub(super) fn begin(&self) {
        self.asked();
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A server is asked something: what it writes now may be the answer.
    pub(super) fn asked(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    pub(super) fn fault(&self) -> Option<&'static str> {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self, why: &'static str) -> io::Error {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

/// A stream that ends where it is too much.
struct Bounded<R> {
    inner: R,
    /// The bytes of the line that is being read.
    line: usize,
    flow: Arc<Flow>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let this = self.get_mut();
        ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        match this.look(read) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(error) => {
                // Whoever fails has read nothing.
                buffer.set_filled(before);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<R> Bounded<R> {
    fn look(&mut self, read: &[u8]) -> io::Result<()> {
        let limit = self.flow.limit;
        for part in read.split_inclusive(|byte| *byte == b'\n') {
            self.line = self.line.saturating_add(part.len());
            if self.line > limit {
                return Err(self.flow.cut("it wrote a longer message than is taken"));
            }
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
        let since = self.flow.since.fetch_add(read.len(), Ordering::Relaxed);
        if since > limit.saturating_mul(FLOOD) {
            return Err(self.flow.cut("it wrote much more than it was asked for"));
        }
        Ok(())
    }
}

/// Passes on what a server writes to stderr, without what a terminal would obey.
async fn pass_on(mut from: ChildStderr) {
    let mut buffer = [0; 4096];
    let mut left = STDERR;
    let mut to = tokio::io::stderr();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if left == 0 {
            continue;
        }
        let taken = read.min(left);
        left -= taken;
        let text = String::from_utf8_lossy(buffer.get(..taken).unwrap_or_default());
        let text = text.replace(
            |c: char| c.is_control() && !matches!(c, '\n' | '\t'),
            "\u{fffd}",
        );
        let _ = to.write_all(text.as_bytes()).await;
        if left == 0 {
            let _ = to
                .write_all(b"\n[what else the server writes is left out]\n")
                .await;
        }
        let _ = to.flush().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], limit: usize) -> (usize, Option<&'static str>) {
        let flow = Arc::new(Flow::new(limit));
        let mut bounded = Bounded {
            inner: bytes,
            line: 0,
            flow: Arc::clone(&flow),
        };
        let mut all = Vec::new();
        let _ = bounded.read_to_end(&mut all).await;
        (all.len(), flow.fault())
    }

    #[tokio::test]
    async fn a_line_may_be_so_long() {
        assert_eq!(read(b"abc\nabcd\n", 5).await, (9, None));
        let (_, fault) = read(b"abc\nabcdef\n", 5).await;
        assert_eq!(fault, Some("it wrote a longer message than is taken"));
    }

    #[tokio::test]
    async fn many_lines_are_too_much_as_well() {
        let lines = "abc\n".repeat(4096);
        let (_, fault) = read(lines.as_bytes(), 5).await;
        assert_eq!(fault, Some("it wrote much more than it was asked for"));
    }
}
