//! Too much, too slowly, too often: refused, recorded, and still serving.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::client::Server;
use super::{README, read_me, recorded, refusals};
use crate::program::Stage;

/// What is sent at most, in bytes.
const LARGE: usize = 100 << 20;

/// So many connections, or as many as the system lets one program have.
const MANY: usize = 10_000;

fn still_serves(server: &Server) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = server.call(README, &read_me());
        if answer.status == 200 {
            assert_eq!(answer.json()["result"]["content"][0]["text"], "read me\n");
            return;
        }
        // Where there are too many, not everybody is told.
        assert!([0, 503].contains(&answer.status), "{answer:?}");
        assert!(Instant::now() < end, "{answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_body_is_no_larger_than_four_mebibytes() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    // As it says.
    let length = LARGE.to_string();
    let headers = [("content-length", length.as_str())];
    let answer = server.send("POST /mcp", &headers, "{");
    assert_eq!(answer.status, 413, "{answer:?}");
    // As it comes.
    let headers = [("content-length", ""), ("transfer-encoding", "chunked")];
    let mut stream = server.connect();
    let head = server.request("POST /mcp", &headers, "");
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 1 << 16], b"\r\n"].concat();
    let mut sent = 0;
    while sent < LARGE && stream.write_all(&chunk).is_ok() {
        sent += 1 << 16;
    }
    assert!(sent < 32 << 20, "it took {sent} bytes");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // The line may break before the answer is read.
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 413"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let end = Instant::now() + Duration::from_secs(10);
    while refusals(&stage, "body_too_large") < 2 {
        assert!(Instant::now() < end, "it is not recorded");
        std::thread::sleep(Duration::from_millis(100));
    }
    still_serves(&server);
}

#[test]
fn who_is_too_slow_is_hung_up_on() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    let began = Instant::now();
    // A byte a second, and never a whole head; and one who says nothing at all.
    let mut slow = server.connect();
    let mut silent = server.connect();
    slow.write_all(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n")
        .unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut sink = [0; 256];
    loop {
        assert!(began.elapsed() < Duration::from_secs(25), "still there");
        match slow.read(&mut sink) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        if slow.write_all(b"x").is_err() {
            break;
        }
    }
    assert!(began.elapsed() >= Duration::from_secs(9));
    silent
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    assert_eq!(silent.read(&mut sink).unwrap_or(0), 0);
    assert!(recorded(&stage, "head_timeout") > 0);
    still_serves(&server);
}

#[test]
fn ten_thousand_connections_do_not_stop_it() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    let mut held = Vec::new();
    for _ in 0..MANY {
        // Here, too, there are only so many descriptors.
        let Ok(stream) = TcpStream::connect(&server.address) else {
            break;
        };
        held.push(stream);
        if held.len() == 900 {
            // Whoever was let in is still served.
            let request = server.request("GET /healthz", &[("connection", "keep-alive")], "");
            held[0].write_all(request.as_bytes()).unwrap();
            let mut answer = [0; 12];
            held[0].read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
    }
    assert!(held.len() >= 900, "only {} connections", held.len());
    drop(held);
    still_serves(&server);
    assert!(recorded(&stage, "connections") > 0);
    let refused = server.metric("copilot_bridge_refusals_total{cause=\"connections\"}");
    assert!(refused > 0.0);
    // A flood is not a line each.
    let lines = stage.record();
    let lines = lines.iter().filter(|line| line["kind"] == "fault").count();
    assert!(lines < 20, "{lines} lines");
}

#[test]
fn there_are_no_more_than_a_thousand_sessions() {
    let stage = Stage::new();
    let server = Server::start(&stage);
    let body = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    })
    .to_string();
    for number in 0..1_000 {
        let answer = server.send("POST /mcp", &[], &body);
        assert_eq!(answer.status, 200, "{number}: {answer:?}");
    }
    let answer = server.send("POST /mcp", &[], &body);
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["cause"], "sessions");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(recorded(&stage, "sessions") > 0);
    // Who needs none is served.
    still_serves(&server);
}
