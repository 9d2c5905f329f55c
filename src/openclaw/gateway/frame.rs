//! The frames of the protocol, as OpenClaw 2026.9.6 speaks it.

use serde_json::{Value, json};

use super::device::{Claim, Device};
use crate::config::openclaw::Token;
use crate::openclaw::memory::Hit;

/// The version that is spoken.
const PROTOCOL: u64 = 4;

/// What a client of this kind is called: the names are a closed list.
const CLIENT: &str = "gateway-client";
const MODE: &str = "backend";
const ROLE: &str = "operator";

/// What is asked for: to read.
const SCOPES: [&str; 1] = ["operator.read"];

/// No words of a gateway are shown longer, in characters.
const SHOWN: usize = 200;

/// A frame from the gateway.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    /// Something happened.
    Event { name: String, payload: Value },
    /// The answer to the request of that id, or why there is none.
    Response {
        id: String,
        outcome: Result<Value, Refusal>,
    },
}

/// A request that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The finest code that there is.
    pub(super) code: String,
    /// The gateway's words.
    pub(super) message: String,
}

impl Refusal {
    /// The gateway's words and its code.
    pub(super) fn shown(&self, token: &Token) -> String {
        shown(&format!("{} ({})", self.message, self.code), token)
    }
}

/// What a gateway asks of who connects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    nonce: String,
    ts: i64,
}

impl Frame {
    /// A frame, if it is one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut frame: Value = serde_json::from_str(text).ok()?;
        let string = |value: &Value| value.as_str().map(str::to_owned);
        match frame.get("type")?.as_str()? {
            "event" => Some(Self::Event {
                name: string(frame.get("event")?)?,
                payload: frame
                    .get_mut("payload")
                    .map(Value::take)
                    .unwrap_or_default(),
            }),
            "res" => {
                let id = string(frame.get("id")?)?;
                let outcome = if frame.get("ok")?.as_bool()? {
                    Ok(frame
                        .get_mut("payload")
                        .map(Value::take)
                        .unwrap_or_default())
                } else {
                    let error = frame.get("error")?;
                    let code = error.pointer("/details/code").or(error.get("code"))?;
                    Err(Refusal {
                        code: string(code)?,
                        message: string(error.get("message")?)?,
                    })
                };
                Some(Self::Response { id, outcome })
            }
            _ => None,
        }
    }

    /// The challenge that a gateway begins with.
    pub(super) fn challenge(&self) -> Option<Challenge> {
        /// No nonce is longer, in bytes.
        const LONGEST: usize = 256;
        let Self::Event { name, payload } = self else {
            return None;
        };
        let nonce = payload.get("nonce")?.as_str()?;
        // With a bar in it, one signature could be read as another's.
        let is_nonce = (1..=LONGEST).contains(&nonce.len())
            && nonce
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'|');
        (name == "connect.challenge" && is_nonce).then_some(Challenge {
            nonce: nonce.to_owned(),
            ts: payload.get("ts")?.as_i64()?,
        })
    }
}

/// A request.
pub(super) fn request(id: &str, method: &str, params: &Value) -> String {
    json!({"type": "req", "id": id, "method": method, "params": params}).to_string()
}

/// The answer to a challenge: who we are, and what we want.
pub(super) fn connect(challenge: &Challenge, token: &Token, device: &Device) -> Value {
    let platform = std::env::consts::OS;
    let claim = Claim {
        client: CLIENT,
        mode: MODE,
        role: ROLE,
        scopes: &SCOPES,
        signed_at: challenge.ts,
        token: token.expose(),
        nonce: &challenge.nonce,
        platform,
    };
    let version = env!("CARGO_PKG_VERSION");
    json!({
        "minProtocol": PROTOCOL,
        "maxProtocol": PROTOCOL,
        "client": {"id": CLIENT, "mode": MODE, "version": version, "platform": platform},
        "role": ROLE,
        "scopes": SCOPES,
        "caps": [],
        "auth": {"token": token.expose()},
        "userAgent": format!("copilot-bridge/{version}"),
        "device": {
            "id": device.id(),
            "publicKey": device.public_key(),
            "signature": device.sign(&claim),
            "signedAt": challenge.ts,
            "nonce": challenge.nonce,
        },
    })
}

