//! Where lines are sent, and in which form.

use std::net::IpAddr;

use data_encoding::{BASE64, HEXLOWER};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::Write;
use ureq::http::{HeaderName, HeaderValue};
use url::{Host, Url};

use super::ShipError;
use super::spool::Line;
use crate::audit::export::otel;

/// What the path of an address for OTLP ends in.
const OTLP_PATH: &str = "/v1/logs";

/// The form of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// OTLP over HTTP, in protobuf.
    Otlp {
        /// Whether each line goes along as it is.
        original: bool,
    },
    /// One JSON object a line, with the line of the record as a text.
    Ndjson,
}

impl Form {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Otlp { .. } => "otlp",
            Self::Ndjson => "http",
        }
    }
}

/// Where lines are sent.
#[derive(Debug, Clone)]
pub struct Sink {
    form: Form,
    url: Url,
    gzip: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What is sent.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) body: Vec<u8>,
    pub(super) key: String,
}

/// A line in NDJSON. It is a text there, because whoever reads JSON and writes it again may change numbers and
/// escapes, and the line would not fit its id any more.
#[derive(Serialize)]
struct Envelope<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<&'a str>,
    /// Of what is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Of what is longer than any line of the record: it is not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
}

impl Sink {
    /// A sink at an address.
    ///
    /// # Errors
    /// If it is no address of a sink, or its lines would go over the network for all to read.
    pub fn new(form: Form, address: &str, gzip: bool, insecure: bool) -> Result<Self, ShipError> {
        let wrong = |why: &str| Err(ShipError(why.to_owned()));
        let Ok(mut url) = Url::parse(address) else {
            return wrong("the address of the sink is none: `https://host/path`");
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong(
                "the address of the sink has a user or a password in it, for all to see\nhelp: `--header-env Authorization=VARIABLE`",
            );
        }
        match url.scheme() {
            "https" => {}
            "http" if insecure || is_here(&url) => {}
            "http" => {
                return wrong(
                    "the address of the sink is plain `http`, and not on this machine\nhelp: `https://`, or `--insecure`",
                );
            }
            _ => return wrong("the address of the sink is neither `https` nor `http`"),
        }
        url.set_fragment(None);
        if matches!(form, Form::Otlp { .. }) && !url.path().ends_with(OTLP_PATH) {
            let path = format!("{}{OTLP_PATH}", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Ok(Self {
            form,
            url,
            gzip,
            headers: Vec::new(),
        })
    }

    /// Adds a header to each request.
    ///
    /// # Errors
    /// If it is no header, or one of those that the form needs. The value is never told.
    pub fn header(&mut self, name: &str, value: &str) -> Result<(), ShipError> {
        let Ok(header) = name.parse::<HeaderName>() else {
            return Err(ShipError(
                "a header has no name that one can have".to_owned(),
            ));
        };
        let own = [
            "connection",
            "content-encoding",
            "content-length",
            "content-type",
            "expect",
            "host",
            "idempotency-key",
            "transfer-encoding",
        ];
        if own.contains(&header.as_str()) {
            return Err(ShipError(format!("the header `{name}` is ours")));
        }
        let Ok(mut value) = value.parse::<HeaderValue>() else {
            return Err(ShipError(format!(
                "the value for the header `{name}` cannot be one"
            )));
        };
        value.set_sensitive(true);
        self.headers.push((header, value));
        Ok(())
    }

    /// The id of the sink: by its form and address.
    #[must_use]
    pub fn id(&self) -> String {
        let digest = Sha256::digest(format!("{} {}", self.form.name(), self.url));
        HEXLOWER
            .encode(&digest)
            .chars()
            .take(16)
            .collect::<String>()
    }

    /// The address, as it may be shown: a query can hold a secret.
    #[must_use]
    pub fn place(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.into()
    }

    pub(super) const fn form(&self) -> Form {
        self.form
    }

    pub(super) fn url(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }

    pub(super) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    pub(super) const fn is_gzip(&self) -> bool {
        self.gzip
    }

    /// The request for some lines.
    pub(super) fn request(&self, lines: &[Line]) -> Result<Request, ShipError> {
        let body = match self.form {
            Form::Otlp { original } => otlp(lines, original),
            Form::Ndjson => ndjson(lines)?,
        };
        let mut ids = Sha256::new();
        for line in lines {
            ids.update(&line.id);
        }
        let body = if self.gzip { zip(&body)? } else { body };
        Ok(Request {
            body,
            key: format!("\"{}\"", HEXLOWER.encode(&ids.finalize())),
        })
    }
}

fn otlp(lines: &[Line], original: bool) -> Vec<u8> {
    let options = otel::Options {
        observed: jiff::Timestamp::now(),
        original,
    };
    let lines = lines.iter().map(|line| otel::Line {
        id: &line.id,
        bytes: &line.bytes,
        length: line.length,
    });
    otel::protobuf(&otel::request(lines, options))
}

fn ndjson(lines: &[Line]) -> Result<Vec<u8>, ShipError> {
    let mut body = Vec::new();
    for line in lines {
        let whole = line.bytes.len() as u64 == line.length;
        let text = std::str::from_utf8(&line.bytes).ok().filter(|_| whole);
        let envelope = Envelope {
            id: &line.id,
            line: text,
            base64: (whole && text.is_none()).then(|| BASE64.encode(&line.bytes)),
            length: (!whole).then_some(line.length),
        };
        serde_json::to_writer(&mut body, &envelope)
            .map_err(|error| ShipError(format!("cannot write a line: {error}")))?;
        body.push(b'\n');
    }
    Ok(body)
}

fn zip(body: &[u8]) -> Result<Vec<u8>, ShipError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(body)
        .and_then(|()| encoder.finish())
        .map_err(|error| ShipError(format!("cannot compress: {error}")))
}

/// Whether the address is this machine's own.
fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTLP: Form = Form::Otlp { original: false };

