//! A sink: an HTTP server that keeps what it took, and answers as it is told to.

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// A request, as it came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) path: String,
    headers: Vec<(String, String)>,
    /// Without its compression.
    pub(super) body: Vec<u8>,
    /// The answer's status.
    status: u16,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.body.clone()).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        text.lines().map(str::to_owned).collect()
    }
}

/// An answer.
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Reply {
    pub(super) fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

pub(super) struct Server {
    address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// A server that takes all.
    pub(super) fn kind() -> Self {
        Self::new(|_| Reply::status(200))
    }

    /// A server that answers like that.
    pub(super) fn new(mut answer: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
        let address = server.server_addr().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        thread::spawn(move || {
            for mut request in server.incoming_requests() {
                let mut body = Vec::new();
                // A client that was killed may have sent half of it.
                let read = request.as_reader().read_to_end(&mut body);
                let headers: Vec<(String, String)> = request
                    .headers()
                    .iter()
                    .map(|one| (one.field.to_string(), one.value.to_string()))
                    .collect();
                let mut one = Seen {
                    path: request.url().to_owned(),
                    headers,
                    body,
                    status: 0,
                };
                let length = one.header("content-length").parse().unwrap_or(0);
                if read.is_err() || one.body.len() != length {
                    continue;
                }
                if one.header("content-encoding") == "gzip" {
                    let mut plain = Vec::new();
                    flate2::read::GzDecoder::new(one.body.as_slice())
                        .read_to_end(&mut plain)
                        .unwrap();
                    one.body = plain;
                }
                let reply = answer(&one);
                one.status = reply.status;
                all.lock().unwrap().push(one);
                let mut response =
                    tiny_http::Response::from_data(reply.body).with_status_code(reply.status);
                for (name, value) in reply.headers {
                    let header = tiny_http::Header::from_bytes(name, value).unwrap();
                    response.add_header(header);
                }
                let _ = request.respond(response);
            }
        });
        Self { address, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// All requests, whatever their answer was.
    pub(super) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What was taken.
    pub(super) fn envelopes(&self) -> Vec<Value> {
        self.requests()
            .iter()
            .filter(|one| one.status == 200)
            .flat_map(Seen::lines)
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect()
    }

    /// The lines of the record that were taken; each has the id that it says.
    pub(super) fn text(&self) -> String {
        self.envelopes()
            .iter()
            .map(|envelope| {
                let line = envelope["line"].as_str().unwrap();
                assert_eq!(envelope["id"], super::record::id(line.as_bytes()));
                format!("{line}\n")
            })
            .collect()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64())
            .map(Option::unwrap)
            .collect()
    }
}
