use super::connection::Trust;
use super::*;
use std::sync::Arc;
use std::time::Instant;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use futures_util::{SinkExt, StreamExt};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};
use url::Host;

use crate::config::openclaw::Token;
use crate::openclaw::memory::Places;

/// What the tests wait at most.
const LONG: Duration = Duration::from_secs(20);

const NONCE: &str = "b0014079-8375-423a-b952-959dd7696ad2";

fn pace() -> Pace {
    Pace {
        request: Duration::from_millis(400),
        connect: Duration::from_secs(5),
        patience: Duration::from_secs(5),
        shortest_pause: Duration::from_millis(40),
        longest_pause: Duration::from_millis(400),
        stable: Duration::from_secs(10),
        quiet: Duration::from_secs(30),
    }
}

fn token() -> Token {
    Token::new(&["gateway", "token", "of", "a", "test"].join("-")).unwrap()
}

/// A gateway that the tests play.
struct Mock {
    listener: TcpListener,
    state: tempfile::TempDir,
}

impl Mock {
    async fn new() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            state: tempfile::tempdir().unwrap(),
        }
    }

    fn address(&self) -> Address {
        Address {
            host: Host::parse("127.0.0.1").unwrap(),
            port: self.listener.local_addr().unwrap().port(),
            token: token(),
        }
    }

    fn client(&self, pace: Pace) -> Gateway {
        let device = Device::of(self.state.path()).unwrap();
        Gateway::start_with(self.address(), device, Trust::System, pace)
    }

    async fn accept(&self) -> Peer {
        let accepted = tokio::time::timeout(LONG, self.listener.accept()).await;
        let (stream, _) = accepted.expect("nobody connects").unwrap();
        Peer(accept_async(stream).await.unwrap())
    }

    /// A client that was greeted.
    async fn greeted(&self) -> Peer {
        let mut peer = self.accept().await;
        let connect = peer.challenged().await;
        peer.welcome(&connect).await;
        peer
    }
}

/// The client, from the gateway's side.
struct Peer(WebSocketStream<TcpStream>);

impl Peer {
    async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(LONG, self.0.next()).await;
        next.expect("the client says nothing")?.ok()
    }

    async fn request(&mut self) -> Value {
        match self.next().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("no request: {other:?}"),
        }
    }

    async fn challenged(&mut self) -> Value {
        let payload = json!({"nonce": NONCE, "ts": 1_795_206_524_370_i64, "capabilities": []});
        let event = json!({"type": "event", "event": "connect.challenge", "payload": payload});
        self.send(&event).await;
        self.request().await
    }

    async fn welcome(&mut self, connect: &Value) {
        let auth =
            json!({"role": "operator", "scopes": ["operator.read"], "deviceToken": "unused"});
        self.answer(
            connect,
            &json!({
                "type": "hello-ok",
                "protocol": 4,
                "server": {"version": "2026.9.6", "connId": "7966518c"},
                "features": {"methods": ["health", "memory.search"], "events": ["tick"]},
                "auth": auth,
                "policy": {"maxPayload": 26_214_400, "tickIntervalMs": 30_000},
            }),
        )
        .await;
        let health = json!({"type": "event", "event": "health", "payload": {"ok": true}, "seq": 1});
        self.send(&health).await;
    }

    async fn answer(&mut self, request: &Value, payload: &Value) {
        let frame = json!({"type": "res", "id": request["id"], "ok": true, "payload": payload});
        self.send(&frame).await;
    }

    async fn refuse(&mut self, request: &Value, message: &str, code: &str) {
        let error =
            json!({"code": "INVALID_REQUEST", "message": message, "details": {"code": code}});
        let frame = json!({"type": "res", "id": request["id"], "ok": false, "error": error});
        self.send(&frame).await;
        let _ = self.0.close(None).await;
    }

    /// Answers one search with the search's own words.
    async fn echo(&mut self) {
        let search = self.request().await;
        assert_eq!(search["method"], "memory.search");
        let query = search["params"]["query"].as_str().unwrap();
        self.answer(&search, &found(query)).await;
    }
}

