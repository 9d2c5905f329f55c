//! An address that only this machine reaches (R-003-50).

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::{TcpListener, TcpSocket};

use crate::facts::paths::words;

/// So many connections wait to be taken. Whoever finds no room tries again after a second.
const WAITING: u32 = 1024;

/// An address of the loopback interface, and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loopback(SocketAddr);

impl Loopback {
    /// Listens there, within a runtime of tokio. Port 0 is any that is free.
    ///
    /// # Errors
    /// In words, if the port is taken.
    pub fn listen(self) -> Result<(TcpListener, SocketAddr), String> {
        let failed = |error: io::Error| format!("cannot listen on `{self}`: {}", words(&error));
        let listener = self.socket().map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok((listener, address))
    }

    fn socket(self) -> io::Result<TcpListener> {
        let socket = match self.0 {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Else nobody could serve again before the last connection is forgotten.
        socket.set_reuseaddr(true)?;
        socket.bind(self.0)?;
        socket.listen(WAITING)
    }
}

impl FromStr for Loopback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = match text.strip_prefix("localhost:") {
            Some(port) => port
                .parse()
                .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                .ok(),
            None => text.parse().ok(),
        };
        let address = address.ok_or_else(|| {
            format!("`{text}` is no address with a port: `127.0.0.1:48080` is one")
        })?;
        if !address.ip().is_loopback() {
            return Err(format!(
                "`{text}` is not on the loopback interface: other machines could reach it; use an SSH tunnel"
            ));
        }
        Ok(Self(address))
    }
}

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_let_in() {
        for (text, expected) in [
            ("127.0.0.1:48080", Ok("127.0.0.1:48080")),
            ("127.9.9.9:1", Ok("127.9.9.9:1")),
            ("[::1]:0", Ok("[::1]:0")),
            ("localhost:0", Ok("127.0.0.1:0")),
            (
                "0.0.0.0:48080",
                Err(
                    "`0.0.0.0:48080` is not on the loopback interface: other machines could reach it; use an SSH tunnel",
                ),
            ),
            (
                "[::]:1",
                Err(
                    "`[::]:1` is not on the loopback interface: other machines could reach it; use an SSH tunnel",
                ),
            ),
            (
                "[::ffff:127.0.0.1]:1",
                Err(
                    "`[::ffff:127.0.0.1]:1` is not on the loopback interface: other machines could reach it; use an SSH tunnel",
                ),
            ),
            (
                "127.0.0.1",
                Err("`127.0.0.1` is no address with a port: `127.0.0.1:48080` is one"),
            ),
            (
                "example.com:80",
                Err("`example.com:80` is no address with a port: `127.0.0.1:48080` is one"),
            ),
        ] {
            let found = text.parse::<Loopback>().map(|one| one.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
