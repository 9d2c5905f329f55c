//! Bundles that lie elsewhere: servers of the kinds that there are, on this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use data_encoding::{BASE64, HEXLOWER};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Team, run};
use crate::program::Answer;

/// What a request of a server is: method, path with its query, headers.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A status, headers and a body.
type Reply = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// A server on this machine, its address, and what it was asked.
fn server(
    mut answer: impl FnMut(&Seen) -> Reply + Send + 'static,
) -> (String, Arc<Mutex<Vec<Seen>>>) {
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let address = server.server_addr().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    thread::spawn(move || {
        for request in server.incoming_requests() {
            let headers = request.headers().iter();
            let one = Seen {
                method: request.method().to_string(),
                path: request.url().to_owned(),
                headers: headers
                    .map(|one| (one.field.to_string(), one.value.to_string()))
                    .collect(),
            };
            let (status, headers, body) = answer(&one);
            let large = one.path == "/large";
            all.lock().unwrap().push(one);
            let mut response = tiny_http::Response::from_data(body).with_status_code(status);
            for (name, value) in headers {
                response.add_header(tiny_http::Header::from_bytes(name, value).unwrap());
            }
            // In pieces without a length before them, or as one.
            if !large {
                response = response.with_chunked_threshold(usize::MAX);
            }
            let _ = request.respond(response);
        }
    });
    (address, seen)
}

fn signed() -> (Team, String, Vec<u8>) {
    let team = Team::new();
    let key = team.key("key");
    team.release(1, &[]);
    let bytes = fs::read(team.stage.path("acme.bundle")).unwrap();
    (team, key, bytes)
}

/// A fetch with these variables in the environment.
fn fetch(team: &Team, variables: &[(&str, &str)]) -> Answer {
    let mut command = team.place(&["fetch"]);
    command.envs(variables.iter().copied());
    run(command)
}

/// What a fetch that was refused says.
fn refused(team: &Team, variables: &[(&str, &str)]) -> String {
    let answer = fetch(team, variables);
    assert_eq!(answer.code, 1, "{answer:?}");
    answer.errors
}

#[test]
fn a_web_server_hands_a_bundle_out() {
    let (team, key, bytes) = signed();
    let (address, seen) = server(move |seen| match seen.path.as_str() {
        "/acme.bundle?sig=s3cr3t" => (200, vec![], bytes.clone()),
        "/moved" => (
            302,
            vec![("Location", "/acme.bundle?sig=s3cr3t".to_owned())],
            vec![],
        ),
        "/loop" => (302, vec![("Location", "/loop".to_owned())], vec![]),
        "/away" => (
            302,
            vec![("Location", "ftp://x.example/".to_owned())],
            vec![],
        ),
        "/large" => (200, vec![], vec![b' '; (16 << 20) + 1]),
        "/page" => (200, vec![], b"<html>\x1b[31m</html>".to_vec()),
        "/down" => (503, vec![], b"\x1b[31mnot now".to_vec()),
        _ => (404, vec![], vec![]),
    });
    for (path, why) in [
        ("gone", "the server answered 404 Not Found"),
        ("down", "the server answered 503 Service Unavailable"),
        ("loop", "too many redirects"),
        ("large", "what lies there is too large"),
        ("page", "this is no policy bundle"),
    ] {
        team.pin_to(&format!("http://{address}/{path}"), &[&key], "");
        let said = refused(&team, &[]);
        assert!(said.contains(why), "{path}: {said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
    team.pin_to(&format!("http://{address}/away"), &[&key], "");
    assert!(!fetch(&team, &[]).text.contains("in force"));
    let source = format!("http://{address}/acme.bundle?sig=s3cr3t");
    team.pin_to(&source, &[&key], "password_env = \"TOKEN\"");
    let unset = refused(&team, &[]);
    assert!(unset.contains("the variable `TOKEN` is not set"), "{unset}");
    let answer = fetch(&team, &[("TOKEN", "t0k3n")]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let last = seen.lock().unwrap().last().unwrap().clone();
    assert_eq!(
        (last.method.as_str(), last.header("authorization")),
        ("GET", Some("Bearer t0k3n"))
    );
    // What is secret stands nowhere.
    let record = team
        .stage
        .record()
        .iter()
        .map(|line| line.to_string())
        .collect::<String>();
    let status = team.status().1.to_string();
    for text in [record, status, answer.text, answer.errors] {
        assert!(
            !text.contains("s3cr3t") && !text.contains("t0k3n"),
            "{text}"
        );
    }
    team.pin_to(&format!("http://{address}/moved"), &[&key], "");
    assert_eq!(fetch(&team, &[]).code, 0);
}

#[test]
fn nobody_listens() {
    let (team, key, _) = signed();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    team.pin_to(&format!("http://{free}/a"), &[&key], "");
    let said = refused(&team, &[]);
    assert!(said.to_lowercase().contains("connection refused"), "{said}");
    assert!(!said.contains("os error"), "{said}");
    assert!(said.contains("nothing was put in force"), "{said}");
}

/// A server behind TLS that hands the same out to everybody, its port and its certificate.
fn tls(body: Vec<u8>) -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let mut seen = Vec::new();
            let mut block = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut block) {
                seen.extend_from_slice(&block[..count]);
                if seen.ends_with(b"\r\n\r\n") {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
                    let _ = stream.flush();
                    seen.clear();
                }
            }
        }
    });
    (port, cert.pem())
}

