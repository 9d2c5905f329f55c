//! Where OpenClaw is: its folders, and its gateway (R-000-48).
//!
//! The variables are OpenClaw's own. What is read there stays read-only and contained, whatever they say.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use url::Host;

use super::ConfigError;

/// `OPENCLAW_HOST`: where the gateway listens: a name or an address, without port.
pub const HOST: &str = "OPENCLAW_HOST";
/// `OPENCLAW_PORT`: the gateway's port, 1 to 65535.
pub const PORT: &str = "OPENCLAW_PORT";
/// `OPENCLAW_GATEWAY_TOKEN`: the gateway's shared token. Without it, no gateway is asked.
pub const GATEWAY_TOKEN: &str = "OPENCLAW_GATEWAY_TOKEN";
/// `OPENCLAW_STATE_DIR`: OpenClaw's folder in place of `~/.openclaw`; absolute.
pub const STATE_DIR: &str = "OPENCLAW_STATE_DIR";
/// `OPENCLAW_WORKSPACE_DIR`: the agent's workspace in place of `workspace` in that folder; absolute.
pub const WORKSPACE_DIR: &str = "OPENCLAW_WORKSPACE_DIR";

/// The port that OpenClaw documents.
const DEFAULT_PORT: u16 = 18789;

/// No token is longer, in bytes.
const TOKEN_LIMIT: usize = 4096;

/// How OpenClaw's gateway is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Its host.
    pub host: Host,
    /// Its port, never 0.
    pub port: u16,
    /// What it knows us by.
    pub token: Token,
}

impl Gateway {
    /// Whether it is on this machine: everywhere else, TLS is spoken.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match &self.host {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => IpAddr::V4(*address).is_loopback(),
            Host::Ipv6(address) => IpAddr::V6(*address).is_loopback(),
        }
    }
}

/// A token: printable ASCII without blanks, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token, if it is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_token = (1..=TOKEN_LIMIT).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Self(text.to_owned()))
    }

    /// What is sent.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The gateway that the environment names; none without a token.
///
/// # Errors
/// If a variable has a value that cannot be used.
pub fn gateway(
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Option<Gateway>, ConfigError> {
    let said = |name| variable(name).filter(|value| !value.trim().is_empty());
    let host = match said(HOST) {
        Some(value) => host(&value)?,
        None => Host::Ipv4(std::net::Ipv4Addr::LOCALHOST),
    };
    let port = match said(PORT) {
        Some(value) => {
            let port = value.trim().parse().map(NonZeroU16::get);
            port.map_err(|_| ConfigError {
                variable: PORT,
                value,
                expected: "a port, 1 to 65535".to_owned(),
            })?
        }
        None => DEFAULT_PORT,
    };
    let Some(token) = said(GATEWAY_TOKEN) else {
        return Ok(None);
    };
    let token = Token::new(token.trim()).ok_or_else(|| ConfigError {
        variable: GATEWAY_TOKEN,
        // An error is no place for a token.
        value: "…".to_owned(),
        expected: format!("at most {TOKEN_LIMIT} printable ASCII characters without blanks"),
    })?;
    Ok(Some(Gateway { host, port, token }))
}

/// A folder that a variable names.
///
/// # Errors
/// If it is not absolute.
pub fn folder(
    name: &'static str,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(value) = variable(name).filter(|value| !value.trim().is_empty()) else {
        return Ok(None);
    };
    if !Path::new(&value).is_absolute() || value.contains('\0') {
        return Err(ConfigError {
            variable: name,
            value,
            expected: "an absolute path".to_owned(),
        });
    }
    Ok(Some(PathBuf::from(value)))
}

fn host(value: &str) -> Result<Host, ConfigError> {
    let text = value.trim();
    // An IPv6 address may stand without its brackets.
    let parsed = match text.parse() {
        Ok(address) => Ok(Host::Ipv6(address)),
        Err(_) => Host::parse(text),
    };
    parsed.map_err(|_| ConfigError {
        variable: HOST,
        value: value.to_owned(),
        expected: "a name or an address, without scheme and port".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&'static str, &str)]) -> Result<Option<Gateway>, ConfigError> {
        gateway(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_gateway_needs_a_token_only() {
        assert_eq!(with(&[]), Ok(None));
        assert_eq!(with(&[(HOST, "gateway.example"), (PORT, "1")]), Ok(None));
        let found = with(&[(GATEWAY_TOKEN, " t0ken\n")]).unwrap().unwrap();
        assert_eq!(found.host.to_string(), "127.0.0.1");
        assert_eq!(found.port, 18789);
        assert_eq!(found.token.expose(), "t0ken");
        assert!(found.is_local());
        assert!(!format!("{found:?}").contains("t0ken"));
    }

    #[test]
    fn only_this_machine_is_local() {
        for (host, local) in [
            ("localhost", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("[::1]", true),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("localhost.example", false),
            ("gateway.example", false),
        ] {
            let found = with(&[(HOST, host), (GATEWAY_TOKEN, "t")]).unwrap();
            assert_eq!(found.unwrap().is_local(), local, "{host}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_or_without_a_token() {
        for (name, value, expected) in [
            (
                HOST,
                "http://a",
                "`OPENCLAW_HOST` is `http://a`, but has to be a name or an address, without scheme and port",
            ),
            (
                HOST,
                "a:1",
                "`OPENCLAW_HOST` is `a:1`, but has to be a name or an address, without scheme and port",
            ),
            (
                HOST,
                "a/b@c",
                "`OPENCLAW_HOST` is `a/b@c`, but has to be a name or an address, without scheme and port",
            ),
            (
                PORT,
                "0",
                "`OPENCLAW_PORT` is `0`, but has to be a port, 1 to 65535",
            ),
            (
                PORT,
                "65536",
                "`OPENCLAW_PORT` is `65536`, but has to be a port, 1 to 65535",
            ),
            (
                PORT,
                "-1",
                "`OPENCLAW_PORT` is `-1`, but has to be a port, 1 to 65535",
            ),
            (
                GATEWAY_TOKEN,
                "two words",
                "`OPENCLAW_GATEWAY_TOKEN` is `…`, but has to be at most 4096 printable ASCII characters without blanks",
            ),
        ] {
            let error = with(&[(name, value)]).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_folder_is_absolute() {
        let of = |value: &str| folder(STATE_DIR, |_| Some(value.to_owned()));
        assert_eq!(of(" "), Ok(None));
        assert_eq!(of("/srv/openclaw"), Ok(Some("/srv/openclaw".into())));
        assert_eq!(
            of("claw").unwrap_err().to_string(),
            "`OPENCLAW_STATE_DIR` is `claw`, but has to be an absolute path"
        );
    }
}
