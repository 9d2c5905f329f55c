//! The model: a server that answers with scripted turns and keeps every request, so that a case
//! can assert what the agent told its model.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tiny_http::{Header, Method, Response, Server};

use crate::copilot::PATIENCE;
use crate::wire;

/// What the model asks for.
#[derive(Clone)]
pub(crate) enum Call {
    /// A function with JSON arguments.
    Function { name: String, arguments: Value },
    /// A tool that takes free text, as `apply_patch` does.
    Custom { name: String, input: String },
}

/// One answer of the model.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) calls: Vec<Call>,
    pub(crate) text: Option<String>,
    /// Serve this turn to the first request that holds this text, and not in order. A sub-agent's
    /// requests arrive between those of its parent.
    only_for: Option<String>,
}

impl Turn {
    /// Calls one tool.
    pub(crate) fn call(name: &str, arguments: Value) -> Self {
        Self {
            calls: vec![Call::Function {
                name: name.to_owned(),
                arguments,
            }],
            text: None,
            only_for: None,
        }
    }

    /// Calls the shell tool.
    pub(crate) fn bash(command: &str) -> Self {
        Self::call(
            "bash",
            json!({"command": command, "description": "Run a command"}),
        )
    }

    /// Calls `apply_patch`.
    pub(crate) fn patch(input: &str) -> Self {
        Self {
            calls: vec![Call::Custom {
                name: "apply_patch".to_owned(),
                input: input.to_owned(),
            }],
            text: None,
            only_for: None,
        }
    }

    /// Ends the agent's turn.
    pub(crate) fn say(text: &str) -> Self {
        Self {
            calls: Vec::new(),
            text: Some(text.to_owned()),
            only_for: None,
        }
    }

    /// Calls the other turn's tools in the same answer.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.calls.extend(other.calls);
        self
    }

    /// Keeps the turn for the conversation that holds `text`.
    pub(crate) fn only_for(mut self, text: &str) -> Self {
        self.only_for = Some(text.to_owned());
        self
    }
}

/// A request that carried tools, hence a step of an agent.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) body: Value,
    arrived: Instant,
    answered: Instant,
}

struct Script {
    turns: Vec<Option<Turn>>,
    requests: Vec<Request>,
}

impl Script {
    /// The turn for a request and its number, which makes up the ids of its calls.
    fn next(&mut self, text: &str) -> (usize, Turn) {
        let meant = |turn: &Option<Turn>| {
            turn.as_ref()
                .and_then(|turn| turn.only_for.as_deref())
                .is_some_and(|only_for| text.contains(only_for))
        };
        let in_order =
            |turn: &Option<Turn>| turn.as_ref().is_some_and(|turn| turn.only_for.is_none());
        let found = self
            .turns
            .iter()
            .position(meant)
            .or_else(|| self.turns.iter().position(in_order));
        found
            .and_then(|number| Some((number, self.turns.get_mut(number)?.take()?)))
            .unwrap_or_else(|| (self.turns.len(), Turn::say("done")))
    }
}

/// The running server.
pub(crate) struct MockModel {
    server: Arc<Server>,
    script: Arc<Mutex<Script>>,
    thread: Option<JoinHandle<()>>,
}

impl MockModel {
    /// Starts to listen; once the turns are used up the model says that it is done.
    pub(crate) fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        let server = Arc::new(Server::http("127.0.0.1:0").expect("a port is free"));
        let script = Arc::new(Mutex::new(Script {
            turns: turns.into_iter().map(Some).collect(),
            requests: Vec::new(),
        }));
        let thread = {
            let (server, script) = (Arc::clone(&server), Arc::clone(&script));
            thread::spawn(move || {
                for request in server.incoming_requests() {
                    answer(request, &script);
                }
            })
        };
        Self {
            server,
            script,
            thread: Some(thread),
        }
    }

    /// The base URL for the client.
    pub(crate) fn url(&self) -> String {
        let address = self.server.server_addr().to_ip().expect("a TCP listener");
        format!("http://{address}/v1")
    }

    /// The agents' requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.script
            .lock()
            .expect("the server lives")
            .requests
            .clone()
    }

    /// Waits until the agents made so many requests, for drivers that cannot tell when a turn
    /// ends.
    pub(crate) fn wait_for_requests(&self, number: usize) {
        let started = Instant::now();
        while self.requests().len() < number {
            assert!(started.elapsed() < PATIENCE, "{number} requests never came");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the model was told about a call: `turn` counts the script's turns, and the call is
    /// the first of that turn.
    pub(crate) fn told(&self, turn: usize) -> String {
        self.told_of(turn, 0)
    }

    /// What the model was told about the turn's call with this number.
    pub(crate) fn told_of(&self, turn: usize, call: usize) -> String {
        let id = wire::call_id(turn, call);
        let told: BTreeMap<String, String> = self
            .requests()
            .iter()
            .flat_map(|request| wire::tool_results(&request.body))
            .collect();
        told.get(&id)
            .unwrap_or_else(|| panic!("the model never heard about {id}, only {told:?}"))
            .clone()
    }

    /// How long the agent took from the answer with this number to its next request.
    pub(crate) fn pause_after(&self, answer: usize) -> Duration {
        let requests = self.requests();
        let before = requests.get(answer).expect("the request was made");
        let after = requests
            .get(answer + 1)
            .expect("another request was made after it");
        after.arrived.duration_since(before.answered)
    }
}

impl Drop for MockModel {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            // A panic of the server shows in the case itself, as an answer that never came.
            let _ = thread.join();
        }
    }
}

fn answer(mut request: tiny_http::Request, script: &Mutex<Script>) {
    let arrived = Instant::now();
    let mut text = String::new();
    request
        .as_reader()
        .read_to_string(&mut text)
        .expect("the client sends UTF-8");
    if *request.method() == Method::Get {
        let models = json!({"object": "list", "data": []}).to_string();
        send(request, models, "application/json");
        return;
    }
    let body: Value = serde_json::from_str(&text).expect("the client sends JSON");
    let has_tools = body
        .get("tools")
        .and_then(Value::as_array)
        .is_some_and(|tools| !tools.is_empty());
    let mut script = script.lock().expect("cases only read");
    // A request without tools asks for a title or the like, and is no step of the agent.
    let (number, turn) = if has_tools {
        script.next(&text)
    } else {
        (0, Turn::say("A title"))
    };
    let stream = if request.url().ends_with("/responses") {
        wire::responses(number, &turn)
    } else {
        wire::chat_completion(number, &turn)
    };
    send(request, stream, "text/event-stream");
    if has_tools {
        script.requests.push(Request {
            body,
            arrived,
            answered: Instant::now(),
        });
    }
}

fn send(request: tiny_http::Request, body: String, content_type: &str) {
    let header = Header::from_bytes("content-type", content_type).expect("a valid header");
    // The client may have been ended by its case in the meantime.
    let _ = request.respond(Response::from_string(body).with_header(header));
}
