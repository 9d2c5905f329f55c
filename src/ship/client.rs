//! One request, and what its answer means. What a sink says is not trusted: it is bounded, and shown only
//! where the protocol asks for that.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use prost::Message;
use ureq::http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Error};

use super::ShipError;
use super::sink::{Form, Request, Sink};
use crate::facts::paths::words;

/// No answer is read further.
const LARGEST: u64 = 64 << 10;

/// No message of a sink is shown longer, in characters.
const SHOWN: usize = 200;

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);

/// What an answer means.
#[derive(Debug)]
pub(super) enum Answer {
    /// The lines arrived, but for so many that the sink does not want.
    Taken { rejected: u64, message: String },
    /// Fewer lines may arrive.
    TooLarge,
    /// The same may arrive later, but not before so long.
    Again {
        why: String,
        after: Option<Duration>,
    },
    /// It will never arrive like that.
    Refused(String),
}

/// A connection to a sink.
#[derive(Debug, Clone)]
pub(super) struct Client {
    agent: Agent,
    sink: Arc<Sink>,
}

impl Client {
    pub(super) fn new(sink: &Sink, timeout: Duration) -> Result<Self, ShipError> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(!sink.is_plain())
            // A header with a secret goes to the address that was named, and nowhere else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout.min(CONNECT)))
            .user_agent(concat!("copilot-bridge/", env!("CARGO_PKG_VERSION")));
        if !sink.is_plain() {
            config = config.tls_config(tls()?);
        }
        Ok(Self {
            agent: config.build().into(),
            sink: Arc::new(sink.clone()),
        })
    }

    /// Sends a request and reads the answer.
    pub(super) fn post(&self, request: &Request) -> Answer {
        let (form, place) = (self.sink.form(), self.sink.place());
        let content = match form {
            Form::Otlp { .. } => "application/x-protobuf",
            Form::Ndjson => "application/x-ndjson",
        };
        let mut post = self
            .agent
            .post(self.sink.url())
            .header(CONTENT_TYPE, content)
            .header("Idempotency-Key", &request.key);
        if self.sink.is_gzip() {
            post = post.header(CONTENT_ENCODING, "gzip");
        }
        for (name, value) in self.sink.headers() {
            post = post.header(name, value);
        }
        let mut response = match post.send(request.body.as_slice()) {
            Ok(response) => response,
            Err(error) => return failed(&place, &error),
        };
        let status = response.status();
        let again = |why: String| Answer::Again {
            why,
            after: wait(response.headers(), Timestamp::now()),
        };
        match status.as_u16() {
            200..=299 => {}
            413 => return Answer::TooLarge,
            408 | 429 | 500..=599 => return again(said(&place, status)),
            300..=399 => {
                return Answer::Refused(format!(
                    "{}: redirections are not followed",
                    said(&place, status)
                ));
            }
            _ => return Answer::Refused(said(&place, status)),
        }
        let body = body(&mut response);
        match form {
            // Its status says it all.
            Form::Ndjson => Answer::Taken {
                rejected: 0,
                message: String::new(),
            },
            Form::Otlp { .. } => match body.and_then(|body| success(&response, &body)) {
                Some((rejected, message)) => Answer::Taken {
                    rejected,
                    message: self.shown(&message),
                },
                None => Answer::Again {
                    why: format!("{}, but not as OTLP does", said(&place, status)),
                    after: None,
                },
            },
        }
    }

    /// A message of the sink, without what could steer a terminal, and not if it tells a secret of ours.
    fn shown(&self, message: &str) -> String {
        let tells = |secret: &str| !secret.is_empty() && message.contains(secret);
        let secrets = self.sink.headers().iter();
        let told = secrets
            .filter_map(|(_, value)| value.to_str().ok())
            .flat_map(str::split_whitespace)
            .any(tells);
        if told {
            return "its message is not shown, because a header's value is in it".to_owned();
        }
        printable(message)
    }
}

/// TLS with the roots that the system trusts.
fn tls() -> Result<TlsConfig, ShipError> {
    let found = rustls_native_certs::load_native_certs();
    let certs: Vec<Certificate<'static>> = found
        .certs
        .iter()
        .map(|cert| Certificate::from_der(cert).to_owned())
        .collect();
    if certs.is_empty() {
        return Err(ShipError(
            "the system trusts no certificate authority\nhelp: install `ca-certificates`"
                .to_owned(),
        ));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::from(certs))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

fn said(place: &str, status: StatusCode) -> String {
    // The words behind the number are the sink's own.
    let words = status.canonical_reason().unwrap_or_default();
    format!("`{place}` answered {} {words}", status.as_u16())
        .trim_end()
        .to_owned()
}

/// There is no answer.
fn failed(place: &str, error: &Error) -> Answer {
    let why = format!("cannot send to `{place}`: {}", reason(error));
    let refused = match error {
        Error::Rustls(error) => is_untrusted(error),
        Error::Io(error) => error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
            .is_some_and(is_untrusted),
        Error::Http(_) | Error::BadUri(_) | Error::RequireHttpsOnly(_) => true,
        _ => false,
    };
    if refused {
        Answer::Refused(why)
    } else {
        Answer::Again { why, after: None }
    }
}

const fn is_untrusted(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(_))
}

fn reason(error: &Error) -> String {
    let text = match error {
        Error::Timeout(_) => "it takes too long".to_owned(),
        Error::Io(error) => words(error),
        Error::Protocol(_) => "what answers is no HTTP server".to_owned(),
        error => error.to_string(),
    };
    printable(&text)
}

fn printable(text: &str) -> String {
    text.chars()
        .take(SHOWN)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// The body, if it is one and not too long.
fn body(response: &mut Response<Body>) -> Option<Vec<u8>> {
    let body = response.body_mut().with_config().limit(LARGEST);
    body.read_to_vec().ok()
}

/// How many lines an OTLP server does not want, and why. Nothing if that is no OTLP.
fn success(response: &Response<Body>, body: &[u8]) -> Option<(u64, String)> {
    let kind = response.headers().get(CONTENT_TYPE);
    let json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let answer = match body {
        // Some servers have nothing to say where all went well.
        [] => ExportLogsServiceResponse::default(),
        body if json => serde_json::from_slice(body).ok()?,
        body => ExportLogsServiceResponse::decode(body).ok()?,
    };
    let partial = answer.partial_success.unwrap_or_default();
    let rejected = u64::try_from(partial.rejected_log_records).unwrap_or(0);
    Some((rejected, partial.error_message))
}

/// How long the sink asks to wait: seconds, or a date.
fn wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let (date, now) = (SystemTime::from(date), SystemTime::from(now));
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_asks_to_wait_in_seconds_or_until_a_date() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        let asked = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            wait(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(asked("0"), Some(0));
        assert_eq!(asked(" 120 "), Some(120));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(37));
        assert_eq!(asked("Sun, 06 Nov 1994 08:48:37 GMT"), Some(0));
        for none in ["", "-1", "soon", "1e3", "99999999999999999999999"] {
            assert_eq!(asked(none), None, "{none}");
        }
        assert_eq!(wait(&HeaderMap::new(), now), None);
    }
}
