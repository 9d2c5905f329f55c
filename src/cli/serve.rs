//! `serve`: the doors that many clients share, on the loopback interface.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use super::mcp::Served;
use super::standing::Standing;
use super::{Outcome, offers};
use crate::config::depth;
use crate::engine::decision::FaultClass;
use crate::exit::Exit;
use crate::facts::paths::words;
use crate::gate::Unread;
use crate::gate::event::EventName;
use crate::http::metrics::Metrics;
use crate::http::refusals::{Cause, Ledger};
use crate::http::token::{self, Tokens};
use crate::http::{self, End, House, Limits, Loopback};
use crate::mcp::{About, Bridge, Gates, http as mcp, stdio};

/// What models are told of the server.
const INSTRUCTIONS: &str = "Tools of this machine, each call judged by policies; what is blocked says why, and what a person can do.";

/// What still runs in the gate at the end is left alone after so long.
const LEFT: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "`/mcp` and `/metrics` need a bearer token: what `COPILOT_BRIDGE_TOKEN` says, else what is in the \
    file `token` of the state directory, or one of `copilot-bridge token mint`. `/healthz` needs none."
)]
pub(crate) struct Args {
    /// Where to listen: an address of the loopback interface, and a port; 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:48080")]
    listen: Loopback,
    #[command(flatten)]
    served: Served,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let said = match std::env::var(token::VARIABLE) {
        Ok(said) => Some(said),
        Err(std::env::VarError::NotPresent) => None,
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(format!("the token in `{}` is no text", token::VARIABLE).into());
        }
    };
    let workspace = args.served.workspace()?;
    let place = args.served.place();
    let tokens = Tokens::of(&place.state(), said.as_deref())?;
    let gates = Arc::new(Standing::new(place, &workspace, false));
    let about = About {
        name: "copilot-bridge".to_owned(),
        instructions: INSTRUCTIONS.to_owned(),
        workspace: workspace
            .to_str()
            .ok_or("the working directory is no UTF-8")?
            .to_owned(),
        depth: depth(|name| std::env::var(name).ok()),
        private: false,
    };
    let limits = Limits::default();
    let metrics = Arc::new(Metrics::default());
    let bridge = Bridge::new(about, Arc::<Standing>::clone(&gates))
        .metered(Arc::clone(&metrics))
        .bounded(limits.request);
    let offered: Arc<dyn Gates> = Arc::<Standing>::clone(&gates);
    let end = End::default();
    let house = House {
        rooms: mcp::routes(
            offers::all(bridge, &offered, &workspace, place)?,
            &limits,
            end.come.clone(),
        ),
        tokens,
        limits,
        metrics,
        ledger: Arc::new(Recorder { gates }),
    };
    let runtime = stdio::runtime().map_err(|error| words(&error))?;
    let served = runtime.block_on(listen(args.listen, house, end));
    runtime.shutdown_timeout(LEFT);
    served?;
    Ok(Exit::Ok)
}

async fn listen(address: Loopback, house: House, end: End) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot wait for signals: {}", words(&error));
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (listener, address) = address.listen()?;
    let _ = writeln!(
        anstream::stderr(),
        "listening on http://{address}{}",
        mcp::PATH
    );
    let asked = end.asked.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = writeln!(
            anstream::stderr(),
            "ending: what runs has {} s to finish",
            Limits::default().drain.as_secs()
        );
        asked.cancel();
    });
    http::serve(listener, house, end).await;
    Ok(())
}

/// Writes what was refused before the gate into the same record.
#[derive(Debug)]
struct Recorder {
    gates: Arc<Standing>,
}

impl Ledger for Recorder {
    fn refused(&self, cause: Cause, times: u64) {
        let began = Instant::now();
        let unread = Unread {
            event: EventName::PreToolUse,
            dialect: "http",
        };
        let text = format!(
            "refused over HTTP: {}; {times} times [{}]",
            cause.text(),
            cause.name()
        );
        let gate = self.gates.current();
        // It was refused in any case, whether that is in the record or not.
        let _ = gate.refuse(&unread, FaultClass::InputError, &text, began.elapsed());
    }
}