fn found(snippet: &str) -> Value {
    json!({"agentId": "main", "provider": "none", "searchMode": "fts-only", "results": [{
        "path": "memory/2026-11-20.md", "startLine": 1, "endLine": 4, "score": 0.98,
        "textScore": 0.51, "snippet": snippet, "source": "memory",
        "provenance": {"originClass": "agent", "sessionKind": "unknown"},
    }]})
}

/// The first hit's text.
async fn first(gateway: &Gateway, query: &str) -> Result<String, GatewayError> {
    let mut hits = gateway.memory_search(query, 5).await?;
    Ok(hits.remove(0).text)
}

/// Why there is no answer.
async fn why(gateway: &Gateway) -> String {
    first(gateway, "zebra").await.unwrap_err().to_string()
}

async fn until_down(gateway: &Gateway) {
    let mut state = gateway.state.clone();
    let down = state.wait_for(|state| matches!(state, State::Down(_)));
    drop(tokio::time::timeout(LONG, down).await.unwrap().unwrap());
}

async fn until_up(gateway: &Gateway) {
    let mut state = gateway.state.clone();
    let up = state.wait_for(|state| matches!(state, State::Up));
    drop(tokio::time::timeout(LONG, up).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_device_signs_its_way_in_and_may_only_read() {
    let mock = Mock::new().await;
    let gateway = mock.client(pace());
    let mut peer = mock.accept().await;
    let connect = peer.challenged().await;
    assert_eq!(connect["type"], "req");
    assert_eq!(connect["method"], "connect");
    let params = &connect["params"];
    assert_eq!(
        (&params["minProtocol"], &params["maxProtocol"]),
        (&json!(4), &json!(4))
    );
    assert_eq!(params["client"]["id"], "gateway-client");
    assert_eq!(params["client"]["mode"], "backend");
    assert_eq!(params["role"], "operator");
    assert_eq!(params["scopes"], json!(["operator.read"]));
    assert_eq!(params["auth"], json!({"token": token().expose()}));
    let device = &params["device"];
    let decode = |value: &Value| {
        BASE64URL_NOPAD
            .decode(value.as_str().unwrap().as_bytes())
            .unwrap()
    };
    let key = decode(&device["publicKey"]);
    let id = HEXLOWER.encode(&Sha256::digest(&key));
    assert_eq!(device["id"], id);
    assert_eq!(device["nonce"], NONCE);
    assert_eq!(device["signedAt"], 1_795_206_524_370_i64);
    let platform = params["client"]["platform"].as_str().unwrap();
    let text = format!(
        "v3|{id}|gateway-client|backend|operator|operator.read|1795206524370|{}|{NONCE}|{platform}|",
        token().expose()
    );
    let key = VerifyingKey::from_bytes(&key.try_into().unwrap()).unwrap();
    let signature = Signature::from_slice(&decode(&device["signature"])).unwrap();
    key.verify(text.as_bytes(), &signature).unwrap();

    peer.welcome(&connect).await;
    let asking = tokio::spawn({
        let gateway = gateway.clone();
        async move { gateway.memory_search(" zebra ", 3).await }
    });
    let search = peer.request().await;
    assert_eq!(search["method"], "memory.search");
    assert_eq!(
        search["params"],
        json!({"query": " zebra ", "maxResults": 3})
    );
    peer.answer(&search, &found("- zebra\n- migration\n")).await;
    let hit = Hit {
        file: "memory/2026-11-20.md".to_owned(),
        text: "- zebra\n- migration".to_owned(),
        score: 0.98,
    };
    assert_eq!(asking.await.unwrap(), Ok(vec![hit]));
    // Nobody is asked about nothing.
    assert_eq!(gateway.memory_search("  ", 3).await, Ok(Vec::new()));
    drop(gateway);
    assert!(matches!(peer.next().await, Some(Message::Close(_))));
}

#[tokio::test]
async fn who_is_refused_says_why_and_does_not_hurry_back() {
    for (message, code) in [
        (
            "unauthorized: gateway token mismatch (provide gateway auth token)",
            "AUTH_TOKEN_MISMATCH",
        ),
        ("protocol mismatch", "PROTOCOL_MISMATCH"),
        ("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID"),
    ] {
        let mock = Mock::new().await;
        let slow = Pace {
            longest_pause: LONG,
            ..pace()
        };
        let gateway = mock.client(slow);
        let mut peer = mock.accept().await;
        let connect = peer.challenged().await;
        peer.refuse(&connect, message, code).await;
        assert_eq!(
            why(&gateway).await,
            format!("OpenClaw's gateway is not reachable: {message} ({code})")
        );
        let again = tokio::time::timeout(Duration::from_millis(200), mock.listener.accept());
        assert!(again.await.is_err(), "{code}: it comes back at once");
    }
}

#[tokio::test]
async fn what_greets_otherwise_is_no_gateway_of_ours() {
    for (payload, expected) in [
        (
            json!({"type": "hello-ok", "protocol": 5}),
            "it speaks another protocol",
        ),
        (json!({"type": "hello-ok"}), "it speaks another protocol"),
        (
            json!({"ok": true, "protocol": 4}),
            "it speaks another protocol",
        ),
    ] {
        let mock = Mock::new().await;
        let gateway = mock.client(pace());
        let mut peer = mock.accept().await;
        let connect = peer.challenged().await;
        peer.answer(&connect, &payload).await;
        assert!(why(&gateway).await.ends_with(expected), "{payload}");
    }
    // Nobody who does not begin with a challenge gets the token.
    let mock = Mock::new().await;
    let gateway = mock.client(pace());
    let mut peer = mock.accept().await;
    peer.send(&json!({"type": "event", "event": "health", "payload": {}}))
        .await;
    assert!(
        why(&gateway)
            .await
            .ends_with("it begins without a challenge")
    );
    assert!(!matches!(peer.next().await, Some(Message::Text(_))));
}

#[tokio::test]
async fn a_gateway_that_goes_away_is_found_again() {
    let mock = Mock::new().await;
    let gateway = mock.client(pace());
    let mut peer = mock.greeted().await;
    let (answer, ()) = tokio::join!(first(&gateway, "before"), peer.echo());
    assert_eq!(answer.unwrap(), "before");
    drop(peer);
    until_down(&gateway).await;
    let asked = Instant::now();
    assert!(
        why(&gateway)
            .await
            .starts_with("OpenClaw's gateway is not reachable: ")
    );
    assert!(asked.elapsed() < Duration::from_millis(200));
    // It takes a few tries.
    for _ in 0..3 {
        drop(mock.accept().await);
    }
    let mut peer = mock.greeted().await;
    until_up(&gateway).await;
    let (answer, ()) = tokio::join!(first(&gateway, "after"), peer.echo());
    assert_eq!(answer.unwrap(), "after");
}

#[tokio::test]
async fn a_question_that_is_open_when_the_gateway_dies_is_answered() {
    let mock = Mock::new().await;
    let patient = Pace {
        request: LONG,
        ..pace()
    };
    let gateway = mock.client(patient);
    let mut peer = mock.greeted().await;
    let (why, ()) = tokio::join!(why(&gateway), async {
        peer.request().await;
        drop(peer);
    });
    assert_eq!(
        why,
        "OpenClaw's gateway is not reachable: the connection was lost"
    );
}

#[tokio::test]
async fn answers_find_their_questions_in_any_order() {
    let mock = Mock::new().await;
    let gateway = mock.client(pace());
    let mut peer = mock.greeted().await;
    let answering = async {
        let mut searches = Vec::new();
        for _ in 0..3 {
            searches.push(peer.request().await);
        }
        for search in searches.iter().rev() {
            let query = search["params"]["query"].as_str().unwrap();
            // What nobody asked, and what was answered before, changes nothing.
            peer.answer(&json!({"id": "4711"}), &found("wrong")).await;
            peer.answer(search, &found(query)).await;
            peer.answer(search, &found("wrong")).await;
        }
    };
    let (one, two, three, ()) = tokio::join!(
        first(&gateway, "one"),
        first(&gateway, "two"),
        first(&gateway, "three"),
        answering
    );
    assert_eq!(
        [one.unwrap(), two.unwrap(), three.unwrap()],
        ["one", "two", "three"]
    );
}

#[tokio::test]
async fn nobody_waits_for_a_gateway_that_takes_too_long() {
    let mock = Mock::new().await;
    let gateway = mock.client(pace());
    let mut peer = mock.greeted().await;
    let (late, search) = tokio::join!(first(&gateway, "late"), peer.request());
    assert_eq!(late, Err(GatewayError::TimedOut));
    peer.answer(&search, &found("late")).await;
    let (answer, ()) = tokio::join!(first(&gateway, "next"), peer.echo());
    assert_eq!(answer.unwrap(), "next");

    // Not for one that accepts and says nothing, either.
    let mock = Mock::new().await;
    let hasty = Pace {
        connect: Duration::from_millis(300),
        patience: Duration::from_millis(100),
        ..pace()
    };
    let gateway = mock.client(hasty);
    let _peer = mock.accept().await;
    let asked = Instant::now();
    assert_eq!(
        why(&gateway).await,
        "OpenClaw's gateway is not reachable: it takes too long"
    );
    assert!(asked.elapsed() < Duration::from_secs(2));
    until_down(&gateway).await;
}

#[tokio::test]
async fn where_nobody_listens_that_is_said_at_once() {
    let mock = Mock::new().await;
    let address = mock.address();
    let device = Device::of(mock.state.path()).unwrap();
    drop(mock.listener);
    let asked = Instant::now();
    let gateway = Gateway::start_with(address, device, Trust::System, Pace::default());
    assert_eq!(
        why(&gateway).await,
        "OpenClaw's gateway is not reachable: connection refused"
    );
    assert!(
        asked.elapsed() < Duration::from_millis(900),
        "{:?}",
        asked.elapsed()
    );
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection() {
    let large = format!(r#"{{"type":"event","event":"{}"}}"#, "x".repeat(5 << 20));
    for (garbage, expected) in [
        (
            Message::text("not json"),
            "it sends what is no frame of its protocol",
        ),
        (
            Message::text("{}"),
            "it sends what is no frame of its protocol",
        ),
        (
            Message::Binary(vec![0; 16].into()),
            "it sends what is no frame of its protocol",
        ),
        (Message::text(large), "it sends more than 4 MiB at once"),
    ] {
        let mock = Mock::new().await;
        let slow = Pace {
            shortest_pause: LONG,
            longest_pause: LONG,
            ..pace()
        };
        let gateway = mock.client(slow);
        let mut peer = mock.greeted().await;
        until_up(&gateway).await;
        let _ = peer.0.send(garbage).await;
        until_down(&gateway).await;
        assert!(
            why(&gateway).await.ends_with(expected),
            "{}",
            why(&gateway).await
        );
    }
}

#[tokio::test]
async fn an_answer_that_was_not_asked_for_is_none() {
    let mock = Mock::new().await;
    let gateway = mock.client(pace());
    let mut peer = mock.greeted().await;
    let (answer, ()) = tokio::join!(first(&gateway, "x"), async {
        let search = peer.request().await;
        peer.answer(&search, &json!({"results": "many"})).await;
    });
    assert_eq!(answer, Err(GatewayError::Unreadable));
    let (answer, ()) = tokio::join!(first(&gateway, "x"), async {
        let search = peer.request().await;
        peer.refuse(&search, "missing scope: operator.read", "MISSING_SCOPE")
            .await;
    });
    assert_eq!(
        answer,
        Err(GatewayError::Refused(
            "missing scope: operator.read (MISSING_SCOPE)".to_owned()
        ))
    );
}

#[tokio::test]
async fn a_silent_gateway_is_asked_for_a_sign_of_life() {
    let mock = Mock::new().await;
    let nervous = Pace {
        quiet: Duration::from_millis(100),
        shortest_pause: LONG,
        longest_pause: LONG,
        ..pace()
    };
    let gateway = mock.client(nervous);
    let mut peer = mock.greeted().await;
    until_up(&gateway).await;
    // Who reads answers pings, and stays.
    let alive = tokio::time::timeout(Duration::from_millis(600), async {
        while let Some(message) = peer.next().await {
            assert!(matches!(message, Message::Ping(_)), "{message:?}");
        }
    });
    assert!(alive.await.is_err(), "it was given up");
    until_down(&gateway).await;
    assert!(why(&gateway).await.ends_with("it fell silent"));
}

#[tokio::test]
async fn the_files_answer_where_the_gateway_does_not() {
    let mock = Mock::new().await;
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("MEMORY.md"), "zebra in a file\n").unwrap();
    let memory = Memory::new(Places::only(workspace.path().to_owned()));
    let of_files = "[MEMORY.md] (score: 1.00) zebra in a file";
    let gateway = mock.client(pace());
    let ask = |gateway: Option<Gateway>| {
        let memory = memory.clone();
        async move {
            let found = search(gateway.as_ref(), &memory, "zebra", 5).await;
            found.unwrap().to_string()
        }
    };
    let mut peer = mock.greeted().await;
    let (answer, ()) = tokio::join!(ask(Some(gateway.clone())), peer.echo());
    assert_eq!(answer, "[memory/2026-11-20.md] (score: 0.98) zebra");
    // An index that is not built yet finds nothing.
    let (answer, ()) = tokio::join!(ask(Some(gateway.clone())), async {
        let search = peer.request().await;
        peer.answer(&search, &json!({"results": [], "warning": "to rebuild"}))
            .await;
    });
    assert_eq!(answer, of_files);
    drop((peer, mock));
    until_down(&gateway).await;
    assert_eq!(ask(Some(gateway)).await, of_files);
    assert_eq!(ask(None).await, of_files);
}

#[test]
fn pauses_double_up_to_the_longest_with_some_chance() {
    let ms = |duration: Duration| duration.as_millis();
    let pauses: Vec<u128> = connection::pauses(&Pace::default())
        .take(12)
        .map(ms)
        .collect();
    let longest = [
        500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000, 30000, 30000, 30000,
    ];
    for (pause, longest) in pauses.iter().zip(longest) {
        assert!((longest / 2..=longest).contains(pause), "{pauses:?}");
    }
    let others: Vec<u128> = connection::pauses(&Pace::default())
        .take(12)
        .map(ms)
        .collect();
    assert_ne!(pauses, others);
}

/// A gateway behind TLS that greets one client and answers one search; its port and certificate.
fn secure_gateway() -> (u16, rustls::pki_types::CertificateDer<'static>) {
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tokio_tungstenite::tungstenite::accept;

    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream = rustls::StreamOwned::new(connection, stream.unwrap());
            let Ok(mut socket) = accept(stream) else {
                continue;
            };
            let payload = json!({"nonce": NONCE, "ts": 1});
            let challenge =
                json!({"type": "event", "event": "connect.challenge", "payload": payload});
            let answers = [
                json!({"type": "hello-ok", "protocol": 4}),
                found("behind TLS"),
            ];
            socket.send(Message::text(challenge.to_string())).unwrap();
            for payload in answers {
                let Ok(Message::Text(request)) = socket.read() else {
                    break;
                };
                let request: Value = serde_json::from_str(&request).unwrap();
                let id = &request["id"];
                let frame = json!({"type": "res", "id": id, "ok": true, "payload": payload});
                socket.send(Message::text(frame.to_string())).unwrap();
            }
        }
    });
    (port, cert.der().clone())
}

