//! The connection to a gateway: made, greeted, kept, and made again.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::{SinkExt, StreamExt};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, protocol::frame::coding::CloseCode};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, client_async_tls_with_config};

use super::device::Device;
use super::frame::{self, Frame};
use super::{Call, GatewayError, Pace, State};
use crate::config::openclaw::{Gateway as Address, Token};
use crate::facts::paths::words;

/// So many questions may be open.
pub(super) const MOST_OPEN: usize = 64;

/// No frame and no message is larger, in bytes.
const LARGEST_FRAME: usize = 4 << 20;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Answers = HashMap<String, oneshot::Sender<Result<serde_json::Value, GatewayError>>>;

/// What is connected to, and as whom.
#[derive(Debug)]
pub(super) struct There {
    pub(super) address: Address,
    pub(super) device: Device,
    pub(super) trust: Trust,
}

/// Whose certificates are believed.
#[derive(Debug, Clone)]
pub(super) enum Trust {
    /// Those of the system's authorities.
    System,
    /// Those of these authorities, with TLS wherever the gateway is.
    #[cfg(test)]
    Only(Arc<RootCertStore>),
}

/// Why there is no connection.
struct Failure {
    /// The same would be answered again.
    refused: bool,
    why: String,
}

impl Failure {
    fn of(why: impl Into<String>) -> Self {
        Self {
            refused: false,
            why: why.into(),
        }
    }
}

/// Why a connection ended.
enum End {
    /// Nobody wants it any more.
    Unused,
    /// It broke.
    Broken(String),
}

/// Holds a connection until nobody wants it any more.
pub(super) async fn keep(
    there: There,
    pace: Pace,
    mut questions: mpsc::Receiver<Call>,
    says: watch::Sender<State>,
) {
    let mut pauses = pauses(&pace);
    loop {
        let dialed = timeout(pace.connect, dial(&there)).await;
        let dialed = dialed.unwrap_or_else(|_| Err(Failure::of("it takes too long")));
        let failure = match dialed {
            Ok(socket) => {
                says.send_replace(State::Up);
                let since = Instant::now();
                match serve(socket, &mut questions, &there, &pace).await {
                    End::Unused => return,
                    End::Broken(why) => {
                        if since.elapsed() >= pace.stable {
                            pauses = self::pauses(&pace);
                        }
                        Failure::of(why)
                    }
                }
            }
            Err(failure) => failure,
        };
        let pause = pauses.next().unwrap_or(pace.longest_pause);
        let pause = if failure.refused {
            pace.longest_pause
        } else {
            pause
        };
        let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let (pid, error) = (std::process::id(), failure.why.as_str());
        tracing::warn!(pid, error, ms, "no connection to the gateway");
        says.send_replace(State::Down(failure.why.clone()));
        if !refuse_all(&mut questions, &failure.why, pause).await {
            return;
        }
    }
}

/// Pauses between half of a length and all of it, which doubles.
pub(super) fn pauses(pace: &Pace) -> impl Iterator<Item = Duration> + use<> {
    // The library adds up to as much again.
    ExponentialBuilder::new()
        .with_min_delay(pace.shortest_pause / 2)
        .with_max_delay(pace.longest_pause / 2)
        .with_jitter()
        .without_max_times()
        .build()
}

/// Answers questions that nobody can be asked, for so long. Whether somebody could still have one.
async fn refuse_all(questions: &mut mpsc::Receiver<Call>, why: &str, pause: Duration) -> bool {
    let over = sleep(pause);
    tokio::pin!(over);
    loop {
        tokio::select! {
            () = &mut over => return true,
            call = questions.recv() => match call {
                None => return false,
                Some(call) => {
                    let error = GatewayError::NotReachable(why.to_owned());
                    let _ = call.answer.send(Err(error));
                }
            },
        }
    }
}

/// A connection that was greeted.
async fn dial(there: &There) -> Result<Socket, Failure> {
    let There { address, trust, .. } = there;
    let plain = address.is_local() && matches!(trust, Trust::System);
    let scheme = if plain { "ws" } else { "wss" };
    let connector = if plain {
        Connector::Plain
    } else {
        Connector::Rustls(tls(trust)?)
    };
    let stream = reach(address).await?;
    let url = format!("{scheme}://{}:{}/", address.host, address.port);
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST_FRAME))
        .max_frame_size(Some(LARGEST_FRAME));
    let upgraded = client_async_tls_with_config(url, stream, Some(config), Some(connector)).await;
    let (mut socket, _) = upgraded.map_err(|error| Failure::of(reason(&error)))?;
    greet(&mut socket, there).await?;
    Ok(socket)
}

/// A connection to where the gateway listens. What is called local is on this machine, whatever a name
/// is said to mean.
async fn reach(address: &Address) -> Result<TcpStream, Failure> {
    let failed = |error: &io::Error| Failure::of(words(error));
    let name = address.host.to_string();
    let name = name.trim_matches(['[', ']']);
    let found = tokio::net::lookup_host((name, address.port)).await;
    let found: Vec<SocketAddr> = found
        .map_err(|error| failed(&error))?
        .filter(|found| !address.is_local() || found.ip().is_loopback())
        .collect();
    let mut failure = Failure::of("its name has no address");
    for found in found {
        match TcpStream::connect(found).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = failed(&error),
        }
    }
    Err(failure)
}