    #[test]
    fn lines_leave_the_machine_only_encrypted() {
        for (address, fits) in [
            ("https://example.com/x", true),
            ("http://127.0.0.1:4318", true),
            ("http://127.8.8.8", true),
            ("http://[::1]:1/x", true),
            ("http://localhost:1", true),
            ("http://example.com", false),
            ("http://localhost.example.com", false),
            ("http://[::ffff:8.8.8.8]", false),
            ("http://0.0.0.0", false),
            ("ftp://example.com", false),
            ("file:///etc/passwd", false),
            ("example.com", false),
            ("", false),
        ] {
            let sink = Sink::new(Form::Ndjson, address, false, false);
            assert_eq!(sink.is_ok(), fits, "{address}");
        }
        assert!(Sink::new(OTLP, "http://example.com", false, true).is_ok());
        let error = Sink::new(
            OTLP,
            &format!("https://me:{}@example.com", "pass"),
            false,
            true,
        )
        .unwrap_err();
        assert!(!error.0.contains("pass@"), "{error}");
    }

    #[test]
    fn the_address_for_otlp_is_completed_and_its_query_never_shown() {
        for (address, url) in [
            ("https://a.example", "https://a.example/v1/logs"),
            ("https://a.example/", "https://a.example/v1/logs"),
            ("https://a.example/x/", "https://a.example/x/v1/logs"),
            ("https://a.example/v1/logs", "https://a.example/v1/logs"),
        ] {
            assert_eq!(Sink::new(OTLP, address, false, false).unwrap().url(), url);
        }
        let sink = Sink::new(Form::Ndjson, "https://a.example/x?key=1", false, false).unwrap();
        assert_eq!(sink.place(), "https://a.example/x");
        let other = Sink::new(Form::Ndjson, "https://a.example/x?key=2", false, false).unwrap();
        assert_ne!(sink.id(), other.id());
    }

    #[test]
    fn a_header_that_is_none_does_not_tell_its_value() {
        let mut sink = Sink::new(OTLP, "https://a.example", false, false).unwrap();
        sink.header("Authorization", "Bearer x").unwrap();
        for (name, value) in [
            ("a b", "v4lue"),
            ("Authorization", "v4lue\nX: y"),
            ("Content-Type", "v4lue"),
        ] {
            let error = sink.header(name, value).unwrap_err();
            assert!(!error.0.contains("v4lue"), "{error}");
        }
        assert!(!format!("{sink:?}").contains("Bearer x"));
    }
}