/// Whether a greeting is one, and of our protocol.
pub(super) fn is_greeting(payload: &Value) -> bool {
    payload.get("type").and_then(Value::as_str) == Some("hello-ok")
        && payload.get("protocol").and_then(Value::as_u64) == Some(PROTOCOL)
}

/// What a search found, of the memory itself.
pub(super) fn hits(payload: &Value) -> Option<Vec<Hit>> {
    let mut hits = Vec::new();
    for result in payload.get("results")?.as_array()? {
        let source = result.get("source").and_then(Value::as_str);
        let hit = Hit {
            file: result.get("path")?.as_str()?.to_owned(),
            text: result.get("snippet")?.as_str()?.trim().to_owned(),
            score: result.get("score")?.as_f64()?,
        };
        // It may search transcripts besides.
        if source.is_none_or(|source| source == "memory") {
            hits.push(hit);
        }
    }
    Some(hits)
}

/// The gateway's words, without what could steer a terminal, and not if they tell the token.
pub(super) fn shown(text: &str, token: &Token) -> String {
    if text.contains(token.expose()) {
        return "its words hold the token".to_owned();
    }
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(SHOWN).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_from_garbage() {
        let event = r#"{"type":"event","event":"tick","payload":{"ts":1},"seq":3}"#;
        assert!(matches!(Frame::parse(event), Some(Frame::Event { name, .. }) if name == "tick"));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for garbage in [
            "",
            "null",
            "[]",
            "{}",
            "\u{0}",
            r#"{"type":"req","id":"1","method":"x","params":{}}"#,
            r#"{"type":"event"}"#,
            r#"{"type":"res","id":1,"ok":true}"#,
            r#"{"type":"res","id":"1"}"#,
            r#"{"type":"res","id":"1","ok":"yes"}"#,
            r#"{"type":"res","id":"1","ok":false}"#,
            r#"{"type":"res","id":"1","ok":true"#,
            deep.as_str(),
        ] {
            let shown: String = garbage.chars().take(60).collect();
            assert_eq!(Frame::parse(garbage), None, "{shown}");
        }
    }

    #[test]
    fn the_finest_code_of_a_refusal_is_shown_and_never_the_token() {
        let token = Token::new("opensesame").unwrap();
        let frame = r#"{"type":"res","id":"1","ok":false,"error":{"code":"INVALID_REQUEST","message":"protocol\u001b mismatch","details":{"code":"PROTOCOL_MISMATCH"}}}"#;
        let Some(Frame::Response {
            outcome: Err(refusal),
            ..
        }) = Frame::parse(frame)
        else {
            panic!("no refusal");
        };
        assert_eq!(
            refusal.shown(&token),
            "protocol\u{fffd} mismatch (PROTOCOL_MISMATCH)"
        );
        let told = Refusal {
            code: "X".to_owned(),
            message: "no opensesame here".to_owned(),
        };
        assert_eq!(told.shown(&token), "its words hold the token");
    }

    #[test]
    fn a_challenge_has_a_nonce_that_can_be_signed() {
        let challenge = |nonce: &str| {
            let payload = json!({"nonce": nonce, "ts": 7});
            let name = "connect.challenge".to_owned();
            Frame::Event { name, payload }.challenge()
        };
        assert!(challenge("b0014079-8375-423a-b952-959dd7696ad2").is_some());
        for nonce in ["", "a|b", "a b", "ä", "x\n", "n".repeat(257).as_str()] {
            assert_eq!(challenge(nonce), None, "{nonce}");
        }
    }

    #[test]
    fn transcripts_are_no_memory() {
        let result = |source: &str| {
            json!({"path": "memory/2026-11-20.md", "startLine": 1, "endLine": 4, "score": 0.98,
                "textScore": 0.51, "snippet": "- zebra\n", "source": source})
        };
        let found = hits(&json!({"results": [result("sessions"), result("memory")]})).unwrap();
        let hit = Hit {
            file: "memory/2026-11-20.md".to_owned(),
            text: "- zebra".to_owned(),
            score: 0.98,
        };
        assert_eq!(found, [hit]);
        assert_eq!(hits(&json!({})), None);
        assert_eq!(hits(&json!({"results": [{"path": "x"}]})), None);
    }
}
