//! Sinks behind TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::record::{self, recorded};
use super::ship;
use crate::program::run;

/// A server for these names that takes all, its address, its certificate and what it took.
fn server(names: &[&str]) -> (String, String, Arc<Mutex<Vec<u8>>>) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
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
    let taken = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let mut seen = Vec::new();
            let mut block = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut block) {
                seen.extend_from_slice(&block[..count]);
                if whole(&seen) {
                    all.lock().unwrap().extend_from_slice(&seen);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    seen.clear();
                }
            }
        }
    });
    (format!("https://localhost:{port}/"), cert.pem(), taken)
}

/// Whether all that the request announces is there.
fn whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is = name.eq_ignore_ascii_case("content-length");
        is.then(|| value.parse::<usize>().unwrap())
    });
    body.len() >= length.unwrap()
}

#[test]
fn only_a_server_that_the_system_trusts_gets_the_record() {
    let stage = recorded();
    let (url, certificate, taken) = server(&["localhost"]);
    let trusted = stage.path("trusted.pem");
    fs::write(&trusted, &certificate).unwrap();
    let (_, other, _) = server(&["localhost"]);
    let untrusted = stage.path("untrusted.pem");
    fs::write(&untrusted, other).unwrap();
    let with = |roots: &std::path::Path, words: &[&str]| {
        let mut command = ship(&stage, words);
        // What the system trusts, as far as a test can say so.
        command.env("SSL_CERT_FILE", roots);
        run(command)
    };
    let answer = with(&untrusted, &["--http", &url, "--attempts", "1"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("certificate"), "{answer:?}");
    let answer = with(&untrusted, &["--http", &url, "--insecure"]);
    assert_eq!(answer.code, 1, "it allows plain HTTP, not more: {answer:?}");
    // It is not tried again: no time changes that.
    assert!(!answer.errors.contains("trying again"), "{answer:?}");
    let (elsewhere, wrong, _) = server(&["elsewhere.example"]);
    let roots = stage.path("wrong.pem");
    fs::write(&roots, wrong).unwrap();
    let answer = with(&roots, &["--http", &elsewhere]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(taken.lock().unwrap().is_empty());
    let answer = with(&trusted, &["--http", &url]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let taken = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
    for line in record::text(&stage).lines() {
        assert!(taken.contains(&record::id(line.as_bytes())), "{taken}");
    }
}