#[test]
fn only_a_server_that_the_system_trusts_is_asked() {
    let (team, key, bytes) = signed();
    let (port, certificate) = tls(bytes);
    let (_, other) = tls(Vec::new());
    let (trusted, untrusted) = (
        team.stage.path("trusted.pem"),
        team.stage.path("untrusted.pem"),
    );
    fs::write(&trusted, certificate).unwrap();
    fs::write(&untrusted, other).unwrap();
    team.pin_to(
        &format!("https://localhost:{port}/acme.bundle"),
        &[&key],
        "",
    );
    let said = refused(&team, &[("SSL_CERT_FILE", untrusted.to_str().unwrap())]);
    assert!(said.to_lowercase().contains("certificate"), "{said}");
    let answer = fetch(&team, &[("SSL_CERT_FILE", trusted.to_str().unwrap())]);
    assert_eq!(answer.code, 0, "{answer:?}");
}

#[test]
fn an_object_store_hands_a_bundle_out() {
    let (team, key, bytes) = signed();
    let (address, seen) = server(move |seen| {
        let about = || {
            vec![
                ("ETag", "\"1\"".to_owned()),
                ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT".to_owned()),
            ]
        };
        match seen.path.as_str() {
            "/policies/team/acme.bundle" => (200, about(), bytes.clone()),
            "/policies/secret" => (
                403,
                vec![],
                b"<Error><Code>AccessDenied</Code></Error>".to_vec(),
            ),
            "/policies/large" => (200, about(), vec![b' '; (16 << 20) + 1]),
            _ => (
                404,
                vec![],
                b"<Error><Code>NoSuchKey</Code></Error>".to_vec(),
            ),
        }
    });
    let endpoint = format!("http://{address}");
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
        ("AWS_REGION", "eu-central-1"),
    ];
    for (path, why) in [
        ("gone", "there is no such object"),
        ("secret", "the store does not let us read it"),
        ("large", "what lies there is too large"),
    ] {
        team.pin_to(&format!("s3://policies/{path}"), &[&key], "");
        let said = refused(&team, &variables);
        assert!(said.contains(why), "{path}: {said}");
    }
    team.pin_to("s3://policies/team/acme.bundle", &[&key], "");
    let answer = fetch(&team, &variables);
    assert_eq!(answer.code, 0, "{answer:?}");
    let last = seen.lock().unwrap().last().unwrap().clone();
    let signed = last.header("authorization").unwrap();
    assert!(
        signed.starts_with("AWS4-HMAC-SHA256 Credential=id/"),
        "{signed}"
    );
    // A variable does not let anything leave in plain text but to this machine.
    let said = refused(
        &team,
        &[
            ("AWS_ENDPOINT_URL", "http://store.invalid"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
        ],
    );
    assert!(
        said.contains("cannot fetch `s3://policies/team/acme.bundle`"),
        "{said}"
    );
    assert!(said.contains("scheme"), "{said}");
    assert_eq!(team.status().1["bundle"]["version"], 1);
}

#[test]
fn the_stores_of_other_clouds_do_too() {
    let (team, key, bytes) = signed();
    let (address, seen) = server(move |_| {
        let headers = vec![
            ("ETag", "\"1\"".to_owned()),
            ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT".to_owned()),
        ];
        (200, headers, bytes.clone())
    });
    let endpoint = format!("http://{address}");
    let account = BASE64.encode(b"s3cr3t");
    for (source, variables) in [
        (
            "az://box/team/acme.bundle",
            &[
                ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
                ("AZURE_STORAGE_ACCOUNT_KEY", &account),
                ("AZURE_STORAGE_ENDPOINT", &endpoint),
            ][..],
        ),
        (
            "gs://box/team/acme.bundle",
            &[
                ("GOOGLE_BASE_URL", endpoint.as_str()),
                ("GOOGLE_SKIP_SIGNATURE", "true"),
            ],
        ),
    ] {
        team.pin_to(source, &[&key], "");
        let answer = fetch(&team, variables);
        assert_eq!(answer.code, 0, "{source}: {answer:?}");
        let last = seen.lock().unwrap().pop().unwrap();
        let path = percent_encoding::percent_decode_str(&last.path).decode_utf8();
        assert_eq!(path.unwrap(), "/box/team/acme.bundle");
    }
}

