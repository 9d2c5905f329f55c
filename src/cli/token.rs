//! `token`: the tokens that `serve` lets in.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

use super::Outcome;
use super::place::Place;
use crate::exit::Exit;
use crate::http::token;

/// Make, replace and find the tokens that `serve` lets in
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print a token that counts for a while
    Mint(Mint),
    /// Put a new token in place of the installation's, and end all that were minted
    Rotate(State),
    /// Print where the installation's token is, made if there is none yet
    Path(State),
}

#[derive(Debug, clap::Args)]
struct Mint {
    /// How long it counts: `90s`, `15m`, `1h`, `7d`; at most 30 days
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = ttl)]
    ttl: Duration,
    #[command(flatten)]
    place: State,
}

#[derive(Debug, clap::Args)]
struct State {
    /// The directory that record, key and tokens are kept in
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.verb {
        Verb::Mint(mint) => {
            let now = Timestamp::now().as_second();
            let token = token::mint(&mint.place.dir(), mint.ttl, now)?;
            writeln!(out, "{token}")?;
        }
        Verb::Rotate(place) => {
            let state = place.dir();
            token::rotate(&state)?;
            let path = token::path(&state);
            writeln!(out, "a new token is in {}", path.display())?;
        }
        Verb::Path(place) => {
            let state = place.dir();
            token::create(&state)?;
            writeln!(out, "{}", token::path(&state).display())?;
        }
    }
    Ok(Exit::Ok)
}

impl State {
    fn dir(&self) -> PathBuf {
        let place = Place {
            policies: None,
            state: self.state.clone(),
        };
        place.state()
    }
}

fn ttl(text: &str) -> Result<Duration, String> {
    // A day is 24 hours here, whatever clocks are put forward.
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u32>().ok());
    let ttl = match days {
        Some(days) => Duration::from_secs(u64::from(days) * 24 * 60 * 60),
        None => text
            .parse::<SignedDuration>()
            .ok()
            .and_then(|span| Duration::try_from(span).ok())
            .ok_or("a time is written like `15m`, `1h` or `7d`")?,
    };
    if ttl.as_secs() == 0 || ttl > token::LONGEST_TTL {
        return Err("a token counts for a second at least, and for 30 days at most".to_owned());
    }
    Ok(ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounded() {
        for (text, expected) in [
            ("1h", Ok(3600)),
            ("15m", Ok(900)),
            ("90s", Ok(90)),
            ("1h 30m", Ok(5400)),
            ("30d", Ok(2_592_000)),
            (
                "31d",
                Err("a token counts for a second at least, and for 30 days at most"),
            ),
            (
                "0s",
                Err("a token counts for a second at least, and for 30 days at most"),
            ),
            ("-1h", Err("a time is written like `15m`, `1h` or `7d`")),
            ("soon", Err("a time is written like `15m`, `1h` or `7d`")),
            ("", Err("a time is written like `15m`, `1h` or `7d`")),
        ] {
            let found = ttl(text).map(|ttl| ttl.as_secs());
            assert_eq!(
                found.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|e| *e),
                "{text}"
            );
        }
    }
}