#[tokio::test]
async fn elsewhere_tls_is_spoken_with_who_is_trusted() {
    let state = tempfile::tempdir().unwrap();
    let (port, certificate) = secure_gateway();
    let (_, other) = secure_gateway();
    let connect = |certificate, port| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let address = Address {
            host: Host::Domain("localhost".to_owned()),
            port,
            token: token(),
        };
        let device = Device::of(state.path()).unwrap();
        Gateway::start_with(address, device, Trust::Only(Arc::new(roots)), pace())
    };
    let answer = first(&connect(certificate.clone(), port), "x").await;
    assert_eq!(answer.unwrap(), "behind TLS");
    assert_eq!(
        why(&connect(other, port)).await,
        "OpenClaw's gateway is not reachable: its certificate is not trusted"
    );
    // Who speaks no TLS learns nothing.
    let mock = Mock::new().await;
    let gateway = connect(certificate, mock.address().port);
    let (mut stream, _) = mock.listener.accept().await.unwrap();
    let mut seen = [0; 4096];
    let count = stream.read(&mut seen).await.unwrap();
    assert!(count > 0);
    assert!(!String::from_utf8_lossy(&seen[..count]).contains(token().expose()));
    drop(stream);
    until_down(&gateway).await;
}

#[test]
fn handles_go_anywhere() {
    fn is<T: Clone + Send + Sync + 'static>() {}
    is::<Gateway>();
}