/// A registry with one artifact of these layers: media type and bytes.
fn registry(
    layers: Vec<(&'static str, Vec<u8>)>,
    password: Option<&'static str>,
) -> (String, Arc<Mutex<Vec<Seen>>>) {
    let digest = |bytes: &[u8]| format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)));
    let described: Vec<_> = layers
        .iter()
        .map(|(kind, bytes)| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()}))
        .collect();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.empty.v1+json", "digest": digest(b"{}"), "size": 2,
        },
        "layers": described,
    });
    let manifest = manifest.to_string().into_bytes();
    server(move |seen| {
        if let Some(password) = password {
            let expected = format!(
                "Basic {}",
                BASE64.encode(format!("me:{password}").as_bytes())
            );
            if seen.header("authorization") != Some(&expected) {
                let ask = ("WWW-Authenticate", "Basic realm=\"registry\"".to_owned());
                return (401, vec![ask], b"{\"errors\":[]}".to_vec());
            }
        }
        if seen.path == "/v2/" {
            return (200, vec![], b"{}".to_vec());
        }
        if seen.path == "/v2/acme/policies/manifests/7" {
            let kind = (
                "Content-Type",
                "application/vnd.oci.image.manifest.v1+json".to_owned(),
            );
            let named = ("Docker-Content-Digest", digest(&manifest));
            return (200, vec![kind, named], manifest.clone());
        }
        let asked = seen.path.strip_prefix("/v2/acme/policies/blobs/");
        match layers
            .iter()
            .find(|(_, bytes)| asked == Some(&digest(bytes)))
        {
            Some((_, bytes)) => (200, vec![], bytes.clone()),
            None => {
                let body = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no\u{1b}", "detail": {}}]});
                (404, vec![], body.to_string().into_bytes())
            }
        }
    })
}

const BUNDLE: &str = "application/vnd.copilot-bridge.policy-bundle.v1+json";

#[test]
fn a_registry_hands_a_bundle_out() {
    let (team, key, bytes) = signed();
    let (address, _) = registry(
        vec![
            ("text/markdown", b"read me".to_vec()),
            (BUNDLE, bytes.clone()),
        ],
        None,
    );
    team.pin_to(&format!("oci://{address}/acme/policies:gone"), &[&key], "");
    let said = refused(&team, &[]);
    assert!(
        said.contains(&format!(
            "cannot fetch `oci://{address}/acme/policies:gone`"
        )),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "{said}");
    team.pin_to(&format!("oci://{address}/acme/policies:7"), &[&key], "");
    let answer = fetch(&team, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    // A layer of any type will do where there is one only.
    let (address, _) = registry(vec![("application/octet-stream", bytes.clone())], None);
    team.pin_to(&format!("oci://{address}/acme/policies:7"), &[&key], "");
    assert_eq!(fetch(&team, &[]).code, 0);
    let two = vec![("a/a", bytes.clone()), ("a/b", b"x".to_vec())];
    let (address, _) = registry(two, None);
    team.pin_to(&format!("oci://{address}/acme/policies:7"), &[&key], "");
    let said = refused(&team, &[]);
    assert!(
        said.contains("does not have one layer that is a policy bundle"),
        "{said}"
    );
    let (address, _) = registry(vec![(BUNDLE, vec![b' '; (16 << 20) + 1])], None);
    team.pin_to(&format!("oci://{address}/acme/policies:7"), &[&key], "");
    assert!(refused(&team, &[]).contains("too large"));
}

#[test]
fn a_registry_that_asks_who_we_are_is_told() {
    let (team, key, bytes) = signed();
    let (address, _) = registry(vec![(BUNDLE, bytes)], Some("s3cr3t"));
    let source = format!("oci://{address}/acme/policies:7");
    team.pin_to(&source, &[&key], "");
    refused(&team, &[]);
    team.pin_to(
        &source,
        &[&key],
        "user_env = \"WHO\"\npassword_env = \"TOKEN\"",
    );
    let wrong = refused(&team, &[("WHO", "me"), ("TOKEN", "wr0ng")]);
    assert!(!wrong.contains("wr0ng"), "{wrong}");
    let answer = fetch(&team, &[("WHO", "me"), ("TOKEN", "s3cr3t")]);
    assert_eq!(answer.code, 0, "{answer:?}");
}