fn tls(trust: &Trust) -> Result<Arc<ClientConfig>, Failure> {
    let roots = match trust {
        Trust::System => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        }
        #[cfg(test)]
        Trust::Only(roots) => Arc::clone(roots),
    };
    if roots.is_empty() {
        return Err(Failure::of("the system trusts no certificate authority"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| Failure::of("TLS cannot be spoken"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Answers the challenge, and waits for the greeting.
async fn greet(socket: &mut Socket, there: &There) -> Result<(), Failure> {
    const ID: &str = "connect";
    let token = &there.address.token;
    let challenge = hear(socket, token).await?.challenge();
    let challenge = challenge.ok_or_else(|| Failure::of("it begins without a challenge"))?;
    let params = frame::connect(&challenge, token, &there.device);
    let request = Message::text(frame::request(ID, "connect", &params));
    let sent = socket.send(request).await;
    sent.map_err(|error| Failure::of(reason(&error)))?;
    loop {
        let Frame::Response { id, outcome } = hear(socket, token).await? else {
            continue;
        };
        return match outcome {
            _ if id != ID => Err(Failure::of("it answers what nobody asked")),
            Ok(payload) if frame::is_greeting(&payload) => Ok(()),
            Ok(_) => Err(Failure {
                refused: true,
                why: "it speaks another protocol".to_owned(),
            }),
            Err(refusal) => Err(Failure {
                refused: true,
                why: refusal.shown(token),
            }),
        };
    }
}

/// The next frame, before the greeting.
async fn hear(socket: &mut Socket, token: &Token) -> Result<Frame, Failure> {
    loop {
        let message = socket.next().await;
        if let Some(frame) = understand(message, token).map_err(Failure::of)? {
            return Ok(frame);
        }
    }
}

/// A frame, if a message is one; none if it says nothing.
fn understand(
    message: Option<Result<Message, Error>>,
    token: &Token,
) -> Result<Option<Frame>, String> {
    const GARBAGE: &str = "it sends what is no frame of its protocol";
    match message {
        Some(Ok(Message::Text(text))) => match Frame::parse(&text) {
            Some(frame) => Ok(Some(frame)),
            None => Err(GARBAGE.to_owned()),
        },
        Some(Ok(Message::Binary(_))) => Err(GARBAGE.to_owned()),
        Some(Ok(Message::Close(Some(close)))) if !close.reason.is_empty() => {
            Err(format!("it closes: {}", frame::shown(&close.reason, token)))
        }
        Some(Ok(Message::Close(_))) | None => Err("it closes".to_owned()),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Err(error)) => Err(reason(&error)),
    }
}

/// Asks questions and hands out answers, until the connection breaks.
async fn serve(
    mut socket: Socket,
    questions: &mut mpsc::Receiver<Call>,
    there: &There,
    pace: &Pace,
) -> End {
    let mut answers = Answers::new();
    let mut asked = 0_u64;
    let mut heard = Instant::now();
    let mut silence = interval(pace.quiet);
    silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once.
    silence.tick().await;
    loop {
        let message = tokio::select! {
            call = questions.recv() => {
                let Some(call) = call else {
                    let _ = timeout(pace.request, socket.close(None)).await;
                    return End::Unused;
                };
                // Who waited too long is gone.
                answers.retain(|_, answer| !answer.is_closed());
                if answers.len() >= MOST_OPEN {
                    let _ = call.answer.send(Err(GatewayError::Busy));
                    continue;
                }
                asked += 1;
                let id = asked.to_string();
                let request = frame::request(&id, call.method, &call.params);
                answers.insert(id, call.answer);
                Message::text(request)
            }
            message = socket.next() => {
                heard = Instant::now();
                match understand(message, &there.address.token) {
                    Ok(Some(frame)) => hand_out(frame, &mut answers, there),
                    Ok(None) => {}
                    Err(why) => {
                        let close = CloseFrame { code: CloseCode::Protocol, reason: "".into() };
                        let _ = timeout(pace.request, socket.close(Some(close))).await;
                        return End::Broken(why);
                    }
                }
                continue;
            }
            _ = silence.tick() => {
                if heard.elapsed() > pace.quiet * 2 {
                    return End::Broken("it fell silent".to_owned());
                }
                Message::Ping(Vec::new().into())
            }
        };
        match timeout(pace.request, socket.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return End::Broken(reason(&error)),
            Err(_) => return End::Broken("it does not listen".to_owned()),
        }
    }
}

/// An answer to who asked. What nobody waits for is passed over: it may be late.
fn hand_out(frame: Frame, answers: &mut Answers, there: &There) {
    let Frame::Response { id, outcome } = frame else {
        return;
    };
    if let Some(answer) = answers.remove(&id) {
        let token = &there.address.token;
        let outcome = outcome.map_err(|refusal| GatewayError::Refused(refusal.shown(token)));
        let _ = answer.send(outcome);
    }
}

fn reason(error: &Error) -> String {
    match error {
        Error::Io(error) => {
            let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
            match tls {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    "its certificate is not trusted".to_owned()
                }
                Some(_) => "it does not speak TLS".to_owned(),
                None => words(error),
            }
        }
        Error::Capacity(_) => format!("it sends more than {} MiB at once", LARGEST_FRAME >> 20),
        Error::ConnectionClosed | Error::AlreadyClosed => "it closes".to_owned(),
        Error::Http(response) => format!("it answers {}", response.status().as_u16()),
        Error::Tls(_) => "it does not speak TLS".to_owned(),
        _ => "it does not speak WebSocket".to_owned(),
    }
}
