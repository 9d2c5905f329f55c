//! An MCP server behind this program: a child process or an address, spoken to with rmcp's client.
//!
//! It is started when it is first needed, and again after it ended, with a pause that grows. What it
//! sends is bounded in size and in time.

mod child;
mod news;
pub mod pins;
mod web;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, JsonObject, ListToolsRequest, MetaObject, PaginatedRequestParams,
    ProtocolVersion, RequestId, RequestMetaObject, ServerResult, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RunningService,
    ServiceError, serve_client_with_lifecycle,
};
use rmcp::{RoleClient, ServiceError as Failed};
use tokio::sync::{Mutex, mpsc};

use child::Flow;
pub use child::Program;
use news::News;
pub use news::Progress;
pub use web::Address;

/// No server has more tools.
const TOOLS: usize = 1_000;

/// No list has more pages.
const PAGES: usize = 100;

/// The pause after a server ended, which doubles each time.
const PAUSE: Duration = Duration::from_millis(250);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Nobody waits longer for the end of a pause.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whoever ran so long did not fail at once.
const STEADY: Duration = Duration::from_secs(60);

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Place {
    /// Behind stdin and stdout of a child process.
    Child(Program),
    /// At an address, over Streamable HTTP.
    Web(Address),
}

impl Place {
    /// What a pin is bound to: whoever takes a server's name and its words, but is started by another
    /// command line or has another address, is another server.
    #[must_use]
    pub fn identity(&self) -> String {
        match self {
            Self::Child(program) => program.identity(),
            Self::Web(address) => address.identity(),
        }
    }
}

/// What a server may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Until it is ready.
    pub start: Duration,
    /// For the list of its tools.
    pub list: Duration,
    /// For a call, without a sign of progress.
    pub call: Duration,
    /// For a call, with all progress.
    pub whole_call: Duration,
    /// The bytes of one message.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            list: Duration::from_secs(15),
            call: Duration::from_secs(120),
            whole_call: Duration::from_secs(3600),
            bytes: 4 << 20,
        }
    }
}

/// How the depth of a chain of calls is said to a server.
#[derive(Debug, Clone, Copy)]
pub struct Hop {
    /// The key in `_meta`.
    pub key: &'static str,
    /// The HTTP header, for servers that know no such key.
    pub header: &'static str,
}

