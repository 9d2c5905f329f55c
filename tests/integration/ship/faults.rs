//! Servers that do not answer as they should.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::record::{self, Record, recorded};
use super::server::{Reply, Server};
use super::{Running, positions, ship, shipped};
use crate::program::run;

/// A server that treats each connection like that.
fn rude(treat: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let treat = Arc::new(treat);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            let treat = Arc::clone(&treat);
            thread::spawn(move || treat(stream.unwrap()));
        }
    });
    (url, count)
}

#[test]
fn a_server_that_has_no_time_gets_it_and_is_asked_again() {
    let stage = recorded();
    let mut replies = vec![
        Reply::status(200),
        Reply::status(408),
        Reply::status(503),
        Reply::status(429).header("Retry-After", "2"),
        Reply::status(500),
    ];
    let server = Server::new(move |_| replies.pop().unwrap());
    let started = Instant::now();
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        started.elapsed() > Duration::from_secs(4),
        "it did not wait"
    );
    assert_eq!(answer.json()["repeated"], 4);
    assert_eq!(answer.json()["lines"], 3);
    for status in [
        "500 Internal Server Error: trying again in ",
        "429 Too Many Requests: trying again in 2.0 s",
        "503 Service Unavailable: ",
        "408 Request Timeout: ",
    ] {
        assert!(answer.errors.contains(status), "{status}: {answer:?}");
    }
    // The same request, under the same key.
    let seen = server.requests();
    assert_eq!(seen.len(), 5);
    for one in &seen {
        assert_eq!(one.body, seen[0].body);
        assert_eq!(
            one.header("idempotency-key"),
            seen[0].header("idempotency-key")
        );
    }
    assert_eq!(server.text(), record::text(&stage));
}

#[test]
fn a_server_that_never_has_time_is_given_up() {
    let stage = recorded();
    let server = Server::new(|_| Reply::status(503));
    let answer = shipped(&stage, &server, &["--attempts", "2"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer
            .errors
            .contains("answered 503 Service Unavailable, 2 times\nhelp: "),
        "{answer:?}"
    );
    assert_eq!(server.requests().len(), 2);
    assert_eq!(answer.json()["lines"], 0);
    let server = Server::new(|_| Reply::status(429).header("Retry-After", "86400"));
    let started = Instant::now();
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("asks to wait 86400 s"), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_request_that_is_too_large_is_halved() {
    let stage = recorded();
    let mut record = Record::of(&stage);
    record.add(37);
    let server = Server::new(|request| match request.lines().len() {
        0..=3 => Reply::status(200),
        _ => Reply::status(413),
    });
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["lines"], 40);
    assert_eq!(server.text(), record::text(&stage));
    let server = Server::new(|_| Reply::status(413));
    let answer = shipped(&stage, &server, &[]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(
        answer.errors.contains("answered 413 to a single line"),
        "{answer:?}"
    );
    assert_eq!(server.requests().len(), 6);
}

#[test]
fn a_refusal_is_named_and_not_repeated() {
    let stage = recorded();
    for (status, words) in [
        (400, "answered 400 Bad Request"),
        (401, "answered 401 Unauthorized"),
        (403, "answered 403 Forbidden"),
        (404, "answered 404 Not Found"),
        (422, "answered 422 Unprocessable Entity"),
        (302, "answered 302 Found: redirections are not followed"),
        (307, "answered 307 Temporary Redirect: redirections"),
    ] {
        let elsewhere = Server::kind();
        let to = elsewhere.url();
        let server = Server::new(move |_| {
            Reply::status(status)
                .header("Location", &to)
                .body("\u{1b}[31mred")
        });
        let answer = shipped(&stage, &server, &[]);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.errors.contains(words), "{answer:?}");
        assert!(!answer.errors.contains('\u{1b}'), "{answer:?}");
        assert_eq!(server.requests().len(), 1);
        assert_eq!(elsewhere.requests().len(), 0);
    }
    let json = |path: &std::path::PathBuf| path.extension().is_some_and(|one| one == "json");
    assert!(
        !positions(&stage).iter().any(json),
        "nothing was acknowledged"
    );
    let server = Server::kind();
    assert_eq!(shipped(&stage, &server, &[]).json()["lines"], 3);
}

#[test]
fn a_server_that_hangs_does_not_hang_us() {
    let stage = recorded();
    let silent = |stream: std::net::TcpStream| {
        let _ = (&stream).read(&mut [0; 100]);
        thread::sleep(Duration::from_mins(1));
    };
    // One drop at a time: each of them comes in time, all of them never.
    let drops = |mut stream: std::net::TcpStream| {
        for byte in b"HTTP/1.1 200 OK\r\nX: "
            .iter()
            .chain([b'x'].iter().cycle())
        {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    };
    for (url, count) in [rude(silent), rude(drops)] {
        let started = Instant::now();
        let words = ["--http", &url, "--timeout", "1", "--attempts", "2"];
        let answer = run(ship(&stage, &words));
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.errors.contains("it takes too long"), "{answer:?}");
        assert!(started.elapsed() < Duration::from_secs(10));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn it_ends_in_time_while_a_server_hangs() {
    let stage = recorded();
    let (url, count) = rude(|stream| {
        let _ = (&stream).read(&mut [0; 100]);
        thread::sleep(Duration::from_mins(1));
    });
    let child = Running::new(ship(&stage, &["--http", &url]));
    super::until("a request", || count.load(Ordering::Relaxed) == 1);
    let started = Instant::now();
    child.signal(nix::sys::signal::Signal::SIGTERM);
    let answer = child.answer();
    assert!(started.elapsed() < Duration::from_secs(10));
    // Not all was sent.
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.starts_with("0 lines sent"), "{answer:?}");
}

#[test]
fn an_answer_that_breaks_off_or_is_garbage_is_none() {
    let stage = recorded();
    for broken in [
        &b""[..],
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\xff\xfe\x1b[31m\r\n\r\n",
        b"HTTP/1.1 999999 \x1b[31m\r\n\r\n",
    ] {
        let (url, count) = rude(move |mut stream| {
            let _ = stream.read(&mut [0; 64 << 10]);
            let _ = stream.write_all(broken);
        });
        let answer = run(ship(&stage, &["--http", &url, "--attempts", "2"]));
        assert_eq!(answer.code, 1, "{broken:?} {answer:?}");
        assert!(answer.errors.contains("cannot send to"), "{answer:?}");
        assert!(!answer.errors.contains('\u{1b}'), "{answer:?}");
        assert_eq!(count.load(Ordering::Relaxed), 2, "{broken:?}");
    }
    // Headers without an end are not read without an end.
    let (url, _) = rude(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let answer = run(ship(&stage, &["--http", &url, "--attempts", "1"]));
    assert_eq!(answer.code, 1, "{answer:?}");
    // Nor is a body.
    let endless = |mut stream: std::net::TcpStream| {
        let _ = stream.read(&mut [0; 64 << 10]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    };
    let (url, _) = rude(endless);
    let answer = run(ship(&stage, &["--http", &url]));
    assert_eq!(answer.code, 0, "{answer:?}");
    let (url, _) = rude(endless);
    let answer = run(ship(&stage, &["--otlp", &url, "--attempts", "1"]));
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("not as OTLP does"), "{answer:?}");
}

#[test]
fn a_server_that_is_not_there_is_tried_again() {
    let stage = recorded();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", port.local_addr().unwrap());
    drop(port);
    let answer = run(ship(&stage, &["--http", &url, "--attempts", "2"]));
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.errors.contains("connection refused"), "{answer:?}");
    assert!(answer.errors.contains("trying again in"), "{answer:?}");
}

#[test]
fn the_value_of_a_header_is_never_told() {
    let stage = recorded();
    let secret = format!("t0ken-{}", "x7".repeat(9));
    let value = format!("Bearer {secret}");
    let echo = |request: &super::server::Seen| {
        let said = request.header("authorization").to_owned();
        Reply::status(403).header("X-Echo", &said).body(said)
    };
    let all = [
        Server::kind(),
        Server::new(echo),
        Server::new(|_| Reply::status(503)),
    ];
    for server in &all {
        for format in ["text", "json"] {
            let mut command = ship(&stage, &["--http", &server.url(), "--attempts", "2"]);
            command.args(["--format", format]);
            command.args(["--header-env", "Authorization=SHIP_TOKEN"]);
            command.env("SHIP_TOKEN", &value);
            let answer = run(command);
            assert!(!format!("{answer:?}").contains(&secret), "{answer:?}");
        }
        assert_eq!(server.requests()[0].header("authorization"), value);
    }
    for path in positions(&stage) {
        assert!(!std::fs::read_to_string(path).unwrap().contains(&secret));
    }
    // Neither where it cannot be used.
    let url = all[0].url();
    for (words, set) in [
        ("Authorization=SHIP_TOKEN", format!("{secret}\n")),
        ("Content-Type=SHIP_TOKEN", secret.clone()),
        ("Authorization=OTHER", secret.clone()),
        // Who gives the value itself has shown it, but not through us.
        (&secret, String::new()),
        (&format!("{secret} x=SHIP_TOKEN"), String::new()),
        (&format!("Authorization={secret}"), String::new()),
        (&format!("Authorization={value}"), String::new()),
    ] {
        let mut command = ship(&stage, &["--http", &url, "--header-env", words]);
        command.env("SHIP_TOKEN", &set);
        let answer = run(command);
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(!format!("{answer:?}").contains(&secret), "{answer:?}");
    }
}

#[test]
fn no_variable_leads_elsewhere() {
    let stage = recorded();
    let (server, proxy) = (Server::kind(), Server::kind());
    let mut command = ship(&stage, &["--http", &server.url()]);
    for name in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"] {
        command.env(name, proxy.url());
    }
    assert_eq!(run(command).code, 0);
    assert_eq!(server.envelopes().len(), 3);
    assert_eq!(proxy.requests().len(), 0);
}