/// Why a server did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// In our words.
    Ours(String),
    /// In the server's own words, which nobody has judged.
    Theirs(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Ours(text) | Self::Theirs(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Trouble {}

/// A server, running or not.
#[derive(Debug)]
pub struct Server {
    name: String,
    place: Place,
    bounds: Bounds,
    hop: Hop,
    news: News,
    flow: Arc<Flow>,
    link: Mutex<Link>,
}

#[derive(Debug, Default)]
struct Link {
    running: Option<(RunningService<RoleClient, News>, Instant)>,
    failures: u32,
    pause: Option<Instant>,
}

impl Server {
    /// A server that is not started yet.
    #[must_use]
    pub fn new(name: &str, place: Place, bounds: Bounds, hop: Hop) -> Self {
        Self {
            name: name.to_owned(),
            place,
            bounds,
            hop,
            news: News::default(),
            flow: Arc::new(Flow::new(bounds.bytes)),
            link: Mutex::new(Link::default()),
        }
    }

    /// The name that policies and the record know it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number that is another one as soon as the server says that its tools have changed, or was
    /// started again.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.news.changes()
    }

    /// Starts it, if it does not run.
    ///
    /// # Errors
    /// If it is not ready in time. In our words.
    pub async fn start(&self) -> Result<(), Trouble> {
        self.peer().await.map(drop)
    }

    /// The tools as the server describes them now.
    ///
    /// # Errors
    /// If it does not answer in time, or what it answers is no list of tools. In our words.
    pub async fn tools(&self, meta: &JsonObject) -> Result<Vec<Tool>, Trouble> {
        let peer = self.peer().await?;
        let listing = async {
            let (mut tools, mut cursor) = (Vec::new(), None);
            for _ in 0..PAGES {
                let params = PaginatedRequestParams::default().with_cursor(cursor);
                let request = ListToolsRequest {
                    params: Some(params),
                    ..ListToolsRequest::default()
                };
                let request = ClientRequest::ListToolsRequest(request);
                let options = PeerRequestOptions::no_options().with_meta(with(meta));
                let answer = self.ask(&peer, request, options, None).await?;
                let ServerResult::ListToolsResult(page) = answer else {
                    return Err(self.ours("sent no list of tools"));
                };
                tools.extend(page.tools);
                if tools.len() > TOOLS {
                    return Err(self.ours(&format!("has more than {TOOLS} tools")));
                }
                cursor = page.next_cursor;
                if cursor.is_none() {
                    return Ok(tools);
                }
            }
            Err(self.ours(&format!("has more than {PAGES} pages of tools")))
        };
        match tokio::time::timeout(self.bounds.list, listing).await {
            Ok(Err(Trouble::Theirs(_))) => Err(self.ours("refuses to list its tools")),
            Ok(listed) => listed,
            Err(_) => Err(self.late("list its tools", self.bounds.list)),
        }
    }

    /// Calls a tool by the server's own name of it.
    ///
    /// # Errors
    /// If there is no result, or a larger one than anybody looks at.
    pub async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        meta: &JsonObject,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<CallToolResult, Trouble> {
        let peer = self.peer().await?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::with_timeout(self.bounds.call)
            .with_meta(with(meta))
            .reset_timeout_on_progress()
            .with_max_total_timeout(self.bounds.whole_call);
        match self.ask(&peer, request, options, progress).await? {
            ServerResult::CallToolResult(result) => {
                let bytes = serde_json::to_vec(&result).map_or(usize::MAX, |text| text.len());
                if bytes > self.bounds.bytes {
                    return Err(self.ours(&format!(
                        "answered with {bytes} bytes, and {} are taken",
                        self.bounds.bytes
                    )));
                }
                Ok(result)
            }
            ServerResult::InputRequiredResult(_) => {
                Err(self.ours("wants to ask a person, and that is not passed on"))
            }
            ServerResult::CreateTaskResult(_) => {
                Err(self.ours("made a task of the call, and that is not passed on"))
            }
            _ => Err(self.ours("sent something that is no result of a tool")),
        }
    }

    /// Ends the server, if it runs.
    pub async fn stop(&self) {
        let running = self.link.lock().await.running.take();
        if let Some((mut running, _)) = running {
            let _ = running.close_with_timeout(child::GRACE * 3).await;
        }
    }

    async fn ask(
        &self,
        peer: &Peer<RoleClient>,
        request: ClientRequest,
        options: PeerRequestOptions,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<ServerResult, Trouble> {
        self.flow.asked();
        let sent = peer.send_cancellable_request(request, options).await;
        let handle = sent.map_err(|error| self.failed(&error))?;
        let mut cancel = Cancel(Some((peer.clone(), handle.id.clone())));
        let watched = progress.map(|to| self.news.watch(handle.progress_token.clone(), to));
        let answer = handle.await_response().await;
        cancel.0 = None;
        drop(watched);
        answer.map_err(|error| self.failed(&error))
    }

    /// The running server; it is started if it is not.
    async fn peer(&self) -> Result<Peer<RoleClient>, Trouble> {
        let mut link = self.link.lock().await;
        if let Some((running, began)) = &link.running {
            if !running.is_closed() && !running.is_transport_closed() {
                return Ok(running.peer().clone());
            }
            let steady = began.elapsed() >= STEADY;
            link.ended(steady);
        }
        if let Some(until) = link.pause {
            let pause = until.saturating_duration_since(Instant::now());
            if pause > PATIENCE {
                let seconds = pause.as_secs() + 1;
                return Err(self.ours(&format!(
                    "keeps ending, and is not started again for {seconds} s{}",
                    self.why()
                )));
            }
            tokio::time::sleep(pause).await;
        }
        let began = Instant::now();
        match tokio::time::timeout(self.bounds.start, self.connect()).await {
            Ok(Ok(running)) => {
                let peer = running.peer().clone();
                link.running = Some((running, began));
                self.news.note_change();
                Ok(peer)
            }
            Ok(Err(trouble)) => {
                link.ended(false);
                Err(trouble)
            }
            Err(_) => {
                link.ended(false);
                Err(self.late("begin as the protocol says", self.bounds.start))
            }
        }
    }

    async fn connect(&self) -> Result<RunningService<RoleClient, News>, Trouble> {
        self.flow.begin();
        let news = self.news.clone();
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        let running = match &self.place {
            Place::Child(program) => {
                let transport = program
                    .start(Arc::clone(&self.flow))
                    .map_err(|text| Trouble::Ours(format!("the server `{}` {text}", self.name)))?;
                serve_client_with_lifecycle(news, transport, lifecycle).await
            }
            Place::Web(address) => {
                let transport = address
                    .connect(self.hop, self.bounds.bytes)
                    .map_err(|text| Trouble::Ours(format!("the server `{}` {text}", self.name)))?;
                serve_client_with_lifecycle(news, transport, lifecycle).await
            }
        };
        running.map_err(|error| match error {
            ClientInitializeError::TransportError { .. } => {
                self.ours(&format!("cannot be reached{}", self.why()))
            }
            ClientInitializeError::ConnectionClosed(_) => {
                self.ours(&format!("ended before it was ready{}", self.why()))
            }
            _ => self.ours(&format!("does not speak MCP as we do{}", self.why())),
        })
    }

    fn failed(&self, error: &Failed) -> Trouble {
        match error {
            ServiceError::McpError(error) => {
                Trouble::Theirs(format!("Error {}: {}", error.code.0, error.message))
            }
            ServiceError::Timeout { timeout } => self.late("answer", *timeout),
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                self.ours(&format!("ended before it answered{}", self.why()))
            }
            ServiceError::TransportSend(_) => {
                self.ours(&format!("cannot be reached{}", self.why()))
            }
            _ => self.ours("sent something that is no answer"),
        }
    }

    fn ours(&self, what: &str) -> Trouble {
        Trouble::Ours(format!("the server `{}` {what}", self.name))
    }

    fn late(&self, what: &str, bound: Duration) -> Trouble {
        self.ours(&format!("did not {what} within {} s", bound.as_secs()))
    }

    /// What it was cut off for, if it was.
    fn why(&self) -> String {
        self.flow
            .fault()
            .map_or_else(String::new, |why| format!(": {why}"))
    }
}

impl Link {
    fn ended(&mut self, steady: bool) {
        self.running = None;
        self.failures = if steady {
            1
        } else {
            self.failures.saturating_add(1)
        };
        let doubled = 1_u32 << (self.failures - 1).min(16);
        let pause = PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        self.pause = Some(Instant::now() + pause);
    }
}

/// Tells the server that nobody waits any more.
struct Cancel(Option<(Peer<RoleClient>, RequestId)>);

impl Drop for Cancel {
    fn drop(&mut self) {
        let Some((peer, id)) = self.0.take() else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let why = "the client cancelled the call".to_owned();
                let params = CancelledNotificationParam::new(Some(id), Some(why));
                let _ = peer.notify_cancelled(params).await;
            });
        }
    }
}

fn with(meta: &JsonObject) -> RequestMetaObject {
    let mut all = MetaObject::default();
    for (key, value) in meta {
        all.insert(key.clone(), value.clone());
    }
    RequestMetaObject(all)
}
